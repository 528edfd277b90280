package wire

import "encoding/binary"

// The DNS header (RFC 1035 section 4.1.1).
//
//	                                1  1  1  1  1  1
//	  0  1  2  3  4  5  6  7  8  9  0  1  2  3  4  5
//	+-----------------------------------------------+
//	|                      ID                       |
//	+--+-----------+--+--+--+--+--------+-----------+
//	|QR|  opcode   |AA|TC|RD|RA|   Z    |   rcode   |
//	+--+-----------+--+--+--+--+--------+-----------+
//	|                    questions                  |
//	|                     answers                   |
//	|                    authority                  |
//	|                    additional                 |
//	+-----------------------------------------------+
//
// After the questions (name, type, class) come records (section 4.1.3): name,
// type, class, TTL (32 bits), length of the data, data.
const (
	dnsFlags     = 2
	dnsCounts    = 4
	dnsLen       = 12
	dnsQR        = 0x8000
	dnsAA        = 0x0400
	dnsTC        = 0x0200
	dnsRD        = 0x0100
	dnsOpcode    = 0x7800
	dnsFixed     = 4  // of a question after its name
	recordFixed  = 10 // of a record after its name
	recordClass  = 2
	recordTTL    = 4
	recordLen    = 8
	maxLabel     = 63
	maxName      = 255
	maxText      = 255
	optNSID      = 3    // RFC 5001
	ednsUDPSize  = 1232 // fits every path's MTU (DNS flag day 2020)
	namePtr      = 0xc0 // RFC 1035 section 4.1.4
	questionAddr = namePtr<<8 | dnsLen
)

// The DNS numbers that probing needs (RFC 1035 section 3.2, RFC 6891, RFC 4892).
const (
	DNSTypeA      = 1
	DNSTypeTXT    = 16
	DNSTypeAAAA   = 28
	DNSTypeOPT    = 41
	DNSClassIN    = 1
	DNSClassCHAOS = 3

	DNSPort = 53
)

// DNSQuery is one question.
type DNSQuery struct {
	ID          uint16
	Name        string // without escapes; a final dot changes nothing
	Type, Class uint16
	NSID        bool // ask for the server's identity in EDNS (RFC 5001)
}

// AppendDNSQuery appends a query message, with recursion not desired. The error
// is ErrName; what is returned then is b.
func AppendDNSQuery(b []byte, q DNSQuery) ([]byte, error) {
	start := len(b)
	var additional uint16
	if q.NSID {
		additional = 1
	}
	b = appendDNSHeader(b, q.ID, 0, 1, 0, additional)
	b, err := appendName(b, q.Name)
	if err != nil {
		return b[:start], err
	}
	b = binary.BigEndian.AppendUint16(b, q.Type)
	b = binary.BigEndian.AppendUint16(b, q.Class)
	if q.NSID {
		b = appendOPT(b, true, "")
	}
	return b, nil
}

func appendDNSHeader(b []byte, id, flags, questions, answers, additional uint16) []byte {
	b = binary.BigEndian.AppendUint16(b, id)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint16(b, questions)
	b = binary.BigEndian.AppendUint16(b, answers)
	b = append(b, 0, 0)
	return binary.BigEndian.AppendUint16(b, additional)
}

// appendName appends name as labels. It refuses what has no encoding: an empty
// or long label, a long name.
func appendName(b []byte, name string) ([]byte, error) {
	start := len(b)
	if n := len(name); n > 0 && name[n-1] == '.' {
		name = name[:n-1]
	}
	for len(name) > 0 {
		label, rest := name, ""
		for i := range len(name) {
			if name[i] == '.' {
				label, rest = name[:i], name[i+1:]
				if rest == "" {
					return b, ErrName
				}
				break
			}
		}
		if len(label) == 0 || len(label) > maxLabel {
			return b, ErrName
		}
		b = append(b, byte(len(label)))
		b = append(b, label...)
		name = rest
	}
	b = append(b, 0)
	if len(b)-start > maxName {
		return b, ErrName
	}
	return b, nil
}

// appendOPT appends an EDNS record (RFC 6891 section 6.1.2), with an NSID option
// if wanted, which is empty in a query (RFC 5001 section 2.1).
func appendOPT(b []byte, withNSID bool, nsid string) []byte {
	b = append(b, 0)
	b = binary.BigEndian.AppendUint16(b, DNSTypeOPT)
	b = binary.BigEndian.AppendUint16(b, ednsUDPSize)
	b = append(b, 0, 0, 0, 0)
	if !withNSID {
		return append(b, 0, 0)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(4+len(nsid)))
	b = binary.BigEndian.AppendUint16(b, optNSID)
	b = binary.BigEndian.AppendUint16(b, uint16(len(nsid)))
	return append(b, nsid...)
}

