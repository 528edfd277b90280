package simnet

import (
	"net/netip"
	"time"
)

// Spec is a world as it is written down. The zero value of every field that is
// not said to be required means the default that its comment names. Validate
// reports what is wrong with a spec; Build makes it forward packets.
type Spec struct {
	Name      string     `yaml:"name"`
	Seed      uint64     `yaml:"seed"` // from which balancers without a seed of their own draw one
	Fibre     Fibre      `yaml:"fibre"`
	Nodes     []Node     `yaml:"nodes"` // required
	Links     []Link     `yaml:"links"`
	Meshes    []Mesh     `yaml:"meshes"`
	Anycast   []Anycast  `yaml:"anycast"`
	Overrides []Override `yaml:"overrides"`
	Changes   []Change   `yaml:"changes"`
}

// Fibre says how long light takes between two places: great-circle distance x
// Factor / KmPerMS, at least Floor.
type Fibre struct {
	KmPerMS float64       `yaml:"km_per_ms"` // speed of light in glass; default 200, two thirds of c
	Factor  float64       `yaml:"factor"`    // length of the cable over the great circle, at least 1; default 1
	Floor   time.Duration `yaml:"floor"`     // shortest delay of a link: metro fibre and equipment
}

// The kinds of node. A host sends and answers; it never forwards.
const (
	KindRouter = "router"
	KindHost   = "host"
)

// Node is a router or a host. It has one address per family, which is the
// source of everything that it originates, but for the errors about packets that
// came over a link with an address for this end.
type Node struct {
	Name    string            `yaml:"name"`  // required, unique
	Kind    string            `yaml:"kind"`  // KindRouter (default) or KindHost
	Addr    netip.Addr        `yaml:"addr"`  // IPv4; without one the node sends no IPv4
	Addr6   netip.Addr        `yaml:"addr6"` // IPv6; without one the node sends no IPv6
	At      string            `yaml:"at"`    // a node whose place (lat, lon, city, country) this one shares
	Lat     float64           `yaml:"lat"`   // degrees, north positive
	Lon     float64           `yaml:"lon"`   // degrees, east positive
	City    string            `yaml:"city"`
	Country string            `yaml:"country"` // ISO 3166 alpha-2
	Labels  map[string]string `yaml:"labels"`  // of hosts: frontend makes it a vantage, region a region's server
	Hash    Hash              `yaml:"hash"`
	Silent  bool              `yaml:"silent"` // forwards, but never answers: a star in a trace
	TCP     []uint16          `yaml:"tcp"`    // ports that a SYN is answered by SYN+ACK on; any other by RST

	Quote         int       `yaml:"quote"`          // octets after the IP header that its errors quote, at least 8; default: all that fit
	InterfaceInfo bool      `yaml:"interface_info"` // its errors name the interface that the packet came in by (RFC 5837)
	ZeroTTL       bool      `yaml:"zero_ttl"`       // a fault: forwards what comes with TTL 1, with TTL 0, so that the next node answers
	ICMPLimit     ICMPLimit `yaml:"icmp_limit"`
	NAT           NAT       `yaml:"nat"`

	// Rewrites lists sources of ICMP errors that the node, a gateway, replaces by
	// its own address when it forwards them: all routers behind it look like it.
	Rewrites []netip.Prefix `yaml:"rewrites"`
}

// ICMPLimit is a token bucket for the ICMP errors of a router, whoever they are
// for: it holds Burst tokens at most and at first, gets RateHz of them a second,
// and an error without a token is not sent.
type ICMPLimit struct {
	RateHz float64 `yaml:"rate_hz"` // errors per second; 0 means no limit
	Burst  int     `yaml:"burst"`   // default 1
}

// What a translator restores of a packet of its inside that an ICMP error quotes.
const (
	QuoteAddress = "address" // address and port, the default; the transport checksum stays as translated, which shows
	QuoteFull    = "full"    // checksum too (RFC 5508 section 4.2): nothing shows
	QuoteNone    = "none"    // nothing: address, port and checksum are those outside
)

// NAT makes a router translate, as at the edge of a home or a data centre (RFC
// 3022): packets from Inside to elsewhere leave with the router's own address as
// their source, and what comes back for them goes inside. It maps (protocol,
// inside address, port) to a port of its own, whatever the destination, and
// never forgets. Echoes are mapped by their identifier.
type NAT struct {
	Inside []netip.Prefix `yaml:"inside"` // IPv4, IPv6 or both; none means no NAT
	Ports  bool           `yaml:"ports"`  // gives each a new port; otherwise it keeps its own while that is free
	Quote  string         `yaml:"quote"`  // QuoteAddress (default), QuoteFull or QuoteNone
}

// The header fields that a balancer may hash. A field that a packet does not
// have counts as zero.
const (
	FieldSrc          = "src"
	FieldDst          = "dst"
	FieldProto        = "proto"
	FieldSport        = "sport" // UDP and TCP
	FieldDport        = "dport" // UDP and TCP
	FieldTOS          = "tos"   // IPv6: traffic class
	FieldFlowLabel    = "flow_label"
	FieldICMPID       = "icmp_id"       // echo request and reply
	FieldICMPChecksum = "icmp_checksum" // ICMP and ICMPv6
)

