package web

import (
	"embed"
	"net/http"
)

//go:embed dashboard.html dashboard.css dashboard.js
var dashboard embed.FS

// Dashboard is the live page of a daemon: it draws what /status says, which must
// be served beside it. Other paths go to more, which may be nil.
func Dashboard(more http.Handler) http.Handler {
	mux := http.NewServeMux()
	page := func(w http.ResponseWriter, r *http.Request, name string) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'")
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, dashboard, name)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { page(w, r, "dashboard.html") })
	for _, name := range []string{"dashboard.css", "dashboard.js"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { page(w, r, name) })
	}
	if more != nil {
		mux.Handle("GET /", more)
	}
	return mux
}
