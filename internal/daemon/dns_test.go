package daemon_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// dnsReply is what the tests look at in an answer.
type dnsReply struct {
	rcode int
	addrs []netip.Addr
	ttl   uint32
	scope int // of the ECS option; -1 = there is none
}

// ask sends one question for A records with an ECS option over UDP, written and
// read by hand so that the server's library is not its own witness.
func ask(server netip.AddrPort, name string, subnet netip.Prefix) (dnsReply, error) {
	conn, err := net.Dial("udp", server.String())
	if err != nil {
		return dnsReply{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return dnsReply{}, err
	}
	if _, err := conn.Write(question(0x5151, name, subnet)); err != nil {
		return dnsReply{}, err
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err != nil {
		return dnsReply{}, err
	}
	return readReply(buf[:n], 0x5151)
}

// question is a query for A (RFC 1035 section 4.1) with OPT (RFC 6891) and the
// client's subnet (RFC 7871 section 6).
func question(id uint16, name string, subnet netip.Prefix) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1)
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	b = append(b, 0, 0, 1, 0, 1)
	addr := subnet.Addr().AsSlice()[:(subnet.Bits()+7)/8]
	family := byte(1)
	if subnet.Addr().Is6() {
		family = 2
	}
	b = append(b, 0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, byte(8+len(addr)))
	b = append(b, 0, 8, 0, byte(4+len(addr)), 0, family, byte(subnet.Bits()), 0)
	return append(b, addr...)
}

func readReply(b []byte, id uint16) (dnsReply, error) {
	if len(b) < 12 || binary.BigEndian.Uint16(b) != id || b[2]&0x80 == 0 {
		return dnsReply{}, fmt.Errorf("% x is no reply to %x", b, id)
	}
	r := dnsReply{rcode: int(b[3] & 15), scope: -1}
	count := func(i int) int { return int(binary.BigEndian.Uint16(b[i:])) }
	rest, err := skipName(b[12:])
	if err != nil || len(rest) < 4 {
		return r, errors.New("no question")
	}
	rest = rest[4:]
	for range count(6) + count(8) + count(10) {
		if rest, err = skipName(rest); err != nil || len(rest) < 10 {
			return r, errors.New("a record is cut")
		}
		typ, length := binary.BigEndian.Uint16(rest), int(binary.BigEndian.Uint16(rest[8:]))
		data := rest[10 : 10+length]
		switch typ {
		case 1:
			r.ttl = binary.BigEndian.Uint32(rest[4:])
			r.addrs = append(r.addrs, netip.AddrFrom4([4]byte(data)))
		case 41:
			if length >= 8 && data[1] == 8 {
				r.scope = int(data[7])
			}
		}
		rest = rest[10+length:]
	}
	return r, nil
}

// skipName passes over a name, which may end in a pointer (RFC 1035 section 4.1.4).
func skipName(b []byte) ([]byte, error) {
	for len(b) > 0 {
		switch n := int(b[0]); {
		case n == 0:
			return b[1:], nil
		case n >= 0xc0 && len(b) > 1:
			return b[2:], nil
		case n < 64 && len(b) > n:
			b = b[1+n:]
		default:
			return nil, errors.New("bad label")
		}
	}
	return nil, errors.New("a name is cut")
}
