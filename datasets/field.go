package datasets

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table is how a struct type is written: its fields in order, by the names and
// the omitempty and omitzero marks of their json tags. One table serves every
// format, so no format knows a row type.
type table struct {
	kind   string // the word for one of them, in messages
	fields []field
	byKey  map[string]int
}

// field is one member of a row: a JSON key, a CSV column.
type field struct {
	key      string
	optional bool // may be left out where it is zero
	form     form
}

// form is how values of one type are written. A scalar has one text, which JSON
// puts in quotes or not; only what is made of parts has its own JSON functions.
// The values handed to a form are addressable.
type form struct {
	quoted     bool // a JSON string; otherwise a number
	nullable   bool // the empty text is JSON null
	appendText func(dst []byte, v reflect.Value) []byte
	parseText  func(text string, v reflect.Value) error
	appendJSON func(dst []byte, v reflect.Value) []byte
	parseJSON  func(p *scanner, v reflect.Value) *Problem
}

// tableOf returns the table of a struct type.
func tableOf(t reflect.Type, kind string) *table {
	tb := &table{kind: kind, byKey: make(map[string]int)}
	for i := range t.NumField() {
		key, marks, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		tb.byKey[key] = i
		tb.fields = append(tb.fields, field{key: key, optional: marks != "", form: formOf(t.Field(i).Type)})
	}
	return tb
}

// keys lists the table's keys for a message.
func (t *table) keys() string {
	names := make([]string, len(t.fields))
	for i, f := range t.fields {
		names[i] = f.key
	}
	return strings.Join(names, ", ")
}

// formOf returns the form of a type that occurs in rows or in the manifest.
func formOf(t reflect.Type) form {
	switch t {
	case reflect.TypeFor[netip.Addr]():
		return form{quoted: true, appendText: appendAddr, parseText: parseAddr}
	case reflect.TypeFor[time.Time]():
		return form{quoted: true, appendText: appendTime, parseText: parseTime}
	case reflect.TypeFor[Millis]():
		return form{nullable: true, appendText: appendMillis, parseText: parseMillis}
	}
	switch t.Kind() {
	case reflect.String:
		return form{quoted: true, appendText: appendString, parseText: parseString}
	case reflect.Float64:
		return form{appendText: appendFloatValue, parseText: parseFloatValue}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return form{appendText: appendUint, parseText: parseUint}
	case reflect.Int, reflect.Int64:
		return form{appendText: appendInt, parseText: parseInt}
	case reflect.Slice:
		return listForm(formOf(t.Elem()))
	case reflect.Map:
		return form{appendText: appendPairs, parseText: parsePairs, appendJSON: appendMap, parseJSON: parseMap}
	case reflect.Struct:
		tb := tableOf(t, "file")
		return form{appendJSON: tb.appendJSON, parseJSON: func(p *scanner, v reflect.Value) *Problem {
			return tb.parseJSON(p, v, make([]int, len(tb.fields)))
		}}
	}
	panic("datasets: no form for " + t.String())
}

// write appends v as JSON.
func (f *form) write(dst []byte, v reflect.Value) []byte {
	if f.appendJSON != nil {
		return f.appendJSON(dst, v)
	}
	if f.quoted {
		dst = append(dst, '"')
		start := len(dst)
		return append(escapeFrom(f.appendText(dst, v), start), '"')
	}
	start := len(dst)
	if dst = f.appendText(dst, v); f.nullable && len(dst) == start {
		dst = append(dst, "null"...)
	}
	return dst
}

// read consumes a JSON value into v.
func (f *form) read(p *scanner, v reflect.Value) *Problem {
	if f.parseJSON != nil {
		return f.parseJSON(p, v)
	}
	p.space()
	at := p.pos
	var text string
	var bad *Problem
	switch {
	case f.quoted:
		text, bad = p.str()
	case f.nullable && p.null():
	default:
		text, bad = p.number()
	}
	if bad != nil {
		return bad
	}
	if err := f.parseText(text, v); err != nil {
		return p.fault(at, "", err.Error(), "")
	}
	return nil
}

// appendJSON appends the struct v as one JSON object, without the optional
// fields that are zero.
func (t *table) appendJSON(dst []byte, v reflect.Value) []byte {
	dst = append(dst, '{')
	sep := false
	for i := range t.fields {
		f, value := &t.fields[i], v.Field(i)
		if f.optional && empty(value) {
			continue
		}
		if sep {
			dst = append(dst, ',')
		}
		sep = true
		dst = append(append(append(dst, '"'), f.key...), `":`...)
		dst = f.form.write(dst, value)
	}
	return append(dst, '}')
}

// empty reports whether an optional field is left out.
func empty(v reflect.Value) bool {
	if k := v.Kind(); k == reflect.Map || k == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}

