package datasets

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// SchemaVersion is the version of the rows and of the manifest that this package
// writes. It grows when a reader of the older one would misread the newer.
const SchemaVersion = 1

const manifestName = "manifest.json"

// Manifest says where a data set came from and what files belong to it.
type Manifest struct {
	SchemaVersion int        `json:"schema_version"`
	Source        string     `json:"source"`           // what was measured, such as the name of a world or "kernel"
	Seed          uint64     `json:"seed"`             // what all randomness derived from
	CommandLine   []string   `json:"command_line"`     // as it was run
	Created       time.Time  `json:"created,omitzero"` // by the caller's clock
	Tool          string     `json:"tool"`             // program and version
	Files         []FileInfo `json:"files"`            // one per kind of row, in the order of their paths
}

// FileInfo is one file of a data set.
type FileInfo struct {
	Path   string `json:"path"` // within the directory
	Kind   string `json:"kind"` // of its rows, such as sample
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hexadecimal

	// RowSums and BlockSums tell where the file was changed when the checksum does
	// not hold: sums over its lines by the bits of their index, and over runs of
	// lines, in hexadecimal.
	RowSums   string `json:"row_sums"`
	BlockSums string `json:"block_sums"`
}

// fileName is the file of a data set that holds the rows of a kind.
func fileName(kind string) string {
	if stem, ok := strings.CutSuffix(kind, "y"); ok {
		return stem + "ies.jsonl"
	}
	return kind + "s.jsonl"
}

// encode returns the manifest as indented JSON.
func (m *Manifest) encode() []byte {
	v := reflect.ValueOf(m).Elem()
	var b bytes.Buffer
	if err := json.Indent(&b, tableOf(v.Type(), "manifest").appendJSON(nil, v), "", "  "); err != nil {
		panic("datasets: manifest is not JSON: " + err.Error())
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// readManifest decodes and checks the manifest in dir. All its problems are
// joined and name the file and the line.
func readManifest(dir string) (Manifest, error) {
	path := filepath.Join(dir, manifestName)
	b, err := readRegular(path)
	if err != nil {
		return Manifest{}, fmt.Errorf("not a data set: %w", err)
	}
	var m Manifest
	bad := m.decode(string(b))
	if v := m.SchemaVersion; bad != nil && (v == 0 || v == SchemaVersion) {
		bad.File = path
		return Manifest{}, bad
	}
	var c checker // a version that is not ours explains any other fault
	m.check(&c)
	for _, err := range c.errs {
		if p, ok := err.(*Problem); ok {
			p.File, p.Line = path, lineOf(string(b), p.Key)
		}
	}
	if err := c.err(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// decode reads the text of a manifest.
func (m *Manifest) decode(text string) *Problem {
	if !utf8.ValidString(text) {
		at := invalidUTF8(text)
		return atOffset(text, at, &Problem{Msg: "not UTF-8"})
	}
	v := reflect.ValueOf(m).Elem()
	tb := tableOf(v.Type(), "manifest")
	p := scanner{s: text}
	p.space()
	bad := tb.parseJSON(&p, v, make([]int, len(tb.fields)))
	if bad == nil && p.peek() != 0 {
		bad = p.fault(p.pos, "", "more text after the manifest", "remove it")
	}
	if bad != nil {
		return atOffset(text, bad.Column-1, bad)
	}
	return nil
}

// lineOf returns the line on which a key such as files[2].rows stands in a JSON
// text, 0 when it does not.
func lineOf(text, key string) int {
	d := json.NewDecoder(strings.NewReader(text))
	for _, step := range strings.FieldsFunc(key, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		if !enter(d, step) {
			return 0
		}
	}
	return 1 + strings.Count(text[:d.InputOffset()], "\n")
}

// enter goes to the value of a key or index in the object or list that comes next.
func enter(d *json.Decoder, step string) bool {
	bracket, err := d.Token()
	var skipped json.RawMessage
	for i := 0; err == nil && d.More(); i++ {
		name := json.Token(strconv.Itoa(i))
		if bracket == json.Delim('{') {
			if name, err = d.Token(); err != nil {
				return false
			}
		}
		if name == step {
			return true
		}
		err = d.Decode(&skipped)
	}
	return false
}

// atOffset gives bad the line and column of a byte of a text of several lines.
func atOffset(text string, at int, bad *Problem) *Problem {
	before := text[:at]
	bad.Line = 1 + strings.Count(before, "\n")
	bad.Column = at - strings.LastIndexByte(before, '\n')
	return bad
}

// check checks what the manifest says about itself; the files are another matter.
func (m *Manifest) check(c *checker) {
	if m.SchemaVersion != SchemaVersion {
		c.fail("schema_version", fmt.Sprintf("%d, but this program reads %d", m.SchemaVersion, SchemaVersion),
			"use the version of the program that wrote the data set")
		return
	}
	known := make(map[string]bool)
	for _, k := range kinds() {
		known[k.kind] = true
	}
	seen := make(map[string]bool)
	for i, f := range m.Files {
		key := "files[" + strconv.Itoa(i) + "]."
		switch {
		case !known[f.Kind]:
			c.fail(key+"kind", strconv.Quote(f.Kind)+" is not a kind of row", "")
		case f.Path != fileName(f.Kind):
			c.fail(key+"path", strconv.Quote(f.Path)+" is not the file of that kind", "write "+fileName(f.Kind))
		case seen[f.Kind]:
			c.fail(key+"path", f.Path+" is listed twice", "remove one")
		}
		seen[f.Kind] = true
		if f.Rows < 0 || f.Bytes < 0 {
			c.fail(key+"rows", "a negative count", "")
		}
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != 32 {
			c.fail(key+"sha256", "not 64 hexadecimal digits", "")
		}
	}
}
