package simnet

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"strandline/datasets"
)

// pair is one direction of a mesh and the round trip that the file gives for it.
type pair struct {
	fromName, toName string // as in the file
	from, to         int    // nodes
	rtt              time.Duration
}

// defaultMeshMetric is one second: longer than any link of a planet.
const defaultMeshMetric = 1_000_000

// addMesh links each pair of the mesh's nodes.
func (n *Net) addMesh(m Mesh, fsys fs.FS) error {
	rtts, err := readMesh(m, fsys)
	if err != nil {
		return err
	}
	base := m.Metric
	if base == 0 {
		base = defaultMeshMetric
	}
	names := slices.Sorted(maps.Keys(m.Nodes))
	for i, a := range names {
		for _, b := range names[i+1:] {
			there, back := rtts[[2]string{a, b}], rtts[[2]string{b, a}]
			oneWay := (there + back) / 4
			metric := base + int(oneWay.Microseconds())
			n.addLink(Link{A: m.Nodes[a], B: m.Nodes[b], Delay: oneWay, Metric: metric})
			from, to := n.byName[m.Nodes[a]], n.byName[m.Nodes[b]]
			n.gaps = append(n.gaps, pair{a, b, from, to, there}, pair{b, a, to, from, back})
		}
	}
	return nil
}

// readMesh reads the mesh's file and checks that it has both directions of every pair.
func readMesh(m Mesh, fsys fs.FS) (map[[2]string]time.Duration, error) {
	if fsys == nil {
		return nil, fmt.Errorf("simnet: mesh file %s: no folder to read it from", m.RTTCSV)
	}
	f, err := fsys.Open(m.RTTCSV)
	if err != nil {
		return nil, fmt.Errorf("simnet: mesh: %w", err)
	}
	defer f.Close()
	rtts, problems := parseMesh(f, m.RTTCSV)
	names := slices.Sorted(maps.Keys(m.Nodes))
	for _, a := range names {
		for _, b := range names {
			if _, ok := rtts[[2]string{a, b}]; !ok && a != b && len(problems) == 0 {
				problems = append(problems, &datasets.Problem{File: m.RTTCSV, Key: a + "," + b,
					Msg: "the mesh needs this pair and the file has no such row", Fix: "add it, or take the name out of the mesh's nodes"})
			}
		}
	}
	return rtts, errors.Join(problems...)
}

// parseMesh reads rows of from,to,rtt_ms and reports every bad one.
func parseMesh(r io.Reader, name string) (map[[2]string]time.Duration, []error) {
	rd := csv.NewReader(r)
	rd.Comment, rd.FieldsPerRecord = '#', 3
	rtts := map[[2]string]time.Duration{}
	var problems []error
	fail := func(line int, key, msg, fix string) {
		problems = append(problems, &datasets.Problem{File: name, Line: line, Key: key, Msg: msg, Fix: fix})
	}
	header, err := rd.Read()
	if err != nil || !slices.Equal(header, []string{"from", "to", "rtt_ms"}) {
		fail(1, "", fmt.Sprintf("the header is %q", header), "write from,to,rtt_ms")
		return nil, problems
	}
	for {
		row, err := rd.Read()
		if err == io.EOF {
			return rtts, problems
		}
		if parse, ok := errors.AsType[*csv.ParseError](err); ok {
			fail(parse.Line, "", parse.Err.Error(), "write from,to,rtt_ms")
			continue
		} else if err != nil {
			return nil, append(problems, fmt.Errorf("simnet: %s: %w", name, err))
		}
		line, _ := rd.FieldPos(0)
		key := [2]string{row[0], row[1]}
		ms, err := strconv.ParseFloat(row[2], 64)
		if err != nil || !(ms > 0 && ms < 10_000) {
			fail(line, "rtt_ms", fmt.Sprintf("%q is not a round trip", row[2]), "write milliseconds between 0 and 10000")
		}
		if _, dup := rtts[key]; dup {
			fail(line, "from", fmt.Sprintf("%s,%s is there already", row[0], row[1]), "keep one row per pair and direction")
		}
		rtts[key] = time.Duration(ms * float64(time.Millisecond))
	}
}
