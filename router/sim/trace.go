package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"strandline/datasets"
	"strandline/router"
)

// Trace is a recorded sequence of requests, in the order of time from 0.
type Trace struct {
	Name     string
	Requests []TraceRequest
}

// TraceRequest is one recorded request.
type TraceRequest struct {
	AtS    float64
	Input  int    // prompt tokens
	Output int    // generated tokens
	Key    uint64 // the first block of its prompt, where the trace has it: requests that share it share a prefix; 0 = not known
}

// mostProblems is how many faults of one file are reported.
const mostProblems = 20

// lineReader hands out the lines of a file and collects its faults.
type lineReader struct {
	name    string
	scan    *bufio.Scanner
	line    int
	faults  []error
	skipped int
}

func newLineReader(r io.Reader, name string) *lineReader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), 16<<20)
	return &lineReader{name: name, scan: s}
}

// next returns the next line without its end.
func (l *lineReader) next() ([]byte, bool) {
	if !l.scan.Scan() {
		return nil, false
	}
	l.line++
	return bytes.TrimSuffix(l.scan.Bytes(), []byte("\r")), true
}

func (l *lineReader) fault(key, msg, fix string) {
	if len(l.faults) >= mostProblems {
		l.skipped++
		return
	}
	l.faults = append(l.faults, &datasets.Problem{File: l.name, Line: l.line, Key: key, Msg: msg, Fix: fix})
}

func (l *lineReader) err() error {
	if err := l.scan.Err(); err != nil {
		l.line++
		l.fault("", err.Error(), "")
	}
	if l.skipped > 0 {
		l.faults = append(l.faults, &datasets.Problem{File: l.name, Msg: fmt.Sprintf("%d more faults", l.skipped)})
	}
	return errors.Join(l.faults...)
}

// count reads a whole number of tokens.
func (l *lineReader) count(key, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > math.MaxInt32 {
		l.fault(key, fmt.Sprintf("%q is not a number of tokens", text), "write a whole number of 0 or more")
	}
	return n
}

const azureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens"

// ReadAzure reads an AzureLLMInferenceTrace CSV (Azure/AzurePublicDataset): the
// header TIMESTAMP,ContextTokens,GeneratedTokens, then a line per request in the
// order of time. Times become seconds since the first. The error joins a
// *datasets.Problem with file and line for each fault, at most 20.
func ReadAzure(r io.Reader, name string) (*Trace, error) {
	l, t := newLineReader(r, name), &Trace{Name: name}
	head, ok := l.next()
	if !ok || string(head) != azureHeader {
		l.line = 1
		l.fault("", fmt.Sprintf("the header is %q", head), "start with "+azureHeader)
		return nil, l.err()
	}
	var first, last time.Time
	for line, ok := l.next(); ok; line, ok = l.next() {
		cells := strings.Split(string(line), ",")
		if len(cells) != 3 {
			l.fault("", fmt.Sprintf("%d cells", len(cells)), "write time, prompt tokens and generated tokens")
			continue
		}
		at, err := time.Parse("2006-01-02 15:04:05.9999999", cells[0])
		switch {
		case err != nil:
			l.fault("TIMESTAMP", fmt.Sprintf("%q is not a time", cells[0]), "write it as 2023-11-16 18:17:03.9799600")
			continue
		case first.IsZero():
			first, last = at, at
		case at.Before(last):
			l.fault("TIMESTAMP", "is before the line above", "sort the lines by time")
		}
		last = at
		t.Requests = append(t.Requests, TraceRequest{AtS: at.Sub(first).Seconds(),
			Input: l.count("ContextTokens", cells[1]), Output: l.count("GeneratedTokens", cells[2])})
	}
	return t.checked(l)
}

// checked returns the trace where it has no fault.
func (t *Trace) checked(l *lineReader) (*Trace, error) {
	if len(t.Requests) == 0 && len(l.faults) == 0 && l.scan.Err() == nil {
		l.fault("", "there is no request", "")
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	return t, nil
}

// mooncakeLine is one line of a Mooncake trace.
type mooncakeLine struct {
	Timestamp *float64 `json:"timestamp"` // ms
	Input     *int     `json:"input_length"`
	Output    *int     `json:"output_length"`
	HashIDs   []int64  `json:"hash_ids"` // of the 512-token blocks of the prompt
}

// ReadMooncake reads a Mooncake JSONL trace (kvcache-ai/Mooncake, FAST '25):
// objects with timestamp in milliseconds, input_length, output_length and
// hash_ids, in the order of time. Times become seconds since the first. Errors are
// as for ReadAzure.
func ReadMooncake(r io.Reader, name string) (*Trace, error) {
	l, t := newLineReader(r, name), &Trace{Name: name}
	firstMS, lastMS := 0.0, math.Inf(-1)
	for line, ok := l.next(); ok; line, ok = l.next() {
		var m mooncakeLine
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&m); err != nil || d.More() {
			l.fault("", "is not one object of a Mooncake trace", "write timestamp, input_length, output_length and hash_ids")
			continue
		}
		if !m.isComplete(l) {
			continue
		}
		if math.IsInf(lastMS, -1) {
			firstMS = *m.Timestamp
		}
		if *m.Timestamp < lastMS {
			l.fault("timestamp", "is before the line above", "sort the lines by time")
		}
		lastMS = *m.Timestamp
		q := TraceRequest{AtS: (*m.Timestamp - firstMS) / 1000, Input: *m.Input, Output: *m.Output}
		if len(m.HashIDs) > 0 {
			q.Key = router.SessionKey(0, int(m.HashIDs[0]))
		}
		t.Requests = append(t.Requests, q)
	}
	return t.checked(l)
}

