package dnsserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"strandline/datasets"
)

// maxTTL is the largest TTL (RFC 2181 section 8), in seconds.
const maxTTL = math.MaxInt32

// Zone is one zone, checked and ready to answer from. It does not change, so any
// number of snapshots may share it.
type Zone struct {
	name  Name // lower case
	file  string
	nodes map[Name]*node // by lower-case name; ancestors up to the apex included, empty where nothing is
	soa   Record         // with the TTL of negative answers (RFC 2308 section 5)
	count int
}

// node is one name of a zone. With no sets it is an empty non-terminal, which
// exists (RFC 4592 section 2.2.2).
type node struct {
	sets []*rrset
}

// rrset is the records of one name and type.
type rrset struct {
	typ    Type
	ttl    uint32
	line   int
	data   [][]byte
	target []Name // of CNAME and NS, lower case
}

func (n *node) set(t Type) *rrset {
	if n == nil {
		return nil
	}
	for _, s := range n.sets {
		if s.typ == t {
			return s
		}
	}
	return nil
}

// Name returns the name of the zone's apex, in lower case.
func (z *Zone) Name() Name { return z.name }

// Serial returns the serial number of the SOA record.
func (z *Zone) Serial() uint32 {
	soa, _, err := dns.UnpackRR(z.soa.append(nil), 0)
	if err != nil {
		return 0
	}
	return soa.(*dns.SOA).Serial
}

// Records returns how many records the zone holds.
func (z *Zone) Records() int { return z.count }

// unsupported are types that would need an answering rule which the server does
// not have; serving them as plain data would mislead resolvers.
func unsupported(t Type) string {
	switch t {
	case TypeDNAME:
		return "write CNAME records instead"
	case TypeRRSIG, TypeNSEC, TypeNSEC3:
		return "serve the unsigned zone"
	case TypeOPT, TypeTKEY, TypeTSIG, TypeNXNAME:
		return "remove it, it has no place in a zone"
	}
	return ""
}

// ParseZone reads a zone file (RFC 1035 section 5) with the given apex. file is
// used in errors only. $INCLUDE is refused: it would read any file the daemon can.
//
// The error joins one *datasets.Problem per fault, with the line where the
// record begins. A fault of syntax ends the reading, and is then the only one.
func ParseZone(name, file string, r io.Reader) (*Zone, error) {
	apex, err := ParseName(name)
	if err != nil {
		return nil, &datasets.Problem{File: file, Key: name, Msg: err.Error(), Fix: "write a name such as example.org"}
	}
	p := &zoneParser{zone: &Zone{name: apex.Lower(), file: file, nodes: map[Name]*node{}}, seen: map[string]bool{}}
	src := &lineReader{r: r, line: 1, start: 1, previous: 1}
	zp := dns.NewZoneParser(src, apex.String(), "")
	for rr, ok := zp.Next(); ok; rr, ok = zp.Next() {
		p.add(rr, src.recordLine())
	}
	if err := zp.Err(); err != nil {
		return nil, syntaxProblem(file, err)
	}
	p.check()
	if len(p.problems) > 0 {
		slices.SortStableFunc(p.problems, func(a, b *datasets.Problem) int { return a.Line - b.Line })
		return nil, join(p.problems)
	}
	return p.zone, nil
}

// join turns problems into one error, nil when there are none.
func join(problems []*datasets.Problem) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// syntaxProblem takes the position out of the library's message, its only place.
func syntaxProblem(file string, err error) error {
	p := &datasets.Problem{File: file, Msg: err.Error(), Fix: "see RFC 1035 section 5"}
	if _, inner, ok := strings.Cut(p.Msg, "dns: "); ok {
		p.Msg = inner
	}
	if msg, at, ok := strings.Cut(p.Msg, " at line: "); ok {
		line, column, _ := strings.Cut(at, ":")
		p.Msg = msg
		p.Line, _ = strconv.Atoi(line)
		p.Column, _ = strconv.Atoi(column)
	}
	if strings.Contains(p.Msg, "$INCLUDE") {
		p.Key, p.Fix = "$INCLUDE", "put the records into this file"
	}
	return p
}

// zoneParser collects records and problems.
type zoneParser struct {
	zone     *Zone
	seen     map[string]bool // records, by owner, type and data
	problems []*datasets.Problem
}

func (p *zoneParser) problem(line int, owner Name, t Type, msg, fix string) {
	key := owner.String()
	if t != 0 {
		key += " " + t.String()
	}
	p.problems = append(p.problems, &datasets.Problem{File: p.zone.file, Line: line, Key: key, Msg: msg, Fix: fix})
}

