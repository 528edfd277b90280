package analysis_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"strandline/analysis"
	"strandline/datasets"
)

// router is the address of the i-th router.
func router(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

// probed is the sample of one UDP probe of a flow: the target's or router from's
// answer, or a timeout when from is the zero address.
func probed(flow uint16, ttl uint8, from netip.Addr) datasets.Sample {
	s := datasets.Sample{Vantage: "v", Target: target, Proto: datasets.ProtoUDP, Src: src, Sport: 33000 + flow, Dport: 33434, TTL: ttl,
		Outcome: datasets.OutcomeTimeout}
	if from.IsValid() {
		s.From, s.QuotedTTL, s.Outcome, s.Stamp = from, 1, datasets.OutcomeTTLExceeded, datasets.StampSim
		s.RTTNS, s.RxNS = int64(ttl)*1e6, int64(ttl)*1e6
	}
	if from == target {
		s.Outcome = datasets.OutcomeReply
	}
	return s
}

// path is the samples of one flow, one per TTL.
func path(flow uint16, hops ...netip.Addr) []datasets.Sample {
	var out []datasets.Sample
	for i, a := range hops {
		out = append(out, probed(flow, uint8(i+1), a))
	}
	return out
}

// link is one expected link.
func link(ttl uint8, from, to netip.Addr, flows uint32) datasets.Link {
	return datasets.Link{Vantage: "v", Target: target, From: from, To: to, TTL: ttl, Flows: flows}
}

func TestLinks(t *testing.T) {
	a, b, c, d, silent := router(1), router(2), router(3), router(4), netip.Addr{}
	refusal := probed(0, 3, c)
	refusal.Outcome = datasets.OutcomeUnreachable
	noPort := probed(0, 3, target)
	noPort.Outcome = datasets.OutcomeUnreachable
	zeroTTL := path(0, a, c, c, target)
	zeroTTL[1].QuotedTTL = 0
	alwaysZero := path(0, a, b, b, target)
	alwaysZero[1].QuotedTTL, alwaysZero[2].QuotedTTL = 0, 0
	refused := probed(0, 3, silent)
	refused.Outcome = datasets.OutcomeSendError
	for _, tc := range []struct {
		name    string
		samples []datasets.Sample
		want    []datasets.Link
	}{
		{"nothing", nil, nil},
		{"plain", path(0, a, b, target), []datasets.Link{link(1, a, b, 1), link(2, b, target, 1)}},
		{"across silence", path(0, a, silent, c, target), []datasets.Link{link(3, c, target, 1)}},
		{"silence and then an answer", append(path(0, a, silent, c), probed(0, 2, b)),
			[]datasets.Link{link(1, a, b, 1), link(2, b, c, 1)}},
		{"TTL never asked", append(path(0, a), probed(0, 3, c)), nil},
		{"two flows", append(path(0, a, b, d, target), path(1, a, c, d, target)...), []datasets.Link{
			link(1, a, b, 1), link(1, a, c, 1), link(2, b, d, 1), link(2, c, d, 1), link(3, d, target, 2)}},
		{"not between flows", append(path(0, a), probed(1, 2, b)), nil},
		{"beyond the target", path(0, a, target, target, b), []datasets.Link{link(1, a, target, 1)}},
		{"the same address twice", path(0, a, b, b, target), []datasets.Link{link(1, a, b, 1), link(3, b, target, 1)}},
		{"a packet of TTL 0 forwarded", zeroTTL, []datasets.Link{link(3, c, target, 1)}},
		{"a router that always quotes 0", alwaysZero, []datasets.Link{link(1, a, b, 1), link(3, b, target, 1)}},
		{"several addresses at one TTL", append(path(0, a, b, d, target), probed(0, 2, c)), []datasets.Link{link(3, d, target, 1)}},
		{"refused", append(path(0, a, b), refusal, probed(0, 4, d)), []datasets.Link{link(1, a, b, 1)}},
		{"port unreachable", append(path(0, a, b), noPort), []datasets.Link{link(1, a, b, 1), link(2, b, target, 1)}},
		{"never sent", append(path(0, a, b), refused), []datasets.Link{link(1, a, b, 1)}},
	} {
		got := analysis.Links(tc.samples)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got\n%v, want\n%v", tc.name, got, tc.want)
		}
	}
}

