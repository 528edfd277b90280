package datasets_test

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"strandline/datasets"
)

// The fixtures: of each kind one row with every field set and one with as little
// set as the kind allows.
var (
	v4, v4b = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.7")
	v6, v6b = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:0:ffff::2")
	none    = datasets.NoEstimate()

	vantages = []datasets.Vantage{
		{Name: "fra-1", Addr: v4, Addr6: v6, Lat: 50.11, Lon: 8.68, City: "Frankfurt, Main", Country: "DE",
			Labels: map[string]string{"frontend": "fra", "a=b;c\\": "say \"hi\", 世界\u2028", "empty": ""}},
		{Name: "x", Lat: -90, Lon: 180},
	}
	frontends = []datasets.Frontend{{Name: "fra", Lat: 50.11, Lon: 8.68, RateHz: 12.5}, {Name: "z"}}
	regions   = []datasets.Region{
		{Name: "eu-de", Lat: 50, Lon: 8.5, Addrs: []netip.Addr{v4, v6}},
		{Name: "us-south", Lat: 32.8, Lon: -96.8},
	}
	targets = []datasets.Target{{Addr: v4, Name: "a.example", Region: "eu-de"}, {Addr: v6}}
	samples = []datasets.Sample{
		{Vantage: "fra-1", Target: v4b, Proto: datasets.ProtoICMP, Src: v4, ICMPID: 7, ICMPSum: 65535, TOS: 184, TTL: 64, Seq: 3,
			TxNS: 1700000000000000001, RxNS: 1700000000012345678, RTTNS: 12345677, Stamp: datasets.StampKernel,
			Outcome: datasets.OutcomeReply, From: v4b, ReplyTTL: 57},
		{Vantage: "fra-1", Target: v6b, Proto: datasets.ProtoUDP, Src: v6, Sport: 33434, Dport: 33435, FlowLabel: 0xfffff, TTL: 4,
			TxNS: 5, RxNS: 9, RTTNS: 4, Stamp: datasets.StampSim, Outcome: datasets.OutcomeTTLExceeded, From: v6,
			ReplyTTL: 61, QuotedTTL: 1, ICMPType: 3},
		{Vantage: "fra-1", Target: v4b, Proto: datasets.ProtoICMP, Src: v4, ICMPID: 7, ICMPSum: 1, TTL: 64, TxNS: 5,
			Stamp: datasets.StampUser, Outcome: datasets.OutcomeTimeout},
		{Vantage: "fra-1", Target: v6b, Proto: datasets.ProtoTCP, TTL: 1, Outcome: datasets.OutcomeSendError},
	}
	hops = []datasets.Hop{
		{Vantage: "fra-1", Target: v4b, Proto: datasets.ProtoUDP, Flow: 2, TTL: 3, Addr: v4, RTTMS: 1.25, Probes: 2, Replies: 1},
		{Vantage: "fra-1", Target: v4b, Proto: datasets.ProtoUDP, TTL: 4, RTTMS: none, Probes: 2},
	}
	links     = []datasets.Link{{Vantage: "fra-1", Target: v4b, From: v4, To: v4b, TTL: 3, Flows: 16}}
	balancers = []datasets.Balancer{
		{Vantage: "fra-1", Target: v6b, Proto: datasets.ProtoUDP, Addr: v6, TTL: 3, Class: datasets.PerFlow,
			Fields: []datasets.Field{datasets.FieldSport, datasets.FieldFlowLabel}, Width: 96, MinShare: 0.01, Confidence: 99.5, Probes: 771},
		{Vantage: "fra-1", Target: v4b, Proto: datasets.ProtoICMP, Addr: v4, TTL: 1, Class: datasets.PerPacket, Width: 2},
	}
	catchments = []datasets.Catchment{
		{Vantage: "fra-1", Target: v4b, Direction: datasets.Forward, Site: "ams", RTTMS: 6.5},
		{Vantage: "fra-1", Target: v4b, Direction: datasets.Reverse, RTTMS: none},
	}
	latencies = []datasets.Latency{
		{Vantage: "fra-1", Frontend: "fra", Target: v4b, Region: "eu-de", Proto: datasets.ProtoICMP, Sent: 4, Received: 3, Loss: 0.25,
			MinMS: 1e-7, P50MS: 12.345677, P50LoMS: 12, P50HiMS: 13, P99MS: 14.5, MeanMS: 12.4, JitterMS: 0.3, Confidence: 99.9,
			Stamp: datasets.StampKernel},
		{Vantage: "fra-1", Target: v4b, Proto: datasets.ProtoICMP, Sent: 1, Loss: 1, MinMS: none, P50MS: none, P50LoMS: none,
			P50HiMS: none, P99MS: none, MeanMS: none, JitterMS: none},
	}
	allocations = []datasets.Allocation{{Epoch: 1<<64 - 1, Frontend: "fra", Region: "eu-de", Share: 1.0 / 3, RateHz: 1e21, PriceS: 0.1}}
)

