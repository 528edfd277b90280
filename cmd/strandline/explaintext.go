package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"strandline/internal/daemon"
	"strandline/router"
)

// askExplain asks a running daemon.
func askExplain(ctx context.Context, admin, name, client string) (*daemon.Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin
	}
	query := url.Values{"name": {name}, "client": {client}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(admin, "/")+"/explain?"+query.Encode(), nil)
	if err != nil {
		return nil, usagef("--admin: %v", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("--admin %s: %w", admin, errors.Unwrap(err)) // without the query of url.Error
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, adminError(admin, resp, body)
	}
	var e daemon.Explanation
	return &e, json.Unmarshal(body, &e)
}

// adminError is what a daemon answered instead of an explanation; a question
// that makes no sense is the asker's fault.
func adminError(admin string, resp *http.Response, body []byte) error {
	var answer struct {
		Errors []string `json:"error"`
	}
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &answer) == nil && len(answer.Errors) > 0 {
		text = strings.Join(answer.Errors, "; ")
	}
	if resp.StatusCode == http.StatusBadRequest {
		return usagef("%s", text)
	}
	return fmt.Errorf("--admin %s: %s: %s", admin, resp.Status, text)
}

// renderExplanation prints the verdict first, then what it rests on.
func renderExplanation(a *app, e *daemon.Explanation) error {
	if a.format == "json" {
		return renderOne(a.stdout, e)
	}
	if a.format == "csv" {
		var records [][]any
		for _, r := range e.Regions {
			records = append(records, []any{r.Name, r.Share, r.PriceS, r.LatencyMS, r.CostMS, r.Down})
		}
		return renderCSV(a.stdout, "region,share,price_s,latency_ms,cost_ms,down", records...)
	}
	fmt.Fprintf(a.stdout, "%s for %s: region %s\n%s\n\n", e.Name, e.Client, e.Region, e.Why)
	if e.DNS != nil {
		fmt.Fprintf(a.stdout, "dns        %s %s, ttl %d s, scope /%d\n", e.DNS.Rcode, addrText(e.DNS.Addresses), e.DNS.TTLSecond, e.DNS.Scope)
	}
	matched := "no line of the client map: default frontend"
	if e.Matched.IsValid() {
		matched = e.Matched.String()
	}
	fmt.Fprintf(a.stdout, "matched    %s\nfrontend   %s\nepoch      %d\ncandidates %s\n\n", matched, e.Frontend, e.Epoch, strings.Join(e.Candidates, " "))
	return table(a.stdout, e.Regions, explainColumns())
}

func addrText(addrs []netip.Addr) string {
	var out []string
	for _, x := range addrs {
		out = append(out, x.String())
	}
	return strings.Join(out, " ")
}

func explainColumns() []column[router.ExplainedRegion] {
	return []column[router.ExplainedRegion]{
		{"region", func(r router.ExplainedRegion) string { return r.Name }},
		{">share", func(r router.ExplainedRegion) string { return fmt.Sprintf("%.1f%%", 100*r.Share) }},
		{">latency ms", func(r router.ExplainedRegion) string { return fmt.Sprintf("%.1f", r.LatencyMS) }},
		{">price s", func(r router.ExplainedRegion) string { return unlessDown(r, "%.4f", r.PriceS) }},
		{">cost ms", func(r router.ExplainedRegion) string { return unlessDown(r, "%.1f", r.CostMS) }},
		{"", func(r router.ExplainedRegion) string {
			if r.Down {
				return "down"
			}
			return ""
		}},
	}
}

// unlessDown hides the figures of a region that is down: it is priced as idle,
// which would make it look the best.
func unlessDown(r router.ExplainedRegion, format string, v float64) string {
	if r.Down {
		return "-"
	}
	return fmt.Sprintf(format, v)
}
