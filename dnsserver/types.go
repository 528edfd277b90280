package dnsserver

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/miekg/dns"
)

// Type is the type of a record or a question (RFC 1035 section 3.2.2).
type Type uint16

// The types that the server treats in a way of their own; every other type is
// served as the zone file holds it.
const (
	TypeA      Type = 1
	TypeNS     Type = 2
	TypeCNAME  Type = 5
	TypeSOA    Type = 6
	TypeHINFO  Type = 13
	TypeTXT    Type = 16
	TypeAAAA   Type = 28
	TypeDNAME  Type = 39
	TypeOPT    Type = 41
	TypeDS     Type = 43
	TypeRRSIG  Type = 46
	TypeNSEC   Type = 47
	TypeNSEC3  Type = 50
	TypeNXNAME Type = 128 // RFC 9824: may not be asked for
	TypeTKEY   Type = 249
	TypeTSIG   Type = 250
	TypeIXFR   Type = 251
	TypeAXFR   Type = 252
	TypeMAILB  Type = 253
	TypeMAILA  Type = 254
	TypeANY    Type = 255
)

// String returns the mnemonic, or TYPE and the number (RFC 3597 section 5).
func (t Type) String() string { return dns.Type(t).String() }

// Class is the class of a question.
type Class uint16

// The classes that the server answers.
const (
	ClassIN Class = 1 // zones
	ClassCH Class = 3 // id.server and version.server
)

// Rcode is the outcome of a question (RFC 6895 section 2.3).
type Rcode uint16

// The outcomes that the server gives.
const (
	Success  Rcode = 0
	FormErr  Rcode = 1
	ServFail Rcode = 2
	NXDomain Rcode = 3
	NotImp   Rcode = 4
	Refused  Rcode = 5
	BadVers  Rcode = 16 // needs EDNS to be said
)

// String returns the mnemonic.
func (r Rcode) String() string {
	if r == BadVers {
		return "BADVERS" // the number is BADSIG's too, which only TSIG knows
	}
	if s, ok := dns.RcodeToString[int(r)]; ok {
		return s
	}
	return "RCODE" + strconv.Itoa(int(r))
}

// Query is one question and who asks it.
type Query struct {
	Name     Name // as asked: the case is kept for the answer
	Type     Type
	Class    Class
	Resolver netip.Addr // the address that the question came from

	// Subnet is the client's prefix as the resolver gave it (RFC 7871), valid
	// when HasSubnet. The zero Prefix, or one of length 0, means that the client
	// does not want to be located.
	Subnet    netip.Prefix
	HasSubnet bool
}

// Record is one resource record. Its class is that of the question.
type Record struct {
	Name Name
	Type Type
	TTL  uint32 // seconds
	Data []byte // RDATA in wire form, no compression; belongs to the snapshot: do not change
}

// String returns the record as a line of a zone file, of class IN.
func (r Record) String() string {
	b := r.append(nil)
	rr, _, err := dns.UnpackRR(b, 0)
	if err != nil {
		return r.Name.String() + " " + r.Type.String() + " (" + err.Error() + ")"
	}
	return rr.String()
}

// append writes the record in wire form, of class IN and without compression.
func (r Record) append(b []byte) []byte {
	b = append(b, r.Name...)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Type))
	b = binary.BigEndian.AppendUint16(b, uint16(ClassIN))
	b = binary.BigEndian.AppendUint32(b, r.TTL)
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.Data)))
	return append(b, r.Data...)
}

// Answer is what Resolve found.
type Answer struct {
	Rcode         Rcode
	Authoritative bool // clear on referrals and errors
	Answer        []Record
	Authority     []Record
	Additional    []Record

	// Scope is the length of the prefix that the answer holds for (RFC 7871): 0
	// when it is the same for everybody. It is sent when the query had a subnet.
	Scope int

	// Decision says how the region was chosen; nil when no steered name took part.
	Decision *Decision
}
