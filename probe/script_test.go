package probe_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"strandline/datasets"
	"strandline/probe"
	"strandline/probe/wire"
)

// scriptedConn is a network that does to each probe what a function says: what
// real networks do only when somebody attacks or is broken. Its clock moves in
// Recv only.
type scriptedConn struct {
	now     time.Time
	answer  func(probe []byte) []delivery
	pending []delivery
	sendErr error
}

// delivery is a packet that arrives some time after the probe was sent.
type delivery struct {
	after time.Duration
	data  []byte
	at    time.Time
}

func (c *scriptedConn) Local(dst netip.Addr) (netip.Addr, error) {
	if dst.Is6() {
		return netip.MustParseAddr("2001:db8::1"), nil
	}
	return netip.MustParseAddr("10.0.0.1"), nil
}

func (c *scriptedConn) Send(pkts []probe.Packet) (int, error) {
	if c.sendErr != nil {
		return 0, c.sendErr
	}
	for i := range pkts {
		pkts[i].Time, pkts[i].Stamp = c.now, datasets.StampSim
		for _, d := range c.answer(pkts[i].Data) {
			d.at = c.now.Add(d.after)
			c.pending = append(c.pending, d)
		}
	}
	slices.SortStableFunc(c.pending, func(a, b delivery) int { return a.at.Compare(b.at) })
	return len(pkts), nil
}

func (c *scriptedConn) Recv(ctx context.Context, pkts []probe.Packet, deadline time.Time) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if len(c.pending) > 0 && !c.pending[0].at.After(deadline) {
		d := c.pending[0]
		c.pending = c.pending[1:]
		if d.at.After(c.now) {
			c.now = d.at
		}
		pkts[0].Data = append(pkts[0].Data[:0], d.data...)
		pkts[0].Time, pkts[0].Stamp = d.at, datasets.StampSim
		return 1, nil
	}
	if deadline.After(c.now) {
		c.now = deadline
	}
	return 0, nil
}

func (c *scriptedConn) Now() time.Time { return c.now }
func (c *scriptedConn) Close() error   { return nil }

// reply builds the echo reply to a probe, after edit has had its way with it.
func reply(data []byte, edit func(ip *wire.IP, e *wire.Echo)) []byte {
	var p wire.Reply
	if err := p.Decode(data); err != nil {
		panic(err)
	}
	ip := wire.IP{Src: p.Dst, Dst: p.Src, TTL: 55}
	e := wire.Echo{Reply: true, ID: p.ICMPID, Seq: p.ICMPSeq, Payload: bytes.Clone(p.Payload)}
	if edit != nil {
		edit(&ip, &e)
	}
	out, err := wire.AppendEcho(nil, ip, e)
	if err != nil {
		panic(err)
	}
	return out
}

// icmpError builds an error about a probe, which edit may rewrite first.
func icmpError(data []byte, from string, why wire.Reason, quote int, edit func(probe []byte)) []byte {
	var h wire.Header
	if err := h.Decode(data); err != nil {
		panic(err)
	}
	quoted := bytes.Clone(data)
	if edit != nil {
		edit(quoted)
	}
	src := h.Dst
	if from != "" {
		src = netip.MustParseAddr(from)
	}
	out, err := wire.AppendError(nil, wire.IP{Src: src, Dst: h.Src, TTL: 60}, why, quoted, quote)
	if err != nil {
		panic(err)
	}
	return out
}

// after makes a script of packets that all arrive after 10 ms.
func after(build ...func(probe []byte) []byte) func([]byte) []delivery {
	return func(probe []byte) (ds []delivery) {
		for _, b := range build {
			ds = append(ds, delivery{after: 10 * time.Millisecond, data: b(probe)})
		}
		return ds
	}
}

// Offsets in an IPv4 packet without options: identification, destination, and
// then the ICMP or UDP header.
const (
	atID    = 4
	atDst   = 16
	atPort  = 20
	atEcho  = 24 // ICMP identifier
	atSeq   = 26
	atTag   = 30
	atCheck = 22
)

func flip(at int) func([]byte) { return func(b []byte) { b[at] ^= 0x40 } }

