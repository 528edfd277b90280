package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Decode reads one YAML document from src into the struct that into points to,
// by the `yaml:"name"` tags of its fields. It is strict: unknown keys, keys
// given twice, values of the wrong type and missing keys that a tag calls
// required (`yaml:"name,required"`) are problems. What into holds before the
// call are the defaults.
//
// Beside the basic kinds it reads time.Duration ("1m30s"), any
// encoding.TextUnmarshaler (netip.Addr, netip.Prefix, ...), pointers (null is
// nil), slices, string-keyed maps and structs (`yaml:",inline"` lifts the fields
// of one into the other).
//
// If into has a method Validate() error, it is called at the end and the
// problems it returns are given the line of the nearest key that exists.
//
// The error joins one *datasets.Problem per fault, in the order of the file,
// each with file, line, column, key path such as dns.steer[0].ttl, and the fix.
// On error the contents of into mean nothing.
func Decode(file string, src []byte, into any) error {
	d, err := parse(file, src)
	if err != nil {
		return err
	}
	d.decode(into)
	return d.err()
}

// decode fills into from the root and validates it.
func (d *document) decode(into any) {
	d.at("", nil, d.root)
	d.value(d.root, reflect.ValueOf(into).Elem(), "", 0)
	if v, ok := into.(interface{ Validate() error }); ok {
		d.adopt(v.Validate(), "")
	}
}

// nodeDecoder is a type that chooses between forms of a value by looking at
// the node, such as a file name or the content itself.
type nodeDecoder interface {
	decodeNode(d *document, n *yaml.Node, path string, depth int)
}

// defaulter is a struct with defaults of its own, set before its keys are read.
type defaulter interface{ setDefaults() }

// value decodes n into v.
func (d *document) value(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n = d.resolve(n, path, depth); n == nil {
		return
	}
	if c, ok := v.Addr().Interface().(nodeDecoder); ok {
		c.decodeNode(d, n, path, depth)
		return
	}
	if n.ShortTag() == "!!null" {
		d.null(n, v, path)
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, depth+1)
		return
	}
	if _, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, path, depth)
	case reflect.Map:
		d.mapping(n, v, path, depth)
	case reflect.Slice:
		d.slice(n, v, path, depth)
	default:
		d.scalar(n, v, path)
	}
}

// resolve follows an alias and enforces the limits; nil means that a problem
// was reported instead.
func (d *document) resolve(n *yaml.Node, path string, depth int) *yaml.Node {
	if depth > maxDepth {
		d.problemf(n, path, "flatten it; an alias must not contain itself", "is nested deeper than %d levels", maxDepth)
		return nil
	}
	if n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.ShortTag(), "!!") {
		d.problemf(n, path, "remove the tag", "has the tag %s, and tags mean nothing here", n.ShortTag())
		return nil
	}
	if n.Kind != yaml.AliasNode {
		return n
	}
	d.aliased += count(n.Alias, maxAliased+1, 0)
	if d.aliased > maxAliased {
		d.problemf(n, path, "write the values out; an alias must not contain itself", "aliases repeat more than %d values", maxAliased)
		return nil
	}
	return n.Alias
}

// count returns the number of nodes below n, aliases followed, giving up at the limit.
func count(n *yaml.Node, limit, depth int) int {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	total := 1
	for _, c := range n.Content {
		if total >= limit || depth > maxDepth {
			return limit
		}
		total += count(c, limit-total, depth+1)
	}
	return total
}

// null is a value left out: right for what may be absent, a problem elsewhere.
func (d *document) null(n *yaml.Node, v reflect.Value, path string) {
	switch {
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() != reflect.Struct, v.Kind() == reflect.Slice, v.Kind() == reflect.Map:
		v.SetZero()
	default: // also a section without content, which a lost indent leaves
		d.problemf(n, path, "give it a value or remove the key", "has no value, want %s", wanted(v.Type()))
	}
}

// structure decodes a mapping by the fields of a struct.
func (d *document) structure(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.MappingNode {
		d.mismatch(n, v.Type(), path)
		return
	}
	if x, ok := v.Addr().Interface().(defaulter); ok {
		x.setDefaults()
	}
	fields := fieldsOf(v.Type())
	seen := d.each(n, path, func(key, value *yaml.Node, at string) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		if i < 0 {
			d.unknown(key, at, fields)
			return
		}
		d.value(value, v.FieldByIndex(fields[i].index), at, depth+1)
	})
	for _, f := range fields {
		if !seen[f.name] && f.required {
			d.problemf(n, join(path, f.name), fmt.Sprintf("add `%s: %s`", f.name, wanted(v.FieldByIndex(f.index).Type())), "is missing")
		}
	}
}

// each calls f for every key of a mapping that is given once, with its path.
func (d *document) each(n *yaml.Node, path string, f func(key, value *yaml.Node, at string)) map[string]bool {
	seen := map[string]bool{}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		switch {
		case key.Kind != yaml.ScalarNode:
			d.problemf(key, path, "write a plain word before the colon", "has a key that is not text")
		case key.ShortTag() == "!!merge":
			d.problemf(key, at, "repeat the keys, or use an alias for the whole value", "merge keys are not accepted")
		case seen[key.Value]:
			d.problemf(key, at, "keep one", "is given twice, first on line %d", lines[key.Value])
		default:
			seen[key.Value], lines[key.Value] = true, key.Line
			d.at(at, key, value)
			f(key, value, at)
		}
	}
	return seen
}

func (d *document) unknown(key *yaml.Node, path string, fields []field) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	fix := "the keys here are " + strings.Join(names, ", ")
	if guess := closest(key.Value, names); guess != "" {
		fix = fmt.Sprintf("did you mean %s?", guess)
	}
	d.problemf(key, path, fix, "unknown key")
}

func (d *document) mapping(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.MappingNode {
		d.mismatch(n, v.Type(), path)
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	d.each(n, path, func(key, value *yaml.Node, at string) {
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(value, e, at, depth+1)
		v.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), e)
	})
}

func (d *document) slice(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.SequenceNode {
		d.mismatch(n, v.Type(), path)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, c := range n.Content {
		at := path + "[" + strconv.Itoa(i) + "]"
		d.at(at, nil, c)
		d.value(c, v.Index(i), at, depth+1)
	}
}

// field is one key of a struct.
type field struct {
	name     string
	index    []int
	required bool
	omitZero bool // when written: a zero value means the same as none
}

// fieldsOf lists the keys of a struct in order, inlined structs unfolded.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		sf := t.Field(i)
		name, opts, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		switch {
		case strings.Contains(opts, "inline"):
			for _, f := range fieldsOf(sf.Type) {
				f.index = append([]int{i}, f.index...)
				fields = append(fields, f)
			}
			continue
		case name == "-" || !sf.IsExported():
			continue
		case name == "":
			name = strings.ToLower(sf.Name)
		}
		fields = append(fields, field{name, []int{i}, strings.Contains(opts, "required"), strings.Contains(opts, "omitempty")})
	}
	return fields
}
