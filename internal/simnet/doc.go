// Package simnet is a simulated Internet: packets in, packets out, with the
// true paths known. It stands behind the same seam as the kernel (probe.Conn),
// so whatever measures the one measures the other unchanged, and every
// measurement can be scored against what the simulator knows.
//
// # Model
//
// A world (Spec) is a graph of routers and hosts. Every link has a constant
// propagation delay, a jitter J (each traversal adds a delay drawn uniformly
// from [0, J)) and a loss probability, the same in both directions and
// independent per traversal. Packets follow, for each destination, the shortest
// path by an integer metric; where several next hops are equally near, a router
// hashes chosen header fields and takes one (see Hash). Routers decrement the
// TTL and report its end, answer echo requests, and refuse UDP to closed ports;
// hosts answer, and do not forward. An anycast prefix is announced from several
// hosts, each of which answers for every address in it. IPv4 and IPv6 take the
// same routes.
//
// Replies are routed and hashed by their own headers, so forward and return
// path of one flow may differ.
//
// # Layers
//
// Net is the forwarding core: immutable, without clock, randomness or
// goroutine, safe for concurrent use. Two drivers move packets through it:
// Virtual advances a clock of its own to the next due packet and gives the same
// bytes for the same seed; Real runs on time.AfterFunc, in real time or in a
// testing/synctest bubble.
//
// # What it does not do
//
// No bandwidth and no queues: delay does not depend on load, and receive
// buffers have no limit. No fragmentation, no options, no TCP: such packets are
// forwarded but not answered. Routes never change.
package simnet
