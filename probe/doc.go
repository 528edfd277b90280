// Package probe measures: it sends probes through a [Conn], matches what comes
// back and turns each probe into one row.
//
// An [Engine] has four measurements. [Engine.Ping] measures round trips,
// [Engine.Trace] the path of one flow (Paris traceroute), [Engine.Paths] the paths
// of all flows and what balances them, [Engine.Catchment] the site of an anycast
// service that the vantage's queries land at.
//
//	engine := probe.Engine{Conn: conn, Vantage: "fra"}
//	err := engine.Ping(ctx, targets, probe.PingOptions{Count: 20}, func(s datasets.Sample) error {
//		fmt.Println(s.Target, s.Outcome, time.Duration(s.RTTNS))
//		return nil
//	})
//
// # Model
//
// One goroutine does everything, in one loop: send what is due, wait in
// Conn.Recv until the next packet is due or the oldest probe times out. All time
// comes from Conn.Now and from the packets, all chance from Engine.Rand. So on
// the simulator's clock the same seed gives the same rows in the same order, and
// a measurement of hours takes as long as its packets take to compute.
//
// Loss is data: a probe without an answer is a row with outcome timeout, and
// one that our own host refuses to send is a row with outcome send-error. An
// error means that the measurement as a whole could not be made.
//
// # Which answer belongs to which probe
//
// A probe carries the engine's instance (ICMP identifier or UDP source port), a
// number of its own (ICMP sequence, UDP checksum or DNS identifier) and 64
// random bits, as the IPv4 identification and in the payload. An answer counts
// when all of these that it echoes or quotes agree, and the addresses too. So
// engines side by side on one host do not take each other's answers, and an
// answer that was forged, comes from another address than the one asked, or
// quotes a rewritten packet, is counted but is no reply.
//
// # Politeness
//
// Packets are paced for the host as a whole and per /24 or /48, whatever the
// measurement; targets take turns in a random order, so that their shared
// routers see as little as possible at once; excluded networks are never
// probed; each ICMP and UDP probe says in its payload who sent it.
//
// It does not resolve names, choose targets or store rows.
package probe
