package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"strandline/analysis"
	"strandline/datasets"
	"strandline/probe"
	"strandline/probe/campaign"
)

// paths is the JSON object of one target.
type paths struct {
	Target     netip.Addr      `json:"target"`
	Reached    bool            `json:"reached"`
	Proto      datasets.Proto  `json:"proto"`
	Hops       []traceHop      `json:"hops"`
	Links      []traceLink     `json:"links"`
	Balancers  []pathsBalancer `json:"balancers"`
	Probes     pathsProbes     `json:"probes"`
	Sent       int             `json:"probes_sent"`
	Confidence float64         `json:"confidence"`
	ElapsedMS  float64         `json:"elapsed_ms"`
	Notes      []analysis.Note `json:"notes,omitempty"`

	rows []datasets.Balancer
}

type pathsBalancer struct {
	Addr     netip.Addr       `json:"addr"`
	TTL      uint8            `json:"ttl"`
	Class    datasets.Class   `json:"class"`
	Fields   []datasets.Field `json:"fields"`
	Width    uint32           `json:"width"`
	MinShare float64          `json:"min_share"`
}

type pathsProbes struct {
	Discovery int `json:"discovery"`
	Class     int `json:"class"`
	Fields    int `json:"fields"`
}

// newPaths shows one graph with what the samples and the other targets add.
func newPaths(g analysis.Graph, r campaign.Rows) paths {
	p := paths{
		Target: g.Target, Reached: g.Reached, Proto: g.Proto, Confidence: g.Confidence, Notes: g.Notes,
		Hops: addressesOf(g.Hops), Links: []traceLink{}, Balancers: []pathsBalancer{},
		Probes: pathsProbes{g.Probes.Discovery, g.Probes.Class, g.Probes.Fields}, Sent: g.Probes.Total(),
	}
	for _, l := range g.Links {
		p.Links = append(p.Links, traceLink{l.From, l.To, l.TTL, l.Flows})
	}
	for _, b := range r.Balancers {
		if b.Target == g.Target {
			fields := append([]datasets.Field{}, b.Fields...)
			p.Balancers = append(p.Balancers, pathsBalancer{b.Addr, b.TTL, b.Class, fields, b.Width, b.MinShare})
			p.rows = append(p.rows, b)
		}
	}
	first := int64(0)
	for _, s := range r.Samples {
		if s.Target != g.Target {
			continue
		}
		if first == 0 {
			first = s.TxNS
		}
		first = min(first, s.TxNS)
		p.ElapsedMS = max(p.ElapsedMS, float64(max(s.RxNS, s.TxNS)-first)/1e6)
	}
	return p
}

// addressesOf returns each address of each TTL once, with its smallest round
// trip, and a silent hop where a TTL has none.
func addressesOf(rows []datasets.Hop) []traceHop {
	out := []traceHop{}
	answered := map[uint8]bool{}
	for _, r := range rows {
		answered[r.TTL] = answered[r.TTL] || r.Addr.IsValid()
	}
	for _, r := range rows {
		if !r.Addr.IsValid() && answered[r.TTL] {
			continue
		}
		i := slices.IndexFunc(out, func(h traceHop) bool {
			return h.TTL == r.TTL && (h.Addr == nil || *h.Addr == r.Addr)
		})
		switch {
		case i < 0 && r.Addr.IsValid():
			out = append(out, traceHop{TTL: r.TTL, Addr: &r.Addr, RTTMS: r.RTTMS})
		case i < 0:
			out = append(out, traceHop{TTL: r.TTL, RTTMS: r.RTTMS})
		case r.RTTMS < out[i].RTTMS:
			out[i].RTTMS = r.RTTMS
		}
	}
	slices.SortStableFunc(out, func(a, b traceHop) int {
		if a.Addr == nil || b.Addr == nil || a.TTL != b.TTL {
			return cmp.Compare(a.TTL, b.TTL)
		}
		return a.Addr.Compare(*b.Addr)
	})
	return out
}