// text shows a row so that equal rows, and only they, are equal texts: NaN
// included, and a nil list or map like an empty one.
func text[R any](row R) string { return fmt.Sprintf("%+v", row) }

func texts[R any](rows []R) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(text(r) + "\n")
	}
	return b.String()
}

// encode writes rows or fails the test.
func encode[R datasets.Row](t testing.TB, f datasets.Format, rows ...R) string {
	t.Helper()
	var b strings.Builder
	if err := datasets.Write(&b, f, slices.Values(rows)); err != nil {
		t.Fatalf("write %T as %s: %v", rows, f, err)
	}
	return b.String()
}

// decode reads rows or fails the test.
func decode[R datasets.Row](t testing.TB, f datasets.Format, s string) []R {
	t.Helper()
	rows, err := datasets.Collect(read[R](s, "in", f))
	if err != nil {
		t.Fatalf("read %T as %s: %v\n%s", rows, f, err, s)
	}
	return rows
}

func read[R datasets.Row](s, name string, f datasets.Format) iter.Seq2[R, error] {
	return datasets.Read[R](strings.NewReader(s), name, f)
}

// random makes valid rows, with awkward values more often than nature does.
type random struct{ *rand.Rand }

func (r random) name() string {
	pieces := []string{"a", "fra", ",", "\"", " ", "=", ";", "\\", "é", "世", "\u2028", "\ufffd", "<&>", "'", "{", "null"}
	var s strings.Builder
	s.WriteString("n")
	for range r.IntN(5) {
		s.WriteString(pieces[r.IntN(len(pieces))])
	}
	return s.String()
}

func (r random) text() string {
	if r.IntN(3) == 0 {
		return ""
	}
	return r.name()
}

func (r random) amount() float64 {
	switch r.IntN(5) {
	case 0:
		return 0
	case 1:
		return math.Ldexp(r.Float64(), r.IntN(2000)-1000)
	case 2:
		return float64(r.IntN(1000))
	}
	return r.Float64() * 300
}

func (r random) millis() datasets.Millis {
	if r.IntN(3) == 0 {
		return none
	}
	return datasets.Millis(r.amount())
}

func (r random) addr4() netip.Addr {
	return netip.AddrFrom4([4]byte{byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})
}

func (r random) addr6() netip.Addr {
	b := [16]byte{0x20, 1}
	for i := 2; i < len(b); i++ {
		b[i] = byte(r.IntN(3)) // runs of zeros
	}
	return netip.AddrFrom16(b)
}

func (r random) addr() netip.Addr {
	if r.IntN(2) == 0 {
		return r.addr4()
	}
	return r.addr6()
}

func (r random) proto() datasets.Proto {
	return []datasets.Proto{datasets.ProtoICMP, datasets.ProtoUDP, datasets.ProtoTCP, datasets.ProtoDNS}[r.IntN(4)]
}

func (r random) stamp() datasets.Stamp {
	return []datasets.Stamp{datasets.StampHardware, datasets.StampKernel, datasets.StampUser, datasets.StampSim}[r.IntN(4)]
}

func (r random) lat() float64 { return r.Float64()*180 - 90 }
func (r random) lon() float64 { return r.Float64()*360 - 180 }
func (r random) ttl() uint8   { return uint8(1 + r.IntN(255)) }

func (r random) vantage() datasets.Vantage {
	v := datasets.Vantage{Name: r.name(), Lat: r.lat(), Lon: r.lon(), City: r.text(), Country: r.text()}
	if r.IntN(2) == 0 {
		v.Addr, v.Addr6 = r.addr4(), r.addr6()
	}
	for range r.IntN(3) {
		if v.Labels == nil {
			v.Labels = map[string]string{}
		}
		v.Labels[r.name()] = r.text()
	}
	return v
}

func (r random) frontend() datasets.Frontend {
	return datasets.Frontend{Name: r.name(), Lat: r.lat(), Lon: r.lon(), RateHz: r.amount()}
}

func (r random) region() datasets.Region {
	g := datasets.Region{Name: r.name(), Lat: r.lat(), Lon: r.lon()}
	for range r.IntN(3) {
		g.Addrs = append(g.Addrs, r.addr())
	}
	return g
}

func (r random) target() datasets.Target {
	return datasets.Target{Addr: r.addr(), Name: r.text(), Region: r.text()}
}

