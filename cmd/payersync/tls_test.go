package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A service whose certificate does not hold is told nothing, and there is no
// other way to it: neither without TLS nor without looking at the certificate.
//
// covers F16
func TestACertificateThatDoesNotHoldIsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux does a program take its trusted authorities from a file")
	}
	authority := newAuthority(t)
	tests := []struct {
		name  string
		spoil func(*x509.Certificate)
		why   string // in what check says; blank when the certificate is fine
	}{
		{"fine", func(*x509.Certificate) {}, ""},
		{"expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }, "has expired"},
		{"not valid yet", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }, "not yet valid"},
		{"for another address", func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 9)} }, "127.0.0.9"},
		{"for a name", func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"billing.example"} },
			"127.0.0.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, people(2))
			complaints := w.serveTLS(authority.issue(t, tt.spoil))
			w.write("authority.pem", authority.text)
			w.env["SSL_CERT_FILE"] = w.path("authority.pem")
			if tt.why == "" {
				w.alone(exitDone, "check")
				w.alone(exitDone, "sync")
				return
			}
			for _, command := range []string{"check", "sync"} {
				r := w.alone(exitFailed, command)
				if said := r.out + r.errOut; !strings.Contains(said, "certificate or encryption is not acceptable") ||
					!strings.Contains(said, tt.why) {
					t.Errorf("%s does not say %q:\n%s", command, tt.why, said)
				}
			}
			if n := w.seen.Load(); n != 0 {
				t.Errorf("%d requests reached the service", n)
			}
			if said := complaints.String(); !strings.Contains(said, "bad certificate") ||
				strings.Contains(said, "HTTP request to an HTTPS server") {
				t.Errorf("the server complained of %q, want refused certificates and no request without TLS", said)
			}
		})
	}
}

// serveTLS moves the service behind TLS and returns what its server complains of.
func (w *world) serveTLS(certificate tls.Certificate) *output {
	w.t.Helper()
	complaints := &output{}
	secured := httptest.NewUnstartedServer(w.service.Config.Handler)
	secured.Config.ErrorLog = log.New(complaints, "", 0)
	secured.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	secured.StartTLS()
	w.t.Cleanup(secured.Close)
	w.edit("payersync.yaml", w.service.URL, secured.URL)
	return complaints
}

// authority signs certificates for one test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	text        string // PEM
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}
	a := authority{certificate: template, key: newKey(t)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.text = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue returns a certificate for 127.0.0.1, changed by spoil before it is signed.
func (a authority) issue(t *testing.T, spoil func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "service of a test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	spoil(template)
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
