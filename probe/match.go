package probe

import (
	"bytes"
	"encoding/binary"

	"strandline/datasets"
	"strandline/probe/wire"
)

// receive finds the probe that a packet answers, and hands the outcome on.
func (r *run) receive(p *Packet) error {
	f, ours := r.match(p.Data)
	switch {
	case !ours:
		r.stats.Foreign++
	case f == nil || !r.genuine(f):
		r.stats.Spoofed++
	case f.state == answered:
		r.stats.Duplicates++
	case f.state == expired || p.Time.Sub(f.sent) > r.timeout():
		r.stats.Late++
	default:
		return r.answer(f, p)
	}
	return nil
}

// match decodes a packet and looks its probe up. It reports whether the packet
// names this instance at all; the probe is nil when it is unknown.
func (r *run) match(data []byte) (f *flight, ours bool) {
	if r.reply.Decode(data) != nil {
		return nil, false
	}
	switch q := &r.reply.Quoted; r.reply.Kind {
	case wire.KindEchoReply:
		return r.flights[flightKey{r.reply.Src, bySeq, r.reply.ICMPSeq}], r.ourID(r.reply.ICMPID)
	case wire.KindTimeExceeded, wire.KindUnreachable:
		switch {
		case !r.reply.HasQuote || !q.HasL4:
			return nil, false
		case q.Proto == wire.ProtoUDP:
			return r.flights[flightKey{q.Dst, byChecksum, q.Checksum}], r.ourPort(q.SrcPort)
		case q.Proto == wire.ProtoICMP || q.Proto == wire.ProtoICMPv6:
			return r.flights[flightKey{q.Dst, bySeq, q.ICMPSeq}], r.isEchoRequest(q) && r.ourID(q.ICMPID)
		}
	case wire.KindUDP:
		if r.ourPort(r.reply.DstPort) && r.dns.Decode(r.reply.Payload) == nil {
			return r.flights[flightKey{r.reply.Src, byDNSID, r.dns.ID}], true
		}
	}
	return nil, false
}

// ourPort reports whether probes leave from the UDP port.
func (r *run) ourPort(port uint16) bool {
	if r.spread != nil {
		return r.spread.used[port]
	}
	return port == r.sport
}

// ourID reports whether probes carry the ICMP identifier.
func (r *run) ourID(id uint16) bool {
	return id == r.id || r.spread != nil && id-r.id < maxIDs
}

func (r *run) isEchoRequest(h *wire.Header) bool {
	return h.Version == 4 && h.ICMPType == wire.ICMPEchoRequest || h.Version == 6 && h.ICMPType == wire.ICMPv6EchoRequest
}

// genuine reports whether r.reply answers f in every field that it repeats.
func (r *run) genuine(f *flight) bool {
	s, reply := &f.sample, &r.reply
	if reply.Dst != s.Src {
		return false
	}
	switch reply.Kind {
	case wire.KindEchoReply:
		return reply.ICMPID == s.ICMPID && f.carries(reply.Payload)
	case wire.KindUDP:
		return reply.SrcPort == s.Dport && reply.DstPort == s.Sport && r.dns.Answers(f.query)
	}
	q := &reply.Quoted
	if q.Src != s.Src || q.Version == 4 && q.ID != f.ipID {
		return false
	}
	if q.Proto == wire.ProtoUDP && (q.SrcPort != s.Sport || q.DstPort != s.Dport) {
		return false
	}
	if q.Proto != wire.ProtoUDP && (q.Checksum != s.ICMPSum || q.ICMPID != s.ICMPID) {
		return false
	}
	// Many routers quote no payload, or cut it; what is there must be ours.
	return s.Proto == datasets.ProtoDNS || len(reply.QuotedPayload) < tagEnd || f.began(reply.QuotedPayload)
}

// began reports whether a quoted payload is that of f, or the beginning of it with
// zeros after it, which routers that quote little pad with to put an extension
// behind it (RFC 4884 section 5.3).
func (f *flight) began(payload []byte) bool {
	var tag [8]byte
	binary.BigEndian.PutUint64(tag[:], f.tag)
	quoted := bytes.TrimRight(payload[tagOffset:tagEnd], "\x00")
	return bytes.HasPrefix(tag[:], quoted) && (len(quoted) > 0 || len(bytes.TrimRight(payload[:tagEnd], "\x00")) <= tagOffset)
}

// carries reports whether the payload has the tag of f.
func (f *flight) carries(payload []byte) bool {
	return len(payload) >= tagEnd && binary.BigEndian.Uint64(payload[tagOffset:]) == f.tag
}

// answer resolves f by r.reply.
func (r *run) answer(f *flight, p *Packet) error {
	s, reply := &f.sample, &r.reply
	switch {
	case reply.Kind == wire.KindTimeExceeded:
		s.Outcome = datasets.OutcomeTTLExceeded
	case reply.Kind == wire.KindUnreachable && reply.Src != s.Target:
		s.Outcome = datasets.OutcomeUnreachable
	default: // the target's own refusal is as good an answer as its echo
		s.Outcome = datasets.OutcomeReply
	}
	f.state = answered
	r.stats.Received++
	s.RTTNS = max(0, p.Time.Sub(f.sent).Nanoseconds())
	s.RxNS = s.TxNS + s.RTTNS
	s.Stamp = p.Stamp
	s.From, s.ReplyTTL = reply.Src, reply.TTL
	s.ICMPType, s.ICMPCode = reply.ICMPType, reply.ICMPCode
	if reply.HasQuote {
		s.QuotedTTL = reply.Quoted.TTL
	}
	if err := f.task.observe(*s, reply); err != nil {
		return err
	}
	r.schedule(f.task, r.Conn.Now())
	return nil
}
