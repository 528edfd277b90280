package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeOut writes a document to a file, or to standard output when the name is
// empty.
func writeOut(a *app, file, text string) error {
	if file == "" {
		return renderDocument(a, text)
	}
	if err := replaceFile(file, []byte(text)); err != nil {
		return err
	}
	a.talk("written to %s", file)
	return nil
}

// replaceFile writes a file whole or not at all: a reader finds the old content or
// the new one, and a full disk loses neither.
func replaceFile(file string, content []byte) error {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(file, content, 0o644) // a device or pipe cannot be replaced
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".partial-*")
	var path *os.PathError
	if errors.As(err, &path) {
		return &os.PathError{Op: "create", Path: file, Err: path.Err} // not the temporary name
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("%s is as it was: %w", file, err)
	}
	return nil
}
