package simnet

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"strandline/probe"
)

// Real drives a Net by the clock of package time: the real one, or that of a
// testing/synctest bubble. A packet's Time is when it was due, so delays are
// exact however late the process was woken.
//
// It is safe for concurrent use; each Conn belongs to one goroutine. When its
// last Conn is closed, what is still on its way is dropped and nothing of the
// driver stays behind.
type Real struct {
	epoch time.Time

	mu     sync.Mutex
	engine engine
	timer  *time.Timer // fires when the next packet is due
	open   int         // Conns
}

// Real returns a driver on the running clock. All loss and jitter come from the
// seed, drawn in the order of traversals.
func (n *Net) Real(seed uint64) *Real {
	return &Real{epoch: time.Now(), engine: newEngine(n, seed)}
}

// Now returns the time, by the monotonic clock.
func (r *Real) Now() time.Time { return r.epoch.Add(time.Since(r.epoch)) }

// Conn returns the network as the named host sees it. Several Conns at one host
// each get all packets, like raw sockets; the host itself answers too.
func (r *Real) Conn(host string) (probe.Conn, error) {
	node, err := r.engine.net.host(host)
	if err != nil {
		return nil, err
	}
	c := &realConn{r: r, done: make(chan struct{})}
	c.end = endpoint{node: node, wake: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open++
	r.engine.attach(&c.end)
	return c, nil
}

// fire is what the timer calls.
func (r *Real) fire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advanceLocked()
}

// advanceLocked lets happen what is due and sets the timer for what is not.
func (r *Real) advanceLocked() {
	for r.engine.turn(time.Since(r.epoch)) {
	}
	r.engine.now = time.Since(r.epoch)
	if len(r.engine.due) == 0 {
		return
	}
	wait := r.engine.due[0].at - r.engine.now
	if r.timer == nil {
		r.timer = time.AfterFunc(wait, r.fire)
		return
	}
	r.timer.Reset(wait)
}

type realConn struct {
	r    *Real
	end  endpoint
	done chan struct{} // closed by Close
}

func (c *realConn) Local(dst netip.Addr) (netip.Addr, error) {
	return c.r.engine.net.local(c.end.node, dst)
}

func (c *realConn) Now() time.Time { return c.r.Now() }

func (c *realConn) Send(pkts []probe.Packet) (int, error) {
	if c.end.closed.Load() {
		return 0, c.r.engine.net.closedError("send", c.end.node)
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.advanceLocked()
	n, err := c.r.engine.send(c.end.node, pkts, c.r.epoch)
	c.r.advanceLocked()
	return n, err
}

func (c *realConn) Recv(ctx context.Context, pkts []probe.Packet, deadline time.Time) (int, error) {
	for {
		if err := ended(ctx); err != nil {
			return 0, err
		}
		if c.end.closed.Load() {
			return 0, c.r.engine.net.closedError("receive", c.end.node)
		}
		if n := c.take(pkts); n > 0 {
			return n, nil
		}
		wait := deadline.Sub(c.r.Now())
		if wait <= 0 {
			return 0, nil
		}
		c.wait(ctx, wait)
	}
}

// take hands out what has arrived by now.
func (c *realConn) take(pkts []probe.Packet) int {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.advanceLocked()
	return c.end.take(pkts, c.r.epoch)
}

// wait returns when something may have changed.
func (c *realConn) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-c.done:
	case <-c.end.wake:
	case <-timer.C:
	}
}

// Close ends a Recv under way and makes every later call fail with net.ErrClosed.
func (c *realConn) Close() error {
	if c.end.closed.Swap(true) {
		return nil
	}
	close(c.done)
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.engine.detach(&c.end)
	if c.r.open--; c.r.open == 0 && c.r.timer != nil {
		c.r.timer.Stop()
		c.r.engine.due = nil
	}
	return nil
}
