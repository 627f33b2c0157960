package alarm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"payersync/connector"
)

// The steps of a conversation at which a mail server may fail.
const (
	atMail   = "MAIL"
	atRcpt   = "RCPT"
	atData   = "DATA"   // after the whole mail was read, before it was taken
	atAnswer = "answer" // after it was taken
)

// mailbox is a mail server with one mailbox.
type mailbox struct {
	t       *testing.T
	address string
	roots   *x509.CertPool

	mu     sync.Mutex
	fail   map[string]error // at a step; errCut breaks the connection
	user   string           // who has signed in last
	mails  []string         // as they came
	talks  int              // connections so far
	secure bool             // the last mail came over an encrypted connection
}

var errCut = errors.New("the connection breaks")

const mailPassword = "hunter2-mail-password"

// newMailbox serves a mailbox; the server speaks TLS at once, after STARTTLS, or never.
func newMailbox(t *testing.T, how Encryption) *mailbox {
	t.Helper()
	b := &mailbox{t: t, fail: map[string]error{}}
	certificate, roots := certify(t)
	b.roots = roots
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.address = listener.Addr().String()
	server := smtp.NewServer(smtp.BackendFunc(b.session))
	server.Domain, server.ErrorLog = "mail.example.org", silent{}
	server.ReadTimeout, server.WriteTimeout = 10*time.Second, 10*time.Second
	if how != NoTLS {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	if how == ImplicitTLS {
		listener = tls.NewListener(listener, server.TLSConfig)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return b
}

// silent is the log of a server of which tests know what it is told.
type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// certify returns a certificate of 127.0.0.1 and who vouches for it.
func certify(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// way returns how the mailbox is told.
func (b *mailbox) way(how Encryption) *Email {
	return &Email{To: "ops@example.org", From: "payersync@example.com", Server: b.address, TLS: how, Roots: b.roots}
}

// fails makes the server fail at a step from now on; nil mends it.
func (b *mailbox) fails(step string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail[step] = err
}

// refusal is an answer of the server.
func refusal(code int, text string) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: text}
}

func (b *mailbox) received() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.mails...)
}

func (b *mailbox) conversations() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.talks
}

// read returns the mails that came, as people read them.
func (b *mailbox) read() []letter {
	b.t.Helper()
	var out []letter
	for _, raw := range b.received() {
		out = append(out, parse(b.t, raw))
	}
	return out
}

// letter is a mail as it is read.
type letter struct {
	id, subject, to, text string
	header                mail.Header
}

type talk struct {
	box  *mailbox
	conn *smtp.Conn
}

func (b *mailbox) session(c *smtp.Conn) (smtp.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.talks++
	return &talk{b, c}, nil
}

func (s *talk) at(step string) error {
	s.box.mu.Lock()
	err := s.box.fail[step]
	s.box.mu.Unlock()
	if errors.Is(err, errCut) {
		_ = s.conn.Conn().Close()
	}
	return err
}

func (s *talk) Reset()                               {}
func (s *talk) Logout() error                        { return nil }
func (s *talk) Mail(string, *smtp.MailOptions) error { return s.at(atMail) }
func (s *talk) Rcpt(string, *smtp.RcptOptions) error { return s.at(atRcpt) }
func (s *talk) AuthMechanisms() []string             { return []string{sasl.Plain} }
func (s *talk) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if password != mailPassword {
			return smtp.ErrAuthFailed
		}
		s.box.mu.Lock()
		defer s.box.mu.Unlock()
		s.box.user = user
		return nil
	}), nil
}

func (s *talk) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.at(atData); err != nil {
		return err
	}
	s.box.mu.Lock()
	s.box.mails = append(s.box.mails, string(text))
	_, s.box.secure = s.conn.TLSConnectionState()
	s.box.mu.Unlock()
	return s.at(atAnswer)
}

// parse reads a mail.
func parse(t *testing.T, raw string) letter {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(raw))
	if err != nil {
		t.Fatalf("%v in the mail:\n%s", err, raw)
	}
	body, err := io.ReadAll(decoder(m.Header.Get("Content-Transfer-Encoding"), m.Body))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := words.DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	return letter{m.Header.Get("Message-ID"), subject, m.Header.Get("To"), strings.ReplaceAll(string(body), "\r\n", "\n"), m.Header}
}

var secretOfMail = connector.NewSecret(mailPassword)