func (m *mooncakeLine) isComplete(l *lineReader) bool {
	switch {
	case m.Timestamp == nil || !(*m.Timestamp >= 0 && *m.Timestamp < 1e15):
		l.fault("timestamp", "is missing or not a time", "write milliseconds of 0 or more")
	case m.Input == nil || *m.Input < 0 || *m.Input > math.MaxInt32:
		l.fault("input_length", "is missing or not a number of tokens", "write a whole number of 0 or more")
	case m.Output == nil || *m.Output < 0 || *m.Output > math.MaxInt32:
		l.fault("output_length", "is missing or not a number of tokens", "write a whole number of 0 or more")
	default:
		return true
	}
	return false
}

// ServeGenClient is the demand of one client: a rate and a renewal process per
// window.
type ServeGenClient struct {
	Name    string
	WindowS float64 // length of a window
	Windows []ServeGenWindow
}

// ServeGenWindow is one window of a client.
type ServeGenWindow struct {
	FromS  float64
	RateHz float64
	CV     float64 // of inter-arrival times; 0 where the client was silent
	Family GapKind // GapGamma or GapWeibull; empty where the client was silent
}

// ReadServeGen reads a chunk-*-trace.csv of ServeGen (alibaba/ServeGen): lines of
// window start in seconds, rate, coefficient of variation, family and its two
// parameters, without a header; the family is empty where the rate is 0. Windows
// must follow each other at equal distances. Errors are as for ReadAzure.
func ReadServeGen(r io.Reader, name string) (*ServeGenClient, error) {
	l, c := newLineReader(r, name), &ServeGenClient{Name: name}
	for line, ok := l.next(); ok; line, ok = l.next() {
		cells := strings.Split(string(line), ",")
		if len(cells) != 6 {
			l.fault("", fmt.Sprintf("%d cells", len(cells)), "write start, rate, cv, family and its two parameters")
			continue
		}
		w := ServeGenWindow{FromS: l.number("start", cells[0]), RateHz: l.number("rate", cells[1]), CV: l.number("cv", cells[2])}
		l.number("parameter 1", cells[4])
		l.number("parameter 2", cells[5])
		switch cells[3] {
		case "Gamma":
			w.Family = GapGamma
		case "Weibull":
			w.Family = GapWeibull
		case "":
			if w.RateHz != 0 {
				l.fault("family", "is empty where the rate is not 0", "write Gamma or Weibull")
			}
		default:
			l.fault("family", fmt.Sprintf("unknown family %q", cells[3]), "write Gamma or Weibull")
		}
		c.Windows = append(c.Windows, w)
		l.checkWindow(c)
	}
	if len(c.Windows) < 2 && len(l.faults) == 0 && l.scan.Err() == nil {
		l.fault("", fmt.Sprintf("%d windows", len(c.Windows)), "write at least two, so that their length is known")
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	return c, nil
}

func (l *lineReader) checkWindow(c *ServeGenClient) {
	n := len(c.Windows)
	if n == 2 {
		c.WindowS = c.Windows[1].FromS - c.Windows[0].FromS
	}
	if n >= 2 && !(c.WindowS > 0 && c.Windows[n-1].FromS-c.Windows[n-2].FromS == c.WindowS) {
		l.fault("start", "is not one window after the line above", "write a line for every window")
	}
	if w := c.Windows[n-1]; w.Family != "" && !(w.CV > 0) {
		l.fault("cv", "is 0 where there are arrivals", "write the coefficient of variation")
	}
}

// number reads a finite number of 0 or more.
func (l *lineReader) number(key, text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 1) {
		l.fault(key, fmt.Sprintf("%q is not a number of 0 or more", text), "")
		return 0
	}
	return v
}

// MeanHz is the mean rate of the client.
func (c *ServeGenClient) MeanHz() float64 {
	total := 0.0
	for _, w := range c.Windows {
		total += w.RateHz
	}
	return total / float64(len(c.Windows))
}

