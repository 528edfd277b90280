package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// healthBody is how much of a health check's answer is read: enough to use the
// connection again in the usual case, too little for a hostile server to hurt.
const healthBody = 4096

// CheckHTTP asks url once and returns nil when the answer is 2xx. The time limit
// is that of ctx. Redirects are the client's affair.
func CheckHTTP(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "strandline health check")
	resp, err := client.Do(req)
	if err != nil {
		return err // it names method and URL
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	if _, err := io.CopyN(io.Discard, resp.Body, healthBody); err != nil && err != io.EOF {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}
