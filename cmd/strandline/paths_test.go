package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"strandline/datasets"
)

// pathsRun is a measurement of the embedded world.
func pathsRun(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append([]string{"probe", "paths", "--sim", "earth", "--vantage", "icn", "--seed", "3", "--rate", "1e5", "--prefix-rate", "1e5"}, args...)
	if code := run(args, nil, &stdout, &stderr); code != exitDone {
		t.Fatalf("%v: exit code %d\n%s", args, code, &stderr)
	}
	return stdout.String()
}

// The JSON object has the keys that others build on, and what they say is right.
func TestPathsJSON(t *testing.T) {
	text := pathsRun(t, "--format", "json", "lon")
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		t.Fatal(err)
	}
	want := []string{"balancers", "confidence", "elapsed_ms", "hops", "links", "probes", "probes_sent", "proto", "reached", "target"}
	if got := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
	var p paths
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if !p.Reached || p.Confidence != 95 || len(p.Hops) != 14 || len(p.Links) != 19 || len(p.Balancers) != 2 ||
		p.Sent != p.Probes.Discovery+p.Probes.Class+p.Probes.Fields || !(p.ElapsedMS > 500) {
		t.Errorf("got %s", text)
	}
	for _, b := range p.Balancers {
		if b.Width != 4 || b.Class != datasets.PerFlow || !slices.Equal(b.Fields, []datasets.Field{"sport", "dport"}) || !(b.MinShare > 0 && b.MinShare < 0.25) {
			t.Errorf("balancer %+v", b)
		}
	}
}

// The table says the verdict first and draws the diamonds; csv is link rows.
func TestPathsText(t *testing.T) {
	text := pathsRun(t, "--explain", "lon")
	if !strings.HasPrefix(text, "198.18.6.1 reached over udp, complete with 95 % confidence, 2 balancers, 19 links") {
		t.Errorf("verdict: %s", text)
	}
	for _, want := range []string{"balances per-flow over 4 next hops, by sport, dport", "-+> 6a 6b 6c 6d\n", "  6d   198.18.6.14", "--> 7\n", "to find hops and links"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if rows, err := datasets.Collect(datasets.Read[datasets.Link](strings.NewReader(pathsRun(t, "--format", "csv", "lon")), "out", datasets.CSV)); err != nil || len(rows) != 19 {
		t.Errorf("csv: %d rows, %v", len(rows), err)
	}
	if text := pathsRun(t, "--proto", "icmp", "lon"); !strings.Contains(text, "--proto udp shows them") {
		t.Errorf("blind to ports, and does not say so:\n%s", text)
	}
}

func TestPathsPrintCommand(t *testing.T) {
	for tool, want := range map[string]string{
		"scamper":           `tracelb -P udp-sport -c 99 -d 33434`,
		"dublin-traceroute": "dublin-traceroute -n 20 -d 33434 -t 1 -T 30 198.18.6.1",
	} {
		if got := pathsRun(t, "--confidence", "99", "--print-command", tool, "lon"); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", tool, got, want)
		}
	}
}

// The data set of a measurement holds the balancers and is valid.
func TestPathsDataSet(t *testing.T) {
	dir := t.TempDir() + "/set"
	pathsRun(t, "-o", dir, "dal", "tok")
	if err := datasets.Validate(dir); err != nil {
		t.Fatal(err)
	}
	set, err := datasets.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := datasets.All[datasets.Balancer](set)
	if err != nil || len(rows) != 4 {
		t.Errorf("%d balancers, %v; want 4", len(rows), err)
	}
}

func TestLetters(t *testing.T) {
	for i, want := range map[int]string{0: "a", 25: "z", 26: "aa", 95: "cr"} {
		if got := letters(i); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
}