// Process is the client as demand of a frontend. Its mean rate is scaled to
// rateHz and its clock is shiftS ahead (a client pool in another time zone); the
// windows repeat. Inter-arrival times have the family that most requests come in
// and the mean coefficient of variation over requests.
func (c *ServeGenClient) Process(frontend int, rateHz, shiftS float64) Process {
	p := Process{Frontend: frontend, PeriodS: float64(len(c.Windows)) * c.WindowS}
	mean, requests, cv := c.MeanHz(), 0.0, 0.0
	family := map[GapKind]float64{}
	n := len(c.Windows)
	shift := int(math.Round(shiftS/c.WindowS)) % n
	for k := range n {
		w := c.Windows[((k+shift)%n+n)%n]
		rate := 0.0
		if mean > 0 {
			rate = w.RateHz / mean * rateHz
		}
		p.Rates = append(p.Rates, RateStep{FromS: float64(k) * c.WindowS, RateHz: rate})
		requests += w.RateHz
		cv += w.RateHz * w.CV
		family[w.Family] += w.RateHz
	}
	if requests > 0 {
		p.Gaps = Gaps{Kind: GapGamma, CV: cv / requests}
		if family[GapWeibull] > family[GapGamma] {
			p.Gaps.Kind = GapWeibull
		}
	}
	return p
}

// TokenCost turns tokens into work: Fixed + Input p + InputSquared p^2 + Output o.
// The zero value counts an output token as ten prompt tokens, since decoding is
// bound by memory and prompts are read in parallel; fit it to the engine at hand.
type TokenCost struct {
	Fixed, Input, InputSquared, Output float64
}

// prefill and decode are the two parts of the work of a request.
func (c TokenCost) work(q TraceRequest) (prefill, decode float64) {
	if c == (TokenCost{}) {
		c = TokenCost{Input: 1, Output: 10}
	}
	p := float64(q.Input)
	return c.Fixed + c.Input*p + c.InputSquared*p*p, c.Output * float64(q.Output)
}

// TraceDemand says how a trace becomes demand.
type TraceDemand struct {
	RateHz  float64   // mean rate of all frontends together; 0 = that of the trace
	Weights []float64 // by frontend: the parts of the requests that they get
	Cost    TokenCost
	Repeat  bool // begin again at the end, one mean gap after the last request
}

// Source plays the trace. The time axis is stretched or shrunk by one factor, so
// that the mean rate is RateHz and bursts keep their shape; each request enters at
// a frontend drawn in proportion to the weights, from the stream of the source, so
// that the sum over the frontends is exactly the trace. Work is the token cost over
// its mean in the trace; a request without any cost has a millionth of the mean.
func (t *Trace) Source(d TraceDemand) (Source, error) {
	n := len(t.Requests)
	total := sum(d.Weights)
	switch {
	case n < 2 || !(t.Requests[n-1].AtS > 0):
		return nil, fmt.Errorf("trace %s: too short to have a rate", t.Name)
	case !(total > 0) || math.IsInf(total, 1):
		return nil, fmt.Errorf("trace %s: no frontend has a weight", t.Name)
	case !(d.RateHz >= 0) || math.IsInf(d.RateHz, 1):
		return nil, fmt.Errorf("trace %s: %v is not a rate", t.Name, d.RateHz)
	}
	p := &player{requests: t.Requests, repeat: d.Repeat, cost: d.Cost, scale: 1}
	span := t.Requests[n-1].AtS
	p.periodS = span * float64(n) / float64(n-1)
	if d.RateHz > 0 {
		p.scale = float64(n) / p.periodS / d.RateHz
	}
	for _, q := range t.Requests {
		a, b := d.Cost.work(q)
		p.meanWork += (a + b) / float64(n)
	}
	if !(p.meanWork > 0) {
		return nil, fmt.Errorf("trace %s: no request costs anything", t.Name)
	}
	upTo := 0.0
	for _, w := range d.Weights {
		if !(w >= 0) {
			return nil, fmt.Errorf("trace %s: %v is not a weight", t.Name, w)
		}
		upTo += w / total
		p.upTo = append(p.upTo, upTo)
	}
	return p, nil
}

// player is a trace being played.
type player struct {
	requests []TraceRequest
	cost     TokenCost
	upTo     []float64 // cumulative weights
	scale    float64   // of time
	periodS  float64   // of the trace, before scaling
	meanWork float64
	repeat   bool
	next     int
	round    float64
}

func (p *player) Next(rng *rand.Rand) (Arrival, bool) {
	if p.next == len(p.requests) {
		if !p.repeat {
			return Arrival{}, false
		}
		p.next, p.round = 0, p.round+1
	}
	q := p.requests[p.next]
	p.next++
	a := Arrival{AtS: (p.round*p.periodS + q.AtS) * p.scale, Key: q.Key}
	u := rng.Float64()
	for a.Frontend < len(p.upTo)-1 && u >= p.upTo[a.Frontend] {
		a.Frontend++
	}
	if random := rng.Uint64(); a.Key == 0 {
		a.Key = random
	}
	prefill, decode := p.cost.work(q)
	work := max(prefill+decode, 1e-6*p.meanWork)
	a.Work, a.Prefill = work/p.meanWork, min(1, prefill/work)
	return a, true
}
