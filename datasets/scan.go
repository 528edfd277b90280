package datasets

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON (RFC 8259) strictly and knows where it is. It works on one
// text that is known to be UTF-8; what it returns may alias that text.
type scanner struct {
	s   string
	pos int
}

// fault makes a problem at the given byte offset. Its line is that of a text of
// one line; whoever reads longer texts corrects it with locate.
func (p *scanner) fault(at int, key, msg, fix string) *Problem {
	return &Problem{Column: at + 1, Key: key, Msg: msg, Fix: fix}
}

// space skips white space.
func (p *scanner) space() {
	for p.pos < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.pos]) >= 0 {
		p.pos++
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (p *scanner) peek() byte {
	p.space()
	if p.pos == len(p.s) {
		return 0
	}
	return p.s[p.pos]
}

// accept consumes c when it is next.
func (p *scanner) accept(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.pos++
	return true
}

// expect consumes c or fails, saying what was wanted.
func (p *scanner) expect(c byte, want string) *Problem {
	if p.accept(c) {
		return nil
	}
	return p.fault(p.pos, "", "want "+want+", got "+p.ahead(), "")
}

// ahead describes what stands at the scanner's position, for messages.
func (p *scanner) ahead() string {
	rest := p.s[p.pos:]
	switch {
	case rest == "":
		return "the end of the line"
	case rest[0] == '"':
		return "a string"
	case rest[0] == '{':
		return "an object"
	case rest[0] == '[':
		return "a list"
	}
	if end := strings.IndexAny(rest, " \t\r\n,:{}[]\""); end > 0 {
		rest = rest[:end]
	} else if end == 0 {
		rest = rest[:1]
	}
	return clip(rest)
}

// clip quotes s, shortened for a message.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.Quote(s)
}

// end fails unless only white space is left.
func (p *scanner) end() *Problem {
	if p.peek() == 0 && p.pos == len(p.s) {
		return nil
	}
	return p.fault(p.pos, "", "more text after the row", "write one object per line")
}

// null consumes the literal null when it is next.
func (p *scanner) null() bool {
	p.space()
	if !strings.HasPrefix(p.s[p.pos:], "null") {
		return false
	}
	p.pos += len("null")
	return true
}

// number consumes a JSON number and returns its text.
func (p *scanner) number() (string, *Problem) {
	p.space()
	start := p.pos
	for p.pos < len(p.s) && strings.IndexByte("+-.0123456789eE", p.s[p.pos]) >= 0 {
		p.pos++
	}
	text := p.s[start:p.pos]
	if !isNumber(text) {
		p.pos = start
		return "", p.fault(start, "", "want a number, got "+p.ahead(), "")
	}
	return text, nil
}

// isNumber reports whether s is a number by the grammar of RFC 8259 section 6.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole := digits(s)
	if whole == 0 || whole > 1 && s[0] == '0' {
		return false
	}
	s = s[whole:]
	if strings.HasPrefix(s, ".") {
		n := digits(s[1:])
		if n == 0 {
			return false
		}
		s = s[1+n:]
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		if s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		n := digits(s)
		return n > 0 && n == len(s)
	}
	return s == ""
}

// digits counts the digits that s starts with.
func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// str consumes a JSON string and returns its value.
func (p *scanner) str() (string, *Problem) {
	if p.peek() != '"' {
		return "", p.fault(p.pos, "", "want a string, got "+p.ahead(), "")
	}
	start := p.pos + 1
	for i := start; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.pos = i + 1
			return p.s[start:i], nil
		case c == '\\':
			p.pos = i
			return p.escaped(start)
		case c < ' ':
			return "", p.fault(i, "", "control character in a string", "escape it")
		}
	}
	return "", p.fault(len(p.s), "", "string without its closing quote", "")
}

// escaped goes on with a string that started at start and has its first
// backslash at the scanner's position.
func (p *scanner) escaped(start int) (string, *Problem) {
	out := []byte(p.s[start:p.pos])
	for p.pos < len(p.s) {
		switch c := p.s[p.pos]; {
		case c == '"':
			p.pos++
			return string(out), nil
		case c == '\\':
			r, n := unescape(p.s[p.pos:])
			if n == 0 {
				return "", p.fault(p.pos, "", "bad escape in a string", "")
			}
			out = utf8.AppendRune(out, r)
			p.pos += n
		case c < ' ':
			return "", p.fault(p.pos, "", "control character in a string", "escape it")
		default:
			out = append(out, c)
			p.pos++
		}
	}
	return "", p.fault(len(p.s), "", "string without its closing quote", "")
}

// unescape decodes the escape that s starts with and returns its length, 0 for
// a bad one. Half a surrogate pair is bad.
func unescape(s string) (rune, int) {
	if len(s) < 2 {
		return 0, 0
	}
	if s[1] != 'u' {
		if i := strings.IndexByte(`"\/bfnrt`, s[1]); i >= 0 {
			return rune("\"\\/\b\f\n\r\t"[i]), 2
		}
		return 0, 0
	}
	r, ok := hex4(s[2:])
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if !strings.HasPrefix(s[6:], `\u`) {
		return 0, 0
	}
	low, ok := hex4(s[8:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// hex4 reads four hexadecimal digits.
func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	v, err := strconv.ParseUint(s[:4], 16, 32)
	return rune(v), err == nil
}

// members consumes an object and calls member for each name, with the
// scanner before the value; at is where the name stands. A repeated name is the caller's to find.
func (p *scanner) members(member func(name string, at int) *Problem) *Problem {
	if err := p.expect('{', "an object"); err != nil {
		return err
	}
	if p.accept('}') {
		return nil
	}
	for {
		if p.peek() != '"' {
			return p.fault(p.pos, "", "want a key in quotes, got "+p.ahead(), "")
		}
		at := p.pos
		name, err := p.str()
		if err != nil {
			return err
		}
		if err := p.expect(':', "':' after the key"); err != nil {
			return err
		}
		p.space()
		if err := member(name, at); err != nil {
			return err
		}
		if p.accept('}') {
			return nil
		}
		if err := p.expect(',', "',' or '}'"); err != nil {
			return err
		}
	}
}

// elements consumes a list and calls element at each of its values.
func (p *scanner) elements(element func(i int) *Problem) *Problem {
	if err := p.expect('[', "a list"); err != nil {
		return err
	}
	if p.accept(']') {
		return nil
	}
	for i := 0; ; i++ {
		p.space()
		if err := element(i); err != nil {
			return err
		}
		if p.accept(']') {
			return nil
		}
		if err := p.expect(',', "',' or ']'"); err != nil {
			return err
		}
	}
}
