package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxQuery  = 4096                   // octets; what a query has no need to exceed
	drainTime = 100 * time.Millisecond // after the end, to answer what has arrived already
	maxID     = 63                     // octets of Options.ID; replies must fit in 512
)

// Options configures a Server. The zero value of each limit means its default.
type Options struct {
	// The sockets to serve. Run closes them. Several sockets of one address
	// (SO_REUSEPORT) spread the load over cores: each has one reader.
	PacketConns []net.PacketConn
	Listeners   []net.Listener

	ID      string // what the server calls itself in NSID and id.server; empty = it does not
	Version string // answer to version.server; empty = REFUSED

	MaxTCP   int           // open connections, further ones are closed at once; default 1024
	IdleTime time.Duration // a TCP connection without a whole query for so long is closed; default 10 s
}

// Server answers queries from the snapshot published last. Publish, Snapshot and
// Stats may be called at any time from any goroutine.
type Server struct {
	opts     Options
	snapshot atomic.Pointer[Snapshot]
	publish  sync.Mutex // orders publishers; readers never wait
	count    counters

	mu      sync.Mutex
	ending  time.Time // when reading stops; zero until Run's context ends
	streams map[net.Conn]struct{}
}

// New returns a server for the sockets in opts. The error is about opts; the
// sockets then stay the caller's.
func New(opts Options) (*Server, error) {
	if len(opts.PacketConns)+len(opts.Listeners) == 0 {
		return nil, errors.New("dnsserver: no socket to serve")
	}
	if len(opts.ID) > maxID || len(opts.Version) > maxID {
		return nil, fmt.Errorf("dnsserver: the server's id and version have at most %d octets", maxID)
	}
	if opts.MaxTCP <= 0 {
		opts.MaxTCP = 1024
	}
	if opts.IdleTime <= 0 {
		opts.IdleTime = 10 * time.Second
	}
	return &Server{opts: opts, streams: map[net.Conn]struct{}{}}, nil
}

// Publish makes snap what all later queries are answered from; queries under way
// finish with the one they began with. It keeps what the new snapshot needs from
// the old one (Snapshot.After). Before the first call queries get SERVFAIL.
func (s *Server) Publish(snap *Snapshot) {
	s.publish.Lock()
	defer s.publish.Unlock()
	s.snapshot.Store(snap.After(s.snapshot.Load()))
}

// Snapshot returns the snapshot in use, or nil.
func (s *Server) Snapshot() *Snapshot { return s.snapshot.Load() }

// Stats returns the counters.
func (s *Server) Stats() Stats { return s.count.stats() }

// Run serves until ctx ends or a socket is closed by somebody else, then answers
// what has arrived already, closes all sockets and returns when every goroutine
// of its own has ended. It may be called once. The error is nil after ctx ended.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	errs := make([]error, len(s.opts.PacketConns)+len(s.opts.Listeners))
	serve := func(i int, f func() error) {
		wg.Go(func() {
			if errs[i] = f(); errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	for i, c := range s.opts.PacketConns {
		serve(i, func() error { return s.serveUDP(ctx, c) })
	}
	for i, l := range s.opts.Listeners {
		serve(len(s.opts.PacketConns)+i, func() error { return s.serveTCP(ctx, l) })
	}
	<-ctx.Done()
	s.end()
	wg.Wait()
	s.close()
	return errors.Join(errs...)
}

// end tells every reader when to stop.
func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = time.Now().Add(drainTime)
	for _, c := range s.opts.PacketConns {
		if c.SetReadDeadline(s.ending) != nil {
			c.Close()
		}
	}
	for c := range s.streams {
		if c.SetDeadline(s.ending) != nil {
			c.Close()
		}
	}
	for _, l := range s.opts.Listeners {
		l.Close() // Accept has no deadline in net.Listener
	}
}

func (s *Server) close() {
	for _, c := range s.opts.PacketConns {
		c.Close()
	}
}

// serveUDP answers the packets of one socket. An error of one packet (such as an
// ICMP refusal of an earlier reply, which some systems report here) is counted
// and does not end it.
func (s *Server) serveUDP(ctx context.Context, c net.PacketConn) error {
	in, out := make([]byte, maxQuery), make([]byte, 0, maxUDPSize)
	for {
		n, from, err := c.ReadFrom(in)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("dns: %v: %w", c.LocalAddr(), err)
		default:
			s.count.udpErrors.Add(1)
			pause(ctx)
			continue
		}
		s.count.udpQueries.Add(1)
		client := addrOf(from)
		if client.Port() == 0 { // nobody can receive there
			s.count.dropped.Add(1)
			continue
		}
		if out = s.reply(out[:0], in[:n], client.Addr(), udp); len(out) == 0 {
			continue
		}
		if _, err := c.WriteTo(out, from); err != nil {
			s.count.udpErrors.Add(1)
		}
	}
}

// pause waits a little after an error that may come again at once, such as too
// many open files, so that it does not take a core.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
}

// addrOf returns the address behind a.
func addrOf(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.UDPAddr:
		return a.AddrPort()
	case *net.TCPAddr:
		return a.AddrPort()
	}
	ap, _ := netip.ParseAddrPort(a.String()) // a simulated network's own type
	return ap
}

type transport int

const (
	udp transport = iota
	tcp
)

// reply appends the reply to msg, or nothing when it gets none.
func (s *Server) reply(b, msg []byte, from netip.Addr, via transport) []byte {
	r, ok := parse(msg, from.Unmap().WithZone(""))
	if !ok {
		s.count.dropped.Add(1)
		return b
	}
	limit := maxTCPSize
	if via == udp {
		limit = r.udpLimit()
	}
	a := s.answer(&r)
	b, truncated := appendReply(b, &r, &a, s.opts.ID, limit)
	s.count.answer(&a, truncated)
	return b
}

// answer maps a message to its answer; it is the only place that does.
func (s *Server) answer(r *request) Answer {
	if r.rcode != Success {
		return Answer{Rcode: r.rcode}
	}
	if r.q.Class == ClassCH {
		return s.chaos(r.q)
	}
	snap := s.snapshot.Load()
	if snap == nil {
		return Answer{Rcode: ServFail}
	}
	if a, ok := s.attempt(snap, r.q); ok {
		return a
	}
	if a, ok := s.attempt(snap.untabled(), r.q); ok {
		return a
	}
	return Answer{Rcode: ServFail}
}

// attempt resolves and holds the server's one recover: a fault in one answer must
// not take the others down.
func (s *Server) attempt(snap *Snapshot, q Query) (a Answer, ok bool) {
	defer func() {
		if recover() != nil {
			s.count.panics.Add(1)
			a, ok = Answer{}, false
		}
	}()
	return Resolve(snap, q), true
}

// chaos answers who and what the server is (RFC 4892).
func (s *Server) chaos(q Query) Answer {
	text := ""
	switch q.Name.Lower() {
	case "\x02id\x06server\x00", "\x08hostname\x04bind\x00":
		text = s.opts.ID
	case "\x07version\x06server\x00", "\x07version\x04bind\x00":
		text = s.opts.Version
	}
	if text == "" || q.Type != TypeTXT {
		return Answer{Rcode: Refused}
	}
	data := append([]byte{byte(len(text))}, text...)
	return Answer{Answer: []Record{{q.Name, TypeTXT, 0, data}}}
}

// deadlineLocked returns when a stream that begins to wait for a query must have it.
func (s *Server) deadlineLocked() time.Time {
	if !s.ending.IsZero() {
		return s.ending
	}
	return time.Now().Add(s.opts.IdleTime)
}

// timedOut reports whether err is a deadline that passed.
func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
