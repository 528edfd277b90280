package datasets

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestLocatorFindsTheChangedLine changes one byte of one line at a time.
func TestLocatorFindsTheChangedLine(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 500 {
		lines := 1 + rng.IntN(200)
		var text []byte
		var starts []int
		for i := range lines {
			starts = append(starts, len(text))
			text = fmt.Appendf(text, "row %d %d\n", i%3, rng.IntN(4)) // equal lines happen
		}
		want := locate(text).rowSums()
		if line, ok := locateIn(text, want); ok {
			t.Fatalf("seed %d: an unchanged text of %d lines has line %d changed", seed, lines, line)
		}
		at := rng.IntN(lines)
		changed := bytes.Clone(text)
		changed[starts[at]+rng.IntN(3)] ^= 1
		if line, ok := locateIn(changed, want); !ok || line != int64(at+1) {
			t.Fatalf("seed %d: line %d of %d was changed, found %d, %v", seed, at+1, lines, line, ok)
		}
	}
}

// TestLocatorNamesNoLineForOtherChanges: it must not guess when a second line
// was changed too, in another way or in the same.
func TestLocatorNamesNoLineForOtherChanges(t *testing.T) {
	text := []byte("a\nbb\nccc\ndddd\neeeee\n")
	for name, changed := range map[string]string{
		"a line removed":        "a\nbb\nddd\neeeee\n",
		"two lines differ":      "X\nbb\nccc\nYYYY\neeeee\n",
		"two lines swapped":     "a\nccc\nbb\ndddd\neeeee\n",
		"all lines differ":      "b\ncb\ndcc\neddd\nfeeee\n",
		"four lines differ":     "ax\nbbx\ncccx\nddddx\neeeee\n",
		"many more lines added": "a\nbb\nccc\ndddd\neeeee\nf\ng\nh\ni\n",
	} {
		if line, ok := locateIn([]byte(changed), locate(text).rowSums()); ok {
			t.Errorf("%s: found line %d", name, line)
		}
	}
}

// TestLocatorNamesTheFirstBlock damages texts in all ways and compares the block
// with the first line that differs, found by comparing the texts.
func TestLocatorNamesTheFirstBlock(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 500 {
		before := make([]string, 1+rng.IntN(1<<rng.IntN(10)))
		for i := range before {
			before[i] = fmt.Sprintf("row %d\n", rng.IntN(9))
		}
		after := damaged(rng, before)
		first := 0 // the first line that differs, from 0
		for first < min(len(before), len(after)) && before[first] == after[first] {
			first++
		}
		want := locate([]byte(strings.Join(before, "")))
		got := locate([]byte(strings.Join(after, "")))
		from, to, ok := got.first(want.blockSums(), want.index)
		if same := slices.Equal(before, after); same == ok {
			t.Fatalf("seed %d: the same: %v, but a block was found: %v", seed, same, ok)
		} else if same {
			continue
		}
		size, most := int64(1), int64(max(len(before), len(after)))
		for size*maxBlocks < most {
			size *= 2
		}
		if line := int64(first + 1); from > line || to < line || to-from >= size || to > most {
			t.Fatalf("seed %d: line %d of %d differs, found %d to %d", seed, line, most, from, to)
		}
	}
}

// damaged returns a copy of lines with up to three changes.
func damaged(rng *rand.Rand, lines []string) []string {
	lines = slices.Clone(lines)
	for range rng.IntN(4) {
		if len(lines) == 0 {
			break
		}
		at, other := rng.IntN(len(lines)), rng.IntN(len(lines))
		switch rng.IntN(5) {
		case 0:
			lines[at] = "other\n"
		case 1:
			lines = slices.Delete(lines, at, at+1)
		case 2:
			lines = slices.Insert(lines, at, "new\n")
		case 3:
			lines[at], lines[other] = lines[other], lines[at]
		case 4:
			lines = lines[:at]
		}
	}
	return lines
}

// TestLocatorSumsAsDocumented computes the sums of 130 lines in the way that
// docs/formats.md describes.
func TestLocatorSumsAsDocumented(t *testing.T) {
	var text []byte
	sums, blocks := make([]uint64, 1+8), make([]uint64, 33) // 129 is 8 bits; 130 lines in blocks of 4
	for i := range 130 {
		line := fmt.Appendf(nil, "line %d\n", i)
		text = append(text, line...)
		hash := sha256.Sum256(append([]byte{0, 0, 0, 0, 0, 0, 0, byte(i)}, line...))
		number := binary.BigEndian.Uint64(hash[:])
		sums[0] ^= number
		for b := range 8 {
			if i>>b&1 == 1 {
				sums[1+b] ^= number
			}
		}
		blocks[i/4] ^= number
	}
	l := locate(text)
	if got, want := l.rowSums(), sumsText(sums); got != want {
		t.Errorf("row sums %s, want %s", got, want)
	}
	if got, want := l.blockSums(), sumsText(blocks); got != want {
		t.Errorf("block sums %s, want %s", got, want)
	}
}

func TestLocatorSurvivesAnySums(t *testing.T) {
	l := locate([]byte("a\nb\n"))
	for _, rows := range []int64{-1 << 63, -1, 0, 1, 3, 1<<63 - 1} {
		for _, text := range []string{"", "xyz", "00", strings.Repeat("0", 16*maxBlocks)} {
			if from, to, ok := l.first(text, rows); ok && (from < 1 || to < from) {
				t.Errorf("%d rows, %q: %d to %d", rows, text, from, to)
			}
			if line, ok := l.changed(text); ok {
				t.Errorf("%q: line %d", text, line)
			}
		}
	}
}

func locate(text []byte) *locator {
	l := newLocator()
	for chunk := range bytes.SplitAfterSeq(text, []byte("w")) { // any cuts
		l.Write(chunk)
	}
	l.finish()
	return l
}

func locateIn(text []byte, want string) (int64, bool) { return locate(text).changed(want) }
