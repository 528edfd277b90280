package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"strandline/internal/web"
)

func TestDashboardServesItselfAndMore(t *testing.T) {
	more := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "more") })
	for _, c := range []struct {
		more       http.Handler
		path, want string
		code       int
	}{
		{more, "/", "dashboard.js", http.StatusOK},
		{more, "/dashboard.js", "fetch(\"status\"", http.StatusOK},
		{more, "/dashboard.css", ".track", http.StatusOK},
		{more, "/report.html", "more", http.StatusOK},
		{nil, "/report.html", "not found", http.StatusNotFound},
	} {
		w := httptest.NewRecorder()
		web.Dashboard(c.more).ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %.60q, want %d with %q", c.path, w.Code, w.Body, c.code, c.want)
		}
	}
}
