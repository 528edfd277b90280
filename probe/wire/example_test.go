package wire_test

import (
	"fmt"
	"net/netip"

	"strandline/probe/wire"
)

// A probe of a path, and the answer of the router where its TTL ran out.
func Example() {
	me, target, hop := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("203.0.113.9")
	text := wire.AppendIdentity([]byte{0, 0}, "strandline; ops@example.org", 64)
	probe, err := wire.AppendEcho(nil, wire.IP{Src: me, Dst: target, TTL: 1}, wire.Echo{ID: 24000, Seq: 3, Checksum: 0xbeef, Payload: text})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := wire.AppendError(nil, wire.IP{Src: hop, Dst: me, TTL: 64}, wire.TimeExceeded, probe, wire.MinimalQuote)
	if err != nil {
		fmt.Println(err)
		return
	}
	var r wire.Reply
	if err := r.Decode(answer); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Kind, "from", r.Src, "about", r.Quoted.ICMPSeq, fmt.Sprintf("%#x", r.Quoted.L4Word()))
	// Output: time exceeded from 203.0.113.9 about 3 0x800beef
}
