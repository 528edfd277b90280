package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"strandline/dnsserver"
	"strandline/router/proxy"
)

// service returns the service of that name. Validate made sure that it is there.
func (c *Config) service(name string) Service {
	for _, s := range c.Services {
		if s.Name == name {
			return s
		}
	}
	panic(fmt.Sprintf("config: service %q passed the checks without being there", name))
}

// Steers returns the steered names as the DNS server takes them; none when DNS
// is not configured.
func (c *Config) Steers() []dnsserver.Steer {
	if c.DNS == nil {
		return nil
	}
	var steers []dnsserver.Steer
	for _, s := range c.DNS.Steer {
		steer := dnsserver.Steer{Name: s.Name, TTL: s.TTL, AllDown: dnsserver.AllDown(s.AllDown)}
		for _, r := range c.service(s.Service).Regions {
			steer.Regions = append(steer.Regions, dnsserver.SteerRegion{Name: r.Name, Addrs: r.Addresses})
		}
		steers = append(steers, steer)
	}
	return steers
}

// Proxy returns the options of the HTTP router; valid when HTTP is configured.
func (c *Config) Proxy() proxy.Options {
	h := c.HTTP
	opts := proxy.Options{
		Frontend: h.Frontend, MaxBodyBytes: h.MaxBodyBytes, ConnectTimeout: h.Connect,
		FirstByteTimeout: h.FirstByte, ChunkTimeout: h.Chunk, KeepAlive: h.KeepAlive,
	}
	for _, r := range c.service(h.Service).Regions {
		if r.Backend != "" {
			opts.Backends = append(opts.Backends, proxy.Backend{Region: r.Name, URL: mustURL(r.Backend)})
		}
	}
	return opts
}

// Check is one health check to run.
type Check struct {
	Service  string
	Region   string
	URL      string
	Interval time.Duration
	Timeout  time.Duration
	Rise     int
	Fall     int
}

// Checks returns the health checks of all services, in the order of the file.
func (c *Config) Checks() []Check {
	var checks []Check
	for _, s := range c.Services {
		for _, r := range s.Regions {
			if h := r.Health; h != nil {
				checks = append(checks, Check{s.Name, r.Name, r.checkURL(), h.Interval, h.Timeout, h.Rise, h.Fall})
			}
		}
	}
	return checks
}

// checkURL is the whole URL of the region's health check.
func (r *Region) checkURL() string {
	if !strings.HasPrefix(r.Health.HTTP, "/") {
		return r.Health.HTTP
	}
	base := mustURL(r.Backend)
	return strings.TrimSuffix(base.String(), "/") + r.Health.HTTP
}

// mustURL parses what Validate has parsed before.
func mustURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(fmt.Sprintf("config: URL %q passed the checks: %v", text, err))
	}
	return u
}

// Show writes the effective configuration as YAML: every key with its value,
// defaults included. Parse reads it back to the same configuration. There are
// no secrets in it: a user name or password in a URL is refused on reading.
func (c *Config) Show() (string, error) { return encode(c) }