// DNSMessage is what probing needs of a query or an answer. Its slices alias
// the message that it was decoded from.
type DNSMessage struct {
	ID            uint16
	Response      bool
	Authoritative bool
	Truncated     bool
	Rcode         uint16 // with EDNS's upper bits (RFC 6891 section 6.1.3)
	Type, Class   uint16 // of the first question
	HasEDNS       bool
	HasNSID       bool // an NSID option was there, which may be empty

	// TXT is the first string of the first TXT record of the question's class
	// among the answers; nil when there is none.
	TXT []byte
	// NSID is the server's identity; valid with HasNSID.
	NSID []byte

	opcodeRD uint16
	name     []byte // of the first question, encoded, with its final zero octet
	txt      []byte // the whole data of the TXT record
}

// Decode reads the message b. Names are skipped, never followed, so that no
// pointer can lead in a circle; the first question's must be plain. The errors
// are ErrShort and ErrMalformed; m is zero then.
func (m *DNSMessage) Decode(b []byte) error {
	*m = DNSMessage{}
	if err := m.decode(b); err != nil {
		*m = DNSMessage{}
		return err
	}
	return nil
}

func (m *DNSMessage) decode(b []byte) error {
	if len(b) < dnsLen {
		return ErrShort
	}
	flags := binary.BigEndian.Uint16(b[dnsFlags:])
	m.ID = binary.BigEndian.Uint16(b)
	m.Response = flags&dnsQR != 0
	m.Authoritative = flags&dnsAA != 0
	m.Truncated = flags&dnsTC != 0
	m.Rcode = flags & 0xf
	m.opcodeRD = flags & (dnsOpcode | dnsRD)
	rest, err := m.questions(b[dnsLen:], dnsCount(b, 0))
	for section := 1; section <= 3 && err == nil; section++ {
		rest, err = m.records(rest, dnsCount(b, section), section == 1)
	}
	return err
}

func dnsCount(b []byte, section int) int {
	return int(binary.BigEndian.Uint16(b[dnsCounts+2*section:]))
}

func (m *DNSMessage) questions(b []byte, n int) ([]byte, error) {
	for i := range n {
		size, plain, err := nameLen(b)
		if err != nil {
			return nil, err
		}
		if len(b) < size+dnsFixed {
			return nil, ErrShort
		}
		if i == 0 {
			if !plain {
				return nil, ErrMalformed
			}
			m.name = b[:size]
			m.Type = binary.BigEndian.Uint16(b[size:])
			m.Class = binary.BigEndian.Uint16(b[size+2:])
		}
		b = b[size+dnsFixed:]
	}
	return b, nil
}

func (m *DNSMessage) records(b []byte, n int, answer bool) ([]byte, error) {
	for range n {
		size, _, err := nameLen(b)
		if err != nil {
			return nil, err
		}
		if len(b) < size+recordFixed {
			return nil, ErrShort
		}
		fixed, data := b[size:size+recordFixed], b[size+recordFixed:]
		length := int(binary.BigEndian.Uint16(fixed[recordLen:]))
		if len(data) < length {
			return nil, ErrShort
		}
		if err := m.record(fixed, data[:length], answer); err != nil {
			return nil, err
		}
		b = data[length:]
	}
	return b, nil
}

func (m *DNSMessage) record(fixed, data []byte, answer bool) error {
	typ := binary.BigEndian.Uint16(fixed)
	class := binary.BigEndian.Uint16(fixed[recordClass:])
	switch {
	case answer && typ == DNSTypeTXT && class == m.Class && m.txt == nil:
		if len(data) == 0 || 1+int(data[0]) > len(data) {
			return ErrMalformed
		}
		m.txt, m.TXT = data, data[1:1+data[0]]
	case !answer && typ == DNSTypeOPT && !m.HasEDNS:
		m.HasEDNS = true
		m.Rcode |= uint16(fixed[recordTTL]) << 4
		return m.options(data)
	}
	return nil
}

// options reads EDNS options (RFC 6891 section 6.1.2): code, length, data.
func (m *DNSMessage) options(b []byte) error {
	for len(b) > 0 {
		if len(b) < 4 {
			return ErrMalformed
		}
		code, n := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
		if len(b) < 4+n {
			return ErrMalformed
		}
		if code == optNSID {
			m.NSID, m.HasNSID = b[4:4+n], true
		}
		b = b[4+n:]
	}
	return nil
}

