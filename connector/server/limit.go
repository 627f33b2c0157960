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

// clientBuckets bounds the memory for counting clients: a secret hash maps each /24 or /64 to a bucket.
const clientBuckets = 1 << 14

// perSecond returns a limiter that sends the header Retry-After only.
func perSecond(limit int) *httprate.RateLimiter {
	return httprate.NewRateLimiter(limit, time.Second,
		httprate.WithResponseHeaders(httprate.ResponseHeaders{RetryAfter: "Retry-After"}))
}

// tooMany counts a refused request, and reports whether its client is over the limit.
func (s *Server) tooMany(w http.ResponseWriter, r *http.Request, client netip.Prefix) bool {
	bucket := maphash.Comparable(s.seed, client) % clientBuckets
	return s.refused.OnLimit(w, r, strconv.FormatUint(bucket, 36))
}

func (s *Server) client(r *http.Request) netip.Prefix { return clientOf(r, s.cfg.TrustedProxies) }

// clientOf returns the block of a request's client: the peer, or, behind trusted proxies, the right-most
// forwarded address other than theirs. Addresses further left are unverified. So is the header Forwarded: a
// proxy that writes one of the two headers passes the other on unchecked.
func clientOf(r *http.Request, proxies []netip.Prefix) netip.Prefix {
	addr := peer(r.RemoteAddr)
	hops := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	for hops != "" && trusted(proxies, addr) {
		cut := strings.LastIndexByte(hops, ',')
		before, ok := parseHop(strings.TrimSpace(hops[cut+1:]))
		if !ok {
			break
		}
		addr, hops = before, hops[:max(cut, 0)]
	}
	return block(addr)
}

// peer returns the address of "address:port"; the zero address when there is none,
// as for a socket file.
func peer(remote string) netip.Addr {
	at, _ := netip.ParseAddrPort(remote)
	return plain(at.Addr())
}

// parseHop reads one address of X-Forwarded-For; some proxies add brackets or a
// port.
func parseHop(hop string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(hop); err == nil {
		return plain(at.Addr()), true
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
	return plain(addr), err == nil
}

// plain returns an address in the form used by prefixes.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

func trusted(proxies []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// block returns the /24 or /64 of an address, which counts as one client; the zero prefix for no address.
func block(addr netip.Addr) netip.Prefix {
	bits := 64
	if addr.Is4() {
		bits = 24
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}