// add takes in one record.
func (p *zoneParser) add(rr dns.RR, line int) {
	h := rr.Header()
	owner, err := ParseName(h.Name)
	if err != nil {
		p.problems = append(p.problems, &datasets.Problem{File: p.zone.file, Line: line, Key: h.Name, Msg: err.Error()})
		return
	}
	owner = owner.Lower()
	t := Type(h.Rrtype)
	data, err := rdata(rr)
	switch {
	case err != nil:
		p.problem(line, owner, t, err.Error(), "see the type's format")
	case len(data) == 0:
		p.problem(line, owner, t, "the record has no data", "write it behind the type")
	case h.Class != dns.ClassINET:
		p.problem(line, owner, t, "class "+dns.Class(h.Class).String()+" is not served", "write IN")
	case !owner.Within(p.zone.name):
		p.problem(line, owner, t, "the name is outside the zone "+p.zone.name.String(), "is a dot missing or too many at the end of the name?")
	case h.Ttl > maxTTL:
		p.problem(line, owner, t, fmt.Sprintf("the TTL %d is over %d s", h.Ttl, maxTTL), "write a shorter TTL, such as 1h")
	case unsupported(t) != "":
		p.problem(line, owner, t, "records of this type are not served", unsupported(t))
	default:
		p.insert(owner, t, h.Ttl, data, rr, line)
	}
}

// insert adds the record to its RRset.
func (p *zoneParser) insert(owner Name, t Type, ttl uint32, data []byte, rr dns.RR, line int) {
	n := p.zone.ensure(owner)
	set := n.set(t)
	if set == nil {
		set = &rrset{typ: t, ttl: ttl, line: line}
		n.sets = append(n.sets, set)
	}
	key := fmt.Sprintf("%s%d %s", owner, t, data)
	if p.seen[key] {
		p.problem(line, owner, t, "the record is there twice", "remove one")
		return
	}
	p.seen[key] = true
	if ttl != set.ttl {
		p.problem(line, owner, t, fmt.Sprintf("the TTL %d differs from %d of the same name and type", ttl, set.ttl),
			"write the same TTL (RFC 2181 section 5.2)")
	}
	set.data = append(set.data, data)
	p.zone.count++
	switch rr := rr.(type) {
	case *dns.NS:
		set.target = append(set.target, mustName(rr.Ns).Lower())
	case *dns.CNAME:
		set.target = append(set.target, mustName(rr.Target).Lower())
	}
}

// mustName parses a name that the library has packed already.
func mustName(s string) Name {
	n, err := ParseName(s)
	if err != nil {
		panic("dnsserver: " + err.Error())
	}
	return n
}

// ensure returns the node of owner, which it makes with all those between it
// and the apex.
func (z *Zone) ensure(owner Name) *node {
	n := z.nodes[owner]
	if n == nil {
		n = &node{}
		z.nodes[owner] = n
		if owner != z.name {
			z.ensure(owner.parent())
		}
	}
	return n
}

// rdata returns the record's data in wire form.
func rdata(rr dns.RR) ([]byte, error) {
	buf := make([]byte, dns.Len(rr)+1)
	end, err := dns.PackRR(rr, buf, 0, nil, false)
	if err != nil {
		return nil, err
	}
	start, ok := skipName(buf[:end], 0)
	if !ok || start+fixedRR > end {
		return nil, fmt.Errorf("the record cannot be packed")
	}
	return slices.Clip(buf[start+fixedRR : end]), nil
}

// check looks at the zone as a whole.
func (p *zoneParser) check() {
	p.checkApex()
	for _, owner := range p.zone.sorted() {
		n := p.zone.nodes[owner]
		if c := n.set(TypeCNAME); c != nil {
			if len(c.data) > 1 {
				p.problem(c.line, owner, TypeCNAME, "a name can have one CNAME only", "keep one")
			}
			if len(n.sets) > 1 {
				p.problem(c.line, owner, TypeCNAME, "a name with a CNAME can have nothing else", "remove the CNAME or the other records (RFC 1034 section 3.6.2)")
			}
		}
		if ns := n.set(TypeNS); ns != nil && owner != p.zone.name {
			p.checkCut(owner, ns)
		}
		if soa := n.set(TypeSOA); soa != nil && owner != p.zone.name {
			p.problem(soa.line, owner, TypeSOA, "an SOA record belongs to the apex "+p.zone.name.String()+" only", "remove it")
		}
		p.checkOccluded(owner, n)
	}
}

