package datasets

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc64"
	"math/bits"
)

// locator finds out which row of a file was changed, from a few numbers in the
// manifest. It keeps the XOR of the CRC-64 of all lines, and for each bit of the
// line's index the XOR over the lines that have this bit set. When one line
// changes, all sums that it is in change by the same difference, and the bits of
// those sums spell its index: group testing, as in a Hamming code. It is an
// io.Writer; its memory does not grow with the file.
type locator struct {
	table *crc64.Table
	line  uint64 // CRC of the line under way
	index int64  // of it, from 0
	sums  [1 + 63]uint64
}

func newLocator() *locator { return &locator{table: crc64.MakeTable(crc64.ECMA)} }

// Write takes the next bytes of the file.
func (l *locator) Write(b []byte) (int, error) {
	n, start := len(b), 0
	for i, c := range b {
		if c == '\n' {
			l.line = crc64.Update(l.line, l.table, b[start:i+1])
			l.endLine()
			start = i + 1
		}
	}
	l.line = crc64.Update(l.line, l.table, b[start:])
	return n, nil
}

func (l *locator) endLine() {
	l.sums[0] ^= l.line
	for rest := uint64(l.index); rest != 0; rest &= rest - 1 {
		l.sums[1+bits.TrailingZeros64(rest)] ^= l.line
	}
	l.line, l.index = 0, l.index+1
}

// text is the sums in hexadecimal, as many as the number of lines needs.
func (l *locator) text() string {
	var b []byte
	for _, sum := range l.sums[:l.needed()] {
		b = binary.BigEndian.AppendUint64(b, sum)
	}
	return hex.EncodeToString(b)
}

func (l *locator) needed() int { return 1 + bits.Len64(uint64(max(l.index-1, 0))) }

// changed returns the line, from 1, that alone differs from what want was made
// of; not when several do, or when lines were added or removed.
func (l *locator) changed(want string) (line int64, ok bool) {
	b, err := hex.DecodeString(want)
	if err != nil || len(b) != 8*l.needed() {
		return 0, false
	}
	all := l.sums[0] ^ binary.BigEndian.Uint64(b)
	var index int64
	for i := 1; i < l.needed(); i++ {
		switch l.sums[i] ^ binary.BigEndian.Uint64(b[8*i:]) {
		case 0:
		case all:
			index |= 1 << (i - 1)
		default:
			return 0, false
		}
	}
	return index + 1, all != 0 && index < l.index
}
