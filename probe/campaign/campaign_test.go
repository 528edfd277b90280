package campaign_test

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"strandline/datasets"
	"strandline/internal/config"
	"strandline/internal/simnet"
	"strandline/probe"
	"strandline/probe/campaign"
)

func earth(t *testing.T) *simnet.Net {
	t.Helper()
	spec, files, err := config.LoadSim("earth")
	if err != nil {
		t.Fatal(err)
	}
	n, err := simnet.Build(spec, files)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// plan measures some regions from the named vantages.
func plan(n *simnet.Net, vantages ...string) campaign.Plan {
	p := campaign.Plan{Seed: 5, PingOptions: probe.PingOptions{Count: 12, Interval: 50 * time.Millisecond}}
	for _, v := range n.Vantages() {
		if slices.Contains(vantages, v.Name) {
			p.Vantages = append(p.Vantages, v)
		}
	}
	targets := slices.DeleteFunc(n.Targets(), func(t datasets.Target) bool { return !t.Addr.Is4() })
	p.Ping, p.Trace, p.Catchment = targets[:4], targets[4:6], n.AnycastTargets()[:1]
	return p
}

func open(n *simnet.Net) func(datasets.Vantage) (probe.Conn, error) {
	return func(v datasets.Vantage) (probe.Conn, error) {
		return n.Virtual(campaign.VantageSeed(5, v.Name)).Conn(v.Name)
	}
}

func measure(t *testing.T, n *simnet.Net, p campaign.Plan) map[string]campaign.Rows {
	t.Helper()
	out := map[string]campaign.Rows{}
	err := campaign.Run(t.Context(), p, open(n), func(r campaign.Rows) error {
		out[r.Vantage.Name] = r
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What a vantage measures does not depend on which others ran before it.
func TestVantagesAreIndependent(t *testing.T) {
	n := earth(t)
	all, alone := measure(t, n, plan(n, "nbo", "del", "lim")), measure(t, n, plan(n, "lim"))
	if len(all) != 3 || !reflect.DeepEqual(samples(all["lim"]), samples(alone["lim"])) {
		t.Errorf("lim measured other rows alone than after %d others", len(all)-1)
	}
}

// samples are the rows as text, since a missing estimate is not equal to itself.
func samples(r campaign.Rows) string {
	var b strings.Builder
	if err := errors.Join(
		datasets.Write(&b, datasets.JSONL, slices.Values(r.Samples)),
		datasets.Write(&b, datasets.JSONL, slices.Values(r.Latencies)),
		datasets.Write(&b, datasets.JSONL, slices.Values(r.Hops)),
		datasets.Write(&b, datasets.JSONL, slices.Values(r.Links)),
		datasets.Write(&b, datasets.JSONL, slices.Values(r.Catchments)),
	); err != nil {
		return err.Error()
	}
	return b.String()
}

func TestRowsNameFrontendAndRegion(t *testing.T) {
	n := earth(t)
	rows := measure(t, n, plan(n, "nbo"))["nbo"]
	if len(rows.Latencies) != 4 || len(rows.Catchments) != 1 || len(rows.Links) == 0 || len(rows.Hops) <= len(rows.Links) {
		t.Fatalf("%d latencies, %d catchments, %d links, %d hops", len(rows.Latencies), len(rows.Catchments), len(rows.Links), len(rows.Hops))
	}
	for _, l := range rows.Latencies {
		if l.Frontend != "nbo" || l.Region == "" || l.Sent != 12 || l.Confidence != 99.9 {
			t.Errorf("%+v: want frontend nbo, a region, 12 sent, confidence 99.9", l)
		}
	}
	traced := map[netip.Addr]bool{}
	for _, h := range rows.Hops {
		traced[h.Target] = true
	}
	if len(traced) != 2 {
		t.Errorf("hops of %d targets, want those of the two traced ones only", len(traced))
	}
}

// A campaign that is cut short hands over what it has, says whose it is, and
// measures nothing more.
func TestInterruptedCampaignKeepsItsRows(t *testing.T) {
	n := earth(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := plan(n, "nbo", "lim")
	p.Engine.Progress = func(s probe.Progress) {
		if s.Stats.Received >= 10 {
			cancel()
		}
	}
	p.PingOptions.Count = 200
	var got []campaign.Rows
	err := campaign.Run(ctx, p, open(n), func(r campaign.Rows) error {
		got = append(got, r)
		return nil
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "vantage nbo") {
		t.Errorf("error %v, want the cancellation of vantage nbo", err)
	}
	if len(got) != 1 || len(got[0].Samples) < 10 || len(got[0].Latencies) == 0 || len(got[0].Hops) != 0 {
		t.Errorf("%d vantages handed over; want nbo alone with samples and latencies, without paths", len(got))
	}
}

func TestErrorsOfOpenAndEmitEndTheCampaign(t *testing.T) {
	n, broken := earth(t), errors.New("broken")
	p := plan(n, "nbo", "lim")
	calls := 0
	err := campaign.Run(t.Context(), p, open(n), func(campaign.Rows) error { calls++; return broken })
	if !errors.Is(err, broken) || calls != 1 {
		t.Errorf("emit: %v after %d calls", err, calls)
	}
	err = campaign.Run(t.Context(), p, func(datasets.Vantage) (probe.Conn, error) { return nil, broken }, func(campaign.Rows) error { return nil })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "vantage nbo") {
		t.Errorf("open: %v", err)
	}
}
