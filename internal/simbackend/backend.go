package simbackend

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"time"
)

// DefaultTokens is how many tokens a request gets that does not say, as
// max_tokens does in the completions API.
const DefaultTokens = 16

// Options says how a Backend works. MuHz and Kappa must be set; every other
// field may be zero.
type Options struct {
	Region string  // the name it goes by: owner of the model, label of the metrics
	Model  string  // the model it serves; "sim" when empty
	MuHz   float64 // mu of the rate law: requests per second that it approaches under load
	Kappa  float64 // kappa of the rate law: requests at which it does half of mu; 0 = M/M/1

	// TokenTime is the time of one output token of a request alone; zero makes a
	// request of DefaultTokens one unit of work. PromptTokenTime is the same for a
	// prompt token, of which a prompt has one per four bytes; zero makes prompts free.
	TokenTime       time.Duration
	PromptTokenTime time.Duration

	MaxRunning int    // requests that run at once, the others wait; 0 = no limit
	Seed       uint64 // of the text
}

// validate reports every option that makes no sense.
func (o *Options) validate() error {
	var errs []error
	if !(o.MuHz > 0) || math.IsInf(o.MuHz, 0) {
		errs = append(errs, fmt.Errorf("option MuHz is %v, want a positive rate", o.MuHz))
	}
	if !(o.Kappa >= 0) || math.IsInf(o.Kappa, 0) {
		errs = append(errs, fmt.Errorf("option Kappa is %v, want 0 or more", o.Kappa))
	}
	if o.TokenTime < 0 || o.PromptTokenTime < 0 {
		errs = append(errs, fmt.Errorf("options TokenTime and PromptTokenTime are %v and %v, want 0 or more", o.TokenTime, o.PromptTokenTime))
	}
	if o.MaxRunning < 0 {
		errs = append(errs, fmt.Errorf("option MaxRunning is %d, want 0 or more", o.MaxRunning))
	}
	return errors.Join(errs...)
}

// Stats counts what a Backend has done. Running and Waiting are gauges, the
// others only grow. A request is in exactly one of Running, Waiting, Finished
// and Cancelled.
type Stats struct {
	Running      int
	Waiting      int
	Requests     uint64 // completions asked for, well formed
	Finished     uint64 // all tokens worked out
	Cancelled    uint64 // the client left before that
	PromptTokens uint64
	OutputTokens uint64
}

// Backend is the simulated engine, an http.Handler. It is safe for concurrent
// use; it owns no goroutine and needs no closing.
type Backend struct {
	opts      Options
	promptReq float64 // work of one prompt token, in requests
	tokenReq  float64 // work of one output token, in requests
	engine    engine
	mux       *http.ServeMux
	sick      atomic.Bool
	serial    atomic.Uint64 // of the request identifiers
	prompted  atomic.Uint64
}

// New returns a healthy backend. The error names every bad option.
func New(opts Options) (*Backend, error) {
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("simbackend %q: %w", opts.Region, err)
	}
	if opts.Model == "" {
		opts.Model = "sim"
	}
	aloneHz := opts.MuHz / (opts.Kappa + 1) // l(1)
	b := &Backend{
		opts:      opts,
		promptReq: opts.PromptTokenTime.Seconds() * aloneHz,
		tokenReq:  opts.TokenTime.Seconds() * aloneHz,
		engine:    engine{muHz: opts.MuHz, kappa: opts.Kappa, limit: opts.MaxRunning},
		mux:       http.NewServeMux(),
	}
	if opts.TokenTime == 0 {
		b.tokenReq = 1.0 / DefaultTokens
	}
	b.mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { b.complete(w, r, chat) })
	b.mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { b.complete(w, r, text) })
	b.mux.HandleFunc("GET /v1/models", b.models)
	b.mux.HandleFunc("GET /health", b.health)
	b.mux.HandleFunc("GET /metrics", b.metrics)
	return b, nil
}

// ServeHTTP answers one request.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.mux.ServeHTTP(w, r) }

// SetHealthy makes /health answer 200 (true) or 503 (false). Completions are
// served either way: what a failing health check does is the router's matter.
func (b *Backend) SetHealthy(healthy bool) { b.sick.Store(!healthy) }

// Stats returns the counters and gauges at this moment.
func (b *Backend) Stats() Stats {
	s := b.engine.snapshot()
	s.PromptTokens = b.prompted.Load()
	return s
}

func (b *Backend) health(w http.ResponseWriter, _ *http.Request) {
	if b.sick.Load() {
		http.Error(w, "unhealthy", http.StatusServiceUnavailable)
	}
}

// metrics writes the Prometheus text format, version 0.0.4, with the names that
// vLLM has. %q quotes a label value as that format does for printable names.
func (b *Backend) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	s := b.Stats()
	for _, m := range []struct {
		name, kind, help string
		value            float64
	}{
		{"vllm:num_requests_running", "gauge", "Requests that are being worked on.", float64(s.Running)},
		{"vllm:num_requests_waiting", "gauge", "Requests that wait for a place.", float64(s.Waiting)},
		{"vllm:request_success_total", "counter", "Requests worked out to the end.", float64(s.Finished)},
		{"vllm:prompt_tokens_total", "counter", "Prompt tokens taken in.", float64(s.PromptTokens)},
		{"vllm:generation_tokens_total", "counter", "Output tokens worked out.", float64(s.OutputTokens)},
		{"simbackend:requests_cancelled_total", "counter", "Requests whose client left.", float64(s.Cancelled)},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s{model_name=%q,region=%q} %v\n",
			m.name, m.help, m.name, m.kind, m.name, b.opts.Model, b.opts.Region, m.value)
	}
}
