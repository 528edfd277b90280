package config_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"strandline/datasets"
	"strandline/internal/config"
	"strandline/internal/simnet"
	"strandline/router"
)

func TestLoadFull(t *testing.T) {
	c, err := config.Load("testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.DNS.Steer[0], (config.Steer{Name: "api.example.org", TTL: 90 * time.Second, Service: "chat", AllDown: "nodata"}); got != want {
		t.Errorf("steer %+v, want %+v", got, want)
	}
	wantChecks := []config.Check{
		{Service: "chat", Region: "a", URL: "https://a.internal:8443/base/health?deep=1", Interval: 10 * time.Second, Timeout: time.Second, Rise: 1, Fall: 5},
		{Service: "chat", Region: "b", URL: "http://192.0.2.21:9000/up", Interval: 5 * time.Second, Timeout: 2 * time.Second, Rise: 2, Fall: 3},
	}
	if got := c.Checks(); !slices.Equal(got, wantChecks) {
		t.Errorf("checks %+v, want %+v", got, wantChecks)
	}
	wantClients := []router.Client{
		{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Frontend: "fra"},
		{Prefix: netip.MustParsePrefix("2001:db8:a::/48"), Frontend: "nyc"},
		{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Frontend: "nyc"},
	}
	if !slices.Equal(c.Clients, wantClients) {
		t.Errorf("clients %v, want %v", c.Clients, wantClients)
	}
	steers := c.Steers()
	if len(steers) != 1 || len(steers[0].Regions) != 2 || steers[0].Regions[0].Addrs[1] != netip.MustParseAddr("2001:db8::10") {
		t.Errorf("steers %+v", steers)
	}
	p := c.Proxy()
	if len(p.Backends) != 2 || p.Backends[0].URL.String() != "https://a.internal:8443/base/" || p.Frontend != "nyc" {
		t.Errorf("proxy %+v", p)
	}
	if c.World.Frontends[0].RateHz != 12 || *c.World.Latency.Matrix[1][1] != 8.5 || c.World.Latency.Matrix[1][0] != nil {
		t.Errorf("world %+v", c.World)
	}
}

// TestDefaults: keys that are not there have the documented values.
func TestDefaults(t *testing.T) {
	c, err := config.Load("testdata/good/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Admin.Listen, netip.MustParseAddrPort("127.0.0.1:9099"); got != want || config.Default().Admin.Listen != want {
		t.Errorf("admin %v, want %v", got, want)
	}
	if c.HTTP != nil || c.StateDir != "" || len(c.Checks()) != 0 || len(c.Steers()) != 0 {
		t.Errorf("%+v has what nobody asked for", c)
	}
	src, err := config.Example("http")
	if err != nil {
		t.Fatal(err)
	}
	if c, err = config.Parse("x.yaml", []byte(src)); err != nil {
		t.Fatal(err)
	}
	if got, want := *c.Services[0].Regions[1].Health, (config.Health{HTTP: "/health", Interval: 5 * time.Second, Timeout: 2 * time.Second, Rise: 2, Fall: 3}); got != want {
		t.Errorf("health %+v, want %+v", got, want)
	}
	if got := c.HTTP.KeepAlive; got != 4*time.Second {
		t.Errorf("keep alive %v, want 4s", got)
	}
}

