package datasets

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A data set is a directory: one JSONL file per kind of row (samples.jsonl,
// latencies.jsonl, ...) and manifest.json, which lists them with their sizes and
// checksums.

// Writer writes a data set. Nothing is at its place before Close, and then all
// of it is. A Writer belongs to one goroutine.
type Writer struct {
	dir      string // where the data set will be
	temp     string // a directory next to it that is ours
	manifest Manifest
	files    map[string]*rowFile // by kind
	closed   bool
}

// rowFile is one file that is being written.
type rowFile struct {
	info  FileInfo
	table *table
	file  *os.File
	out   *bufio.Writer
	sum   hash.Hash
	lines *locator
	buf   []byte
}

// Create begins a data set that will be at dir, which must not exist or be an
// empty directory. Of m, SchemaVersion and Files are filled in by the Writer.
// Every Writer must be ended by Close or Abort.
func Create(dir string, m Manifest) (*Writer, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("create data set: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("create data set: %s holds something already; name another directory, or remove it: %w", dir, fs.ErrExist)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return nil, fmt.Errorf("create data set: %w", err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".partial-*")
	if err != nil {
		return nil, fmt.Errorf("create data set: %w", err)
	}
	m.SchemaVersion, m.Files = SchemaVersion, nil
	w := &Writer{dir: dir, temp: temp, manifest: m, files: make(map[string]*rowFile)}
	// MkdirTemp is for our eyes only; what moves into place has the usual mode.
	if err := os.Mkdir(w.path(""), 0o777); err != nil {
		return nil, errors.Join(fmt.Errorf("create data set: %w", err), os.Remove(temp))
	}
	return w, nil
}

// path is where a file is until Close.
func (w *Writer) path(name string) string { return filepath.Join(w.temp, "set", name) }

// Append validates rows and adds them to their kind's file: all of them, or none
// when one is not valid. A kind without rows has no file.
func Append[R Row](w *Writer, rows ...R) error {
	if len(rows) == 0 {
		return nil
	}
	var row R
	v := reflect.ValueOf(&row).Elem()
	f, err := w.file(row.Kind(), v.Type())
	if err != nil {
		return err
	}
	for i, r := range rows {
		if err := r.Validate(); err != nil {
			return fmt.Errorf("append %s %d: %w", row.Kind(), f.info.Rows+int64(i)+1, err)
		}
	}
	for _, row = range rows {
		f.buf = f.table.appendRow(f.buf[:0], JSONL, v)
		f.sum.Write(f.buf)
		f.lines.Write(f.buf)
		if _, err := f.out.Write(f.buf); err != nil {
			return err
		}
		f.info.Rows++
		f.info.Bytes += int64(len(f.buf))
	}
	return nil
}

// file returns the file of a kind, which it creates at first.
func (w *Writer) file(kind string, row reflect.Type) (*rowFile, error) {
	if w.closed {
		return nil, fmt.Errorf("append %s: data set %s: %w", kind, w.dir, fs.ErrClosed)
	}
	if f := w.files[kind]; f != nil {
		return f, nil
	}
	name := fileName(kind)
	file, err := os.Create(w.path(name))
	if err != nil {
		return nil, err
	}
	f := &rowFile{
		info:  FileInfo{Path: name, Kind: kind},
		table: tableOf(row, kind),
		file:  file,
		out:   bufio.NewWriterSize(file, 64<<10),
		sum:   sha256.New(),
		lines: newLocator(),
	}
	w.files[kind] = f
	return f, nil
}

// Close completes the data set and moves it into place. When it fails nothing is
// there, as after Abort. After Abort it does nothing.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	if err := w.publish(); err != nil {
		w.Abort()
		return fmt.Errorf("close data set: %w", err)
	}
	w.closed = true
	return os.Remove(w.temp)
}

