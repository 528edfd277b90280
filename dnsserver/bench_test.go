package dnsserver_test

import (
	"net/netip"
	"testing"
)

// BenchmarkReply is a query from octets to octets, without the socket.
func BenchmarkReply(b *testing.B) {
	srv := server(b, example(b))
	resolver := netip.MustParseAddr("203.0.113.5")
	for name, m := range map[string]message{
		"static":  query("www.example.org", 1, nil),
		"nx":      query("nx.example.org", 1, withOpt()),
		"steered": query("api.example.org", 1, withOpt(option(8, 0, 1, 24, 0, 203, 0, 113))),
	} {
		msg := m.pack()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				srv.ReplyUDP(msg, resolver)
			}
		})
	}
}
