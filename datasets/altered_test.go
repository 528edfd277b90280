package datasets_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"strandline/datasets"
)

// targetSet writes a data set of n targets and one vantage.
func targetSet(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "set")
	w, err := datasets.Create(dir, manifest)
	if err != nil {
		t.Fatal(err)
	}
	var rows []datasets.Target
	for i := range n {
		rows = append(rows, datasets.Target{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), Name: fmt.Sprintf("t%d", i%3)})
	}
	if err := errors.Join(datasets.Append(w, rows...), datasets.Append(w, vantages[0]), w.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// editRows changes the lines of targets.jsonl, which keep their line feeds.
func editRows(edit func(lines []string) []string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, "targets.jsonl")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := edit(slices.Collect(strings.Lines(string(b))))
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// editFile changes what the manifest says of targets.jsonl.
func editFile(edit func(f *datasets.FileInfo)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		set, err := datasets.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		edit(&set.Manifest.Files[0])
		b, err := json.MarshalIndent(set.Manifest, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "manifest.json"), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// rename changes the names of the rows from and up to to, counted from 1, in the
// same way, so that each is still a row.
func rename(from, to int) func(*testing.T, string) {
	return editRows(func(lines []string) []string {
		for i := from - 1; i < to; i++ {
			lines[i] = strings.Replace(lines[i], `"name":"t`, `"name":"u`, 1)
		}
		return lines
	})
}

// TestAltered changes a data set after it was written in such a way that its rows
// stay valid. Validate says where; and all who read refuse it, with the first of
// what Validate says.
func TestAltered(t *testing.T) {
	const (
		rows  = "targets.jsonl"
		moved = "rows were changed, removed, added or moved"
		blame = ", which is as it was written; the manifest was changed after it was written"
	)
	for _, tc := range []struct {
		name   string
		rows   int
		damage func(t *testing.T, dir string)
		want   []string // how the lines start
	}{
		{"one row", 2000, rename(1234, 1234), []string{rows + ":1234: not the row that was written (by row_sums of manifest.json)", rows + ": the SHA-256"}},
		{"only row", 1, rename(1, 1), []string{rows + ":1: not the row", rows + ": the SHA-256"}},
		{"all rows alike", 8, rename(1, 8), []string{rows + ":1: " + moved + " from this line on (by block_sums of manifest.json)", rows + ": the SHA-256"}},
		{"some rows of many", 3000, rename(1100, 1200), []string{rows + ": " + moved + ", the first between lines 1089 and 1152 (by block_sums", rows + ": the SHA-256"}},
		{"swapped", 40, editRows(func(l []string) []string { l[5], l[30] = l[30], l[5]; return l }), []string{rows + ":6: " + moved, rows + ": the SHA-256"}},
		{"removed", 40, editRows(func(l []string) []string { return slices.Delete(l, 6, 7) }),
			[]string{rows + ":7: " + moved, rows + ": the number of rows is 39, but manifest.json says 40", rows + ": the size", rows + ": the SHA-256"}},
		{"last removed", 100, editRows(func(l []string) []string { return l[:99] }),
			[]string{rows + ": " + moved + ", the first between lines 99 and 100", rows + ": the number of rows is 99", rows + ": the size", rows + ": the SHA-256"}},
		{"all removed", 100, editRows(func(l []string) []string { return nil }),
			[]string{rows + ": " + moved + ", the first between lines 1 and 2", rows + ": the number of rows is 0", rows + ": the size in bytes is 0", rows + ": the SHA-256"}},
		{"repeated", 200, editRows(func(l []string) []string { return slices.Concat(l, l) }),
			[]string{rows + ": " + moved + ", the first between lines 201 and 208", rows + ": the number of rows is 400", rows + ": the size", rows + ": the SHA-256"}},
		{"rewritten for Windows", 3, editRows(func(l []string) []string {
			return strings.SplitAfter(strings.ReplaceAll(strings.Join(l, ""), "\n", "\r\n"), "\n")
		}),
			[]string{rows + ":1: " + moved, rows + ": the size", rows + ": the SHA-256"}},
		{"no sums", 3, func(t *testing.T, dir string) {
			rename(1, 2)(t, dir)
			editFile(func(f *datasets.FileInfo) { f.RowSums, f.BlockSums = "", "x" })(t, dir)
		}, []string{rows + ": " + moved + "\n", rows + ": the SHA-256"}},
		{"manifest: rows", 3, editFile(func(f *datasets.FileInfo) { f.Rows = 9 }), []string{"manifest.json:17: files[0].rows: 9, but it is 3 for " + rows + blame}},
		{"manifest: bytes", 3, editFile(func(f *datasets.FileInfo) { f.Bytes = 9 }), []string{"manifest.json:18: files[0].bytes: 9, but it is "}},
		{"manifest: sha256", 3, editFile(func(f *datasets.FileInfo) { f.SHA256 = strings.Repeat("0", 64) }),
			[]string{"manifest.json:19: files[0].sha256: not that of " + rows + blame}},
		{"manifest: row_sums", 3, editFile(func(f *datasets.FileInfo) { f.RowSums = f.RowSums[1:] + "0" }), []string{"manifest.json:20: files[0].row_sums: not those of " + rows + blame}},
		{"manifest: block_sums", 3, editFile(func(f *datasets.FileInfo) { f.BlockSums = "" }), []string{"manifest.json:21: files[0].block_sums: not those of " + rows + blame}},
		{"manifest: two keys", 3, editFile(func(f *datasets.FileInfo) { f.Rows, f.SHA256 = 9, strings.Repeat("0", 64) }),
			[]string{"manifest.json:17: files[0].rows: 9", "manifest.json:19: files[0].sha256: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := targetSet(t, tc.rows)
			tc.damage(t, dir)
			err := datasets.Validate(dir)
			if err == nil {
				t.Fatal("Validate accepts it")
			}
			got := strings.SplitAfter(strings.ReplaceAll(err.Error(), dir+"/", "")+"\n", "\n")
			if len(got)-1 != len(tc.want) {
				t.Errorf("Validate: %d faults, want %d:\n%v", len(got)-1, len(tc.want), err)
			}
			for i, want := range tc.want {
				if i < len(got) && !strings.HasPrefix(got[i], want) {
					t.Errorf("Validate: got  %s want %s", got[i], want)
				}
			}
			refused(t, dir, strings.TrimSpace(tc.want[0]))
		})
	}
}

// refused checks that reading the targets in any way ends with a problem that
// starts with want and says what to do.
func refused(t *testing.T, dir, want string) {
	t.Helper()
	set, err := datasets.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ = strings.Cut(want, "; ")
	check := func(how string, err error) {
		t.Helper()
		var p *datasets.Problem
		if !errors.As(err, &p) {
			t.Fatalf("%s: got %v, want a problem", how, err)
		}
		if got := p.Error(); !strings.HasPrefix(got, filepath.Join(dir, want)) || !strings.HasSuffix(got, "; run strandline dataset validate "+dir) {
			t.Errorf("%s: got %s, want %s", how, got, want)
		}
	}
	_, err = datasets.All[datasets.Target](set)
	check("All", err)
	_, err = set.Info()
	check("Info", err)
	var last error
	for _, last = range datasets.Rows[datasets.Target](set) {
	}
	check("Rows", last)
	if _, err := datasets.All[datasets.Vantage](set); err != nil {
		t.Errorf("All of the rows that were not changed: %v", err)
	}
}

// TestFaultyRowsSayEnough: rows that are at fault themselves are what to report.
func TestFaultyRowsSayEnough(t *testing.T) {
	dir := targetSet(t, 3)
	editRows(func(l []string) []string { l[1] = "{}\n"; return l })(t, dir)
	set, err := datasets.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = datasets.All[datasets.Target](set)
	if got, want := fmt.Sprint(err), filepath.Join(dir, "targets.jsonl")+":2:1: addr: missing"; !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFileIsGone(t *testing.T) {
	dir := targetSet(t, 3)
	if err := os.Remove(filepath.Join(dir, "targets.jsonl")); err != nil {
		t.Fatal(err)
	}
	set, err := datasets.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := datasets.All[datasets.Target](set); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("All: got %v", err)
	}
	if _, err := set.Info(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Info: got %v", err)
	}
}
