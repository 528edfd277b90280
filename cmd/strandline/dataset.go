package main

import (
	"github.com/spf13/cobra"

	"strandline/datasets"
)

func newDatasetCmd(a *app) *cobra.Command {
	return group("dataset", "Look at data sets and check them", newDatasetInfoCmd(a), newDatasetValidateCmd(a))
}

func newDatasetInfoCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "info DIR", Short: "Say what a data set holds and where it came from", Args: cobra.ExactArgs(1),
		Example: "  strandline dataset info demo/dataset",
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := openDataset(args[0])
			if err != nil {
				return err
			}
			info, err := set.Info()
			if err != nil {
				return err
			}
			return renderInfo(a, info)
		},
	}
}

func newDatasetValidateCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "validate DIR...", Short: "Check manifests, checksums and every row; exit code 3 if anything is wrong", Args: cobra.MinimumNArgs(1),
		Example: "  strandline dataset validate demo/dataset",
		RunE: func(_ *cobra.Command, args []string) error {
			return checkAll(a, args, datasets.Validate)
		},
	}
}