func TestHops(t *testing.T) {
	a, b, c, silent := router(1), router(2), router(3), netip.Addr{}
	slow := probed(0, 1, a)
	slow.RTTNS = 5e6
	refused := probed(0, 2, silent)
	refused.Outcome = datasets.OutcomeSendError
	samples := slices.Concat(path(7, a, c, target, target), path(0, a, silent, b), []datasets.Sample{slow, refused, probed(0, 3, c), probed(0, 3, silent)})
	hop := func(flow uint32, ttl uint8, addr netip.Addr, ms datasets.Millis, probes, replies uint32) datasets.Hop {
		return datasets.Hop{Vantage: "v", Target: target, Proto: datasets.ProtoUDP, Flow: flow, TTL: ttl, Addr: addr, RTTMS: ms,
			Probes: probes, Replies: replies}
	}
	want := []datasets.Hop{
		hop(0, 1, a, 1, 2, 2), hop(0, 2, silent, datasets.NoEstimate(), 1, 0), hop(0, 3, b, 3, 3, 1), hop(0, 3, c, 3, 3, 1),
		hop(1, 1, a, 1, 1, 1), hop(1, 2, c, 2, 1, 1), hop(1, 3, target, 3, 1, 1),
	}
	got := analysis.Hops(samples)
	if show(got) != show(want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	for _, h := range got {
		if err := h.Validate(); err != nil {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

func TestFlowsAreNumberedPerTarget(t *testing.T) {
	samples := slices.Concat(path(3, router(1)), path(1, router(1)))
	other := path(2, router(1))
	other[0].Target = router(9)
	icmp := path(0, router(1))
	icmp[0].Proto, icmp[0].Sport, icmp[0].Dport = datasets.ProtoICMP, 0, 0
	var got []uint32
	for _, h := range analysis.Hops(slices.Concat(samples, other, icmp)) {
		got = append(got, h.Flow)
	}
	if want := []uint32{0, 0, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPathsAgainstTruth traces random layered networks, in which each flow has
// one true path, with some probes lost and some routers silent. No link may be
// false, and where every probe is answered none may be missing.
func TestPathsAgainstTruth(t *testing.T) {
	r := seeded(t)
	for range 300 {
		loss := []float64{0, 0.2, 0.6}[r.IntN(3)]
		samples, truth := layered(r, loss)
		r.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
		got := analysis.Links(samples)
		seen := make(map[datasets.Link]bool)
		for _, l := range got {
			if err := l.Validate(); err != nil {
				t.Fatal(err)
			}
			n := l.Flows
			l.Flows = 0
			if truth[l] < n || seen[l] {
				t.Fatalf("link %+v of %d flows: false, or twice; truly %d flows", l, n, truth[l])
			}
			if loss == 0 && truth[l] != n {
				t.Fatalf("link %+v of %d flows, truly %d", l, n, truth[l])
			}
			seen[l] = true
		}
		if loss == 0 && len(got) != len(truth) {
			t.Fatalf("%d links, truly %d", len(got), len(truth))
		}
		hops, links := show(analysis.Hops(samples)), show(got)
		slices.Reverse(samples) // the order of rows does not matter
		if again := show(analysis.Hops(samples)); again != hops {
			t.Fatalf("hops got\n%s, want\n%s", again, hops)
		}
		if again := show(analysis.Links(samples)); again != links {
			t.Fatalf("links got\n%s, want\n%s", again, links)
		}
	}
}

// layered traces several flows through random layers of routers. It returns the
// samples and the true number of flows per link.
func layered(r *rand.Rand, loss float64) (samples []datasets.Sample, truth map[datasets.Link]uint32) {
	truth = make(map[datasets.Link]uint32)
	depth, flows := 2+r.IntN(8), 1+r.IntN(10)
	for flow := range flows {
		hops := make([]netip.Addr, depth)
		for i := range hops {
			hops[i] = router(100*i + r.IntN(1+i%4))
		}
		hops[depth-1] = target
		for i, to := range hops {
			if i > 0 {
				truth[link(uint8(i), hops[i-1], to, 0)]++
			}
			for range 1 + r.IntN(2) {
				from := to
				if r.Float64() < loss {
					from = netip.Addr{}
				}
				samples = append(samples, probed(uint16(flow), uint8(i+1), from))
			}
		}
		samples = append(samples, probed(uint16(flow), uint8(depth+1), target)) // a probe that overshot
	}
	return samples, truth
}
