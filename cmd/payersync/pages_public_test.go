package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/config"
	"payersync/connector/server"
)

// writeCertificate writes a certificate for a name, and its key.
func writeCertificate(t *testing.T, files *config.TLS, name string, at time.Time) {
	t.Helper()
	writeCertificateUntil(t, files, name, at, time.Now().Add(time.Hour))
}

// writeCertificateUntil writes a certificate with an end time.
func writeCertificateUntil(t *testing.T, files *config.TLS, name string, at, until time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotAfter: until}
	cert, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: cert},
		files.Key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARenewedCertificateIsTakenAndABrokenOneIsNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := &config.TLS{Cert: filepath.Join(dir, "pages.pem"), Key: filepath.Join(dir, "pages.key")}
	if _, err := newCertificate(files); err == nil {
		t.Error("a certificate that is not there was taken")
	}
	at := time.Now().Add(-time.Hour)
	writeCertificate(t, files, "one.example", at)
	c, err := newCertificate(files)
	if err != nil {
		t.Fatal(err)
	}
	name := func() string {
		got, err := c.current()
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(got.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.Subject.CommonName
	}
	if got := name(); got != "one.example" {
		t.Errorf("it is %s", got)
	}
	if err := os.WriteFile(files.Cert, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "one.example" {
		t.Errorf("with a broken file it is %s", got)
	}
	writeCertificate(t, files, "two.example", at.Add(time.Minute))
	if got := name(); got != "two.example" {
		t.Errorf("renewed it is %s", got)
	}
}

func TestACertificateThatRanOutOrHasAnotherKeyIsRefusedInThreeParts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := &config.TLS{Cert: filepath.Join(dir, "pages.pem"), Key: filepath.Join(dir, "pages.key")}
	others := &config.TLS{Cert: filepath.Join(dir, "other.pem"), Key: files.Key}
	for why, write := range map[string]func(){
		"ran out on ": func() { writeCertificateUntil(t, files, "one.example", time.Now(), time.Now().Add(-time.Minute)) },
		"private key does not match public": func() {
			writeCertificate(t, files, "one.example", time.Now())
			writeCertificate(t, others, "two.example", time.Now())
		},
	} {
		write()
		_, err := newCertificate(files)
		if err == nil || !strings.HasPrefix(err.Error(), "cannot show the pages over TLS: ") ||
			!strings.Contains(err.Error(), why) ||
			!strings.Contains(err.Error(), "; put the certificate and its key at the paths in server.admin_tls") {
			t.Errorf("it is refused with %v, want that it %s", err, why)
		}
	}
}

// A header counts only if a trusted proxy wrote it.
func TestWhereARequestComesFromIsWhatATrustedProxySays(t *testing.T) {
	t.Parallel()
	proxies := config.Server{AdminProxies: mustNetworks(t, "10.0.0.5")}.TrustedFronts()
	for _, c := range []struct{ peer, forwarded, want string }{
		{"10.0.0.5:1", "203.0.113.9", "203.0.113.0/24"}, {"10.0.0.5:1", "192.0.2.1, 203.0.113.9", "203.0.113.0/24"},
		{"198.51.100.7:1", "203.0.113.9", "198.51.100.0/24"}, {"10.0.0.5:1", "", "10.0.0.0/24"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := network(config.Server{AdminProxies: mustNetworks(t, "10.0.0.5")})(r); got != c.want {
			t.Errorf("from %s, forwarded %q: %s, want %s", c.peer, c.forwarded, got, c.want)
		}
		if got := server.FromProxy(r, proxies); got != (c.peer == "10.0.0.5:1") {
			t.Errorf("that %s is the proxy is %v", c.peer, got)
		}
	}
}

func mustNetworks(t *testing.T, text string) []config.Network {
	t.Helper()
	var n config.Network
	if err := n.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return []config.Network{n}
}
