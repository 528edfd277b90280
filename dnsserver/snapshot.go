package dnsserver

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"strandline/datasets"
	"strandline/router"
)

// AllDown says what a steered name answers while no region is usable.
type AllDown string

// The behaviours when all regions are down.
const (
	LastGood AllDown = "last_good" // what the last table answered in which a region was usable
	NoData   AllDown = "nodata"    // no address, so that clients look elsewhere
)

// Steer is a name whose addresses the table chooses.
type Steer struct {
	Name    string        // inside a served zone, without A, AAAA or CNAME records there
	TTL     time.Duration // whole seconds; what bounds how long a changed table takes to reach clients
	AllDown AllDown       // empty means LastGood
	Regions []SteerRegion // in order of preference for the static default
}

// SteerRegion is the addresses that lead to a region.
type SteerRegion struct {
	Name  string // as in the table
	Addrs []netip.Addr
}

// Snapshot is everything that answers are made from: zones, steered names and
// one table. It is immutable and safe for any number of readers.
type Snapshot struct {
	zones    map[Name]*Zone
	overlay  map[Name]*steered // steered names, and nil for the names between them and their apex
	steers   []*steered
	current  view
	lastGood []view // by steered name; empty, or without a table where current is good
}

// steered is a compiled Steer.
type steered struct {
	index   int // in Snapshot.steers and view.regions
	name    Name
	text    string // the name as it enters the hash: lower case, no final dot
	ttl     uint32
	allDown AllDown
	regions []steeredRegion
}

type steeredRegion struct {
	name    string
	a, aaaa [][]byte // RDATA
}

func (r *steeredRegion) data(t Type) [][]byte {
	if t == TypeA {
		return r.a
	}
	return r.aaaa
}

// serves reports whether any region has an address of the type.
func (st *steered) serves(t Type) bool {
	for i := range st.regions {
		if len(st.regions[i].data(t)) > 0 {
			return true
		}
	}
	return false
}

// view is a table as the steered names see it: regions[steer][table's region] is
// the index in steered.regions, or -1 where that name does not use the region.
type view struct {
	table   *router.Table
	regions [][]int
}

func newView(table *router.Table, steers []*steered) view {
	v := view{table: table}
	if table == nil {
		return v
	}
	for _, st := range steers {
		index := make([]int, table.Regions())
		for j := range index {
			index[j] = st.region(table.RegionName(j))
		}
		v.regions = append(v.regions, index)
	}
	return v
}

func (st *steered) region(name string) int {
	for i := range st.regions {
		if st.regions[i].name == name {
			return i
		}
	}
	return -1
}

// Compile checks that zones, steered names and table fit together and returns
// the snapshot. The error joins one *datasets.Problem per fault. Without steered
// names the table may be nil.
func Compile(zones []*Zone, steer []Steer, table *router.Table) (*Snapshot, error) {
	c := compiler{s: &Snapshot{zones: map[Name]*Zone{}, overlay: map[Name]*steered{}}}
	for i, z := range zones {
		if c.s.zones[z.name] != nil {
			c.problem(fmt.Sprintf("dns.zones[%d].name", i), "the zone "+z.name.String()+" is there twice", "remove one")
		}
		c.s.zones[z.name] = z
	}
	for i, st := range steer {
		c.steer(fmt.Sprintf("dns.steer[%d]", i), st, table)
	}
	for _, z := range zones {
		c.checkServers(z)
	}
	if len(c.problems) > 0 {
		return nil, join(c.problems)
	}
	c.s.current = newView(table, c.s.steers)
	return c.s, nil
}

type compiler struct {
	s        *Snapshot
	problems []*datasets.Problem
}

func (c *compiler) problem(key, msg, fix string) {
	c.problems = append(c.problems, &datasets.Problem{Key: key, Msg: msg, Fix: fix})
}

// steer compiles one steered name.
func (c *compiler) steer(key string, in Steer, table *router.Table) {
	name, err := ParseName(in.Name)
	if err != nil {
		c.problem(key+".name", err.Error(), "write a name such as api.example.org")
		return
	}
	st := &steered{index: len(c.s.steers), name: name.Lower(), allDown: in.AllDown, ttl: uint32(in.TTL / time.Second)}
	st.text = strings.TrimSuffix(st.name.String(), ".")
	c.place(key+".name", st)
	if in.TTL < time.Second || in.TTL > maxTTL*time.Second || in.TTL%time.Second != 0 {
		c.problem(key+".ttl", fmt.Sprintf("the TTL %v is not a whole number of seconds from 1 to %d", in.TTL, maxTTL), "write a time such as 20s")
	}
	switch in.AllDown {
	case LastGood, NoData:
	case "":
		st.allDown = LastGood
	default:
		c.problem(key+".all_down", fmt.Sprintf("unknown behaviour %q", in.AllDown), "write last_good or nodata")
	}
	c.regions(key, st, in.Regions, table)
	c.s.steers = append(c.s.steers, st)
}

