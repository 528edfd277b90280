package rawsock

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"strandline/datasets"
	"strandline/probe"
	"strandline/probe/wire"
)

const (
	stampUser = datasets.StampUser
	// minRoom is what a receiver's buffer must at least hold: an Ethernet frame.
	minRoom = 2048
	// oldestStamp is the age beyond which a kernel stamp is not believed: the
	// clock was stepped between stamp and reading.
	oldestStamp = time.Minute
	headerRoom  = 40 + 8 // IPv6 and UDP
)

// errSkip says that a received packet is not one to hand over.
var errSkip = errors.New("rawsock: packet skipped")

// source is a receiving socket.
type source struct {
	fd     int
	family int
	proto  int    // IPPROTO_ICMP, IPPROTO_ICMPV6 or IPPROTO_UDP
	port   uint16 // UDP: the local port
}

// notes are what the kernel says about a packet.
type notes struct {
	stamp time.Time // wall clock; zero when there is none
	dst   netip.Addr
	ttl   uint8
	tos   uint8
}

// whole reports whether the kernel hands over the IP header.
func (s *source) whole() bool { return s.proto == unix.IPPROTO_ICMP }

// read receives one packet into p. Errors are the system call's, or errSkip.
func (s *source) read(p *probe.Packet, oob []byte, now func() time.Time) error {
	if cap(p.Data) < minRoom {
		p.Data = make([]byte, 0, minRoom)
	}
	room := p.Data[:cap(p.Data)]
	body := room
	if !s.whole() {
		body = room[headerRoom:]
	}
	n, oobn, flags, from, err := unix.Recvmsg(s.fd, body, oob, 0)
	if err != nil {
		return err
	}
	if flags&unix.MSG_TRUNC != 0 { // longer than any answer to a probe
		return errSkip
	}
	note := parseNotes(oob[:oobn])
	p.Time, p.Stamp = date(note.stamp, time.Now(), now())
	if s.whole() {
		p.Data = room[:n]
		return nil
	}
	return s.rebuild(p, from, note, body[:n])
}

// rebuild puts the headers that the kernel stripped before the body, which lies
// headerRoom into p.Data's room.
func (s *source) rebuild(p *probe.Packet, from unix.Sockaddr, note notes, body []byte) error {
	ip := wire.IP{Src: addrOf(from), Dst: note.dst, TTL: note.ttl, TOS: note.tos}
	if s.proto != unix.IPPROTO_UDP {
		head, err := wire.AppendIP(p.Data[:0], ip, uint8(s.proto), len(body))
		if err != nil {
			return errSkip
		}
		p.Data = append(head, body...) // moves it down, within the room
		return nil
	}
	udp := wire.UDP{SrcPort: portOf(from), DstPort: s.port, Payload: append([]byte(nil), body...)}
	data, err := wire.AppendUDP(p.Data[:0], ip, udp)
	if err != nil {
		return errSkip
	}
	p.Data = data
	return nil
}

func portOf(s unix.Sockaddr) uint16 {
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return uint16(s.Port)
	case *unix.SockaddrInet6:
		return uint16(s.Port)
	}
	return 0
}

// date turns a kernel stamp into the Conn's clock: as long before now as it was
// before wall, which is the same instant.
func date(stamp, wall, now time.Time) (time.Time, datasets.Stamp) {
	age := wall.Round(0).Sub(stamp) // Round drops the monotonic reading: both are wall clocks
	if stamp.IsZero() || age < 0 || age > oldestStamp {
		return now, datasets.StampUser
	}
	return now.Add(-age), datasets.StampKernel
}

// parseNotes reads the control messages.
func parseNotes(oob []byte) (n notes) {
	for len(oob) > 0 {
		head, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return n
		}
		oob = rest
		n.note(head.Level, head.Type, data)
	}
	return n
}

func (n *notes) note(level, typ int32, data []byte) {
	switch {
	case level == unix.SOL_SOCKET && typ == unix.SO_TIMESTAMPNS_NEW && len(data) >= 16:
		n.stamp = time.Unix(int64(binary.NativeEndian.Uint64(data)), int64(binary.NativeEndian.Uint64(data[8:])))
	case level == unix.SOL_IP && typ == unix.IP_PKTINFO && len(data) >= 12:
		n.dst = netip.AddrFrom4([4]byte(data[8:12])) // struct in_pktinfo: index, local, destination
	case level == unix.SOL_IP && typ == unix.IP_TTL && len(data) >= 4:
		n.ttl = uint8(binary.NativeEndian.Uint32(data))
	case level == unix.SOL_IP && typ == unix.IP_TOS && len(data) >= 1:
		n.tos = data[0]
	case level == unix.SOL_IPV6 && typ == unix.IPV6_PKTINFO && len(data) >= 16:
		n.dst = netip.AddrFrom16([16]byte(data[:16]))
	case level == unix.SOL_IPV6 && typ == unix.IPV6_HOPLIMIT && len(data) >= 4:
		n.ttl = uint8(binary.NativeEndian.Uint32(data))
	case level == unix.SOL_IPV6 && typ == unix.IPV6_TCLASS && len(data) >= 4:
		n.tos = uint8(binary.NativeEndian.Uint32(data))
	}
}
