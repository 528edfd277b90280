package dnsserver

import (
	"fmt"

	"github.com/miekg/dns"
)

// Name is a domain name in wire form (RFC 1035 section 3.1): labels with their
// length in front, then the zero octet of the root. It keeps the case it was
// written in; Lower gives the form that is compared (RFC 4343). Being a string
// it is a map key, and the name of its parent is a slice of it.
type Name string

// Root is the name of the root.
const Root Name = "\x00"

// The limits of RFC 1035 section 2.3.4, in octets.
const (
	maxName  = 255
	maxLabel = 63
)

// ParseName reads the presentation form, with or without the final dot. The
// error says what is wrong with it: empty, a label over 63 octets, a name over
// 255 octets, a bad escape.
func ParseName(s string) (Name, error) {
	if s == "" {
		return "", fmt.Errorf("the name is empty")
	}
	var buf [maxName + 1]byte
	n, err := dns.PackDomainName(dns.Fqdn(s), buf[:], 0, nil, false)
	if err != nil || n > maxName {
		return "", fmt.Errorf("%q is not a domain name", s)
	}
	return Name(buf[:n]), nil
}

// String returns the presentation form with the final dot; octets that are not
// plain text are escaped (RFC 1035 section 5.1).
func (n Name) String() string {
	s, _, err := dns.UnpackDomainName([]byte(n), 0)
	if err != nil {
		return fmt.Sprintf("%q", string(n))
	}
	return s
}

// Lower returns the name with the letters A to Z in lower case. It may work on
// all octets at once because no length octet is as large as a letter.
func (n Name) Lower() Name {
	for i := 0; i < len(n); i++ {
		if 'A' <= n[i] && n[i] <= 'Z' {
			return lowerFrom(n, i)
		}
	}
	return n
}

func lowerFrom(n Name, first int) Name {
	b := []byte(n)
	for i := first; i < len(b); i++ {
		if 'A' <= b[i] && b[i] <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return Name(b)
}

// Within reports whether n is zone or lies below it. Both are in lower case.
func (n Name) Within(zone Name) bool {
	for ; len(n) > len(zone); n = n.parent() {
	}
	return n == zone
}

// parent returns the name without its first label. Root has none: it returns "".
func (n Name) parent() Name {
	if n == Root {
		return ""
	}
	return n[1+int(n[0]):]
}

// wildcard returns the name *.n, or "" when that would be too long.
func (n Name) wildcard() Name {
	if len(n)+2 > maxName {
		return ""
	}
	return "\x01*" + n
}

// isWildcard reports whether the first label is an asterisk (RFC 4592 section 2.1.1).
func (n Name) isWildcard() bool { return len(n) > 2 && n[0] == 1 && n[1] == '*' }
