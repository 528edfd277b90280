package datasets

import (
	"bytes"
	"fmt"
	"math/rand/v2"
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
		want := locate(text)
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

// TestLocatorNamesNoLineForOtherChanges: it must not guess when lines went
// missing, or when a second line was changed in another way.
func TestLocatorNamesNoLineForOtherChanges(t *testing.T) {
	text := []byte("a\nbb\nccc\ndddd\neeeee\n")
	for name, changed := range map[string]string{
		"a line removed":   "a\nbb\nddd\neeeee\n",
		"a line added":     "a\nbb\nccc\ndddd\neeeee\nf\ng\nh\ni\n",
		"two lines differ": "X\nbb\nccc\nYYYY\neeeee\n",
		"no line feed":     "a\nbb\nccc\ndddd\neeeee",
	} {
		if line, ok := locateIn([]byte(changed), locate(text)); ok {
			t.Errorf("%s: found line %d", name, line)
		}
	}
}

func locate(text []byte) string {
	l := newLocator()
	for chunk := range bytes.SplitAfterSeq(text, []byte("w")) { // any cuts
		l.Write(chunk)
	}
	return l.text()
}

func locateIn(text []byte, want string) (int64, bool) {
	l := newLocator()
	l.Write(text)
	return l.changed(want)
}
