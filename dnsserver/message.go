package dnsserver

import (
	"encoding/binary"
	"net/netip"
)

// The header (RFC 1035 section 4.1.1), 12 octets, and after it the sections:
//
//	 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
//	|                      ID                       |  0
//	|QR|   Opcode  |AA|TC|RD|RA| Z|AD|CD|   RCODE   |  2
//	|                    QDCOUNT                    |  4
//	|                    ANCOUNT                    |  6
//	|                    NSCOUNT                    |  8
//	|                    ARCOUNT                    | 10
const (
	headerLen   = 12
	flagQR      = 1 << 15
	opcodeMask  = 0xf << 11
	flagAA      = 1 << 10
	flagTC      = 1 << 9
	flagRD      = 1 << 8
	fixedRR     = 10 // type, class, TTL and RDLENGTH, after the owner
	noEDNSSize  = 512
	maxUDPSize  = 1232 // fits the IPv6 minimum MTU (DNS flag day 2020)
	maxTCPSize  = 65535
	pointerBits = 0xc0
)

// request is a message that deserves a reply, taken apart.
type request struct {
	id     uint16
	opcode uint16 // in its place in the flags
	rd     uint16 // the RD bit in its place
	rcode  Rcode  // Success, or why the message cannot be answered

	question []byte // the octets of the one question, or nil; aliases the message
	q        Query
	edns
}

// parse takes a message apart. Not ok means silence: it is too short to have a
// header, or a response itself (answering those makes loops). Everything else
// gets a reply; what is wrong with it is in rcode, and question and EDNS are kept
// as far as they were understood, so that the reply can show them.
func parse(msg []byte, from netip.Addr) (r request, ok bool) {
	if len(msg) < headerLen {
		return r, false
	}
	be := binary.BigEndian
	flags := be.Uint16(msg[2:])
	if flags&flagQR != 0 {
		return r, false
	}
	r.id, r.opcode, r.rd = be.Uint16(msg), flags&opcodeMask, flags&flagRD
	if r.opcode != 0 {
		r.rcode = NotImp // the rest has a meaning we do not know: leave it alone
		return r, true
	}
	r.q.Resolver = from
	if !r.parseSections(msg) {
		r.rcode = FormErr
	}
	if r.present && r.version > 0 {
		r.rcode = BadVers
	}
	return r, true
}

// parseSections reads the question and looks for the OPT record.
func (r *request) parseSections(msg []byte) bool {
	be := binary.BigEndian
	questions := int(be.Uint16(msg[4:]))
	off := headerLen
	for range questions {
		end, ok := r.parseQuestion(msg, off)
		if !ok {
			r.question = nil
			return false
		}
		off = end
	}
	if questions != 1 {
		r.question = nil // RFC 9619: exactly one
	}
	before := int(be.Uint16(msg[6:])) + int(be.Uint16(msg[8:]))
	for i := range before + int(be.Uint16(msg[10:])) {
		end, ok := r.parseRecord(msg, off, i >= before)
		if !ok {
			return false
		}
		off = end
	}
	return off == len(msg) && questions == 1
}

// parseQuestion reads a question at off and returns the offset after it. A
// compressed name is malformed: there is nothing before it to point at.
func (r *request) parseQuestion(msg []byte, off int) (int, bool) {
	end := off
	for {
		if end >= len(msg) || msg[end] > maxLabel {
			return 0, false
		}
		n := int(msg[end])
		end += 1 + n
		if n == 0 {
			break
		}
	}
	if end-off > maxName || end+4 > len(msg) {
		return 0, false
	}
	r.q.Name = Name(msg[off:end])
	r.q.Type = Type(binary.BigEndian.Uint16(msg[end:]))
	r.q.Class = Class(binary.BigEndian.Uint16(msg[end+2:]))
	r.question = msg[off : end+4]
	return end + 4, true
}

// parseRecord steps over the record at off; in the additional section it takes
// in the OPT record. False means malformed.
func (r *request) parseRecord(msg []byte, off int, additional bool) (int, bool) {
	root := off < len(msg) && msg[off] == 0
	off, ok := skipName(msg, off)
	if !ok || off+fixedRR > len(msg) {
		return 0, false
	}
	head := msg[off : off+fixedRR]
	data := off + fixedRR
	end := data + int(binary.BigEndian.Uint16(head[8:]))
	if end > len(msg) {
		return 0, false
	}
	if additional && Type(binary.BigEndian.Uint16(head)) == TypeOPT {
		if r.present || !root { // RFC 6891 section 6.1.1: one, owned by the root
			return 0, false
		}
		if !r.edns.parse(head, msg[data:end], &r.q) {
			return 0, false
		}
	}
	return end, true
}

