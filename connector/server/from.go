package server

import (
	"net/http"
	"net/netip"
)

// Network returns the block that a request comes from: that of the peer, or, behind proxies that
// are trusted, of the right-most address which they forward and that is none of theirs.
func Network(r *http.Request, proxies []netip.Prefix) netip.Prefix { return clientOf(r, proxies) }

// FromProxy reports whether a request was handed on by one of these proxies.
func FromProxy(r *http.Request, proxies []netip.Prefix) bool {
	return trusted(proxies, peer(r.RemoteAddr))
}
