package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"payersync/connector"
)

const (
	connectTimeout = 10 * time.Second
	idleTimeout    = 60 * time.Second
	maxHeaderBytes = 64 << 10
)

// newWire returns the transport that speaks to real servers. It never asks for
// compression, so that a small answer cannot become a large one (fault F89),
// and it takes no proxy from the environment, only that of Options.
func newWire(o Options) *http.Transport {
	return &http.Transport{
		DialContext:            dialer(o.PublicOnly),
		Proxy:                  ProxyFor(o.Proxy),
		OnProxyConnectResponse: throughProxy,
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

// ProxyFor returns what an http.Transport asks for its proxy: the given one, for every
// address but loopback ones, which only this machine can reach. nil is no proxy.
func ProxyFor(proxy *url.URL) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if proxy == nil || connector.IsLoopback(r.URL.Hostname()) {
			return nil, nil
		}
		return proxy, nil
	}
}

// CheckProxy reports what of a proxy's address cannot work, without a word of it: it may
// hold a password. It returns the address read.
func CheckProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme):
		return nil, errors.New("it is no address of a proxy; write it as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it has more than a host and a port; leave out what stands behind them")
	}
	return u, nil
}

// errProxy is an answer of the proxy itself.
type errProxy struct{ status int }

func (e errProxy) Error() string {
	if e.status == http.StatusProxyAuthRequired {
		return "it asks for a user and a password (HTTP 407); write them into the address, as in http://USER:PASSWORD@HOST:PORT"
	}
	return fmt.Sprintf("it refused to connect (HTTP %d); ask whoever runs it to allow this server", e.status)
}

// throughProxy looks at what the proxy answers when it is asked to connect.
func throughProxy(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return errProxy{answer.StatusCode}
	}
	return nil
}

// isProxy reports whether err came from the way to or through a proxy.
func isProxy(err error) bool {
	var op *net.OpError
	return isA[errProxy](err) || errors.As(err, &op) && (op.Op == "proxyconnect" || strings.HasPrefix(op.Op, "socks"))
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
