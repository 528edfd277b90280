package analysis

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"strandline/datasets"
)

// Hops returns what the samples of Paris traces say about each TTL of each flow,
// up to where the flow reached its target or was refused: one row per address
// that answered, with its smallest round trip, or one row without an address
// where nothing did. Probes counts all probes of that flow and TTL. The rows are
// in the order of vantage, target, protocol, flow, TTL and address; the order of
// the samples does not matter.
//
// Flow numbers the flows of one vantage, target and protocol from 0, in the order
// of their header fields. Samples that are not of traces, such as pings, look
// like flows of a single TTL: leave them out.
func Hops(samples []datasets.Sample) []datasets.Hop {
	var rows []datasets.Hop
	for _, f := range flowsOf(samples) {
		for _, ttl := range f.path {
			rows = append(rows, f.hops(ttl)...)
		}
	}
	return rows
}

// Links returns the pairs of addresses that one and the same flow passed at
// consecutive TTLs, with the number of flows that did. The target counts as an
// address. The rows are in the order of vantage, target, TTL and addresses.
//
// Nothing is inferred: no link is drawn across a silent TTL; none where one flow
// saw several addresses at a TTL, since which of them follows which is not known
// (per-packet balancing, or a change of route); none to whoever refused a probe,
// since it may stand nearer than that TTL; and none from an address to itself. An
// address that answers at two TTLs because its predecessor forwarded a packet of
// TTL 0 (Augustin et al., IMC 2006; the quoted TTL tells) counts at the second
// only.
func Links(samples []datasets.Sample) []datasets.Link {
	flows := make(map[datasets.Link]uint32) // by the link with Flows 0
	for _, f := range flowsOf(samples) {
		for i := range len(f.path) - 1 {
			from, okFrom := f.sure(i)
			to, okTo := f.sure(i + 1)
			if okFrom && okTo && from != to && f.path[i].ttl+1 == f.path[i+1].ttl {
				flows[datasets.Link{Vantage: f.vantage, Target: f.target, From: from, To: to, TTL: f.path[i].ttl}]++
			}
		}
	}
	rows := make([]datasets.Link, 0, len(flows))
	for l, n := range flows {
		l.Flows = n
		rows = append(rows, l)
	}
	slices.SortFunc(rows, func(a, b datasets.Link) int {
		return cmp.Or(strings.Compare(a.Vantage, b.Vantage), a.Target.Compare(b.Target), cmp.Compare(a.TTL, b.TTL),
			a.From.Compare(b.From), a.To.Compare(b.To))
	})
	return rows
}

// flowKey is everything in a probe that a balancer may hash.
type flowKey struct {
	seriesKey
	src            netip.Addr
	sport, dport   uint16
	icmpID, icmpCk uint16
	label          uint32
	tos            uint8
}

func flowKeyOf(s datasets.Sample) flowKey {
	return flowKey{keyOf(s), s.Src, s.Sport, s.Dport, s.ICMPID, s.ICMPSum, s.FlowLabel, s.TOS}
}

func (a flowKey) compare(b flowKey) int {
	return cmp.Or(
		strings.Compare(a.vantage, b.vantage), a.target.Compare(b.target), cmp.Compare(a.proto, b.proto),
		a.src.Compare(b.src), cmp.Compare(a.sport, b.sport), cmp.Compare(a.dport, b.dport),
		cmp.Compare(a.icmpID, b.icmpID), cmp.Compare(a.icmpCk, b.icmpCk),
		cmp.Compare(a.label, b.label), cmp.Compare(a.tos, b.tos))
}

// flowPath is what one flow saw.
type flowPath struct {
	flowKey
	number uint32 // among the flows of its vantage, target and protocol
	path   []ttlAnswers
}

// ttlAnswers are the samples of one flow and TTL, sorted by who answered.
type ttlAnswers struct {
	ttl     uint8
	samples []datasets.Sample
}

