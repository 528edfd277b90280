package config

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// nodeEncoder is the other half of nodeDecoder: it returns the form to write.
type nodeEncoder interface{ encodeNode() any }

// encode writes v as YAML that Decode reads back to the same value. Absent
// pointers, empty lists and zero values of omitempty fields are left out;
// everything else is written, defaults included.
func encode(v any) (string, error) {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(nodeOf(reflect.ValueOf(v))); err != nil {
		return "", err
	}
	if err := enc.Close(); err != nil {
		return "", err
	}
	return buf.String(), nil
}

// nodeOf turns a value into a node; nil stands for null.
func nodeOf(v reflect.Value) *yaml.Node {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
	switch x := v.Interface().(type) {
	case nodeEncoder:
		return nodeOf(reflect.ValueOf(x.encodeNode()))
	case time.Duration:
		return textNode(durationText(x))
	case encoding.TextMarshaler:
		b, err := x.MarshalText()
		if err != nil {
			panic("config: " + err.Error()) // netip types never fail
		}
		return textNode(string(b))
	}
	switch v.Kind() {
	case reflect.Pointer:
		return nodeOf(v.Elem())
	case reflect.Struct:
		return structNode(v)
	case reflect.Map:
		return mapNode(v)
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			n.Content = append(n.Content, nodeOf(v.Index(i)))
		}
		return compact(n)
	default:
		return scalarNode(v)
	}
}

func structNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range fieldsOf(v.Type()) {
		fv := v.FieldByIndex(f.index)
		if absent(fv) || f.omitZero && fv.IsZero() {
			continue
		}
		n.Content = append(n.Content, textNode(f.name), nodeOf(fv))
	}
	return compact(n)
}

// absent reports whether a field holds nothing to write: no pointer, no list,
// an unset choice of forms, an address or text that was never given.
func absent(v reflect.Value) bool {
	if e, ok := v.Interface().(nodeEncoder); ok {
		return e.encodeNode() == nil
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Pointer:
		return v.IsNil()
	default:
		_, isText := v.Interface().(encoding.TextMarshaler)
		return isText && v.IsZero()
	}
}

func mapNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys {
		n.Content = append(n.Content, textNode(k.String()), nodeOf(v.MapIndex(k)))
	}
	return compact(n)
}

func scalarNode(v reflect.Value) *yaml.Node {
	switch {
	case v.Kind() == reflect.String:
		return textNode(v.String())
	case v.Kind() == reflect.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v.Bool())}
	case v.CanInt():
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(v.Int(), 10)}
	case v.CanUint():
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatUint(v.Uint(), 10)}
	case v.CanFloat():
		s := strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits())
		return &yaml.Node{Kind: yaml.ScalarNode, Value: s}
	default:
		panic(fmt.Sprintf("config: no encoding of %v", v.Type()))
	}
}

func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.Contains(s, "\n") {
		n.Style = yaml.LiteralStyle
	}
	return n
}

// durationText writes 1m0s as 1m and 2h0m0s as 2h.
func durationText(t time.Duration) string {
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// compact writes a list of scalars and every other short collection on one line.
func compact(n *yaml.Node) *yaml.Node {
	length, plain := 0, n.Kind == yaml.SequenceNode
	for _, c := range n.Content {
		if c.Kind != yaml.ScalarNode && c.Style&yaml.FlowStyle == 0 || c.Style&yaml.LiteralStyle != 0 {
			return n
		}
		length += len(c.Value) + 4
		plain = plain && c.Kind == yaml.ScalarNode
		for _, inner := range c.Content {
			length += len(inner.Value) + 4
		}
	}
	if length <= 100 || plain {
		n.Style = yaml.FlowStyle
	}
	return n
}
