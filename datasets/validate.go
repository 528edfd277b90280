package datasets

import (
	"errors"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Row is any of the row types. Kind is the word for one of them ("sample"),
// which also names the file of a data set. Validate reports every value that
// no measurement can have, as *Problem with Key set, joined.
type Row interface {
	Vantage | Frontend | Region | Target | Sample | Hop | Link | Balancer | Catchment | Latency | Allocation
	Kind() string
	Validate() error
}

// Kind returns "vantage".
func (Vantage) Kind() string { return "vantage" }

// Kind returns "frontend".
func (Frontend) Kind() string { return "frontend" }

// Kind returns "region".
func (Region) Kind() string { return "region" }

// Kind returns "target".
func (Target) Kind() string { return "target" }

// Kind returns "sample".
func (Sample) Kind() string { return "sample" }

// Kind returns "hop".
func (Hop) Kind() string { return "hop" }

// Kind returns "link".
func (Link) Kind() string { return "link" }

// Kind returns "balancer".
func (Balancer) Kind() string { return "balancer" }

// Kind returns "catchment".
func (Catchment) Kind() string { return "catchment" }

// Kind returns "latency".
func (Latency) Kind() string { return "latency" }

// Kind returns "allocation".
func (Allocation) Kind() string { return "allocation" }

// Validate requires a name and a place; Addr6 must be IPv6 where it is set.
func (r Vantage) Validate() error {
	var c checker
	c.name("name", r.Name)
	c.optionalAddr("addr", r.Addr)
	c.optionalAddr("addr6", r.Addr6)
	if r.Addr6.Is4() {
		c.fail("addr6", r.Addr6.String()+" is not an IPv6 address", "write it as addr")
	}
	c.place(r.Lat, r.Lon)
	c.text("city", r.City)
	c.text("country", r.Country)
	for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
		c.name("labels", k)
		c.text("labels."+k, r.Labels[k])
	}
	return c.err()
}

// Validate requires a name, a place and a rate that is not negative.
func (r Frontend) Validate() error {
	var c checker
	c.name("name", r.Name)
	c.place(r.Lat, r.Lon)
	c.amount("rate_hz", r.RateHz)
	return c.err()
}

// Validate requires a name, a place and valid addresses.
func (r Region) Validate() error {
	var c checker
	c.name("name", r.Name)
	c.place(r.Lat, r.Lon)
	for i, a := range r.Addrs {
		if !plain(a) {
			c.addr("addrs["+strconv.Itoa(i)+"]", a)
		}
	}
	return c.err()
}

// Validate requires a valid address.
func (r Target) Validate() error {
	var c checker
	c.addr("addr", r.Addr)
	c.text("name", r.Name)
	c.text("region", r.Region)
	return c.err()
}

// Validate checks that the fields agree with the outcome and the protocol: what
// describes an answer is set when one arrived and zero otherwise, and the round
// trip is exactly the difference of the two times.
func (r Sample) Validate() error {
	var c checker
	c.name("vantage", r.Vantage)
	c.addr("target", r.Target)
	oneOf(&c, "proto", r.Proto, ProtoICMP, ProtoUDP, ProtoTCP, ProtoDNS)
	oneOf(&c, "outcome", r.Outcome,
		OutcomeReply, OutcomeTimeout, OutcomeTTLExceeded, OutcomeUnreachable, OutcomeSendError)
	r.checkFlow(&c)
	if r.TTL == 0 {
		c.fail("ttl", "0 never leaves the host", "write 1 to 255")
	}
	if r.TxNS < 0 {
		c.fail("tx_ns", "before 1970", "")
	}
	if r.Outcome.Answered() {
		r.checkAnswer(&c)
	} else {
		r.checkSilence(&c)
	}
	return c.err()
}

