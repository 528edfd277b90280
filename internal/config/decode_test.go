package config_test

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"strandline/datasets"
	"strandline/internal/config"
)

type inner struct {
	Kind string   `yaml:"kind,required"`
	Mu   float64  `yaml:"mu"`
	Opt  *float64 `yaml:"opt"`
}

type lifted struct {
	Lat float64 `yaml:"lat"`
	Lon float64 `yaml:"lon"`
}

type sampleFile struct {
	Name   string            `yaml:"name,required"`
	Seed   uint64            `yaml:"seed"`
	Small  uint8             `yaml:"small"`
	Signed int               `yaml:"signed"`
	On     bool              `yaml:"on"`
	Wait   time.Duration     `yaml:"wait"`
	Addr   netip.Addr        `yaml:"addr"`
	Net    netip.Prefix      `yaml:"net"`
	Listen []netip.AddrPort  `yaml:"listen"`
	Matrix [][]*float64      `yaml:"matrix"`
	Labels map[string]string `yaml:"labels"`
	Inner  inner             `yaml:"inner"`
	Inners []inner           `yaml:"inners"`
	Maybe  *inner            `yaml:"maybe"`
	Hidden string            `yaml:"-"`
	Untag  string
	lifted `yaml:",inline"`
}

func (s *sampleFile) Validate() error {
	if s.Small == 13 {
		return errors.Join(
			&datasets.Problem{Key: "small", Msg: "is unlucky"},
			&datasets.Problem{Key: "inner.absent.deep[3]", Msg: "no such place"},
			errors.New("plain"))
	}
	return nil
}

const goodSample = `
name: "007"
seed: 0xff
small: 255
signed: -4
on: true
wait: 1m30s
addr: 2001:db8::1
net: 192.0.2.0/24
listen: [127.0.0.1:53, "[::1]:53"]
matrix: [[0.5, null], [1, 2e-3]]
labels: &l {a: x, b: "1"}
inner: &i {kind: k, mu: 3}
inners: [*i, {kind: z, opt: 4}]
lat: 50.5
`

