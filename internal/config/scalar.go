package config

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// scalar decodes text, truth values, numbers and durations.
func (d *document) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.mismatch(n, v.Type(), path)
		return
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d.duration(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.String:
		d.plainText(n, v, path)
	case reflect.Bool:
		if n.ShortTag() != "!!bool" {
			d.mismatch(n, v.Type(), path)
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.integer(n, v, path)
	case reflect.Float32, reflect.Float64:
		d.float(n, v, path)
	default:
		panic("config: no decoding of " + v.Type().String())
	}
}

// plainText takes text only: YAML reads 1.10 as the number 1.1, so a name that
// looks like a number must be quoted to survive.
func (d *document) plainText(n *yaml.Node, v reflect.Value, path string) {
	if n.ShortTag() != "!!str" {
		d.problemf(n, path, fmt.Sprintf("put quotes around it: %q", n.Value), "is %s, want text", described(n))
		return
	}
	v.SetString(n.Value)
}

// integer reads decimal and 0x hexadecimal. A leading zero is refused, since it
// means octal to some readers and nothing to others.
func (d *document) integer(n *yaml.Node, v reflect.Value, path string) {
	digits := strings.TrimLeft(n.Value, "+-")
	if n.ShortTag() != "!!int" || len(digits) > 1 && digits[0] == '0' && digits[1]|0x20 != 'x' {
		d.mismatch(n, v.Type(), path)
		return
	}
	var err error
	if v.CanUint() {
		var u uint64
		u, err = strconv.ParseUint(n.Value, 0, v.Type().Bits())
		v.SetUint(u)
	} else {
		var i int64
		i, err = strconv.ParseInt(n.Value, 0, v.Type().Bits())
		v.SetInt(i)
	}
	if err != nil {
		d.problemf(n, path, "write "+wanted(v.Type()), "is %s, out of range", n.Value)
	}
}

func (d *document) float(n *yaml.Node, v reflect.Value, path string) {
	tag := n.ShortTag()
	if tag != "!!int" && tag != "!!float" {
		d.mismatch(n, v.Type(), path)
		return
	}
	f, err := strconv.ParseFloat(n.Value, v.Type().Bits())
	if err != nil || f-f != 0 {
		d.problemf(n, path, "write a finite number such as 12.5", "is %s, want a finite number", n.Value)
		return
	}
	v.SetFloat(f)
}

func (d *document) duration(n *yaml.Node, v reflect.Value, path string) {
	t, err := time.ParseDuration(n.Value)
	switch tag := n.ShortTag(); {
	case err != nil && (tag == "!!int" || tag == "!!float"):
		d.problemf(n, path, fmt.Sprintf("write %ss or %sms", n.Value, n.Value), "is %s without a unit", n.Value)
	case err != nil:
		d.mismatch(n, v.Type(), path)
	default:
		v.SetInt(int64(t))
	}
}

// text decodes into an encoding.TextUnmarshaler. Empty text is refused, since
// the zero address would read it gladly.
func (d *document) text(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		d.mismatch(n, v.Type(), path)
		return
	}
	u := v.Addr().Interface().(encoding.TextUnmarshaler)
	if err := u.UnmarshalText([]byte(n.Value)); err != nil {
		if _, known := examples[v.Type()]; known {
			d.mismatch(n, v.Type(), path)
			return
		}
		d.problemf(n, path, "", "is %q: %v", n.Value, err)
	}
}

// mismatch reports a value of the wrong shape.
func (d *document) mismatch(n *yaml.Node, t reflect.Type, path string) {
	fix := "write " + wanted(t)
	if ex, ok := examples[t]; ok {
		fix = "write it like " + ex.like
	} else if t.Kind() == reflect.Slice && n.Kind == yaml.ScalarNode {
		fix = fmt.Sprintf("put it in brackets: [%s]", n.Value)
	}
	d.problemf(n, path, fix, "is %s, want %s", described(n), wanted(t))
}

// examples are the types that have a written form of their own.
var examples = map[reflect.Type]struct{ what, like string }{
	reflect.TypeFor[netip.Addr]():     {"an IP address", "192.0.2.10 or 2001:db8::10"},
	reflect.TypeFor[netip.Prefix]():   {"an IP prefix", "192.0.2.0/24 or 2001:db8::/48"},
	reflect.TypeFor[netip.AddrPort](): {"an IP address and port", "127.0.0.1:5300 or [::1]:5300"},
	reflect.TypeFor[time.Duration]():  {"a duration", "20s, 1m30s or 250ms"},
}

// wanted describes a type in words that follow "want".
func wanted(t reflect.Type) string {
	if ex, ok := examples[t]; ok {
		return ex.what
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Struct, reflect.Map:
		return "a mapping of keys to values"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<t.Bits()-1)
	case reflect.Uint, reflect.Uint64:
		return "a whole number from 0 up"
	default:
		return "a whole number"
	}
}

// described names what stands at a node.
func described(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the truth value " + n.Value
	case "!!null":
		return "empty"
	default:
		return fmt.Sprintf("%q", n.Value)
	}
}

// closest returns the known word that word was probably meant to be, or
// nothing: at most a third of its letters may differ (one in short words).
func closest(word string, known []string) string {
	best, bestDistance := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func distance(a, b string) int {
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
