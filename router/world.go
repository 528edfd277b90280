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
	Classes   []Class    `yaml:"classes,omitempty" json:"classes,omitempty"` // none = all requests are alike
	Latency   Latency    `yaml:"latency" json:"latency"`
	Objective Objective  `yaml:"objective,omitempty" json:"objective,omitzero"`
}

// Frontend is where requests enter, with the requests per second that do. Where
// the world has classes, those hold the rates, and RateHz is 0 or their sum.
type Frontend struct {
	Name      string   `yaml:"name" json:"name"`
	RateHz    float64  `yaml:"rate" json:"rate"`
	Lat       float64  `yaml:"lat,omitempty" json:"lat,omitempty"`
	Lon       float64  `yaml:"lon,omitempty" json:"lon,omitempty"`
	Residency []string `yaml:"residency,omitempty" json:"residency,omitempty"` // the zones that may serve it; none = any
}

// Region is a place that serves requests, with its service-rate function.
type Region struct {
	Name      string   `yaml:"name" json:"name"`
	Service   Service  `yaml:"service" json:"service"`
	Lat       float64  `yaml:"lat,omitempty" json:"lat,omitempty"`
	Lon       float64  `yaml:"lon,omitempty" json:"lon,omitempty"`
	MaxRateHz float64  `yaml:"max_rate,omitempty" json:"max_rate,omitempty"` // no plan sends more, requests/s; 0 = what the service can do
	Zone      string   `yaml:"zone,omitempty" json:"zone,omitempty"`         // what residency rules name
	Price     *Price   `yaml:"price,omitempty" json:"price,omitempty"`       // nil = free
	Prefill   *Service `yaml:"prefill,omitempty" json:"prefill,omitempty"`   // queue and prefill alone, up to the first token; for ObjectiveTTFT
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

// DemandHz is the arrival rate of all frontends together.
func (w *World) DemandHz() float64 {
	sum := 0.0
	for i := range w.Frontends {
		sum += w.ArrivingHz(i)
	}
	return sum
}

// ArrivingHz is the arrival rate at frontend i, all classes together.
func (w *World) ArrivingHz(i int) float64 {
	f := w.Frontends[i]
	if len(w.Classes) == 0 {
		return f.RateHz
	}
	sum := 0.0
	for _, c := range w.Classes {
		sum += c.Rates[f.Name]
	}
	return sum
}

// Validate reports every fault of the world at once, each a *datasets.Problem
// whose Key is the path in the world file. A demand that no allocation can serve
// is a fault unless shedding is configured.
func (w *World) Validate() error {
	_, err := w.problem()
	return err
}

// problem is the world as the solver sees it, or its faults.
func (w *World) problem() (*problem, error) {
	var p problems
	w.checkFrontends(&p)
	w.checkRegions(&p)
	w.checkClasses(&p)
	w.checkLatency(&p)
	w.checkObjective(&p)
	if len(p) > 0 {
		return nil, errors.Join(p...)
	}
	q := newProblem(w)
	q.checkArcs(&p)
	if len(p) == 0 && !q.mayShed() {
		q.checkDemand(&p)
	}
	return q, errors.Join(p...)
}

// problems collects faults.
type problems []error

func (p *problems) add(key, fix, msg string, args ...any) {
	*p = append(*p, &datasets.Problem{Key: key, Msg: fmt.Sprintf(msg, args...), Fix: fix})
}

// index is the path of element i of a list.
func index(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// What a world may hold: no system is outside, and inside the solver's numbers
// keep their digits.
const (
	largest      = 1e9  // of rates, workloads, prices and the like
	smallest     = 1e-9 // of what must be above 0
	largestTimeS = 1e5  // of latencies
)

// within accepts 0 to largest, positive accepts smallest to largest.
func within(v float64) bool   { return v >= 0 && v <= largest }
func positive(v float64) bool { return v >= smallest && v <= largest }

const (
	positiveFix = ", 1e-9 to 1e9"
	withinFix   = ", 0 to 1e9"
)

func (w *World) checkFrontends(p *problems) {
	if len(w.Frontends) == 0 {
		p.add("frontends", "list at least one frontend with a name and a rate", "there is none")
	}
	seen := map[string]int{}
	for i, f := range w.Frontends {
		key := index("frontends", i)
		checkName(p, key, f.Name, i, seen)
		switch sum := w.ArrivingHz(i); {
		case !within(f.RateHz):
			p.add(key+".rate", "write the requests per second"+withinFix, "%v is not a rate", f.RateHz)
		case f.RateHz != 0 && math.Abs(f.RateHz-sum) > 1e-9*sum:
			p.add(key+".rate", "write 0, or that sum", "%v is not the sum %v of the rates of its classes", f.RateHz, sum)
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
		w.checkRegion(p, key, r)
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
	scale := 1.0 // to seconds
	if w.Latency.Unit == UnitMillis {
		scale = 1e-3
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
			if !(*v >= 0 && *v*scale <= largestTimeS) {
				p.add(index(key, j), "write a time from 0 to a day, or null where it is not allowed", "%v is not a latency", *v)
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
