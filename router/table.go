package router

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"strandline/datasets"
)

// The prefix lengths that clients are split by where a frontend uses several
// regions: one network gets one answer.
const (
	SplitBits4 = 24
	SplitBits6 = 48
)

// Client is one line of the client map: the addresses of Prefix belong to Frontend.
type Client struct {
	Prefix   netip.Prefix
	Frontend string
}

// Table is the snapshot that servers answer from: who a client is, where it may
// go and where it should. It is immutable, so any number of goroutines may read
// it without a lock. Frontends and regions are numbered as in the World.
type Table struct {
	epoch    uint64
	world    *World
	plan     *Plan
	down     []bool // by region
	seeds    []uint64
	choices  []choice // by frontend
	v4, v6   clientMap
	fallback int
}

// Match is the place of a client in a table.
type Match struct {
	Frontend int
	Entry    netip.Prefix // the line of the client map that matched; the zero Prefix for the default frontend

	// Scope is the ECS scope of RFC 7871: the shortest prefix length around the
	// client such that no address inside gets another answer. It is longer than the
	// client's own length where we would like to know more; the answer is then the
	// one for the prefix as given. It is 0 for a /0, which asks not to be located.
	Scope int

	Key netip.Prefix // what Hash takes: the client cut to the length that answers are split by
}

// NewTable compiles a plan for w into a table. Clients match the longest prefix;
// those that match none belong to defaultFrontend. The named down regions are
// not picked while another is usable. Every fault of the client map is reported
// at once as a *datasets.Problem with the key clients[i].
//
// The table keeps w and p, which must not change any more.
func NewTable(epoch uint64, w *World, p *Plan, clients []Client, defaultFrontend string, down []string) (*Table, error) {
	if len(p.Frontends) != len(w.Frontends) || len(p.Regions) != len(w.Regions) {
		return nil, fmt.Errorf("table: a plan for %d frontends and %d regions does not fit a world of %d and %d",
			len(p.Frontends), len(p.Regions), len(w.Frontends), len(w.Regions))
	}
	t := &Table{epoch: epoch, world: w, plan: p}
	var faults problems
	t.setDown(&faults, down)
	t.setClients(&faults, clients, defaultFrontend)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	t.setChoices()
	return t, nil
}

func (t *Table) setDown(faults *problems, down []string) {
	t.down = make([]bool, len(t.world.Regions))
	for i, name := range down {
		j, ok := t.Region(name)
		if !ok {
			faults.add(index("down", i), "name a region of the world", "there is no region %q", name)
			continue
		}
		t.down[j] = true
	}
}

func (t *Table) setClients(faults *problems, clients []Client, defaultFrontend string) {
	var ok bool
	if t.fallback, ok = t.Frontend(defaultFrontend); !ok {
		faults.add("default_frontend", "name a frontend of the world", "there is no frontend %q", defaultFrontend)
	}
	var entries4, entries6 []clientEntry
	seen := make(map[netip.Prefix]string, len(clients))
	for i, c := range clients {
		entry, ok := t.checkClient(faults, index("clients", i), c, seen)
		switch {
		case !ok:
		case c.Prefix.Addr().Is4():
			entries4 = append(entries4, entry)
		default:
			entries6 = append(entries6, entry)
		}
	}
	t.v4, t.v6 = newClientMap(entries4, t.fallback), newClientMap(entries6, t.fallback)
}

// checkClient reports whether a line becomes an entry: a faulty one does not, nor
// one that repeats another.
func (t *Table) checkClient(faults *problems, key string, c Client, seen map[netip.Prefix]string) (clientEntry, bool) {
	f, known := t.Frontend(c.Frontend)
	first, again := seen[c.Prefix]
	switch {
	case !c.Prefix.IsValid():
		faults.add(key+".prefix", "write an address and a length, such as 192.0.2.0/24", "is not a prefix")
	case c.Prefix.Addr().Is4In6():
		faults.add(key+".prefix", "write the IPv4 prefix itself", "%v is IPv4 inside IPv6, which no client has", c.Prefix)
	case c.Prefix != c.Prefix.Masked():
		faults.add(key+".prefix", fmt.Sprintf("write %v", c.Prefix.Masked()), "%v has bits set behind its length", c.Prefix)
	case !known:
		faults.add(key+".frontend", "name a frontend of the world", "there is no frontend %q", c.Frontend)
	case again && first != c.Frontend:
		faults.add(key+".prefix", "keep one of the two lines", "%v belongs to %s already", c.Prefix, first)
	default:
		seen[c.Prefix] = c.Frontend
		return clientEntry{prefix: c.Prefix, frontend: f}, !again
	}
	return clientEntry{}, false
}

