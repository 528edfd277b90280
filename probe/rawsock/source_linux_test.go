package rawsock

import (
	"testing"
	"time"

	"strandline/datasets"
)

// A kernel stamp keeps its age across the two clocks; one that the clock's steps
// have made absurd is not used.
func TestDate(t *testing.T) {
	wall := time.Unix(1_800_000_000, 0)
	conn := wall.Add(-3 * time.Hour) // opened before a step of three hours
	for _, c := range []struct {
		name  string
		stamp time.Time
		want  time.Time
		by    datasets.Stamp
	}{
		{"fresh", wall.Add(-20 * time.Microsecond), conn.Add(-20 * time.Microsecond), datasets.StampKernel},
		{"queued for a second", wall.Add(-time.Second), conn.Add(-time.Second), datasets.StampKernel},
		{"no stamp", time.Time{}, conn, datasets.StampUser},
		{"clock stepped back", wall.Add(time.Second), conn, datasets.StampUser},
		{"clock stepped forward", wall.Add(-time.Hour), conn, datasets.StampUser},
	} {
		if got, by := date(c.stamp, wall, conn); !got.Equal(c.want) || by != c.by {
			t.Errorf("%s: got %v by %s, want %v by %s", c.name, got, by, c.want, c.by)
		}
	}
}
