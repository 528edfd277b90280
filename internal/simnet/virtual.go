package simnet

import (
	"context"
	"net/netip"
	"time"

	"strandline/probe"
)

// Virtual drives a Net by a clock of its own, which stands still except inside
// Recv: there it jumps from one due packet to the next, until one has arrived or
// the deadline is reached. It starts no goroutine, and the same seed and calls
// give the same bytes at the same times.
//
// The clock is shared: all Conns of one Virtual belong to one goroutine. For
// vantages that measure side by side, take a Virtual each.
type Virtual struct {
	epoch  time.Time
	engine engine
}

// Virtual returns a driver with a clock that starts at 2026-01-01T00:00:00Z.
// All loss and jitter come from the seed.
func (n *Net) Virtual(seed uint64) *Virtual {
	return &Virtual{epoch: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC), engine: newEngine(n, seed)}
}

// Now returns the virtual time.
func (v *Virtual) Now() time.Time { return v.epoch.Add(v.engine.now) }

// Conn returns the network as the named host sees it. Several Conns at one host
// each get all packets, like raw sockets; the host itself answers too.
func (v *Virtual) Conn(host string) (probe.Conn, error) {
	node, err := v.engine.net.host(host)
	if err != nil {
		return nil, err
	}
	c := &virtualConn{v: v, end: endpoint{node: node}}
	v.engine.attach(&c.end)
	return c, nil
}

type virtualConn struct {
	v   *Virtual
	end endpoint
}

func (c *virtualConn) Local(dst netip.Addr) (netip.Addr, error) {
	return c.v.engine.net.local(c.end.node, dst)
}

func (c *virtualConn) Now() time.Time { return c.v.Now() }

func (c *virtualConn) Send(pkts []probe.Packet) (int, error) {
	if c.end.closed.Load() {
		return 0, c.v.engine.net.closedError("send", c.end.node)
	}
	return c.v.engine.send(c.end.node, pkts, c.v.epoch)
}

// Recv never blocks: it moves the clock. Without a due packet the clock stands
// at the deadline when it returns.
func (c *virtualConn) Recv(ctx context.Context, pkts []probe.Packet, deadline time.Time) (int, error) {
	e := &c.v.engine
	limit := max(e.now, deadline.Sub(c.v.epoch))
	for len(pkts) > 0 {
		if err := ended(ctx); err != nil {
			return 0, err
		}
		if c.end.closed.Load() {
			return 0, e.net.closedError("receive", c.end.node)
		}
		if n := c.end.take(pkts, c.v.epoch); n > 0 {
			return n, nil
		}
		if !e.turn(limit) {
			break
		}
	}
	e.now = limit
	return 0, nil
}

// Close makes every later call fail with net.ErrClosed. What is on its way to
// the host still arrives there, and is answered, but not handed to this Conn.
func (c *virtualConn) Close() error {
	c.end.closed.Store(true)
	return nil
}
