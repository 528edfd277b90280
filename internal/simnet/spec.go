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
// source of everything that it originates.
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

// Hash is the recipe by which a node with several equally near next hops
// chooses one: it depends on exactly these fields and the seed.
//
// Without fields the recipe is src, dst, proto, sport, dport: the five-tuple,
// the layer 4 policy of Linux, which sees a single flow in all ICMP echoes
// between two hosts. Seed 0 draws a seed from the world's seed and the node's
// name. Two nodes with the same recipe and the same explicit seed choose alike,
// so the second sees only flows that agree already: they polarise, as Linux
// machines do whose fib_multipath_hash_seed was left alone.
type Hash struct {
	Fields []string `yaml:"fields"`
	Seed   uint64   `yaml:"seed"`
}

// Link joins two nodes, both ways alike.
type Link struct {
	A      string        `yaml:"a"`      // required
	B      string        `yaml:"b"`      // required
	Delay  time.Duration `yaml:"delay"`  // one way; default: by great circle and Fibre
	Jitter time.Duration `yaml:"jitter"` // each traversal adds uniform [0, Jitter)
	Loss   float64       `yaml:"loss"`   // of each traversal, in [0, 1)
	Metric int           `yaml:"metric"` // default: Delay in microseconds, at least 1
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
