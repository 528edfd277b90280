package proxy_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"
	"time"

	"strandline/router/proxy"
)

// way is a server on the way to the same backend.
type way struct {
	name   string
	url    string
	client *http.Client
	times  []time.Duration
}

// ways are the backend itself, the standard library's proxy before it, and ours.
func ways(b *testing.B, back http.Handler) []*way {
	b.Helper()
	target := start(b, back)
	tr := &http.Transport{DisableCompression: true}
	b.Cleanup(tr.CloseIdleConnections)
	plain := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() },
		FlushInterval: -1,
		Transport:     tr,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	ours := serve(b, proxy.Options{Backends: []proxy.Backend{{Region: "a", URL: target}}}, newTable(b, 1, []arc{{"a", 1}}))
	// Without full duplex it now and then cuts an answer that is quick: the server
	// closes the request body which the transport still looks at for its end.
	duplex := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		plain.ServeHTTP(w, r)
	})
	all := []*way{{name: "direct", url: target.String()}, {name: "ReverseProxy", url: start(b, duplex).String()}, {name: "proxy", url: ours.url}}
	for _, w := range all {
		tr := &http.Transport{DisableCompression: true}
		b.Cleanup(tr.CloseIdleConnections)
		w.client = &http.Client{Transport: tr}
	}
	return all
}

func (w *way) post(b *testing.B, body string) {
	start := time.Now()
	res, err := w.client.Post(w.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		b.Fatal(w.name, ": ", err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		b.Fatal(w.name, ": ", err)
	}
	res.Body.Close()
	w.times = append(w.times, time.Since(start))
}

// BenchmarkOverhead sends each request by all three ways in turn, so that noise
// of the machine meets them alike, and reports medians and what ours adds. The
// time per operation is that of the three together.
func BenchmarkOverhead(b *testing.B) {
	sse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 100 {
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\" tide\"}}]}\n\n")
			http.NewResponseController(w).Flush()
		}
	})
	reply := strings.Repeat("r", 300)
	for _, bm := range []struct {
		name string
		body int
		back http.Handler
	}{
		{"4KB", 4 << 10, named(reply)},
		{"220KB", 220_000, named(reply)},
		{"100events", 1 << 10, sse},
	} {
		b.Run(bm.name, func(b *testing.B) {
			all, body := ways(b, bm.back), strings.Repeat("x", bm.body)
			for b.Loop() {
				for _, w := range all {
					w.post(b, body)
				}
			}
			p50 := map[string]float64{}
			for _, w := range all {
				slices.Sort(w.times)
				p50[w.name] = float64(w.times[len(w.times)/2].Microseconds())
				b.ReportMetric(p50[w.name], w.name+"-p50-µs")
			}
			b.ReportMetric(p50["proxy"]/p50["ReverseProxy"], "proxy/ReverseProxy")
		})
	}
}

// BenchmarkHandler is the proxies' own work per request, with allocations,
// without a client's: the handler is called in place.
func BenchmarkHandler(b *testing.B) {
	target := start(b, named("ok"))
	plain := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() }, FlushInterval: -1}
	p, err := proxy.New(proxy.Options{Frontend: "fra", Backends: []proxy.Backend{{Region: "a", URL: target}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	if err := p.Publish(newTable(b, 1, []arc{{"a", 1}})); err != nil {
		b.Fatal(err)
	}
	for _, bm := range []struct {
		name string
		h    http.Handler
	}{{"ReverseProxy", plain}, {"proxy", p}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				bm.h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader("{}")))
				if w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
