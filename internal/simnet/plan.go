package simnet

import (
	"net/netip"
	"slices"

	"strandline/datasets"
)

// The labels of hosts that Vantages and Regions look for.
const (
	labelFrontend = "frontend" // who the vantage measures for
	labelRegion   = "region"   // the region that the host serves
)

// Hosts returns the names of all hosts, in the order of the spec.
func (n *Net) Hosts() []string {
	var names []string
	for i := range n.nodes {
		if n.nodes[i].host {
			names = append(names, n.nodes[i].name)
		}
	}
	return names
}

// Vantages returns the hosts that have a frontend label, in the order of the
// spec. The maps in them are the spec's: do not change them.
func (n *Net) Vantages() []datasets.Vantage {
	var rows []datasets.Vantage
	for i := range n.spec.Nodes {
		s, at := &n.spec.Nodes[i], n.spec.place(i)
		if n.nodes[i].host && s.Labels[labelFrontend] != "" {
			rows = append(rows, datasets.Vantage{Name: s.Name, Addr: s.Addr, Addr6: s.Addr6,
				Lat: at.Lat, Lon: at.Lon, City: at.City, Country: at.Country, Labels: s.Labels})
		}
	}
	return rows
}

// Regions returns the regions that hosts are labelled with, in the order of the
// spec. A region with several hosts has all their addresses and the place of the
// first.
func (n *Net) Regions() []datasets.Region {
	var rows []datasets.Region
	for i := range n.spec.Nodes {
		s, at := &n.spec.Nodes[i], n.spec.place(i)
		name := s.Labels[labelRegion]
		if !n.nodes[i].host || name == "" {
			continue
		}
		k := slices.IndexFunc(rows, func(r datasets.Region) bool { return r.Name == name })
		if k < 0 {
			k = len(rows)
			rows = append(rows, datasets.Region{Name: name, Lat: at.Lat, Lon: at.Lon})
		}
		rows[k].Addrs = append(rows[k].Addrs, valid(s.Addr, s.Addr6)...)
	}
	return rows
}

// Targets returns the addresses of all regions, IPv4 before IPv6 of each host.
func (n *Net) Targets() []datasets.Target {
	var rows []datasets.Target
	for _, r := range n.Regions() {
		for _, a := range r.Addrs {
			rows = append(rows, datasets.Target{Addr: a, Name: r.Name, Region: r.Name})
		}
	}
	return rows
}

// AnycastTargets returns the address to measure of each anycast service, IPv4
// before IPv6, named after the service.
func (n *Net) AnycastTargets() []datasets.Target {
	var rows []datasets.Target
	for _, a := range n.spec.Anycast {
		for _, addr := range valid(service(a.Addr, a.Prefix), service(a.Addr6, a.Prefix6)) {
			rows = append(rows, datasets.Target{Addr: addr, Name: a.Name})
		}
	}
	return rows
}

// service is the address of an anycast service: the given one, or the first
// after the prefix's own.
func service(a netip.Addr, p netip.Prefix) netip.Addr {
	if a.IsValid() || !p.IsValid() {
		return a
	}
	if p.IsSingleIP() {
		return p.Addr()
	}
	return p.Addr().Next()
}

func valid(addrs ...netip.Addr) []netip.Addr {
	return slices.DeleteFunc(addrs, func(a netip.Addr) bool { return !a.IsValid() })
}
