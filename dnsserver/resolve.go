package dnsserver

// maxChain is how many aliases one answer may follow.
const maxChain = 16

// anyData is the HINFO record that stands for all others (RFC 8482 section 4.2):
// the two strings "RFC8482" and "".
const anyData = "\x07RFC8482\x00"

// Resolve answers the question from the snapshot (RFC 1034 section 4.3.2, with
// RFC 2308, RFC 4592 and RFC 6604). It does no I/O: the same snapshot and query
// give the same answer.
func Resolve(s *Snapshot, q Query) Answer {
	if rcode := refusal(q); rcode != Success {
		return Answer{Rcode: rcode}
	}
	name := q.Name.Lower()
	zone := s.zoneFor(name, q.Type)
	if zone == nil {
		return Answer{Rcode: Refused}
	}
	a := Answer{Authoritative: true}
	owner := q.Name
	for range maxChain {
		next := s.step(zone, owner, name, q, &a)
		if next == "" || !next.Within(zone.name) || a.holds(next) {
			break
		}
		owner, name = next, next
	}
	return a
}

// refusal maps questions that no zone can answer to their rcode.
func refusal(q Query) Rcode {
	switch {
	case q.Class != ClassIN:
		return Refused
	case q.Type == TypeAXFR || q.Type == TypeIXFR:
		return Refused
	case q.Type == TypeOPT || q.Type == TypeTSIG || q.Type == TypeNXNAME || q.Type == 0:
		return FormErr
	case q.Type == TypeTKEY || q.Type == TypeMAILA || q.Type == TypeMAILB:
		return NotImp
	}
	return Success
}

// zoneFor returns the zone to answer from. The DS records of a child zone belong
// to its parent (RFC 4035 section 3.1.4.1), where we serve both.
func (s *Snapshot) zoneFor(name Name, t Type) *Zone {
	z := s.zoneOf(name)
	if z != nil && t == TypeDS && name == z.name && name != Root {
		if parent := s.zoneOf(name.parent()); parent != nil {
			return parent
		}
	}
	return z
}

// holds reports whether the answer has an alias at the name already: a loop.
func (a *Answer) holds(name Name) bool {
	for _, r := range a.Answer {
		if r.Type == TypeCNAME && r.Name.Lower() == name {
			return true
		}
	}
	return false
}

// step answers for one name of the chain; it returns the alias's target when
// there is one to follow.
func (s *Snapshot) step(z *Zone, owner, name Name, q Query, a *Answer) (next Name) {
	at := s.find(z, name)
	set, alias := at.node.set(q.Type), at.node.set(TypeCNAME)
	switch {
	case at.cut != "" && !(q.Type == TypeDS && name == at.cut): // DS is the parent's
		z.refer(at.cut, a)
	case at.missing:
		a.Rcode = NXDomain
		a.Authority = append(a.Authority, z.soa)
	case at.steer != nil && (q.Type == TypeA || q.Type == TypeAAAA):
		if !s.steer(at.steer, owner, q, a) {
			a.Authority = append(a.Authority, z.soa)
		}
	case set != nil:
		a.Answer = set.appendTo(a.Answer, owner)
	case alias != nil:
		a.Answer = alias.appendTo(a.Answer, owner)
		if q.Type != TypeANY {
			return alias.target[0]
		}
	case q.Type == TypeANY && at.hasData():
		a.Answer = append(a.Answer, Record{owner, TypeHINFO, z.soa.TTL, []byte(anyData)})
	default: // the name exists, the type does not
		a.Authority = append(a.Authority, z.soa)
	}
	return ""
}

// place is where a name leads inside a zone.
type place struct {
	node    *node    // nil where only a steered name is
	steer   *steered // nil where none is
	cut     Name     // the delegation at or above the name, or ""
	missing bool     // the name does not exist and no wildcard stands in for it
}

func (p place) hasData() bool { return p.steer != nil || p.node != nil && len(p.node.sets) > 0 }

// at returns what stands at the name, and whether anything does.
func (s *Snapshot) at(z *Zone, name Name) (place, bool) {
	n, inZone := z.nodes[name]
	st, steered := s.overlay[name]
	return place{node: n, steer: st}, inZone || steered
}

// find walks from the apex down to the name. A delegation ends the walk. Where
// the next label does not exist, the walk has come to the closest encloser, whose
// wildcard child then stands in (RFC 4592 section 3.3.1), and no other.
func (s *Snapshot) find(z *Zone, name Name) place {
	var path [maxName / 2]Name
	depth := 0
	for n := name; n != z.name; n = n.parent() {
		path[depth] = n
		depth++
	}
	here, _ := s.at(z, z.name)
	encloser := z.name
	for depth > 0 {
		depth--
		next, ok := s.at(z, path[depth])
		if !ok {
			next, ok = s.at(z, encloser.wildcard())
			next.missing = !ok
			return next
		}
		if next.node.set(TypeNS) != nil {
			next.cut = path[depth]
			return next
		}
		here, encloser = next, path[depth]
	}
	return here
}

// refer answers with the delegation and the addresses of its servers that nobody
// could find otherwise (RFC 9471). Authority is the child's, so AA is clear unless
// an alias led here (RFC 1035 section 4.1.1: AA is about the first owner).
func (z *Zone) refer(cut Name, a *Answer) {
	ns := z.nodes[cut].set(TypeNS)
	a.Authoritative = len(a.Answer) > 0
	a.Authority = ns.appendTo(a.Authority, cut)
	for _, target := range ns.target {
		if !target.Within(z.name) {
			continue
		}
		if _, hidden := z.cutAbove(target); !hidden {
			continue
		}
		for _, t := range []Type{TypeA, TypeAAAA} {
			if glue := z.nodes[target].set(t); glue != nil {
				a.Additional = glue.appendTo(a.Additional, target)
			}
		}
	}
}

// appendTo appends the set's records under the given owner, which for a wildcard
// is the name that was asked.
func (s *rrset) appendTo(to []Record, owner Name) []Record {
	for _, d := range s.data {
		to = append(to, Record{owner, s.typ, s.ttl, d})
	}
	return to
}
