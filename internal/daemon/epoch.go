package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"strandline/datasets"
)

// epochs hands out versions that only grow. With a directory they also grow
// over restarts: the last one taken lies in the file epoch. The control loop
// owns it.
type epochs struct {
	file string // empty = in memory only
	last uint64
}

// openEpochs reads the last epoch from dir, which it makes; an empty dir means
// that nothing is kept.
func openEpochs(dir string) (*epochs, error) {
	if dir == "" {
		return &epochs{}, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	e := &epochs{file: filepath.Join(dir, "epoch")}
	b, err := os.ReadFile(e.file)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	} else if err != nil {
		return nil, err
	}
	if e.last, err = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 63); err != nil {
		return nil, &datasets.Problem{File: e.file, Line: 1, Msg: "does not hold an epoch, a whole number",
			Fix: "remove the file; epochs then start from 1 again"}
	}
	return e, nil
}

// take marks an epoch as used. It is used even when the error says that the
// file could not be written, since serving comes first.
func (e *epochs) take(epoch uint64) error {
	e.last = epoch
	if e.file == "" {
		return nil
	}
	temp := e.file + ".new"
	if err := os.WriteFile(temp, []byte(strconv.FormatUint(epoch, 10)+"\n"), 0o640); err != nil {
		return err
	}
	return os.Rename(temp, e.file)
}
