package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"strandline/probe"
)

// progress shows how far a measurement is: a bar with rate and time left on a
// terminal, a plain line every ten seconds otherwise (every second with -v).
type progress struct {
	app      *app
	label    string
	terminal bool
	start    time.Time
	last     time.Time
	shown    bool
}

func newProgress(a *app, label string) *progress {
	p := &progress{app: a, label: label, start: time.Now()}
	p.last = p.start
	if f, ok := a.stderr.(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	return p
}

// probes is the callback of probe.Engine.
func (p *progress) probes(s probe.Progress) {
	p.step(s.Done, s.Targets, fmt.Sprintf("%d probes, %d answered", s.Stats.Sent, s.Stats.Received))
}

// steps is the callback of a campaign over many vantages.
func (p *progress) steps(done, total int, note string) {
	p.step(done, total, note)
	if done == total {
		p.end()
	}
}

// step shows that done of total are done.
func (p *progress) step(done, total int, note string) {
	now := time.Now()
	pause := 10 * time.Second
	switch {
	case p.terminal:
		pause = 100 * time.Millisecond
	case p.app.verbose:
		pause = time.Second
	}
	if now.Sub(p.last) < pause {
		return
	}
	p.last, p.shown = now, true
	line := fmt.Sprintf("%s %d/%d, %s%s", p.label, done, total, note, p.eta(done, total, now))
	if !p.terminal {
		p.app.talk("%s", line)
		return
	}
	const width = 24
	full := width * done / max(total, 1)
	fmt.Fprintf(p.app.stderr, "\r\x1b[K[%s%s] %s", strings.Repeat("#", full), strings.Repeat(".", width-full), line)
}

// eta is the time left at the pace so far.
func (p *progress) eta(done, total int, now time.Time) string {
	if done == 0 || done >= total {
		return ""
	}
	left := now.Sub(p.start) / time.Duration(done) * time.Duration(total-done)
	return ", " + left.Round(time.Second).String() + " left"
}

// end leaves the terminal's line free.
func (p *progress) end() {
	if p.terminal && p.shown {
		fmt.Fprint(p.app.stderr, "\r\x1b[K")
	}
}
