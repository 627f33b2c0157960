package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const (
	connectTimeout = 10 * time.Second
	idleTimeout    = 60 * time.Second
	maxHeaderBytes = 64 << 10
)

// newWire returns the transport that speaks to real servers. It never asks for
// compression, so that a small answer cannot become a large one (fault F89),
// and it takes no proxy from the environment.
func newWire(o Options) *http.Transport {
	return &http.Transport{
		DialContext:            dialer(o.PublicOnly),
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    connectTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           2 * o.MaxInFlight,
		MaxIdleConnsPerHost:    o.MaxInFlight,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
	}
}

func dialer(publicOnly bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}
	if publicOnly {
		d.Control = requirePublic
	}
	return d.DialContext
}

// requirePublic looks at the address that is about to be connected to, after
// the name was resolved: a name that changes its mind later gains nothing.
func requirePublic(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || !isPublic(target.Addr()) {
		return fmt.Errorf("%s: %w", address, errAddress)
	}
	return nil
}

// reserved are the special-purpose blocks that the netip predicates do not
// know, and those that carry another address inside them.
var reserved = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	for _, block := range reserved {
		if block.Contains(ip) {
			return false
		}
	}
	return true
}
