package router

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Explanation is why one client gets one answer. Scalars that are not finite do
// not occur in it.
type Explanation struct {
	Name     string       `json:"name"`
	Client   netip.Prefix `json:"client"`
	Matched  netip.Prefix `json:"matched,omitzero"` // absent = no line of the client map, so the default frontend
	Frontend string       `json:"frontend"`
	Scope    int          `json:"scope"`
	Key      netip.Prefix `json:"key,omitzero"`
	Hash     string       `json:"hash"` // 16 hexadecimal digits

	Regions    []ExplainedRegion `json:"regions"` // every allowed region, in the order of the world
	Excluded   []ExcludedRegion  `json:"excluded,omitempty"`
	Candidates []string          `json:"candidates"` // best first
	Region     string            `json:"region"`     // the answer
	Usable     bool              `json:"usable"`     // false = every allowed region is down
	Why        string            `json:"why"`

	Epoch      uint64   `json:"epoch"`
	Gap        *float64 `json:"gap"` // null where the plan is overloaded and has no certificate
	Overloaded bool     `json:"overloaded,omitempty"`
	ShedShare  float64  `json:"shed_share"`
	Down       []string `json:"down"`
}

// ExplainedRegion is one region as the client's frontend sees it.
type ExplainedRegion struct {
	Name      string  `json:"name"`
	Share     float64 `json:"share"`
	PriceS    float64 `json:"price_s"`
	LatencyMS float64 `json:"latency_ms"` // network part as the objective counts it
	CostMS    float64 `json:"cost_ms"`    // price and latency together, with money where it counts: what the optimum equalises
	Down      bool    `json:"down,omitempty"`
}

// ExcludedRegion is a region that the client's frontend may not use, for all
// classes of requests.
type ExcludedRegion struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Explain says how the table answers a client that asks for name (lower case).
func (t *Table) Explain(name string, client netip.Prefix) Explanation {
	m := t.Lookup(client)
	h := Hash(name, m.Key)
	j, ok := t.Pick(m.Frontend, h)
	e := Explanation{
		Name: name, Client: client, Matched: m.Entry, Frontend: t.FrontendName(m.Frontend),
		Scope: m.Scope, Key: m.Key, Hash: fmt.Sprintf("%016x", h),
		Regions: t.explainRegions(m.Frontend), Region: t.RegionName(j), Usable: ok,
		Epoch: t.epoch, Overloaded: t.plan.Overloaded, ShedShare: t.ShedShare(m.Frontend), Down: t.DownNames(),
	}
	e.Excluded = t.explainExcluded(m.Frontend)
	if finite(t.plan.Gap) {
		e.Gap = &t.plan.Gap
	}
	for _, c := range t.Order(m.Frontend, h, nil) {
		e.Candidates = append(e.Candidates, t.RegionName(c))
	}
	e.Why = t.whyFrontend(m) + "; " + t.whyRegion(m, j)
	return e
}

func (t *Table) explainRegions(i int) []ExplainedRegion {
	var out []ExplainedRegion
	for j := range t.world.Regions {
		c, ok := t.world.NetworkS(i, j)
		if !ok {
			continue
		}
		out = append(out, ExplainedRegion{
			Name: t.RegionName(j), Share: t.plan.Frontends[i].Shares[j], PriceS: t.plan.Regions[j].PriceS,
			LatencyMS: 1000 * c, CostMS: 1000 * t.costS(i, j), Down: t.down[j],
		})
	}
	return out
}

func (t *Table) explainExcluded(i int) []ExcludedRegion {
	var out []ExcludedRegion
	for j := range t.world.Regions {
		if reason := t.world.Excluded(i, j); reason != "" {
			out = append(out, ExcludedRegion{t.RegionName(j), reason})
		}
	}
	return out
}

func (t *Table) whyFrontend(m Match) string {
	if !m.Entry.IsValid() {
		return "no line of the client map covers the client, so it belongs to the default frontend " + t.FrontendName(m.Frontend)
	}
	return fmt.Sprintf("%v belongs to frontend %s", m.Entry, t.FrontendName(m.Frontend))
}

func (t *Table) whyRegion(m Match, j int) string {
	c := &t.choices[m.Frontend]
	region := t.RegionName(j)
	switch {
	case c.isSplit():
		return fmt.Sprintf("its shares are %s, and the hash of %v falls to %s", c.shareText(t), m.Key, region)
	case len(c.weighted) == 1:
		return "all that it sends goes to " + region
	case len(c.spare) > 0 && len(c.down) > 0:
		return fmt.Sprintf("the regions with a share are down, and %s is the cheapest of the others", region)
	case len(c.spare) > 0:
		return fmt.Sprintf("the plan refuses all its requests, and %s is the cheapest region for one that must be answered", region)
	}
	return fmt.Sprintf("every region that it may use is down, and %s is the best of those", region)
}

// shareText lists the shares that the choice is made by, in percent of what is
// not down.
func (c *choice) shareText(t *Table) string {
	sum := 0.0
	for _, k := range c.weighted {
		sum += k.weight
	}
	var parts []string
	for _, k := range c.weighted {
		parts = append(parts, t.RegionName(k.region)+" "+strconv.FormatFloat(100*k.weight/sum, 'f', 1, 64)+" %")
	}
	return strings.Join(parts, ", ")
}