func TestWhichAnswersCount(t *testing.T) {
	echo := func(p []byte) []byte { return reply(p, nil) }
	echoWith := func(edit func(*wire.IP, *wire.Echo)) func([]byte) []byte {
		return func(p []byte) []byte { return reply(p, edit) }
	}
	exceeded := func(quote int, edit func([]byte)) func([]byte) []byte {
		return func(p []byte) []byte { return icmpError(p, "10.9.9.9", wire.TimeExceeded, quote, edit) }
	}
	refused := func(from string) func([]byte) []byte {
		return func(p []byte) []byte { return icmpError(p, from, wire.PortUnreachable, 0, nil) }
	}
	icmp, udp := datasets.ProtoICMP, datasets.ProtoUDP
	for _, c := range []struct {
		name   string
		proto  datasets.Proto
		script func([]byte) []delivery
		want   datasets.Outcome
		stats  probe.Stats // of this probe
	}{
		{"echo reply", icmp, after(echo), datasets.OutcomeReply, probe.Stats{Received: 1}},
		{"twice", icmp, after(echo, echo), datasets.OutcomeReply, probe.Stats{Received: 1, Duplicates: 1}},
		{"late", icmp, func(p []byte) []delivery { return []delivery{{after: 3500 * time.Millisecond, data: echo(p)}} },
			datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Late: 1}},
		{"just in time", icmp, func(p []byte) []delivery { return []delivery{{after: 2999 * time.Millisecond, data: echo(p)}} },
			datasets.OutcomeReply, probe.Stats{Received: 1}},
		{"from another address", icmp, after(echoWith(func(ip *wire.IP, e *wire.Echo) { ip.Src = netip.MustParseAddr("10.0.0.9") })),
			datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Spoofed: 1}},
		{"to another address", icmp, after(echoWith(func(ip *wire.IP, e *wire.Echo) { ip.Dst = netip.MustParseAddr("10.0.0.9") })),
			datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Spoofed: 1}},
		{"wrong tag", icmp, after(echoWith(func(ip *wire.IP, e *wire.Echo) { e.Payload[5] ^= 1 })),
			datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Spoofed: 1}},
		{"payload cut", icmp, after(echoWith(func(ip *wire.IP, e *wire.Echo) { e.Payload = e.Payload[:9] })),
			datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Spoofed: 1}},
		{"number of no probe", icmp, after(echoWith(func(ip *wire.IP, e *wire.Echo) { e.Seq += 5 })),
			datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Spoofed: 1}},
		{"another pinger's", icmp, after(echoWith(func(ip *wire.IP, e *wire.Echo) { e.ID++ })),
			datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Foreign: 1}},
		{"forgery first", icmp, after(echoWith(func(ip *wire.IP, e *wire.Echo) { e.Payload[9] ^= 1 }), echo),
			datasets.OutcomeReply, probe.Stats{Received: 1, Spoofed: 1}},
		{"our own request", icmp, after(func(p []byte) []byte { return p }), datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Foreign: 1}},
		{"noise", icmp, after(func([]byte) []byte { return []byte("\x45noise") }), datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Foreign: 1}},
		{"exceeded, whole quote", icmp, after(exceeded(0, nil)), datasets.OutcomeTTLExceeded, probe.Stats{Received: 1}},
		{"exceeded, 8 octets", icmp, after(exceeded(wire.MinimalQuote, nil)), datasets.OutcomeTTLExceeded, probe.Stats{Received: 1}},
		{"exceeded, udp, 8 octets", udp, after(exceeded(wire.MinimalQuote, nil)), datasets.OutcomeTTLExceeded, probe.Stats{Received: 1}},
		{"quote with another destination", icmp, after(exceeded(0, flip(atDst))), datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Spoofed: 1}},
		{"quote with another id", icmp, after(exceeded(0, flip(atID))), datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Spoofed: 1}},
		{"quote with another checksum", icmp, after(exceeded(0, flip(atCheck))), datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Spoofed: 1}},
		{"quote with another sequence", icmp, after(exceeded(0, flip(atSeq))), datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Spoofed: 1}},
		{"quote with another tag", icmp, after(exceeded(0, flip(atTag))), datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Spoofed: 1}},
		{"quote of another pinger", icmp, after(exceeded(0, flip(atEcho))), datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Foreign: 1}},
		{"quote of another port", udp, after(exceeded(0, flip(atPort+1))), datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Foreign: 1}},
		{"quote with another destination port", udp, after(exceeded(0, flip(atPort+3))), datasets.OutcomeTimeout, probe.Stats{Timeouts: 1, Spoofed: 1}},
		{"port unreachable", udp, after(refused("")), datasets.OutcomeReply, probe.Stats{Received: 1}},
		{"unreachable on the way", udp, after(refused("10.9.9.9")), datasets.OutcomeUnreachable, probe.Stats{Received: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Two more probes, unanswered, keep the measurement going until late
			// answers to the first are in.
			conn := &scriptedConn{now: time.Unix(1e9, 0), answer: onlyFirst(c.script)}
			e := &probe.Engine{Conn: conn, Vantage: "v", Rand: rand.New(rand.NewPCG(1, 2))}
			target := []datasets.Target{{Addr: netip.MustParseAddr("10.1.0.1")}}
			outcomes := map[uint32]datasets.Outcome{}
			err := e.Ping(t.Context(), target, probe.PingOptions{Proto: c.proto, Count: 3, Interval: 2 * time.Second}, func(s datasets.Sample) error {
				outcomes[s.Seq] = s.Outcome
				return s.Validate()
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := outcomes[0]; got != c.want || len(outcomes) != 3 {
				t.Errorf("outcomes %v, want %s first", outcomes, c.want)
			}
			want := c.stats
			want.Sent, want.Timeouts = 3, want.Timeouts+2
			if got := e.Stats(); got != want {
				t.Errorf("stats %+v, want %+v", got, want)
			}
		})
	}
}

