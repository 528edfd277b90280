package demo

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"strandline/datasets"
	"strandline/internal/daemon"
)

const (
	steeredName  = "api.example.org"
	httpRequests = 120
	httpParallel = 12
	failureWait  = 20 * time.Second // by when the answers must have moved
)

// askers are the cities whose clients the demo asks DNS for: one per continent.
func askers() []string { return []string{"nbo", "fra", "sin", "mel", "nyc", "gru"} }

// show asks DNS and HTTP as clients would, takes the busiest of the answered
// regions down, and asks again; then it writes the report.
func (d *demo) show(ctx context.Context, addrs daemon.Addrs, backends []*backend) error {
	d.say("4. Served the allocation: DNS on %s, HTTP router on %s, %d simulated backends", addrs.DNS[0], addrs.HTTP[0], len(backends))
	before, err := d.askCities(ctx, addrs)
	if err != nil {
		return err
	}
	d.say("   dig %s +subnet=CLIENT", steeredName)
	for i, city := range askers() {
		d.say("     %-4s %-18s -> %-4s %-12s scope /%d", city, d.prefix(city), before[i].region, before[i].addrs[0], before[i].scope)
	}
	if err := d.httpRequests(ctx, addrs, "   "); err != nil {
		return err
	}
	victim := before[0].region
	epoch, err := d.fail(ctx, addrs, backends, victim)
	if err != nil {
		return err
	}
	after, err := d.askCities(ctx, addrs)
	if err != nil {
		return err
	}
	var moved []string
	for i, city := range askers() {
		if after[i].region != before[i].region {
			moved = append(moved, fmt.Sprintf("%s %s->%s", city, before[i].region, after[i].region))
		}
		if after[i].region == victim {
			return fmt.Errorf("DNS still answers region %s to %s after it failed", victim, city)
		}
	}
	d.say("5. Region %s failed its health check: epoch %d, planned anew without it", victim, epoch)
	d.say("   answers moved: %s", strings.Join(moved, ", "))
	if err := d.httpRequests(ctx, addrs, "   "); err != nil {
		return err
	}
	if err := d.writeReport(); err != nil {
		return err
	}
	d.say("6. Files in %s: report.html, dataset/, world.yaml, regions.yaml, strandline.yaml, clients.csv", d.Dir)
	d.say("   done in %.1f s", time.Since(d.started).Seconds())
	return nil
}

// decided is a DNS answer and the region it stands for.
type decided struct {
	answer
	region string
}

// prefix is the client prefix of a city.
func (d *demo) prefix(city string) netip.Prefix {
	i := slices.IndexFunc(d.plan.Vantages, func(v datasets.Vantage) bool { return v.Name == city })
	return netip.PrefixFrom(d.plan.Vantages[i].Addr, 24).Masked()
}

// askCities asks DNS for a client of each city, and requires the answer that the
// daemon's own explanation names.
func (d *demo) askCities(ctx context.Context, addrs daemon.Addrs) ([]decided, error) {
	regions := map[netip.Addr]string{}
	for _, t := range d.net.Targets() {
		regions[t.Addr] = t.Region
	}
	var out []decided
	for _, city := range askers() {
		a, err := askDNS(ctx, addrs.DNS[0], steeredName, d.prefix(city))
		if err != nil {
			return nil, fmt.Errorf("asking DNS for %s: %w", city, err)
		}
		got := decided{a, regions[a.addrs[0]]}
		var why daemon.Explanation
		query := url.Values{"name": {steeredName}, "client": {d.prefix(city).String()}}
		if err := askAdmin(ctx, addrs.Admin, "/explain?"+query.Encode(), &why); err != nil {
			return nil, fmt.Errorf("explaining the answer for %s: %w", city, err)
		}
		if why.Region != got.region {
			return nil, fmt.Errorf("DNS answered region %s to %s, and the explanation says %s", got.region, city, why.Region)
		}
		out = append(out, got)
	}
	return out, nil
}

// httpRequests sends streaming requests through the HTTP router and says where
// they went.
func (d *demo) httpRequests(ctx context.Context, addrs daemon.Addrs, indent string) error {
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		counts = map[string]int{}
		chunks int
		first  error
	)
	slots := make(chan struct{}, httpParallel)
	for range httpRequests {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			region, n, err := askHTTP(ctx, addrs.HTTP[0])
			mu.Lock()
			defer mu.Unlock()
			counts[region]++
			chunks += n
			first = cmp.Or(first, err)
		})
	}
	wg.Wait()
	if first != nil {
		return first
	}
	d.say("%s%d streaming requests through the HTTP router at fra (%d chunks): %s", indent, httpRequests, chunks, countText(counts))
	return nil
}

func countText(counts map[string]int) string {
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	return strings.Join(names, ", ")
}

// fail makes one region's backend fail its health check and waits until the
// daemon serves a table without it.
func (d *demo) fail(ctx context.Context, addrs daemon.Addrs, backends []*backend, region string) (epoch uint64, err error) {
	for _, b := range backends {
		if b.region == region {
			b.engine.SetHealthy(false)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, failureWait)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var s daemon.Status
		if err := askAdmin(ctx, addrs.Admin, "/status", &s); err != nil {
			return 0, fmt.Errorf("waiting for the daemon to see that %s failed: %w", region, err)
		}
		if slices.ContainsFunc(s.Regions, func(r daemon.RegionStatus) bool { return r.Name == region && r.Down }) {
			return s.Epoch, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for the daemon to see that %s failed: %w", region, context.Cause(ctx))
		}
	}
}