// checkFlow checks the fields that a balancer may hash.
func (r Sample) checkFlow(c *checker) {
	if r.Outcome == OutcomeSendError { // we may have had no address to send from
		c.optionalAddr("src", r.Src)
	} else {
		c.addr("src", r.Src)
	}
	if r.Src.IsValid() && r.Src.Is4() != r.Target.Is4() {
		c.fail("src", "not of the target's address family", "")
	}
	if r.Proto == ProtoICMP {
		c.zero("sport", int64(r.Sport), "for icmp, which has no ports")
		c.zero("dport", int64(r.Dport), "for icmp, which has no ports")
	} else {
		c.zero("icmp_id", int64(r.ICMPID), "unless proto is icmp")
		c.zero("icmp_checksum", int64(r.ICMPSum), "unless proto is icmp")
	}
	if r.Target.Is4() {
		c.zero("flow_label", int64(r.FlowLabel), "for IPv4")
	} else if r.FlowLabel > 0xfffff {
		c.fail("flow_label", "more than 20 bits (RFC 8200 section 3)", "write at most 1048575")
	}
}

// checkAnswer checks a sample for which something arrived.
func (r Sample) checkAnswer(c *checker) {
	c.addr("from", r.From)
	if r.From.IsValid() && r.From.Is4() != r.Target.Is4() {
		c.fail("from", "not of the target's address family", "")
	}
	if r.RTTNS < 0 {
		c.fail("rtt_ns", "negative", "")
	}
	if r.RxNS-r.TxNS != r.RTTNS {
		c.fail("rtt_ns", strconv.FormatInt(r.RTTNS, 10)+" is not rx_ns - tx_ns",
			"write "+strconv.FormatInt(r.RxNS-r.TxNS, 10))
	}
	oneOf(c, "stamp", r.Stamp, StampHardware, StampKernel, StampUser, StampSim)
	if r.Proto == ProtoICMP && r.Outcome == OutcomeReply {
		c.zero("quoted_ttl", int64(r.QuotedTTL), "for an echo reply, which quotes nothing")
	}
}

// checkSilence checks a sample for which nothing arrived.
func (r Sample) checkSilence(c *checker) {
	const why = "when nothing arrived"
	c.zero("rx_ns", r.RxNS, why)
	c.zero("rtt_ns", r.RTTNS, why)
	c.zero("reply_ttl", int64(r.ReplyTTL), why)
	c.zero("quoted_ttl", int64(r.QuotedTTL), why)
	c.zero("icmp_type", int64(r.ICMPType), why)
	c.zero("icmp_code", int64(r.ICMPCode), why)
	if r.From.IsValid() {
		c.fail("from", "must be absent "+why, "")
	}
	if r.Stamp != "" {
		oneOf(c, "stamp", r.Stamp, StampHardware, StampKernel, StampUser, StampSim)
	}
}

// Validate requires that an address and a time go with replies, and neither with silence.
func (r Hop) Validate() error {
	var c checker
	c.name("vantage", r.Vantage)
	c.addr("target", r.Target)
	oneOf(&c, "proto", r.Proto, ProtoICMP, ProtoUDP, ProtoTCP, ProtoDNS)
	c.ttl(r.TTL)
	c.millis("rtt_ms", r.RTTMS)
	if r.Probes == 0 {
		c.fail("probes", "0", "a hop nobody asked for has no row")
	}
	if r.Replies > r.Probes {
		c.fail("replies", "more than probes", "")
	}
	if r.Replies > 0 {
		c.addr("addr", r.Addr)
		return c.err()
	}
	if r.Addr.IsValid() {
		c.fail("addr", "set, but there was no reply", "")
	}
	if r.RTTMS.Known() {
		c.fail("rtt_ms", "set, but there was no reply", "write null")
	}
	return c.err()
}

// Validate requires two different addresses and at least one flow.
func (r Link) Validate() error {
	var c checker
	c.name("vantage", r.Vantage)
	c.addr("target", r.Target)
	c.addr("from", r.From)
	c.addr("to", r.To)
	if r.From == r.To {
		c.fail("to", "the same address as from", "a link joins two hops")
	}
	c.ttl(r.TTL)
	if r.Flows == 0 {
		c.fail("flows", "0", "a link that no flow passed has no row")
	}
	return c.err()
}

