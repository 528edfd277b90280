package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"strandline/datasets"
)

// openDataset opens a data set and says what one is where there is none.
func openDataset(dir string) (*datasets.Set, error) {
	set, err := datasets.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: not a data set: there is no manifest.json in it; probe commands write one with -o DIR", dir)
	}
	return set, err
}

// renderInfo prints the manifest and one line per file.
func renderInfo(a *app, info datasets.Info) error {
	columns := []column[datasets.FileInfo]{
		{"file", func(f datasets.FileInfo) string { return f.Path }},
		{">rows", func(f datasets.FileInfo) string { return fmt.Sprint(f.Rows) }},
		{">bytes", func(f datasets.FileInfo) string { return fmt.Sprint(f.Bytes) }},
		{"sha256", func(f datasets.FileInfo) string { return f.SHA256 }},
	}
	switch a.format {
	case "json":
		return renderOne(a.stdout, info)
	case "csv":
		var records [][]any
		for _, f := range info.Files {
			records = append(records, []any{f.Path, f.Kind, f.Rows, f.Bytes, f.SHA256})
		}
		return renderCSV(a.stdout, "path,kind,rows,bytes,sha256", records...)
	}
	fmt.Fprintf(a.stdout, "data set  %s (schema %d)\nsource    %s, seed %d\nmade by   %s: %s\ncreated   %s\n",
		info.Dir, info.SchemaVersion, info.Source, info.Seed, info.Tool, strings.Join(info.CommandLine, " "), clock(info.Created))
	if !info.First.IsZero() {
		fmt.Fprintf(a.stdout, "measured  %s to %s\n", clock(info.First), clock(info.Last))
	}
	fmt.Fprintln(a.stdout)
	return table(a.stdout, info.Files, columns)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}
