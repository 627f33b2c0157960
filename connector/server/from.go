package server

import (
	"net/http"
	"net/netip"
)

// Network returns the block of a request's client. Behind trusted proxies, it is the block of the right-most
// forwarded address other than theirs.
func Network(r *http.Request, proxies []netip.Prefix) netip.Prefix { return clientOf(r, proxies) }

// FromProxy reports whether a request was handed on by one of these proxies.
func FromProxy(r *http.Request, proxies []netip.Prefix) bool {
	return trusted(proxies, peer(r.RemoteAddr))
}
