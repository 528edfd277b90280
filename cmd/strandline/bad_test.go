package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"strandline/datasets"
)

// inputFault calls the program and returns its complaint, line by line, with the
// folder of the file at fault taken out. It requires the exit code, and that each
// line names a file in that folder and the line in it.
func inputFault(t *testing.T, code int, file string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if got := run(args, strings.NewReader(""), &stdout, &stderr); got != code {
		t.Errorf("got exit code %d, want %d", got, code)
	}
	if strings.Count(stdout.String(), "\n") > 1 { // a verdict at most
		t.Errorf("got standard output\n%s", stdout.String())
	}
	text := strings.TrimPrefix(strings.TrimSuffix(stderr.String(), "\n"), "strandline: ")
	absolute, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{absolute, file} {
		text = strings.ReplaceAll(text, filepath.Dir(name)+string(filepath.Separator), "")
	}
	place := regexp.MustCompile(`^[^/: ]+:[0-9]+(:[0-9]+)?: `)
	for line := range strings.SplitSeq(text, "\n") {
		if !place.MatchString(line) {
			t.Errorf("got %q, want it to begin with file and line", line)
		}
	}
	return text
}

// TestBadLists: lists of targets and exclusions.
func TestBadLists(t *testing.T) {
	want := map[string]string{
		"targets-address.csv":   `targets-address.csv:3:1: addr: want an IP address, got "198.18.1"`,
		"targets-cells.csv":     `targets-cells.csv:2:1: 1 cell, but the header has 2 columns`,
		"targets-column.csv":    "targets-column.csv:1:1: adress: unknown column; a target has addr, name, region\ntargets-column.csv:1:1: addr: missing; add addr",
		"targets-empty.csv":     "targets-empty.csv:1: no header; start with the line addr,name,region",
		"targets-key.jsonl":     "targets-key.jsonl:2:22: regoin: unknown key; a target has addr, name, region",
		"targets-missing.jsonl": "targets-missing.jsonl:2:1: addr: missing; add addr",
		"targets-json.jsonl":    "targets-json.jsonl:2:21: want ',' or '}', got the end of the line",
		"targets-type.jsonl":    `targets-type.jsonl:2:9: addr: want a string, got "17"`,
		"targets-lines.txt": `targets-lines.txt:3: "198.18.1.256" is not an address; write ADDRESS or REGION=ADDRESS
targets-lines.txt:5: "198.18.0.0/16" is not an address; write ADDRESS or REGION=ADDRESS`,
		"exclude-length.txt": `exclude-length.txt:1: "198.18.1.0/33" is not a prefix; write 192.0.2.0/24 or 2001:db8::/32`,
		"exclude-lines.txt": `exclude-lines.txt:2: "example.org" is not an address or prefix; write 192.0.2.0/24, 2001:db8::/32 or one address
exclude-lines.txt:3: 198.18.3.1/24 has bits set beyond its length; write 198.18.3.0/24 for the network or 198.18.3.1 for the address`,
	}
	files, err := filepath.Glob("testdata/bad/*")
	if err != nil || len(files) != len(want) {
		t.Fatalf("got %d files, want %d (%v)", len(files), len(want), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			kind, _, _ := strings.Cut(filepath.Base(file), "-")
			got := inputFault(t, exitFailed, file, "probe", "ping", "--sim", "earth", "--"+kind, file, "dal")
			if got != want[filepath.Base(file)] {
				t.Errorf("got\n%s\nwant\n%s", got, want[filepath.Base(file)])
			}
		})
	}
}

