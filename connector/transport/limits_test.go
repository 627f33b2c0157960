package transport_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/transport"
)

func TestTheServersClockIsKnownByItsAnswers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 5e8, time.UTC)
	date := ""
	s := &service{answer: func(int, *http.Request) (*http.Response, error) { return respond(200, "", "Date", date), nil }}
	c := transport.New(transport.Options{Base: s, Now: func() time.Time { return now }})
	for _, tt := range []struct {
		date  string
		ahead time.Duration
		known bool
	}{
		{"", 0, false}, {"yesterday", 0, false}, {"Sun, 01 Mar 2026 12:00:00 GMT", 0, true},
		{"Sun, 01 Mar 2026 12:07:00 GMT", 7 * time.Minute, true},
		{"Sun, 01 Mar 2026 11:00:00 GMT", -time.Hour, true}, {"", -time.Hour, true},
	} {
		date = tt.date
		if _, err := c.Do(request(t, t.Context(), http.MethodGet), transport.Never); err != nil {
			t.Fatal(err)
		}
		if ahead, known := c.Skew(); ahead != tt.ahead || known != tt.known {
			t.Errorf("after %q the server is %v ahead (%v), want %v (%v)", tt.date, ahead, known, tt.ahead, tt.known)
		}
	}
}

func TestAnswersAreCapped(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/exact":
			_, _ = w.Write(bytes.Repeat([]byte("a"), 1000))
		case "/more":
			_, _ = w.Write(bytes.Repeat([]byte("a"), 1001))
		case "/stream":
			for range 2000 {
				_, _ = io.WriteString(w, "a")
			}
			_ = http.NewResponseController(w).Flush()
		case "/bomb":
			if r.Header.Get("Accept-Encoding") != "" {
				t.Errorf("asks for %s", r.Header.Get("Accept-Encoding"))
			}
			w.Header().Set("Content-Encoding", "gzip")
			zip := gzip.NewWriter(w)
			_, _ = zip.Write(make([]byte, 100_000))
			_ = zip.Close()
		}
	}))
	t.Cleanup(server.Close)
	client := transport.New(transport.Options{MaxBody: 1000, Retries: -1})
	t.Cleanup(client.Close)
	get := func(path string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return client.Do(req, transport.Always)
	}
	for _, path := range []string{"/exact", "/bomb"} {
		resp, err := get(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || len(body) > 1000 || int64(len(body)) != resp.ContentLength || path == "/exact" && len(body) != 1000 {
			t.Errorf("%s: %d bytes, %v", path, len(body), err)
		}
	}
	for _, path := range []string{"/more", "/stream"} {
		_, err := get(path)
		reasonIs(t, path, err, transport.ReasonTooLarge)
	}
}

// covers F17
func TestRedirectsAreReturnedNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("followed to %s with %q", r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/api", status))
		client := transport.New(transport.Options{})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer secret")
		if resp, err := client.Do(req.Clone(t.Context()), transport.Always); err != nil || resp.StatusCode != status {
			t.Errorf("Do: %v, %v", resp, err)
		}
		resp, err := client.HTTPClient(transport.Always).Do(req)
		if err != nil || resp.StatusCode != status {
			t.Errorf("HTTPClient: %v, %v", resp, err)
		}
		_ = resp.Body.Close()
		client.Close()
		server.Close()
	}
}

// covers F16, F81
func TestPlainHTTPIsForLoopbackOnly(t *testing.T) {
	t.Parallel()
	for target, ok := range map[string]bool{
		"https://billing.example/x": true, "http://127.0.0.1:1/x": true, "http://localhost/x": true, "http://[::1]/x": true,
		"http://[::ffff:127.0.0.1]/x": true,
		"http://billing.example/x":    false, "http://10.0.0.1/x": false, "http://localhost.example/x": false,
		"http://127.0.0.1.example/x":        false,
		"https://user:pw@billing.example/x": false, "ftp://127.0.0.1/x": false, "https:///x": false,
	} {
		s := always(200)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = transport.New(seeded(s)).Do(req, transport.Always)
		if (err == nil) != ok || (s.attempts() == 1) != ok {
			t.Errorf("%s: %v after %d attempts", target, err, s.attempts())
		}
		if err != nil {
			reasonIs(t, target, err, transport.ReasonURL)
		}
	}
}

// covers F16
func TestConnectionFailuresAreToldApartAndHadNoEffect(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of the refused handshake
	server.StartTLS()
	t.Cleanup(server.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	tests := []struct {
		name, target string
		want         transport.Reason
		options      transport.Options
	}{
		{"certificate of an unknown authority", server.URL, transport.ReasonTLS, transport.Options{}},
		{"nobody listens", "http://" + closed.Addr().String(), transport.ReasonConnect, transport.Options{}},
		{"not public", plain.URL, transport.ReasonAddress, transport.Options{Reach: connector.Reach{PublicOnly: true}}},
		{"no such name", "https://billing.invalid", transport.ReasonName,
			transport.Options{Base: &http.Transport{DialContext: unresolved}}},
	}
	for _, tt := range tests {
		tt.options.Retries = -1
		client := transport.New(tt.options)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tt.target, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Do(req, transport.IfNoEffect)
		reasonIs(t, tt.name, err, tt.want)
		var failed *transport.Error
		if errors.As(err, &failed) && failed.Sent {
			t.Errorf("%s: counted as sent", tt.name)
		}
		client.Close()
	}
}
