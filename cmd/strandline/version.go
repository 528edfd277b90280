package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for releases; a build from source says "dev".
var version = "dev"

// build is what `version` tells.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func buildInfo() build {
	b := build{Version: version, Commit: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	return b
}

func newVersionCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print version, commit and build", Args: cobra.NoArgs,
		Example: "  strandline version --format json",
		RunE: func(*cobra.Command, []string) error {
			b := buildInfo()
			switch a.format {
			case "json":
				return renderOne(a.stdout, b)
			case "csv":
				return renderCSV(a.stdout, "version,commit,go,os,arch", []any{b.Version, b.Commit, b.Go, b.OS, b.Arch})
			}
			_, err := fmt.Fprintf(a.stdout, "strandline %s (commit %s, %s, %s/%s)\n", b.Version, b.Commit, b.Go, b.OS, b.Arch)
			return err
		},
	}
}
