// Command strandline measures how the Internet carries traffic and routes
// requests by what it measured: probe campaigns from the command line, an
// authoritative DNS server and an HTTP router that answer from one allocation.
//
// Output rules: standard output is data (--format table, json or csv), standard
// error is talk. Exit codes: 0 done, 1 failed, 2 usage, 3 the check that was
// asked for did not hold.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
