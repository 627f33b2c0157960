package transport

import (
	"cmp"
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
	"time"

	"payersync/connector"
)

const (
	connectTimeout = 10 * time.Second
	idleTimeout    = 60 * time.Second
	maxHeaderBytes = 64 << 10
)

// newWire returns the transport to real servers. It never asks for compression, so a small answer cannot
// become a large one (fault F89). It takes its proxy from Options, and never from the environment.
func newWire(o Options) *http.Transport {
	return &http.Transport{
		DialContext:            dialer(o),
		Proxy:                  proxied(o),
		ProxyConnectHeader:     http.Header{"User-Agent": {UserAgent()}},
		OnProxyConnectResponse: throughProxy,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
		TLSHandshakeTimeout:    connectTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           2 * o.MaxInFlight,
		MaxIdleConnsPerHost:    o.MaxInFlight,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
	}
}

// ProxyFor returns the proxy function of an http.Transport: the given proxy for every address but loopback
// ones, which only this machine can reach. nil is no proxy.
func ProxyFor(proxy *url.URL) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if proxy == nil || connector.IsLoopback(r.URL.Hostname()) {
			return nil, nil
		}
		return proxy, nil
	}
}

// CheckProxy reports the mistake in a proxy's address, without quoting it: it may hold a password. It returns
// the address read.
func CheckProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme):
		return nil, errors.New("it is no address of a proxy; write it as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it has more than a host and a port; remove everything after the port")
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

// throughProxy checks the proxy's answer to a request to connect.
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

// dialer returns the function for connections: to allowed addresses, and to the proxy, which resolves names
// by itself.
func dialer(o Options) func(ctx context.Context, network, address string) (net.Conn, error) {
	proxy := ""
	if o.Proxy != nil {
		proxy = net.JoinHostPort(o.Proxy.Hostname(),
			cmp.Or(o.Proxy.Port(), map[string]string{"http": "80", "https": "443", "socks5": "1080"}[o.Proxy.Scheme]))
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		reach := o.Reach
		if address == proxy {
			reach = connector.Reach{}
		}
		return reach.Dialer(connectTimeout).DialContext(ctx, network, address)
	}
}

// proxied is ProxyFor for the addresses allowed by o.Reach.
func proxied(o Options) func(*http.Request) (*url.URL, error) {
	proxy := ProxyFor(o.Proxy)
	return func(r *http.Request) (*url.URL, error) {
		if ip, err := netip.ParseAddr(r.URL.Hostname()); err == nil && !o.Reach.Allows(ip) {
			return nil, fmt.Errorf("%s: %w", ip, connector.ErrAddress)
		}
		return proxy(r)
	}
}
