package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"strandline/router"
)

// snapshot is one table seen from this frontend.
type snapshot struct {
	table    *router.Table
	frontend int
	shed     float64 // fraction of the requests to refuse
	epoch    string
	backends []*backend // by region of the table; nil where the region has none
}

// Publish makes the proxy answer from t; requests under way finish as they
// began. On error the table before stays: t does not know the frontend, or gives
// it a region without a backend (all such regions are named).
func (p *Proxy) Publish(t *router.Table) error {
	i, ok := t.Frontend(p.frontend)
	if !ok {
		return fmt.Errorf("proxy: publish epoch %d: the table has no frontend %q", t.Epoch(), p.frontend)
	}
	s := &snapshot{
		table: t, frontend: i, shed: t.ShedShare(i),
		epoch:    strconv.FormatUint(t.Epoch(), 10),
		backends: make([]*backend, t.Regions()),
	}
	var errs []error
	for j, share := range t.Plan().Frontends[i].Shares {
		s.backends[j] = p.backends[t.RegionName(j)]
		if share > 0 && s.backends[j] == nil {
			errs = append(errs, fmt.Errorf("region %q has a share of %v and no backend", t.RegionName(j), share))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("proxy: publish epoch %d for frontend %q: %w", t.Epoch(), p.frontend, err)
	}
	p.current.Store(s)
	return nil
}

// choose picks the backend for a hash, or nil where no allowed region has one.
// Where every region is down it is the best of those: a wrong health check must
// not stop a service that works.
func (s *snapshot) choose(hash uint64) *backend {
	j, _ := s.table.Pick(s.frontend, hash)
	if b := s.backends[j]; b != nil {
		return b
	}
	return s.instead(hash, nil)
}

// instead is the best backend for a hash other than failed, or nil.
func (s *snapshot) instead(hash uint64, failed *backend) *backend {
	var buf [64]int
	for _, j := range s.table.Order(s.frontend, hash, buf[:0]) {
		if b := s.backends[j]; b != nil && b != failed {
			return b
		}
	}
	return nil
}

// next draws a random number, without a lock: SplitMix64 (Steele, Lea, Flood
// 2014), whose state is a counter.
func (p *Proxy) next() uint64 { return mix(p.draw.Add(weyl)) }

// shedNow draws whether to refuse a request. A session is not refused for ever,
// so its hash plays no part.
func (p *Proxy) shedNow(share float64) bool {
	return share > 0 && float64(p.next()>>11) < share*(1<<53)
}

// hash is the key by which a request is sent to a region.
func (p *Proxy) hash(r *http.Request) uint64 {
	if session := r.Header[HeaderSession]; len(session) > 0 && session[0] != "" {
		return SessionHash(session[0])
	}
	return p.next()
}

// SessionHash is the key that the table's choice is made by for the session of
// that name: FNV-1a (RFC 9923) over its bytes, then the finaliser of SplitMix64.
// It is the same in every process, so all frontends agree.
func SessionHash(session string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(session) {
		h = (h ^ uint64(session[i])) * 0x100000001b3
	}
	return mix(h + weyl)
}

// weyl is the increment of SplitMix64, 2^64 over the golden ratio.
const weyl = 0x9e3779b97f4a7c15

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
