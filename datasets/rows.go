package datasets

import (
	"math"
	"net/netip"
	"strconv"
)

// Proto is the protocol of a probe.
type Proto string

// The protocols that probes are sent by. ProtoDNS is UDP with a DNS question inside.
const (
	ProtoICMP Proto = "icmp"
	ProtoUDP  Proto = "udp"
	ProtoTCP  Proto = "tcp"
	ProtoDNS  Proto = "dns"
)

// Outcome says what became of a probe. Loss is data: a timeout is an outcome, not an error.
type Outcome string

// The outcomes of a probe.
const (
	OutcomeReply       Outcome = "reply"        // the target itself answered
	OutcomeTimeout     Outcome = "timeout"      // nothing arrived in time
	OutcomeTTLExceeded Outcome = "ttl-exceeded" // a hop on the way answered
	OutcomeUnreachable Outcome = "unreachable"  // an ICMP unreachable that did not come from the target
	OutcomeSendError   Outcome = "send-error"   // our own kernel refused to send
)

// Stamp says which clock stamped a sample's times, hence what its RTT includes.
type Stamp string

// The sources of time stamps, best first.
const (
	StampHardware Stamp = "hardware"
	StampKernel   Stamp = "kernel"
	StampUser     Stamp = "user"
	StampSim      Stamp = "sim" // the simulator's clock: exact
)

// Direction tells the two meanings of catchments and flips apart. Forward: we
// are the client and ask which site of an anycast address our flows reach.
// Reverse: we own the anycast prefix, one site sends and all sites receive, and
// the target is the client; only reverse rows yield steering prefixes.
type Direction string

// The two directions.
const (
	Forward Direction = "forward"
	Reverse Direction = "reverse"
)

// Millis is a time in milliseconds in which NaN means "no estimate": JSON null,
// an empty CSV cell.
type Millis float64

// NoEstimate is the Millis that stands for a missing value.
func NoEstimate() Millis { return Millis(math.NaN()) }

// Known reports whether m holds an estimate.
func (m Millis) Known() bool { return !math.IsNaN(float64(m)) }

// MarshalJSON writes null for a missing estimate.
func (m Millis) MarshalJSON() ([]byte, error) {
	if !m.Known() {
		return []byte("null"), nil
	}
	return appendFloat(nil, float64(m)), nil
}

// UnmarshalJSON reads null as a missing estimate.
func (m *Millis) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*m = NoEstimate()
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return err
	}
	*m = Millis(f)
	return nil
}

