package wire

import "encoding/binary"

// The UDP header (RFC 768).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|          source port          |       destination port        |
//	+-------------------------------+-------------------------------+
//	|            length             |           checksum            |
//	+-------------------------------+-------------------------------+
const (
	portSrc = 0
	portDst = 2
	udpSize = 4
	udpSum  = 6
	udpLen  = 8
)

// UDP is a UDP datagram.
type UDP struct {
	SrcPort, DstPort uint16
	Checksum         uint16 // the checksum to send; 0 means whatever it comes to
	// Payload is the data. When Checksum is not 0, its first two octets are the
	// ones that compensate: the packet gets other values there.
	Payload []byte
}

// AppendUDP appends a whole packet: ip, the UDP header and its payload, which
// must not overlap b's spare room. A checksum that comes to 0 is sent as 0xffff,
// because 0 means "none" (RFC 768). The errors are ErrFamily, ErrTooLong and
// ErrNoRoom; what is returned then is b.
func AppendUDP(b []byte, ip IP, u UDP) ([]byte, error) {
	if u.Checksum != 0 && len(u.Payload) < 2 {
		return b, ErrNoRoom
	}
	length := udpLen + len(u.Payload)
	b, err := AppendIP(b, ip, ProtoUDP, length)
	if err != nil {
		return b, err
	}
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, u.SrcPort)
	b = binary.BigEndian.AppendUint16(b, u.DstPort)
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = append(b, 0, 0)
	b = append(b, u.Payload...)
	m := b[start:]
	seal(m, udpSum, PseudoSum(ip.Src, ip.Dst, ProtoUDP, length), u.Checksum)
	if m[udpSum] == 0 && m[udpSum+1] == 0 {
		m[udpSum], m[udpSum+1] = 0xff, 0xff
	}
	return b, nil
}
