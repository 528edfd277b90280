package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// serveTCP accepts connections, one goroutine each, and waits for them.
func (s *Server) serveTCP(ctx context.Context, l net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("dns: %v: %w", l.Addr(), err)
		default:
			s.count.tcpErrors.Add(1)
			pause(ctx)
			continue
		}
		if !s.enter(c) {
			s.count.tcpRefused.Add(1)
			c.Close()
			continue
		}
		wg.Go(func() {
			defer s.leave(c)
			s.serveStream(c)
		})
	}
}

// enter takes a connection in unless there are too many.
func (s *Server) enter(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) >= s.opts.MaxTCP {
		return false
	}
	s.streams[c] = struct{}{}
	s.count.tcpAccepted.Add(1)
	s.count.tcpOpen.Store(int64(len(s.streams)))
	return true
}

func (s *Server) leave(c net.Conn) {
	s.mu.Lock()
	delete(s.streams, c)
	s.count.tcpOpen.Store(int64(len(s.streams)))
	s.mu.Unlock()
	c.Close()
}

// arm gives the connection the time for one query and its answer. With the lock,
// so that a deadline set by end is not put off again.
func (s *Server) arm(c net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.SetDeadline(s.deadlineLocked())
}

// serveStream answers the queries of one connection, in order. A client may send
// several without waiting (RFC 7766 section 6.2.1.1); they wait in the kernel,
// whose buffer is the cap. Each whole query, with its reply, must be through
// within the idle time, so a slow sender cannot hold the connection.
func (s *Server) serveStream(c net.Conn) {
	var in, out []byte
	from := addrOf(c.RemoteAddr()).Addr()
	for {
		if err := s.arm(c); err != nil {
			return
		}
		var err error
		if in, err = readMessage(c, in); err != nil {
			if !errors.Is(err, io.EOF) && !timedOut(err) {
				s.count.tcpErrors.Add(1)
			}
			return
		}
		s.count.tcpQueries.Add(1)
		out = s.reply(append(out[:0], 0, 0), in, from, tcp)
		if len(out) == 2 {
			continue
		}
		binary.BigEndian.PutUint16(out, uint16(len(out)-2))
		if _, err := c.Write(out); err != nil {
			s.count.tcpErrors.Add(1)
			return
		}
	}
}

// readMessage reads a message and the two octets of length in front of it
// (RFC 1035 section 4.2.2) into buf, which it may replace.
func readMessage(r io.Reader, buf []byte) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return buf, err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	if n > maxQuery {
		return buf, fmt.Errorf("a query of %d octets is over %d", n, maxQuery)
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err := io.ReadFull(r, buf)
	return buf, err
}