// How a balancer spreads packets over its next hops.
const (
	SpreadFlow       = "flow"        // by Fields, the default
	SpreadPacket     = "packet"      // each packet for itself, at random
	SpreadRoundRobin = "round-robin" // each packet for itself, in turns
)

// Hash is the recipe by which a node with several equally near next hops
// chooses one: it depends on exactly these fields and the seed, unless Spread
// says that it depends on no field at all.
//
// Without fields the recipe is src, dst, proto, sport, dport: the five-tuple,
// the layer 4 policy of Linux, which sees a single flow in all ICMP echoes
// between two hosts. Seed 0 draws a seed from the world's seed and the node's
// name. Two nodes with the same recipe and the same explicit seed choose alike,
// so the second sees only flows that agree already: they polarise, as Linux
// machines do whose fib_multipath_hash_seed was left alone.
type Hash struct {
	Fields  []string       `yaml:"fields"`
	Seed    uint64         `yaml:"seed"`
	Spread  string         `yaml:"spread"`
	Weights map[string]int `yaml:"weights"` // next node -> weight; default 1 each
}

// Link joins two nodes, both ways alike.
type Link struct {
	A      string        `yaml:"a"`      // required
	B      string        `yaml:"b"`      // required
	Delay  time.Duration `yaml:"delay"`  // one way; default: by great circle and Fibre
	Jitter time.Duration `yaml:"jitter"` // each traversal adds uniform [0, Jitter)
	Loss   float64       `yaml:"loss"`   // of each traversal, in [0, 1)
	Metric int           `yaml:"metric"` // default: Delay in microseconds, at least 1

	Duplicate float64 `yaml:"duplicate"` // probability that a traversal doubles the packet, in [0, 1)
	Corrupt   float64 `yaml:"corrupt"`   // probability that one flips a bit after the IP header, in [0, 1)

	// The addresses of the link's ends. A router reports what came over the link
	// from the address of its end, where there is one, and answers to it.
	AddrA  netip.Addr `yaml:"addr_a"`  // IPv4, of A's end
	AddrB  netip.Addr `yaml:"addr_b"`  // IPv4, of B's end
	Addr6A netip.Addr `yaml:"addr6_a"` // IPv6, of A's end
	Addr6B netip.Addr `yaml:"addr6_b"` // IPv6, of B's end

	// MPLS is the label stack, top first, of packets on this link. A router where
	// the TTL of such a packet runs out says so (RFC 4950). Label switching itself
	// is not simulated: the TTL counts at every router.
	MPLS []uint32 `yaml:"mpls"`
}

// Mesh joins each pair of its nodes by a link whose round trip comes from a CSV
// file with the header from,to,rtt_ms (lines that start with # are comments):
// the mean of both directions, half of it each way.
//
// The metric of these links is Metric plus the delay in microseconds. Measured
// matrices violate the triangle inequality (a detour over a third city would be
// faster), yet the operator's packets took the direct way; a Metric above the
// longest delay makes every detour over two links of the mesh dearer than any
// direct link.
type Mesh struct {
	Nodes  map[string]string `yaml:"nodes"`   // name in the file -> node; at least two
	RTTCSV string            `yaml:"rtt_csv"` // required; file name
	Metric int               `yaml:"metric"`  // default 1,000,000 (one second)
}

// Anycast is a service announced from several hosts. Each site answers for
// every address of the prefixes: echoes, and on UDP port 53 the CHAOS TXT
// questions id.server and hostname.bind (RFC 4892) with the site's name.
type Anycast struct {
	Name    string       `yaml:"name"`    // required, unique
	Prefix  netip.Prefix `yaml:"prefix"`  // IPv4; one of the prefixes is required
	Prefix6 netip.Prefix `yaml:"prefix6"` // IPv6
	Addr    netip.Addr   `yaml:"addr"`    // the address to measure; default: the first after the prefix's own
	Addr6   netip.Addr   `yaml:"addr6"`   // the same for IPv6
	Sites   []Site       `yaml:"sites"`   // at least one
}

// Site is one place that an anycast prefix is announced from.
type Site struct {
	Name   string `yaml:"name"`   // required, unique in its service; what the site calls itself
	Node   string `yaml:"node"`   // required; a host
	Metric int    `yaml:"metric"` // added to the distance, as by prepending; default 0
}

// Override changes what the links between two nodes do to packets, never where
// packets go: the metrics stay, so traffic keeps taking the bad link.
type Override struct {
	A       string        `yaml:"a"`       // required
	B       string        `yaml:"b"`       // required
	Inflate float64       `yaml:"inflate"` // multiplies the delay; default 1
	Jitter  time.Duration `yaml:"jitter"`  // replaces the link's unless zero
	Loss    float64       `yaml:"loss"`    // replaces the link's unless zero
}

// Change takes the links between two nodes down, or up again, at a time. Routes
// follow at once, everywhere.
type Change struct {
	At   time.Duration `yaml:"at"`   // after the start of the driver; above 0
	A    string        `yaml:"a"`    // required
	B    string        `yaml:"b"`    // required
	Down bool          `yaml:"down"` // default: up
}
