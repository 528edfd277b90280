package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"strandline/internal/config"
)

// sockets is everything that was bound.
type sockets struct {
	admin   net.Listener
	packets []net.PacketConn // DNS over UDP
	streams []net.Listener   // DNS over TCP
	http    []net.Listener
	addrs   Addrs
}

// bind opens all sockets or none.
func bind(ctx context.Context, cfg *config.Config, opts Options) (*sockets, error) {
	s := &sockets{}
	var errs []error
	listen := func(key string, addr netip.AddrPort) net.Listener {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr.String())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
		return l
	}
	if s.admin = listen("admin.listen", cfg.Admin.Listen); s.admin != nil {
		s.addrs.Admin = addrPort(s.admin.Addr())
	}
	if opts.DNS {
		for _, a := range cfg.DNS.Listen {
			errs = append(errs, s.bindDNS(ctx, a))
		}
	}
	if opts.HTTP {
		for _, a := range cfg.HTTP.Listen {
			if l := listen("http.listen", a); l != nil {
				s.http, s.addrs.HTTP = append(s.http, l), append(s.addrs.HTTP, addrPort(l.Addr()))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// bindDNS opens UDP and TCP on one address. Port 0 means any port that is free
// for both, which may take a few attempts.
func (s *sockets) bindDNS(ctx context.Context, addr netip.AddrPort) error {
	for attempt := 0; ; attempt++ {
		p, err := new(net.ListenConfig).ListenPacket(ctx, "udp", addr.String())
		if err != nil {
			return fmt.Errorf("dns.listen: %w", err)
		}
		bound := addrPort(p.LocalAddr())
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", bound.String())
		if err == nil {
			s.packets, s.streams, s.addrs.DNS = append(s.packets, p), append(s.streams, l), append(s.addrs.DNS, bound)
			return nil
		}
		p.Close()
		if addr.Port() != 0 || attempt == 10 {
			return fmt.Errorf("dns.listen: %w", err)
		}
	}
}

// addrPort is the address of an IP socket.
func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr:
		return a.AddrPort()
	}
	panic(fmt.Sprintf("daemon: %T is no IP socket", a))
}

func (s *sockets) close() {
	if s.admin != nil {
		s.admin.Close()
	}
	s.closeServing()
}

// closeServing closes all but the admin listener, which its server closes.
func (s *sockets) closeServing() {
	for _, p := range s.packets {
		p.Close()
	}
	for _, l := range append(s.streams, s.http...) {
		l.Close()
	}
}
