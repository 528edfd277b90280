package config

import (
	"net/netip"
	"time"

	"strandline/dnsserver"
	"strandline/router"
)

// Config is the configuration of the daemons as one file holds it, with the
// files that it names read in. It comes from Load or Parse, which have checked
// it; nobody changes it afterwards.
type Config struct {
	StateDir string    `yaml:"state_dir"` // where the epoch outlives a restart; empty = it starts from 1 again
	Admin    Admin     `yaml:"admin"`
	DNS      *DNS      `yaml:"dns"` // nil = not served
	Services []Service `yaml:"services"`
	Router   Router    `yaml:"router,required"`
	HTTP     *HTTP     `yaml:"http"` // nil = not served

	File    string            `yaml:"-"` // the name it was read from
	World   *router.World     `yaml:"-"` // the routing problem, latencies of router.latency included
	Clients []router.Client   `yaml:"-"` // which prefix belongs to which frontend
	Zones   []*dnsserver.Zone `yaml:"-"` // parsed dns.zones, in their order
	Notes   []string          `yaml:"-"` // what the data set of router.latency left out
}

// Admin is the listener for people and probes: health, status, explanations.
type Admin struct {
	Listen netip.AddrPort `yaml:"listen"` // loopback only, since nobody has to log in
}

// DNS configures the authoritative server.
type DNS struct {
	Listen   []netip.AddrPort `yaml:"listen,required"` // UDP and TCP both
	ServerID string           `yaml:"server_id"`       // answer to id.server and NSID; empty = refused
	Zones    []Zone           `yaml:"zones,required"`
	Steer    []Steer          `yaml:"steer"`
}

// Zone is one zone in master file format (RFC 1035 section 5), in a file of its
// own or between the lines.
type Zone struct {
	Name    string `yaml:"name,required"`
	File    string `yaml:"file"`
	Records string `yaml:"records"`
}

// Steer is a name whose addresses follow the allocation.
type Steer struct {
	Name    string        `yaml:"name,required"`
	TTL     time.Duration `yaml:"ttl"` // whole seconds; how long resolvers may keep an answer
	Service string        `yaml:"service,required"`
	AllDown string        `yaml:"all_down"` // what to answer when no region is up: last_good or nodata
}

// Service is something that runs in every region of the world.
type Service struct {
	Name    string   `yaml:"name,required"`
	Regions []Region `yaml:"regions,required"`
}

// Region says where a service is found in one region of the world.
type Region struct {
	Name      string       `yaml:"name,required"`
	Addresses []netip.Addr `yaml:"addresses"` // what DNS answers
	Backend   string       `yaml:"backend"`   // base URL that the HTTP router sends to
	Health    *Health      `yaml:"health"`    // nil = always taken to be up
}

// Health is an HTTP check of one region: any status from 200 to 299 in time is
// good. Fall bad results in a row take the region down, Rise good ones bring it
// back; the first result counts at once.
type Health struct {
	HTTP     string        `yaml:"http,required"` // path at the backend, or a whole URL
	Interval time.Duration `yaml:"interval"`      // from the end of one check to the next
	Timeout  time.Duration `yaml:"timeout"`
	Rise     int           `yaml:"rise"`
	Fall     int           `yaml:"fall"`
}

// Router names the routing problem and who belongs to which frontend.
type Router struct {
	World           WorldSource  `yaml:"world,required"`
	Latency         string       `yaml:"latency"` // directory of a data set whose rows replace the world's matrix; empty = the world's own
	Clients         ClientSource `yaml:"clients"`
	DefaultFrontend string       `yaml:"default_frontend,required"` // of clients that no prefix covers
}

// HTTP configures the HTTP router.
type HTTP struct {
	Listen       []netip.AddrPort `yaml:"listen,required"`
	Service      string           `yaml:"service,required"`
	Frontend     string           `yaml:"frontend,required"` // which row of the world this router is
	MaxBodyBytes int64            `yaml:"max_body_bytes"`    // of a request; more is refused with 413
	Connect      time.Duration    `yaml:"connect_timeout"`
	FirstByte    time.Duration    `yaml:"first_byte_timeout"` // from the end of the request to the response's header
	Chunk        time.Duration    `yaml:"chunk_timeout"`      // longest silence within a response; its whole length has no limit
	KeepAlive    time.Duration    `yaml:"keep_alive"`         // of an idle connection to a backend; keep it below the backend's own
	Drain        time.Duration    `yaml:"drain_timeout"`      // how long shutdown waits for responses under way
}

// Default returns the configuration that an empty file would mean: what every
// key is worth where the file does not say. Lists have their defaults per element.
func Default() *Config {
	c := &Config{}
	c.setDefaults()
	return c
}

func (c *Config) setDefaults() {
	c.Admin.setDefaults()
}

func (a *Admin) setDefaults() { a.Listen = netip.MustParseAddrPort("127.0.0.1:9099") }

func (s *Steer) setDefaults() { s.TTL, s.AllDown = 20*time.Second, "last_good" }

func (h *Health) setDefaults() {
	h.Interval, h.Timeout, h.Rise, h.Fall = 5*time.Second, 2*time.Second, 2, 3
}

func (h *HTTP) setDefaults() {
	h.MaxBodyBytes = 64 << 20
	h.Connect, h.FirstByte, h.Chunk = 3*time.Second, 10*time.Minute, 5*time.Minute
	h.KeepAlive, h.Drain = 4*time.Second, 30*time.Second
}
