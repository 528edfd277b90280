package lawtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const module = "strandline"

// law says what one folder may import outside itself. A path ending in /...
// covers the folders below it; test files are judged by testOnly as well.
type law struct {
	folder string
	inside []string // within the module, relative to its root
	beyond []string // outside the standard library
	why    string
}

// imports is the table of ARCHITECTURE.md, "Who may import whom".
var imports = []law{
	{"datasets", nil, nil, "rows are the contract: everything depends on them, so they depend on nothing"},
	{"probe/wire", []string{"datasets"}, nil, "bytes are tested alone and shared by prober and simulator"},
	{"analysis", []string{"datasets"}, nil, "pure: rows in, rows out; routing and analysis meet in rows only"},
	{"router", []string{"datasets"}, []string{"gonum.org/v1/gonum"}, "pure: a table built from anybody's rows routes just as well"},
	{"router/sim", []string{"router", "datasets"}, []string{"gonum.org/v1/gonum"}, "pure"},
	{"router/proxy", []string{"router", "datasets", "internal/telemetry", "internal/tlsconf"}, []string{"golang.org/x/net", "github.com/quic-go/quic-go"}, "the HTTP data plane answers from tables"},
	{"probe", []string{"probe/wire", "datasets", "analysis"}, nil, "the engine runs on any Conn"},
	{"probe/rawsock", []string{"probe", "probe/wire", "datasets"}, []string{"golang.org/x/sys", "golang.org/x/net", "github.com/cilium/ebpf"}, "sockets stay in one place"},
	{"probe/pcap", []string{"probe/wire"}, []string{"github.com/google/gopacket"}, "the one gopacket package"},
	{"probe/campaign", []string{"probe", "analysis", "datasets", "internal/bus"}, nil, "plans are data"},
	{"dnsserver", []string{"router", "datasets", "internal/telemetry", "internal/tlsconf"}, []string{"github.com/miekg/dns", "golang.org/x/sys", "golang.org/x/net", "github.com/cilium/ebpf", "github.com/quic-go/quic-go", "github.com/dnstap/golang-dnstap"}, "the only importer of miekg/dns"},
	{"internal/simnet", []string{"probe", "probe/wire", "datasets"}, nil, "the simulator shares bytes with the prober and nothing else"},
	{"internal/lab", []string{"probe", "probe/wire", "datasets"}, []string{"github.com/vishvananda/netlink", "golang.org/x/sys"}, "the kernel world"},
	{"internal/simbackend", []string{"datasets"}, nil, "a stand-in must not know who tests it"},
	{"internal/config", []string{"probe", "router", "router/proxy", "dnsserver", "internal/simnet", "datasets"}, []string{"go.yaml.in/yaml/v3"}, "the one YAML package; it knows the options of what it configures"},
	{"internal/web", []string{"router", "analysis", "datasets", "internal/telemetry"}, nil, "pages are drawn from rows"},
	{"internal/leak", nil, nil, "a test helper"},
	{"internal/lawtest", nil, nil, "the laws"},
	{"internal/daemon", []string{"..."}, []string{"golang.org/x/sync"}, "the only wiring of what serves"},
	{"internal/demo", []string{"..."}, []string{"golang.org/x/net"}, "wires simulators to the daemon, so that the daemon need not know them"},
	{"internal/bench", []string{"..."}, []string{"..."}, "runs peers side by side"},
	{"cmd/strandline", []string{"..."}, []string{"github.com/spf13/cobra", "golang.org/x/term"}, "cobra lives here only"},
}

// testOnly may be imported by any _test file: oracles, the simulated Internet
// and helpers.
var testOnly = []string{
	"github.com/google/gopacket", "github.com/rogpeppe/go-internal", "go.yaml.in/yaml/v3", "golang.org/x/net", "gonum.org/v1/gonum",
	"strandline/internal/leak", "strandline/internal/simnet", "strandline/internal/simbackend", "strandline/internal/lab",
	"strandline/internal/config", "strandline/analysis", "strandline/probe", "strandline/probe/wire", "strandline/probe/rawsock", "strandline/datasets",
}

// pure folders take time, chance and I/O as parameters.
var pure = []string{"datasets", "probe/wire", "analysis", "router", "router/sim"}

// noClock folders take time from their Conn.
var noClock = []string{"probe"}

// synonyms of words that the product already has one word for (datasets/doc.go).
var synonyms = map[string]string{"Node": "vantage, hop or region", "Pop": "site", "Monitor": "vantage"}

var badPackageNames = []string{"util", "utils", "common", "helpers", "types", "models"}

type source struct {
	folder string // relative to the root, "" for the root
	name   string
	test   bool
	file   *ast.File
}

func TestLaws(t *testing.T) {
	fset := token.NewFileSet()
	sources := load(t, fset)
	documented, known := map[string]bool{}, map[string]bool{}
	for _, s := range sources {
		known[s.folder] = true
		documented[s.folder] = documented[s.folder] || (!s.test && s.file.Doc != nil)
		for _, fault := range slices.Concat(importFaults(s), purityFaults(s), nameFaults(s), fileFaults(s, fset)) {
			t.Errorf("%s: %s", path.Join(s.folder, s.name), fault)
		}
	}
	for folder := range known {
		if !documented[folder] {
			t.Errorf("%s: the package has no doc comment", folder)
		}
	}
}