// nameLen returns how many octets the name at the start of b takes, and whether
// it has no compression pointer, which ends a name where it stands. A pointer's
// second octet may be missing: what must follow any name is missing then too.
func nameLen(b []byte) (size int, plain bool, err error) {
	for i := 0; i < len(b) && i < maxName; {
		switch c := b[i]; {
		case c == 0:
			return i + 1, true, nil
		case c&namePtr == namePtr:
			return i + 2, false, nil
		case c > maxLabel:
			return 0, false, ErrMalformed
		default:
			i += 1 + int(c)
		}
	}
	if len(b) >= maxName {
		return 0, false, ErrMalformed
	}
	return 0, false, ErrShort
}

// Asks reports whether m's first question is for name, in any case of letters,
// with that type and class.
func (m *DNSMessage) Asks(name string, typ, class uint16) bool {
	return m.name != nil && m.Type == typ && m.Class == class && sameName(m.name, name)
}

// Answers reports whether m is a response to q: the ID and the question are
// echoed. That is what tells an answer from a forgery (RFC 5452 section 9.1),
// besides the addresses and ports, which the caller compares.
func (m *DNSMessage) Answers(q DNSQuery) bool {
	return m.Response && m.ID == q.ID && m.Asks(q.Name, q.Type, q.Class)
}

// sameName compares an encoded name with its text.
func sameName(wire []byte, text string) bool {
	if n := len(text); n > 0 && text[n-1] == '.' {
		text = text[:n-1]
	}
	for i := 0; wire[i] != 0; {
		n := int(wire[i])
		if i > 0 {
			if text == "" || text[0] != '.' {
				return false
			}
			text = text[1:]
		}
		if len(text) < n || !equalFold(wire[i+1:i+1+n], text[:n]) {
			return false
		}
		text = text[n:]
		i += 1 + n
	}
	return text == ""
}

// equalFold compares ASCII without regard to case (RFC 4343). A dot inside an
// encoded label is not the dot of the text.
func equalFold(a []byte, b string) bool {
	for i := range a {
		if a[i] == '.' || lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// AppendTXT appends all strings of the TXT record that m.TXT is the first of,
// one after the other.
func (m *DNSMessage) AppendTXT(b []byte) []byte {
	for d := m.txt; len(d) > 0 && 1+int(d[0]) <= len(d); d = d[1+int(d[0]):] {
		b = append(b, d[1:1+int(d[0])]...)
	}
	return b
}

// DNSAnswer is what a server says to a query.
type DNSAnswer struct {
	Rcode uint8  // the low four bits
	TTLS  uint32 // of the record, in seconds
	TXT   string // one string of at most 255 octets; no record is sent for ""
	NSID  string // sent when the query asked for it
}

// AppendDNSAnswer appends an authoritative answer to the decoded query q, with
// its question echoed, and with EDNS if the query has it (RFC 6891 section 6.1.1). The error is ErrName for a text that is too long, and
// ErrMalformed for a query without a question; what is returned then is b.
func AppendDNSAnswer(b []byte, q *DNSMessage, a DNSAnswer) ([]byte, error) {
	switch {
	case q.name == nil:
		return b, ErrMalformed
	case len(a.TXT) > maxText || len(a.NSID) > maxText:
		return b, ErrName
	}
	var answers, additional uint16
	if a.TXT != "" {
		answers = 1
	}
	if q.HasEDNS {
		additional = 1
	}
	b = appendDNSHeader(b, q.ID, dnsQR|dnsAA|q.opcodeRD|uint16(a.Rcode&0xf), 1, answers, additional)
	b = append(b, q.name...)
	b = binary.BigEndian.AppendUint16(b, q.Type)
	b = binary.BigEndian.AppendUint16(b, q.Class)
	if a.TXT != "" {
		b = appendTXT(b, q.Class, a.TTLS, a.TXT)
	}
	if q.HasEDNS {
		b = appendOPT(b, q.HasNSID, a.NSID)
	}
	return b, nil
}

// appendTXT appends a TXT record that the name of the question owns.
func appendTXT(b []byte, class uint16, ttlS uint32, text string) []byte {
	b = binary.BigEndian.AppendUint16(b, questionAddr)
	b = binary.BigEndian.AppendUint16(b, DNSTypeTXT)
	b = binary.BigEndian.AppendUint16(b, class)
	b = binary.BigEndian.AppendUint32(b, ttlS)
	b = binary.BigEndian.AppendUint16(b, uint16(1+len(text)))
	b = append(b, byte(len(text)))
	return append(b, text...)
}
