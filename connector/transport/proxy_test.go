package transport_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"payersync/connector/transport"
)

// proxy is a real one: whatever host is asked for, it connects to target.
func proxy(t *testing.T, status int, target string) (address *url.URL, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != http.MethodConnect || status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		out, err := net.Dial("tcp", target)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		// The connection is the proxy's own before it answers: what the client says on the
		// answer would be read by the server else.
		in, said, err := w.(http.Hijacker).Hijack()
		if err != nil {
			_ = out.Close()
			return
		}
		go func() { _, _ = io.Copy(out, said); _ = out.Close() }()
		if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
			_, _ = io.Copy(in, out)
		}
		_ = in.Close()
	}))
	t.Cleanup(server.Close)
	address, _ = url.Parse(server.URL)
	return address, asked
}

func get(t *testing.T, proxy *url.URL, target string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := transport.New(transport.Options{Proxy: proxy, Retries: -1})
	defer client.Close()
	_, err = client.Do(req, transport.Always)
	return err
}

// What fails at the proxy is told as the proxy's, with its key.
//
// covers F156
func TestAProxyThatFailsIsNamedAndItsPasswordIsNot(t *testing.T) {
	t.Parallel()
	gone := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	asks, _ := proxy(t, http.StatusProxyAuthRequired, "")
	asks.User = url.UserPassword("me", "wrong-password")
	forbids, _ := proxy(t, http.StatusForbidden, "")
	socks := &url.URL{Scheme: "socks5", Host: "127.0.0.1:1"}
	for want, p := range map[string]*url.URL{"connection refused": gone, "HTTP 407": asks, "HTTP 403": forbids,
		"refused": socks} {
		err := get(t, p, "https://api.example.com/api")
		var failed *transport.Error
		if !errors.As(err, &failed) || failed.Reason != transport.ReasonProxy || failed.Sent {
			t.Fatalf("%s: got %v", p.Redacted(), err)
		}
		if text := err.Error(); !strings.Contains(text, "http.proxy") || !strings.Contains(text, want) ||
			strings.Contains(text, "wrong-password") {
			t.Errorf("%s: it says %s", p.Redacted(), text)
		}
	}
}

func TestRequestsLeaveThroughTheProxyEncrypted(t *testing.T) {
	t.Parallel()
	target := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	p, asked := proxy(t, http.StatusOK, target.Listener.Addr().String())
	err := get(t, p, "https://api.example.com/api")
	var certificate *tls.CertificateVerificationError
	if !errors.As(err, &certificate) || asked.Load() != 1 {
		t.Errorf("the test's server was not reached through the proxy, which was asked %d times: %v", asked.Load(), err)
	}
	if err := get(t, p, "http://api.example.com/api"); err == nil || asked.Load() != 1 {
		t.Error("plain http was handed to a proxy")
	}
}

func TestThisMachineIsReachedPastTheProxy(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	p, asked := proxy(t, http.StatusForbidden, "")
	if err := get(t, p, target.URL); err != nil || asked.Load() != 0 {
		t.Errorf("got %v, and the proxy was asked %d times", err, asked.Load())
	}
}

// No variable of the environment makes a proxy.
func TestTheEnvironmentNamesNoProxy(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "https://api.example.com", nil)
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	if u, err := transport.ProxyFor(nil)(r); u != nil || err != nil {
		t.Errorf("got %v, %v", u, err)
	}
}

func TestAProxyIsCheckedWithoutAWordOfIt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "proxy:3128", "ftp://secret@host:1", "http://", "http://me:secret@host/path",
		"http://me:secret@host:1?x", "http://me:secret%zz@host"} {
		if _, err := transport.CheckProxy(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("of %q it says %v", text, err)
		}
	}
	for _, text := range []string{"http://host:3128", "https://me:p@host", "socks5://[::1]:1080/"} {
		if _, err := transport.CheckProxy(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
