package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"strandline/datasets"
)

// The limits on one file. They stand far above what people write and well below
// what hurts: an alias bomb of a few lines would otherwise grow without bound.
const (
	maxBytes   = 8 << 20 // of source
	maxDepth   = 32      // of nesting
	maxAliased = 10_000  // values reached through aliases
)

// place is where a value stands in its file; both count from 1.
type place struct{ line, column int }

// document is one YAML file on its way into a struct: its nodes, where each key
// path stands, and every problem found so far.
type document struct {
	file     string
	root     *yaml.Node
	places   map[string]place
	problems []*datasets.Problem
	aliased  int
}

// parse reads exactly one YAML document within the limits.
func parse(file string, src []byte) (*document, error) {
	d := &document{file: file, places: map[string]place{}}
	if len(src) > maxBytes {
		return nil, &datasets.Problem{File: file,
			Msg: fmt.Sprintf("has more than %d bytes", maxBytes),
			Fix: "move bulk data into a file of its own, such as the clients CSV"}
	}
	if err := binaryProblem(file, src); err != nil {
		return nil, err
	}
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(src))
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return nil, &datasets.Problem{File: file, Line: 1, Msg: "is empty", Fix: "see `strandline config example`"}
	} else if err != nil {
		return nil, syntaxProblem(file, src, err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, &datasets.Problem{File: file, Line: second.Line, Column: second.Column,
			Msg: "is a second YAML document", Fix: "keep one document per file"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxProblem(file, src, err)
	}
	d.root = doc.Content[0]
	return d, nil
}

// syntaxError takes the library's message apart: its text is the only place
// where the line is given.
var syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// parserError matches the messages whose line the library counts from 0.
var parserError = regexp.MustCompile(`^did not find expected (<|node content|key|',' or|'-' indicator)`)

// unknownAnchor matches the message that comes without any line.
var unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced`)

// syntaxProblem says where the YAML breaks. The line is that where the broken
// collection begins, so the fault itself may stand below it.
func syntaxProblem(file string, src []byte, err error) error {
	m := syntaxError.FindStringSubmatch(err.Error())
	if m == nil {
		return &datasets.Problem{File: file, Msg: "is not YAML: " + err.Error()}
	}
	line, _ := strconv.Atoi(m[1]) // without a number: the first line
	if line == 0 || parserError.MatchString(m[2]) {
		line++
	}
	if a := unknownAnchor.FindStringSubmatch(m[2]); a != nil {
		before, _, _ := bytes.Cut(src, []byte("*"+a[1]))
		line = 1 + bytes.Count(before, []byte("\n"))
	}
	line = min(line, bytes.Count(bytes.TrimRight(src, "\n"), []byte("\n"))+1)
	return &datasets.Problem{File: file, Line: line, Msg: "is not YAML: " + m[2],
		Fix: "check indentation, colons, quotes and brackets from this line on"}
}

// binaryProblem reports the first byte that no text file holds, or nil.
func binaryProblem(file string, src []byte) error {
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f {
			line := 1 + bytes.Count(src[:i], []byte("\n"))
			return &datasets.Problem{File: file, Line: line, Column: i - bytes.LastIndexByte(src[:i], '\n'),
				Msg: fmt.Sprintf("holds the byte 0x%02x, which is not text", src[i]), Fix: "save the file as plain UTF-8"}
		}
		i += size
	}
	return nil
}

// at records where the value of path stands and returns that place: a scalar
// or a flow collection by itself, a block collection by its key.
func (d *document) at(path string, key, value *yaml.Node) {
	n := value
	if key != nil && value.Kind != yaml.ScalarNode && value.Style&yaml.FlowStyle == 0 {
		n = key
	}
	d.places[path] = place{n.Line, n.Column}
}

// problemf adds a problem at a node.
func (d *document) problemf(n *yaml.Node, path, fix, format string, args ...any) {
	d.problems = append(d.problems, &datasets.Problem{File: d.file, Line: n.Line, Column: n.Column,
		Key: path, Msg: fmt.Sprintf(format, args...), Fix: fix})
}

// adopt takes over what a Validate method found. A problem without a file gets
// this one and the place of the nearest key that exists; prefix is put before
// its key. A problem about a key that could not be read, or about one that
// encloses it, is dropped: it would only repeat the first in other words.
func (d *document) adopt(err error, prefix string) {
	unread := slices.Clone(d.problems)
	for p := range problemsOf(err) {
		q := *p
		if q.File == "" {
			q.File, q.Key = d.file, join(prefix, q.Key)
			if slices.ContainsFunc(unread, func(u *datasets.Problem) bool { return related(u.Key, q.Key) }) {
				continue
			}
			at := d.nearest(q.Key)
			q.Line, q.Column = at.line, at.column
		}
		d.problems = append(d.problems, &q)
	}
}

// nearest returns the place of path or of the closest key that encloses it.
func (d *document) nearest(path string) place {
	for {
		if at, ok := d.places[path]; ok {
			return at
		}
		if path == "" {
			return place{1, 1}
		}
		path = parent(path)
	}
}

// err returns all problems in the order of the file, or nil.
func (d *document) err() error {
	slices.SortStableFunc(d.problems, func(a, b *datasets.Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := make([]error, len(d.problems))
	for i, p := range d.problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// problemsOf walks the problems inside err, whatever they were joined by. An
// error that is no problem becomes one.
func problemsOf(err error) func(yield func(*datasets.Problem) bool) {
	return func(yield func(*datasets.Problem) bool) { walkProblems(err, yield) }
}

func walkProblems(err error, yield func(*datasets.Problem) bool) bool {
	if err == nil {
		return true
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !walkProblems(e, yield) {
				return false
			}
		}
		return true
	}
	if p, ok := errors.AsType[*datasets.Problem](err); ok {
		return yield(p)
	}
	return yield(&datasets.Problem{Msg: err.Error()})
}

// join puts a key below a path: a.b, or a[1] for an index.
func join(path, key string) string {
	if path == "" || key == "" || strings.HasPrefix(key, "[") {
		return path + key
	}
	return path + "." + key
}

// parent cuts the last key or index off a path.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// related reports whether one path equals or encloses the other.
func related(a, b string) bool {
	return within(a, b) || within(b, a)
}

func within(inner, outer string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}
