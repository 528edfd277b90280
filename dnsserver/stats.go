package dnsserver

import "sync/atomic"

// Stats counts what a server did since it was made. Every field only grows,
// except TCPOpen.
type Stats struct {
	UDPQueries  uint64            `json:"udp_queries"` // answered or dropped
	TCPQueries  uint64            `json:"tcp_queries"`
	Rcodes      map[string]uint64 `json:"rcodes"` // replies, by mnemonic
	Truncated   uint64            `json:"truncated"`
	Dropped     uint64            `json:"dropped"`      // no reply: too short, or a response itself
	Steered     map[Source]uint64 `json:"steered"`      // answers of steered names, by what decided
	Panics      uint64            `json:"panics"`       // faults of ours while answering; the static default was given
	UDPErrors   uint64            `json:"udp_errors"`   // failed reads and writes
	TCPErrors   uint64            `json:"tcp_errors"`   // failed accepts, and connections that broke in a message
	TCPAccepted uint64            `json:"tcp_accepted"` // connections
	TCPRefused  uint64            `json:"tcp_refused"`  // connections closed at once, being too many
	TCPOpen     int64             `json:"tcp_open"`     // connections now
}

// counters is the live form of Stats.
type counters struct {
	udpQueries, tcpQueries, truncated, dropped, panics    atomic.Uint64
	udpErrors, tcpErrors, tcpAccepted, tcpRefused         atomic.Uint64
	tcpOpen                                               atomic.Int64
	rcodes                                                [BadVers + 1]atomic.Uint64
	fromTable, fromLastGood, fromDown, fromDefault, other atomic.Uint64
}

// answer counts a reply.
func (c *counters) answer(a *Answer, truncated bool) {
	c.rcodes[min(a.Rcode, BadVers)].Add(1)
	if truncated {
		c.truncated.Add(1)
	}
	if a.Decision != nil {
		c.source(a.Decision.Source).Add(1)
	}
}

func (c *counters) source(s Source) *atomic.Uint64 {
	switch s {
	case FromTable:
		return &c.fromTable
	case FromLastGood:
		return &c.fromLastGood
	case FromDown:
		return &c.fromDown
	case FromDefault:
		return &c.fromDefault
	}
	return &c.other
}

func (c *counters) stats() Stats {
	s := Stats{
		UDPQueries: c.udpQueries.Load(), TCPQueries: c.tcpQueries.Load(),
		Truncated: c.truncated.Load(), Dropped: c.dropped.Load(), Panics: c.panics.Load(),
		UDPErrors: c.udpErrors.Load(), TCPErrors: c.tcpErrors.Load(), TCPAccepted: c.tcpAccepted.Load(),
		TCPRefused: c.tcpRefused.Load(), TCPOpen: c.tcpOpen.Load(),
		Rcodes: map[string]uint64{}, Steered: map[Source]uint64{},
	}
	for i := range c.rcodes {
		if n := c.rcodes[i].Load(); n > 0 {
			s.Rcodes[Rcode(i).String()] = n
		}
	}
	for _, from := range []Source{FromTable, FromLastGood, FromDown, FromDefault} {
		if n := c.source(from).Load(); n > 0 {
			s.Steered[from] = n
		}
	}
	return s
}
