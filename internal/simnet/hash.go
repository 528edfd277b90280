package simnet

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"net/netip"
	"slices"

	"strandline/probe/wire"
)

// fields is a set of header fields.
type fields uint16

const (
	bitSrc fields = 1 << iota
	bitDst
	bitProto
	bitSport
	bitDport
	bitTOS
	bitFlowLabel
	bitICMPID
	bitICMPChecksum

	fiveTuple = bitSrc | bitDst | bitProto | bitSport | bitDport
)

// fieldNames lists the header fields in the order of the bits.
func fieldNames() []string {
	return []string{FieldSrc, FieldDst, FieldProto, FieldSport, FieldDport, FieldTOS, FieldFlowLabel, FieldICMPID, FieldICMPChecksum}
}

// recipe is a Hash made ready.
type recipe struct {
	fields fields
	spread spread
	seed   uint64
}

// spread is how a balancer chooses.
type spread uint8

const (
	spreadFlow spread = iota
	spreadRandom
	spreadTurns
)

func newSpread(s string) spread {
	return map[string]spread{SpreadPacket: spreadRandom, SpreadRoundRobin: spreadTurns}[s]
}

// names lists the fields of a set in the order of the bits.
func (f fields) names() []string {
	var names []string
	for i, name := range fieldNames() {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// fieldsOf returns the fields that a packet has; the others count as zero.
func fieldsOf(h *wire.Header) fields {
	f := bitSrc | bitDst | bitProto | bitTOS
	if h.Version == 6 {
		f |= bitFlowLabel
	}
	switch {
	case h.Proto == wire.ProtoUDP || h.Proto == wire.ProtoTCP:
		f |= bitSport | bitDport
	case h.Proto == wire.ProtoICMP && (h.ICMPType == wire.ICMPEchoRequest || h.ICMPType == wire.ICMPEchoReply),
		h.Proto == wire.ProtoICMPv6 && (h.ICMPType == wire.ICMPv6EchoRequest || h.ICMPType == wire.ICMPv6EchoReply):
		f |= bitICMPID | bitICMPChecksum
	case h.Proto == wire.ProtoICMP || h.Proto == wire.ProtoICMPv6:
		f |= bitICMPChecksum
	}
	return f
}

// newRecipe fills in the defaults that Hash names.
func newRecipe(h Hash, worldSeed uint64, name string) recipe {
	r := recipe{seed: h.Seed, spread: newSpread(h.Spread)}
	for _, f := range h.Fields {
		r.fields |= 1 << slices.Index(fieldNames(), f)
	}
	if r.fields == 0 {
		r.fields = fiveTuple
	}
	if r.seed == 0 {
		sum := fnv.New64a()
		sum.Write([]byte(name))
		r.seed = mix(sum.Sum64(), worldSeed)
	}
	return r
}

// choose maps a header to [0, n): the fields are absorbed one after the other, in
// the order of the bits, and the hash is scaled by its high bits.
func (r recipe) choose(h *wire.Header, n uint32) uint32 {
	x := r.seed
	if r.fields&bitSrc != 0 {
		x = mixAddr(x, h.Src)
	}
	if r.fields&bitDst != 0 {
		x = mixAddr(x, h.Dst)
	}
	if r.fields == fiveTuple { // by far the most frequent
		x = mix(mix(mix(x, uint64(h.Proto)), uint64(h.SrcPort)), uint64(h.DstPort))
		hi, _ := bits.Mul64(x, uint64(n))
		return uint32(hi)
	}
	words := [...]uint64{
		uint64(h.Proto), uint64(h.SrcPort), uint64(h.DstPort), uint64(h.TOS), uint64(h.FlowLabel),
		uint64(h.ICMPID), uint64(icmpChecksum(h)),
	}
	for i, w := range words {
		if r.fields&(bitProto<<i) != 0 {
			x = mix(x, w)
		}
	}
	hi, _ := bits.Mul64(x, uint64(n))
	return uint32(hi)
}

// icmpChecksum is the transport checksum where that is ICMP's.
func icmpChecksum(h *wire.Header) uint16 {
	if h.Proto == wire.ProtoICMP || h.Proto == wire.ProtoICMPv6 {
		return h.Checksum
	}
	return 0
}

// mixAddr absorbs an address, IPv4 in its IPv4-mapped form.
func mixAddr(x uint64, a netip.Addr) uint64 {
	if a.Is4() {
		return mix(mix(x, 0), 0xffff<<32|uint64(key4(a)))
	}
	b := a.As16()
	return mix(mix(x, binary.BigEndian.Uint64(b[:8])), binary.BigEndian.Uint64(b[8:]))
}

// mix absorbs a word into the state by the finalizer of SplitMix64 (Steele, Lea,
// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): each
// bit of the word moves each bit of the result with probability near 1/2, so
// that ports that differ by one part ways as surely as random ones.
func mix(x, word uint64) uint64 {
	x = (x ^ word) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
