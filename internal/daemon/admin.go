package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"time"

	"strandline/dnsserver"
	"strandline/router"
	"strandline/router/proxy"
)

// Status is the answer of /status.
type Status struct {
	Version string    `json:"version,omitempty"`
	Config  string    `json:"config"`
	Started time.Time `json:"started"`
	Ready   bool      `json:"ready"`
	Reason  string    `json:"reason,omitempty"` // why not ready

	Epoch        uint64           `json:"epoch"`
	Since        time.Time        `json:"since,omitzero"` // of the epoch
	MeanLatencyS *float64         `json:"mean_latency_s"` // null where the plan is overloaded
	Gap          *float64         `json:"gap"`            // null where the plan is overloaded
	Overloaded   bool             `json:"overloaded"`
	Regions      []RegionStatus   `json:"regions"`
	Frontends    []FrontendStatus `json:"frontends"`
	Notes        []string         `json:"notes,omitempty"` // what the data set of latencies lacks

	Reload    ReloadStatus     `json:"reload"`
	PlanError string           `json:"plan_error,omitempty"` // why the last change of health was not followed
	DNS       *dnsserver.Stats `json:"dns,omitempty"`
	HTTP      *proxy.Stats     `json:"http,omitempty"`
}

// RegionStatus is one region of the world.
type RegionStatus struct {
	Name        string        `json:"name"`
	Down        bool          `json:"down"` // in the table in force
	RateHz      float64       `json:"rate"`
	Workload    *float64      `json:"workload"` // null where unbounded
	PriceS      *float64      `json:"price"`    // null where unbounded
	Utilisation float64       `json:"utilisation"`
	Checks      []CheckStatus `json:"checks"` // empty = always taken to be up
}

// CheckStatus is one health check of a region.
type CheckStatus struct {
	Service string       `json:"service"`
	URL     string       `json:"url"`
	State   router.State `json:"state"`
	Since   time.Time    `json:"since,omitzero"` // of the state
	Last    time.Time    `json:"last,omitzero"`  // attempt
	TookMS  float64      `json:"took_ms"`
	Error   string       `json:"error,omitempty"` // of the last attempt
}

// FrontendStatus is one frontend of the world.
type FrontendStatus struct {
	Name   string             `json:"name"`
	RateHz float64            `json:"rate"`
	ShedHz float64            `json:"shed"`
	Shares map[string]float64 `json:"shares"` // by region, those above 0
}

// ReloadStatus is the last reload.
type ReloadStatus struct {
	Count  uint64    `json:"count"`
	Failed uint64    `json:"failed"`
	At     time.Time `json:"at,omitzero"`
	OK     bool      `json:"ok"`              // the last one worked, or there was none
	Error  []string  `json:"error,omitempty"` // one line per problem
}

// serveAdmin serves the admin pages and returns what stops them.
func (d *daemon) serveAdmin(l net.Listener) (stop func()) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", d.handleReady)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, d.status()) })
	mux.HandleFunc("GET /explain", d.handleExplain)
	mux.HandleFunc("POST /reload", d.handleReload)
	if d.opts.Pages != nil {
		mux.Handle("GET /", d.opts.Pages)
	}
	srv := &http.Server{
		Handler:           localOnly(http.NewCrossOriginProtection().Handler(mux)),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       keepAliveTime,
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
	d.group.Go(func() error { return d.watch(served(srv.Serve(l))) })
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), adminDrainTime)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
	}
}

// localOnly refuses requests that name another host than an address or
// localhost: a web page may make a browser send them by pointing its own name at
// loopback (DNS rebinding).
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
			writeJSON(w, http.StatusForbidden, errorBody{[]string{"ask by address, such as http://127.0.0.1:9099/"}})
			return
		}
		next.ServeHTTP(w, r)
	})
}

type errorBody struct {
	Error []string `json:"error"`
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"error": ["the answer cannot be written as JSON"]}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	w.Write(append(b, '\n')) // an error here means that nobody is reading
}

// ready says whether requests should come here, and why not.
func (d *daemon) ready() (bool, string) {
	switch now := d.now.Load(); {
	case d.phase.Load() == draining:
		return false, "draining"
	case d.phase.Load() == starting || now == nil:
		return false, "starting"
	case now.table.AllDown():
		return false, "every region is down"
	}
	return true, ""
}

