package datasets

import (
	"strconv"
	"strings"
)

// Problem is one fault in something a user gave us: a row, a configuration, a
// world. It says where (as far as known), what is wrong and how to fix it.
// Several problems travel together through errors.Join.
type Problem struct {
	File   string // empty when it did not come from a file
	Line   int    // from 1; 0 = not known
	Column int    // from 1, in bytes; 0 = not known
	Key    string // path of the key or column at fault, such as regions[2].service.mu
	Msg    string // what is wrong
	Fix    string // what to write instead; may be empty
}

// Error formats the problem as file:line:column: key: message (fix).
func (p *Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			b.WriteString(":" + strconv.Itoa(p.Line))
			if p.Column > 0 {
				b.WriteString(":" + strconv.Itoa(p.Column))
			}
		}
		b.WriteString(": ")
	} else if p.Line > 0 {
		b.WriteString("line " + strconv.Itoa(p.Line) + ": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Msg)
	if p.Fix != "" {
		b.WriteString("; " + p.Fix)
	}
	return b.String()
}