// load parses every Go file of the module.
func load(t *testing.T, fset *token.FileSet) []source {
	t.Helper()
	var out []source
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "demo-out") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(rel))
		out = append(out, source{folder, d.Name(), strings.HasSuffix(p, "_test.go"), f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found %d Go files: the laws were not tested", len(out))
	}
	return out
}

// importFaults reports imports that the table does not allow.
func importFaults(s source) []string {
	i := slices.IndexFunc(imports, func(l law) bool { return l.folder == s.folder })
	if i < 0 {
		return []string{"the folder is not in the import table of internal/lawtest: add a file before a package"}
	}
	l := imports[i]
	var faults []string
	for _, spec := range s.file.Imports {
		p := strings.Trim(spec.Path.Value, `"`)
		if p == module+"/"+s.folder || (s.test && allowed(testOnly, p)) {
			continue
		}
		if inner, ok := strings.CutPrefix(p, module+"/"); ok {
			if !slices.Contains(l.inside, inner) && !slices.Contains(l.inside, "...") {
				faults = append(faults, "imports "+p+" ("+l.why+")")
			}
		} else if strings.Contains(strings.SplitN(p, "/", 2)[0], ".") && !allowed(l.beyond, p) {
			faults = append(faults, "imports "+p+" ("+l.why+")")
		}
	}
	return faults
}

// allowed reports whether p is one of the modules or below one.
func allowed(modules []string, p string) bool {
	return slices.ContainsFunc(modules, func(m string) bool {
		return m == "..." || p == m || strings.HasPrefix(p, m+"/")
	})
}

// purityFaults reports clocks, chance, sockets and goroutines where they must
// be parameters, and sleeping tests.
func purityFaults(s source) []string {
	var faults []string
	isPure := slices.Contains(pure, s.folder) && !s.test
	isNoClock := isPure || slices.Contains(noClock, s.folder) && !s.test
	bubbles := bubbleRanges(s.file)
	if isPure && importsPath(s.file, "net") {
		faults = append(faults, `imports "net": pure code opens no sockets`)
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok && isPure {
			faults = append(faults, "starts a goroutine in pure code")
		}
		pkg, name, pos := selector(n)
		switch {
		case isNoClock && pkg == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}, name):
			faults = append(faults, "calls time."+name+": time is a parameter here")
		case isNoClock && pkg == "rand" && !slices.Contains([]string{"New", "NewPCG", "NewChaCha8", "Rand", "PCG", "Source"}, name):
			faults = append(faults, "calls rand."+name+": chance is a parameter here")
		case s.test && pkg == "time" && name == "Sleep" && !inside(bubbles, pos):
			faults = append(faults, "sleeps outside a synctest bubble")
		}
		return true
	})
	return faults
}

// selector returns the package-like name, the selected name and the position of
// a selector expression.
func selector(n ast.Node) (pkg, name string, pos token.Pos) {
	if sel, ok := n.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok {
			return x.Name, sel.Sel.Name, sel.Pos()
		}
	}
	return "", "", token.NoPos
}

// bubbleRanges returns the extents of the calls to synctest.Test.
func bubbleRanges(f *ast.File) [][2]token.Pos {
	var out [][2]token.Pos
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if pkg, name, _ := selector(call.Fun); pkg == "synctest" && name == "Test" {
				out = append(out, [2]token.Pos{call.Pos(), call.End()})
			}
		}
		return true
	})
	return out
}

func inside(ranges [][2]token.Pos, pos token.Pos) bool {
	return slices.ContainsFunc(ranges, func(r [2]token.Pos) bool { return r[0] <= pos && pos < r[1] })
}

func importsPath(f *ast.File, want string) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+want+`"` })
}

// nameFaults reports synonyms in exported names, bad package names and init.
func nameFaults(s source) []string {
	var faults []string
	if slices.Contains(badPackageNames, s.file.Name.Name) {
		faults = append(faults, "package "+s.file.Name.Name+" says nothing about its content")
	}
	for _, d := range s.file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			faults = append(faults, "has an init function: wiring is explicit")
		}
		if s.test || s.folder == "internal/simnet" {
			continue
		}
		for _, name := range exportedNames(d) {
			for _, word := range words(name) {
				if instead := synonyms[word]; instead != "" {
					faults = append(faults, "exports "+name+": write "+instead+" for "+word)
				}
			}
		}
	}
	return faults
}

func exportedNames(d ast.Decl) []string {
	var names []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil { // methods may have to satisfy interfaces, such as heap's Pop
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return !ast.IsExported(n) })
}

// words splits a camel-case name.
func words(name string) []string {
	var out []string
	start := 0
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			out, start = append(out, name[start:i]), i
		}
	}
	return append(out, name[start:])
}

// maxCommandLines keeps the files that define a command to options, one call and
// the choice of a rendering.
const maxCommandLines = 85

// fileFaults reports commands that grew logic and functions that grew too long.
func fileFaults(s source, fset *token.FileSet) []string {
	var faults []string
	for _, d := range s.file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || s.test {
			continue
		}
		if strings.HasSuffix(fn.Name.Name, "Cmd") && fset.File(fn.Pos()).LineCount() > maxCommandLines {
			faults = append(faults, "a command file of too many lines: its logic belongs into a package, its rendering into another file")
		}
		if n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; n > 100 {
			faults = append(faults, "func "+fn.Name.Name+" is over 100 lines")
		}
	}
	return faults
}
