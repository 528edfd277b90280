// Package dnsserver is the authoritative DNS server: it answers from zone files,
// and for steered names from a router.Table.
//
// # Model
//
// A Snapshot holds all that an answer depends on: zones, steered names and one
// table with its epoch. It is immutable; Server.Publish swaps it, and every query
// is answered from one snapshot from beginning to end. Resolve is the whole of
// the answering and does no I/O, so the same snapshot and Query give the same
// Answer, in a test, in an explanation and on the wire:
//
//	zone, err := dnsserver.ParseZone("example.org", "example.org.zone", file)
//	snap, err := dnsserver.Compile([]*dnsserver.Zone{zone}, steer, table)
//	srv, err := dnsserver.New(dnsserver.Options{PacketConns: conns, Listeners: listeners})
//	srv.Publish(snap)
//	err = srv.Run(ctx)
//
// # Steered answers
//
// The client is the prefix in the query's client subnet option (RFC 7871) or,
// without one, the resolver's address. The table gives the client's regions, best
// first; the answer is all addresses that the first usable one has of the family
// asked for. The scope in the reply is the table's: the shortest prefix in which
// everybody gets that answer. It is 0 where everybody gets the same: static data,
// names that do not exist, a family that no region has. Where the table cannot decide, the last good table does, then a
// static default (Source): serving stale beats serving nothing.
//
// # Protocol
//
// UDP and TCP, EDNS with replies of at most 1232 octets over UDP, truncation by
// whole RRsets, NSID. A message gets an answer whatever is wrong with it, but for
// two: one too short for a header, and a response. Messages are read and written
// by hand, since a library that repairs what it reads cannot reject it; zone files
// are read by miekg/dns, which no other package imports.
//
// # What it does not do
//
// No DNSSEC (a signed zone is refused), no zone transfer or update (AXFR and IXFR
// are refused), no DNAME, no cookies, no rate limit, no recursion. ANY gets a
// HINFO record (RFC 8482). It binds no socket: they are handed in. A UDP socket
// bound to the wildcard address answers from whichever address the kernel picks,
// so hosts with several addresses need one socket for each.
package dnsserver
