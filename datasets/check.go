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
	// check reads all rows of r and gives each fault to fault.
	check func(r io.Reader, name string, fault func(error))
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
	return rowKind{kind: zero.Kind(), check: func(r io.Reader, name string, fault func(error)) {
		for _, err := range Read[R](r, name, JSONL) {
			if err != nil {
				fault(err)
			}
		}
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
	for i := range m.Files {
		errs = append(errs, checkFile(dir, m.Files, i))
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

// checkFile checks file i against what the manifest in dir says of it.
func checkFile(dir string, files []FileInfo, i int) error {
	path := filepath.Join(dir, files[i].Path)
	file, err := openRegular(path)
	if err != nil {
		return err
	}
	defer file.Close()
	kind := slices.IndexFunc(kinds(), func(k rowKind) bool { return k.kind == files[i].Kind })
	var faults faultList
	seen := newFileCheck()
	kinds()[kind].check(io.TeeReader(file, seen), path, faults.add)
	errs := []error{faults.err()}
	for _, p := range seen.compare(dir, files, i) {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// fileCheck sums up a file while it is read.
type fileCheck struct {
	size  int64
	sum   hash.Hash
	lines *locator
}

func newFileCheck() *fileCheck { return &fileCheck{sum: sha256.New(), lines: newLocator()} }

// Write takes the next bytes of the file.
func (c *fileCheck) Write(b []byte) (int, error) {
	c.size += int64(len(b))
	c.sum.Write(b)
	return c.lines.Write(b)
}

// compare returns where the file that was read to its end, file i of the manifest
// in dir, is not what the manifest says. Of the checksum, the row sums and the block
// sums one alone vouches for the file; then what differs is wrong in the manifest.
func (c *fileCheck) compare(dir string, files []FileInfo, i int) []*Problem {
	c.lines.finish()
	want := files[i]
	got := FileInfo{Path: want.Path, Kind: want.Kind, Rows: c.lines.index, Bytes: c.size,
		SHA256: hex.EncodeToString(c.sum.Sum(nil)), RowSums: c.lines.rowSums(), BlockSums: c.lines.blockSums()}
	switch {
	case got == want:
		return nil
	case got.SHA256 == want.SHA256 || got.RowSums == want.RowSums || got.BlockSums == want.BlockSums:
		return misstated(filepath.Join(dir, manifestName), i, got, want)
	}
	path := filepath.Join(dir, want.Path)
	faults := []*Problem{c.where(path, want)}
	differs := func(what string, got, want any) {
		if got != want {
			faults = append(faults, &Problem{File: path, Msg: fmt.Sprintf("%s is %v, but %s says %v", what, got, manifestName, want)})
		}
	}
	differs("the number of rows", got.Rows, want.Rows)
	differs("the size in bytes", got.Bytes, want.Bytes)
	differs("the SHA-256 checksum", got.SHA256, want.SHA256)
	return faults
}

// where tells as closely as is known what was changed in a file.
func (c *fileCheck) where(path string, want FileInfo) *Problem {
	if line, ok := c.lines.changed(want.RowSums); ok && c.lines.index == want.Rows {
		return &Problem{File: path, Line: int(line), Msg: "not the row that was written (by row_sums of " + manifestName + ")"}
	}
	const many = "rows were changed, removed, added or moved"
	from, to, ok := c.lines.first(want.BlockSums, want.Rows)
	switch {
	case !ok:
		return &Problem{File: path, Msg: many}
	case from == to:
		return &Problem{File: path, Line: int(from), Msg: many + " from this line on (by block_sums of " + manifestName + ")"}
	}
	return &Problem{File: path, Msg: fmt.Sprintf("%s, the first between lines %d and %d (by block_sums of %s)", many, from, to, manifestName)}
}

// misstated returns the keys of file i in the manifest at path that are wrong.
func misstated(path string, i int, got, want FileInfo) []*Problem {
	text, _ := readRegular(path) // it was read before; without it no line is named
	var faults []*Problem
	fault := func(wrong bool, name, msg string) {
		if wrong {
			key := fmt.Sprintf("files[%d].%s", i, name)
			faults = append(faults, &Problem{File: path, Line: lineOf(string(text), key), Key: key, Msg: msg,
				Fix: "the manifest was changed after it was written"})
		}
	}
	intact := want.Path + ", which is as it was written"
	fault(got.Rows != want.Rows, "rows", fmt.Sprintf("%d, but it is %d for %s", want.Rows, got.Rows, intact))
	fault(got.Bytes != want.Bytes, "bytes", fmt.Sprintf("%d, but it is %d for %s", want.Bytes, got.Bytes, intact))
	fault(got.SHA256 != want.SHA256, "sha256", "not that of "+intact)
	fault(got.RowSums != want.RowSums, "row_sums", "not those of "+intact)
	fault(got.BlockSums != want.BlockSums, "block_sums", "not those of "+intact)
	return faults
}