// Lookup finds the frontend of a client, given as a prefix: that of an ECS
// option, or a whole address (/32, /128). It allocates nothing. An invalid prefix
// is a client about whom nothing is known.
func (t *Table) Lookup(client netip.Prefix) Match {
	if !client.IsValid() {
		return Match{Frontend: t.fallback}
	}
	client = unmapped(client)
	m, split := &t.v6, SplitBits6
	if client.Addr().Is4() {
		m, split = &t.v4, SplitBits4
	}
	client = client.Masked()
	entry, scope := m.find(addressOf(client.Addr()), client.Bits())
	match := Match{Frontend: t.fallback, Scope: scope}
	if entry >= 0 {
		match.Frontend, match.Entry = m.entries[entry].frontend, m.entries[entry].prefix
	}
	if t.choices[match.Frontend].isSplit() {
		match.Scope = max(scope, split)
	}
	if client.Bits() == 0 {
		match.Scope = 0
	}
	match.Key = netip.PrefixFrom(client.Addr(), min(client.Bits(), split)).Masked()
	return match
}

// unmapped turns ::ffff:a.b.c.d into a.b.c.d, which is how an IPv4 client looks
// on an IPv6 socket.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// Epoch is the version of the table.
func (t *Table) Epoch() uint64 { return t.epoch }

// World is the problem the table was made from. It must not be changed.
func (t *Table) World() *World { return t.world }

// Plan is the allocation the table was made from. It must not be changed.
func (t *Table) Plan() *Plan { return t.plan }

// Frontend is the number of the frontend of that name.
func (t *Table) Frontend(name string) (int, bool) {
	i := slices.IndexFunc(t.world.Frontends, func(f Frontend) bool { return f.Name == name })
	return i, i >= 0
}

// Region is the number of the region of that name.
func (t *Table) Region(name string) (int, bool) {
	j := slices.IndexFunc(t.world.Regions, func(r Region) bool { return r.Name == name })
	return j, j >= 0
}

// FrontendName is the name of frontend i.
func (t *Table) FrontendName(i int) string { return t.world.Frontends[i].Name }

// RegionName is the name of region j.
func (t *Table) RegionName(j int) string { return t.world.Regions[j].Name }

// Regions is the number of regions, down ones included.
func (t *Table) Regions() int { return len(t.world.Regions) }

// Down reports whether region j is down.
func (t *Table) Down(j int) bool { return t.down[j] }

// DownNames are the regions that are down, in the order of the world.
func (t *Table) DownNames() []string {
	names := []string{}
	for j, down := range t.down {
		if down {
			names = append(names, t.RegionName(j))
		}
	}
	return names
}

// AllDown reports whether no region is usable at all.
func (t *Table) AllDown() bool { return !slices.Contains(t.down, false) }

// ShedShare is the fraction of frontend i's requests that the plan refuses.
func (t *Table) ShedShare(i int) float64 {
	f := t.plan.Frontends[i]
	if f.RateHz == 0 {
		return 0
	}
	return f.ShedHz / f.RateHz
}

// Rows are the arcs of the table that carry traffic.
func (t *Table) Rows() []datasets.Allocation { return Rows(t.plan, t.epoch) }

// costS is what sending one more request from frontend i to region j costs.
func (t *Table) costS(i, j int) float64 {
	return t.world.ArcS(i, j) + t.plan.Regions[j].PriceS
}
