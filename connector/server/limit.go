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

// tooMany counts a request that was refused, and reports whether it is one too
// many of its client.
func (s *Server) tooMany(w http.ResponseWriter, r *http.Request, client netip.Prefix) bool {
	bucket := maphash.Comparable(s.seed, client) % clientBuckets
	return s.refused.OnLimit(w, r, strconv.FormatUint(bucket, 36))
}

func (s *Server) client(r *http.Request) netip.Prefix { return clientOf(r, s.cfg.TrustedProxies) }

// clientOf returns the block a request comes from: that of the peer, or, if the peer
// is a proxy we trust, of the right-most address it forwards that is not one
// itself. What stands further left is hearsay, and so is the header Forwarded: a
// proxy that writes one of the two passes the other on as a stranger wrote it.
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

// plain returns an address in the one spelling that prefixes are compared with.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

func trusted(proxies []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// block returns the /24 or /64 of an address, which is what counts as one client;
// the zero prefix for no address.
func block(addr netip.Addr) netip.Prefix {
	bits := 64
	if addr.Is4() {
		bits = 24
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}
