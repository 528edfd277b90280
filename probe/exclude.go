package probe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"strandline/datasets"
)

// Limits of an exclusion file; a file beyond them is refused, because a list that
// was read only in part would let excluded networks be probed.
const (
	MaxExclusions        = 1 << 20 // entries
	maxExclusionLine     = 4096    // bytes
	maxExclusionProblems = 50      // reported; more are counted
)

// Exclusions is a set of networks that must not be probed. It is immutable; nil
// and the zero value are the empty set.
type Exclusions struct {
	prefixes []netip.Prefix // sorted, none inside another
}

// NewExclusions returns the set of all addresses in the prefixes. Invalid
// prefixes are left out.
func NewExclusions(prefixes ...netip.Prefix) *Exclusions {
	sorted := make([]netip.Prefix, 0, len(prefixes))
	for _, p := range prefixes {
		if p.IsValid() {
			sorted = append(sorted, unmapPrefix(p).Masked())
		}
	}
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	x := &Exclusions{}
	for _, p := range sorted {
		// Two prefixes are disjoint or nested, so only the last one kept can hold p.
		if n := len(x.prefixes); n == 0 || !x.prefixes[n-1].Overlaps(p) {
			x.prefixes = append(x.prefixes, p)
		}
	}
	return x
}

// ParseExclusions reads a list of prefixes and addresses, one a line; # starts a
// comment. Every fault is a *datasets.Problem with name and line, and all of them
// are returned together, with no set.
func ParseExclusions(r io.Reader, name string) (*Exclusions, error) {
	var prefixes []netip.Prefix
	var faults []error
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxExclusionLine)
	line := 0
	fault := func(msg, fix string) {
		faults = append(faults, &datasets.Problem{File: name, Line: line, Msg: msg, Fix: fix})
	}
	for lines.Scan() {
		line++
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		p, msg, fix := parseExclusion(text)
		if msg != "" {
			fault(msg, fix)
		} else if prefixes = append(prefixes, p); len(prefixes) > MaxExclusions {
			fault(fmt.Sprintf("more than %d entries", MaxExclusions), "merge neighbouring prefixes")
			break
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		line++
		fault(fmt.Sprintf("line longer than %d bytes", maxExclusionLine), "write one prefix a line")
	} else if err != nil {
		return nil, fmt.Errorf("%s: line %d: %w", name, line+1, err)
	}
	if len(faults) > 0 {
		return nil, joinFaults(faults, name)
	}
	return NewExclusions(prefixes...), nil
}

// parseExclusion reads one entry; msg is empty when it is good.
func parseExclusion(text string) (p netip.Prefix, msg, fix string) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return p, fmt.Sprintf("%q is not an address or prefix", text), "write 192.0.2.0/24, 2001:db8::/32 or one address"
		}
		return netip.PrefixFrom(addr, addr.BitLen()), "", ""
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Sprintf("%q is not a prefix", text), "write 192.0.2.0/24 or 2001:db8::/32"
	}
	if p != p.Masked() {
		return p, fmt.Sprintf("%s has bits set beyond its length", p),
			fmt.Sprintf("write %s for the network or %s for the address", p.Masked(), p.Addr())
	}
	return p, "", ""
}

func joinFaults(faults []error, name string) error {
	if n := len(faults); n > maxExclusionProblems {
		more := &datasets.Problem{File: name, Msg: fmt.Sprintf("and %d more problems", n-maxExclusionProblems)}
		faults = append(faults[:maxExclusionProblems:maxExclusionProblems], more)
	}
	return errors.Join(faults...)
}

// unmapPrefix turns a prefix inside ::ffff:0:0/96 into the IPv4 prefix it means.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// Contains reports whether addr must not be probed.
func (x *Exclusions) Contains(addr netip.Addr) bool {
	if x == nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	i, found := slices.BinarySearchFunc(x.prefixes, addr, func(p netip.Prefix, a netip.Addr) int {
		return p.Addr().Compare(a)
	})
	return found || i > 0 && x.prefixes[i-1].Contains(addr)
}

// Len returns the number of separate networks in the set.
func (x *Exclusions) Len() int {
	if x == nil {
		return 0
	}
	return len(x.prefixes)
}
