package config_test

import (
	"encoding"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"strandline/internal/config"
	"strandline/internal/simnet"
	"strandline/router"
)

// docs/config.md lists exactly the keys that the decoder accepts, each file in a
// section of its own.
func TestConfigDocument(t *testing.T) {
	documented := documentedKeys(t)
	for section, file := range map[string]any{
		"Configuration":   config.Config{},
		"World file":      router.World{},
		"Regions file":    router.RegionsFile{},
		"Simulated world": simnet.Spec{},
	} {
		var want []string
		for _, k := range keysOf("", reflect.TypeOf(file)) {
			want = append(want, k.path)
		}
		var got []string
		for _, row := range documented[section] {
			got = append(got, row.path)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("docs/config.md, section %s:\ngot  %q\nwant %q", section, got, want)
		}
		delete(documented, section)
	}
	for section := range documented {
		t.Errorf("docs/config.md, section %s: lists keys, and no test compares them", section)
	}
}

// The defaults in docs/config.md are those of the program: what is said to be
// required is, and what an example leaves out has the value that is written there.
func TestConfigDocumentDefaults(t *testing.T) {
	required := map[string]bool{}
	for _, k := range keysOf("", reflect.TypeFor[config.Config]()) {
		required[k.path] = k.required
	}
	c, err := config.Parse(filepath.Join("testdata", "good", "short.yaml"), []byte(shortConfig))
	if err != nil {
		t.Fatal(err)
	}
	effective, err := c.Show()
	if err != nil {
		t.Fatal(err)
	}
	effective = strings.ReplaceAll(effective, "'", "")
	defaults := 0
	for _, row := range documentedKeys(t)["Configuration"] {
		if got, want := row.value == "required", required[row.path]; got != want {
			t.Errorf("docs/config.md: %s: required = %t, want %t", row.path, got, want)
		}
		value, ok := strings.CutPrefix(row.value, "`")
		if !ok {
			continue
		}
		key := row.path[strings.LastIndexByte(row.path, '.')+1:]
		if want := key + ": " + strings.TrimSuffix(value, "`"); !strings.Contains(effective, want) {
			t.Errorf("docs/config.md: %s: default %s, but the effective configuration has no %q:\n%s", row.path, row.value, want, effective)
		}
		defaults++
	}
	if defaults == 0 {
		t.Error("docs/config.md states no default")
	}
}

// shortConfig leaves out whatever has a default.
const shortConfig = `
dns:
  listen: [127.0.0.1:5300]
  zones: [{name: example.org, records: "@ 60 SOA ns1 h 1 2 3 4 5\n@ 60 NS ns1\nns1 60 A 192.0.2.1\n"}]
  steer: [{name: api.example.org, service: chat}]
http: {listen: [127.0.0.1:8080], service: chat, frontend: f}
services:
  - name: chat
    regions: [{name: a, addresses: [192.0.2.10], backend: "http://127.0.0.1:8001", health: {http: /health}}]
router:
  world:
    frontends: [{name: f, rate: 1}]
    regions: [{name: a, service: {kind: hyperbolic, mu: 2, kappa: 1}}]
    latency: {matrix: [[0.01]]}
  default_frontend: f
`

// documentedKey is one line of a table of keys.
type documentedKey struct{ path, value string }

// documentedKeys returns the tables of keys by the heading of the second level
// above them.
func documentedKeys(t *testing.T) map[string][]documentedKey {
	t.Helper()
	text, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	const head = "| key | type | default | meaning |"
	tables := make(map[string][]documentedKey)
	section, inside := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = title
		}
		switch {
		case line == head:
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && !strings.HasPrefix(line, "|--"):
			cells := strings.SplitN(line, "|", 5)
			tables[section] = append(tables[section], documentedKey{strings.Trim(cells[1], " `"), strings.TrimSpace(cells[3])})
		}
	}
	return tables
}

// fileKey is a key that the decoder accepts.
type fileKey struct {
	path     string
	required bool
}

// keysOf lists the keys of a struct type with their paths, where [] stands for
// any index.
func keysOf(prefix string, t reflect.Type) []fileKey {
	var keys []fileKey
	for field := range t.Fields() {
		name, marks, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if name == "-" {
			continue
		}
		path := prefix + name
		keys = append(keys, fileKey{path, strings.Contains(marks, "required")})
		keys = append(keys, keysBelow(path, field.Type)...)
	}
	return keys
}

// keysBelow lists the keys inside a value.
func keysBelow(path string, t reflect.Type) []fileKey {
	switch t {
	case reflect.TypeFor[config.WorldSource](): // has a table of its own
		return nil
	case reflect.TypeFor[config.ClientSource]():
		return keysOf(path+"[].", reflect.TypeFor[config.Client]())
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return keysBelow(path, t.Elem())
	case reflect.Slice:
		return keysBelow(path+"[]", t.Elem())
	case reflect.Struct:
		return keysOf(path+".", t)
	}
	return nil
}
