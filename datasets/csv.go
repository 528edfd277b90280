package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// cell is one cell of a CSV line, without its quotes.
type cell struct {
	text   string
	column int // where it starts in the line, from 1
}

// header is the header line.
func (t *table) header() string { return strings.ReplaceAll(t.keys(), ", ", ",") }

// appendHeader appends the header line and its line feed.
func (t *table) appendHeader(dst []byte) []byte { return append(append(dst, t.header()...), '\n') }

// appendCells appends the struct v as comma-separated cells.
func (t *table) appendCells(dst []byte, v reflect.Value) []byte {
	for i := range t.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		start := len(dst)
		dst = t.fields[i].form.appendText(dst, v.Field(i))
		if bytes.ContainsAny(dst[start:], ",\"\r\n") {
			text := strings.ReplaceAll(string(dst[start:]), `"`, `""`)
			dst = append(append(append(dst[:start], '"'), text...), '"')
		}
	}
	return dst
}

// header reads the header line into the order of the fields. Columns may stand
// in any order.
func (d *decoder) header(line string) ([]int, error) {
	clear(d.columns)
	cells, bad := splitCells(line, nil)
	if bad != nil {
		return nil, d.placed(bad)
	}
	var errs []error
	order := make([]int, 0, len(cells))
	for _, c := range cells {
		i, known := d.table.byKey[c.text]
		switch {
		case !known:
			errs = append(errs, &Problem{Column: c.column, Key: c.text, Msg: "unknown column",
				Fix: "a " + d.table.kind + " has " + d.table.keys()})
		case d.columns[i] != 0:
			errs = append(errs, &Problem{Column: c.column, Key: c.text, Msg: "column occurs twice", Fix: "remove one"})
		default:
			d.columns[i] = c.column
			order = append(order, i)
		}
	}
	if bad := d.table.missing(1, d.columns); bad != nil {
		errs = append(errs, bad)
	}
	if err := d.placed(errors.Join(errs...)); err != nil {
		return nil, err
	}
	return order, nil
}

// parseCells decodes a line of cells.
func (d *decoder) parseCells(line string) *Problem {
	var bad *Problem
	if d.cells, bad = splitCells(line, d.cells[:0]); bad != nil {
		return bad
	}
	if len(d.cells) != len(d.order) {
		return &Problem{Column: 1, Msg: fmt.Sprintf("%s, but the header has %s",
			count(len(d.cells), "cell"), count(len(d.order), "column"))}
	}
	for k, c := range d.cells {
		i := d.order[k]
		f := &d.table.fields[i]
		d.columns[i] = c.column
		if err := f.form.parseText(c.text, d.row.Field(i)); err != nil {
			return &Problem{Column: c.column, Key: f.key, Msg: err.Error()}
		}
	}
	return nil
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// splitCells appends the cells of a line (RFC 4180 section 2, but for line
// breaks inside quotes). A quote is either a cell's first and last byte or
// doubled inside them.
func splitCells(line string, cells []cell) ([]cell, *Problem) {
	for at := 0; ; {
		c := cell{column: at + 1}
		if strings.HasPrefix(line[at:], `"`) {
			n := 0
			if c.text, n = unquoteCell(line[at:]); n == 0 {
				return nil, &Problem{Column: at + 1, Msg: "quote without its closing quote",
					Fix: "double a quote inside a cell; a cell holds no line break"}
			}
			at += n
		} else {
			end := strings.IndexByte(line[at:], ',')
			if end < 0 {
				end = len(line) - at
			}
			c.text = line[at : at+end]
			if q := strings.IndexByte(c.text, '"'); q >= 0 {
				return nil, &Problem{Column: at + q + 1, Msg: "quote inside a cell without quotes",
					Fix: "put the cell in quotes and double the quote"}
			}
			at += end
		}
		cells = append(cells, c)
		if at == len(line) {
			return cells, nil
		}
		if line[at] != ',' {
			return nil, &Problem{Column: at + 1, Msg: "text after the closing quote", Fix: "write a comma there"}
		}
		at++
	}
}

// unquoteCell reads the quoted cell that s starts with and returns its length in
// s, 0 when it does not end.
func unquoteCell(s string) (text string, n int) {
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '"' {
			i++
			continue
		}
		return strings.ReplaceAll(s[1:i], `""`, `"`), i + 1
	}
	return "", 0
}
