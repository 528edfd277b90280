package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"strandline/datasets"
)

// column is one column of a table for people: a heading and the text of a row.
// A heading that starts with ">" is right-aligned.
type column[R any] struct {
	head string
	text func(R) string
}

// renderRows writes rows in the format the user asked for: the row codec for
// json and csv, the columns for people.
func renderRows[R datasets.Row](a *app, rows []R, columns []column[R]) error {
	switch a.format {
	case "json":
		return datasets.Write(a.stdout, datasets.JSONL, slices.Values(rows))
	case "csv":
		return datasets.Write(a.stdout, datasets.CSV, slices.Values(rows))
	}
	return table(a.stdout, rows, columns)
}

// inOrder returns rows sorted by their target into the order in which targets
// were named, rows of one target as they are.
func inOrder[R any](rows []R, targets []datasets.Target, of func(R) netip.Addr) []R {
	rank := make(map[netip.Addr]int, len(targets))
	for i, t := range slices.Backward(targets) {
		rank[t.Addr.Unmap().WithZone("")] = i
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b R) int { return rank[of(a)] - rank[of(b)] })
	return rows
}

// renderOne writes one JSON object on a line.
func renderOne(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// renderCSV writes records under a header, as RFC 4180 has them.
func renderCSV(w io.Writer, header string, records ...[]any) error {
	out := csv.NewWriter(w)
	out.Write(strings.Split(header, ","))
	for _, r := range records {
		var cells []string
		for _, v := range r {
			cells = append(cells, fmt.Sprint(v))
		}
		out.Write(cells)
	}
	out.Flush()
	return out.Error() // of any write
}

// renderDocument writes a text that is a file of its own, YAML here: as it is
// for people, as the one value of an object or record for programs.
func renderDocument(a *app, text string) error {
	switch a.format {
	case "json":
		return renderOne(a.stdout, map[string]string{"yaml": text})
	case "csv":
		return renderCSV(a.stdout, "yaml", []any{text})
	}
	_, err := fmt.Fprint(a.stdout, text)
	return err
}

// table writes rows in aligned columns under their headings.
func table[R any](w io.Writer, rows []R, columns []column[R]) error {
	cells := make([][]string, 1, len(rows)+1)
	width := make([]int, len(columns))
	for _, c := range columns {
		cells[0] = append(cells[0], strings.TrimPrefix(c.head, ">"))
	}
	for _, r := range rows {
		var line []string
		for _, c := range columns {
			line = append(line, c.text(r))
		}
		cells = append(cells, line)
	}
	for _, line := range cells {
		for i, text := range line {
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for _, line := range cells {
		var out strings.Builder
		for i, text := range line {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(text))
			if strings.HasPrefix(columns[i].head, ">") {
				text = pad + text
			} else {
				text += pad
			}
			out.WriteString(text + "  ")
		}
		b.WriteString(strings.TrimRight(out.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ms formats a time in milliseconds, "-" where there is no estimate.
func ms(m datasets.Millis) string {
	if !m.Known() {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(m))
}

// interval formats a range of milliseconds, "-" where there is none.
func interval(lo, hi datasets.Millis) string {
	if !lo.Known() || !hi.Known() {
		return "-"
	}
	return "[" + ms(lo) + ", " + ms(hi) + "]"
}

// orDash is a text, "-" where it is empty.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
