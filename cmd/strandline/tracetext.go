package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"strandline/datasets"
	"strandline/probe/campaign"
)

// trace is the JSON object of one target.
type trace struct {
	Target    netip.Addr     `json:"target"`
	Reached   bool           `json:"reached"`
	Proto     datasets.Proto `json:"proto"`
	Hops      []traceHop     `json:"hops"`
	Links     []traceLink    `json:"links"`
	Sent      int            `json:"probes_sent"`
	ElapsedMS float64        `json:"elapsed_ms"`
}

type traceHop struct {
	TTL   uint8           `json:"ttl"`
	Addr  *netip.Addr     `json:"addr"` // null = silent
	RTTMS datasets.Millis `json:"rtt_ms"`
}

type traceLink struct {
	From  netip.Addr `json:"from"`
	To    netip.Addr `json:"to"`
	TTL   uint8      `json:"ttl"`
	Flows uint32     `json:"flows"`
}

// traces groups the rows of a campaign by target, in the order of the samples.
func traces(r campaign.Rows) []trace {
	var out []trace
	at := func(target netip.Addr) *trace {
		i := slices.IndexFunc(out, func(t trace) bool { return t.Target == target })
		if i < 0 {
			out = append(out, trace{Target: target, Hops: []traceHop{}, Links: []traceLink{}})
			i = len(out) - 1
		}
		return &out[i]
	}
	first := map[netip.Addr]int64{}
	for _, s := range r.Samples {
		t := at(s.Target)
		if t.Sent == 0 {
			first[s.Target] = s.TxNS
		}
		t.Sent++
		t.Proto = s.Proto
		t.Reached = t.Reached || s.Outcome == datasets.OutcomeReply
		t.ElapsedMS = max(t.ElapsedMS, float64(max(s.RxNS, s.TxNS)-first[s.Target])/1e6)
	}
	for _, h := range r.Hops {
		hop := traceHop{TTL: h.TTL, RTTMS: h.RTTMS}
		if h.Addr.IsValid() {
			hop.Addr = &h.Addr
		}
		t := at(h.Target)
		t.Hops = append(t.Hops, hop)
	}
	for _, l := range r.Links {
		t := at(l.Target)
		t.Links = append(t.Links, traceLink{l.From, l.To, l.TTL, l.Flows})
	}
	return out
}

func renderTraces(a *app, r campaign.Rows, targets []datasets.Target) error {
	if a.format == "csv" {
		return renderRows(a, inOrder(r.Hops, targets, func(h datasets.Hop) netip.Addr { return h.Target }), nil)
	}
	for _, t := range inOrder(traces(r), targets, func(t trace) netip.Addr { return t.Target }) {
		if a.format == "json" {
			if err := renderOne(a.stdout, t); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprint(a.stdout, t.text()); err != nil {
			return err
		}
	}
	return nil
}

// text draws a trace for people: verdict first.
func (t trace) text() string {
	var b strings.Builder
	verdict := "not reached"
	if t.Reached {
		verdict = "reached"
	}
	fmt.Fprintf(&b, "%s %s over %s, %s, %s\n", t.Target, verdict, t.Proto, plural(len(t.Hops), "hop"), plural(t.Sent, "probe"))
	width := 1
	for _, h := range t.Hops {
		width = max(width, len(h.text()))
	}
	for _, h := range t.Hops {
		fmt.Fprintf(&b, "  %2d  %-*s  %10s ms\n", h.TTL, width, h.text(), ms(h.RTTMS))
	}
	return b.String()
}

// text is the address of a hop, a star for one that stayed silent.
func (h traceHop) text() string {
	if h.Addr == nil {
		return "*"
	}
	return h.Addr.String()
}
