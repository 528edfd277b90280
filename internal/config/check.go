package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"strandline/datasets"
)

// faults collects problems by key; files and lines are added by the document.
type faults []error

func (f *faults) add(key, fix, msg string, args ...any) {
	*f = append(*f, &datasets.Problem{Key: key, Msg: fmt.Sprintf(msg, args...), Fix: fix})
}

func index(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }

// Validate reports what is wrong with the configuration by itself, before the
// files that it names are read. The problems have keys but no file.
func (c *Config) Validate() error {
	var f faults
	if !c.Admin.Listen.Addr().IsLoopback() {
		f.add("admin.listen", "write 127.0.0.1:9099; to reach it from outside put a proxy with a login before it",
			"%s is not on loopback, and the admin pages have no login", c.Admin.Listen)
	}
	if c.DNS == nil && c.HTTP == nil {
		f.add("", "add dns or http", "serves nothing")
	}
	c.checkServices(&f)
	if c.DNS != nil {
		c.checkDNS(&f)
	}
	if c.HTTP != nil {
		c.checkHTTP(&f)
	}
	if c.Router.World == (WorldSource{}) {
		f.add("router.world", "name a world file, or write the world in place", "is missing")
	}
	return errors.Join(f...)
}

func (c *Config) checkServices(f *faults) {
	unique(f, "services", len(c.Services), func(i int) string { return c.Services[i].Name })
	for i, s := range c.Services {
		key := index("services", i) + ".regions"
		if len(s.Regions) == 0 {
			f.add(key, "list the regions that run the service", "is empty")
		}
		unique(f, key, len(s.Regions), func(j int) string { return s.Regions[j].Name })
		for j, r := range s.Regions {
			r.check(f, index(key, j))
		}
	}
}

// unique reports names that are empty or were given before.
func unique(f *faults, key string, n int, name func(i int) string) {
	seen := map[string]int{}
	for i := range n {
		at := index(key, i) + ".name"
		if name(i) == "" {
			f.add(at, "give it a name", "is empty")
		} else if first, ok := seen[name(i)]; ok {
			f.add(at, "give it a name of its own", "%q is taken by %s", name(i), index(key, first))
		} else {
			seen[name(i)] = i
		}
	}
}

func (r *Region) check(f *faults, key string) {
	for k, a := range r.Addresses {
		if a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" || a.Is4In6() {
			f.add(index(key+".addresses", k), "write a plain unicast address", "%s is no address of a server", a)
		} else if slices.Contains(r.Addresses[:k], a) {
			f.add(index(key+".addresses", k), "keep one", "%s is given twice", a)
		}
	}
	if r.Backend != "" {
		if u := checkURL(f, key+".backend", r.Backend); u != nil && (u.RawQuery != "" || u.Fragment != "") {
			f.add(key+".backend", "remove what follows ? or #", "%q has a query or fragment", r.Backend)
		}
	}
	if r.Health != nil {
		r.Health.check(f, key+".health", r.Backend)
	}
}

// checkURL accepts an http or https URL with a host and no user, and returns it.
func checkURL(f *faults, key, text string) *url.URL {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		f.add(key, "write it like https://fra.internal:8443", "is not a URL: %v", errors.Unwrap(err))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Hostname() == "":
		f.add(key, "write it like https://fra.internal:8443", "%q is not an http or https URL with a host", text)
	case u.User != nil:
		f.add(key, "let the clients authenticate themselves; their headers are passed through", "%s holds a user name", u.Redacted())
	default:
		return u
	}
	return nil
}

func (h *Health) check(f *faults, key, backend string) {
	switch {
	case strings.HasPrefix(h.HTTP, "/"):
		if backend == "" {
			f.add(key+".http", "write a whole URL, or give the region a backend", "%q is a path, and there is no backend that it could belong to", h.HTTP)
		}
		if _, err := url.Parse(h.HTTP); err != nil {
			f.add(key+".http", "write a path such as /health", "is not a path: %v", errors.Unwrap(err))
		}
	default:
		checkURL(f, key+".http", h.HTTP)
	}
	between(f, key+".interval", h.Interval, 10*time.Millisecond, time.Hour)
	between(f, key+".timeout", h.Timeout, time.Millisecond, time.Minute)
	atLeastOne(f, key+".rise", h.Rise)
	atLeastOne(f, key+".fall", h.Fall)
}

func between(f *faults, key string, got, least, most time.Duration) {
	if got < least || got > most {
		f.add(key, fmt.Sprintf("write a duration from %s to %s", durationText(least), durationText(most)), "%s is out of range", durationText(got))
	}
}

func atLeastOne(f *faults, key string, got int) {
	if got < 1 {
		f.add(key, "write the number of results in a row, 1 or more", "%d is out of range", got)
	}
}

// maxServerID is the longest server_id, as package dnsserver takes it.
const maxServerID = 63

