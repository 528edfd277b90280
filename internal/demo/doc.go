// Package demo runs the whole loop once, on the embedded world "earth", without
// privileges and without a network: a campaign whose rows are scored against the
// simulator's truth, the data set, the allocation solved from the measured rows,
// DNS and HTTP answers on loopback from that allocation, a region that fails, and
// the report.
//
// It lives apart from package daemon so that what serves in production does not
// depend on simulators.
package demo