// Validate requires at least two next hops, and that only a balancer per flow has
// fields, each once.
func (r Balancer) Validate() error {
	var c checker
	c.name("vantage", r.Vantage)
	c.addr("target", r.Target)
	oneOf(&c, "proto", r.Proto, ProtoICMP, ProtoUDP, ProtoTCP, ProtoDNS)
	c.addr("addr", r.Addr)
	c.ttl(r.TTL)
	oneOf(&c, "class", r.Class, PerFlow, PerPacket, PerDestination, ClassUnknown)
	for i, f := range r.Fields {
		key := "fields[" + strconv.Itoa(i) + "]"
		oneOf(&c, key, f, FieldDst, FieldProto, FieldSport, FieldDport, FieldTOS, FieldFlowLabel, FieldICMPID, FieldICMPSum)
		if slices.Contains(r.Fields[:i], f) {
			c.fail(key, string(f)+" occurs twice", "remove one")
		}
	}
	if len(r.Fields) > 0 && r.Class != PerFlow && r.Class != PerDestination {
		c.fail("fields", "set for a balancer that does not hash", "")
	}
	if r.Width < 2 {
		c.fail("width", strconv.Itoa(int(r.Width))+", but a balancer has at least 2 next hops", "")
	}
	c.within("min_share", r.MinShare, 0, 1)
	c.within("confidence", r.Confidence, 0, 100)
	return c.err()
}

// Validate requires a vantage, a target and a direction; Site may be empty.
func (r Catchment) Validate() error {
	var c checker
	c.name("vantage", r.Vantage)
	c.addr("target", r.Target)
	oneOf(&c, "direction", r.Direction, Forward, Reverse)
	c.text("site", r.Site)
	c.millis("rtt_ms", r.RTTMS)
	return c.err()
}

// lossTolerance is how far loss may be from received and sent: rows from other
// tools carry rounded percentages.
const lossTolerance = 1e-3

// Validate requires that the counts, the loss and the order of the times agree.
func (r Latency) Validate() error {
	var c checker
	c.name("vantage", r.Vantage)
	c.text("frontend", r.Frontend)
	c.addr("target", r.Target)
	c.text("region", r.Region)
	oneOf(&c, "proto", r.Proto, ProtoICMP, ProtoUDP, ProtoTCP, ProtoDNS)
	if r.Received > r.Sent {
		c.fail("received", "more than sent", "count a duplicated reply once")
	}
	c.within("loss", r.Loss, 0, 1)
	if r.Sent > 0 && math.Abs(float64(r.Sent-min(r.Received, r.Sent))/float64(r.Sent)-r.Loss) > lossTolerance {
		c.fail("loss", formatFloat(r.Loss)+" is not (sent - received) / sent", "")
	}
	r.checkTimes(&c)
	if !(r.Confidence >= 0 && r.Confidence < 100) {
		c.fail("confidence", formatFloat(r.Confidence)+" is outside 0..100", "write a percentage below 100")
	}
	if r.Received > 0 || r.Stamp != "" {
		oneOf(&c, "stamp", r.Stamp, StampHardware, StampKernel, StampUser, StampSim)
	}
	return c.err()
}

// checkTimes checks each time by itself and against those it cannot exceed.
func (r Latency) checkTimes(c *checker) {
	least, mid, most := timed{"min_ms", r.MinMS}, timed{"p50_ms", r.P50MS}, timed{"p99_ms", r.P99MS}
	lo, hi := timed{"p50_lo_ms", r.P50LoMS}, timed{"p50_hi_ms", r.P50HiMS}
	mean, jitter := timed{"mean_ms", r.MeanMS}, timed{"jitter_ms", r.JitterMS}
	for _, t := range []timed{least, mid, lo, hi, most, mean, jitter} {
		c.millis(t.key, t.ms)
	}
	c.ordered(least, lo, mid, hi)
	c.ordered(mid, most)
	c.ordered(least, mean)
}

