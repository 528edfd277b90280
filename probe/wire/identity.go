package wire

// AppendIdentity appends to a probe's payload the text that says who probes and
// whom to ask about it, cut to room octets. Whoever captures a probe reads it
// as it is, so anything but printable ASCII becomes '?'. It appends nothing
// when there is no room.
func AppendIdentity(b []byte, text string, room int) []byte {
	for i := 0; i < min(len(text), room); i++ {
		c := text[i]
		if c < ' ' || c > '~' {
			c = '?'
		}
		b = append(b, c)
	}
	return b
}
