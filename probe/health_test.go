package probe_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"strandline/probe"
)

func TestCheckHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/down":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/endless": // must not be read to its end, there is none
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		}
	}))
	defer server.Close()
	for path, want := range map[string]string{
		"/": "", "/empty": "", "/endless": "", "/down": "/down answered 503 Service Unavailable",
	} {
		err := probe.CheckHTTP(t.Context(), server.Client(), server.URL+path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := probe.CheckHTTP(ctx, server.Client(), server.URL); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v, want %v", err, context.Canceled)
	}
	server.Close()
	if err := probe.CheckHTTP(t.Context(), server.Client(), server.URL); err == nil {
		t.Error("closed server is healthy")
	}
}