func (r random) sample() datasets.Sample {
	addr := r.addr4
	s := datasets.Sample{Vantage: r.name(), Proto: r.proto(), TOS: uint8(r.Uint32()), TTL: r.ttl(), Seq: r.Uint32(),
		TxNS: r.Int64N(math.MaxInt64 / 2), Stamp: r.stamp()}
	if r.IntN(2) == 0 {
		addr, s.FlowLabel = r.addr6, r.Uint32()>>12
	}
	s.Target, s.Src = addr(), addr()
	if s.Proto == datasets.ProtoICMP {
		s.ICMPID, s.ICMPSum = uint16(r.Uint32()), uint16(r.Uint32())
	} else {
		s.Sport, s.Dport = uint16(r.Uint32()), uint16(r.Uint32())
	}
	s.Outcome = []datasets.Outcome{datasets.OutcomeReply, datasets.OutcomeTTLExceeded, datasets.OutcomeUnreachable,
		datasets.OutcomeTimeout, datasets.OutcomeSendError}[r.IntN(5)]
	if s.Outcome.Answered() {
		s.RTTNS = r.Int64N(1 << r.IntN(40))
		s.RxNS, s.From, s.ReplyTTL, s.ICMPType, s.ICMPCode = s.TxNS+s.RTTNS, addr(), r.ttl(), r.ttl(), r.ttl()
		if s.Outcome != datasets.OutcomeReply {
			s.QuotedTTL = r.ttl()
		}
	}
	return s
}

func (r random) hop() datasets.Hop {
	h := datasets.Hop{Vantage: r.name(), Target: r.addr(), Proto: r.proto(), Flow: r.Uint32(), TTL: r.ttl(), RTTMS: none,
		Probes: 1 + r.Uint32()/2}
	if r.IntN(2) == 0 {
		h.Addr, h.RTTMS, h.Replies = r.addr(), r.millis(), 1+r.Uint32N(h.Probes)
	}
	return h
}

func (r random) link() datasets.Link {
	return datasets.Link{Vantage: r.name(), Target: r.addr(), From: r.addr4(), To: r.addr6(), TTL: r.ttl(), Flows: 1 + r.Uint32()/2}
}

func (r random) balancer() datasets.Balancer {
	b := datasets.Balancer{Vantage: r.name(), Target: r.addr(), Proto: r.proto(), Addr: r.addr(), TTL: r.ttl(), Width: 2 + r.Uint32()/2,
		MinShare: r.Float64(), Confidence: 100 * r.Float64(), Probes: r.Uint32(),
		Class: []datasets.Class{datasets.PerFlow, datasets.PerPacket, datasets.PerDestination, datasets.ClassUnknown}[r.IntN(4)]}
	if b.Class == datasets.PerFlow {
		all := []datasets.Field{datasets.FieldSport, datasets.FieldDport, datasets.FieldTOS, datasets.FieldICMPID, datasets.FieldICMPSum}
		b.Fields = all[:r.IntN(len(all)+1)]
	}
	return b
}

func (r random) catchment() datasets.Catchment {
	return datasets.Catchment{Vantage: r.name(), Target: r.addr(), Site: r.text(), RTTMS: r.millis(),
		Direction: []datasets.Direction{datasets.Forward, datasets.Reverse}[r.IntN(2)]}
}

func (r random) latency() datasets.Latency {
	l := datasets.Latency{Vantage: r.name(), Frontend: r.text(), Target: r.addr(), Region: r.text(), Proto: r.proto(),
		Sent: 1 + r.Uint32N(1000), Confidence: r.Float64() * 99, Stamp: r.stamp(), JitterMS: r.millis()}
	l.Received = r.Uint32N(l.Sent + 1)
	l.Loss = float64(l.Sent-l.Received) / float64(l.Sent)
	times := []*datasets.Millis{&l.MinMS, &l.P50LoMS, &l.P50MS, &l.P50HiMS, &l.P99MS}
	sorted := make([]float64, len(times))
	for i := range sorted {
		sorted[i] = r.amount()
	}
	slices.Sort(sorted)
	for i, t := range times {
		if *t = datasets.Millis(sorted[i]); r.IntN(5) == 0 {
			*t = none
		}
	}
	l.MeanMS = l.P50MS
	return l
}

func (r random) allocation() datasets.Allocation {
	return datasets.Allocation{Epoch: r.Uint64(), Frontend: r.name(), Region: r.name(), Share: r.Float64(), RateHz: r.amount(), PriceS: r.amount()}
}

// many calls make n times.
func many[R any](n int, make func() R) []R {
	rows := []R{}
	for range n {
		rows = append(rows, make())
	}
	return rows
}
