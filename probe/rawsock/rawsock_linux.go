package rawsock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"strandline/probe"
	"strandline/probe/wire"
)

var _ probe.Conn = (*conn)(nil)

// conn is a probe.Conn. All receiving sockets are in one epoll set, and the
// set's descriptor, which is readable when any of them is, is what Go's own
// poller waits for: thus one goroutine waits for many sockets with a deadline.
type conn struct {
	opened time.Time // wall and monotonic
	send4  int       // -1 when the host has no such family
	send6  int
	epfd   int
	epoll  *os.File // owns epfd
	raw    syscall.RawConn

	mu      sync.Mutex // guards what follows against Close
	sources map[int]*source
	ports   map[netip.AddrPort]bool // taken UDP source ports
	closed  bool

	events [16]unix.EpollEvent
	oob    [256]byte
}

// Open opens the sockets. The error wraps os.ErrPermission without CAP_NET_RAW.
// A host without IPv6 (or IPv4) gets a Conn whose Local says so.
func Open(o Options) (probe.Conn, error) {
	c := &conn{
		opened: time.Now(), send4: -1, send6: -1,
		sources: map[int]*source{}, ports: map[netip.AddrPort]bool{},
	}
	if err := c.open(o); err != nil {
		c.Close()
		return nil, fmt.Errorf("raw sockets: %w", err)
	}
	return c, nil
}

func (c *conn) open(o Options) error {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // makes NewFile use the poller
		unix.Close(epoll)
		return fmt.Errorf("epoll: %w", err)
	}
	c.epfd, c.epoll = epoll, os.NewFile(uintptr(epoll), "epoll")
	if c.raw, err = c.epoll.SyscallConn(); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	buffer := o.ReceiveBuffer
	if buffer == 0 {
		buffer = DefaultReceiveBuffer
	}
	err4 := c.openFamily(unix.AF_INET, unix.IPPROTO_ICMP, &c.send4, buffer)
	err6 := c.openFamily(unix.AF_INET6, unix.IPPROTO_ICMPV6, &c.send6, buffer)
	if lacksFamily(err4) && lacksFamily(err6) {
		return fmt.Errorf("neither IPv4 nor IPv6: %w", errors.ErrUnsupported)
	}
	for _, err := range []error{err4, err6} {
		if err != nil && !lacksFamily(err) {
			return err
		}
	}
	return nil
}

// lacksFamily reports whether the kernel has no such address family at all.
func lacksFamily(err error) bool { return errors.Is(err, unix.EAFNOSUPPORT) }

// openFamily opens the sending socket and the ICMP socket of one family.
func (c *conn) openFamily(family, icmp int, send *int, buffer int) error {
	out, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("sending socket: %w", err)
	}
	*send = out
	in, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, icmp)
	if err != nil {
		return fmt.Errorf("ICMP socket: %w", err)
	}
	if err := errors.Join(filterICMP(in, family), describe(in, family)); err != nil {
		unix.Close(in)
		return fmt.Errorf("ICMP socket: %w", err)
	}
	if unix.SetsockoptInt(in, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		unix.SetsockoptInt(in, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer) // as much as is allowed
	}
	return c.watch(&source{fd: in, family: family, proto: icmp})
}

// watch adds a receiving socket to the epoll set, and takes it over.
func (c *conn) watch(s *source) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(s.fd)}
	if err := unix.EpollCtl(c.epfd, unix.EPOLL_CTL_ADD, s.fd, &event); err != nil {
		unix.Close(s.fd)
		return fmt.Errorf("epoll: %w", err)
	}
	c.sources[s.fd] = s
	return nil
}

// filterICMP lets through what answers a probe: echo replies and errors.
func filterICMP(fd, family int) error {
	if family == unix.AF_INET {
		wanted := uint32(1<<wire.ICMPEchoReply | 1<<wire.ICMPUnreachable | 1<<wire.ICMPTimeExceeded | 1<<wire.ICMPParameter)
		return unix.SetsockoptInt(fd, unix.SOL_RAW, unix.ICMP_FILTER, int(^wanted))
	}
	var block unix.ICMPv6Filter // a set bit blocks
	for i := range block.Data {
		block.Data[i] = ^uint32(0)
	}
	for _, typ := range []int{
		wire.ICMPv6EchoReply, wire.ICMPv6Unreachable, wire.ICMPv6PacketTooBig, wire.ICMPv6TimeExceeded, wire.ICMPv6Parameter,
	} {
		block.Data[typ/32] &^= 1 << (typ % 32)
	}
	return unix.SetsockoptICMPv6Filter(fd, unix.SOL_ICMPV6, unix.ICMPV6_FILTER, &block)
}

// describe asks the kernel to say about each packet when it came, for which
// address and with which TTL and TOS.
func describe(fd, family int) error {
	// Without kernel stamps, on kernels before 5.1, the user's clock stamps.
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1)
	if family == unix.AF_INET {
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_PKTINFO, 1),
			unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_RECVTTL, 1),
			unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_RECVTOS, 1))
	}
	return errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1),
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_RECVHOPLIMIT, 1),
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_RECVTCLASS, 1))
}

// Now implements probe.Conn; see the package's comment on time.
func (c *conn) Now() time.Time { return c.opened.Add(time.Since(c.opened)) }