// parseJSON consumes one JSON object into the struct v, which is zero before,
// and notes in columns where each field's value stands (from 1). Every key is
// known, occurs once, and is there unless it is optional.
func (t *table) parseJSON(p *scanner, v reflect.Value, columns []int) *Problem {
	start, next := p.pos, 0
	err := p.members(func(name string, at int) *Problem {
		i, known := next, next < len(t.fields) && t.fields[next].key == name
		if !known { // not in the order that we write
			i, known = t.byKey[name]
		}
		switch {
		case !known:
			return p.fault(at, name, "unknown key", "a "+t.kind+" has "+t.keys())
		case columns[i] != 0:
			return p.fault(at, name, "key occurs twice", "remove one")
		}
		columns[i], next = p.pos+1, i+1
		return under(name, t.fields[i].form.read(p, v.Field(i)))
	})
	if err != nil {
		return err
	}
	return t.missing(start+1, columns)
}

// under puts name in front of the key of a problem.
func under(name string, err *Problem) *Problem {
	if err == nil {
		return nil
	}
	if err.Key == "" || err.Key[0] == '[' {
		err.Key = name + err.Key
	} else {
		err.Key = name + "." + err.Key
	}
	return err
}

// missing names the required fields that have no column.
func (t *table) missing(column int, columns []int) *Problem {
	var names []string
	for i, f := range t.fields {
		if columns[i] == 0 && !f.optional {
			names = append(names, f.key)
		}
	}
	if names == nil {
		return nil
	}
	return &Problem{Column: column, Key: names[0], Msg: "missing", Fix: "add " + strings.Join(names, ", ")}
}

// The scalars.

func appendString(dst []byte, v reflect.Value) []byte { return append(dst, v.String()...) }

// parseString copies the text, so that a row does not keep its whole line alive.
func parseString(text string, v reflect.Value) error {
	v.SetString(strings.Clone(text))
	return nil
}

func appendAddr(dst []byte, v reflect.Value) []byte {
	a := v.Addr().Interface().(*netip.Addr)
	if !a.IsValid() {
		return dst
	}
	return a.AppendTo(dst)
}

// parseAddr takes the empty text for the zero address, as netip does; Validate
// knows where an address is needed.
func parseAddr(text string, v reflect.Value) error {
	if text == "" {
		return nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return errors.New("want an IP address, got " + clip(text))
	}
	*v.Addr().Interface().(*netip.Addr) = a
	return nil
}

func appendTime(dst []byte, v reflect.Value) []byte {
	return v.Addr().Interface().(*time.Time).AppendFormat(dst, time.RFC3339Nano)
}

func parseTime(text string, v reflect.Value) error {
	var to encoding.TextUnmarshaler = v.Addr().Interface().(*time.Time)
	if to.UnmarshalText([]byte(text)) != nil {
		return errors.New("want a time such as 2026-01-02T03:04:05Z, got " + clip(text))
	}
	return nil
}

func appendUint(dst []byte, v reflect.Value) []byte { return strconv.AppendUint(dst, v.Uint(), 10) }

func parseUint(text string, v reflect.Value) error {
	bits := v.Type().Bits()
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil || !isNumber(text) {
		most := strconv.FormatUint(1<<bits-1, 10)
		return errors.New("want a whole number from 0 to " + most + ", got " + clip(text))
	}
	v.SetUint(n)
	return nil
}

func appendInt(dst []byte, v reflect.Value) []byte { return strconv.AppendInt(dst, v.Int(), 10) }

func parseInt(text string, v reflect.Value) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !isNumber(text) {
		return errors.New("want a whole number of at most 64 bits, got " + clip(text))
	}
	v.SetInt(n)
	return nil
}

func appendFloatValue(dst []byte, v reflect.Value) []byte { return appendFloat(dst, v.Float()) }

func parseFloatValue(text string, v reflect.Value) error {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !isNumber(text) {
		return errors.New("want a number of 64 bits, got " + clip(text))
	}
	v.SetFloat(f)
	return nil
}

func appendMillis(dst []byte, v reflect.Value) []byte {
	if !Millis(v.Float()).Known() {
		return dst
	}
	return appendFloat(dst, v.Float())
}

func parseMillis(text string, v reflect.Value) error {
	if text == "" {
		v.SetFloat(float64(NoEstimate()))
		return nil
	}
	return parseFloatValue(text, v)
}

// appendFloat writes the shortest text that reads back as f, with an exponent
// where encoding/json has one.
func appendFloat(dst []byte, f float64) []byte {
	if abs := max(f, -f); abs == 0 || abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); n >= 4 && string(dst[n-4:n-1]) == "e-0" { // e-07, but e-7 in JavaScript
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst
}

func formatFloat(f float64) string { return string(appendFloat(nil, f)) }

// Lists and maps.

