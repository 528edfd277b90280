// Package rawsock is the kernel's side of probe.Conn: whole IP packets out and in
// through Linux raw sockets. It needs CAP_NET_RAW.
//
// # Sockets
//
// Sent packets go through one raw socket per family of protocol IPPROTO_RAW,
// which takes the IP header as it is. So a balancer on the way, and the
// kernel's own, hashes what is in the packet and not the socket.
//
// Received are ICMP and ICMPv6 echo replies and errors, through one raw socket
// per family, and UDP datagrams, through one ordinary UDP socket for each source
// port that a packet was sent from. That socket does two jobs: it hands over
// the answers, and as the port is taken the kernel does not itself answer them
// with a port unreachable. If another process has the port, Send fails. Where
// the kernel strips headers (ICMPv6, UDP) they are rebuilt from what it says
// about the packet: addresses, TTL or hop limit, TOS or traffic class, ports,
// length and checksum are right; the IPv4 identification, IPv6 flow label, options
// and extension headers are lost.
//
// Packet sockets (AF_PACKET) were the alternative: one socket with complete
// headers. They see packets before the host has accepted them: those for other
// hosts, fragments, copies on stacked interfaces, half-made checksums of local
// senders. Raw sockets get each packet once, whole and addressed to us.
//
// # Time
//
// Received packets carry the kernel's time stamp (SO_TIMESTAMPNS), taken when the
// interface handed the packet over, so a busy process delays no measurement;
// sent packets carry the user's clock from just before the call, which is some 2
// µs early. Now, and thus every Packet.Time, is the wall clock at Open plus the
// monotonic time since: it does not step. A kernel stamp is turned into that
// clock by its age at the moment of reading. So an NTP step shows in a round
// trip only if it falls between those two instants, microseconds apart; a packet
// whose age comes out absurd is stamped by the user's clock and says so. The price
// is that times do not follow corrections of the wall clock made after Open.
//
// # Namespaces
//
// A Conn lives in the network namespace of the thread that opened it. As Local and
// Send may open further sockets, they must run on a thread in that namespace.
//
// # What it does not do
//
// No TCP, no packet rings or batches of system calls, no interface choice, no
// link-local IPv6 addresses, which would need one.
package rawsock

// Options of Open. The zero value is usable.
type Options struct {
	// ReceiveBuffer is the size in octets of the ICMP sockets' receive buffers; 0
	// = DefaultReceiveBuffer. Without CAP_NET_ADMIN the kernel may grant less.
	ReceiveBuffer int
}

// DefaultReceiveBuffer holds the answers to some 10,000 probes that arrive while
// the process is not running.
const DefaultReceiveBuffer = 8 << 20
