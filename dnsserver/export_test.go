package dnsserver

import "net/netip"

// ReplyUDP and ReplyTCP are what the server sends back for a message, nil for
// silence; TCP without the length in front.
func (s *Server) ReplyUDP(msg []byte, from netip.Addr) []byte { return s.reply(nil, msg, from, udp) }

// ReplyTCP: see ReplyUDP.
func (s *Server) ReplyTCP(msg []byte, from netip.Addr) []byte { return s.reply(nil, msg, from, tcp) }

// Break makes s panic whenever its table is used.
func (s *Snapshot) Break() *Snapshot {
	next := *s
	next.current.regions = nil
	return &next
}