// listForm is the form of slices: a JSON list; in a cell, joined by spaces,
// which no address contains.
func listForm(elem form) form {
	return form{
		appendText: func(dst []byte, v reflect.Value) []byte {
			for i := range v.Len() {
				if i > 0 {
					dst = append(dst, ' ')
				}
				dst = elem.appendText(dst, v.Index(i))
			}
			return dst
		},
		parseText: func(text string, v reflect.Value) error {
			for word := range strings.SplitSeq(text, " ") {
				if text == "" {
					break
				}
				if err := elem.parseText(word, grow(v)); err != nil {
					return err
				}
			}
			return nil
		},
		appendJSON: func(dst []byte, v reflect.Value) []byte {
			dst = append(dst, '[')
			for i := range v.Len() {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = elem.write(dst, v.Index(i))
			}
			return append(dst, ']')
		},
		parseJSON: func(p *scanner, v reflect.Value) *Problem {
			return p.elements(func(i int) *Problem {
				return under("["+strconv.Itoa(i)+"]", elem.read(p, grow(v)))
			})
		},
	}
}

// grow appends a zero element to the slice v and returns it.
func grow(v reflect.Value) reflect.Value {
	v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	return v.Index(v.Len() - 1)
}

// labels returns the map in a field.
func labels(v reflect.Value) *map[string]string { return v.Addr().Interface().(*map[string]string) }

// put adds a pair to a map that may be nil and reports whether the key was new.
func put(m *map[string]string, key, value string) bool {
	if *m == nil {
		*m = make(map[string]string)
	}
	_, twice := (*m)[key]
	(*m)[strings.Clone(key)] = strings.Clone(value)
	return !twice
}

// appendMap appends a JSON object with its keys sorted.
func appendMap(dst []byte, v reflect.Value) []byte {
	m := *labels(v)
	dst = append(dst, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, k), ':')
		dst = appendQuoted(dst, m[k])
	}
	return append(dst, '}')
}

func parseMap(p *scanner, v reflect.Value) *Problem {
	return p.members(func(name string, at int) *Problem {
		value, err := p.str()
		if err == nil && !put(labels(v), name, value) {
			err = p.fault(at, "", "key occurs twice", "remove one")
		}
		return under(name, err)
	})
}

// appendPairs appends k=v;k=v with the keys sorted. A backslash stands before
// each of \ ; = that belongs to a key or a value.
func appendPairs(dst []byte, v reflect.Value) []byte {
	m := *labels(v)
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ';')
		}
		dst = append(appendEscaped(dst, k), '=')
		dst = appendEscaped(dst, m[k])
	}
	return dst
}

func appendEscaped(dst []byte, s string) []byte {
	for i := range len(s) {
		if strings.IndexByte(`\;=`, s[i]) >= 0 {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return dst
}

func parsePairs(text string, v reflect.Value) error {
	for mark := byte(';'); mark == ';' && (text != "" || *labels(v) != nil); {
		var key, value string
		if key, mark, text = cutPart(text); mark != '=' {
			return errors.New("want key=value pairs joined by ';'")
		}
		if value, mark, text = cutPart(text); mark != ';' && mark != 0 {
			return errors.New("write a '=' or backslash in a value with a backslash before it")
		}
		if !put(labels(v), key, value) {
			return errors.New(clip(key) + " occurs twice")
		}
	}
	return nil
}

// cutPart reads one key or value, without its escapes, up to the mark that ends
// it: '=' or ';', 0 at the end of the text, a backslash when that is its end.
func cutPart(text string) (part string, mark byte, rest string) {
	var b []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '=' || c == ';':
			return string(b), c, text[i+1:]
		case c != '\\':
			b = append(b, c)
		case i+1 == len(text):
			return string(b), c, ""
		default:
			i++
			b = append(b, text[i])
		}
	}
	return string(b), 0, ""
}

// JSON strings.

// appendQuoted appends s as a JSON string, escaped as encoding/json does (with
// SetEscapeHTML(false)).
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := len(dst)
	return append(escapeFrom(append(dst, s...), start), '"')
}

// escapeFrom escapes dst[start:] as the inside of a JSON string.
func escapeFrom(dst []byte, start int) []byte {
	for _, c := range dst[start:] {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			raw := string(dst[start:])
			dst = dst[:start]
			for _, r := range raw {
				dst = appendEscape(dst, r)
			}
			return dst
		}
	}
	return dst
}

// appendEscape appends one rune of a JSON string. Line separators are escaped
// because JavaScript once took them for the end of a line.
func appendEscape(dst []byte, r rune) []byte {
	const short, letters = "\"\\\b\f\n\r\t", `"\bfnrt`
	switch i := strings.IndexRune(short, r); {
	case i >= 0:
		return append(dst, '\\', letters[i])
	case r < ' ' || r == '\u2028' || r == '\u2029':
		return fmt.Appendf(dst, `\u%04x`, r)
	}
	return utf8.AppendRune(dst, r)
}
