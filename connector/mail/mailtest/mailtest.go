// Package mailtest is a mail server for tests: on loopback, with one mailbox, and with failures on request.
package mailtest

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
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"payersync/connector"
	"payersync/connector/mail"
)

// Point is a step of a conversation at which the server may fail.
type Point string

// The steps. At AtData the whole mail was read and not taken yet; at AtAnswer it was taken, and
// the sender does not know.
const (
	AtHello  Point = "EHLO"
	AtSignIn Point = "AUTH"
	AtMail   Point = "MAIL"
	AtRcpt   Point = "RCPT"
	AtData   Point = "DATA"
	AtAnswer Point = "answer"
)

// ErrCut makes a step break the connection.
var ErrCut = errors.New("the connection breaks")

// Refusal is an answer of the server.
func Refusal(code int, text string) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: text}
}

// Username and Password let anybody in.
const (
	Username = "payersync"
	Password = "hunter2-mail-password"
)

// Mail is a mail that the server took.
type Mail struct {
	From   string // as the envelope has them
	To     []string
	Raw    string // as it came
	Secure bool   // over an encrypted connection
	User   string // the signed-in user
}

// Box is a mail server with one mailbox.
type Box struct {
	Address string
	Roots   *x509.CertPool // its trusted certificates

	mu    sync.Mutex
	fail  map[Point]func() error
	mails []Mail
	talks int
}

// New serves a mailbox until the test ends; the server speaks TLS at once, after STARTTLS, or
// never.
func New(t testing.TB, how mail.Encryption) *Box {
	t.Helper()
	certificate, roots := Certify(t)
	b := &Box{Roots: roots, fail: map[Point]func() error{}}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.Address = listener.Addr().String()
	server := smtp.NewServer(smtp.BackendFunc(b.session))
	server.Domain, server.ErrorLog = "mail.example.org", silent{}
	server.ReadTimeout, server.WriteTimeout = 10*time.Second, 10*time.Second
	if how != mail.NoTLS {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	if how == mail.ImplicitTLS {
		listener = tls.NewListener(listener, server.TLSConfig)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _, _ = server.Close(), listener.Close(); <-done })
	return b
}

// Server returns the settings for the mailbox; encrypted clients sign in.
func (b *Box) Server(how mail.Encryption) mail.Server {
	s := mail.Server{Addr: b.Address, TLS: how, Roots: b.Roots}
	if how != mail.NoTLS {
		s.Username, s.Password = Username, connector.NewSecret(Password)
	}
	return s
}

// Fail makes the server fail at a step from now on; nil mends it.
func (b *Box) Fail(step Point, err error) { b.FailBy(step, func() error { return err }) }

// FailBy asks a function at a step from now on; it may wait.
func (b *Box) FailBy(step Point, fail func() error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail[step] = fail
}

// Received returns the mails that came.
func (b *Box) Received() []Mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mails)
}

// Talks counts the conversations so far.
func (b *Box) Talks() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.talks
}

// silent drops the server's log.
type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// talk is one conversation.
type talk struct {
	box  *Box
	conn *smtp.Conn
	mail Mail
}

func (b *Box) session(c *smtp.Conn) (smtp.Session, error) {
	b.mu.Lock()
	b.talks++
	b.mu.Unlock()
	s := &talk{box: b, conn: c}
	if err := s.at(AtHello); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *talk) at(step Point) error {
	s.box.mu.Lock()
	fail := s.box.fail[step]
	s.box.mu.Unlock()
	if fail == nil {
		return nil
	}
	err := fail()
	if errors.Is(err, ErrCut) {
		_ = s.conn.Conn().Close()
	}
	return err
}

func (s *talk) Reset()        { s.mail.From, s.mail.To = "", nil }
func (s *talk) Logout() error { return nil }

func (s *talk) Mail(from string, _ *smtp.MailOptions) error {
	s.mail.From = from
	return s.at(AtMail)
}

func (s *talk) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mail.To = append(s.mail.To, to)
	return s.at(AtRcpt)
}

func (s *talk) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *talk) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if err := s.at(AtSignIn); err != nil {
			return err
		}
		if user != Username || password != Password {
			return smtp.ErrAuthFailed
		}
		s.mail.User = user
		return nil
	}), nil
}

func (s *talk) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.at(AtData); err != nil {
		return err
	}
	m := s.mail
	m.Raw = string(text)
	_, m.Secure = s.conn.TLSConnectionState()
	s.box.mu.Lock()
	s.box.mails = append(s.box.mails, m)
	s.box.mu.Unlock()
	return s.at(AtAnswer)
}

// Certify returns a certificate of 127.0.0.1 and who vouches for it.
func Certify(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
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