// onlyFirst answers the first probe only.
func onlyFirst(script func([]byte) []delivery) func([]byte) []delivery {
	answered := false
	return func(p []byte) []delivery {
		if answered {
			return nil
		}
		answered = true
		return script(p)
	}
}

func TestWhichDNSAnswersCount(t *testing.T) {
	answer := func(edit func(ip *wire.IP, u *wire.UDP, dns []byte)) func([]byte) []byte {
		return func(p []byte) []byte { return dnsAnswer(p, edit) }
	}
	for _, c := range []struct {
		name   string
		script func([]byte) []byte
		site   string
		stats  probe.Stats // for one query
	}{
		{"answer", answer(nil), "fra1", probe.Stats{Received: 1}},
		{"another id", answer(func(_ *wire.IP, _ *wire.UDP, dns []byte) { dns[0] ^= 1 }), "", probe.Stats{Spoofed: 1, Timeouts: 1}},
		{"another question", answer(func(_ *wire.IP, _ *wire.UDP, dns []byte) { dns[13]++ }), "", probe.Stats{Spoofed: 1, Timeouts: 1}},
		{"a query", answer(func(_ *wire.IP, _ *wire.UDP, dns []byte) { dns[2] &^= 0x80 }), "", probe.Stats{Spoofed: 1, Timeouts: 1}},
		{"from another port", answer(func(_ *wire.IP, u *wire.UDP, _ []byte) { u.SrcPort++ }), "", probe.Stats{Spoofed: 1, Timeouts: 1}},
		{"from another address", answer(func(ip *wire.IP, _ *wire.UDP, _ []byte) { ip.Src = ip.Src.Next() }), "", probe.Stats{Spoofed: 1, Timeouts: 1}},
		{"to another port", answer(func(_ *wire.IP, u *wire.UDP, _ []byte) { u.DstPort-- }), "", probe.Stats{Foreign: 1, Timeouts: 1}},
		{"port closed", func(p []byte) []byte { return icmpError(p, "", wire.PortUnreachable, 0, nil) }, "", probe.Stats{Received: 1}},
		{"refused", answer(func(_ *wire.IP, _ *wire.UDP, dns []byte) { dns[3] |= 5 }), "", probe.Stats{Received: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := &scriptedConn{now: time.Unix(1e9, 0), answer: after(c.script)}
			e := &probe.Engine{Conn: conn, Vantage: "v", Rand: rand.New(rand.NewPCG(1, 2))}
			var rows []datasets.Catchment
			err := e.Catchment(t.Context(), []datasets.Target{{Addr: netip.MustParseAddr("192.0.2.1")}}, probe.CatchmentOptions{}, func(r datasets.Catchment) error {
				rows = append(rows, r)
				return nil
			})
			if err != nil || len(rows) != 1 || rows[0].Site != c.site {
				t.Fatalf("rows %+v, %v; want one with site %q", rows, err, c.site)
			}
			got := e.Stats()
			n := got.Sent // queries, all treated alike
			want := probe.Stats{Sent: n, Received: n * c.stats.Received, Timeouts: n * c.stats.Timeouts, Spoofed: n * c.stats.Spoofed, Foreign: n * c.stats.Foreign}
			if got != want {
				t.Errorf("stats %+v, want %+v", got, want)
			}
		})
	}
}

