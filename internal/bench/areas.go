package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"strandline/probe/wire"
	"strandline/router"
	"strandline/router/proxy"
)

// decode compares the decoder of replies with gopacket's fastest way.
func decode() ([]row, error) {
	at, hop, dst := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("203.0.113.1")
	probe, err := wire.AppendUDP(nil, wire.IP{Src: at, Dst: dst, TTL: 1, ID: 7}, wire.UDP{SrcPort: 40000, DstPort: 33434, Payload: make([]byte, 24)})
	if err != nil {
		return nil, err
	}
	packet, err := wire.AppendError(nil, wire.IP{Src: hop, Dst: at, TTL: 60}, wire.TimeExceeded, probe, 0)
	if err != nil {
		return nil, err
	}
	var reply wire.Reply
	var ip, quotedIP layers.IPv4
	var icmp layers.ICMPv4
	var udp layers.UDP
	outer := gopacket.NewDecodingLayerParser(layers.LayerTypeIPv4, &ip, &icmp)
	quoted := gopacket.NewDecodingLayerParser(layers.LayerTypeIPv4, &quotedIP, &udp)
	outer.IgnoreUnsupported, quoted.IgnoreUnsupported = true, true
	var decoded []gopacket.LayerType
	return compete(100*time.Millisecond, []string{"wire.Reply.Decode", "gopacket DecodingLayerParser", "gopacket NewPacket, lazy"}, []func(int){
		func(n int) {
			for range n {
				if reply.Decode(packet) != nil {
					panic("bench: our own packet does not decode")
				}
			}
		},
		func(n int) {
			for range n {
				if outer.DecodeLayers(packet, &decoded) != nil || quoted.DecodeLayers(icmp.Payload, &decoded) != nil {
					panic("bench: gopacket does not decode")
				}
			}
		},
		func(n int) {
			for range n {
				p := gopacket.NewPacket(packet, layers.LayerTypeIPv4, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
				if p.Layer(layers.LayerTypeICMPv4) == nil {
					panic("bench: gopacket does not decode")
				}
			}
		},
	}), nil
}

// forward compares the proxy's handler with the standard library's, before the
// same backend.
func forward() ([]row, error) {
	reply := strings.Repeat("r", 300)
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(reply)) }))
	defer back.Close()
	target, err := url.Parse(back.URL)
	if err != nil {
		return nil, err
	}
	ours, err := proxy.New(proxy.Options{Frontend: "f0", Backends: []proxy.Backend{{Region: "r0", URL: target}}})
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	w := world(rand.New(rand.NewPCG(1, 1)), 1, 1, 0.5)
	p, err := router.Solve(w, router.SolveOptions{})
	if err != nil {
		return nil, err
	}
	table, err := router.NewTable(1, w, p, nil, "f0", nil)
	if err != nil {
		return nil, err
	}
	if err := ours.Publish(table); err != nil {
		return nil, err
	}
	plain := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() }, FlushInterval: -1}
	body := strings.Repeat("x", 1024)
	serve := func(h http.Handler) func(int) {
		return func(n int) {
			for range n {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
				if w.Code != http.StatusOK {
					panic("bench: " + w.Body.String())
				}
			}
		}
	}
	return compete(300*time.Millisecond, []string{"proxy.Proxy", "httputil.ReverseProxy"}, []func(int){serve(ours), serve(plain)}), nil
}

// solve measures the solver to a certified gap of 1e-4, cold.
func solve() ([]row, error) {
	w := world(rand.New(rand.NewPCG(7, 7)), 1000, 100, 0.8)
	var gap float64
	rows := compete(time.Millisecond, []string{"router.Solve, cold, to 1e-4"}, []func(int){func(n int) {
		for range n {
			p, err := router.Solve(w, router.SolveOptions{TargetGap: 1e-4})
			if err != nil {
				panic("bench: " + err.Error())
			}
			gap = p.Gap
		}
	}})
	rows[0].note = fmt.Sprintf("certified gap %.1g", gap)
	return rows, nil
}

// world is a random routing problem on a square of 150 ms, at the given load.
func world(rng *rand.Rand, frontends, regions int, load float64) *router.World {
	w := &router.World{Latency: router.Latency{Unit: router.UnitMillis, Kind: router.KindRTT}}
	var capacity, demand float64
	type place struct{ x, y float64 }
	var at []place
	for j := range regions {
		mu := 20 + 80*rng.Float64()
		capacity += mu
		at = append(at, place{rng.Float64(), rng.Float64()})
		w.Regions = append(w.Regions, router.Region{Name: fmt.Sprintf("r%d", j), Service: router.Service{Kind: router.KindHyperbolic, Mu: mu, Kappa: 5 + 20*rng.Float64()}})
	}
	for i := range frontends {
		rate := rng.ExpFloat64()
		demand += rate
		here := place{rng.Float64(), rng.Float64()}
		w.Frontends = append(w.Frontends, router.Frontend{Name: fmt.Sprintf("f%d", i), RateHz: rate})
		var row []*float64
		for j := range regions {
			ms := 1 + 150*(abs(here.x-at[j].x)+abs(here.y-at[j].y))
			row = append(row, &ms)
		}
		w.Latency.Matrix = append(w.Latency.Matrix, row)
	}
	for i := range w.Frontends {
		w.Frontends[i].RateHz *= load * capacity / demand
	}
	return w
}

func abs(x float64) float64 { return max(x, -x) }
