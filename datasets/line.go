package datasets

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxLineBytes bounds what one line may hold; the longest row has well under a
// hundredth of it.
const maxLineBytes = 1 << 20

// lineReader cuts a text into lines and counts them.
type lineReader struct {
	r      *bufio.Reader
	name   string
	line   int   // the number of the line that next returned, from 1
	failed error // what next returns once, before io.EOF for ever; nil while lines are to come
	buf    []byte
}

// next returns the next line without its line feed (and carriage return), a
// *Problem for a line that is none, io.EOF at the end, or the error of the
// reader, after which comes io.EOF.
func (l *lineReader) next() (string, error) {
	if l.failed != nil {
		err := l.failed
		l.failed = io.EOF
		return "", err
	}
	length, err := l.fill()
	if err == io.EOF && length == 0 {
		l.failed = io.EOF
		return "", io.EOF
	}
	if err != nil && err != io.EOF {
		l.failed = io.EOF
		return "", fmt.Errorf("read %s after line %d: %w", l.name, l.line, err)
	}
	l.line++
	text := strings.TrimSuffix(strings.TrimSuffix(string(l.buf), "\n"), "\r")
	if bad := l.fault(text, length, err == io.EOF); bad != nil {
		bad.File, bad.Line = l.name, l.line
		return "", bad
	}
	return text, nil
}

// fill reads up to and including the next line feed into buf. It returns how
// long the line is, of which buf holds no more than a little over maxLineBytes.
func (l *lineReader) fill() (length int, err error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		length += len(part)
		if len(l.buf) <= maxLineBytes {
			l.buf = append(l.buf, part...)
		}
		if err != bufio.ErrBufferFull {
			return length, err
		}
	}
}

// fault says what is wrong with a line before it is parsed.
func (l *lineReader) fault(text string, length int, unfinished bool) *Problem {
	switch {
	case length > maxLineBytes:
		return &Problem{Column: maxLineBytes + 1, Msg: fmt.Sprintf("line of %d bytes; at most %d are read", length, maxLineBytes)}
	case unfinished:
		return &Problem{Column: len(text) + 1, Msg: "the file ends within a line",
			Fix: "it may be cut off; a whole row ends with a line feed"}
	case text == "":
		return &Problem{Column: 1, Msg: "empty line", Fix: "remove it"}
	case l.line == 1 && strings.HasPrefix(text, "\ufeff"):
		return &Problem{Column: 1, Msg: "byte order mark", Fix: "save the file as UTF-8 without it"}
	case !utf8.ValidString(text):
		return &Problem{Column: invalidUTF8(text) + 1, Msg: "not UTF-8"}
	}
	return nil
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8.
func invalidUTF8(s string) int {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return i
		}
	}
	return len(s)
}
