package datasets_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"strandline/datasets"
)

var manifest = datasets.Manifest{
	Source: "world earth", Seed: 1<<64 - 1, CommandLine: []string{"strandline", "demo", "--seed", "7"},
	Created: time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC), Tool: "strandline test",
}

// writeSet writes a data set with a row of every kind at dir.
func writeSet(t *testing.T, dir string) {
	t.Helper()
	w, err := datasets.Create(dir, manifest)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := errors.Join(
		datasets.Append(w, samples[:3]...),
		datasets.Append(w, vantages...), datasets.Append(w, frontends...), datasets.Append(w, regions...),
		datasets.Append(w, targets...), datasets.Append(w, hops...), datasets.Append(w, links...),
		datasets.Append(w, balancers...), datasets.Append(w, catchments...), datasets.Append(w, latencies...), datasets.Append(w, allocations...),
		datasets.Append(w, samples[3:]...), datasets.Append[datasets.Sample](w),
		w.Close(),
	); err != nil {
		t.Fatal(err)
	}
}

// names lists what is in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	return got
}

func TestDataSet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "set")
	writeSet(t, dir)
	want := []string{"allocations.jsonl", "balancers.jsonl", "catchments.jsonl", "frontends.jsonl", "hops.jsonl", "latencies.jsonl", "links.jsonl",
		"manifest.json", "regions.jsonl", "samples.jsonl", "targets.jsonl", "vantages.jsonl"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if got := names(t, filepath.Dir(dir)); !slices.Equal(got, []string{"set"}) {
		t.Errorf("beside the data set stands %v", got)
	}
	if err := datasets.Validate(dir); err != nil {
		t.Errorf("valid data set: %v", err)
	}
	set, err := datasets.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := set.Manifest
	if m.SchemaVersion != datasets.SchemaVersion || len(m.Files) != 11 {
		t.Errorf("manifest %+v", m)
	}
	m.SchemaVersion, m.Files = 0, nil
	if text(m) != text(manifest) {
		t.Errorf("manifest\n%+v, want\n%+v", m, manifest)
	}
	sameRows(t, set, vantages)
	sameRows(t, set, samples)
	sameRows(t, set, latencies)
}

func sameRows[R datasets.Row](t *testing.T, set *datasets.Set, want []R) {
	t.Helper()
	got, err := datasets.All[R](set)
	if err != nil {
		t.Error(err)
	}
	sameText(t, want[0].Kind(), texts(got), texts(want))
}

func TestInfo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	writeSet(t, dir)
	set, err := datasets.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := set.Info()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.First, time.Unix(0, 0).UTC(); !got.Equal(want) {
		t.Errorf("first %v, want %v", got, want)
	}
	if got, want := info.Last, time.Unix(0, 1700000000000000001).UTC(); !got.Equal(want) {
		t.Errorf("last %v, want %v", got, want)
	}
	i := slices.IndexFunc(info.Files, func(f datasets.FileInfo) bool { return f.Kind == "sample" })
	stat, err := os.Stat(filepath.Join(dir, "samples.jsonl"))
	if err != nil || info.Files[i].Rows != 4 || info.Files[i].Bytes != stat.Size() {
		t.Errorf("samples %+v, want 4 rows, %d bytes (%v)", info.Files[i], stat.Size(), err)
	}
}

func TestEmptyDataSet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	w, err := datasets.Create(dir, datasets.Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := datasets.Validate(dir); err != nil {
		t.Error(err)
	}
	set, err := datasets.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := datasets.All[datasets.Sample](set); rows != nil || err != nil {
		t.Errorf("samples %v, %v, want none", rows, err)
	}
	if info, err := set.Info(); err != nil || !info.First.IsZero() || !info.Last.IsZero() {
		t.Errorf("info %+v, %v", info, err)
	}
}

// TestSameRowsSameBytes writes twice and compares every file.
func TestSameRowsSameBytes(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	writeSet(t, a)
	writeSet(t, b)
	for _, name := range names(t, a) {
		x, errX := os.ReadFile(filepath.Join(a, name))
		y, errY := os.ReadFile(filepath.Join(b, name))
		if errX != nil || errY != nil || string(x) != string(y) {
			t.Errorf("%s differs (%v, %v)", name, errX, errY)
		}
	}
}

func TestCreateKeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir() // an empty directory is fine
	writeSet(t, dir)
	before := names(t, dir)
	if _, err := datasets.Create(dir, manifest); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("create over a data set: %v", err)
	}
	if got := names(t, dir); !slices.Equal(got, before) {
		t.Errorf("now holds %v", got)
	}
	file := filepath.Join(dir, "manifest.json")
	if _, err := datasets.Create(file, manifest); err == nil {
		t.Error("created over a file")
	}
}

func TestNothingIsThereBeforeClose(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "set")
	w, err := datasets.Create(dir, manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := datasets.Append(w, targets...); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before Close: %v", err)
	}
	w.Abort()
	w.Abort()
	if got := names(t, parent); len(got) != 0 {
		t.Errorf("after Abort: %v", got)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close after Abort: %v", err)
	}
	if err := datasets.Append(w, targets...); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Append after Abort: %v", err)
	}
}

