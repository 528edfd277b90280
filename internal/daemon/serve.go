package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	headerTime     = 10 * time.Second // for a client to send its request header
	keepAliveTime  = 2 * time.Minute  // of an idle client connection
	adminDrainTime = time.Second      // for admin pages under way at the end
)

// stops is how each part is ended; nil parts do not run.
type stops struct {
	control <-chan struct{} // closed once nothing changes any more
	dns     func()          // returns when DNS has stopped
	http    func()          // returns when the HTTP router has stopped
	admin   func()          // returns when the admin pages have stopped
}

// drain ends everything in the order that clients notice least.
func (d *daemon) drain(s stops) {
	d.phase.Store(draining)
	d.log.Info("draining")
	if s.control != nil {
		<-s.control
	}
	if s.dns != nil {
		s.dns()
	}
	if s.http != nil {
		s.http()
	}
	for _, r := range d.retired {
		r.cut()
	}
	d.checks.close()
	s.admin()
	d.log.Info("stopped")
}

// serveDNS runs the DNS server and returns what stops it.
func (d *daemon) serveDNS(base context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(base)
	done := make(chan struct{})
	d.group.Go(func() error {
		defer close(done)
		return d.watch(d.dns.Run(ctx))
	})
	return func() {
		cancel()
		<-done
	}
}

// watch ends the whole daemon when a part of it ended with an error.
func (d *daemon) watch(err error) error {
	if err != nil {
		d.fail(err)
	}
	return nil // the cause carries it
}

// serveHTTP runs the HTTP router on its listeners and returns what stops it.
func (d *daemon) serveHTTP(base context.Context, listeners []net.Listener) (stop func()) {
	ctx, cut := context.WithCancelCause(base)
	srv := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.now.Load().proxy.ServeHTTP(w, r) }),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       keepAliveTime,
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelDebug), // what clients do wrong
	}
	for _, l := range listeners {
		d.group.Go(func() error { return d.watch(served(srv.Serve(l))) })
	}
	return func() { d.drainHTTP(srv, cut) }
}

func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drainHTTP accepts nothing new, waits for what is under way up to the
// configured time and cuts the rest.
func (d *daemon) drainHTTP(srv *http.Server, cut context.CancelCauseFunc) {
	now := d.now.Load()
	ctx, cancel := context.WithTimeout(context.Background(), now.cfg.HTTP.Drain)
	defer cancel()
	err := srv.Shutdown(ctx)
	left := now.proxy.Drain(ctx) // upgraded connections, which Shutdown does not know
	for _, r := range d.retired {
		left += r.proxy.InFlight()
	}
	cut(errors.New("daemon: shutting down"))
	if err != nil || left > 0 {
		d.log.Warn("cut what did not end in time", "streams", left, "drain_timeout", now.cfg.HTTP.Drain)
		srv.Close()
	}
	now.proxy.Close()
}
