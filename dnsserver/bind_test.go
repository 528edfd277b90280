package dnsserver_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// BIND serves the same zone and is asked the same questions. Left out are loops of
// aliases, where BIND adds SERVFAIL to the chain, and addresses that it adds to
// answers about the apex's servers, which are optional.
func TestBINDAgrees(t *testing.T) {
	addr := startNamed(t, "example.org", exampleZone)
	s := compile(t, parsed(t, "example.org", exampleZone), nil, nil)
	client := dns.Client{Timeout: 2 * time.Second}
	asked := 0
	for _, name := range []string{
		"", "www.", "WWW.", "a.www.", "nx.", "ns1.", "ent.", "b.ent.", "c.b.ent.", "x.ent.", "wild.", "a.wild.", "*.wild.",
		"a.*.wild.", "c.b.a.wild.", "ent.wild.", "x.ent.wild.", "y.ent.wild.", "e.", "a.e.", "f.a.e.", "*.e.", "f.*.e.", "g.*.e.",
		"alias.", "alias2.", "dangling.", "outside.", "tocut.", "toapi.", "k.cwild.", "cwild.", "sub.", "ns.sub.",
		"a.b.sub.", "api.", "odd.", "mixed.case.", "case.",
	} {
		for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeNS, dns.TypeSOA, dns.TypeCNAME, dns.TypeTXT, dns.TypeMX, dns.TypeDS, 65280} {
			question := name + "example.org."
			m := new(dns.Msg).SetQuestion(question, typ)
			m.SetEdns0(1232, false)
			reply, _, err := client.Exchange(m, addr)
			if err != nil {
				t.Fatal(err)
			}
			if asked++; reply.Authoritative && len(reply.Ns) == 0 {
				reply.Extra = nil
			}
			a := ask(t, s, question+" "+dns.Type(typ).String(), "")
			got := fmt.Sprintf("%v aa=%v\n%s\n%s\n%s", a.Rcode, a.Authoritative, text(a.Answer), text(a.Authority), text(a.Additional))
			want := fmt.Sprintf("%s aa=%v\n%s\n%s\n%s", dns.RcodeToString[reply.Rcode], reply.Authoritative,
				rrText(t, reply.Answer), rrText(t, reply.Ns), rrText(t, reply.Extra))
			if !strings.EqualFold(got, want) {
				t.Errorf("%s %s: got\n%s\nBIND\n%s", question, dns.Type(typ), got, want)
			}
		}
	}
	t.Logf("%d questions", asked)
}

func rrText(t *testing.T, rrs []dns.RR) string {
	var lines strings.Builder
	for _, rr := range rrs {
		if rr.Header().Rrtype != dns.TypeOPT {
			lines.WriteString(rr.String() + "\n")
		}
	}
	return zoneText(t, lines.String())
}

// startNamed serves the zone with BIND on loopback until the test ends.
func startNamed(t *testing.T, zone, records string) (addr string) {
	t.Helper()
	named, err := exec.LookPath("named")
	if err != nil {
		t.Skip("BIND (named) is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // the port is free now; named has to bind it itself
	dir, port := t.TempDir(), l.Addr().(*net.TCPAddr).Port
	conf := fmt.Sprintf(`options { directory %q; listen-on port %d { 127.0.0.1; }; listen-on-v6 { none; };
recursion no; minimal-responses yes; notify no; pid-file none; session-keyfile none; dnssec-validation no; check-names primary ignore; zero-no-soa-ttl no; };
controls {};
zone %q { type primary; file "zone"; };
`, dir, port, zone)
	for file, content := range map[string]string{"named.conf": conf, "zone": records} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(named, "-g", "-n", "1", "-c", filepath.Join(dir, "named.conf"))
	log := new(strings.Builder)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Log(log)
		}
	})
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	client := dns.Client{Net: "tcp", Timeout: time.Second}
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(50 * time.Millisecond) {
		reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(zone+".", dns.TypeSOA), addr)
		if err == nil && reply.Rcode == dns.RcodeSuccess {
			return addr
		}
		if time.Now().After(deadline) {
			t.Fatalf("named does not answer: %v", err)
		}
	}
}
