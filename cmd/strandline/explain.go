package main

import (
	"errors"

	"github.com/spf13/cobra"

	"strandline/internal/daemon"
)

func newRouteExplainCmd(a *app) *cobra.Command {
	var file, admin string
	c := &cobra.Command{
		Use: "explain NAME CLIENT", Short: "Say why a client gets the answer it gets", Args: cobra.ExactArgs(2),
		Long: `Say which region a client gets for a name, and why: the prefix that matched, the frontend,
shares, prices, and the scope. CLIENT is an address or a prefix as a resolver sends it.
With --config the answer is worked out from the files, all regions taken to be up; with
--admin a running daemon is asked.`,
		Example: "  strandline route explain api.example.org 198.51.100.0/24 --config strandline.yaml\n  strandline route explain api.example.org 198.51.100.7 --admin http://127.0.0.1:9099",
		RunE: func(c *cobra.Command, args []string) error {
			if (file == "") == (admin == "") {
				return usagef("give one of --config FILE and --admin URL: which server is asked")
			}
			var e *daemon.Explanation
			var err error
			if admin != "" {
				e, err = askExplain(c.Context(), admin, args[0], args[1])
			} else {
				e, err = daemon.Explain(file, args[0], args[1])
			}
			var wrong *daemon.ClientError
			if errors.As(err, &wrong) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			return renderExplanation(a, e)
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `FILE`")
	c.Flags().StringVar(&admin, "admin", "", "`URL` of the admin address of a running daemon, such as http://127.0.0.1:9099")
	return c
}