func TestDecodeGood(t *testing.T) {
	got := sampleFile{Hidden: "kept", Untag: "default"}
	if err := config.Decode("f.yaml", []byte(goodSample), &got); err != nil {
		t.Fatal(err)
	}
	f := func(x float64) *float64 { return &x }
	want := sampleFile{
		Name: "007", Seed: 255, Small: 255, Signed: -4, On: true, Wait: 90 * time.Second,
		Addr: netip.MustParseAddr("2001:db8::1"), Net: netip.MustParsePrefix("192.0.2.0/24"),
		Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53"), netip.MustParseAddrPort("[::1]:53")},
		Matrix: [][]*float64{{f(0.5), nil}, {f(1), f(2e-3)}},
		Labels: map[string]string{"a": "x", "b": "1"},
		Inner:  inner{Kind: "k", Mu: 3}, Inners: []inner{{Kind: "k", Mu: 3}, {Kind: "z", Opt: f(4)}},
		Hidden: "kept", Untag: "default", lifted: lifted{Lat: 50.5},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDecodeProblems(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	var bomb strings.Builder
	bomb.WriteString("name: a\nlabels: {a: b}\n")
	for i := range 9 {
		item := fmt.Sprintf("*a%d", i-1)
		if i == 0 {
			item = "{kind: z}"
		}
		bomb.WriteString(fmt.Sprintf("x%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(item+", ", 10), ", ")))
	}
	bomb.WriteString("inners: *a8\n")
	for name, c := range map[string]struct{ src, want string }{
		"empty":                   {"", "f.yaml:1: is empty; see `strandline config example`"},
		"comment only":            {"# nothing\n", "f.yaml:1: is empty; see `strandline config example`"},
		"two documents":           {"name: a\n---\nname: b\n", "f.yaml:2:1: is a second YAML document; keep one document per file"},
		"list at the top":         {"[1]", "f.yaml:1:1: is a list, want a mapping of keys to values; write a mapping of keys to values"},
		"unknown":                 {"name: a\nsede: 1\n", "f.yaml:2:1: sede: unknown key; did you mean seed?"},
		"unknown far":             {"name: a\ninner: {kind: a, whatever: 1}\n", "f.yaml:2:18: inner.whatever: unknown key; the keys here are kind, mu, opt"},
		"twice":                   {"name: a\nseed: 1\nseed: 2\n", "f.yaml:3:1: seed: is given twice, first on line 2; keep one"},
		"missing":                 {"seed: 1\n", "f.yaml:1:1: name: is missing; add `name: text`"},
		"missing inside":          {"name: a\ninners:\n  - {kind: a}\n  - mu: 4\n", "f.yaml:4:5: inners[1].kind: is missing; add `kind: text`"},
		"number as text":          {"name: 1.10\n", `f.yaml:1:7: name: is the number 1.10, want text; put quotes around it: "1.10"`},
		"date as text":            {"name: 2026-01-01\n", `f.yaml:1:7: name: is "2026-01-01", want text; put quotes around it: "2026-01-01"`},
		"text as number":          {"name: a\nseed: many\n", `f.yaml:2:7: seed: is "many", want a whole number from 0 up; write a whole number from 0 up`},
		"octal":                   {"name: a\nseed: 010\n", `f.yaml:2:7: seed: is the number 010, want a whole number from 0 up; write a whole number from 0 up`},
		"negative":                {"name: a\nseed: -1\n", `f.yaml:2:7: seed: is -1, out of range; write a whole number from 0 up`},
		"too big":                 {"name: a\nsmall: 256\n", `f.yaml:2:8: small: is 256, out of range; write a whole number from 0 to 255`},
		"fraction":                {"name: a\nsigned: 1.5\n", `f.yaml:2:9: signed: is the number 1.5, want a whole number; write a whole number`},
		"infinite":                {"name: a\nlat: .inf\n", `f.yaml:2:6: lat: is .inf, want a finite number; write a finite number such as 12.5`},
		"nan":                     {"name: a\nlat: .NaN\n", `f.yaml:2:6: lat: is .NaN, want a finite number; write a finite number such as 12.5`},
		"yes":                     {"name: a\non: yes\n", `f.yaml:2:5: on: is "yes", want true or false; write true or false`},
		"no unit":                 {"name: a\nwait: 20\n", `f.yaml:2:7: wait: is 20 without a unit; write 20s or 20ms`},
		"no duration":             {"name: a\nwait: soon\n", `f.yaml:2:7: wait: is "soon", want a duration; write it like 20s, 1m30s or 250ms`},
		"bad address":             {"name: a\naddr: 192.0.2.300\n", `f.yaml:2:7: addr: is "192.0.2.300", want an IP address; write it like 192.0.2.10 or 2001:db8::10`},
		"empty address":           {"name: a\naddr: \"\"\n", `f.yaml:2:7: addr: is "", want an IP address; write it like 192.0.2.10 or 2001:db8::10`},
		"bad prefix":              {"name: a\nnet: 192.0.2.0\n", `f.yaml:2:6: net: is "192.0.2.0", want an IP prefix; write it like 192.0.2.0/24 or 2001:db8::/48`},
		"no port":                 {"name: a\nlisten: [127.0.0.1]\n", `f.yaml:2:10: listen[0]: is "127.0.0.1", want an IP address and port; write it like 127.0.0.1:5300 or [::1]:5300`},
		"scalar for list":         {"name: a\nlisten: 127.0.0.1:1\n", `f.yaml:2:9: listen: is "127.0.0.1:1", want a list; put it in brackets: [127.0.0.1:1]`},
		"mapping for text":        {"name: {a: b}\n", `f.yaml:1:7: name: is a mapping, want text; write text`},
		"empty value":             {"name:\nseed: 1\n", `f.yaml:1:6: name: has no value, want text; give it a value or remove the key`},
		"own tag":                 {"name: !secret a\n", `f.yaml:1:7: name: has the tag !secret, and tags mean nothing here; remove the tag`},
		"merge":                   {"name: a\ninner: &i {kind: a}\nmaybe: {<<: *i}\n", "f.yaml:3:8: maybe.kind: is missing; add `kind: text`\nf.yaml:3:9: maybe.<<: merge keys are not accepted; repeat the keys, or use an alias for the whole value"},
		"section without content": {"name: a\ninner: {kind: a}\nmaybe:\n", "f.yaml:3:7: maybe: has no value, want a mapping of keys to values; give it a value or remove the key"},
		"key not text":            {"name: a\nlabels: {[a]: b}\n", `f.yaml:2:10: labels: has a key that is not text; write a plain word before the colon`},
		"self":                    {"name: a\nmatrix: &m [*m]\n", `aliases repeat more than 10000 values; write the values out; an alias must not contain itself`},
		"deep":                    {"name: a\nmatrix: " + deep, `want a number`},
		"bomb":                    {bomb.String(), "inners: aliases repeat more than 10000 values; write the values out"},
		"undefined alias":         {"name: b\nlabels: *nope\n", "f.yaml:2: is not YAML: unknown anchor 'nope' referenced"},
		"syntax":                  {"name: a\nlabels: {a: b\n", "f.yaml:2: is not YAML: did not find expected ',' or '}'; check"},
		"first line":              {"{a: b", "f.yaml:1: is not YAML: did not find expected ',' or '}'; check"},
		"latin1":                  {"name: a\n# caf\xe9\n", "f.yaml:2:6: holds the byte 0xe9, which is not text; save the file as plain UTF-8"},
		"nul":                     {"name: a\x00\n", "f.yaml:1:8: holds the byte 0x00, which is not text; save the file as plain UTF-8"},
		"tab":                     {"name: a\ninner:\n\tkind: a\n", "f.yaml:3: is not YAML: "},
		"validate":                {"name: a\ninner: {kind: q}\nsmall: 13\n", "f.yaml:1:1: plain\nf.yaml:2:8: inner.absent.deep[3]: no such place\nf.yaml:3:8: small: is unlucky"},
		"no echo":                 {"name: a\ninner: {kind: 7}\nsmall: 13\n", "f.yaml:2:15: inner.kind: is the number 7, want text; put quotes around it: \"7\"\nf.yaml:3:8: small: is unlucky"},
	} {
		t.Run(name, func(t *testing.T) {
			var v sampleFile
			err := config.Decode("f.yaml", []byte(c.src), &v)
			if err == nil {
				t.Fatalf("decoded to %+v, want an error", v)
			}
			if got := err.Error(); !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestDecodeAllAtOnce: one run reports every fault, in the order of the file.
func TestDecodeAllAtOnce(t *testing.T) {
	src := "sede: 1\nwait: 5\nsmall: 999\ninners: [{mu: x}, 7]\nlisten: [1, 2]\n"
	var v sampleFile
	err := config.Decode("f.yaml", []byte(src), &v)
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("got %T %v, want joined problems", err, err)
	}
	var keys []string
	for _, e := range joined.Unwrap() {
		p, ok := errors.AsType[*datasets.Problem](e)
		if !ok || p.File != "f.yaml" || p.Line == 0 || p.Column == 0 || p.Fix == "" {
			t.Errorf("%#v lacks a part", e)
			continue
		}
		keys = append(keys, p.Key)
	}
	got, want := strings.Join(keys, " "), "sede name wait small inners[0].kind inners[0].mu inners[1] listen[0] listen[1]"
	if got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
}

func TestDecodeSizeLimit(t *testing.T) {
	var v sampleFile
	err := config.Decode("f.yaml", []byte("name: "+strings.Repeat("a", 9<<20)), &v)
	if err == nil || !strings.Contains(err.Error(), "has more than 8388608 bytes") {
		t.Errorf("got %v, want the size limit", err)
	}
}

// FuzzDecode: no input panics, and an error always carries the file.
func FuzzDecode(f *testing.F) {
	f.Add(goodSample)
	f.Add("name: a\nmatrix: &m [*m]\n")
	f.Add("name: {<<: [a]}\n")
	f.Add("a: !!binary x\n? [b]\n: c\n")
	f.Fuzz(func(t *testing.T, src string) {
		var v sampleFile
		if err := config.Decode("f.yaml", []byte(src), &v); err != nil && !strings.Contains(err.Error(), "f.yaml") {
			t.Errorf("error without a file: %v", err)
		}
	})
}
