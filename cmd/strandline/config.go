package main

import (
	"strings"

	"github.com/spf13/cobra"

	"strandline/internal/config"
)

func newConfigCmd(a *app) *cobra.Command {
	return group("config", "Check configurations before deploying, and print examples",
		newConfigCheckCmd(a), newConfigShowCmd(a), newConfigExampleCmd(a))
}

func newConfigCheckCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "check FILE...", Short: "Check configurations with all files they name; exit code 3 if anything is wrong", Args: cobra.MinimumNArgs(1),
		Example: "  strandline config check strandline.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			return checkAll(a, args, func(file string) error {
				c, err := config.Load(file)
				if err != nil {
					return err
				}
				for _, note := range c.Notes {
					a.talk("%s: note: %s", file, note)
				}
				return nil
			})
		},
	}
}

func newConfigShowCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show FILE", Short: "Print the effective configuration, defaults included", Args: cobra.ExactArgs(1),
		Example: "  strandline config show strandline.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := config.Load(args[0])
			if err != nil {
				return err
			}
			text, err := c.Show()
			if err != nil {
				return err
			}
			return renderDocument(a, text)
		},
	}
}

func newConfigExampleCmd(a *app) *cobra.Command {
	kinds := config.ExampleKinds()
	return &cobra.Command{
		Use: "example " + strings.Join(kinds, "|"), Short: "Print a commented configuration that checks and serves as printed",
		Args: cobra.ExactArgs(1), ValidArgs: kinds,
		Example: "  strandline config example all > strandline.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := config.Example(args[0])
			if err != nil {
				return usageError{err}
			}
			return renderDocument(a, text)
		},
	}
}