// skipName returns the offset after the name at off. It follows no pointer, so
// there is no loop to fall into.
func skipName(msg []byte, off int) (int, bool) {
	for off < len(msg) {
		n := int(msg[off])
		switch {
		case n == 0:
			return off + 1, true
		case n >= pointerBits:
			return off + 2, off+2 <= len(msg)
		case n > maxLabel:
			return 0, false
		}
		off += 1 + n
	}
	return 0, false
}

// packer builds one reply. Positions are from the start of the message, which
// is base octets into buf (a TCP reply has its length in front).
type packer struct {
	buf   []byte
	base  int
	limit int // octets that the sections may fill
	class Class
	names []written
}

// written is a name in the message that later names may point at.
type written struct {
	name Name // lower case
	at   int
}

// appendReply appends the reply to r that carries a, at most limit octets long,
// and says whether it had to be truncated (RFC 2181 section 9: whole RRsets).
// The header, the question and the OPT record always fit in 512 octets.
func appendReply(b []byte, r *request, a *Answer, id string, limit int) ([]byte, bool) {
	opt := r.edns.appendReply(nil, a, id)
	p := packer{buf: b, base: len(b), limit: limit - len(opt), class: r.q.Class}
	p.buf = append(p.buf, make([]byte, headerLen)...)
	if r.question != nil {
		p.buf = append(p.buf, r.question...)
		p.names = append(p.names, written{r.q.Name.Lower(), headerLen})
	}
	answers, fits := p.section(a.Answer)
	authority, additional := 0, 0
	if fits {
		authority, fits = p.section(a.Authority)
	}
	if fits { // the additional section holds glue, which a referral needs (RFC 9471)
		additional, fits = p.section(a.Additional)
	}
	if r.present {
		p.buf = append(p.buf, opt...)
		additional++
	}
	p.header(r, a, !fits, [4]int{min(1, len(r.question)), answers, authority, additional})
	return p.buf, !fits
}

// header fills in the twelve octets reserved for it.
func (p *packer) header(r *request, a *Answer, truncated bool, counts [4]int) {
	flags := flagQR | r.opcode | r.rd | uint16(a.Rcode&0xf)
	if a.Authoritative {
		flags |= flagAA
	}
	if truncated {
		flags |= flagTC
	}
	h := p.buf[p.base:]
	binary.BigEndian.PutUint16(h, r.id)
	binary.BigEndian.PutUint16(h[2:], flags)
	for i, n := range counts {
		binary.BigEndian.PutUint16(h[4+2*i:], uint16(n))
	}
}

// section appends the records, RRset by RRset, and returns how many it wrote.
// The first RRset that does not fit is taken back whole and ends the section.
func (p *packer) section(records []Record) (n int, fits bool) {
	for n < len(records) {
		size := rrsetLen(records[n:])
		mark, names := len(p.buf), len(p.names)
		for _, rec := range records[n : n+size] {
			p.record(rec)
		}
		if len(p.buf)-p.base > p.limit {
			p.buf, p.names = p.buf[:mark], p.names[:names]
			return n, false
		}
		n += size
	}
	return n, true
}

// rrsetLen counts the records at the front that are of one owner and type.
func rrsetLen(records []Record) int {
	n := 1
	for n < len(records) && records[n].Type == records[0].Type && records[n].Name == records[0].Name {
		n++
	}
	return n
}

func (p *packer) record(rec Record) {
	be := binary.BigEndian
	p.name(rec.Name)
	p.buf = be.AppendUint16(p.buf, uint16(rec.Type))
	p.buf = be.AppendUint16(p.buf, uint16(p.class))
	p.buf = be.AppendUint32(p.buf, rec.TTL)
	p.buf = be.AppendUint16(p.buf, uint16(len(rec.Data)))
	p.buf = append(p.buf, rec.Data...)
}

// name appends an owner, the longest tail that the message already holds as a
// pointer (RFC 1035 section 4.1.4). Pointing at the question gives the owner the
// case that was asked.
func (p *packer) name(n Name) {
	lower := n.Lower()
	start := len(p.buf) - p.base
	for cut := 0; lower[cut] != 0; cut += 1 + int(lower[cut]) {
		if at, ok := p.find(lower[cut:]); ok {
			p.buf = append(p.buf, n[:cut]...)
			p.buf = binary.BigEndian.AppendUint16(p.buf, uint16(pointerBits<<8|at))
			if cut > 0 {
				p.names = append(p.names, written{lower, start})
			}
			return
		}
	}
	p.buf = append(p.buf, n...)
	p.names = append(p.names, written{lower, start})
}

// find returns where the message holds the tail. A pointer reaches 14 bits.
func (p *packer) find(tail Name) (int, bool) {
	for _, w := range p.names {
		if !w.name.Within(tail) {
			continue
		}
		if at := w.at + len(w.name) - len(tail); at < 1<<14 {
			return at, true
		}
	}
	return 0, false
}
