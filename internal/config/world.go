package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"strandline/datasets"
	"strandline/internal/simnet"
	"strandline/router"
)

// LoadWorld reads a world file: a routing problem for router.Solve. The error
// joins every problem, as Decode describes.
func LoadWorld(file string) (*router.World, error) {
	src, err := readFile(file, maxBytes)
	if err != nil {
		return nil, err
	}
	return decodeWorld(file, src)
}

func decodeWorld(file string, src []byte) (*router.World, error) {
	w := &router.World{}
	if err := Decode(file, src, w); err != nil {
		return nil, err
	}
	return w, nil
}

// EncodeWorld writes a world as a world file, which LoadWorld reads back to the
// same world.
func EncodeWorld(w *router.World) (string, error) { return encode(w) }

// LoadRegions reads a regions file: what measured rows lack to become a world.
// The error joins every problem, as Decode describes; whether the demand fits
// the regions shows only with the rows.
func LoadRegions(file string) (*router.RegionsFile, error) {
	src, err := readFile(file, maxBytes)
	if err != nil {
		return nil, err
	}
	var r regionsFile
	if err := Decode(file, src, &r); err != nil {
		return nil, err
	}
	return &r.RegionsFile, nil
}

// regionsFile checks a router.RegionsFile by what a world asks of the same keys.
type regionsFile struct {
	router.RegionsFile `yaml:",inline"`
}

// Validate makes a world of the file in which any demand fits, since only the
// keys are judged here.
func (r *regionsFile) Validate() error {
	w := router.World{Frontends: r.Frontends, Regions: r.Regions, Classes: r.Classes, Objective: r.Objective}
	if len(w.Frontends) == 0 {
		w.Frontends = []router.Frontend{{Name: "measured"}}
	}
	if w.Objective.Shed == nil {
		w.Objective.Shed = &router.Shed{PriceS: 1}
	}
	for range w.Frontends {
		row := make([]*float64, len(w.Regions))
		for j := range row {
			row[j] = new(float64)
		}
		w.Latency.Matrix = append(w.Latency.Matrix, row)
	}
	return w.Validate()
}

// LoadSim reads a world of the simulated Internet: a file, or by its bare name
// (such as earth) one that is built in. The file system is the one that the
// names in the spec are relative to. The error joins every problem, as Decode
// describes.
func LoadSim(name string) (simnet.Spec, fs.FS, error) {
	fsys, base := os.DirFS(filepath.Dir(name)), filepath.Base(name)
	if builtIn, ok := builtInWorlds(name); ok {
		fsys, base = builtIn, name+".yaml"
	}
	src, err := fs.ReadFile(fsys, base)
	if errors.Is(err, fs.ErrNotExist) {
		return simnet.Spec{}, nil, &datasets.Problem{File: name, Msg: "there is no such file, and no such world is built in",
			Fix: "name a YAML file, or one of " + strings.Join(SimNames(), ", ")}
	} else if err != nil {
		return simnet.Spec{}, nil, err
	}
	var spec simnet.Spec
	if err := Decode(name, src, &spec); err != nil {
		return simnet.Spec{}, nil, err
	}
	return spec, fsys, nil
}

// SimNames lists the worlds that are built in.
func SimNames() []string {
	var names []string
	files, err := fs.Glob(simnet.Worlds, "worlds/*.yaml")
	if err != nil {
		panic("config: " + err.Error()) // only a malformed pattern fails
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".yaml"))
	}
	return names
}

// builtInWorlds returns the file system that holds the built-in world of that name.
func builtInWorlds(name string) (fs.FS, bool) {
	sub, err := fs.Sub(simnet.Worlds, "worlds")
	if err != nil {
		panic("config: " + err.Error()) // only a malformed path fails
	}
	_, err = fs.Stat(sub, name+".yaml")
	return sub, err == nil
}

func frontendNames(w *router.World) []string {
	names := make([]string, len(w.Frontends))
	for i, f := range w.Frontends {
		names[i] = f.Name
	}
	return names
}

func regionNames(w *router.World) []string {
	names := make([]string, len(w.Regions))
	for i, r := range w.Regions {
		names[i] = r.Name
	}
	return names
}