// TestShow: what is shown is read back to the same configuration.
func TestShow(t *testing.T) {
	texts := map[string]string{}
	for _, kind := range config.ExampleKinds() {
		src, err := config.Example(kind)
		if err != nil {
			t.Fatal(err)
		}
		texts[kind] = src
	}
	for _, name := range []string{"full", "minimal"} {
		src, err := os.ReadFile("testdata/good/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(src)
	}
	for name, src := range texts {
		t.Run(name, func(t *testing.T) {
			first, err := config.Parse("testdata/good/full.yaml", []byte(src))
			if err != nil {
				t.Fatal(err)
			}
			shown, err := first.Show()
			if err != nil {
				t.Fatal(err)
			}
			second, err := config.Parse("testdata/good/full.yaml", []byte(shown))
			if err != nil {
				t.Fatalf("%v\n%s", err, shown)
			}
			for i := range first.Zones { // the same records may stand on other lines
				if first.Zones[i].Records() != second.Zones[i].Records() {
					t.Errorf("zone %d has %d records, want %d", i, second.Zones[i].Records(), first.Zones[i].Records())
				}
			}
			first.Zones, second.Zones = nil, nil
			if !reflect.DeepEqual(first, second) {
				t.Errorf("shown as\n%s\nread back as %+v\nwant %+v", shown, second, first)
			}
		})
	}
}

// TestExamples: each example loads from an empty directory, where nothing lies
// that it could lean on.
func TestExamples(t *testing.T) {
	for _, kind := range config.ExampleKinds() {
		src, err := config.Example(kind)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "strandline.yaml")
		if err := os.WriteFile(file, []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(file)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if dns, http := c.DNS != nil, c.HTTP != nil; dns != (kind != "http") || http != (kind != "dns") {
			t.Errorf("%s: dns %v, http %v", kind, dns, http)
		}
	}
	if _, err := config.Example("nonsense"); err == nil || !strings.Contains(err.Error(), "dns, http, all") {
		t.Errorf("got %v, want the kinds", err)
	}
}

func TestLoadWorldAndRegions(t *testing.T) {
	w, err := config.LoadWorld("testdata/good/world.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if w.Objective.Shed == nil || w.Objective.Shed.PriceS != 20 || w.Latency.Kind != router.KindRTT {
		t.Errorf("world %+v", w)
	}
	checkWorldRoundTrip(t, w)
	w, err = config.LoadWorld("testdata/good/world-classes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checkWorldRoundTrip(t, w)
	if c := w.Classes[1]; c.Work["a"] != 1.5 || c.Rates["nyc"] != 30 || c.Shed.PriceS != 10 || w.Regions[0].Service.Points[1].RateHz != 20 {
		t.Errorf("world %+v", w)
	}
	r, err := config.LoadRegions("testdata/good/regions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Regions) != 2 || r.Regions[1].Service.Kappa != 10 || r.Frontends[0].RateHz != 12 || r.Objective.Shed.PriceS != 20 {
		t.Errorf("regions %+v", r)
	}
}

func checkWorldRoundTrip(t *testing.T, w *router.World) {
	t.Helper()
	text, err := config.EncodeWorld(w)
	if err != nil {
		t.Fatal(err)
	}
	var back router.World
	if err := config.Decode("w.yaml", []byte(text), &back); err != nil || !reflect.DeepEqual(*w, back) {
		t.Errorf("%v: %s\nread back as %+v, want %+v", err, text, back, *w)
	}
}

func TestLoadSim(t *testing.T) {
	for _, name := range append(config.SimNames(), "testdata/good/sim.yaml") {
		spec, fsys, err := config.LoadSim(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := simnet.Build(spec, fsys); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !slices.Contains(config.SimNames(), "earth") {
		t.Errorf("built in: %v, want earth among them", config.SimNames())
	}
	if _, _, err := config.LoadSim("atlantis"); err == nil || !strings.Contains(err.Error(), "or one of earth") {
		t.Errorf("got %v, want the names of what is built in", err)
	}
	spec, _, err := config.LoadSim("testdata/good/sim.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if spec.Links[1].Jitter != time.Millisecond || spec.Fibre.Floor != 50*time.Microsecond || spec.Nodes[0].Labels["frontend"] != "fra" {
		t.Errorf("spec %+v", spec)
	}
}

// TestMeasuredLatency: router.latency puts a data set's rows into the world.
func TestMeasuredLatency(t *testing.T) {
	dir := t.TempDir()
	set := filepath.Join(dir, "measured")
	w, err := datasets.Create(set, datasets.Manifest{Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var rows []datasets.Latency
	for _, p := range []struct {
		frontend, region string
		ms               float64
	}{{"fra", "a", 30}, {"fra", "b", 40}, {"nyc", "b", 50}} {
		rows = append(rows, datasets.Latency{Vantage: p.frontend, Frontend: p.frontend, Region: p.region, Target: netip.MustParseAddr("192.0.2.1"),
			Proto: datasets.ProtoICMP, Sent: 1, Received: 1, MinMS: datasets.Millis(p.ms), P50MS: datasets.Millis(p.ms),
			P50LoMS: datasets.Millis(p.ms), P50HiMS: datasets.Millis(p.ms), P99MS: datasets.Millis(p.ms), MeanMS: datasets.Millis(p.ms), JitterMS: 0,
			Confidence: 95, Stamp: datasets.StampSim})
	}
	if err := datasets.Append(w, rows...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	world, err := os.ReadFile("testdata/good/world.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "world.yaml"), world, 0o644); err != nil {
		t.Fatal(err)
	}
	src := "dns:\n  listen: [127.0.0.1:0]\n  zones: [{name: example.org, records: \"@ 1 SOA a b 1 2 3 4 5\\n@ 1 NS ns.example.com.\\n\"}]\n" +
		"router: {world: world.yaml, latency: measured, default_frontend: fra}\n"
	c, err := config.Parse(filepath.Join(dir, "c.yaml"), []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	ms, ok := c.World.OneWayS(0, 0)
	if !ok || ms != 0.015 {
		t.Errorf("one way %v %v, want 0.015 s: half of the measured 30 ms", ms, ok)
	}
	if c.World.Objective.Shed == nil || c.World.Regions[0].Service.Mu != 20 {
		t.Errorf("the rest of the world is lost: %+v", c.World)
	}
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "nyc to region a") {
		t.Errorf("notes %v, want the one missing pair", c.Notes)
	}
}

// TestRelativeNames: names in a configuration start from its own directory.
func TestRelativeNames(t *testing.T) {
	good, err := filepath.Abs("testdata/good")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if _, err := config.Load("nowhere.yaml"); err == nil || !strings.Contains(err.Error(), "nowhere.yaml") {
		t.Errorf("got %v, want the name of the file", err)
	}
	if err := os.CopyFS("sub", os.DirFS(good)); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load("sub/full.yaml"); err != nil {
		t.Error(err)
	}
}

// FuzzParse: no text panics, and what is accepted can be shown and read again.
func FuzzParse(f *testing.F) {
	for _, kind := range config.ExampleKinds() {
		src, err := config.Example(kind)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add("dns: {listen: [127.0.0.1:1], zones: [{name: a, records: \"@ 1 NS b\"}]}\nrouter: {world: {}, default_frontend: x}\n")
	f.Fuzz(func(t *testing.T, src string) {
		if strings.Contains(src, "/dev") || strings.Contains(src, "/proc") {
			t.Skip("names a file without an end")
		}
		c, err := config.Parse("fuzz.yaml", []byte(src))
		if err != nil {
			return
		}
		shown, err := c.Show()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := config.Parse("fuzz.yaml", []byte(shown)); err != nil {
			t.Errorf("%v\nshown as\n%s", err, shown)
		}
	})
}
