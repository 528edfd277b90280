package wire_test

import (
	"encoding/binary"
	"testing"

	"strandline/probe/wire"
)

// slowChecksum is the text of RFC 1071 section 1, word by word.
func slowChecksum(b []byte, initial uint16) uint16 {
	sum := uint32(initial)
	for i := 0; i < len(b); i += 2 {
		word := uint32(b[i]) << 8
		if i+1 < len(b) {
			word |= uint32(b[i+1])
		}
		sum += word
		if sum > 0xffff {
			sum = sum&0xffff + 1
		}
	}
	return ^uint16(sum)
}

func TestChecksumOfRFC1071(t *testing.T) {
	// The example of section 3: the sum of these octets is ddf2.
	b := unhex(t, "0001 f203 f4f5 f6f7")
	if got, want := wire.Sum(b, 0), uint16(0xddf2); got != want {
		t.Errorf("Sum = %#x, want %#x", got, want)
	}
	if got, want := wire.Checksum(b, 0), ^uint16(0xddf2); got != want {
		t.Errorf("Checksum = %#x, want %#x", got, want)
	}
}

func TestChecksumAgreesWithSlow(t *testing.T) {
	r := newRand(t)
	for range 20000 {
		b, initial := randBytes(r, r.IntN(70)), uint16(r.Uint32())
		if r.IntN(4) == 0 { // many carries
			for i := range b {
				b[i] = 0xff
			}
		}
		if got, want := wire.Checksum(b, initial), slowChecksum(b, initial); got != want {
			t.Fatalf("Checksum(%x, %#x) = %#x, want %#x", b, initial, got, want)
		}
	}
	long := make([]byte, 1<<20)
	for i := range long {
		long[i] = 0xff
	}
	if got, want := wire.Checksum(long, 0xffff), slowChecksum(long, 0xffff); got != want {
		t.Errorf("Checksum of a megabyte of ff = %#x, want %#x", got, want)
	}
}

func TestSumOfPiecesIsSumOfWhole(t *testing.T) {
	r := newRand(t)
	for range 2000 {
		b := randBytes(r, r.IntN(60))
		cut := r.IntN(len(b)/2+1) * 2
		got := wire.Sum(b[cut:], wire.Sum(b[:cut], 0))
		if want := wire.Sum(b, 0); got != want {
			t.Fatalf("Sum of %x cut at %d = %#x, want %#x", b, cut, got, want)
		}
	}
}

func TestUpdateChecksumAgreesWithRecount(t *testing.T) {
	// The example of RFC 1624 section 4, where its predecessor's equation fails.
	if got, want := wire.UpdateChecksum(0xdd2f, 0x5555, 0x3285), uint16(0x0000); got != want {
		t.Errorf("UpdateChecksum = %#x, want %#x", got, want)
	}
	r := newRand(t)
	for range 20000 {
		b := randBytes(r, 20)
		b[0] = 0x45 // never all zeros, as no IP header is
		sum := wire.Checksum(b, 0)
		at := 2 + 2*r.IntN(9)
		was, is := binary.BigEndian.Uint16(b[at:]), uint16(r.Uint32())
		binary.BigEndian.PutUint16(b[at:], is)
		if got, want := wire.UpdateChecksum(sum, was, is), wire.Checksum(b, 0); got != want {
			t.Fatalf("UpdateChecksum(%#x, %#x, %#x) = %#x, want %#x", sum, was, is, got, want)
		}
	}
}
