package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"strandline/datasets"
	"strandline/internal/web"
)

func newReportCmd(a *app) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "report DATASET...", Short: "Draw data sets as one self-contained HTML page", Args: cobra.MinimumNArgs(1),
		Example: "  strandline report demo/dataset -o report.html",
		RunE: func(_ *cobra.Command, args []string) error {
			page := web.Report{Title: "Measurements", Lead: strings.Join(args, ", ")}
			for _, dir := range args {
				if err := addDataset(&page, dir); err != nil {
					return err
				}
			}
			var b bytes.Buffer
			if err := web.WriteReport(&b, page); err != nil {
				return err
			}
			if err := replaceFile(out, b.Bytes()); err != nil {
				return err
			}
			a.talk("report written to %s", out)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "report.html", "`FILE` to write")
	return c
}

// addDataset adds the rows of a data set that the page can draw.
func addDataset(page *web.Report, dir string) error {
	set, err := openDataset(dir)
	if err != nil {
		return err
	}
	latencies, err := datasets.All[datasets.Latency](set)
	if err != nil {
		return err
	}
	catchments, err := datasets.All[datasets.Catchment](set)
	if err != nil {
		return err
	}
	allocations, err := datasets.All[datasets.Allocation](set)
	if err != nil {
		return err
	}
	page.Latencies = append(page.Latencies, latencies...)
	page.Catchments = append(page.Catchments, catchments...)
	page.Allocations = append(page.Allocations, allocations...)
	info, err := set.Info()
	if err != nil {
		return err
	}
	page.Facts = append(page.Facts, web.Fact{Name: dir, Text: fmt.Sprintf("%s, seed %d, %s, %s", info.Source, info.Seed, info.Tool, strings.Join(info.CommandLine, " "))})
	return nil
}
