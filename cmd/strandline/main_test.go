package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

// TestMain lets the scripts, and the tests that start processes, run this
// program as the command strandline.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"strandline": main})
}

// TestScripts runs testdata/script: the program as its users call it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "json": cmdJSON, "csv": cmdCSV, "near": cmdNear, "samerows": cmdSameRows,
		},
	})
}

// cmdExits runs a program and requires its exit code: exits CODE PROGRAM ARG...
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	default:
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("got exit code %d, want %d", got, want)
	}
}

// cmdJSON requires that every line of the last standard output is a JSON object,
// that there are as many as said, and that each has the keys: json COUNT KEY...
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: json COUNT KEY...")
	}
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\n"), "\n")
	if got := strconv.Itoa(len(lines)); got != args[0] {
		ts.Fatalf("got %s lines, want %s", got, args[0])
	}
	for _, line := range lines {
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			ts.Fatalf("not a JSON object: %v: %s", err, line)
		}
		for _, key := range args[1:] {
			if _, ok := object[key]; !ok {
				ts.Fatalf("no key %q in %s", key, line)
			}
		}
	}
}

// cmdCSV requires a CSV table with this header and number of records on the last
// standard output: csv COUNT HEADER
func cmdCSV(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: csv COUNT HEADER")
	}
	records, err := csv.NewReader(strings.NewReader(ts.ReadFile("stdout"))).ReadAll()
	ts.Check(err)
	if len(records) == 0 {
		ts.Fatalf("no header")
	}
	if got := strings.Join(records[0], ","); got != args[1] {
		ts.Fatalf("got header %s, want %s", got, args[1])
	}
	if got := strconv.Itoa(len(records) - 1); got != args[0] {
		ts.Fatalf("got %s records, want %s", got, args[0])
	}
}

// cmdNear requires a number in the JSON object on the last standard output: near
// PATH WANT TOLERANCE. The path goes down through keys and indices, regions.0.rate.
func cmdNear(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: near PATH WANT TOLERANCE")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &v))
	for step := range strings.SplitSeq(args[0], ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			i, err := strconv.Atoi(step)
			ts.Check(err)
			if i >= len(x) {
				ts.Fatalf("%s: only %d elements", args[0], len(x))
			}
			v = x[i]
		}
	}
	got, ok := v.(float64)
	want, err := strconv.ParseFloat(args[1], 64)
	ts.Check(err)
	tolerance, err := strconv.ParseFloat(args[2], 64)
	ts.Check(err)
	if !ok || !(math.Abs(got-want) <= tolerance) {
		ts.Fatalf("%s: got %v, want %v within %v", args[0], v, want, tolerance)
	}
}

// cmdSameRows requires that two data sets hold the same files, byte for byte,
// but for manifest.json, which says when and how they were made: samerows A B.
// Negated, some file must differ.
func cmdSameRows(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] samerows DIR DIR")
	}
	a, b := dirContent(ts, args[0]), dirContent(ts, args[1])
	same := len(a) == len(b)
	for name, content := range a {
		other, ok := b[name]
		same = same && ok && (name == "manifest.json" || bytes.Equal(content, other))
	}
	if len(a) < 2 || same == neg {
		ts.Fatalf("got same rows %t in %d and %d files, want %t", same, len(a), len(b), !neg)
	}
}

func dirContent(ts *testscript.TestScript, dir string) map[string][]byte {
	entries, err := os.ReadDir(ts.MkAbs(dir))
	ts.Check(err)
	out := map[string][]byte{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(ts.MkAbs(dir), e.Name()))
		ts.Check(err)
		out[e.Name()] = content
	}
	return out
}

// TestHelp: every command says what it does, how it is called, and shows an
// example that calls this command; every flag of an example exists.
func TestHelp(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			visit(child)
		}
		if c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion" {
			return // cobra's own
		}
		var stdout, stderr bytes.Buffer
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		if code := run(args, strings.NewReader(""), &stdout, &stderr); code != exitDone || stderr.Len() > 0 {
			t.Errorf("%s --help: got exit code %d and %q", c.CommandPath(), code, stderr.String())
		}
		about := c.Long
		if about == "" {
			about = c.Short
		}
		for _, want := range []string{about, "Usage:\n  " + c.CommandPath(), "Examples:\n  ", c.Example} {
			if want == "" || !strings.Contains(stdout.String(), strings.TrimSpace(want)) {
				t.Errorf("%s --help: got no %q in\n%s", c.CommandPath(), want, stdout.String())
			}
		}
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s: got examples %q, want one that calls it", c.CommandPath(), c.Example)
		}
	}
	visit(newRootCmd(&app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}))
}

// TestExamplesParse: each line of each example names a command of this program
// and flags that it has, with as many arguments as it takes.
func TestExamplesParse(t *testing.T) {
	lines := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			visit(child)
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			words := strings.Fields(line)
			if len(words) > 0 && words[0] == "sudo" {
				words = words[1:]
			}
			if len(words) == 0 || c.Name() == "completion" {
				continue
			}
			if i := len(words) - 2; i > 0 && words[i] == ">" {
				words = words[:i]
			}
			lines++
			root := newRootCmd(&app{})
			found, rest, err := root.Find(words[1:])
			if words[0] != "strandline" || err != nil || (found == root && len(words) > 1) {
				t.Errorf("%s: %q calls no command: %v", c.CommandPath(), line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", c.CommandPath(), line, err)
				continue
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%s: %q: %v", c.CommandPath(), line, err)
			}
		}
	}
	visit(newRootCmd(&app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}))
	if lines < 15 {
		t.Errorf("got %d lines of examples: they were not found", lines)
	}
}