func (p *zoneParser) checkApex() {
	apex := p.zone.nodes[p.zone.name]
	soa := apex.set(TypeSOA)
	switch {
	case soa == nil:
		p.problem(0, p.zone.name, TypeSOA, "the zone has no SOA record", "write one at the apex")
	case len(soa.data) > 1:
		p.problem(soa.line, p.zone.name, TypeSOA, "the zone has more than one SOA record", "keep one")
	default:
		data := soa.data[0]
		minimum := binary.BigEndian.Uint32(data[len(data)-4:]) // the last of five numbers
		p.zone.soa = Record{p.zone.name, TypeSOA, min(soa.ttl, minimum, maxTTL), data}
	}
	if apex.set(TypeNS) == nil {
		p.problem(0, p.zone.name, TypeNS, "the zone has no NS record", "write at least one at the apex")
	}
}

// checkCut looks at a delegation: servers inside the delegated zone are found by
// glue only.
func (p *zoneParser) checkCut(owner Name, ns *rrset) {
	if owner.isWildcard() {
		p.problem(ns.line, owner, TypeNS, "a wildcard cannot be a delegation", "write the NS records at each name (RFC 4592 section 4.2)")
	}
	for _, t := range ns.target {
		n := p.zone.nodes[t]
		if t.Within(owner) && n.set(TypeA) == nil && n.set(TypeAAAA) == nil {
			p.problem(ns.line, owner, TypeNS, "the server "+t.String()+" lies inside the delegated zone and has no address here", "write its A or AAAA record (glue)")
		}
	}
}

// checkOccluded reports data at or below a delegation that will never be served.
func (p *zoneParser) checkOccluded(owner Name, n *node) {
	cut, ok := p.zone.cutAbove(owner)
	if !ok {
		return
	}
	for _, s := range n.sets {
		glue := s.typ == TypeA || s.typ == TypeAAAA
		atCut := owner == cut && (s.typ == TypeNS || s.typ == TypeDS)
		if !glue && !atCut {
			p.problem(s.line, owner, s.typ, "the record is hidden by the delegation of "+cut.String(), "remove it or the delegation's NS records")
		}
	}
}

// cutAbove returns the delegation that owner is at or below, the one nearest to
// the apex.
func (z *Zone) cutAbove(owner Name) (cut Name, ok bool) {
	for n := owner; n != z.name; n = n.parent() {
		if z.nodes[n].set(TypeNS) != nil {
			cut, ok = n, true
		}
	}
	return cut, ok
}

// sorted returns the names in a fixed order, for errors that do not change.
func (z *Zone) sorted() []Name {
	names := make([]Name, 0, len(z.nodes))
	for n := range z.nodes {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// lineReader hands out a zone file octet by octet and knows where the entry
// begins that was read last: entries may span lines inside parentheses, and the
// library keeps its positions to itself. It must be an io.ByteReader, or the
// library would read ahead.
type lineReader struct {
	r        io.Reader
	buf      [4096]byte
	next, n  int
	line     int // the line that the next octet is on
	start    int // where the entry under way began
	previous int // where the entry before it began
	depth    int // of parentheses
	quoted   bool
	comment  bool
	escaped  bool
	text     bool // the entry under way has something in it
}

// Read is here for the library's signature; it uses ReadByte only.
func (l *lineReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := l.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = c
	return 1, nil
}

// ReadByte returns the next octet.
func (l *lineReader) ReadByte() (byte, error) {
	if l.next == l.n {
		n, err := io.ReadAtLeast(l.r, l.buf[:], 1)
		if err != nil {
			return 0, err
		}
		l.next, l.n = 0, n
	}
	c := l.buf[l.next]
	l.next++
	l.track(c)
	return c, nil
}

func (l *lineReader) track(c byte) {
	escaped := l.escaped
	l.escaped = false
	switch {
	case c == '\n':
		l.newline()
	case l.comment || escaped:
	case c == '\\':
		l.escaped = true
	case c == '"':
		l.quoted = !l.quoted
	case l.quoted:
	case c == ';':
		l.comment = true
	case c == '(':
		l.depth++
	case c == ')':
		l.depth--
	}
	if c > ' ' && !l.comment {
		l.text = true
	}
}

func (l *lineReader) newline() {
	l.line++
	l.comment = false
	if l.depth > 0 || l.quoted {
		return
	}
	if l.text {
		l.previous = l.start
	}
	l.start, l.text = l.line, false
}

// recordLine returns the line where the entry that was read last began.
func (l *lineReader) recordLine() int {
	if l.text {
		return l.start
	}
	return l.previous
}