// place puts the name into the overlay, after a look at what the zone has there.
func (c *compiler) place(key string, st *steered) {
	z := c.s.zoneOf(st.name)
	if z == nil {
		c.problem(key, st.text+" lies in none of the served zones", "add the zone to dns.zones")
		return
	}
	if c.s.overlay[st.name] != nil {
		c.problem(key, st.text+" is steered twice", "remove one")
		return
	}
	if cut, ok := z.cutAbove(st.name); ok {
		c.problem(key, st.text+" is hidden by the delegation of "+cut.String(), "remove the delegation's NS records from "+z.file)
	}
	for _, t := range []Type{TypeA, TypeAAAA, TypeCNAME} {
		if set := z.nodes[st.name].set(t); set != nil {
			c.problems = append(c.problems, &datasets.Problem{File: z.file, Line: set.line, Key: st.text + " " + t.String(),
				Msg: "the name is steered, so its addresses come from the table", Fix: "remove the record, or " + key})
		}
	}
	c.s.overlay[st.name] = st
	for n := st.name; n != z.name; {
		n = n.parent()
		if _, ok := c.s.overlay[n]; !ok {
			c.s.overlay[n] = nil
		}
	}
}

// regions compiles the addresses.
func (c *compiler) regions(key string, st *steered, in []SteerRegion, table *router.Table) {
	key += ".regions"
	if len(in) == 0 {
		c.problem(key, st.text+" has no region", "name a service that has some")
	} else if table == nil {
		c.problem(key, st.text+" is steered, but there is no table to steer by", "configure the router")
	}
	for i, r := range in {
		k := fmt.Sprintf("%s[%d]", key, i)
		if st.region(r.Name) >= 0 {
			c.problem(k+".name", fmt.Sprintf("the region %q is there twice", r.Name), "remove one")
		}
		if table != nil && !knows(table, r.Name) {
			c.problem(k+".name", fmt.Sprintf("the region %q is not in the world", r.Name), "write one of the world's regions")
		}
		if len(r.Addrs) == 0 {
			c.problem(k+".addresses", fmt.Sprintf("the region %q has no address", r.Name), "write at least one")
		}
		st.regions = append(st.regions, c.addresses(k+".addresses", r))
	}
}

// addresses turns a region's addresses into RDATA, in the order given.
func (c *compiler) addresses(key string, in SteerRegion) steeredRegion {
	out := steeredRegion{name: in.Name}
	seen := map[netip.Addr]bool{}
	for i, addr := range in.Addrs {
		switch k := fmt.Sprintf("%s[%d]", key, i); {
		case !addr.IsValid() || addr.Is4In6() || addr.Zone() != "":
			c.problem(k, fmt.Sprintf("%q cannot be an A or AAAA record", addr), "write an IPv4 or IPv6 address")
		case seen[addr]:
			c.problem(k, fmt.Sprintf("the address %v is there twice", addr), "remove one")
		case addr.Is4():
			out.a = append(out.a, addr.AsSlice())
		default:
			out.aaaa = append(out.aaaa, addr.AsSlice())
		}
		seen[addr] = true
	}
	return out
}

// checkServers wants an address for each name server of the zone that the zone
// itself would have to give, whether it stands there or is steered.
func (c *compiler) checkServers(z *Zone) {
	ns := z.nodes[z.name].set(TypeNS)
	for _, t := range ns.target {
		n := z.nodes[t]
		if !t.Within(z.name) || n.set(TypeA) != nil || n.set(TypeAAAA) != nil || c.s.overlay[t] != nil {
			continue
		}
		c.problems = append(c.problems, &datasets.Problem{File: z.file, Line: ns.line, Key: z.name.String() + " NS",
			Msg: "the server " + t.String() + " has no address", Fix: "write its A or AAAA record"})
	}
}

func knows(table *router.Table, region string) bool {
	_, ok := table.Region(region)
	return ok
}

// zoneOf returns the zone that holds the name (in lower case), nil when none does.
func (s *Snapshot) zoneOf(name Name) *Zone {
	for n := name; n != ""; n = n.parent() {
		if z := s.zones[n]; z != nil {
			return z
		}
	}
	return nil
}

// Epoch returns the epoch of the table, 0 without one.
func (s *Snapshot) Epoch() uint64 {
	if s.current.table == nil {
		return 0
	}
	return s.current.table.Epoch()
}

// After returns s with what it needs from its predecessor, which may be nil: for
// each steered name that some frontend has no usable region for, the last table
// in which none was so placed.
func (s *Snapshot) After(prev *Snapshot) *Snapshot {
	next := *s
	next.lastGood = nil
	if prev == nil {
		return &next
	}
	for _, st := range s.steers {
		v := view{}
		if !s.current.good(st) {
			v = newView(prev.goodTable(st.name), s.steers) // the regions may have changed
		}
		next.lastGood = append(next.lastGood, v)
	}
	return &next
}

// goodTable returns the newest good table that s knows for the steered name, or nil.
func (s *Snapshot) goodTable(name Name) *router.Table {
	st := s.overlay[name]
	switch {
	case st == nil:
		return nil
	case s.current.good(st):
		return s.current.table
	case len(s.lastGood) > 0:
		return s.lastGood[st.index].table
	}
	return nil
}

// good reports whether every frontend that may use the name's regions at all has
// one that is up.
func (v view) good(st *steered) bool {
	if v.table == nil {
		return false
	}
	world := v.table.World()
	for i := range world.Frontends {
		allowed, up := false, false
		for j, region := range v.regions[st.index] {
			if _, ok := world.NetworkS(i, j); ok && region >= 0 {
				allowed, up = true, up || !v.table.Down(j)
			}
		}
		if allowed && !up {
			return false
		}
	}
	return true
}

// untabled returns s without its tables: steered names give their static default.
func (s *Snapshot) untabled() *Snapshot {
	next := *s
	next.current, next.lastGood = view{}, nil
	return &next
}