// dnsAnswer answers a query with the site fra1.
func dnsAnswer(data []byte, edit func(*wire.IP, *wire.UDP, []byte)) []byte {
	var p wire.Reply
	var q wire.DNSMessage
	if err := p.Decode(data); err != nil {
		panic(err)
	}
	if err := q.Decode(p.Payload); err != nil {
		panic(err)
	}
	dns, err := wire.AppendDNSAnswer(nil, &q, wire.DNSAnswer{TXT: "fra1"})
	if err != nil {
		panic(err)
	}
	ip, u := wire.IP{Src: p.Dst, Dst: p.Src, TTL: 55}, wire.UDP{SrcPort: p.DstPort, DstPort: p.SrcPort, Payload: dns}
	if edit != nil {
		edit(&ip, &u, dns)
	}
	out, err := wire.AppendUDP(nil, ip, u)
	if err != nil {
		panic(err)
	}
	return out
}

// A site that answers only BIND's name is found by the second question.
func TestCatchmentFallsBackToHostnameBind(t *testing.T) {
	conn := &scriptedConn{now: time.Unix(1e9, 0), answer: after(func(p []byte) []byte {
		if bytes.Contains(p, []byte("hostname")) {
			return dnsAnswer(p, nil)
		}
		return dnsAnswer(p, func(_ *wire.IP, _ *wire.UDP, dns []byte) { dns[3] |= 5 })
	})}
	e := &probe.Engine{Conn: conn, Rand: rand.New(rand.NewPCG(1, 2))}
	var got []string
	err := e.Catchment(t.Context(), []datasets.Target{{Addr: netip.MustParseAddr("192.0.2.1")}}, probe.CatchmentOptions{}, func(r datasets.Catchment) error {
		got = append(got, fmt.Sprint(r.Site, " ", r.RTTMS))
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"fra1 10"}) || e.Stats().Sent != 2 {
		t.Errorf("got %v, %v after %d queries; want fra1 10 after 2", got, err, e.Stats().Sent)
	}
}

// What the host refuses to send is a row; a closed Conn is an error.
func TestSendErrors(t *testing.T) {
	conn := &scriptedConn{now: time.Unix(1e9, 0), sendErr: os.ErrPermission}
	e := &probe.Engine{Conn: conn, Vantage: "v"}
	target := []datasets.Target{{Addr: netip.MustParseAddr("192.0.2.1")}}
	rows := 0
	count := func(s datasets.Sample) error {
		rows++
		if s.Outcome != datasets.OutcomeSendError {
			t.Errorf("outcome %s, want %s", s.Outcome, datasets.OutcomeSendError)
		}
		return s.Validate()
	}
	if err := e.Ping(t.Context(), target, probe.PingOptions{Count: 3}, count); err != nil || rows != 3 {
		t.Errorf("%d rows, %v; want 3", rows, err)
	}
	if got := e.Stats(); got.SendErrors != 3 || got.Sent != 0 {
		t.Errorf("stats %+v, want 3 send errors", got)
	}
	conn.sendErr = fmt.Errorf("conn: %w", os.ErrClosed)
	if err := e.Ping(t.Context(), target, probe.PingOptions{}, count); err == nil {
		t.Error("measuring over a closed conn succeeded")
	}
}
