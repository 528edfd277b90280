// Package lab builds small routed networks of Linux network namespaces, so that
// measuring and steering can be tried on a real kernel without a packet leaving
// the host. It needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN).
//
// A [Topology] is data: nodes, links, routes. [Up] makes a namespace under
// /run/netns for each node, so that "ip netns exec" works on them, but it needs
// no iproute2: it speaks netlink. Links are veth pairs or delay cables. A cable
// is a pair of TAP devices with a user-space relay between them, since many
// kernels lack the netem queue: each frame is read at one end and written to the
// other when its time has come. The relay adds 0.1 to 0.2 ms to a round trip, and
// more while the machine is busy; it asks for real-time priority and goes on
// without where that is refused.
//
// Neighbour entries are permanent, so no first packet waits for ARP or neighbour
// discovery.
//
// What it cannot do: all nodes share one kernel and one clock, so clock skew
// between sites cannot be had here; and all packets share the host's cores, so
// rates say little.
//
// The lab lives as long as the process that called Up, because the relay does.
// [Run] is for a process of its own: it serves [Down] and [SetCable] calls of
// other processes over a socket in /run/strandline-lab.
package lab