func renderPaths(a *app, r campaign.Rows, explain bool) error {
	if a.format == "csv" {
		return renderRows[datasets.Link](a, r.Links, nil)
	}
	for _, g := range r.Graphs {
		p := newPaths(g, r)
		if a.format == "json" {
			if err := renderOne(a.stdout, p); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprint(a.stdout, p.text(explain)); err != nil {
			return err
		}
	}
	return nil
}

// text is the verdict, then the drawing.
func (p paths) text(explain bool) string {
	var b strings.Builder
	reached := "not reached"
	if p.Reached {
		reached = "reached"
	}
	fmt.Fprintf(&b, "%s %s over %s, %s, %s, %s, %s\n", p.Target, reached, p.Proto, p.promise(),
		plural(len(p.Balancers), "balancer"), plural(len(p.Links), "link"), plural(p.Sent, "probe"))
	for _, l := range p.rows {
		fmt.Fprintf(&b, "  %s\n", balancerText(l))
		if explain {
			fmt.Fprintf(&b, "    %s\n", evidence(l))
		}
	}
	for _, n := range p.Notes {
		if explain || n.Kind != analysis.NoteUnequal {
			fmt.Fprintf(&b, "  note: %s\n", n.Text)
		}
	}
	if p.Proto == datasets.ProtoICMP && len(p.Balancers) == 0 {
		b.WriteString("  note: balancers that hash ports send all echoes one way; --proto udp shows them\n")
	}
	if explain {
		fmt.Fprintf(&b, "  probes: %d to find hops and links, %d to class balancers, %d to test fields\n", p.Probes.Discovery, p.Probes.Class, p.Probes.Fields)
	}
	b.WriteString(p.drawing())
	return b.String()
}

func (p paths) promise() string {
	if p.Confidence == 0 {
		return "inconclusive"
	}
	return fmt.Sprintf("complete with %g %% confidence", p.Confidence)
}

func balancerText(l datasets.Balancer) string {
	text := fmt.Sprintf("TTL %d %s balances %s over %d next hops", l.TTL, l.Addr, l.Class, l.Width)
	if len(l.Fields) > 0 {
		var names []string
		for _, f := range l.Fields {
			names = append(names, string(f))
		}
		text += ", by " + strings.Join(names, ", ")
	}
	if l.Class == datasets.PerDestination {
		return text
	}
	return text + fmt.Sprintf("; a further one gets less than %.0f %%", 100*l.MinShare)
}

// evidence says why a balancer has its class.
func evidence(l datasets.Balancer) string {
	switch l.Class {
	case datasets.PerFlow:
		return fmt.Sprintf("%d flows parted, and repeats of a flow always went the same way: %.3g %% sure", l.Probes, l.Confidence)
	case datasets.PerPacket:
		return fmt.Sprintf("packets of one flow went to and fro between next hops: %.3g %% sure", l.Confidence)
	case datasets.PerDestination:
		return "all flows to one address went one way, and those to another address of its network another"
	}
	return "too few answers to tell how it chooses"
}

// drawing shows the hops by TTL, and from each balancer's hop where it leads:
//
//	1  198.51.100.1        0.412 ms  -+> 2a 2b
//	2a 203.0.113.1         1.020 ms  --> 3
//	2b 203.0.113.5         1.120 ms  --> 3
func (p paths) drawing() string {
	names := map[visitedHop]string{}
	count := map[uint8]int{}
	for _, h := range p.Hops {
		count[h.TTL]++
	}
	seen := map[uint8]int{}
	width := 1
	for _, h := range p.Hops {
		name := fmt.Sprint(h.TTL)
		if count[h.TTL] > 1 {
			name += letters(seen[h.TTL])
		}
		seen[h.TTL]++
		if h.Addr != nil {
			names[visitedHop{h.TTL, *h.Addr}] = name
		}
		width = max(width, len(h.text()))
	}
	var b strings.Builder
	clear(seen)
	for _, h := range p.Hops {
		name := fmt.Sprintf("%2d", h.TTL)
		if count[h.TTL] > 1 {
			name += letters(seen[h.TTL])
		}
		seen[h.TTL]++
		line := fmt.Sprintf("  %-5s %-*s  %10s ms  %s", name, width, h.text(), ms(h.RTTMS), p.onward(h, names))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

type visitedHop struct {
	ttl  uint8
	addr netip.Addr
}

// onward names the hops that links lead to.
func (p paths) onward(h traceHop, names map[visitedHop]string) string {
	var to []string
	for _, l := range p.Links {
		if h.Addr != nil && l.From == *h.Addr && l.TTL == h.TTL {
			to = append(to, names[visitedHop{l.TTL + 1, l.To}])
		}
	}
	switch len(to) {
	case 0:
		return ""
	case 1:
		return "--> " + to[0]
	}
	return "-+> " + strings.Join(to, " ")
}

// letters numbers the hops of one TTL: a to z, then aa and so on.
func letters(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return letters(i/26-1) + letters(i%26)
}

// otherCommand is what another tool is called with for the like.
func otherCommand(tool string, t datasets.Target, o probe.PathsOptions) (string, error) {
	switch tool {
	case "scamper":
		method := "udp-sport"
		if o.Proto == datasets.ProtoICMP {
			method = "icmp-echo"
		}
		confidence := 95
		if o.Confidence > 95 {
			confidence = 99 // it knows these two, for each router by itself
		}
		return fmt.Sprintf(`scamper -O warts -o paths.warts -c "tracelb -P %s -c %d -d %d -f %d -g %d -Q %d" -i %s`,
			method, confidence, o.Dport, o.FirstTTL, o.GapLimit, o.MaxProbes, t.Addr), nil
	case "dublin-traceroute":
		if o.Proto == datasets.ProtoICMP || t.Addr.Is6() {
			return "", usagef("--print-command dublin-traceroute: it sends UDP over IPv4 only")
		}
		const flows = 20 // it has no stopping rule
		return fmt.Sprintf("dublin-traceroute -n %d -d %d -t %d -T %d %s", flows, o.Dport, o.FirstTTL, o.MaxTTL, t.Addr), nil
	}
	return "", usagef("--print-command %q: write scamper or dublin-traceroute", tool)
}
