package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"strandline/internal/daemon"
	"strandline/internal/simbackend"
	"strandline/internal/web"
)

// backend is the stand-in of one region's inference engine, on loopback.
type backend struct {
	region string
	engine *simbackend.Backend
	server *http.Server
	url    string
}

// startBackends serves one engine per region with the service law of the world.
func (d *demo) startBackends() ([]*backend, error) {
	var out []*backend
	for _, r := range d.world.Regions {
		engine, err := simbackend.New(simbackend.Options{Region: r.Name, MuHz: r.Service.Mu, Kappa: r.Service.Kappa, Seed: d.Seed})
		if err != nil {
			return out, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return out, err
		}
		b := &backend{region: r.Name, engine: engine, server: &http.Server{Handler: engine, ReadHeaderTimeout: 10 * time.Second}, url: "http://" + l.Addr().String()}
		go b.server.Serve(l)
		out = append(out, b)
	}
	return out, nil
}

// configText is the configuration that the demo's daemon runs, in the form that
// anybody would write it.
func (d *demo) configText(backends []*backend) string {
	var b strings.Builder
	b.WriteString("# Written by `strandline demo`. Ports are chosen by the system; set your own.\n" +
		"admin: {listen: 127.0.0.1:0}\n" +
		"dns:\n  listen: [127.0.0.1:0]\n  server_id: demo\n  zones: [{name: example.org, file: example.org.zone}]\n" +
		"  steer: [{name: api.example.org, ttl: 20s, service: chat, all_down: last_good}]\n" +
		"http: {listen: [127.0.0.1:0], service: chat, frontend: fra}\n" +
		"router: {world: world.yaml, clients: clients.csv, default_frontend: fra}\n" +
		"services:\n  - name: chat\n    regions:\n")
	addrs := map[string]netip.Addr{}
	for _, t := range d.net.Targets() {
		if t.Addr.Is4() {
			addrs[t.Region] = t.Addr
		}
	}
	for _, e := range backends {
		fmt.Fprintf(&b, "      - {name: %s, addresses: [%s], backend: %q, health: {http: /health, interval: 200ms, timeout: 1s, rise: 2, fall: 2}}\n",
			e.region, addrs[e.region], e.url)
	}
	return b.String()
}

// clientsText maps the /24 of each city to its frontend.
func (d *demo) clientsText() string {
	var b strings.Builder
	b.WriteString("prefix,frontend\n")
	for _, v := range d.net.Vantages() {
		fmt.Fprintf(&b, "%s,%s\n", netip.PrefixFrom(v.Addr, 24).Masked(), v.Labels["frontend"])
	}
	return b.String()
}

// serve runs the daemon on loopback over the allocation, asks it as clients
// would, takes a region down, and asks again.
func (d *demo) serve(ctx context.Context) error {
	backends, err := d.startBackends()
	defer func() {
		for _, b := range backends {
			b.server.Close()
		}
	}()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"strandline.yaml": d.configText(backends), "clients.csv": d.clientsText()} {
		if err := os.WriteFile(d.path(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	ready, done := make(chan daemon.Addrs, 1), make(chan error, 1)
	go func() {
		done <- daemon.Run(ctx, daemon.Options{ConfigFile: d.path("strandline.yaml"), DNS: true, HTTP: true,
			Version: d.Version, Logger: d.Logger, Ready: func(a daemon.Addrs) { ready <- a }, Pages: web.Dashboard(http.FileServer(http.Dir(d.Dir)))})
	}()
	select {
	case addrs := <-ready:
		err = d.show(ctx, addrs, backends)
		if err == nil && d.Serve {
			d.stay(ctx, addrs)
		}
	case err = <-done:
		stop()
		return err
	}
	stop()
	return errors.Join(err, <-done)
}

// stay keeps everything up until the user ends it.
func (d *demo) stay(ctx context.Context, a daemon.Addrs) {
	d.say("\nStill serving; Ctrl-C ends it.")
	d.say("   dig @%s -p %d api.example.org +subnet=198.19.1.0/24", a.DNS[0].Addr(), a.DNS[0].Port())
	d.say("   curl -N http://%s/v1/chat/completions -d '{\"model\":\"sim\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}'", a.HTTP[0])
	d.say("   dashboard http://%s/  report http://%s/report.html", a.Admin, a.Admin)
	<-ctx.Done()
}
