package daemon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"strandline/datasets"
	"strandline/dnsserver"
	"strandline/internal/config"
	"strandline/router"
	"strandline/router/proxy"
)

// state is everything that answers come from at one time. It is immutable.
type state struct {
	cfg   *config.Config
	table *router.Table
	snap  *dnsserver.Snapshot // of the dns part, served or not; nil where there is none
	proxy *proxy.Proxy        // nil when HTTP is not served
	since time.Time
}

// outcome is what became of the last attempts to change what is served. It is
// immutable; the control loop replaces it.
type outcome struct {
	reloads, failedReloads uint64
	reloadAt               time.Time // zero before the first
	reloadErr              error
	planErr                error // why the last health change was not followed; nil when it was
}

// retired is a proxy of an earlier configuration that may have requests in flight.
type retired struct {
	proxy *proxy.Proxy
	cut   context.CancelFunc // stops waiting for them
}

// build makes the next state for a configuration. Nothing is served from it yet.
func (d *daemon) build(cfg *config.Config, down []string) (*state, error) {
	table, err := newTable(cfg, d.epochs.last+1, down)
	if err != nil {
		return nil, err
	}
	next := &state{cfg: cfg, table: table, since: time.Now()}
	if cfg.DNS != nil {
		if next.snap, err = dnsserver.Compile(cfg.Zones, cfg.Steers(), table); err != nil {
			return nil, err
		}
	}
	if d.opts.HTTP {
		next.proxy, err = d.proxyFor(cfg)
	}
	return next, err
}

// newTable plans the world without the regions that are down. When all are, it
// plans as if none were: then the checks are more likely wrong than right, and
// refusing everybody would help nobody. The table still says that they are down.
func newTable(cfg *config.Config, epoch uint64, down []string) (*router.Table, error) {
	without := down
	if len(down) == len(cfg.World.Regions) {
		without = nil
	}
	plan, err := router.Replan(cfg.World, without)
	if err != nil {
		return nil, err
	}
	return router.NewTable(epoch, cfg.World, plan, cfg.Clients, cfg.Router.DefaultFrontend, down)
}

// proxyFor returns the running proxy where its options did not change, so that
// its connections live on, and a new one otherwise.
func (d *daemon) proxyFor(cfg *config.Config) (*proxy.Proxy, error) {
	opts := cfg.Proxy()
	if old := d.now.Load(); old != nil && reflect.DeepEqual(old.cfg.Proxy(), opts) {
		return old.proxy, nil
	}
	opts.Seed, opts.Logger = seed(), d.log
	return proxy.New(opts)
}

// publish serves next, to DNS and HTTP together: what can fail comes first. On
// error the state before stays.
func (d *daemon) publish(next *state) error {
	old := d.now.Load()
	if err := d.epochs.take(next.table.Epoch()); err != nil {
		d.log.Warn("the epoch is not on disk", "error", err)
	}
	if next.proxy != nil {
		if err := next.proxy.Publish(next.table); err != nil {
			return err
		}
	}
	if d.dns != nil {
		d.dns.Publish(next.snap)
	}
	d.now.Store(next)
	if old != nil && old.proxy != next.proxy {
		d.retire(old.proxy)
	}
	if next.table.Plan().Overloaded {
		d.log.Warn("demand exceeds what is up: the allocation is by capacity, not optimal", "epoch", next.table.Epoch(), "down", next.table.DownNames())
	}
	return nil
}

// retire lets the requests of an old proxy end, then closes its connections.
func (d *daemon) retire(p *proxy.Proxy) {
	ctx, cut := context.WithCancel(context.Background())
	d.retired = append(slices.DeleteFunc(d.retired, func(r *retired) bool { return r.proxy.InFlight() == 0 }), &retired{p, cut})
	d.group.Go(func() error {
		defer cut()
		p.Drain(ctx)
		p.Close()
		return nil
	})
}

// guard turns a panic while something new is built into an error: whatever is
// wrong with a new world, what is served now goes on.
func (d *daemon) guard(change func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			d.log.Error("panic while changing what is served", "panic", fault, "stack", string(debug.Stack()))
			err = fmt.Errorf("a fault of this program kept it from changing what is served: %v", fault)
		}
	}()
	return change()
}

// replan follows a change of health.
func (d *daemon) replan() {
	old := d.now.Load()
	down := d.checks.down()
	if was := old.table.DownNames(); slices.Equal(down, slices.Sorted(slices.Values(was))) {
		return
	}
	var next *state
	err := d.guard(func() (err error) {
		if next, err = d.build(old.cfg, down); err == nil {
			err = d.publish(next)
		}
		return err
	})
	result := *d.outcome.Load()
	result.planErr = err
	d.outcome.Store(&result)
	if err != nil {
		d.log.Error("health changed, and the old allocation stays", "down", down, "error", err)
		return
	}
	d.log.Info("health changed", "epoch", next.table.Epoch(), "down", down)
}

// reload replaces everything by what the files say now, or nothing.
func (d *daemon) reload(ctx context.Context) error {
	err := d.guard(func() error { return d.tryReload(ctx) })
	result := *d.outcome.Load()
	result.reloads++
	result.reloadAt, result.reloadErr = time.Now(), err
	if err != nil {
		result.failedReloads++
		d.log.Error("reload failed, and the old configuration stays", "error", err)
	} else {
		result.planErr = nil
		d.log.Info("reloaded", "config", d.opts.ConfigFile, "epoch", d.now.Load().table.Epoch())
	}
	d.outcome.Store(&result)
	return err
}

func (d *daemon) tryReload(ctx context.Context) error {
	cfg, err := config.Load(d.opts.ConfigFile)
	if err != nil {
		return err
	}
	if err := serves(cfg, d.opts); err != nil {
		return err
	}
	if err := d.moved(cfg); err != nil {
		return err
	}
	return d.install(ctx, cfg)
}

// install publishes a configuration once those of its health checks know that
// are not running yet. On error everything is as before.
func (d *daemon) install(ctx context.Context, cfg *config.Config) error {
	checks := d.checks.prepare(cfg.Checks())
	err := checks.settle(ctx)
	if err == nil {
		var next *state
		if next, err = d.build(cfg, checks.down()); err == nil {
			err = d.publish(next)
		}
	}
	if err != nil {
		d.checks.discard(checks)
		return err
	}
	d.checks.adopt(checks)
	return nil
}

// moved reports what a reload cannot change.
func (d *daemon) moved(cfg *config.Config) error {
	old := d.now.Load().cfg
	var errs []error
	fixed := func(key string, was, is any) {
		if !reflect.DeepEqual(was, is) {
			errs = append(errs, &datasets.Problem{File: cfg.File, Key: key, Msg: fmt.Sprintf("changed from %v to %v, which a reload cannot do", was, is),
				Fix: "restart, or put the old value back"})
		}
	}
	fixed("state_dir", old.StateDir, cfg.StateDir)
	fixed("admin.listen", old.Admin.Listen, cfg.Admin.Listen)
	if d.opts.DNS {
		fixed("dns.listen", old.DNS.Listen, cfg.DNS.Listen)
		fixed("dns.server_id", old.DNS.ServerID, cfg.DNS.ServerID)
	}
	if d.opts.HTTP {
		fixed("http.listen", old.HTTP.Listen, cfg.HTTP.Listen)
	}
	return errors.Join(errs...)
}
