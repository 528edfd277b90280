package simnet

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// epoch is the world from a time on.
type epoch struct {
	from time.Duration
	net  *Net
}

// addChanges computes the world after each change, in the order of time.
func (n *Net) addChanges() {
	changes := slices.SortedStableFunc(slices.Values(n.spec.Changes), func(a, b Change) int { return cmp.Compare(a.At, b.At) })
	for now := n; len(changes) > 0; {
		next := *now
		next.later, next.links = nil, slices.Clone(now.links)
		from := changes[0].At
		for len(changes) > 0 && changes[0].At == from {
			next.apply(changes[0])
			changes = changes[1:]
		}
		next.reroute()
		n.later = append(n.later, epoch{from, &next})
		now = &next
	}
}

func (n *Net) apply(c Change) {
	a, b := n.byName[c.A], n.byName[c.B]
	for i := range n.links {
		if l := &n.links[i]; l.a == a && l.b == b || l.a == b && l.b == a {
			l.down = c.Down
		}
	}
}

// At returns the world as it is at a time after a driver's start, for good: its
// truth and its drivers know no change. Before the first change it is n without
// the changes.
func (n *Net) At(t time.Duration) *Net {
	now := *n
	now.later = nil
	for _, e := range n.later {
		if e.from <= t {
			now = *e.net
		}
	}
	return &now
}

// RouteChanges returns the times at which the links that traces from a host to
// dst can see change. What the error says, Links says too.
func (n *Net) RouteChanges(host string, dst netip.Addr) ([]time.Duration, error) {
	before, err := n.Links(host, dst)
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for _, e := range n.later {
		after, err := e.net.Links(host, dst)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(before, after) {
			times = append(times, e.from)
		}
		before = after
	}
	return times, nil
}
