package datasets

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
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

// checkFile checks one file against what the manifest says of it.
func checkFile(path string, want FileInfo) error {
	file, err := openRegular(path)
	if err != nil {
		return err
	}
	defer file.Close()
	kind := slices.IndexFunc(kinds(), func(k rowKind) bool { return k.kind == want.Kind })
	var faults faultList
	seen := newFileCheck()
	seen.rows = kinds()[kind].check(io.TeeReader(file, seen), path, faults.add)
	return errors.Join(faults.err(), seen.compare(path, want))
}

// fileCheck sums up a file while it is read.
type fileCheck struct {
	rows, size int64
	sum        hash.Hash
	lines      *locator
}

func newFileCheck() *fileCheck { return &fileCheck{sum: sha256.New(), lines: newLocator()} }

// Write takes the next bytes of the file.
func (c *fileCheck) Write(b []byte) (int, error) {
	c.size += int64(len(b))
	c.sum.Write(b)
	return c.lines.Write(b)
}

// compare reports where the file is not what the manifest says. Where exactly one
// row was changed, a problem names its line; where the checksum holds and the row
// sums do not, it is the manifest that was changed.
func (c *fileCheck) compare(path string, want FileInfo) error {
	var errs []error
	differs := func(what string, got, want any) {
		if got != want {
			errs = append(errs, &Problem{File: path, Msg: fmt.Sprintf("%s is %v, but %s says %v", what, got, manifestName, want)})
		}
	}
	sum := hex.EncodeToString(c.sum.Sum(nil))
	if line, ok := c.lines.changed(want.RowSums); ok && sum != want.SHA256 {
		errs = append(errs, &Problem{File: path, Line: int(line), Msg: "not the row that was written (by row_sums of " + manifestName + ")"})
	} else if sum == want.SHA256 && c.lines.text() != want.RowSums {
		errs = append(errs, &Problem{File: filepath.Join(filepath.Dir(path), manifestName), Key: "row_sums",
			Msg: "not those of " + want.Path + ", whose checksum is right", Fix: "the manifest was changed after it was written"})
	}
	differs("the number of rows", c.rows, want.Rows)
	differs("the size in bytes", c.size, want.Bytes)
	differs("the SHA-256 checksum", sum, want.SHA256)
	return errors.Join(errs...)
}
