package datasets

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// Format is a text format of rows.
type Format string

// The formats. In both, a file is UTF-8, every line ends with a line feed and
// holds one row, numbers are the shortest that read back the same, and equal
// rows are equal bytes.
//
// JSONL is one JSON object per line. CSV is RFC 4180 with a header line and no
// line break inside a cell; a missing estimate and a zero optional field are
// empty cells, a list is joined by spaces, and labels are k=v;k=v with a
// backslash before each \, ; and = that belongs to them.
const (
	JSONL Format = "jsonl"
	CSV   Format = "csv"
)

// FormatOf returns the format that the ending of a file's name stands for.
func FormatOf(path string) (Format, error) {
	f := Format(strings.TrimPrefix(filepath.Ext(path), "."))
	if bad := f.check(); bad != nil {
		return "", &Problem{File: path, Msg: "the ending names no format", Fix: "name the file .jsonl or .csv"}
	}
	return f, nil
}

// check refuses what is not a format.
func (f Format) check() error {
	if f != JSONL && f != CSV {
		return fmt.Errorf("format %q is not known; write jsonl or csv", string(f))
	}
	return nil
}

// Read decodes and validates the rows of r, one per line; name stands for r in
// errors. It is strict: an unknown, repeated or missing key or column, a value
// of the wrong type or that Validate refuses, an empty, over-long (1 MiB) or
// unfinished line and bytes that are not UTF-8 are faults.
//
// For a line at fault the sequence yields the zero row and a *Problem, or
// several joined, with file, line, column and key; it then goes on with the next
// line if the caller does. A fault in the CSV header, and an error of r, end it.
func Read[R Row](r io.Reader, name string, f Format) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var row, zero R
		d := newDecoder(r, name, f, reflect.ValueOf(&row).Elem(), zero.Kind())
		for {
			row = zero
			err := d.next()
			if err == io.EOF {
				return
			}
			if err == nil {
				err = d.placed(row.Validate())
			}
			if err != nil {
				row = zero
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// ReadFile returns all rows of a .jsonl or .csv file, or its faults, joined, of
// which it names the first fifty.
func ReadFile[R Row](path string) ([]R, error) {
	f, err := FormatOf(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Collect(Read[R](file, path, f))
}

// Collect returns the rows of a sequence, or its errors, joined, of which it
// names the first fifty.
func Collect[R Row](seq iter.Seq2[R, error]) ([]R, error) {
	var rows []R
	var faults faultList
	for row, err := range seq {
		if err != nil {
			faults.add(err)
			continue
		}
		rows = append(rows, row)
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	return rows, nil
}

// Write validates and encodes rows. It writes nothing that Read would refuse: at
// the first row that is not valid it stops with an error that counts from row 1.
func Write[R Row](w io.Writer, f Format, rows iter.Seq[R]) error {
	if err := f.check(); err != nil {
		return err
	}
	var row R
	v := reflect.ValueOf(&row).Elem()
	tb := tableOf(v.Type(), row.Kind())
	out := bufio.NewWriter(w)
	if f == CSV {
		out.Write(tb.appendHeader(nil)) // Flush reports the error
	}
	n := 0
	var line []byte
	for row = range rows {
		n++
		if err := row.Validate(); err != nil {
			return errors.Join(fmt.Errorf("write %s %d: %w", tb.kind, n, err), out.Flush())
		}
		line = tb.appendRow(line[:0], f, v)
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// appendRow appends the row v as one line.
func (t *table) appendRow(dst []byte, f Format, v reflect.Value) []byte {
	if f == CSV {
		dst = t.appendCells(dst, v)
	} else {
		dst = t.appendJSON(dst, v)
	}
	return append(dst, '\n')
}

// decoder reads rows into one variable.
type decoder struct {
	lines   lineReader
	format  Format
	table   *table
	row     reflect.Value
	columns []int  // by field: where its value stands in the line, from 1; 0 = nowhere
	order   []int  // CSV: the field of each column, nil before the header was read
	cells   []cell // CSV: reused
}

func newDecoder(r io.Reader, name string, f Format, row reflect.Value, kind string) *decoder {
	tb := tableOf(row.Type(), kind)
	d := &decoder{format: f, table: tb, row: row, columns: make([]int, len(tb.fields))}
	d.lines = lineReader{r: bufio.NewReaderSize(r, 64<<10), name: name, failed: f.check()}
	return d
}

// next decodes the next line into the row, which is zero before. After an error
// other than a line's fault there is no next one: io.EOF.
func (d *decoder) next() error {
	parse := d.parseJSON
	if d.format == CSV {
		parse = d.parseCells
		if err := d.start(); err != nil {
			return err
		}
	}
	line, err := d.lines.next()
	if err != nil {
		return err
	}
	clear(d.columns)
	if bad := parse(line); bad != nil {
		return d.placed(bad)
	}
	return nil
}

// start reads the CSV header unless that was done. Without a header no further
// line can be read.
func (d *decoder) start() error {
	if d.order != nil {
		return nil
	}
	line, err := d.lines.next()
	if err == io.EOF {
		err = &Problem{File: d.lines.name, Line: 1, Msg: "no header", Fix: "start with the line " + d.table.header()}
	}
	if err == nil {
		d.order, err = d.header(line)
	}
	if err != nil {
		d.order, d.lines.failed = []int{}, io.EOF
	}
	return err
}

// parseJSON decodes a line that holds one object.
func (d *decoder) parseJSON(line string) *Problem {
	p := scanner{s: line}
	p.space()
	if bad := d.table.parseJSON(&p, d.row, d.columns); bad != nil {
		return bad
	}
	return p.end()
}

// placed completes the problems of a row with the file and the line, and with
// the column of the field that their key starts with.
func (d *decoder) placed(err error) error {
	switch e := err.(type) {
	case *Problem:
		e.File, e.Line = d.lines.name, d.lines.line
		if e.Column == 0 {
			head := e.Key
			if end := strings.IndexAny(head, ".["); end >= 0 {
				head = head[:end]
			}
			if i, ok := d.table.byKey[head]; ok {
				e.Column = d.columns[i]
			}
		}
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			d.placed(err)
		}
	}
	return err
}

// maxFaults is how many faults a faultList tells one by one.
const maxFaults = 50

// faultList collects faults without growing with their number.
type faultList struct {
	errs []error
	more int
}

// add takes in err, one by one if it is joined.
func (l *faultList) add(err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			l.add(err)
		}
		return
	}
	if err == nil {
		return
	}
	if len(l.errs) == maxFaults {
		l.more++
		return
	}
	l.errs = append(l.errs, err)
}

// err joins what was added; nil when nothing was.
func (l *faultList) err() error {
	if l.more > 0 {
		return errors.Join(append(l.errs, fmt.Errorf("and %d more", l.more))...)
	}
	return errors.Join(l.errs...)
}
