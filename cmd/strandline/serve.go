package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"strandline/internal/daemon"
	"strandline/internal/web"
)

func newServeCmd(a *app) *cobra.Command {
	return group("serve", "Serve the allocation: authoritative DNS, HTTP router, or both",
		newServeKindCmd(a, "dns", "Serve zones and steered names over UDP and TCP", true, false),
		newServeKindCmd(a, "http", "Route HTTP requests to the regions by the allocation", false, true),
		newServeKindCmd(a, "all", "Serve DNS and HTTP from one table", true, true))
}

// newServeKindCmd is one of the daemons. SIGHUP reloads its files, all or
// nothing; SIGINT and SIGTERM drain and end it.
func newServeKindCmd(a *app, kind, short string, dns, http bool) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: kind, Short: short, Args: cobra.NoArgs,
		Long: short + `.

SIGHUP reads all files again: either everything in them takes effect, or nothing does and
the last good state keeps serving. SIGINT and SIGTERM drain: no new requests, those under
way are finished.`,
		Example: "  strandline config example " + kind + " > strandline.yaml\n  strandline serve " + kind + " --config strandline.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := require("config", file, "the configuration; see strandline config example "+kind); err != nil {
				return err
			}
			reload, stop := onHangup()
			defer stop()
			return daemon.Run(c.Context(), daemon.Options{
				ConfigFile: file, DNS: dns, HTTP: http, Version: version, Logger: a.logger(), Reload: reload, Pages: web.Dashboard(nil),
				Ready: func(at daemon.Addrs) {
					for _, addr := range at.DNS {
						a.talk("serving DNS on %s (UDP and TCP)", addr)
					}
					for _, addr := range at.HTTP {
						a.talk("serving HTTP on http://%s", addr)
					}
					a.talk("admin on http://%s/ (dashboard; /status as JSON)", at.Admin)
				},
			})
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `FILE`")
	return c
}

// onHangup turns SIGHUP into reload requests until stop is called.
func onHangup() (reload <-chan struct{}, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	out := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			select {
			case <-signals:
			case <-ctx.Done():
				return
			}
			select {
			case out <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, func() { signal.Stop(signals); cancel() }
}
