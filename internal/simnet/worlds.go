package simnet

import "embed"

// Worlds holds the worlds that come with strandline: worlds/NAME.yaml, each a
// Spec, with the files that their meshes name beside them.
//
//   - earth: 13 cloud regions joined by their measured round trips (IBM Cloud,
//     July and August 2026), 40 cities on all continents attached by great
//     circle, six sites of one anycast service, balancers, and a few faults. A
//     region's server is 0.1 ms or 0.15 ms behind its backbone router, so round
//     trips between servers exceed the measured ones by up to 0.6 ms.
//   - maze: one host, one target and between them balancers of every kind: four
//     ways, unequal branches, a mesh with uneven shares, and one that goes by
//     packets; 20 addresses and 27 links.
//
//go:embed worlds
var Worlds embed.FS
