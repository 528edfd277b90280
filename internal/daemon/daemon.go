package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"strandline/datasets"
	"strandline/dnsserver"
	"strandline/internal/config"
)

// Options says what to run.
type Options struct {
	ConfigFile string // loaded at the start and at every reload
	DNS        bool   // serve the dns part, which must be configured
	HTTP       bool   // serve the http part, which must be configured

	Version string          // answer to version.server where server_id is set, and part of the status; empty = not told
	Logger  *slog.Logger    // nil = none
	Reload  <-chan struct{} // each value asks for a reload (SIGHUP); nil = only by the admin page
	Ready   func(Addrs)     // called once, when everything is served; may be nil
	Pages   http.Handler    // further admin pages, such as a dashboard; nil = none
}

// Addrs are the addresses that were bound, in the order of the configuration;
// they tell which port an address with port 0 got.
type Addrs struct {
	Admin netip.AddrPort
	DNS   []netip.AddrPort // UDP and TCP
	HTTP  []netip.AddrPort
}

// The phases of a daemon's life.
const (
	starting = iota
	serving
	draining
)

// daemon is one Run.
type daemon struct {
	opts    Options
	log     *slog.Logger
	started time.Time
	phase   atomic.Int32
	dns     *dnsserver.Server // nil when not served
	checks  *checkers
	epochs  *epochs
	reloads chan chan error // requests of the admin page
	ending  <-chan struct{} // closed when nothing is reloaded any more

	now     atomic.Pointer[state]   // what is served; nil before the first table
	outcome atomic.Pointer[outcome] // of reloads and plans
	retired []*retired              // proxies of earlier configurations; owned by the control loop, then by the drain
	group   errgroup.Group          // everything that runs
	fail    context.CancelCauseFunc // ends Run with an error
}

// Run serves until ctx ends, then drains and returns nil. The error says what
// kept it from starting, all problems of the configuration at once, or what
// broke while serving. No goroutine and no socket is left behind.
func Run(ctx context.Context, opts Options) error {
	cfg, err := config.Load(opts.ConfigFile)
	if err != nil {
		return err
	}
	if err := serves(cfg, opts); err != nil {
		return err
	}
	epochs, err := openEpochs(cfg.StateDir)
	if err != nil {
		return err
	}
	socks, err := bind(ctx, cfg, opts)
	if err != nil {
		return err
	}
	d := &daemon{opts: opts, log: opts.Logger, started: time.Now(), epochs: epochs, reloads: make(chan chan error)}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.outcome.Store(&outcome{})
	return d.run(ctx, cfg, socks)
}

// serves reports what was asked for and is not configured.
func serves(cfg *config.Config, opts Options) error {
	var errs []error
	missing := func(key string) {
		errs = append(errs, &datasets.Problem{File: cfg.File, Key: key, Msg: "is missing, and was asked to be served",
			Fix: "add it; see `strandline config example " + key + "`"})
	}
	if opts.DNS && cfg.DNS == nil {
		missing("dns")
	}
	if opts.HTTP && cfg.HTTP == nil {
		missing("http")
	}
	if !opts.DNS && !opts.HTTP {
		errs = append(errs, errors.New("daemon: asked to serve neither DNS nor HTTP"))
	}
	return errors.Join(errs...)
}

// run builds and serves. Each part has a context of its own, so that the drain
// can end them in order.
func (d *daemon) run(ctx context.Context, cfg *config.Config, socks *sockets) error {
	runCtx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	d.fail, d.ending = fail, runCtx.Done()
	base := context.WithoutCancel(ctx)
	d.checks = newCheckers(base, d.log)
	admin := d.serveAdmin(socks.admin)
	stop := stops{admin: admin}
	err := d.first(runCtx, cfg, socks)
	if err != nil {
		fail(err)
		socks.closeServing()
	} else {
		if d.dns != nil {
			stop.dns = d.serveDNS(base)
		}
		if d.opts.HTTP {
			stop.http = d.serveHTTP(base, socks.http)
		}
		stop.control = d.goControl(runCtx)
		d.phase.Store(serving)
		d.log.Info("serving", "config", cfg.File, "epoch", d.now.Load().table.Epoch(), "dns", socks.addrs.DNS, "http", socks.addrs.HTTP, "admin", socks.addrs.Admin)
		if d.opts.Ready != nil {
			d.opts.Ready(socks.addrs)
		}
	}
	<-runCtx.Done()
	d.drain(stop)
	err = d.group.Wait()
	if cause := context.Cause(runCtx); ctx.Err() == nil {
		err = errors.Join(cause, err)
	}
	return err
}

// first publishes the first table.
func (d *daemon) first(ctx context.Context, cfg *config.Config, socks *sockets) error {
	if d.opts.DNS {
		var err error
		version := "" // who does not want to be named does not want to be read either
		if cfg.DNS.ServerID != "" {
			version = d.opts.Version
		}
		d.dns, err = dnsserver.New(dnsserver.Options{PacketConns: socks.packets, Listeners: socks.streams, ID: cfg.DNS.ServerID, Version: version})
		if err != nil {
			return err
		}
	}
	if err := d.install(ctx, cfg); err != nil {
		return fmt.Errorf("first table: %w", err)
	}
	return nil
}

// goControl runs the control loop and returns a channel that closes when it ended.
func (d *daemon) goControl(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	d.group.Go(func() error {
		defer close(done)
		d.control(ctx)
		return nil
	})
	return done
}

// control is the one goroutine that changes what is served.
func (d *daemon) control(ctx context.Context) {
	reload := d.opts.Reload
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.checks.changed:
			d.replan()
		case _, open := <-reload:
			if !open {
				reload = nil
				continue
			}
			d.reload(ctx)
		case reply := <-d.reloads:
			reply <- d.reload(ctx)
		}
	}
}

// seed draws the start of a proxy's random choices: the one place where chance
// enters the daemon's answers, and it must differ between instances.
func seed() uint64 { return rand.Uint64() }
