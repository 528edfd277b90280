package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"strandline/internal/config"
)

var update = flag.Bool("update", false, "rewrite the expected messages of testdata/bad")

// load reads a fixture by the kind that its name begins with.
func load(t *testing.T, file string) error {
	t.Helper()
	kind, _, _ := strings.Cut(filepath.Base(file), "-")
	var err error
	switch kind {
	case "config":
		_, err = config.Load(file)
	case "world":
		_, err = config.LoadWorld(file)
	case "regions":
		_, err = config.LoadRegions(file)
	case "sim":
		_, _, err = config.LoadSim(file)
	case "clients":
		src, readErr := os.ReadFile("testdata/good/full.yaml")
		if readErr != nil {
			t.Fatal(readErr)
		}
		text := strings.Replace(string(src), "clients.csv", filepath.Join("..", "bad", filepath.Base(file)), 1)
		_, err = config.Parse("testdata/good/full.yaml", []byte(text))
	default:
		t.Fatalf("no way to load a %s", kind)
	}
	return err
}

// TestBadFiles: each file's leading comment lines are exactly the messages that
// loading it gives.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*-*.*")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d bad files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			err := load(t, file)
			if err == nil {
				t.Fatal("was accepted")
			}
			got := strings.ReplaceAll(err.Error(), "testdata/bad/", "")
			src, readErr := os.ReadFile(file)
			if readErr != nil {
				t.Fatal(readErr)
			}
			want, rest := leadingComment(string(src))
			if got == want {
				return
			}
			if *update {
				text := "# " + strings.ReplaceAll(got, "\n", "\n# ") + "\n" + rest
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			t.Errorf("got\n%s\nwant\n%s", got, want)
		})
	}
}

func leadingComment(src string) (comment, rest string) {
	var lines []string
	for {
		line, after, ok := strings.Cut(src, "\n")
		if !ok || !strings.HasPrefix(line, "# ") {
			return strings.Join(lines, "\n"), src
		}
		lines, src = append(lines, strings.TrimPrefix(line, "# ")), after
	}
}