// Vantage is a place that measures. Labels["frontend"] names the frontend that
// it measures for.
type Vantage struct {
	Name    string            `json:"name"`
	Addr    netip.Addr        `json:"addr,omitzero"`
	Addr6   netip.Addr        `json:"addr6,omitzero"`
	Lat     float64           `json:"lat"`
	Lon     float64           `json:"lon"`
	City    string            `json:"city,omitempty"`
	Country string            `json:"country,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// Frontend is where requests enter the system: an HTTP router or a client group
// of the DNS server.
type Frontend struct {
	Name   string  `json:"name"`
	Lat    float64 `json:"lat"`
	Lon    float64 `json:"lon"`
	RateHz float64 `json:"rate_hz"`
}

// Region is a place that serves requests.
type Region struct {
	Name  string       `json:"name"`
	Lat   float64      `json:"lat"`
	Lon   float64      `json:"lon"`
	Addrs []netip.Addr `json:"addrs,omitempty"`
}

// Target is an address to measure. Region is set when the address stands for a region.
type Target struct {
	Addr   netip.Addr `json:"addr"`
	Name   string     `json:"name,omitempty"`
	Region string     `json:"region,omitempty"`
}

// Sample is the outcome of one probe; an unanswered probe is a row too.
//
// RxNS, RTTNS, From, ReplyTTL and the ICMP fields are set when something
// arrived (Outcome reply, ttl-exceeded or unreachable) and zero otherwise.
// QuotedTTL is set for ICMP errors only. Sport and Dport are zero for ICMP,
// where ICMPID and ICMPChecksum are the flow.
type Sample struct {
	Vantage   string     `json:"vantage"`
	Target    netip.Addr `json:"target"`
	Proto     Proto      `json:"proto"`
	Src       netip.Addr `json:"src"`
	Sport     uint16     `json:"sport"`
	Dport     uint16     `json:"dport"`
	ICMPID    uint16     `json:"icmp_id"`
	ICMPSum   uint16     `json:"icmp_checksum"`
	FlowLabel uint32     `json:"flow_label"`
	TOS       uint8      `json:"tos"`
	TTL       uint8      `json:"ttl"`
	Seq       uint32     `json:"seq"`
	TxNS      int64      `json:"tx_ns"`
	RxNS      int64      `json:"rx_ns"`
	RTTNS     int64      `json:"rtt_ns"`
	Stamp     Stamp      `json:"stamp"`
	Outcome   Outcome    `json:"outcome"`
	From      netip.Addr `json:"from,omitzero"`
	ReplyTTL  uint8      `json:"reply_ttl"`
	QuotedTTL uint8      `json:"quoted_ttl"`
	ICMPType  uint8      `json:"icmp_type"`
	ICMPCode  uint8      `json:"icmp_code"`
}

// Hop is one address seen at one TTL of one flow's path. Addr is the zero
// address, and RTTMS has no estimate, where no probe of that TTL was answered.
type Hop struct {
	Vantage string     `json:"vantage"`
	Target  netip.Addr `json:"target"`
	Proto   Proto      `json:"proto"`
	Flow    uint32     `json:"flow"`
	TTL     uint8      `json:"ttl"`
	Addr    netip.Addr `json:"addr,omitzero"`
	RTTMS   Millis     `json:"rtt_ms"`
	Probes  uint32     `json:"probes"`
	Replies uint32     `json:"replies"`
}

// Link is a pair of addresses that one flow passed at TTL and TTL+1. It is
// never drawn across an unanswered hop.
type Link struct {
	Vantage string     `json:"vantage"`
	Target  netip.Addr `json:"target"`
	From    netip.Addr `json:"from"`
	To      netip.Addr `json:"to"`
	TTL     uint8      `json:"ttl"`
	Flows   uint32     `json:"flows"`
}

// Class says by what a balancer chooses among its next hops.
type Class string

// The classes of balancers.
const (
	PerFlow        Class = "per-flow"        // packets that agree in the hashed fields stay together
	PerPacket      Class = "per-packet"      // anew for each packet
	PerDestination Class = "per-destination" // packets to one address stay together, whatever else differs
	ClassUnknown   Class = "inconclusive"    // the probes could not tell
)

// Field is a header field that a balancer may hash.
type Field string

// The header fields.
const (
	FieldDst       Field = "dst"
	FieldProto     Field = "proto"
	FieldSport     Field = "sport" // UDP and TCP
	FieldDport     Field = "dport" // UDP and TCP
	FieldTOS       Field = "tos"   // IPv6: traffic class
	FieldFlowLabel Field = "flow_label"
	FieldICMPID    Field = "icmp_id"
	FieldICMPSum   Field = "icmp_checksum"
)

// Balancer is a router that sends the packets to Target over Width next hops;
// TTL is the smallest at which it answered.
//
// Fields are the tested ones that each move a per-flow balancer by itself. A
// further next hop that gets at least the share MinShare would have been found
// with the probability that the measurement promised. Confidence, in percent, is
// that of Class: a balancer of another class would have looked like this with
// probability 1 - Confidence/100 at most. Probes counts the flows that chose a
// next hop.
type Balancer struct {
	Vantage    string     `json:"vantage"`
	Target     netip.Addr `json:"target"`
	Proto      Proto      `json:"proto"`
	Addr       netip.Addr `json:"addr"`
	TTL        uint8      `json:"ttl"`
	Class      Class      `json:"class"`
	Fields     []Field    `json:"fields,omitempty"`
	Width      uint32     `json:"width"`
	MinShare   float64    `json:"min_share"`
	Confidence float64    `json:"confidence"`
	Probes     uint32     `json:"probes"`
}

// Catchment says at which site of Target a vantage's (forward) or a client's
// (reverse) traffic lands. Site is empty when nothing named itself in time.
type Catchment struct {
	Vantage   string     `json:"vantage"`
	Target    netip.Addr `json:"target"`
	Direction Direction  `json:"direction"`
	Site      string     `json:"site"`
	RTTMS     Millis     `json:"rtt_ms"`
}

// Latency sums up the samples from one vantage to one target.
//
// P50LoMS to P50HiMS is the interval that covers the median round trip with at
// least the probability Confidence (percent), whatever the distribution. Loss
// is the fraction of probes without a reply, in [0, 1].
type Latency struct {
	Vantage    string     `json:"vantage"`
	Frontend   string     `json:"frontend,omitempty"`
	Target     netip.Addr `json:"target"`
	Region     string     `json:"region,omitempty"`
	Proto      Proto      `json:"proto"`
	Sent       uint32     `json:"sent"`
	Received   uint32     `json:"received"`
	Loss       float64    `json:"loss"`
	MinMS      Millis     `json:"min_ms"`
	P50MS      Millis     `json:"p50_ms"`
	P50LoMS    Millis     `json:"p50_lo_ms"`
	P50HiMS    Millis     `json:"p50_hi_ms"`
	P99MS      Millis     `json:"p99_ms"`
	MeanMS     Millis     `json:"mean_ms"`
	JitterMS   Millis     `json:"jitter_ms"`
	Confidence float64    `json:"confidence"`
	Stamp      Stamp      `json:"stamp"`
}

// Allocation is one arc of a plan: the share of Frontend's requests that Region
// gets, in [0, 1]. PriceS is the marginal cost of the region in seconds.
type Allocation struct {
	Epoch    uint64  `json:"epoch"`
	Frontend string  `json:"frontend"`
	Region   string  `json:"region"`
	Share    float64 `json:"share"`
	RateHz   float64 `json:"rate_hz"`
	PriceS   float64 `json:"price_s"`
}
