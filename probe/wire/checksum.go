package wire

import (
	"encoding/binary"
	"net/netip"
)

// Sum adds the 16-bit big-endian words of b to initial, in one's complement
// arithmetic folded to 16 bits (RFC 1071 section 4.1). An odd last octet counts
// as the high half of a word, so only the last piece of a message may be odd.
func Sum(b []byte, initial uint16) uint16 {
	// Adding 32-bit words is the same as adding their halves, because 2^16 is 1
	// modulo 2^16-1; the 64-bit accumulator has room for the carries of 16 GB.
	acc := uint64(initial)
	for ; len(b) >= 8; b = b[8:] {
		w := binary.BigEndian.Uint64(b)
		acc += w>>32 + w&0xffffffff
	}
	for ; len(b) >= 2; b = b[2:] {
		acc += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		acc += uint64(b[0]) << 8
	}
	return fold(acc)
}

// Checksum returns the Internet checksum of b, begun at the sum initial (RFC
// 1071): the value for the checksum field when that field in b is zero, and 0
// when b contains a right one.
func Checksum(b []byte, initial uint16) uint16 {
	return ^Sum(b, initial)
}

// UpdateChecksum returns the checksum after one 16-bit word that it covers has
// changed from old to new (RFC 1624, equation 3).
func UpdateChecksum(sum, old, new uint16) uint16 {
	return ^fold(uint64(^sum) + uint64(^old) + uint64(new))
}

// PseudoSum returns the sum of the pseudo-header that UDP, TCP and ICMPv6
// checksums begin with; length is that of the upper-layer header and data in
// octets (RFC 768, RFC 8200 section 8.1).
func PseudoSum(src, dst netip.Addr, proto uint8, length int) uint16 {
	acc := addrSum(src) + addrSum(dst) + uint64(proto) + uint64(length)
	return fold(acc)
}

// addrSum returns the unfolded sum of an address. The four octets of an IPv4
// address are read from its IPv4-mapped form, which needs no second case.
func addrSum(a netip.Addr) uint64 {
	b := a.As16()
	low := binary.BigEndian.Uint64(b[8:])
	if a.Is4() {
		return low & 0xffffffff
	}
	high := binary.BigEndian.Uint64(b[:8])
	return high>>32 + high&0xffffffff + low>>32 + low&0xffffffff
}

// fold adds the carries back in until the sum fits 16 bits.
func fold(acc uint64) uint16 {
	acc = acc>>32 + acc&0xffffffff
	acc = acc>>16 + acc&0xffff
	acc = acc>>16 + acc&0xffff
	acc = acc>>16 + acc&0xffff
	return uint16(acc)
}

// compensate returns the word that makes a message sum up to ^want when the
// rest of it sums up to sum. Zero has two forms in one's complement arithmetic;
// it returns the plain one.
func compensate(sum, want uint16) uint16 {
	c := fold(uint64(^want) + uint64(^sum))
	if c == 0xffff {
		return 0
	}
	return c
}