// TestCloseFails has something appear at the place in the meantime.
func TestCloseFails(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "set")
	w, err := datasets.Create(dir, manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := datasets.Append(w, targets...); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(dir, 0o777), os.WriteFile(filepath.Join(dir, "mine"), nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err == nil {
		t.Error("replaced a directory that is not empty")
	}
	if got := names(t, parent); !slices.Equal(got, []string{"set"}) {
		t.Errorf("beside it stands %v", got)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("it holds %v", got)
	}
}

func TestAppendIsAllOrNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	w, err := datasets.Create(dir, manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := datasets.Append(w, targets...); err != nil {
		t.Fatal(err)
	}
	err = datasets.Append(w, datasets.Target{Addr: v4}, datasets.Target{})
	if err == nil || !strings.HasPrefix(err.Error(), "append target 4: addr: ") {
		t.Errorf("got %v, want an error about target 4", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	set, err := datasets.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	sameRows(t, set, targets)
}

// TestCorrupted damages copies of a data set and looks for what Validate says.
func TestCorrupted(t *testing.T) {
	replace := func(name, old, new string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(b), old) {
				t.Fatalf("%s does not hold %q (%v)", name, old, err)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(b), old, new, 1)), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   []string // parts of the message, in order
	}{
		{"row", replace("samples.jsonl", `"rtt_ns":4,`, `"rtt_ns":5,`),
			[]string{"samples.jsonl:2:216: rtt_ns: 5 is not rx_ns - tx_ns", "samples.jsonl: the SHA-256 checksum is "}},
		{"two files", func(t *testing.T, dir string) {
			replace("hops.jsonl", `"ttl":3`, `"ttl":0`)(t, dir)
			replace("links.jsonl", `{`, `[`)(t, dir)
		}, []string{"hops.jsonl:1:", ": ttl: 0", "hops.jsonl: the SHA-256", "links.jsonl:1:1: want an object", "links.jsonl: the SHA-256"}},
		{"still a row", replace("targets.jsonl", "192.0.2.1", "192.0.2.2"), []string{"targets.jsonl:1: not the row that was written", "targets.jsonl: the SHA-256 checksum is "}},
		{"row added", replace("links.jsonl", "{", "{}\n{"),
			[]string{"links.jsonl:1:1: vantage: missing", "the number of rows is 2, but manifest.json says 1", "the size in bytes is ", "the SHA-256"}},
		{"cut off", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "hops.jsonl"), 200); err != nil {
				t.Fatal(err)
			}
		}, []string{"hops.jsonl:2:", "the file ends within a line", "the size in bytes is 200,", "the SHA-256"}},
		{"file gone", remove("hops.jsonl"), []string{"hops.jsonl: no such file"}},
		{"file added", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}, []string{"notes.txt: not listed in manifest.json"}},
		{"many rows", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "hops.jsonl"), []byte(strings.Repeat("{}\n", 60)), 0o666); err != nil {
				t.Fatal(err)
			}
		}, []string{"hops.jsonl:50:1: vantage: missing", "and 10 more", "the number of rows is 60"}},
		{"no manifest", remove("manifest.json"), []string{"not a data set: ", "manifest.json"}},
		{"version", replace("manifest.json", `"schema_version": 1,`, "\"schema_version\": 2,\n  \"news\": 1,"),
			[]string{"manifest.json:2: schema_version: 2, but this program reads 1; use "}},
		{"unknown key", replace("manifest.json", `"source"`, `"sauce"`), []string{"manifest.json:3:3: sauce: unknown key"}},
		{"missing key", replace("manifest.json", `"source": "world earth",`, ""), []string{"manifest.json:1:1: source: missing"}},
		{"key twice", replace("manifest.json", `"source"`, "\"seed\": 1,\n  \"source\""), []string{"manifest.json:5:3: seed: key occurs twice"}},
		{"nested key", replace("manifest.json", `"kind"`, `"sort"`), []string{"manifest.json:16:7: files[0].sort: unknown key"}},
		{"junk", replace("manifest.json", "\n}\n", "\n}\n}\n"), []string{"more text after the manifest"}},
		{"time", replace("manifest.json", "2026-01-02T", "2026-13-02T"), []string{":11:14: created: want a time such as "}},
		{"not UTF-8", replace("manifest.json", "world", "w\xf6rld"), []string{"manifest.json:3:15: not UTF-8"}},
		{"kind", replace("manifest.json", `"allocation"`, `"ration"`), []string{`manifest.json:16: files[0].kind: "ration" is not a kind of row`}},
		{"path", replace("manifest.json", `"hops.jsonl"`, `"../hops.jsonl"`), []string{`files[4].path: "../hops.jsonl" is not the file of that kind; write hops.jsonl`}},
		{"twice", func(t *testing.T, dir string) {
			replace("manifest.json", `"hops.jsonl"`, `"links.jsonl"`)(t, dir)
			replace("manifest.json", `"hop"`, `"link"`)(t, dir)
		}, []string{"files[6].path: links.jsonl is listed twice"}},
		{"checksum", replace("manifest.json", `"sha256": "`, `"sha256": "x`), []string{"files[0].sha256: not 64 hexadecimal digits"}},
		{"count", replace("manifest.json", `"rows": `, `"rows": -`), []string{"files[0].rows: a negative count"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "set")
			writeSet(t, dir)
			tc.damage(t, dir)
			err := datasets.Validate(dir)
			if err == nil {
				t.Fatal("accepted")
			}
			rest := err.Error()
			for _, part := range tc.want {
				_, after, ok := strings.Cut(rest, part)
				if !ok {
					t.Fatalf("no %q in\n%v", part, err)
				}
				rest = after
			}
		})
	}
}
