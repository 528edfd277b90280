package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The headers of the proxy's own.
const (
	HeaderSession = "X-Strandline-Session" // request: requests of one value stay in one region
	HeaderRegion  = "X-Strandline-Region"  // response: who answered
	HeaderEpoch   = "X-Strandline-Epoch"   // response: by which table
)

// Backend is where the requests of a region go. The path of URL, if any, is put
// before the path of each request.
type Backend struct {
	Region string
	URL    *url.URL // http or https, without query and fragment
}

// Options says how a Proxy works. Frontend and Backends must be set; for the
// numbers zero is the default and, for the time limits, negative is no limit.
type Options struct {
	Frontend string // which frontend of the table this proxy is
	Backends []Backend

	// Seed starts the random draws. Proxies that serve one frontend should differ in it.
	Seed uint64

	MaxBodyBytes int64 // of a request; default 64 MiB

	ConnectTimeout   time.Duration // TCP, and again TLS; default 3 s
	FirstByteTimeout time.Duration // from the end of the request to the response's header; default 10 min, as OpenAI's clients wait
	ChunkTimeout     time.Duration // longest silence within a response; default 5 min

	// KeepAlive is how long an idle connection to a backend is kept. The default
	// of 4 s is below the 5 s after which uvicorn, hence vLLM, closes its end: a
	// request that crosses with the close is lost.
	KeepAlive time.Duration

	TLS    *tls.Config  // for https backends; nil = the system's roots
	Logger *slog.Logger // failures; nil = none
}

const (
	defaultMaxBodyBytes     = 64 << 20
	defaultConnectTimeout   = 3 * time.Second
	defaultFirstByteTimeout = 10 * time.Minute
	defaultChunkTimeout     = 5 * time.Minute
	defaultKeepAlive        = 4 * time.Second

	// maxIdlePerBackend covers the streams of a busy region, so that a burst does
	// not end in as many new connections.
	maxIdlePerBackend = 1024
)

// limit is a time limit of Options as net/http wants it: 0 = none.
func limit(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return max(d, 0)
}

// Proxy is an http.Handler for one frontend. It must see the request as it
// came: do not put an http.ServeMux before it, which redirects paths that it
// would write otherwise. It is safe for concurrent use.
type Proxy struct {
	frontend     string
	backends     map[string]*backend
	maxBodyBytes int64
	chunkTimeout time.Duration
	transport    *http.Transport
	log          *slog.Logger
	errorLog     *log.Logger // for ReverseProxy

	current  atomic.Pointer[snapshot]
	draw     atomic.Uint64 // state of the random sequence
	refused  atomic.Uint64
	inFlight atomic.Int64
	idle     chan struct{} // holds a token after inFlight fell to 0
	buffers  bufferPool
}

// backend is a Backend with its counters.
type backend struct {
	region string
	url    *url.URL
	base   string // path of url, escaped, without the last slash
	counters
}

// New returns a proxy that answers 503 until the first Publish. The error names
// every bad backend.
func New(opts Options) (*Proxy, error) {
	p := &Proxy{
		frontend:     opts.Frontend,
		backends:     make(map[string]*backend, len(opts.Backends)),
		maxBodyBytes: opts.MaxBodyBytes,
		chunkTimeout: limit(opts.ChunkTimeout, defaultChunkTimeout),
		transport:    newTransport(&opts),
		log:          opts.Logger,
		idle:         make(chan struct{}, 1),
	}
	if p.maxBodyBytes == 0 {
		p.maxBodyBytes = defaultMaxBodyBytes
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.errorLog = slog.NewLogLogger(p.log.Handler(), slog.LevelDebug)
	p.draw.Store(opts.Seed)
	var errs []error
	for _, b := range opts.Backends {
		errs = append(errs, p.addBackend(b))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return p, nil
}

func (p *Proxy) addBackend(b Backend) error {
	switch {
	case b.Region == "":
		return errors.New("backend without a region")
	case p.backends[b.Region] != nil:
		return fmt.Errorf("region %q has two backends", b.Region)
	case b.URL == nil || b.URL.Host == "" || b.URL.Scheme != "http" && b.URL.Scheme != "https":
		return fmt.Errorf("region %q: backend %v is not an http or https URL with a host", b.Region, b.URL)
	case b.URL.RawQuery != "" || b.URL.Fragment != "" || b.URL.User != nil:
		return fmt.Errorf("region %q: backend %v has a query, a fragment or a user; give scheme, host and path only", b.Region, b.URL.Redacted())
	}
	u := *b.URL
	p.backends[b.Region] = &backend{region: b.Region, url: &u, base: strings.TrimSuffix(u.EscapedPath(), "/")}
	return nil
}

// newTransport pools connections per backend. It asks for no compression of its
// own, which would change bytes, and ignores the environment's proxy settings.
func newTransport(opts *Options) *http.Transport {
	connect := limit(opts.ConnectTimeout, defaultConnectTimeout)
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: connect}).DialContext,
		TLSClientConfig:       opts.TLS,
		TLSHandshakeTimeout:   connect,
		ResponseHeaderTimeout: limit(opts.FirstByteTimeout, defaultFirstByteTimeout),
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       limit(opts.KeepAlive, defaultKeepAlive),
		MaxIdleConnsPerHost:   maxIdlePerBackend,
		DisableCompression:    true,
		ForceAttemptHTTP2:     true,
	}
}

// Close drops the idle connections to the backends. Call it when no request is
// in flight any more.
func (p *Proxy) Close() { p.transport.CloseIdleConnections() }

// InFlight is the number of requests between arrival and the last byte of
// their answer, upgraded connections included.
func (p *Proxy) InFlight() int64 { return p.inFlight.Load() }

// Drain waits until nothing is in flight or ctx ends, and returns how many
// requests are left. It waits for upgraded connections too, which
// http.Server.Shutdown does not know; Shutdown before it keeps new requests
// out, and ending the server's BaseContext after it cuts those that are left.
// One caller at a time.
func (p *Proxy) Drain(ctx context.Context) int64 {
	for {
		if n := p.inFlight.Load(); n == 0 {
			return 0
		}
		select {
		case <-ctx.Done():
			return p.inFlight.Load()
		case <-p.idle:
		}
	}
}

func (p *Proxy) enter() { p.inFlight.Add(1) }

func (p *Proxy) leave() {
	if p.inFlight.Add(-1) > 0 {
		return
	}
	select {
	case p.idle <- struct{}{}:
	default:
	}
}

// bufferPool holds the 32 KiB buffers that responses are copied through.
type bufferPool struct{ pool sync.Pool }

const bufferBytes = 32 << 10

// Get returns a buffer.
func (b *bufferPool) Get() []byte {
	if buf, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return buf[:]
	}
	return make([]byte, bufferBytes)
}

// Put takes a buffer back.
func (b *bufferPool) Put(buf []byte) { b.pool.Put((*[bufferBytes]byte)(buf)) }
