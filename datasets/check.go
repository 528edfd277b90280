package datasets

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// rowKind is one kind of row without its type.
type rowKind struct {
	kind string
	// check reads all rows of r, gives each fault to fault, and counts the lines.
	check func(r io.Reader, name string, fault func(error)) (lines int64)
}

// kinds lists the kinds of rows that a data set may hold.
func kinds() []rowKind {
	return []rowKind{
		kindOf[Vantage](), kindOf[Frontend](), kindOf[Region](), kindOf[Target](), kindOf[Sample](),
		kindOf[Hop](), kindOf[Link](), kindOf[Balancer](), kindOf[Catchment](), kindOf[Latency](),
		kindOf[Allocation](),
	}
}

func kindOf[R Row]() rowKind {
	var zero R
	return rowKind{kind: zero.Kind(), check: func(r io.Reader, name string, fault func(error)) (lines int64) {
		for _, err := range Read[R](r, name, JSONL) {
			lines++
			if err != nil {
				fault(err)
			}
		}
		return lines
	}}
}

// Validate checks the data set in dir from end to end: the manifest, that it
// lists exactly the files that are there, and each file's size, checksum, number
// of rows and every row. It returns all problems, joined, each with its file and,
// for a row, the line; of the rows of one file it names the first fifty.
func Validate(dir string) error {
	m, err := readManifest(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range m.Files {
		errs = append(errs, checkFile(filepath.Join(dir, f.Path), f))
	}
	entries, err := os.ReadDir(dir)
	errs = append(errs, err)
	for _, e := range entries {
		listed := slices.ContainsFunc(m.Files, func(f FileInfo) bool { return f.Path == e.Name() })
		if !listed && e.Name() != manifestName {
			errs = append(errs, &Problem{File: filepath.Join(dir, e.Name()),
				Msg: "not listed in " + manifestName, Fix: "it does not belong to the data set"})
		}
	}
	return errors.Join(errs...)
}

// checkFile checks one file against what the manifest says of it. Where exactly
// one row was changed, the problems name its line.
func checkFile(path string, want FileInfo) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	kind := slices.IndexFunc(kinds(), func(k rowKind) bool { return k.kind == want.Kind })
	var faults faultList
	sum, size, lines := sha256.New(), new(byteCount), newLocator()
	rows := kinds()[kind].check(io.TeeReader(file, io.MultiWriter(sum, size, lines)), path, faults.add)
	errs := []error{faults.err()}
	if line, ok := lines.changed(want.RowSums); ok {
		errs = append(errs, &Problem{File: path, Line: int(line), Msg: "not the row that was written (by row_sums of " + manifestName + ")"})
	}
	differs := func(what string, got, want any) {
		if got != want {
			errs = append(errs, &Problem{File: path, Msg: fmt.Sprintf("%s is %v, but %s says %v", what, got, manifestName, want)})
		}
	}
	differs("the number of rows", rows, want.Rows)
	differs("the size in bytes", int64(*size), want.Bytes)
	differs("the SHA-256 checksum", hex.EncodeToString(sum.Sum(nil)), want.SHA256)
	return errors.Join(errs...)
}

// byteCount counts what is written to it.
type byteCount int64

func (n *byteCount) Write(b []byte) (int, error) {
	*n += byteCount(len(b))
	return len(b), nil
}
