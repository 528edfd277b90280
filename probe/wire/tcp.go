package wire

import "encoding/binary"

// The TCP header (RFC 9293 section 3.1), of which a quote may hold the first
// eight octets only:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|          source port          |       destination port        |
//	+-------------------------------+-------------------------------+
//	|                            sequence                           |
//	+---------------------------------------------------------------+
//	|                        acknowledgement                        |
//	+-------+-------+---------------+-------------------------------+
//	|offset |       |     flags     |            window             |
//	+-------+-------+---------------+-------------------------------+
//	|           checksum            |            urgent             |
//	+-------------------------------+-------------------------------+
const (
	tcpSeq   = 4
	tcpAck   = 8
	tcpOff   = 12
	tcpFlags = 13
	tcpSum   = 16
	tcpLen   = 20
)

// The TCP flags (RFC 9293 section 3.1, RFC 3168 section 6.1).
const (
	TCPFin = 1 << iota
	TCPSyn
	TCPRst
	TCPPsh
	TCPAck
	TCPUrg
	TCPEce
	TCPCwr
)

// TCP is a TCP segment without options. The two fields that a router hashes are
// the ports; the sequence number is where a probe has room for its identity,
// because every quote holds it.
type TCP struct {
	SrcPort, DstPort uint16
	Seq, Ack         uint32
	Flags            uint8 // TCPSyn and the others
	Window           uint16
	Payload          []byte
}

// AppendTCP appends a whole packet: ip, the TCP header and its payload, which
// must not overlap b's spare room. The errors are ErrFamily and ErrTooLong; what
// is returned then is b.
func AppendTCP(b []byte, ip IP, s TCP) ([]byte, error) {
	length := tcpLen + len(s.Payload)
	b, err := AppendIP(b, ip, ProtoTCP, length)
	if err != nil {
		return b, err
	}
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, s.SrcPort)
	b = binary.BigEndian.AppendUint16(b, s.DstPort)
	b = binary.BigEndian.AppendUint32(b, s.Seq)
	b = binary.BigEndian.AppendUint32(b, s.Ack)
	b = append(b, tcpLen/4<<4, s.Flags)
	b = binary.BigEndian.AppendUint16(b, s.Window)
	b = append(b, 0, 0, 0, 0)
	b = append(b, s.Payload...)
	m := b[start:]
	binary.BigEndian.PutUint16(m[tcpSum:], Checksum(m, PseudoSum(ip.Src, ip.Dst, ProtoTCP, length)))
	return b, nil
}
