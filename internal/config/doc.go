// Package config turns the YAML files that people write into the structs that
// the other packages take: the daemon's configuration, the world file of a
// routing problem, the regions file of `route world` and the worlds of the
// simulated Internet. Nothing else in the module sees YAML.
//
// One strict decoder serves them all. A file is either right or every fault in
// it is reported at once, each with file, line, column, key and fix. The life
// cycle is decode, default, validate; building and running what was configured
// is package daemon's.
//
// It does not watch files, does not read the environment and opens no socket.
package config