// Local implements probe.Conn by asking the routing table.
func (c *conn) Local(dst netip.Addr) (netip.Addr, error) {
	family, fd := unix.AF_INET, c.send4
	if dst.Is6() {
		family, fd = unix.AF_INET6, c.send6
	}
	if fd < 0 {
		return netip.Addr{}, fmt.Errorf("source address for %s: %w", dst, errors.ErrUnsupported)
	}
	socket, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("source address for %s: %w", dst, err)
	}
	defer unix.Close(socket)
	// Connecting a UDP socket sends nothing and chooses the source; the port is
	// any but 0.
	err = unix.Connect(socket, sockaddr(netip.AddrPortFrom(dst, wire.DNSPort)))
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return netip.Addr{}, fmt.Errorf("source address for %s: %w: %w", dst, err, errors.ErrUnsupported)
	}
	if err != nil {
		return netip.Addr{}, fmt.Errorf("source address for %s: %w", dst, err)
	}
	local, err := unix.Getsockname(socket)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("source address for %s: %w", dst, err)
	}
	return addrOf(local), nil
}

// Send implements probe.Conn.
func (c *conn) Send(pkts []probe.Packet) (int, error) {
	for i := range pkts {
		if err := c.send(&pkts[i]); err != nil {
			return i, fmt.Errorf("send: %w", err)
		}
	}
	return len(pkts), nil
}

func (c *conn) send(p *probe.Packet) error {
	var h wire.Header
	if err := h.Decode(p.Data); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	fd := c.send4
	if h.Version == 6 {
		fd = c.send6
	}
	if fd < 0 {
		return fmt.Errorf("%s: %w", h.Dst, errors.ErrUnsupported)
	}
	if h.Proto == wire.ProtoUDP && h.HasL4 {
		if err := c.claim(netip.AddrPortFrom(h.Src, h.SrcPort)); err != nil {
			return err
		}
	}
	p.Time, p.Stamp = c.Now(), stampUser
	if err := unix.Sendto(fd, p.Data, 0, sockaddr(netip.AddrPortFrom(h.Dst, 0))); err != nil {
		return fmt.Errorf("%s: %w", h.Dst, err)
	}
	return nil
}

// claim takes a UDP source port, so that its answers come here.
func (c *conn) claim(local netip.AddrPort) error {
	if c.ports[local] {
		return nil
	}
	family := unix.AF_INET
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("source port %s: %w", local, err)
	}
	if err := errors.Join(describe(fd, family), unix.Bind(fd, sockaddr(local))); err != nil {
		unix.Close(fd)
		return fmt.Errorf("source port %s: %w", local, err)
	}
	if err := c.watch(&source{fd: fd, family: family, proto: unix.IPPROTO_UDP, port: local.Port()}); err != nil {
		return fmt.Errorf("source port %s: %w", local, err)
	}
	c.ports[local] = true
	return nil
}

// past is a deadline that has passed.
func past() time.Time { return time.Unix(1, 0) }

// Recv implements probe.Conn. Whatever has arrived by the deadline is returned
// before it gives up.
func (c *conn) Recv(ctx context.Context, pkts []probe.Packet, deadline time.Time) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if n, err := c.drain(pkts); n > 0 || err != nil || len(pkts) == 0 {
		return n, err
	}
	if !deadline.After(c.Now()) {
		return 0, nil
	}
	stop := context.AfterFunc(ctx, func() { c.epoll.SetReadDeadline(past()) })
	defer stop()
	for {
		n, err := c.wait(pkts, deadline)
		switch {
		case n > 0 || err == nil:
			return n, nil
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case c.isClosed(): // the poller has an error of its own for this, which it does not export
			return 0, fmt.Errorf("receive: %w", net.ErrClosed)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, fmt.Errorf("receive: %w", err)
		}
		// An earlier ctx may have moved the deadline; only ours counts.
		if !deadline.After(c.Now()) {
			return c.drain(pkts)
		}
	}
}

// wait blocks until something has arrived or the deadline has passed.
func (c *conn) wait(pkts []probe.Packet, deadline time.Time) (n int, err error) {
	if err := c.epoll.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	var inner error
	err = c.raw.Read(func(uintptr) bool {
		n, inner = c.drain(pkts)
		return n > 0 || inner != nil
	})
	return n, errors.Join(err, inner)
}

// drain receives what is there, without waiting.
func (c *conn) drain(pkts []probe.Packet) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n < len(pkts) {
		if c.closed {
			return n, net.ErrClosed
		}
		ready, err := unix.EpollWait(c.epfd, c.events[:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("epoll: %w", err)
		}
		if ready == 0 {
			break
		}
		for _, event := range c.events[:ready] {
			n += c.receive(c.sources[int(event.Fd)], pkts[n:])
		}
	}
	return n, nil
}

// receive takes packets from one socket until it is empty or pkts is full.
func (c *conn) receive(s *source, pkts []probe.Packet) (n int) {
	for n < len(pkts) {
		switch err := s.read(&pkts[n], c.oob[:], c.Now); err {
		case nil:
			n++
		case errSkip, unix.EINTR:
		default: // EAGAIN, or a pending error of an earlier send, which reading it has cleared
			return n
		}
	}
	return n
}

// Close implements probe.Conn. It may be called from another goroutine.
func (c *conn) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	if first {
		for fd := range c.sources {
			unix.Close(fd)
		}
		for _, fd := range []int{c.send4, c.send6} {
			if fd >= 0 {
				unix.Close(fd)
			}
		}
	}
	c.mu.Unlock()
	if !first || c.epoll == nil {
		return nil
	}
	return c.epoll.Close() // waits for a Recv under way, which may want the lock
}

func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// sockaddr converts an address for a system call.
func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// addrOf is the inverse; the zero address for other families.
func addrOf(s unix.Sockaddr) netip.Addr {
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(s.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(s.Addr)
	}
	return netip.Addr{}
}
