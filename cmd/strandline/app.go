package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes, part of the contract.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitCheck  = 3
)

// app is what every command shares: streams, global flags, logger.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	format         string
	seed           uint64
	verbose        bool
}

// usageError is an error in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// checkError says that the check the user asked for did not hold.
type checkError struct{ error }

func (e checkError) Unwrap() error { return e.error }

// socketError says that the kernel gave no raw sockets.
type socketError struct{ error }

func (e socketError) Unwrap() error { return e.error }

// childError is the exit code of a command that was run for the user, which has
// said itself what was wrong.
type childError struct{ code int }

func (e childError) Error() string { return fmt.Sprintf("the command ended with exit code %d", e.code) }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// run executes one command line and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := newRootCmd(a)
	root.SetArgs(args)
	return a.report(root.ExecuteContextC(ctx))
}

// report prints the error of a command once, then hint lines, and returns the
// exit code.
func (a *app) report(c *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	var child childError
	if errors.As(err, &child) {
		return child.code
	}
	a.talk("strandline: %v", err)
	for _, h := range hints(c, err) {
		a.talk("hint: %s", h)
	}
	var usage usageError
	var check checkError
	switch {
	case errors.As(err, &check):
		return exitCheck
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// hints returns what the user can do about an error of a command.
func hints(c *cobra.Command, err error) []string {
	var usage usageError
	var socket socketError
	switch {
	case errors.As(err, &usage):
		return []string{"see " + c.CommandPath() + " --help"}
	case errors.As(err, &socket) && errors.Is(err, os.ErrPermission):
		return []string{
			"raw sockets need the capability cap_net_raw: run as root, or: sudo setcap cap_net_raw+ep $(command -v strandline)",
			"or measure the simulated Internet: --sim earth",
		}
	case errors.Is(err, errors.ErrUnsupported):
		return []string{"this system or host cannot do that; the simulated Internet works everywhere: --sim earth"}
	case errors.Is(err, os.ErrPermission) && strings.HasPrefix(c.CommandPath(), "strandline serve "):
		return []string{"ports below 1024 need the capability cap_net_bind_service: sudo setcap cap_net_bind_service+ep $(command -v strandline), or a systemd unit (docs/operations.md)"}
	case errors.Is(err, os.ErrNotExist) && strings.HasPrefix(c.CommandPath(), "strandline lab "):
		return []string{"no lab or no host of that name is up; strandline lab up builds one and lists its hosts"}
	case errors.Is(err, os.ErrExist) && strings.HasPrefix(c.CommandPath(), "strandline lab "):
		return []string{"take it down first: strandline lab down --name NAME"}
	case errors.Is(err, os.ErrPermission) && strings.HasPrefix(c.CommandPath(), "strandline lab "):
		return []string{"network namespaces need root: sudo " + c.CommandPath()}
	}
	return nil
}

// logger talks on standard error, in more detail with -v.
func (a *app) logger() *slog.Logger {
	level := slog.LevelInfo
	if a.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// drawSeed returns the seed of this run, and whether it was drawn because none
// was given; a drawn one is worth printing.
func (a *app) drawSeed() (seed uint64, drawn bool) {
	if a.seed != 0 {
		return a.seed, false
	}
	return rand.Uint64() | 1, true
}

// talk prints a line for people.
func (a *app) talk(format string, args ...any) {
	fmt.Fprintf(a.stderr, format+"\n", args...)
}
