// Package datasets holds the nouns of strandline: the rows that every stage
// reads and writes, their identity and their units, and the text formats they
// travel in. Measuring produces rows, analysis turns rows into rows, routing
// reads rows; so every stage can be run, tested and replayed alone, from files.
//
// # Words
//
// One word per concept, the same in code, flags, JSON and documents:
//
//	vantage     who measures
//	target      what is measured
//	probe       one packet sent
//	sample      the outcome of one probe; a reply, a timeout or an error kind, all of them data
//	flow        the header fields that a balancer may hash
//	hop, link   an address on a path; two addresses next to each other on a path
//	site        one instance of an anycast service
//	catchment   the set of clients that land at a site
//	region      a place that serves requests
//	frontend    where requests enter: an HTTP router, or a client group of the DNS server
//	allocation  the share of each frontend's requests that each region gets
//	scope       the prefix length that an answer holds for
//	epoch       the version of a table of answers
//
// # Units
//
// The unit is the end of the name: _ns (integer nanoseconds), _ms and _s
// (floating point), _hz (events per second), _km. A clock time in _ns counts
// from 1970-01-01T00:00:00Z. Latitudes and longitudes are degrees.
//
// # Files
//
// Rows travel as JSONL or CSV ([Read], [Write]) and live in a data set: a
// directory with one JSONL file per kind of row and a manifest with checksums
// ([Create], [Open], [Validate]). Readers are strict and name file, line, column
// and key; writers write nothing that a reader would refuse; equal rows are equal
// bytes. The keys and the meaning of a schema version do not change: files of an
// older version stay readable.
//
//	set, err := datasets.Open(dir)
//	...
//	for row, err := range datasets.Rows[datasets.Sample](set) {
//
// The package does no arithmetic on measurements (package analysis does), reads
// no clock, opens no socket and starts no goroutine.
package datasets
