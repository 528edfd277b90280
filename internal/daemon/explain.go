package daemon

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"strandline/dnsserver"
	"strandline/internal/config"
	"strandline/router"
)

// Explanation is why a client gets the answer that it gets: the decision of the
// table, and what DNS says where the name is steered.
type Explanation struct {
	router.Explanation
	DNS *DNSAnswer `json:"dns,omitempty"` // nil when the configuration has no dns part
}

// DNSAnswer is what the DNS server answers for a steered name.
type DNSAnswer struct {
	Addresses []netip.Addr     `json:"addresses"` // AAAA after A; empty where the rcode or NODATA says so
	TTLSecond uint32           `json:"ttl_s"`
	Rcode     string           `json:"rcode"`
	Region    string           `json:"region,omitempty"` // differs from the table's where that has no address of a family, or all are down
	Scope     int              `json:"scope"`            // of the ECS option
	Source    dnsserver.Source `json:"source,omitempty"` // by what it was decided
}

// Explain answers from the files alone what a daemon with this configuration
// would say to client while every region is up. client is a prefix as resolvers
// send it in an ECS option (198.51.100.0/24), or an address, which is then the
// resolver itself.
func Explain(configFile, name, client string) (*Explanation, error) {
	cfg, err := config.Load(configFile)
	if err != nil {
		return nil, err
	}
	table, err := newTable(cfg, 1, nil)
	if err != nil {
		return nil, err
	}
	s := &state{cfg: cfg, table: table}
	if cfg.DNS != nil {
		if s.snap, err = dnsserver.Compile(cfg.Zones, cfg.Steers(), table); err != nil {
			return nil, err
		}
	}
	return s.explain(name, client, s.snap)
}

// ClientError says that the question of an explanation makes no sense; it is
// the asker's fault.
type ClientError struct{ Reason string }

// Error returns the reason.
func (e *ClientError) Error() string { return e.Reason }

// explain answers from a state. snap is what DNS serves, which knows earlier
// tables too; it may be nil.
func (s *state) explain(name, client string, snap *dnsserver.Snapshot) (*Explanation, error) {
	prefix, located, err := parseClient(client)
	if err != nil {
		return nil, err
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if name == "" {
		return nil, &ClientError{"no name was given: ask for one such as api.example.org"}
	}
	e := &Explanation{}
	var whom netip.Prefix // whom DNS answers for
	if snap != nil {
		if err := s.steered(name); err != nil {
			return nil, err
		}
		if e.DNS, whom, err = resolve(snap, name, prefix, located); err != nil {
			return nil, err
		}
	}
	asked := prefix
	if whom.IsValid() {
		prefix = whom
	}
	e.Explanation = s.table.Explain(name, prefix)
	if located && prefix != asked {
		e.Why = fmt.Sprintf("the subnet %v says nothing about the client's place, so DNS answers as for its resolver, whose address is not known here; for a resolver at %v: %s",
			asked, prefix.Addr(), e.Why)
	}
	return e, nil
}

// parseClient reads a prefix or an address; located says that it was a prefix.
func parseClient(client string) (prefix netip.Prefix, located bool, err error) {
	if strings.Contains(client, "/") {
		p, err := netip.ParsePrefix(client)
		if err != nil {
			return netip.Prefix{}, false, &ClientError{fmt.Sprintf("client %q is not an IP prefix: write it like 198.51.100.0/24", client)}
		}
		return p.Masked(), true, nil
	}
	a, err := netip.ParseAddr(client)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, false, &ClientError{fmt.Sprintf("client %q is not an IP address or prefix: write it like 198.51.100.0/24", client)}
	}
	return netip.PrefixFrom(a, a.BitLen()), false, nil
}

// steered reports a name that DNS would not answer by the table.
func (s *state) steered(name string) error {
	var names []string
	for _, st := range s.cfg.DNS.Steer {
		names = append(names, strings.TrimSuffix(strings.ToLower(st.Name), "."))
	}
	if slices.Contains(names, name) {
		return nil
	}
	if len(names) == 0 {
		return &ClientError{fmt.Sprintf("%s is not steered, nor is any other name: see dns.steer", name)}
	}
	return &ClientError{fmt.Sprintf("%s is not steered; steered are %s", name, strings.Join(names, ", "))}
}

// resolve asks for both kinds of addresses as a resolver would, and returns
// whom the answer was for.
func resolve(snap *dnsserver.Snapshot, name string, client netip.Prefix, located bool) (*DNSAnswer, netip.Prefix, error) {
	owner, err := dnsserver.ParseName(name)
	if err != nil {
		return nil, netip.Prefix{}, &ClientError{err.Error()}
	}
	out := &DNSAnswer{Addresses: []netip.Addr{}}
	var whom netip.Prefix
	for _, t := range []dnsserver.Type{dnsserver.TypeA, dnsserver.TypeAAAA} {
		q := dnsserver.Query{Name: owner, Type: t, Class: dnsserver.ClassIN, Resolver: client.Addr()}
		if located {
			q.Subnet, q.HasSubnet = client, true
		}
		answer := dnsserver.Resolve(snap, q)
		if t == dnsserver.TypeA || len(out.Addresses) == 0 {
			out.Rcode, out.Scope = answer.Rcode.String(), answer.Scope
			if d := answer.Decision; d != nil {
				out.Region, out.Source, whom = d.Region, d.Source, d.Client
			}
		}
		for _, r := range answer.Answer {
			if a, ok := netip.AddrFromSlice(r.Data); ok && r.Type == t {
				out.Addresses, out.TTLSecond = append(out.Addresses, a), r.TTL
			}
		}
	}
	return out, whom, nil
}
