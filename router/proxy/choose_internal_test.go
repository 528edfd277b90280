package proxy

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"strandline/router"
)

// deciding is a proxy with 20 regions of equal share.
func deciding(t testing.TB) *Proxy {
	t.Helper()
	const regions = 20
	w := &router.World{Frontends: []router.Frontend{{Name: "fra", RateHz: 1}}, Latency: router.Latency{Matrix: make([][]*float64, 1)}}
	plan := &router.Plan{Frontends: []router.FrontendPlan{{Name: "fra", RateHz: 1}}}
	opts := Options{Frontend: "fra"}
	for i := range regions {
		name, delayS := string(rune('a'+i)), 0.01
		w.Regions = append(w.Regions, router.Region{Name: name, Service: router.Service{Mu: 1}})
		w.Latency.Matrix[0] = append(w.Latency.Matrix[0], &delayS)
		plan.Regions = append(plan.Regions, router.RegionPlan{Name: name})
		plan.Frontends[0].Shares = append(plan.Frontends[0].Shares, 1.0/regions)
		opts.Backends = append(opts.Backends, Backend{Region: name, URL: &url.URL{Scheme: "http", Host: name}})
	}
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	table, err := router.NewTable(1, w, plan, nil, "fra", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(table); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDecisionAllocatesNothing(t *testing.T) {
	p, r := deciding(t), httptest.NewRequest("POST", "/v1/chat/completions", nil)
	for _, session := range []string{"", "a session"} {
		r.Header.Set(HeaderSession, session)
		n := testing.AllocsPerRun(1000, func() {
			s := p.current.Load()
			hash := p.hash(r)
			b := s.choose(hash)
			if s.instead(hash, b) == b || p.shedNow(s.shed) {
				t.Error("no other region, or shed")
			}
		})
		if n != 0 {
			t.Errorf("session %q: %v allocations per decision, want 0", session, n)
		}
	}
}

// TestDraws: SplitMix64 seeded with 0 begins with these (Vigna's splitmix64.c).
func TestDraws(t *testing.T) {
	var p Proxy
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := p.next(); got != want {
			t.Errorf("draw %d is %#x, want %#x", i, got, want)
		}
	}
}

// TestSessionHash holds the values fixed: frontends of different versions must
// agree.
func TestSessionHash(t *testing.T) {
	// FNV-1a of "foobar", from the test vectors of RFC 9923.
	fnv := uint64(0x85944171f73967e8)
	if got, want := SessionHash("foobar"), mix(fnv+weyl); got != want {
		t.Errorf("hash of foobar is %#x, want %#x", got, want)
	}
}

func BenchmarkDecision(b *testing.B) {
	p, r := deciding(b), httptest.NewRequest("POST", "/v1/chat/completions", nil)
	b.ReportAllocs()
	for b.Loop() {
		p.current.Load().choose(p.hash(r))
	}
}