// flowsOf sorts samples into flows and these into TTLs, up to the end of each
// path. It leaves out what was never sent.
func flowsOf(samples []datasets.Sample) []flowPath {
	sorted := slices.DeleteFunc(slices.Clone(samples), func(s datasets.Sample) bool {
		return s.Outcome == datasets.OutcomeSendError
	})
	slices.SortFunc(sorted, func(a, b datasets.Sample) int {
		return cmp.Or(flowKeyOf(a).compare(flowKeyOf(b)), cmp.Compare(a.TTL, b.TTL), a.From.Compare(b.From),
			cmp.Compare(a.QuotedTTL, b.QuotedTTL))
	})
	var flows []flowPath
	for len(sorted) > 0 {
		key := flowKeyOf(sorted[0])
		n := runLength(sorted, func(s datasets.Sample) bool { return flowKeyOf(s) == key })
		f := flowPath{flowKey: key, path: pathOf(sorted[:n])}
		if k := len(flows); k > 0 && flows[k-1].seriesKey == key.seriesKey {
			f.number = flows[k-1].number + 1
		}
		flows = append(flows, f)
		sorted = sorted[n:]
	}
	return flows
}

// runLength counts the samples at the start of s that belong.
func runLength(s []datasets.Sample, belongs func(datasets.Sample) bool) int {
	if i := slices.IndexFunc(s, func(s datasets.Sample) bool { return !belongs(s) }); i >= 0 {
		return i
	}
	return len(s)
}

// pathOf cuts one flow's samples, sorted by TTL, into TTLs. The path ends where
// the target replied or anybody refused: probes beyond met the same fate.
func pathOf(sorted []datasets.Sample) []ttlAnswers {
	var path []ttlAnswers
	for len(sorted) > 0 {
		at := ttlAnswers{ttl: sorted[0].TTL}
		n := runLength(sorted, func(s datasets.Sample) bool { return s.TTL == at.ttl })
		at.samples, sorted = sorted[:n], sorted[n:]
		path = append(path, at)
		if slices.ContainsFunc(at.samples, endsPath) {
			break
		}
	}
	return path
}

// endsPath reports whether no larger TTL gets further than s did.
func endsPath(s datasets.Sample) bool {
	return s.Outcome == datasets.OutcomeReply || s.Outcome == datasets.OutcomeUnreachable
}

// hops returns the rows of one TTL.
func (f *flowPath) hops(at ttlAnswers) []datasets.Hop {
	silent := datasets.Hop{Vantage: f.vantage, Target: f.target, Proto: f.proto, Flow: f.number, TTL: at.ttl,
		RTTMS: datasets.NoEstimate(), Probes: uint32(len(at.samples))}
	var rows []datasets.Hop
	for _, s := range at.samples {
		if !s.Outcome.Answered() {
			continue
		}
		if k := len(rows); k == 0 || rows[k-1].Addr != s.From {
			row := silent
			row.Addr, row.RTTMS = s.From, millis(float64(s.RTTNS))
			rows = append(rows, row)
		}
		row := &rows[len(rows)-1]
		row.RTTMS = min(row.RTTMS, millis(float64(s.RTTNS)))
		row.Replies++
	}
	if rows == nil {
		return []datasets.Hop{silent}
	}
	return rows
}

// sure returns the one address that stands at the i-th TTL of the path, if that
// is certain.
func (f *flowPath) sure(i int) (netip.Addr, bool) {
	addr, quotedTTL, ok := f.path[i].only()
	if !ok || i+1 == len(f.path) || quotedTTL != 0 || f.path[i+1].ttl != f.path[i].ttl+1 {
		return addr, ok
	}
	next, nextQuotedTTL, ok := f.path[i+1].only()
	return addr, !(ok && next == addr && nextQuotedTTL > 0) // else it stands one further
}

// only returns the address that answered and the TTL it quoted, if it was one,
// and not to refuse the probe.
func (at ttlAnswers) only() (addr netip.Addr, quotedTTL uint8, ok bool) {
	for _, s := range at.samples {
		switch {
		case !s.Outcome.Answered():
			continue
		case s.Outcome == datasets.OutcomeUnreachable && !fromTarget(s), addr.IsValid() && s.From != addr:
			return addr, 0, false
		}
		addr, quotedTTL = s.From, s.QuotedTTL
	}
	return addr, quotedTTL, addr.IsValid()
}
