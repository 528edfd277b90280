package config

import (
	"reflect"

	"go.yaml.in/yaml/v3"

	"strandline/router"
)

// WorldSource is a routing problem: written in place, or the name of a world file.
type WorldSource struct {
	File   string
	Inline *router.World
}

// ClientSource is a list of clients: written in place, or the name of a CSV
// file with the header prefix,frontend.
type ClientSource struct {
	File   string
	Inline []Client
}

func (s *WorldSource) decodeNode(d *document, n *yaml.Node, path string, depth int) {
	d.fileOr(n, &s.File, reflect.ValueOf(&s.Inline).Elem(), path, depth)
}

func (s *ClientSource) decodeNode(d *document, n *yaml.Node, path string, depth int) {
	d.fileOr(n, &s.File, reflect.ValueOf(&s.Inline).Elem(), path, depth)
}

func (s WorldSource) encodeNode() any {
	if s.Inline != nil {
		return s.Inline
	}
	return nameOrNil(s.File)
}

func (s ClientSource) encodeNode() any {
	if s.Inline != nil {
		return s.Inline
	}
	return nameOrNil(s.File)
}

func nameOrNil(file string) any {
	if file == "" {
		return nil
	}
	return file
}

// fileOr decodes text as a file name and a collection as the content itself.
func (d *document) fileOr(n *yaml.Node, file *string, inline reflect.Value, path string, depth int) {
	switch {
	case n.Kind != yaml.ScalarNode:
		d.value(n, inline, path, depth+1)
	case n.ShortTag() == "!!str" && n.Value != "":
		*file = n.Value
	default:
		d.problemf(n, path, "write the name of a file, or the content in place", "is %s", described(n))
	}
}
