package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// verdict is what a check said about one file or directory.
type verdict struct {
	Path   string   `json:"path"`
	Valid  bool     `json:"valid"`
	Faults []string `json:"faults"`
}

// checkAll checks each path, prints the verdicts as data and the faults as talk.
// The error is a checkError when something is wrong, unless a path is not there
// at all, so that nothing could be checked.
func checkAll(a *app, paths []string, check func(path string) error) error {
	var verdicts []verdict
	var faults, missing []error
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, err)
			continue
		}
		v := verdict{Path: path, Valid: true, Faults: []string{}}
		if err := check(path); err != nil {
			v.Valid, v.Faults = false, strings.Split(err.Error(), "\n")
			faults = append(faults, err)
		}
		verdicts = append(verdicts, v)
	}
	if err := renderVerdicts(a, verdicts); err != nil {
		return err
	}
	if len(missing) > 0 {
		return errors.Join(append(missing, faults...)...)
	}
	if err := errors.Join(faults...); err != nil {
		return checkError{err}
	}
	return nil
}

func renderVerdicts(a *app, verdicts []verdict) error {
	var records [][]any
	for _, v := range verdicts {
		switch a.format {
		case "json":
			if err := renderOne(a.stdout, v); err != nil {
				return err
			}
		case "csv":
			if v.Valid {
				records = append(records, []any{v.Path, true, ""})
			}
			for _, fault := range v.Faults {
				records = append(records, []any{v.Path, false, fault})
			}
		default:
			text := "valid"
			if !v.Valid {
				text = "not valid, " + plural(len(v.Faults), "fault")
			}
			if _, err := fmt.Fprintf(a.stdout, "%s: %s\n", v.Path, text); err != nil {
				return err
			}
		}
	}
	if a.format == "csv" {
		return renderCSV(a.stdout, "path,valid,fault", records...)
	}
	return nil
}
