package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline/internal/lab"
)

const defaultLab = "lab"

// labOptions say which lab is built.
type labOptions struct {
	name, kind string
	delays     map[string]string
	width      int
	foreground bool // keep it up in this process: what the background process does
}

func (o *labOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.name, "name", defaultLab, "name of the lab, the first part of its namespaces' names")
	f.StringVar(&o.kind, "kind", "three", "three or chain")
	f.StringToStringVar(&o.delays, "delay", nil, "one-way `REGION=DELAY,...` of the regions of three (default a=5ms,b=20ms,c=40ms)")
	f.Lookup("delay").DefValue = "" // cobra would print []
	f.IntVar(&o.width, "width", 4, "parallel paths of chain, 1 to 9")
	f.BoolVar(&o.foreground, "foreground", false, "keep the lab up in this process until Ctrl-C")
}

// topology is the network that the options describe.
func (o *labOptions) topology() (lab.Topology, error) {
	delays, err := o.regionDelays()
	if err != nil {
		return lab.Topology{}, err
	}
	switch o.kind {
	case "three":
		return lab.Three(o.name, delays[0], delays[1], delays[2]), nil
	case "chain":
		if o.width < 1 || o.width > 9 {
			return lab.Topology{}, usagef("--width %d: must be 1 to 9", o.width)
		}
		return lab.Chain(o.name, o.width), nil
	}
	return lab.Topology{}, usagef("--kind %q: write three or chain", o.kind)
}

func (o *labOptions) regionDelays() ([3]time.Duration, error) {
	out := [3]time.Duration{lab.DefaultDelayA, lab.DefaultDelayB, lab.DefaultDelayC}
	for region, text := range o.delays {
		i := strings.Index("abc", region)
		d, err := time.ParseDuration(text)
		if len(region) != 1 || i < 0 || err != nil || d < 0 {
			return out, usagef("--delay %s=%s: write one of a, b, c and a time such as 20ms", region, text)
		}
		out[i] = d
	}
	return out, nil
}

// up starts the process that keeps the lab up, or changes the delays of one that
// is up already.
func (o *labOptions) up(ctx context.Context, a *app, t lab.Topology) error {
	running, err := lab.List()
	if err != nil {
		return err
	}
	if slices.Contains(running, o.name) && len(o.delays) > 0 {
		return o.setDelays(a)
	}
	if err := spawnLab(ctx, o); err != nil {
		return err
	}
	a.talk("lab %s is up:", o.name)
	for _, n := range t.Hosts {
		a.talk("  %-4s %s", n.Name, addrText(labAddrs(t, n.Name)))
	}
	return nil
}

// labAddrs are the addresses that a host of the lab is reached by: its own, or
// those of its first link.
func labAddrs(t lab.Topology, host string) []netip.Addr {
	var out []netip.Addr
	for _, v6 := range []bool{false, true} {
		if a := t.Host(host, v6); a.IsValid() {
			out = append(out, a)
			continue
		}
		for _, l := range t.Links {
			if l.A == host || l.B == host {
				out = append(out, t.Addr(host, other(l, host), v6))
				break
			}
		}
	}
	return out
}

// other is the host at the other end of a link.
func other(l lab.Link, host string) string {
	if l.A == host {
		return l.B
	}
	return l.A
}

func (o *labOptions) setDelays(a *app) error {
	for region, text := range o.delays {
		d, err := time.ParseDuration(text)
		if err != nil {
			return usagef("--delay %s=%s: %v", region, text, err)
		}
		if err := lab.SetCable(o.name, "rtr", region, lab.Cable{Delay: d}); err != nil {
			return err
		}
		a.talk("lab %s: delay to %s is now %s", o.name, region, d)
	}
	return nil
}

// spawnLab runs this program again in the background and waits until its lab is
// ready.
func spawnLab(ctx context.Context, o *labOptions) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"lab", "up", "--foreground", "--name", o.name, "--kind", o.kind, "--width", fmt.Sprint(o.width)}
	for region, text := range o.delays {
		args = append(args, "--delay", region+"="+text)
	}
	cmd := exec.Command(self, args...)
	cmd.SysProcAttr = ownSession()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var talk strings.Builder
	cmd.Stderr = &talk
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(os.Interrupt) })
	defer stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		if cmd.Wait(); talk.Len() == 0 {
			return errors.New("the lab did not come up, and its process did not say why")
		}
		fmt.Fprint(os.Stderr, talk.String()) // it has said itself what was wrong
		return childError{exitFailed}
	}
	return cmd.Process.Release()
}

// childExit turns the end of a child into our exit code.
func childExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return childError{max(exit.ExitCode(), 1)}
	}
	return err
}
