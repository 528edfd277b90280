package daemon

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"strandline/internal/config"
	"strandline/probe"
	"strandline/router"
)

const (
	settleTime = 5 * time.Second        // how long a first answer waits for health checks to know
	eagerTime  = 100 * time.Millisecond // between the attempts of a check that does not know yet
)

// checkStatus is what one health check knows. It is immutable.
type checkStatus struct {
	state router.State
	since time.Time // of the state
	last  time.Time // attempt; zero before the first
	took  time.Duration
	err   error // of the last attempt
}

// checker runs one health check.
type checker struct {
	check  config.Check
	status atomic.Pointer[checkStatus]
	known  chan struct{} // closed when the state is known
	stop   context.CancelFunc
	done   chan struct{} // closed when it ended
}

// checkers runs the checks of the configuration in force, and for a while those
// of the next. The control loop owns it; checkers tell it of changes through
// changed, which holds one token however many there were.
type checkers struct {
	ctx     context.Context
	log     *slog.Logger
	client  *http.Client
	changed chan struct{}
	current atomic.Pointer[checkSet]
}

// checkSet is the checks of one configuration, running, in the order of the file.
type checkSet struct {
	all     []*checker
	started []*checker // those that no earlier set has
}

func newCheckers(ctx context.Context, log *slog.Logger) *checkers {
	c := &checkers{ctx: ctx, log: log, changed: make(chan struct{}, 1)}
	c.client = &http.Client{
		// A connection per check: an engine that no longer accepts must not look
		// well through an old one. Proxies of the environment would be checked instead.
		Transport:     &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.current.Store(&checkSet{})
	return c
}

// prepare starts the checks that are not running yet and returns the whole set,
// to be adopted or discarded.
func (c *checkers) prepare(checks []config.Check) *checkSet {
	set, running := &checkSet{}, c.current.Load().all
	for _, check := range checks {
		i := slices.IndexFunc(running, func(r *checker) bool { return r.check == check })
		if i >= 0 {
			set.all = append(set.all, running[i])
			continue
		}
		r := c.start(check)
		set.all, set.started = append(set.all, r), append(set.started, r)
	}
	return set
}

func (c *checkers) start(check config.Check) *checker {
	ctx, stop := context.WithCancel(c.ctx)
	r := &checker{check: check, known: make(chan struct{}), stop: stop, done: make(chan struct{})}
	r.status.Store(&checkStatus{state: router.Unknown})
	go func() {
		defer close(r.done)
		r.run(ctx, c)
	}()
	return r
}

// adopt makes set the current one and stops the checks that it does not have.
func (c *checkers) adopt(set *checkSet) {
	old := c.current.Swap(set)
	for _, r := range old.all {
		if !slices.Contains(set.all, r) {
			r.end()
		}
	}
}

// discard stops the checks that only set has.
func (c *checkers) discard(set *checkSet) {
	for _, r := range set.started {
		r.end()
	}
}

// close stops all checks.
func (c *checkers) close() { c.adopt(&checkSet{}) }

// down lists the regions with a failing check, sorted.
func (c *checkers) down() []string { return c.current.Load().down() }

func (s *checkSet) down() []string {
	names := []string{}
	for _, r := range s.all {
		if r.status.Load().state == router.Down && !slices.Contains(names, r.check.Region) {
			names = append(names, r.check.Region)
		}
	}
	slices.Sort(names)
	return names
}

// settle waits until every check knows, at most settleTime: a region that
// cannot be judged in that time counts as up.
func (s *checkSet) settle(ctx context.Context) error {
	timeout := time.NewTimer(settleTime)
	defer timeout.Stop()
	for _, r := range s.all {
		select {
		case <-r.known:
		case <-timeout.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// end stops the check and waits for it.
func (r *checker) end() {
	r.stop()
	<-r.done
}

// run checks until ctx ends: eagerly until the state is known, then at the
// interval, give or take a tenth, from a random start, so that the checks of
// many daemons do not come together.
func (r *checker) run(ctx context.Context, c *checkers) {
	health := router.Health{Rise: r.check.Rise, Fall: r.check.Fall}
	var known sync.Once
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		err := r.attempt(ctx, c.client)
		if ctx.Err() != nil {
			return
		}
		ended := time.Now()
		changed, first := health.Step(err == nil, ended), false
		r.status.Store(&checkStatus{health.State(), health.Since(), ended, ended.Sub(began), err})
		if changed {
			known.Do(func() { first = true; close(r.known) })
			r.tell(c, health.State(), err)
		}
		timer.Reset(r.pause(health.State(), first))
	}
}

// pause is the time to the next attempt.
func (r *checker) pause(s router.State, first bool) time.Duration {
	switch {
	case s == router.Unknown:
		return min(eagerTime, r.check.Interval)
	case first:
		return rand.N(r.check.Interval)
	}
	tenth := r.check.Interval / 10
	return r.check.Interval - tenth + rand.N(2*tenth+1)
}

// tell logs a change and wakes the control loop.
func (r *checker) tell(c *checkers, s router.State, err error) {
	log := c.log.With("service", r.check.Service, "region", r.check.Region, "url", r.check.URL)
	if s == router.Down {
		log.Warn("health check failed", "error", err)
	} else {
		log.Info("health check passed")
	}
	select {
	case c.changed <- struct{}{}:
	default: // a token is there already
	}
}

// attempt does one request; nil means that the region is well.
func (r *checker) attempt(ctx context.Context, client *http.Client) error {
	ctx, cancel := context.WithTimeout(ctx, r.check.Timeout)
	defer cancel()
	return probe.CheckHTTP(ctx, client, r.check.URL)
}
