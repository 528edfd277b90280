package probe

import (
	"context"
	"net/netip"
	"time"

	"strandline/datasets"
)

// Packet is one IP packet and when it was sent or received.
type Packet struct {
	Data  []byte         // from the IP header on; Recv reuses the capacity it is given
	Time  time.Time      // set by Send and by Recv
	Stamp datasets.Stamp // which clock set Time
}

// Conn is a network seen from one host at the IP layer: batches of raw packets
// out, batches in with the time they arrived. The two implementations are
// rawsock (the kernel) and simnet (the simulated Internet).
//
// A Conn belongs to one goroutine; only Close may be called from another.
type Conn interface {
	// Local returns the address that packets to dst leave from. The error wraps
	// errors.ErrUnsupported when the host has no address of dst's family.
	Local(dst netip.Addr) (netip.Addr, error)

	// Send hands over whole IP packets, in order, and sets Time and Stamp of each
	// one that left. It returns how many left; the error is about the packet at
	// that index. The Data remain the caller's.
	Send(pkts []Packet) (int, error)

	// Recv waits until at least one packet has arrived, the deadline has passed or
	// ctx has ended. It fills Data, Time and Stamp of the packets it received,
	// keeping each Data's capacity, and returns how many: 0 and no error at the
	// deadline, 0 and the cause when ctx ended.
	Recv(ctx context.Context, pkts []Packet, deadline time.Time) (int, error)

	// Now is the clock that Time is in: the kernel's or the simulator's. Nothing
	// in package probe reads another.
	Now() time.Time

	// Close releases the sockets; a Recv under way returns.
	Close() error
}
