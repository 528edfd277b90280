package config

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed examples/*.yaml
var exampleFiles embed.FS

// ExampleKinds lists what Example knows.
func ExampleKinds() []string { return []string{"dns", "http", "all"} }

// Example returns a commented configuration of one kind. It needs no other file:
// it checks and serves as printed.
func Example(kind string) (string, error) {
	b, err := exampleFiles.ReadFile("examples/" + kind + ".yaml")
	if err != nil {
		return "", fmt.Errorf("no example %q: choose one of %s", kind, strings.Join(ExampleKinds(), ", "))
	}
	return string(b), nil
}
