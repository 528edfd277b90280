package main

import (
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"strandline/internal/lab"
)

func newLabCmd(a *app) *cobra.Command {
	return group("lab", "The network-namespace world on a real kernel (root)", newLabUpCmd(a), newLabDownCmd(a), newLabExecCmd(a))
}

func newLabUpCmd(a *app) *cobra.Command {
	var o labOptions
	c := &cobra.Command{
		Use: "up", Short: "Build the lab, or change the delays of one that is up", Args: cobra.NoArgs,
		Long: `Build network namespaces with a routed network: "three" is a client (src) and three regions
a, b, c behind cables with a delay; "chain" is a chain of routers with a balancer over
parallel paths. A lab that is up only gets the new delays.`,
		Example: "  sudo strandline lab up --delay a=5ms,b=20ms,c=40ms\n  sudo strandline lab exec src -- strandline probe ping a=10.88.1.1",
		RunE: func(c *cobra.Command, _ []string) error {
			topo, err := o.topology()
			if err != nil {
				return err
			}
			if o.foreground {
				return lab.Run(c.Context(), topo, func() { os.Stdout.WriteString("ready\n") })
			}
			return o.up(c.Context(), a, topo)
		},
	}
	o.flags(c)
	return c
}

func newLabDownCmd(a *app) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use: "down", Short: "Take the lab down", Args: cobra.NoArgs, Example: "  sudo strandline lab down",
		RunE: func(*cobra.Command, []string) error {
			if err := lab.Down(name); err != nil {
				return err
			}
			a.talk("lab %s is down", name)
			return nil
		},
	}
	c.Flags().StringVar(&name, "name", defaultLab, "name of the lab")
	return c
}

func newLabExecCmd(a *app) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use: "exec HOST -- COMMAND [ARG...]", Short: "Run a command inside one host of the lab", Args: cobra.MinimumNArgs(2),
		Example: "  sudo strandline lab exec src -- strandline probe trace 10.88.1.1",
		RunE: func(c *cobra.Command, args []string) error {
			host, argv := args[0], args[1:]
			if argv[0] == "--" {
				argv = argv[1:]
			}
			if len(argv) == 0 {
				return usagef("no command to run in %s", host)
			}
			cmd := exec.CommandContext(c.Context(), argv[0], argv[1:]...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			cmd.WaitDelay = 5 * time.Second
			if err := lab.Start(name+"-"+host, cmd); err != nil {
				return err
			}
			return childExit(cmd.Wait())
		},
	}
	c.Flags().StringVar(&name, "name", defaultLab, "name of the lab")
	c.Flags().SetInterspersed(false)
	return c
}
