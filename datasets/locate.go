package datasets

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math/bits"
	"slices"
)

// locator finds out where a file was changed, from a few numbers in the manifest.
// Every line gets a number, a hash of its index and its text. Two kinds of sums
// over these numbers are kept; a sum is an XOR.
//
// sums are one over all lines, and for each bit of the index one over the lines
// that have this bit set. When one line changes, all sums that it is in change by
// the same difference, and the bits of those sums spell its index: group testing,
// as in a Hamming code.
//
// blocks are the sums of at most maxBlocks runs of lines that follow each other.
// However much changed, the first one that differs holds the first changed line.
//
// It is an io.Writer; its memory does not grow with the file.
type locator struct {
	hash   hash.Hash // of the line under way
	buf    [sha256.Size]byte
	open   bool  // the line under way has begun
	index  int64 // of it, from 0
	sums   [1 + 63]uint64
	blocks []uint64
	size   int64 // lines in a block
}

// maxBlocks bounds the block sums in a manifest to 1 KiB per file.
const maxBlocks = 64

func newLocator() *locator { return &locator{hash: sha256.New(), size: 1} }

// Write takes the next bytes of the file.
func (l *locator) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if !l.open {
			l.open = true
			l.hash.Reset()
			l.hash.Write(binary.BigEndian.AppendUint64(l.buf[:0], uint64(l.index)))
		}
		end := bytes.IndexByte(b, '\n') + 1
		if end == 0 {
			l.hash.Write(b)
			break
		}
		l.hash.Write(b[:end])
		l.endLine()
		b = b[end:]
	}
	return n, nil
}

func (l *locator) endLine() {
	number := binary.BigEndian.Uint64(l.hash.Sum(l.buf[:0]))
	l.sums[0] ^= number
	for rest := uint64(l.index); rest != 0; rest &= rest - 1 {
		l.sums[1+bits.TrailingZeros64(rest)] ^= number
	}
	if l.index == maxBlocks*l.size {
		l.blocks, l.size = halved(l.blocks), 2*l.size
	}
	if l.index%l.size == 0 {
		l.blocks = append(l.blocks, 0)
	}
	l.blocks[len(l.blocks)-1] ^= number
	l.open, l.index = false, l.index+1
}

// finish ends the file, whose last line may lack its line feed.
func (l *locator) finish() {
	if l.open {
		l.endLine()
	}
}

// rowSums is the sums in hexadecimal, as many as the number of lines needs.
func (l *locator) rowSums() string { return sumsText(l.sums[:l.needed()]) }

// blockSums is the blocks in hexadecimal.
func (l *locator) blockSums() string { return sumsText(l.blocks) }

func (l *locator) needed() int { return 1 + bits.Len64(uint64(max(l.index-1, 0))) }

// changed returns the line, from 1, that alone differs from what the row sums of
// as many lines were made of; not when several do.
func (l *locator) changed(rowSums string) (line int64, ok bool) {
	want := sumsOf(rowSums)
	if len(want) != l.needed() {
		return 0, false
	}
	all := l.sums[0] ^ want[0]
	var index int64
	for i := 1; i < len(want); i++ {
		switch l.sums[i] ^ want[i] {
		case 0:
		case all:
			index |= 1 << (i - 1)
		default:
			return 0, false
		}
	}
	return index + 1, all != 0 && index < l.index
}

// first returns the lines, from 1, among which is the first that differs from what
// the block sums of so many rows were made of. Lines beyond the end of the file
// are those that it lacks.
func (l *locator) first(blockSums string, rows int64) (from, to int64, ok bool) {
	size := int64(1)
	for (rows-1)/size >= maxBlocks {
		size *= 2
	}
	got, want := slices.Clone(l.blocks), sumsOf(blockSums)
	if rows < 1 || int64(len(want)) != (rows-1)/size+1 {
		return 0, 0, false
	}
	for n := l.size; n < size; n *= 2 {
		got = halved(got)
	}
	for ; size < l.size; size *= 2 {
		want = halved(want)
	}
	same := 0
	for same < min(len(got), len(want)) && got[same] == want[same] {
		same++
	}
	from = int64(same)*size + 1
	return from, min(from+size-1, max(rows, l.index)), same < max(len(got), len(want))
}

// halved joins neighbouring blocks in place.
func halved(blocks []uint64) []uint64 {
	half := blocks[:0]
	for i, sum := range blocks {
		if i%2 == 0 {
			half = append(half, sum)
		} else {
			half[i/2] ^= sum
		}
	}
	return half
}

func sumsText(sums []uint64) string {
	var b []byte
	for _, sum := range sums {
		b = binary.BigEndian.AppendUint64(b, sum)
	}
	return hex.EncodeToString(b)
}

// sumsOf reads what sumsText wrote; nil when it is something else.
func sumsOf(text string) []uint64 {
	b, err := hex.DecodeString(text)
	if err != nil || len(b)%8 != 0 {
		return nil
	}
	var sums []uint64
	for ; len(b) > 0; b = b[8:] {
		sums = append(sums, binary.BigEndian.Uint64(b))
	}
	return sums
}
