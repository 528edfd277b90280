// Package lawtest holds the laws of ARCHITECTURE.md as one test over the source
// tree: who may import whom, what pure code may not do, which names are taken.
// It has no API; the laws are in law_test.go, each with its reason.
package lawtest
