package probe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"strandline/analysis"
	"strandline/datasets"
	"strandline/internal/leak"
	"strandline/internal/simnet"
	"strandline/probe"
	"strandline/probe/wire"
)

// world is two hosts around a diamond of unequal arms, a silent router, a silent
// host, a lossy one, and an anycast service of two sites.
//
//	src - r1 =< p1, p2 >= r2 - q(silent) - r3 - dst, far, lost
//	       \ near site                       \ far site
func world(t testing.TB) *simnet.Net {
	t.Helper()
	addr := netip.MustParseAddr
	node := func(name, kind string, n int) simnet.Node {
		return simnet.Node{
			Name: name, Kind: kind,
			Addr: addr(fmt.Sprintf("10.0.%d.1", n)), Addr6: addr(fmt.Sprintf("2001:db8:%d::1", n)),
		}
	}
	const host, router = simnet.KindHost, simnet.KindRouter
	q, mute := node("q", router, 5), node("mute", router, 12)
	q.Silent, mute.Silent = true, true
	r1 := node("r1", router, 2)
	r1.Hash.Fields = []string{simnet.FieldSrc, simnet.FieldDst, simnet.FieldSport, simnet.FieldDport, simnet.FieldICMPChecksum}
	ms := time.Millisecond
	spec := simnet.Spec{
		Name: "test", Seed: 1,
		Nodes: []simnet.Node{
			node("src", host, 1), r1, node("p1", router, 3), node("p2", router, 4), q, node("r2", router, 6),
			node("r3", router, 7), node("dst", host, 8), node("far", host, 9), node("lost", host, 10),
			node("near-site", host, 11), mute, node("far-site", host, 13),
		},
		Links: []simnet.Link{
			{A: "src", B: "r1", Delay: ms}, {A: "r1", B: "p1", Delay: 2 * ms, Metric: 5}, {A: "r1", B: "p2", Delay: 3 * ms, Metric: 5},
			{A: "p1", B: "r2", Delay: ms, Metric: 5}, {A: "p2", B: "r2", Delay: 4 * ms, Metric: 5},
			{A: "r2", B: "q", Delay: ms}, {A: "q", B: "r3", Delay: ms}, {A: "r3", B: "dst", Delay: ms},
			{A: "r3", B: "far", Delay: 90 * ms}, {A: "r3", B: "lost", Delay: ms, Loss: 0.3}, {A: "r3", B: "mute", Delay: ms},
			{A: "r1", B: "near-site", Delay: 7 * ms}, {A: "r3", B: "far-site", Delay: ms},
		},
		Anycast: []simnet.Anycast{{
			Name: "service", Prefix: netip.MustParsePrefix("192.0.2.0/24"), Prefix6: netip.MustParsePrefix("2001:db8:a::/48"),
			Sites: []simnet.Site{{Name: "ams", Node: "near-site"}, {Name: "nrt", Node: "far-site"}},
		}},
	}
	n, err := simnet.Build(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// target is the address of node n of the world.
func target(n int, v6 bool) datasets.Target {
	if v6 {
		return datasets.Target{Addr: netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::1", n))}
	}
	return datasets.Target{Addr: netip.MustParseAddr(fmt.Sprintf("10.0.%d.1", n))}
}

const (
	dst, far, lost, mute = 8, 9, 10, 12 // numbers of nodes
)

// both is the nodes' addresses of both families.
func both(nodes ...int) (targets []datasets.Target) {
	for _, n := range nodes {
		targets = append(targets, target(n, false), target(n, true))
	}
	return targets
}

// virtual is an engine at src on a clock of its own.
func virtual(t testing.TB, n *simnet.Net, seed uint64) *probe.Engine {
	t.Helper()
	c, err := n.Virtual(seed).Conn("src")
	if err != nil {
		t.Fatal(err)
	}
	return &probe.Engine{Conn: c, Vantage: "src", Rand: rand.New(rand.NewPCG(seed, 1))}
}

// packet rebuilds the flow of a sample.
func packet(t testing.TB, s datasets.Sample) []byte {
	t.Helper()
	ip := wire.IP{Src: s.Src, Dst: s.Target, TTL: s.TTL, TOS: s.TOS}
	pkt, err := wire.AppendEcho(nil, ip, wire.Echo{ID: s.ICMPID, Checksum: s.ICMPSum, Payload: make([]byte, 10)})
	if s.Proto != datasets.ProtoICMP {
		payload := make([]byte, 10)
		if s.Proto == datasets.ProtoDNS {
			if payload, err = wire.AppendDNSQuery(nil, chaos("id.server")); err != nil {
				t.Fatal(err)
			}
		}
		pkt, err = wire.AppendUDP(nil, ip, wire.UDP{SrcPort: s.Sport, DstPort: s.Dport, Payload: payload})
	}
	if err != nil {
		t.Fatal(err)
	}
	return pkt
}

// chaos is the question that a site is asked.
func chaos(name string) wire.DNSQuery {
	return wire.DNSQuery{Name: name, Type: wire.DNSTypeTXT, Class: wire.DNSClassCHAOS}
}

// Every sample agrees with the simulator's truth about that very flow.
func TestPingEqualsTruth(t *testing.T) {
	n := world(t)
	for _, proto := range []datasets.Proto{datasets.ProtoICMP, datasets.ProtoUDP} {
		for seed := range uint64(8) { // other flows, other arms of the diamond
			e := virtual(t, n, seed)
			targets := both(dst, far, mute)
			const count = 5
			rows := map[netip.Addr][]datasets.Sample{}
			err := e.Ping(t.Context(), targets, probe.PingOptions{Proto: proto, Count: count}, func(s datasets.Sample) error {
				rows[s.Target] = append(rows[s.Target], s)
				return s.Validate()
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, target := range targets {
				if got := len(rows[target.Addr]); got != count {
					t.Fatalf("%s: %d rows, want %d", target.Addr, got, count)
				}
				for i, s := range rows[target.Addr] {
					want, err := n.Truth("src", packet(t, s))
					if err != nil {
						t.Fatal(err)
					}
					if s.Outcome != want.Outcome || time.Duration(s.RTTNS) != want.Min || s.From != want.From || s.ReplyTTL != want.ReplyTTL {
						t.Errorf("%s: got %+v\nwant %+v", s.Target, s, want)
					}
					if int(s.Seq) != i || s.Stamp != datasets.StampSim || s.Vantage != "src" {
						t.Errorf("%s: row %d is %+v", s.Target, i, s)
					}
				}
			}
			if got := e.Stats(); got.Sent != 30 || got.Received != 20 || got.Timeouts != 10 || got.Spoofed+got.Foreign+got.Late+got.Duplicates != 0 {
				t.Errorf("stats %+v", got)
			}
		}
	}
}

func TestPingLoss(t *testing.T) {
	e := virtual(t, world(t), 3)
	const count = 400
	replies := 0
	err := e.Ping(t.Context(), both(lost)[:1], probe.PingOptions{Count: count}, func(s datasets.Sample) error {
		if s.Outcome == datasets.OutcomeReply {
			replies++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p := 0.7 * 0.7
	if dev := math.Abs(float64(replies) - count*p); dev > 4*math.Sqrt(count*p*(1-p)) {
		t.Errorf("%d of %d answered, want %.0f", replies, count, count*p)
	}
}

// The path of each flow is the simulator's, for both protocols and families and
// many flows; a silent hop is a row too, and no link crosses it.
func TestTraceEqualsTruth(t *testing.T) {
	n := world(t)
	arms := map[netip.Addr]bool{}
	for _, proto := range []datasets.Proto{datasets.ProtoICMP, datasets.ProtoUDP} {
		for seed := range uint64(8) {
			var rows []datasets.Sample
			err := virtual(t, n, seed).Trace(t.Context(), both(dst, far), probe.TraceOptions{Proto: proto}, func(s datasets.Sample) error {
				rows = append(rows, s)
				return s.Validate()
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, target := range both(dst, far) {
				of := slices.DeleteFunc(slices.Clone(rows), func(s datasets.Sample) bool { return s.Target != target.Addr })
				checkTrace(t, n, of)
				for _, s := range of {
					if s.TTL == 2 {
						arms[s.From] = true
					}
				}
				checkLinks(t, n, of)
			}
		}
	}
	if len(arms) != 4 {
		t.Errorf("flows saw %v, want both arms in both families", arms)
	}
}

func checkTrace(t *testing.T, n *simnet.Net, rows []datasets.Sample) {
	t.Helper()
	truth, err := n.Trace("src", packet(t, rows[0]), 30)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint8]int{}
	for _, s := range rows {
		seen[s.TTL]++
		if s.ICMPID != rows[0].ICMPID || s.ICMPSum != rows[0].ICMPSum || s.Sport != rows[0].Sport || s.Dport != rows[0].Dport {
			t.Errorf("flow changed: %+v, %+v", rows[0], s)
		}
		want := truth[min(int(s.TTL), len(truth))-1]
		if s.Outcome != want.Outcome || s.From != want.From || time.Duration(s.RTTNS) != want.Min {
			t.Errorf("TTL %d: got %+v\nwant %+v", s.TTL, s, want)
		}
	}
	for ttl, want := range truth {
		if count := seen[uint8(ttl+1)]; count != 1 && want.Outcome != datasets.OutcomeTimeout || count == 0 {
			t.Errorf("%s: TTL %d has %d rows", rows[0].Target, ttl+1, count)
		}
	}
	if got := seen[4]; got != probe.DefaultAttempts { // q
		t.Errorf("%s: silent TTL 4 has %d rows, want %d", rows[0].Target, got, probe.DefaultAttempts)
	}
}

func checkLinks(t *testing.T, n *simnet.Net, rows []datasets.Sample) {
	t.Helper()
	truth, err := n.Links("src", rows[0].Target)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range analysis.Links(rows) {
		l.Flows = 0
		if !slices.Contains(truth, l) {
			t.Errorf("false link %+v", l)
		}
	}
}

func TestCatchmentEqualsTruth(t *testing.T) {
	n := world(t)
	for _, v6 := range []bool{false, true} {
		e := virtual(t, n, 5)
		service := netip.MustParseAddr("192.0.2.1")
		if v6 {
			service = netip.MustParseAddr("2001:db8:a::1")
		}
		targets := []datasets.Target{{Addr: service}, target(dst, v6), target(mute, v6)}
		rows := map[netip.Addr]datasets.Catchment{}
		const sport = 5353
		err := e.Catchment(t.Context(), targets, probe.CatchmentOptions{Sport: sport}, func(c datasets.Catchment) error {
			rows[c.Target] = c
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		src, err := e.Conn.Local(service)
		if err != nil {
			t.Fatal(err)
		}
		truth, err := n.Truth("src", packet(t, datasets.Sample{
			Src: src, Target: service, Proto: datasets.ProtoDNS, Sport: sport, Dport: wire.DNSPort, TTL: 64,
		}))
		if err != nil {
			t.Fatal(err)
		}
		got := rows[service]
		want := datasets.Catchment{
			Vantage: "src", Target: service, Direction: datasets.Forward, Site: truth.Site,
			RTTMS: datasets.Millis(float64(truth.Min) / 1e6),
		}
		if got != want || got.Site == "" {
			t.Errorf("got %+v, want %+v", got, want)
		}
		for _, other := range targets[1:] {
			if got, ok := rows[other.Addr]; !ok || got.Site != "" || got.RTTMS.Known() {
				t.Errorf("%s: got %+v, want a row without site and RTT", other.Addr, got)
			}
		}
		// One query for the service; both names twice for those that say nothing.
		if got := e.Stats().Sent; got != 1+4+4 {
			t.Errorf("%d packets sent, want 9", got)
		}
	}
}

// The same seed gives the same bytes, another seed others.
func TestSameSeedSameRows(t *testing.T) {
	n := world(t)
	run := func(seed uint64) []byte {
		var b bytes.Buffer
		out := json.NewEncoder(&b)
		e := virtual(t, n, seed)
		emit := func(s datasets.Sample) error { return out.Encode(s) }
		err := errors.Join(
			e.Ping(t.Context(), both(dst, far, lost, mute), probe.PingOptions{Count: 20}, emit),
			e.Trace(t.Context(), both(dst, far, lost, mute), probe.TraceOptions{}, emit),
			e.Catchment(t.Context(), both(dst, mute), probe.CatchmentOptions{}, func(c datasets.Catchment) error { return out.Encode(c) }))
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	first := run(7)
	if !bytes.Equal(first, run(7)) {
		t.Error("the same seed gave other rows")
	}
	if bytes.Equal(first, run(8)) {
		t.Error("another seed gave the same rows")
	}
}

// Two engines on one host, at the same time and towards the same targets, take
// only their own answers.
func TestTwoEnginesDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := world(t).Real(1)
		var wg sync.WaitGroup
		for i := range 2 {
			conn, err := net.Conn("src")
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				defer conn.Close()
				e := &probe.Engine{Conn: conn, Vantage: "src", Rand: rand.New(rand.NewPCG(uint64(i), 0))}
				const count = 20
				rows := 0
				err := e.Ping(t.Context(), both(dst, far), probe.PingOptions{Count: count, Interval: 50 * time.Millisecond}, func(s datasets.Sample) error {
					rows++
					if s.Outcome != datasets.OutcomeReply {
						t.Errorf("engine %d: %+v", i, s)
					}
					return nil
				})
				if err != nil || rows != 4*count {
					t.Errorf("engine %d: %d rows, %v; want %d", i, rows, err, 4*count)
				}
				if got := e.Stats(); got.Received != 4*count || got.Foreign == 0 || got.Spoofed+got.Duplicates+got.Late != 0 {
					t.Errorf("engine %d: stats %+v; want the other's answers foreign", i, got)
				}
			})
		}
		wg.Wait()
	})
}

func TestCancelReturnsAtOnce(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		conn, err := world(t).Real(1).Conn("src")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		const after = 1234567 * time.Microsecond
		time.AfterFunc(after, func() { cancel(cause) })
		e := &probe.Engine{Conn: conn, Vantage: "src"}
		start := time.Now()
		err = e.Ping(ctx, both(dst, mute), probe.PingOptions{Count: 1000}, func(datasets.Sample) error { return nil })
		if took := time.Since(start); !errors.Is(err, cause) || took != after {
			t.Errorf("Ping returned %v after %v, want %v after %v", err, took, cause, after)
		}
	})
}

func TestEmitErrorEndsMeasurement(t *testing.T) {
	stop := errors.New("disk full")
	rows := 0
	err := virtual(t, world(t), 1).Ping(t.Context(), both(dst), probe.PingOptions{}, func(datasets.Sample) error {
		rows++
		return stop
	})
	if !errors.Is(err, stop) || rows != 1 {
		t.Errorf("Ping = %v after %d rows, want %v after 1", err, rows, stop)
	}
}

// No window of one second has more than cap+1 packets, for the host and for
// each prefix, over measurements that follow each other; and the pace is kept,
// and planned.
func TestEnginePaces(t *testing.T) {
	const prefixHz, hostHz = 10, 60
	var targets []datasets.Target // 20 in one /24, and four others
	for i := range 20 {
		targets = append(targets, datasets.Target{Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})})
	}
	targets = append(targets, both(dst, far)...)
	quiet := func(datasets.Sample) error { return nil }
	for _, c := range []struct {
		name             string
		hostHz, prefixHz float64
		want             time.Duration
	}{
		{"prefix", hostHz, prefixHz, 399 * time.Second / prefixHz},    // 20 probes to each of 20 targets
		{"host", hostHz, math.Inf(1), 479 * time.Second / hostHz},     // to each of 24
		{"both", 400, prefixHz, 399 * time.Second / prefixHz},         // above 200 Hz a little is given away
		{"fast host", 400, math.Inf(1), 479 * time.Second / 400},      //
		{"no limit", math.Inf(1), math.Inf(1), 20 * time.Millisecond}, // 1 ms apart
	} {
		t.Run(c.name, func(t *testing.T) {
			e := virtual(t, world(t), 2)
			e.RateHz, e.PrefixRateHz = c.hostHz, c.prefixHz
			tap := &tapConn{Conn: e.Conn}
			e.Conn = tap
			o := probe.PingOptions{Count: 20, Interval: time.Millisecond}
			plan, err := e.PlanPing(targets, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Ping(t.Context(), targets, o, quiet); err != nil {
				t.Fatal(err)
			}
			took := tap.sent[len(tap.sent)-1].at.Sub(tap.sent[0].at)
			if plan.Packets != len(tap.sent) || plan.Prefixes != 5 || plan.Targets != 24 {
				t.Errorf("plan %+v, but %d packets were sent", plan, len(tap.sent))
			}
			if math.Abs(took.Seconds()-c.want.Seconds()) > 0.01*c.want.Seconds() && c.want > time.Second {
				t.Errorf("took %v, want %v", took, c.want)
			}
			if least := plan.Duration - probe.DefaultTimeout; least < took-took/100 || least > took+took/100+20*time.Millisecond {
				t.Errorf("took %v, planned %v", took, least)
			}
			if err := e.Trace(t.Context(), targets, probe.TraceOptions{}, quiet); err != nil {
				t.Fatal(err)
			}
			checkPace(t, tap.sent, c.hostHz, c.prefixHz)
		})
	}
}

func checkPace(t *testing.T, all []sent, hostHz, prefixHz float64) {
	t.Helper()
	checkWindows(t, "host", all, hostHz)
	byPrefix := map[netip.Prefix][]sent{}
	for _, s := range all {
		bits := 24
		if s.dst.Is6() {
			bits = 48
		}
		prefix, err := s.dst.Prefix(bits)
		if err != nil {
			t.Fatal(err)
		}
		byPrefix[prefix] = append(byPrefix[prefix], s)
	}
	for prefix, of := range byPrefix {
		checkWindows(t, prefix.String(), of, prefixHz)
	}
}

func checkWindows(t *testing.T, what string, packets []sent, rateHz float64) {
	t.Helper()
	if math.IsInf(rateHz, 1) {
		return
	}
	capHz := int(rateHz)
	for i := capHz + 1; i < len(packets); i++ {
		if window := packets[i].at.Sub(packets[i-capHz-1].at); window <= time.Second {
			t.Errorf("%s: %d packets within %v", what, capHz+2, window)
			return
		}
	}
}

// sent is one packet seen by a tapConn.
type sent struct {
	dst  netip.Addr
	at   time.Time
	data []byte
}

// tapConn notes what is sent through a Conn.
type tapConn struct {
	probe.Conn
	sent []sent
}

func (c *tapConn) Send(pkts []probe.Packet) (int, error) {
	n, err := c.Conn.Send(pkts)
	for _, p := range pkts[:n] {
		var h wire.Header
		if err := h.Decode(p.Data); err != nil {
			return n, err
		}
		c.sent = append(c.sent, sent{h.Dst, p.Time, bytes.Clone(p.Data)})
	}
	return n, err
}

// Probes say who sends them, and their checksums are right.
func TestProbesIdentifyThemselves(t *testing.T) {
	for _, proto := range []datasets.Proto{datasets.ProtoICMP, datasets.ProtoUDP} {
		e := virtual(t, world(t), 2)
		tap := &tapConn{Conn: e.Conn}
		e.Conn = tap
		quiet := func(datasets.Sample) error { return nil }
		err := errors.Join(
			e.Ping(t.Context(), both(dst), probe.PingOptions{Proto: proto, Count: 2}, quiet),
			e.Trace(t.Context(), both(dst), probe.TraceOptions{Proto: proto}, quiet),
			e.Ping(t.Context(), both(dst), probe.PingOptions{Proto: proto, Count: 2, Size: 40}, quiet),
		)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range tap.sent {
			if err := wire.VerifyChecksums(s.data); err != nil || !bytes.Contains(s.data, []byte("strandline network measurement")) {
				t.Errorf("packet % x: %v", s.data, err)
			}
		}
	}
}

func TestExcludedTargetsAreNotProbed(t *testing.T) {
	e := virtual(t, world(t), 2)
	tap := &tapConn{Conn: e.Conn}
	e.Conn = tap
	e.Exclude = probe.NewExclusions(netip.MustParsePrefix("10.0.8.0/24"))
	var excluded []netip.Addr
	e.OnExcluded = func(t datasets.Target) { excluded = append(excluded, t.Addr) }
	targets := append(both(dst, far), target(dst, false), target(far, false))
	for range 2 {
		rows := 0
		err := e.Ping(t.Context(), targets, probe.PingOptions{Count: 2}, func(datasets.Sample) error { rows++; return nil })
		if err != nil || rows != 6 {
			t.Errorf("%d rows, %v; want 6", rows, err)
		}
	}
	for _, s := range tap.sent {
		if s.dst == target(dst, false).Addr {
			t.Errorf("excluded %s was probed", s.dst)
		}
	}
	if want := []netip.Addr{target(dst, false).Addr}; !slices.Equal(excluded, want) {
		t.Errorf("excluded %v, want %v once", excluded, want)
	}
	if got := e.Stats(); got.Excluded != 1 || got.Repeated != 4 {
		t.Errorf("stats %+v, want 1 excluded, 4 repeated", got)
	}
}

func TestProgress(t *testing.T) {
	e := virtual(t, world(t), 2)
	var heard []probe.Progress
	e.Progress = func(p probe.Progress) { heard = append(heard, p) }
	if err := e.Ping(t.Context(), both(dst, far), probe.PingOptions{Count: 11}, func(datasets.Sample) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if n := len(heard); n < 9 || n > 13 {
		t.Fatalf("heard %d times in 10 s", n)
	}
	last := heard[len(heard)-1]
	if last.Targets != 4 || last.Done != 4 || last.Stats.Received != 44 {
		t.Errorf("at the end: %+v", last)
	}
}

func TestFaultyOptions(t *testing.T) {
	e := virtual(t, world(t), 2)
	e.RateHz, e.Timeout = -1, -1
	err := e.Ping(t.Context(), nil, probe.PingOptions{Proto: "tcp", Count: -1, Size: 5}, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{`protocol "tcp"`, "count -1", "size 5", "rate of -1", "timeout -1ns"} {
		if !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("error %v\ndoes not say %s", err, want)
		}
	}
	if err := virtual(t, world(t), 2).Ping(t.Context(), []datasets.Target{{Name: "x"}, {Name: "y"}}, probe.PingOptions{}, nil); err == nil ||
		!bytes.Contains([]byte(err.Error()), []byte("target 2 y: no address")) {
		t.Errorf("targets without address: %v", err)
	}
}

func BenchmarkPing(b *testing.B) {
	e := virtual(b, world(b), 1)
	e.RateHz, e.PrefixRateHz = math.Inf(1), math.Inf(1)
	quiet := func(datasets.Sample) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Ping(b.Context(), both(dst), probe.PingOptions{Count: 500, Interval: time.Millisecond}, quiet); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(e.Stats().Sent), "ns/probe")
}
