package main

import (
	"io"
	"os"
	"path/filepath"
)

// summary is where a text for people goes: to standard output where that is the
// format, and else out of the way of the data.
func (a *app) summary() io.Writer {
	if a.format == "table" {
		return a.stdout
	}
	return a.stderr
}

// file is one thing that the demo leaves.
type file struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// renderFiles lists what is in a directory, for programs; people have read it
// in the summary.
func renderFiles(a *app, dir string) error {
	if a.format == "table" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var records [][]any
	for _, e := range entries {
		f := file{e.Name(), filepath.Join(dir, e.Name())}
		records = append(records, []any{f.Name, f.Path})
		if a.format == "json" {
			if err := renderOne(a.stdout, f); err != nil {
				return err
			}
		}
	}
	if a.format == "csv" {
		return renderCSV(a.stdout, "name,path", records...)
	}
	return nil
}