// Validate requires a share in [0, 1] and a rate and a price that are not negative.
func (r Allocation) Validate() error {
	var c checker
	c.name("frontend", r.Frontend)
	c.name("region", r.Region)
	c.within("share", r.Share, 0, 1)
	c.amount("rate_hz", r.RateHz)
	c.amount("price_s", r.PriceS)
	return c.err()
}

// Answered reports whether something came back: a reply or an ICMP error.
func (o Outcome) Answered() bool {
	return o == OutcomeReply || o == OutcomeTTLExceeded || o == OutcomeUnreachable
}

// checker collects the problems of one row. On a good row it allocates nothing.
type checker struct{ errs []error }

func (c *checker) fail(key, msg, fix string) {
	c.errs = append(c.errs, &Problem{Key: key, Msg: msg, Fix: fix})
}

func (c *checker) err() error { return errors.Join(c.errs...) }

// name checks a text that must be there.
func (c *checker) name(key, v string) {
	if v == "" {
		c.fail(key, "empty", "write a name")
		return
	}
	c.text(key, v)
}

// text keeps out what could not be shown in a terminal or written as one line.
func (c *checker) text(key, v string) {
	switch {
	case !utf8.ValidString(v):
		c.fail(key, "not UTF-8", "")
	case strings.IndexFunc(v, unicode.IsControl) >= 0:
		c.fail(key, "contains a control character", "")
	}
}

// plain reports whether a is an address in the one form that rows use, so that
// equal addresses compare equal.
func plain(a netip.Addr) bool { return a.IsValid() && !a.Is4In6() }

func (c *checker) addr(key string, a netip.Addr) {
	if !a.IsValid() {
		c.fail(key, "no address", "write an IP address")
		return
	}
	c.optionalAddr(key, a)
}

func (c *checker) optionalAddr(key string, a netip.Addr) {
	if a.Is4In6() {
		c.fail(key, "IPv4 address in IPv6 form", "write "+a.Unmap().String())
	}
}

func (c *checker) place(lat, lon float64) {
	c.within("lat", lat, -90, 90)
	c.within("lon", lon, -180, 180)
}

// within refuses NaN too.
func (c *checker) within(key string, v, lo, hi float64) {
	if !(v >= lo && v <= hi) {
		c.fail(key, formatFloat(v)+" is outside "+formatFloat(lo)+".."+formatFloat(hi), "")
	}
}

// amount checks a finite number that is not negative.
func (c *checker) amount(key string, v float64) {
	if !(v >= 0 && v <= math.MaxFloat64) {
		c.fail(key, formatFloat(v)+" is negative or not finite", "")
	}
}

func (c *checker) millis(key string, m Millis) {
	if m.Known() {
		c.amount(key, float64(m))
	}
}

func (c *checker) ttl(v uint8) {
	if v == 0 {
		c.fail("ttl", "0", "write 1 to 255")
	}
}

func (c *checker) zero(key string, v int64, why string) {
	if v != 0 {
		c.fail(key, strconv.FormatInt(v, 10)+", but must be 0 "+why, "")
	}
}

// timed is a time and its key.
type timed struct {
	key string
	ms  Millis
}

// ordered checks that the known ones among ts ascend.
func (c *checker) ordered(ts ...timed) {
	prev := timed{ms: NoEstimate()}
	for _, t := range ts {
		if !t.ms.Known() {
			continue
		}
		if prev.ms.Known() && t.ms < prev.ms {
			c.fail(t.key, formatFloat(float64(t.ms))+" is less than "+prev.key, "")
		}
		prev = t
	}
}

func oneOf[T ~string](c *checker, key string, v T, allowed ...T) {
	words := make([]string, 0, 5)
	for _, a := range allowed {
		if v == a {
			return
		}
		words = append(words, string(a))
	}
	c.fail(key, strconv.Quote(string(v))+" is not known", "write one of "+strings.Join(words, ", "))
}
