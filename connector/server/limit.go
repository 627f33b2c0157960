package server

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/httprate"
)

// clientBuckets bounds the memory that counting clients takes: each /24 or /64
// falls into one of so many, by a hash that nobody outside can foresee.
const clientBuckets = 1 << 14

// perSecond returns a limiter that sets Retry-After and no other header.
func perSecond(limit int) *httprate.RateLimiter {
	return httprate.NewRateLimiter(limit, time.Second, httprate.WithResponseHeaders(httprate.ResponseHeaders{RetryAfter: "Retry-After"}))
}

// limited reports whether the request is one too many, of its client or of all.
// The client's share is looked at first, so that a flood from one place does not
// use up what others need.
func (s *Server) limited(w http.ResponseWriter, r *http.Request) bool {
	bucket := maphash.Comparable(s.seed, s.client(r)) % clientBuckets
	return s.perClient.OnLimit(w, r, strconv.FormatUint(bucket, 36)) || s.total.OnLimit(w, r, "")
}

// client returns the /24 or /64 a request comes from: that of the peer, or, if
// the peer is a proxy we trust, of the right-most address it forwards that is not
// one itself. What stands further left is hearsay.
func (s *Server) client(r *http.Request) netip.Prefix {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	addr := peer.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !s.trusted(addr) {
			break
		}
		before, ok := parseHop(strings.TrimSpace(hop))
		if !ok {
			break
		}
		addr = before
	}
	bits := 64
	if addr.Is4() {
		bits = 24
	}
	prefix, _ := addr.WithZone("").Prefix(bits) // the zero prefix for a peer without an address
	return prefix
}

func (s *Server) trusted(addr netip.Addr) bool {
	return slices.ContainsFunc(s.cfg.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// parseHop reads one address of X-Forwarded-For; some proxies add a port.
func parseHop(hop string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(hop); err == nil {
		return addr.Unmap(), true
	}
	withPort, err := netip.ParseAddrPort(hop)
	return withPort.Addr().Unmap(), err == nil
}