func (c *Config) checkDNS(f *faults) {
	checkListen(f, "dns.listen", c.DNS.Listen)
	if len(c.DNS.ServerID) > maxServerID {
		f.add("dns.server_id", "write a shorter name", "%d octets, and the answer holds %d", len(c.DNS.ServerID), maxServerID)
	}
	if len(c.DNS.Zones) == 0 {
		f.add("dns.zones", "list at least one zone", "is empty")
	}
	for i, z := range c.DNS.Zones {
		key := index("dns.zones", i)
		switch {
		case z.File == "" && z.Records == "":
			f.add(key, "give it a file, or records in place", "zone %s has no content", z.Name)
		case z.File != "" && z.Records != "":
			f.add(key+".records", "keep one of file and records", "zone %s has both a file and records", z.Name)
		}
	}
	uniqueNames(f, "dns.zones", len(c.DNS.Zones), func(i int) string { return c.DNS.Zones[i].Name })
	uniqueNames(f, "dns.steer", len(c.DNS.Steer), func(i int) string { return c.DNS.Steer[i].Name })
	for i, s := range c.DNS.Steer {
		key := index("dns.steer", i)
		c.checkService(f, key+".service", s.Service)
		if between(f, key+".ttl", s.TTL, time.Second, 24*time.Hour); s.TTL%time.Second != 0 {
			f.add(key+".ttl", "write whole seconds", "%s is not a whole number of seconds", s.TTL)
		}
		if s.AllDown != "last_good" && s.AllDown != "nodata" {
			f.add(key+".all_down", "write last_good or nodata", "unknown value %q", s.AllDown)
		}
	}
}

// uniqueNames is unique for domain names: case and a trailing dot do not matter.
func uniqueNames(f *faults, key string, n int, name func(i int) string) {
	unique(f, key, n, func(i int) string { return strings.TrimSuffix(strings.ToLower(name(i)), ".") })
}

func checkListen(f *faults, key string, addrs []netip.AddrPort) {
	if len(addrs) == 0 {
		f.add(key, "list at least one address such as 127.0.0.1:5300", "is empty")
	}
	for i, a := range addrs {
		if slices.Contains(addrs[:i], a) && a.Port() != 0 {
			f.add(index(key, i), "keep one", "%s is given twice", a)
		}
	}
}

func (c *Config) checkService(f *faults, key, name string) {
	names := make([]string, len(c.Services))
	for i, s := range c.Services {
		names[i] = s.Name
	}
	if !slices.Contains(names, name) {
		f.add(key, choose(name, names), "%q is not among the services", name)
	}
}

func (c *Config) checkHTTP(f *faults) {
	h := c.HTTP
	checkListen(f, "http.listen", h.Listen)
	c.checkService(f, "http.service", h.Service)
	if h.MaxBodyBytes < 1 {
		f.add("http.max_body_bytes", "write the number of bytes a request may have, 1 or more", "%d is out of range", h.MaxBodyBytes)
	}
	between(f, "http.connect_timeout", h.Connect, time.Millisecond, time.Hour)
	between(f, "http.first_byte_timeout", h.FirstByte, time.Millisecond, 24*time.Hour)
	between(f, "http.chunk_timeout", h.Chunk, time.Millisecond, 24*time.Hour)
	between(f, "http.keep_alive", h.KeepAlive, time.Millisecond, time.Hour)
	between(f, "http.drain_timeout", h.Drain, 0, time.Hour)
}

// checkAgainstWorld reports what only shows once the world is known.
func (c *Config) checkAgainstWorld() error {
	var f faults
	frontends, regions := frontendNames(c.World), regionNames(c.World)
	known := func(key, name string) {
		if !slices.Contains(frontends, name) {
			f.add(key, choose(name, frontends), "%q is not a frontend of the world", name)
		}
	}
	known("router.default_frontend", c.Router.DefaultFrontend)
	if c.HTTP != nil {
		known("http.frontend", c.HTTP.Frontend)
	}
	for i, s := range c.Services {
		key := index("services", i) + ".regions"
		for j, r := range s.Regions {
			if !slices.Contains(regions, r.Name) {
				f.add(index(key, j)+".name", choose(r.Name, regions), "%q is not a region of the world", r.Name)
			}
		}
		c.checkCover(&f, key, s, regions)
	}
	return errors.Join(f...)
}

// checkCover reports regions of the world in which a service that is in use
// could not answer, although the allocation may send requests there.
func (c *Config) checkCover(f *faults, key string, s Service, regions []string) {
	steered := c.DNS != nil && slices.ContainsFunc(c.DNS.Steer, func(t Steer) bool { return t.Service == s.Name })
	proxied := c.HTTP != nil && c.HTTP.Service == s.Name
	if !steered && !proxied {
		return
	}
	for _, name := range regions {
		j := slices.IndexFunc(s.Regions, func(r Region) bool { return r.Name == name })
		if j < 0 {
			f.add(key, "add the region, or take it out of the world", "service %s is not in region %s, to which the world may send requests", s.Name, name)
			continue
		}
		if steered && len(s.Regions[j].Addresses) == 0 {
			f.add(index(key, j)+".addresses", "list the addresses that DNS shall answer", "region %s has no address, and a name is steered to it", name)
		}
		if proxied && s.Regions[j].Backend == "" {
			f.add(index(key, j)+".backend", "write the URL that requests go to", "region %s has no backend, and http sends requests to it", name)
		}
	}
}
