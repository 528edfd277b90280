package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// answer is what the DNS server said to one client prefix.
type answer struct {
	addrs []netip.Addr
	scope int
}

// askDNS sends a real query with a client-subnet option (RFC 7871) to a server.
func askDNS(ctx context.Context, server netip.AddrPort, name string, client netip.Prefix) (answer, error) {
	query, err := subnetQuery(name, client)
	if err != nil {
		return answer{}, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", server.String())
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return answer{}, err
	}
	if _, err := conn.Write(query); err != nil {
		return answer{}, err
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err != nil {
		return answer{}, err
	}
	return readAnswer(buf[:n])
}

const ecsOption = 8

// subnetQuery builds the query: type A, EDNS, an IPv4 client subnet.
func subnetQuery(name string, client netip.Prefix) ([]byte, error) {
	q, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return nil, err
	}
	addr := client.Addr().As4()
	ecs := append([]byte{0, 1, byte(client.Bits()), 0}, addr[:(client.Bits()+7)/8]...)
	var edns dnsmessage.ResourceHeader
	if err := edns.SetEDNS0(1232, dnsmessage.RCodeSuccess, false); err != nil {
		return nil, err
	}
	m := dnsmessage.Message{
		Header:      dnsmessage.Header{ID: 1},
		Questions:   []dnsmessage.Question{{Name: q, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
		Additionals: []dnsmessage.Resource{{Header: edns, Body: &dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: ecsOption, Data: ecs}}}}},
	}
	return m.Pack()
}

// readAnswer takes the addresses and the ECS scope out of a response.
func readAnswer(b []byte) (answer, error) {
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		return answer{}, err
	}
	if m.RCode != dnsmessage.RCodeSuccess {
		return answer{}, fmt.Errorf("DNS answered %v", m.RCode)
	}
	var out answer
	for _, r := range m.Answers {
		if a, ok := r.Body.(*dnsmessage.AResource); ok {
			out.addrs = append(out.addrs, netip.AddrFrom4(a.A))
		}
	}
	for _, r := range m.Additionals {
		if opt, ok := r.Body.(*dnsmessage.OPTResource); ok {
			for _, o := range opt.Options {
				if o.Code == ecsOption && len(o.Data) >= 4 {
					out.scope = int(o.Data[3])
				}
			}
		}
	}
	if len(out.addrs) == 0 {
		return out, fmt.Errorf("DNS answered without an address")
	}
	return out, nil
}

// askHTTP sends a streaming chat completion and returns the region that served
// it and how many chunks arrived.
func askHTTP(ctx context.Context, router netip.AddrPort) (region string, chunks int, err error) {
	body := `{"model":"sim","stream":true,"max_tokens":4,"messages":[{"role":"user","content":"hello"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+router.String()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return "", 0, fmt.Errorf("HTTP router: %s: %s", resp.Status, text)
	}
	return resp.Header.Get("X-Strandline-Region"), strings.Count(string(text), "data: {"), nil
}

// askAdmin reads a JSON page of the daemon's admin listener.
func askAdmin(ctx context.Context, admin netip.AddrPort, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin.String()+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}
