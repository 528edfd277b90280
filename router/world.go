package router

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"strandline/datasets"
)

// World is a routing problem: demand, capacity and the network between them, as
// a world file holds it. Check it with Validate before use.
type World struct {
	Frontends []Frontend `yaml:"frontends" json:"frontends"`
	Regions   []Region   `yaml:"regions" json:"regions"`
	Latency   Latency    `yaml:"latency" json:"latency"`
	Objective Objective  `yaml:"objective,omitempty" json:"objective,omitzero"`
}

// Frontend is where requests enter, with the requests per second that do.
type Frontend struct {
	Name   string  `yaml:"name" json:"name"`
	RateHz float64 `yaml:"rate" json:"rate"`
	Lat    float64 `yaml:"lat,omitempty" json:"lat,omitempty"`
	Lon    float64 `yaml:"lon,omitempty" json:"lon,omitempty"`
}

// Region is a place that serves requests, with its service-rate function.
type Region struct {
	Name    string  `yaml:"name" json:"name"`
	Service Service `yaml:"service" json:"service"`
	Lat     float64 `yaml:"lat,omitempty" json:"lat,omitempty"`
	Lon     float64 `yaml:"lon,omitempty" json:"lon,omitempty"`
}

// Units and kinds of a latency matrix.
const (
	UnitSeconds = "s"
	UnitMillis  = "ms"
	KindOneWay  = "oneway" // also a network objective
	KindRTT     = "rtt"    // also a network objective
)

// Kinds of an objective.
const (
	ObjectiveTotal = "total"
	ObjectiveTTFT  = "ttft"
)

// Latency is the network between frontends (rows) and regions (columns).
type Latency struct {
	Unit   string       `yaml:"unit,omitempty" json:"unit,omitempty"` // UnitSeconds (default) or UnitMillis
	Kind   string       `yaml:"kind,omitempty" json:"kind,omitempty"` // KindOneWay (default) or KindRTT, which is twice the one-way time
	Matrix [][]*float64 `yaml:"matrix" json:"matrix"`                 // nil = the frontend may not use the region
}

// Objective says what is minimised.
type Objective struct {
	Kind    string `yaml:"kind,omitempty" json:"kind,omitempty"`       // ObjectiveTotal (default)
	Network string `yaml:"network,omitempty" json:"network,omitempty"` // KindOneWay (default, arXiv 2504.10693) or KindRTT (what a client sees)
	Shed    *Shed  `yaml:"shed,omitempty" json:"shed,omitempty"`       // nil = every request must be served
}

// Shed allows frontends to refuse requests.
type Shed struct {
	PriceS float64 `yaml:"price" json:"price"` // what a refused request costs, in seconds of latency
}

// OneWayS is the one-way network delay from frontend i to region j in seconds,
// and whether i may use j.
func (w *World) OneWayS(i, j int) (float64, bool) {
	v := w.Latency.Matrix[i][j]
	if v == nil {
		return math.Inf(1), false
	}
	t := *v
	if w.Latency.Unit == UnitMillis {
		t /= 1000
	}
	if w.Latency.Kind == KindRTT {
		t /= 2
	}
	return t, true
}

// NetworkS is the network part of the objective from frontend i to region j in
// seconds, one-way or round trip as Objective.Network says, and whether i may
// use j.
func (w *World) NetworkS(i, j int) (float64, bool) {
	t, ok := w.OneWayS(i, j)
	if w.Objective.Network == KindRTT {
		t *= 2
	}
	return t, ok
}

// DemandHz is the arrival rate of all frontends together.
func (w *World) DemandHz() float64 {
	sum := 0.0
	for _, f := range w.Frontends {
		sum += f.RateHz
	}
	return sum
}

// Validate reports every fault of the world at once, each a *datasets.Problem
// whose Key is the path in the world file. A demand that no allocation can serve
// is a fault unless shedding is configured.
func (w *World) Validate() error {
	var p problems
	w.checkFrontends(&p)
	w.checkRegions(&p)
	w.checkLatency(&p)
	w.checkObjective(&p)
	if len(p) == 0 && w.Objective.Shed == nil {
		w.checkDemand(&p)
	}
	return errors.Join(p...)
}

// problems collects faults.
type problems []error

func (p *problems) add(key, fix, msg string, args ...any) {
	*p = append(*p, &datasets.Problem{Key: key, Msg: fmt.Sprintf(msg, args...), Fix: fix})
}

