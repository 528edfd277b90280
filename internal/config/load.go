package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"strandline/datasets"
	"strandline/dnsserver"
	"strandline/router"
)

// Load reads the configuration of the daemons from a file, and the files that it
// names: world, clients, zones and a data set of latencies. Their names are
// relative to the configuration's directory. The error joins every problem of
// all of them, as Decode describes.
func Load(file string) (*Config, error) {
	src, err := readFile(file, maxBytes)
	if err != nil {
		return nil, err
	}
	return Parse(file, src)
}

// maxDataBytes limits the files that a configuration names: room for some ten
// million clients.
const maxDataBytes = 512 << 20

// readFile reads a file of at most limit bytes; what is longer, or has no end,
// is left at one byte more for parse to refuse.
func readFile(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// Parse is Load with the text of the configuration given. file names it in
// errors, and relative names start from its directory.
func Parse(file string, src []byte) (*Config, error) {
	d, err := parse(file, src)
	if err != nil {
		return nil, err
	}
	c := &Config{File: file}
	d.decode(c)
	l := loader{d, c}
	l.world()
	l.clients()
	l.zones()
	if c.World != nil {
		d.adopt(c.checkAgainstWorld(), "")
	}
	if len(d.problems) == 0 {
		d.adopt(c.rehearse(), "")
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// rehearse builds what the daemon would serve at first, so that whatever does
// not fit together shows before it is deployed.
func (c *Config) rehearse() error {
	plan, err := router.Replan(c.World, nil)
	if err != nil {
		return err
	}
	table, err := router.NewTable(1, c.World, plan, c.Clients, c.Router.DefaultFrontend, nil)
	if err != nil {
		return err
	}
	_, err = dnsserver.Compile(c.Zones, c.Steers(), table)
	return err
}

// loader reads the files that a configuration names. What cannot be read is a
// problem at the key that names it.
type loader struct {
	d *document
	c *Config
}

// path makes a name in the configuration relative to its directory.
func (l *loader) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(l.d.file), name)
}

// read returns the content of the file that key names.
func (l *loader) read(key, name string) (file string, src []byte, ok bool) {
	file = l.path(name)
	src, err := readFile(file, maxDataBytes)
	if err == nil && len(src) > maxDataBytes {
		err = fmt.Errorf("it has more than %d bytes", maxDataBytes)
	}
	if err != nil {
		l.unreadable(key, file, err)
	}
	return file, src, err == nil
}

func (l *loader) unreadable(key, file string, err error) {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	l.d.adopt(&datasets.Problem{Key: key, Msg: fmt.Sprintf("cannot read %s: %v", file, err),
		Fix: "name a file that exists; names are relative to the configuration's directory"}, "")
}

// world reads the routing problem and puts measured latencies into it.
func (l *loader) world() {
	source := l.c.Router.World
	var world *router.World
	switch {
	case source.Inline != nil:
		world = source.Inline
		if err := world.Validate(); err != nil {
			l.d.adopt(err, "router.world")
			return
		}
	case source.File != "":
		file, src, ok := l.read("router.world", source.File)
		if !ok {
			return
		}
		var err error
		if world, err = decodeWorld(file, src); err != nil {
			l.d.adopt(err, "")
			return
		}
	default:
		return
	}
	if l.c.Router.Latency != "" {
		world = l.measured(world)
	}
	l.c.World = world
}

// measured replaces the latency matrix by the rows of a data set.
func (l *loader) measured(world *router.World) *router.World {
	const key, fix = "router.latency", "name the directory of a data set that holds latency rows, or remove the key to use the world's own latencies"
	name := l.c.Router.Latency
	if name == "live" {
		l.d.adopt(&datasets.Problem{Key: key, Msg: "latencies that are measured while serving are not supported", Fix: fix}, "")
		return world
	}
	set, err := datasets.Open(l.path(name))
	if err != nil {
		l.d.adopt(&datasets.Problem{Key: key, Msg: fmt.Sprintf("cannot open the data set: %v", err), Fix: fix}, "")
		return world
	}
	rows, err := datasets.All[datasets.Latency](set)
	if err != nil {
		l.d.adopt(err, "")
		return world
	}
	regions := router.RegionsFile{Frontends: world.Frontends, Regions: world.Regions, Classes: world.Classes, Objective: world.Objective}
	measured, notes, err := regions.World(rows, nil)
	if err != nil {
		if len(notes) > 0 {
			fix := strings.Join(notes, "; ")
			err = errors.Join(err, errors.New(fix))
		}
		l.d.adopt(&datasets.Problem{Key: key, Msg: "the rows of " + name + " do not make a world: " + strings.Join(strings.Split(err.Error(), "\n"), "; "), Fix: fix}, "")
		return world
	}
	l.c.Notes = notes
	return measured
}

// clients reads and checks who belongs to which frontend.
func (l *loader) clients() {
	var frontends []string
	if l.c.World != nil {
		frontends = frontendNames(l.c.World)
	}
	var clients []Client
	switch source := l.c.Router.Clients; {
	case l.c.World == nil:
		return // the names could not be checked, and what is wrong is known already
	case source.File != "":
		file, src, ok := l.read("router.clients", source.File)
		if !ok {
			return
		}
		var err error
		clients, err = readClients(file, src, frontends)
		l.d.adopt(err, "")
	default:
		clients = source.Inline
		l.d.adopt(errors.Join(checkClients(clients, frontends, func(i int, column string) datasets.Problem {
			key := index("router.clients", i) + "." + column
			return datasets.Problem{Key: key, Line: l.d.nearest(key).line}
		})...), "")
	}
	for _, c := range clients {
		l.c.Clients = append(l.c.Clients, router.Client{Prefix: c.Prefix, Frontend: c.Frontend})
	}
}

// zones parses the zones.
func (l *loader) zones() {
	if l.c.DNS == nil {
		return
	}
	for i, z := range l.c.DNS.Zones {
		key := index("dns.zones", i)
		switch {
		case z.File != "" && z.Records == "":
			if file, src, ok := l.read(key+".file", z.File); ok {
				l.zone(z.Name, file, src, nil)
			}
		case z.File == "" && z.Records != "":
			l.zone(z.Name, l.d.file, []byte(z.Records), func(p *datasets.Problem) {
				p.Key = strings.TrimSuffix(key+".records: "+p.Key, ": ")
				p.Line += l.d.nearest(key + ".records").line // records start on the line below the key
				p.Column = 0
			})
		}
	}
}

// zone parses one zone; moved corrects the place of a problem in it.
func (l *loader) zone(name, file string, src []byte, moved func(*datasets.Problem)) {
	zone, err := dnsserver.ParseZone(name, file, bytes.NewReader(src))
	for p := range problemsOf(err) {
		if moved != nil {
			moved(p)
		}
		l.d.adopt(p, "")
	}
	if err == nil {
		l.c.Zones = append(l.c.Zones, zone)
	}
}