// TestBadFiles: configurations, worlds, regions, simulations and client maps. The
// expected complaint is in the leading comment of each file.
func TestBadFiles(t *testing.T) {
	dir := filepath.Join("..", "..", "internal", "config", "testdata")
	files, err := filepath.Glob(filepath.Join(dir, "bad", "*-*.*"))
	if err != nil || len(files) < 60 {
		t.Fatalf("got %d bad files (%v)", len(files), err)
	}
	measured := measuredSet(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want := leadingComment(t, file)
			code := exitFailed
			var args []string
			switch kind, _, _ := strings.Cut(filepath.Base(file), "-"); kind {
			case "config":
				code, args = exitCheck, []string{"config", "check", file}
			case "clients":
				code, args = exitCheck, []string{"config", "check", configWithClients(t, dir, file)}
			case "world":
				args = []string{"route", "solve", file}
			case "regions":
				args = []string{"route", "world", measured, "--regions", file}
			case "sim":
				args = []string{"probe", "ping", "--sim", file, "192.0.2.1"}
			default:
				t.Fatalf("no command reads a %s", kind)
			}
			got := strings.ReplaceAll(inputFault(t, code, file, args...), filepath.Join(dir, "good"), "testdata/good")
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func leadingComment(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		comment, found := strings.CutPrefix(line, "# ")
		if !found {
			break
		}
		lines = append(lines, strings.TrimSuffix(comment, "\n"))
	}
	return strings.Join(lines, "\n")
}

// configWithClients is a good configuration with the client map replaced by file.
func configWithClients(t *testing.T, dir, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "good", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	if err := os.CopyFS(temp, os.DirFS(filepath.Join(dir, "good"))); err != nil {
		t.Fatal(err)
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(temp, "full.yaml")
	if err := os.WriteFile(out, bytes.Replace(text, []byte("clients.csv"), []byte(absolute), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	return out
}

// measuredSet makes a small data set and returns its directory.
func measuredSet(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set")
	var stdout, stderr bytes.Buffer
	if code := run([]string{"probe", "ping", "--sim", "earth", "--seed", "1", "--count", "3", "-o", dir, "regions"}, nil, &stdout, &stderr); code != exitDone {
		t.Fatalf("got exit code %d: %s", code, stderr.String())
	}
	return dir
}

// TestBadRows: each change of one row of a data set is found by dataset validate,
// with file, line and key; commands that read the rows refuse them as well.
func TestBadRows(t *testing.T) {
	cases := []struct{ name, file, old, new, want string }{
		{"number", "latencies.jsonl", `"sent":3`, `"sent":-3`, `latencies.jsonl:2:94: sent: want a whole number from 0 to 4294967295, got "-3"`},
		{"address", "latencies.jsonl", `"target":"198.18.2.1"`, `"target":"198.18.2"`, `latencies.jsonl:2:44: target: want an IP address, got "198.18.2"`},
		{"key", "latencies.jsonl", `"received"`, `"recieved"`, `latencies.jsonl:2:96: recieved: unknown key; a latency has`},
		{"range", "latencies.jsonl", `"loss":0`, `"loss":7`, `latencies.jsonl:2:116: loss: 7 is outside 0..1`},
		{"enumeration", "samples.jsonl", `"outcome":"reply"`, `"outcome":"repply"`, `outcome: `},
		{"syntax", "vantages.jsonl", `{"name"`, `{name"`, `vantages.jsonl:1:2: `},
		{"value", "targets.jsonl", `"addr":"198.18.2.1"`, `"addr":"198.18.2.9"`, `targets.jsonl:2: not the row that was written`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := measuredSet(t)
			file := filepath.Join(dir, c.file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(string(text), "\n")
			at := min(1, len(lines)-2)
			changed := strings.Replace(lines[at], c.old, c.new, 1)
			if changed == lines[at] {
				t.Fatalf("no %s in %s", c.old, lines[at])
			}
			lines[at] = changed
			if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			if code := run([]string{"dataset", "validate", dir}, nil, &stdout, &stderr); code != exitCheck {
				t.Errorf("dataset validate: got exit code %d, want %d", code, exitCheck)
			}
			if !strings.Contains(stderr.String(), c.want) {
				t.Errorf("got\n%s\nwant %s", stderr.String(), c.want)
			}
			if c.file != "latencies.jsonl" {
				return
			}
			regions := filepath.Join("..", "..", "internal", "config", "testdata", "good", "regions.yaml")
			stderr.Reset()
			if code := run([]string{"route", "world", dir, "--regions", regions}, nil, &stdout, &stderr); code != exitFailed || !strings.Contains(stderr.String(), c.want) {
				t.Errorf("route world: got exit code %d and\n%s\nwant %s", code, stderr.String(), c.want)
			}
		})
	}
	if err := datasets.Validate(measuredSet(t)); err != nil {
		t.Errorf("got %v for a set that nobody changed", err)
	}
}