// index is the path of element i of a list.
func index(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func (w *World) checkFrontends(p *problems) {
	if len(w.Frontends) == 0 {
		p.add("frontends", "list at least one frontend with a name and a rate", "there is none")
	}
	seen := map[string]int{}
	for i, f := range w.Frontends {
		key := index("frontends", i)
		checkName(p, key, f.Name, i, seen)
		if !finite(f.RateHz) || f.RateHz < 0 {
			p.add(key+".rate", "write the requests per second, 0 or more", "%v is not a rate", f.RateHz)
		}
		checkPlace(p, key, f.Lat, f.Lon)
	}
}

func (w *World) checkRegions(p *problems) {
	if len(w.Regions) == 0 {
		p.add("regions", "list at least one region with a name and a service", "there is none")
	}
	seen := map[string]int{}
	for i, r := range w.Regions {
		key := index("regions", i)
		checkName(p, key, r.Name, i, seen)
		checkService(p, key+".service", r.Service)
		checkPlace(p, key, r.Lat, r.Lon)
	}
}

func checkName(p *problems, key, name string, i int, seen map[string]int) {
	if name == "" {
		p.add(key+".name", "give it a name", "is empty")
		return
	}
	if first, ok := seen[name]; ok {
		p.add(key+".name", "give it a name of its own", "%q is also the name of number %d", name, first)
		return
	}
	seen[name] = i
}

func checkService(p *problems, key string, s Service) {
	switch s.Kind {
	case KindHyperbolic:
	case "":
		p.add(key+".kind", "write kind: "+KindHyperbolic, "is missing")
		return
	default:
		p.add(key+".kind", "write kind: "+KindHyperbolic+" (an M/M/1 queue is that with kappa: 1)", "unknown service kind %q", s.Kind)
		return
	}
	if !finite(s.Mu) || s.Mu <= 0 {
		p.add(key+".mu", "write the greatest rate in requests per second, above 0", "%v is not a capacity", s.Mu)
	}
	if !finite(s.Kappa) || s.Kappa <= 0 {
		p.add(key+".kappa", "write the number of requests inside at half of mu, above 0", "%v is not a workload", s.Kappa)
	}
}

func checkPlace(p *problems, key string, lat, lon float64) {
	if !(math.Abs(lat) <= 90) { // written so that NaN fails too
		p.add(key+".lat", "write degrees from -90 to 90", "%v is not a latitude", lat)
	}
	if !(math.Abs(lon) <= 180) {
		p.add(key+".lon", "write degrees from -180 to 180", "%v is not a longitude", lon)
	}
}

func (w *World) checkLatency(p *problems) {
	oneOf(p, "latency.unit", w.Latency.Unit, UnitSeconds, UnitMillis)
	oneOf(p, "latency.kind", w.Latency.Kind, KindOneWay, KindRTT)
	if got, want := len(w.Latency.Matrix), len(w.Frontends); got != want {
		p.add("latency.matrix", fmt.Sprintf("write %d rows, one per frontend", want), "has %d rows", got)
	}
	for i, row := range w.Latency.Matrix {
		key := index("latency.matrix", i)
		if got, want := len(row), len(w.Regions); got != want {
			p.add(key, fmt.Sprintf("write %d values, one per region; null where it is not allowed", want), "has %d values", got)
		}
		allowed := 0
		for j, v := range row {
			if v == nil {
				continue
			}
			allowed++
			if !finite(*v) || *v < 0 {
				p.add(index(key, j), "write a time of 0 or more, or null where it is not allowed", "%v is not a latency", *v)
			}
		}
		if len(row) > 0 && allowed == 0 {
			p.add(key, "write a latency for at least one region", "%s has no allowed region", w.frontendName(i))
		}
	}
}

func (w *World) frontendName(i int) string {
	if i < len(w.Frontends) && w.Frontends[i].Name != "" {
		return "frontend " + w.Frontends[i].Name
	}
	return "the frontend"
}

func (w *World) checkObjective(p *problems) {
	if w.Objective.Kind == ObjectiveTTFT {
		p.add("objective.kind", "write kind: "+ObjectiveTotal,
			"the time to first token needs a prefill model, which the service kinds here do not have")
	} else {
		oneOf(p, "objective.kind", w.Objective.Kind, ObjectiveTotal)
	}
	oneOf(p, "objective.network", w.Objective.Network, KindOneWay, KindRTT)
	if s := w.Objective.Shed; s != nil && (!finite(s.PriceS) || s.PriceS <= 0) {
		p.add("objective.shed.price", "write what a refused request costs in seconds, above 0", "%v is not a price", s.PriceS)
	}
}

// oneOf accepts the empty string, which stands for the default.
func oneOf(p *problems, key, got string, want ...string) {
	var list strings.Builder
	for k, v := range want {
		if got == v || got == "" {
			return
		}
		if k > 0 {
			list.WriteString(" or ")
		}
		list.WriteString(v)
	}
	p.add(key, "write "+list.String(), "unknown value %q", got)
}
