package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
)

// ServeHTTP passes r to a region and the answer to w.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.enter()
	defer p.leave()
	s := p.current.Load()
	switch {
	case s == nil:
		p.refuse(w, failNoTable)
		return
	case r.Method == http.MethodConnect:
		p.refuse(w, failMethod)
		return
	case r.ContentLength > p.maxBodyBytes:
		p.refuse(w, failTooLarge)
		return
	case p.shedNow(s.shed):
		p.refuse(w, failShed)
		return
	}
	x := exchange{p: p, s: s, in: r, hash: p.hash(r)}
	b := s.choose(x.hash)
	if b == nil {
		p.refuse(w, failNoRegion)
		return
	}
	x.send(w, b)
}

// exchange is one request on its way through. It belongs to the goroutine of
// ServeHTTP; the transport's goroutines touch body only.
type exchange struct {
	p      *Proxy
	s      *snapshot
	in     *http.Request
	hash   uint64
	to     *backend
	body   *clientBody // nil where the request has none
	answer *regionBody // nil before there is one
	cancel context.CancelCauseFunc
}

// send passes the request to b, or to another region if b cannot be reached.
func (x *exchange) send(w http.ResponseWriter, b *backend) {
	ctx, cancel := context.WithCancelCause(x.in.Context())
	defer cancel(nil)
	x.cancel = cancel
	x.goTo(b)
	defer x.finish()

	r := x.in.WithContext(ctx)
	if r.ContentLength != 0 {
		x.body = &clientBody{ReadCloser: http.MaxBytesReader(w, r.Body, x.p.maxBodyBytes), left: r.ContentLength}
		r.Body = x.body
	}
	pass := httputil.ReverseProxy{
		Rewrite:        x.rewrite,
		Transport:      x,
		FlushInterval:  -1,
		ModifyResponse: x.answered,
		ErrorHandler:   x.failed,
		BufferPool:     &x.p.buffers,
		ErrorLog:       x.p.errorLog,
	}
	pass.ServeHTTP(w, r)
}

// goTo counts the request at b, at the moment of decision: the next request must
// see it.
func (x *exchange) goTo(b *backend) {
	if x.to != nil {
		x.to.inFlight.Add(-1)
		x.to.rerouted.Add(1)
	}
	x.to = b
	b.inFlight.Add(1)
	b.requests.Add(1)
}

// rewrite finishes the header of the outbound request. The forwarding fields of
// the client are not trusted and have been dropped before.
func (x *exchange) rewrite(r *httputil.ProxyRequest) {
	r.SetXForwarded()
	via := strings.TrimPrefix(r.In.Proto, "HTTP/") + " strandline" // RFC 9110, section 7.6.3
	if before := r.In.Header["Via"]; len(before) > 0 {
		via = strings.Join(before, ", ") + ", " + via
	}
	r.Out.Header.Set("Via", via)
	// The server fills this map in at the end of the body; the copy that
	// ReverseProxy made would stay empty.
	r.Out.Trailer = r.In.Trailer
}

// RoundTrip asks the chosen region, and one other if no connection to the first
// came about. It is for httputil.ReverseProxy.
func (x *exchange) RoundTrip(out *http.Request) (*http.Response, error) {
	res, connected, err := x.attempt(out)
	if err == nil || connected || x.body.touched() || out.Context().Err() != nil {
		return res, err
	}
	other := x.s.instead(x.hash, x.to)
	if other == nil {
		return nil, &connectError{err}
	}
	x.p.log.Warn("region cannot be connected to, asking another",
		"region", x.to.region, "instead", other.region, "epoch", x.s.epoch, "error", err)
	x.to.failed.Add(1)
	x.goTo(other)
	if res, connected, err = x.attempt(out); err != nil && !connected {
		err = &connectError{err}
	}
	return res, err
}