// publish writes out the files, then the manifest, and moves them into place.
func (w *Writer) publish() error {
	for _, f := range w.files {
		if err := errors.Join(f.out.Flush(), f.file.Sync()); err != nil {
			return err
		}
		f.info.SHA256 = hex.EncodeToString(f.sum.Sum(nil))
		f.info.RowSums, f.info.BlockSums = f.lines.rowSums(), f.lines.blockSums()
		w.manifest.Files = append(w.manifest.Files, f.info)
		if err := f.file.Close(); err != nil {
			return err
		}
	}
	slices.SortFunc(w.manifest.Files, func(a, b FileInfo) int { return strings.Compare(a.Path, b.Path) })
	if err := writeSynced(w.path(manifestName), w.manifest.encode()); err != nil {
		return err
	}
	// An empty directory may stand there, which Rename would not replace.
	if err := os.Remove(w.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(w.path(""), w.dir)
}

// writeSynced writes a file that survives a crash of the machine.
func writeSynced(path string, b []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// Abort removes what was written. After Close or Abort it does nothing.
func (w *Writer) Abort() {
	if w.closed {
		return
	}
	w.closed = true
	for _, f := range w.files {
		f.file.Close() // its content is going; a second close is harmless
	}
	os.RemoveAll(w.temp) // left over at worst, under a name that shows it
}

// Set is a data set that can be read.
type Set struct {
	Dir      string
	Manifest Manifest
}

// Open reads the manifest of the data set in dir. It does not look at the rows:
// Validate does, and Rows checks those that it yields.
func Open(dir string) (*Set, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	return &Set{Dir: dir, Manifest: m}, nil
}

// file returns where the manifest lists a kind; -1 when it does not.
func (s *Set) file(kind string) int {
	return slices.IndexFunc(s.Manifest.Files, func(f FileInfo) bool { return f.Kind == kind })
}

// Rows yields the rows of a kind as Read does; none when the set has no such
// file. When all were read and none was at fault, but the file is not the one that
// was written, by its size, number of rows or checksum, it ends with a *Problem.
func Rows[R Row](s *Set) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var zero R
		i := s.file(zero.Kind())
		if i < 0 {
			return
		}
		path := filepath.Join(s.Dir, s.Manifest.Files[i].Path)
		file, err := openRegular(path)
		if err != nil {
			yield(zero, err)
			return
		}
		defer file.Close()
		seen, faulty := newFileCheck(), false
		for row, err := range Read[R](io.TeeReader(file, seen), path, JSONL) {
			faulty = faulty || err != nil
			if !yield(row, err) {
				return
			}
		}
		if faulty {
			return
		}
		if err := s.altered(seen, i); err != nil {
			yield(zero, err)
		}
	}
}

// altered returns a *Problem when file i is not the one that was written.
func (s *Set) altered(seen *fileCheck, i int) error {
	faults := seen.compare(s.Dir, s.Manifest.Files, i)
	if len(faults) == 0 {
		return nil
	}
	// The first one is the most exact.
	faults[0].Fix = "run strandline dataset validate " + s.Dir
	return faults[0]
}

// openRegular opens a file to read. A pipe would wait for its writer, and a device
// may have no end.
func openRegular(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &Problem{File: path, Msg: "is not a regular file", Fix: "a data set holds files only"}
	}
	return os.Open(path)
}

// readRegular returns what a file holds.
func readRegular(path string) ([]byte, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// All returns the rows of a kind, or their faults, as Collect does.
func All[R Row](s *Set) ([]R, error) { return Collect(Rows[R](s)) }

// Info sums up a data set.
type Info struct {
	Dir string `json:"dir"`
	Manifest
	First time.Time `json:"first,omitzero"` // when the first probe left; zero without samples
	Last  time.Time `json:"last,omitzero"`  // when the last one did
}

// Info returns what the manifest says and the time that the samples span. It
// reads the samples, and fails if one is faulty or any file is not the one that
// was written.
func (s *Set) Info() (Info, error) {
	info := Info{Dir: s.Dir, Manifest: s.Manifest}
	for row, err := range Rows[Sample](s) {
		if err != nil {
			return Info{}, err
		}
		at := time.Unix(0, row.TxNS).UTC()
		if info.First.IsZero() || at.Before(info.First) {
			info.First = at
		}
		if at.After(info.Last) {
			info.Last = at
		}
	}
	for i, f := range s.Manifest.Files {
		if f.Kind == (Sample{}).Kind() {
			continue
		}
		if err := s.checkSums(i); err != nil {
			return Info{}, err
		}
	}
	return info, nil
}

// checkSums compares file i with the manifest without decoding its rows.
func (s *Set) checkSums(i int) error {
	path := filepath.Join(s.Dir, s.Manifest.Files[i].Path)
	file, err := openRegular(path)
	if err != nil {
		return err
	}
	defer file.Close()
	seen := newFileCheck()
	if _, err := io.Copy(seen, file); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return s.altered(seen, i)
}
