// Package daemon builds the servers from a configuration and runs them: the
// only place where DNS, HTTP router, health checks and tables know each other.
//
// # Model
//
// One goroutine, the control loop, owns what is served. Whenever a health check
// changes its mind or a reload is asked for, it plans the whole world anew,
// builds a complete table with the next epoch, and hands it to the DNS server
// and the HTTP router together. Either both answer from the new table or, when
// anything about it fails, both keep the old one. Servers read snapshots and
// never wait.
//
// A region is down while any of its health checks is. A check counts once it
// knows: the first answers wait for that, though not for long.
//
// Epochs only grow, over reloads too, and over restarts where the configuration
// names a state_dir.
//
// # Life
//
// Run loads and checks the configuration, binds all sockets, waits for the
// first health results, publishes the first table and serves. A reload builds
// everything from the files again. It cannot move sockets: a configuration with
// other listen addresses, another server_id or another state_dir is refused and
// needs a restart. When its context ends Run drains in order: /readyz says 503,
// DNS stops after the queries in flight, the HTTP router accepts nothing new and
// waits for streams up to http.drain_timeout, checks stop, the admin pages last.
//
// # What it does not do
//
// It measures no latencies itself, terminates no TLS, and shares nothing with
// other daemons.
package daemon
