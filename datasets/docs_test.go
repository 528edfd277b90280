package datasets_test

import (
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"strandline/datasets"
)

// docs/formats.md lists exactly the keys that the program reads and writes, in
// their order, with their types and when they are present.
func TestFormatsDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := keyTables(string(text))
	for name, row := range map[string]any{
		datasets.Vantage{}.Kind():    datasets.Vantage{},
		datasets.Frontend{}.Kind():   datasets.Frontend{},
		datasets.Region{}.Kind():     datasets.Region{},
		datasets.Target{}.Kind():     datasets.Target{},
		datasets.Sample{}.Kind():     datasets.Sample{},
		datasets.Hop{}.Kind():        datasets.Hop{},
		datasets.Link{}.Kind():       datasets.Link{},
		datasets.Balancer{}.Kind():   datasets.Balancer{},
		datasets.Catchment{}.Kind():  datasets.Catchment{},
		datasets.Latency{}.Kind():    datasets.Latency{},
		datasets.Allocation{}.Kind(): datasets.Allocation{},
		"manifest":                   datasets.Manifest{},
		"file":                       datasets.FileInfo{},
	} {
		if got, want := documented[name], keysOf(reflect.TypeOf(row)); !slices.Equal(got, want) {
			t.Errorf("docs/formats.md, section %s:\ngot  %q\nwant %q", name, got, want)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/formats.md, section %s: lists keys, but no row has that kind", name)
	}
}

// keyTables returns the first three cells of each line of the tables that list
// keys, by the heading of the third level above them.
func keyTables(text string) map[string][]string {
	const head = "| key | type | present | meaning |"
	tables := make(map[string][]string)
	section, inside := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "### "); ok {
			section = title
		}
		switch {
		case line == head:
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && !strings.HasPrefix(line, "|--"):
			cells := strings.SplitN(line, "|", 5)
			tables[section] = append(tables[section], strings.Trim(cells[1], " `")+": "+strings.TrimSpace(cells[2])+", "+strings.TrimSpace(cells[3]))
		}
	}
	return tables
}

// keysOf describes the keys of a struct type as the document does.
func keysOf(row reflect.Type) []string {
	var keys []string
	for field := range row.Fields() {
		key, marks, _ := strings.Cut(field.Tag.Get("json"), ",")
		present := "always"
		if marks != "" {
			present = "if set"
		}
		keys = append(keys, key+": "+typeWord(field.Type)+", "+present)
	}
	return keys
}

// typeWord is the document's word for a type.
func typeWord(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[netip.Addr]():
		return "address"
	case reflect.TypeFor[[]netip.Addr]():
		return "list of addresses"
	case reflect.TypeFor[datasets.Millis]():
		return "number or null"
	case reflect.TypeFor[time.Time]():
		return "time"
	case reflect.TypeFor[map[string]string]():
		return "labels"
	case reflect.TypeFor[[]string](), reflect.TypeFor[[]datasets.Field]():
		return "list of texts"
	case reflect.TypeFor[[]datasets.FileInfo]():
		return "list of files"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Float64:
		return "number"
	case reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer"
	}
	return t.String()
}