// attempt asks the region that x is at, and reports whether there was a
// connection to it.
func (x *exchange) attempt(out *http.Request) (res *http.Response, connected bool, err error) {
	trace := &httptrace.ClientTrace{
		// The transport itself tries again where a kept connection turns out dead.
		GetConn: func(string) { connected = false },
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	}
	req := out.WithContext(httptrace.WithClientTrace(out.Context(), trace))
	req.URL, req.Host = x.to.target(x.in), ""
	if out.Body != nil {
		req.Body = io.NopCloser(out.Body) // a failed attempt closes the body, which the next one needs
	}
	res, err = x.p.transport.RoundTrip(req)
	return res, connected, err
}

// target is the URL at the backend for the request r: the target that the client
// sent, byte for byte, behind the path of the backend.
func (b *backend) target(r *http.Request) *url.URL {
	u := *b.url
	path, query, asked := strings.Cut(r.RequestURI, "?")
	u.RawQuery, u.ForceQuery = query, asked
	if whole := b.base + path; strings.HasPrefix(path, "/") && !strings.HasPrefix(whole, "//") {
		u.Opaque = whole // sent as it is
		return &u
	}
	// The absolute form, or two slashes, which Opaque would turn into a host.
	u.Path, u.RawPath = strings.TrimSuffix(b.url.Path, "/")+r.URL.Path, b.base+r.URL.EscapedPath()
	return &u
}

// answered names the region in the response and guards its body.
func (x *exchange) answered(res *http.Response) error {
	x.stamp(res.Header)
	if res.StatusCode == http.StatusSwitchingProtocols {
		return nil // the body is the connection, which may be silent
	}
	x.endConnection(res.Header)
	x.answer = newRegionBody(res.Body, x.p.chunkTimeout, x.cancel)
	res.Body = x.answer
	return nil
}

// finish counts how the exchange ended. A body that was not read to its end
// either broke off or was given up because the client had left.
func (x *exchange) finish() {
	x.to.inFlight.Add(-1)
	switch {
	case x.answer == nil || x.answer.err == io.EOF:
	case x.answer.err != nil && x.in.Context().Err() == nil:
		x.to.broken.Add(1)
		x.p.log.Warn("response broke off", "region", x.to.region, "epoch", x.s.epoch,
			"path", x.in.URL.Path, "error", x.answer.err)
	default:
		x.to.cancelled.Add(1)
	}
}

// stamp names region and table in the header of an answer.
func (x *exchange) stamp(h http.Header) {
	h.Set(HeaderRegion, x.to.region)
	h.Set(HeaderEpoch, x.s.epoch)
}

// endConnection makes an answer the last one on the connection of an HTTP/1 client
// that is still sending, for two reasons. Nobody knows where the next request
// would begin, the more so if the body was nonsense. And a server that means to
// keep the connection first takes up to 256 KiB of the body for itself, so the
// backend would get a body with a hole.
func (x *exchange) endConnection(h http.Header) {
	if x.in.ProtoMajor == 1 && !x.body.ended() {
		h.Set("Connection", "close")
	}
}

// failed answers a request that no response came for.
func (x *exchange) failed(w http.ResponseWriter, out *http.Request, err error) {
	f := x.classify(err)
	if f == failCancelled {
		x.to.cancelled.Add(1)
	} else {
		x.to.failed.Add(1)
		x.p.log.Warn("request failed", "region", x.to.region, "epoch", x.s.epoch,
			"method", x.in.Method, "path", x.in.URL.Path, "code", string(f), "error", err)
	}
	x.stamp(w.Header())
	x.endConnection(w.Header())
	f.write(w)
}

// connectError marks the failure of an attempt that had no connection.
type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

// classify maps an error of the transport to what the client is told.
func (x *exchange) classify(err error) failure {
	var timeout interface{ Timeout() bool }
	late := errors.As(err, &timeout) && timeout.Timeout()
	_, large := errors.AsType[*http.MaxBytesError](err)
	_, unconnected := errors.AsType[*connectError](err)
	switch {
	case large:
		return failTooLarge
	case x.in.Context().Err() != nil:
		return failCancelled
	case x.body.broken():
		return failUnreadable
	case unconnected && late:
		return failConnectTimeout
	case unconnected:
		return failConnect
	case late:
		return failFirstByteTimeout
	}
	return failBackend
}
