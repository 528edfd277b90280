//go:build unix

package datasets_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"strandline/datasets"
)

// What is no regular file must not be waited for, and is one fault.
func TestSpecialFiles(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"directory": func(path string) error { return os.Mkdir(path, 0o777) },
		"device":    func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		for _, file := range []string{"targets.jsonl", "manifest.json"} {
			t.Run(name+" as "+file, func(t *testing.T) {
				dir := targetSet(t, 3)
				set, err := datasets.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, file)
				if err := errors.Join(os.Remove(path), make(path)); err != nil {
					t.Fatal(err)
				}
				check := func(how string, err error) {
					t.Helper()
					if err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), path+": is not a regular file; a data set holds files only") {
						t.Errorf("%s: got %v", how, err)
					}
				}
				check("Validate", datasets.Validate(dir))
				if file == "manifest.json" {
					_, err = datasets.Open(dir)
					check("Open", err)
					return
				}
				_, err = datasets.All[datasets.Target](set)
				check("All", err)
				_, err = set.Info()
				check("Info", err)
			})
		}
	}
}
