package dnsserver

import (
	"net/netip"

	"strandline/router"
)

// Source says what a steered answer was decided by, best first.
type Source string

// The sources of steered answers.
const (
	FromTable    Source = "table"     // the snapshot's own table
	FromLastGood Source = "last_good" // the last table in which the frontends had usable regions
	FromDown     Source = "down"      // no region is up and no earlier table is known: as if they were
	FromDefault  Source = "default"   // no table decides: the first region of the name that has such an address
)

// Decision is how a steered name's region was chosen.
type Decision struct {
	Name     string       `json:"name"`              // the steered name, lower case, without the final dot: what router.Hash takes
	Client   netip.Prefix `json:"client,omitzero"`   // whom the answer is for: the subnet, or the resolver where that says nothing
	Matched  netip.Prefix `json:"matched,omitzero"`  // the entry of the client map; absent = the default frontend
	Frontend string       `json:"frontend,omitzero"` // empty for FromDefault
	Region   string       `json:"region,omitzero"`   // empty when there is no answer
	Key      netip.Prefix `json:"key,omitzero"`      // the part of Client that is hashed
	Scope    int          `json:"scope"`             // prefix length that the answer holds for; 0 when Client is the resolver
	Epoch    uint64       `json:"epoch"`             // of the table that decided
	Source   Source       `json:"source"`
}

// steer answers an A or AAAA question for a steered name; false means there is
// no such address. A and AAAA agree on the region where it has both: each takes
// the first usable region, in the table's order for this client, that has an
// address of its family.
func (s *Snapshot) steer(st *steered, owner Name, q Query, a *Answer) bool {
	if !st.serves(q.Type) {
		return false // for nobody, so the scope is 0
	}
	d, data := s.decide(st, q)
	a.Decision, a.Scope = &d, d.Scope
	for _, rd := range data {
		a.Answer = append(a.Answer, Record{owner, q.Type, st.ttl, rd})
	}
	return len(data) > 0
}

// decide asks the tables in turn until one of them has a usable region.
func (s *Snapshot) decide(st *steered, q Query) (Decision, [][]byte) {
	if s.current.table == nil {
		return st.fallback(q)
	}
	d, data, ok := s.current.decide(st, q, FromTable)
	if ok || st.allDown == NoData {
		return d, data
	}
	if len(s.lastGood) > 0 && s.lastGood[st.index].table != nil {
		if d, data, ok := s.lastGood[st.index].decide(st, q, FromLastGood); ok {
			return d, data
		}
	}
	if d, data, ok := s.current.decide(st, q, FromDown); ok {
		return d, data
	}
	return st.fallback(q)
}

// decide looks for the client's region in one table. Not ok means that no region
// of the name is usable for the client's frontend; ok without data, that the
// usable ones have no address of the family. The order of the candidates depends
// on the client only as far as Match.Scope says, so the scope holds whichever of
// them is taken.
func (v view) decide(st *steered, q Query, from Source) (d Decision, data [][]byte, ok bool) {
	client, located, least := v.locate(q)
	m := v.table.Lookup(client)
	d = Decision{
		Name: st.text, Client: client, Matched: m.Entry, Frontend: v.table.FrontendName(m.Frontend),
		Key: m.Key, Epoch: v.table.Epoch(), Source: from,
	}
	if located {
		d.Scope = max(m.Scope, least)
	} else {
		d.Scope = least
	}
	var buf [64]int
	for _, j := range v.table.Order(m.Frontend, router.Hash(st.text, m.Key), buf[:0]) {
		i := v.regions[st.index][j]
		if i < 0 || v.table.Down(j) && from != FromDown {
			continue
		}
		ok = true
		if data = st.regions[i].data(q.Type); len(data) > 0 {
			d.Region = st.regions[i].name
			return d, data, true
		}
	}
	return d, nil, ok
}

// locate says whom to answer for. It is the client's subnet, unless the client
// wants no locating (length 0) or the subnet is of an address range that says
// nothing about a place and that the client map has no entry for: then it is the
// resolver, and the answer holds for that whole range (least), or for everybody
// who asks with length 0.
func (v view) locate(q Query) (client netip.Prefix, located bool, least int) {
	resolver := netip.PrefixFrom(q.Resolver.Unmap(), q.Resolver.Unmap().BitLen())
	if !q.HasSubnet || q.Subnet.Bits() <= 0 {
		return resolver, false, 0
	}
	block := placeless(q.Subnet)
	if block < 0 {
		return q.Subnet, true, 0
	}
	m := v.table.Lookup(q.Subnet)
	if m.Entry.IsValid() {
		return q.Subnet, true, 0
	}
	return resolver, false, max(block, m.Scope)
}

// placeless returns the length of the range of private, shared, loopback or
// link-local addresses that p lies in (RFC 6890), or -1. Such a subnet reaches us
// through a resolver that should not have sent it (RFC 7871 section 11.1).
func placeless(p netip.Prefix) int {
	for _, block := range [...]netip.Prefix{
		v4(10, 0, 8), v4(172, 16, 12), v4(192, 168, 16), v4(100, 64, 10), v4(127, 0, 8), v4(169, 254, 16),
		v6(0xfc, 0, 7), v6(0xfe, 0x80, 10),
	} {
		if block.Bits() <= p.Bits() && block.Contains(p.Addr()) {
			return block.Bits()
		}
	}
	return -1
}

func v4(a, b byte, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b}), bits)
}

func v6(a, b byte, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{a, b}), bits)
}

// fallback is the static default: the first region that has such an address. It
// is the same for everybody.
func (st *steered) fallback(q Query) (Decision, [][]byte) {
	for i := range st.regions {
		if data := st.regions[i].data(q.Type); len(data) > 0 {
			return Decision{Name: st.text, Region: st.regions[i].name, Source: FromDefault}, data
		}
	}
	return Decision{Name: st.text, Source: FromDefault}, nil
}