func (d *daemon) handleReady(w http.ResponseWriter, _ *http.Request) {
	ok, reason := d.ready()
	if !ok {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": reason})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (d *daemon) handleExplain(w http.ResponseWriter, r *http.Request) {
	now := d.now.Load()
	if now == nil {
		writeJSON(w, http.StatusServiceUnavailable, errorBody{[]string{"starting"}})
		return
	}
	snap := now.snap
	if d.dns != nil {
		snap = d.dns.Snapshot()
	}
	e, err := now.explain(r.FormValue("name"), r.FormValue("client"), snap)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, errorBody{[]string{err.Error()}})
		return
	}
	writeJSON(w, http.StatusOK, e)
}

// handleReload asks the control loop and waits for what became of it.
func (d *daemon) handleReload(w http.ResponseWriter, r *http.Request) {
	reply := make(chan error, 1)
	select {
	case d.reloads <- reply:
	case <-r.Context().Done():
		return
	case <-d.ending:
		writeJSON(w, http.StatusServiceUnavailable, errorBody{[]string{"draining"}})
		return
	}
	if err := <-reply; err != nil {
		writeJSON(w, http.StatusUnprocessableEntity, errorBody{lines(err)})
		return
	}
	writeJSON(w, http.StatusOK, map[string]uint64{"epoch": d.now.Load().table.Epoch()})
}

// status collects what there is to know.
func (d *daemon) status() *Status {
	s := &Status{Version: d.opts.Version, Config: d.opts.ConfigFile, Started: d.started, Regions: []RegionStatus{}, Frontends: []FrontendStatus{}}
	s.Ready, s.Reason = d.ready()
	last := d.outcome.Load()
	s.Reload = ReloadStatus{Count: last.reloads, Failed: last.failedReloads, At: last.reloadAt, OK: last.reloadErr == nil, Error: lines(last.reloadErr)}
	if last.planErr != nil {
		s.PlanError = last.planErr.Error()
	}
	now := d.now.Load()
	if now == nil {
		return s
	}
	plan := now.table.Plan()
	s.Epoch, s.Since, s.Notes = now.table.Epoch(), now.since, now.cfg.Notes
	s.MeanLatencyS, s.Gap, s.Overloaded = orNull(plan.MeanLatencyS), orNull(plan.Gap), plan.Overloaded
	checks := d.checks.current.Load()
	for j, r := range plan.Regions {
		s.Regions = append(s.Regions, RegionStatus{Name: r.Name, Down: now.table.Down(j), RateHz: r.RateHz, Workload: orNull(r.Workload),
			PriceS: orNull(r.PriceS), Utilisation: r.Utilisation, Checks: checks.of(r.Name)})
	}
	for _, f := range plan.Frontends {
		s.Frontends = append(s.Frontends, FrontendStatus{f.Name, f.RateHz, f.ShedHz, sharesByName(f.Shares, plan)})
	}
	if d.dns != nil {
		stats := d.dns.Stats()
		s.DNS = &stats
	}
	if now.proxy != nil {
		stats := now.proxy.Stats()
		s.HTTP = &stats
	}
	return s
}

// of lists the checks of a region.
func (s *checkSet) of(region string) []CheckStatus {
	out := []CheckStatus{}
	for _, r := range s.all {
		if r.check.Region != region {
			continue
		}
		st := r.status.Load()
		c := CheckStatus{Service: r.check.Service, URL: r.check.URL, State: st.state, Since: st.since, Last: st.last,
			TookMS: float64(st.took) / float64(time.Millisecond)}
		if st.err != nil {
			c.Error = st.err.Error()
		}
		out = append(out, c)
	}
	return out
}

func sharesByName(shares []float64, plan *router.Plan) map[string]float64 {
	out := map[string]float64{}
	for j, share := range shares {
		if share > 0 {
			out[plan.Regions[j].Name] = share
		}
	}
	return out
}

// orNull is v, or nothing where JSON could not say it.
func orNull(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// lines takes joined errors apart.
func lines(err error) []string {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range joined.Unwrap() {
		out = append(out, lines(e)...)
	}
	return out
}
