// Package simnet is a simulated Internet: packets in, packets out, with the
// true paths known. It stands behind the same seam as the kernel (probe.Conn),
// so whatever measures the one measures the other unchanged, and every
// measurement can be scored against what the simulator knows.
//
// # Model
//
// A world (Spec) is a graph of routers and hosts. Every link has a constant
// propagation delay, a jitter J (each traversal adds a delay drawn uniformly
// from [0, J)) and probabilities of loss, duplication and damage, the same in both
// directions and independent per traversal. Packets follow, for each destination, the shortest
// path by an integer metric; where several next hops are equally near, a router
// hashes chosen header fields and takes one by its weight (see Hash), or spreads
// packets one by one. Routers decrement the TTL and report its end, answer echo
// requests, refuse UDP to closed ports and reset TCP; hosts answer, and do not
// forward. An anycast prefix is announced from several hosts, each of which
// answers for every address in it. IPv4 and IPv6 take the same routes. Links may
// go down and up at given times (see Change); routes follow at once.
//
// Replies are routed and hashed by their own headers, so forward and return
// path of one flow may differ.
//
// Routers have the manners and faults that measurement has to see through: an
// address for each interface, MPLS labels and interface names in their errors,
// short quotes, ICMP rate limits, silence, forwarding with TTL 0, address
// translation (NAT), and gateways that hide the routers behind them.
//
// # Truth
//
// Truth and Trace follow one packet; Graph gives all paths of packets that differ
// in chosen fields, and every balancer with its class, fields and shares; Links,
// Catchment and RouteChanges sum up; At gives the truth of a later time. Random
// draws worlds by seed.
//
// # Layers
//
// Net is the forwarding core: immutable, without clock, randomness or
// goroutine, safe for concurrent use. What changes while packets move (chance,
// turns, tokens, mappings) belongs to a driver. Two drivers move packets through it:
// Virtual advances a clock of its own to the next due packet and gives the same
// bytes for the same seed; Real runs on time.AfterFunc, in real time or in a
// testing/synctest bubble.
//
// # What it does not do
//
// No bandwidth and no queues: delay does not depend on load, and receive
// buffers have no limit. No fragmentation and no options; of TCP no connections,
// only the answers of a machine that has none. No label switching: MPLS labels
// are reported, and change no path. Translators map only what the inside starts,
// and the state of one driver is not known to another.
package simnet
