// Package mail sends one message to one recipient through a mail server, once, and returns the outcome if it
// is certain.
//
//	greeting ─▶ encrypted ─▶ signed in ─▶ sender ─▶ recipient ─▶ 354 │ message ─▶ 250
//	└──────────────── nothing of the message has left ───────────────┘ └─ unclear ─┘ taken
//
// An answer of the server is always certain: 4xx is a no for now (*DeferredError), 5xx a no for good
// (*RefusedError). Without an answer it depends on how far the conversation came: until the first byte of the
// message is given to the connection it was not sent (*NotSentError), and from then on until the last answer
// nobody can know (*UnclearError). A caller that must not send twice may try again after the first three, and
// never by itself after the last.
//
// This package never repeats a message. The caller decides its content, and whether to send it.
package mail

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"payersync/connector"
)

// Encryption says how the connection to a mail server is encrypted.
type Encryption string

// The kinds of encryption. NoTLS is for a server on this machine.
const (
	StartTLS    Encryption = "starttls"
	ImplicitTLS Encryption = "implicit"
	NoTLS       Encryption = "none"
)

// Server is a mail server for our outgoing mail.
type Server struct {
	Addr      string // host and port
	TLS       Encryption
	Username  string // "" for a server that asks for none
	Password  connector.Secret
	HelloName string          // what this machine calls itself; "" for localhost
	Reach     connector.Reach // its allowed addresses
	Roots     *x509.CertPool  // the server's trusted certificates; nil for the system's
	Patience  time.Duration   // for all steps before the message; 0 for a minute
	Verdict   time.Duration   // for the answer to the message, perhaps after filters; 0 for five minutes
}

// The defaults of a server, and the grace period after the context ends, so an answer already on its way is
// still read.
const (
	defaultPatience = time.Minute
	defaultVerdict  = 5 * time.Minute
	lastWord        = 5 * time.Second
)

// Send sends a message to one recipient, and returns the accepting server's answer, without addresses. Its
// error is one of the four of this package. When the context ends before the message has begun to leave, none
// of it leaves.
func (s *Server) Send(ctx context.Context, from, to string, message []byte) (answer string, err error) {
	talk := &conversation{server: s, from: from, to: to, stage: AtConnection}
	if err := talk.check(message); err != nil {
		return "", &NotSentError{talk.stage, err}
	}
	conn, err := talk.dial(ctx)
	if err != nil {
		return "", &NotSentError{talk.stage, err}
	}
	defer func() { _ = conn.Close() }() // QUIT was said, or nobody listens
	talk.limit = &limit{conn: conn}
	talk.limit.set(positive(s.Patience, defaultPatience))
	stop := context.AfterFunc(ctx, talk.limit.hurry)
	defer stop()
	for _, step := range []struct {
		stage Stage
		do    func(context.Context) error
	}{
		{AtEncryption, talk.handshake}, {AtGreeting, talk.greet}, {AtEncryption, talk.startTLS}, {AtSignIn, talk.signIn},
		{AtSender, talk.sender}, {AtRecipient, talk.recipient},
	} {
		talk.stage = step.stage
		if err := step.do(ctx); err != nil {
			return "", talk.failed(err)
		}
	}
	talk.stage = AtMessage
	return talk.deliver(ctx, message)
}

// conversation is one talk with a server. Its stage says how far it came.
type conversation struct {
	server   *Server
	from, to string
	host     string
	stage    Stage
	conn     net.Conn
	limit    *limit
	client   *smtp.Client
}

// check refuses what would go to another place than it says, or be read in another way than it
// was written.
func (t *conversation) check(message []byte) error {
	s := t.server
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return fmt.Errorf("the mail server is no host and port: %w", err)
	}
	t.host = host
	switch {
	case !slices.Contains([]Encryption{StartTLS, ImplicitTLS, NoTLS}, s.TLS):
		return fmt.Errorf("there is no encryption %q; use %s or %s", s.TLS, StartTLS, ImplicitTLS)
	case s.TLS == NoTLS && !connector.IsLoopback(host):
		return errors.New("mail leaves this machine encrypted only, so nothing was said to the mail server; use starttls or implicit")
	case s.TLS == NoTLS && s.Username != "":
		return errors.New("a password is not sent over a connection that is not encrypted; use starttls or implicit")
	}
	if err := CheckAddress(t.from); err != nil {
		return fmt.Errorf("the sender: %w", err)
	}
	if err := CheckAddress(t.to); err != nil {
		return fmt.Errorf("the recipient: %w", err)
	}
	if lines := bytes.Count(message, []byte("\r\n")); bytes.Count(message, []byte("\r")) != lines ||
		bytes.Count(message, []byte("\n")) != lines || bytes.IndexByte(message, 0) >= 0 {
		return errors.New("the message has a line that does not end as lines of mail do, and servers read such ones in different ways")
	}
	return nil
}

func (t *conversation) dial(ctx context.Context) (net.Conn, error) {
	conn, err := t.server.Reach.Dialer(positive(t.server.Patience, defaultPatience)/4).DialContext(ctx, "tcp",
		t.server.Addr)
	if err != nil {
		return nil, fmt.Errorf("the mail server %s cannot be reached: %w", t.server.Addr, err)
	}
	if at, ok := conn.RemoteAddr().(*net.TCPAddr); t.server.TLS == NoTLS && (!ok || !at.IP.IsLoopback()) {
		return nil, errors.Join(fmt.Errorf("the mail server %s is not on this machine, so nothing was said to it; use starttls or implicit", t.server.Addr), conn.Close())
	}
	t.conn = conn
	return conn, nil
}

func (t *conversation) config() *tls.Config {
	return &tls.Config{ServerName: t.host, MinVersion: tls.VersionTLS12, RootCAs: t.server.Roots}
}

// handshake encrypts the connection before anything is said.
func (t *conversation) handshake(ctx context.Context) error {
	if t.server.TLS != ImplicitTLS {
		return nil
	}
	secured := tls.Client(t.conn, t.config())
	t.conn = secured
	return secured.HandshakeContext(ctx)
}

// greet introduces us.
func (t *conversation) greet(context.Context) error {
	client, err := smtp.NewClient(t.conn, t.host)
	if err != nil {
		return err
	}
	t.client = client
	client.SkipSMTPUTF8(true)
	name := t.server.HelloName
	name = cmp.Or(name, "localhost")
	return client.Hello(name)
}

// startTLS encrypts the connection if the setup uses STARTTLS.
func (t *conversation) startTLS(context.Context) error {
	if t.server.TLS != StartTLS {
		return nil
	}
	if offered, _ := t.client.Extension("STARTTLS"); !offered {
		return &termsError{"it does not offer STARTTLS, so nothing was said to it; see tls and the port"}
	}
	return t.client.StartTLS(t.config())
}

// signIn signs in, without revealing the password to the server if it supports that.
func (t *conversation) signIn(context.Context) error {
	s := t.server
	if s.Username == "" {
		return nil
	}
	_, offered := t.client.Extension("AUTH")
	for _, known := range []struct {
		name string
		auth smtp.Auth
	}{
		{"SCRAM-SHA-256", smtp.ScramSHA256Auth(s.Username, s.Password.Expose())},
		{"PLAIN", smtp.PlainAuth("", s.Username, s.Password.Expose(), t.host, false)},
		{"LOGIN", smtp.LoginAuth(s.Username, s.Password.Expose(), t.host, false)},
	} {
		for word := range strings.FieldsSeq(offered) {
			if strings.EqualFold(word, known.name) {
				return t.client.Auth(known.auth)
			}
		}
	}
	return &termsError{fmt.Sprintf("it offers none of the ways to sign in that payersync knows (SCRAM-SHA-256, PLAIN, LOGIN), but %q", t.clean(offered))}
}

func (t *conversation) sender(context.Context) error { return t.client.Mail("<" + t.from + ">") }

func (t *conversation) recipient(context.Context) error { return t.client.Rcpt("<" + t.to + ">") }

// deliver gives the server the message. From its first byte on, only an answer is certain.
func (t *conversation) deliver(ctx context.Context, message []byte) (answer string, err error) {
	w, err := t.client.Data()
	if err != nil {
		return "", t.failed(err)
	}
	if t.client.Text.R.Buffered() > 0 { // it would be taken for the answer to the message
		return "", t.failed(errors.New("it answered what it was not asked"))
	}
	if ctx.Err() != nil {
		return "", t.failed(context.Cause(ctx))
	}
	t.limit.set(positive(t.server.Verdict, defaultVerdict))
	_, cut := w.Write(message)
	err = w.Close() // reads the answer, even an early one
	if err == nil && cut == nil {
		if said, ok := w.(*smtp.DataCloser); ok {
			answer = t.clean(said.ServerResponse())
		}
		t.limit.set(lastWord)
		_ = t.client.Quit() // it is accepted, whatever follows
		return answer, nil
	}
	failed := t.failed(errors.Join(err, cut))
	var not *NotSentError
	if errors.As(failed, &not) {
		return "", &UnclearError{not.Err}
	}
	return "", failed
}

// failed returns the error of a stage: the server's answer, or its absence. Without an answer nothing was
// sent; hand has its own error for the message.
func (t *conversation) failed(err error) error {
	var terms *termsError
	if errors.As(err, &terms) {
		return &RefusedError{t.stage, Answer{Text: terms.why}}
	}
	var said *textproto.Error
	if !errors.As(err, &said) {
		return &NotSentError{t.stage, &silence{t.stage, t.clean(err.Error()), err}}
	}
	a := Answer{Code: said.Code, Text: t.clean(said.Msg)}
	a.Enhanced = enhanced.FindString(a.Text)
	switch {
	case said.Code >= 500 && said.Code < 600:
		return &RefusedError{t.stage, a}
	case said.Code >= 400 && said.Code < 500:
		return &DeferredError{t.stage, a}
	}
	return &NotSentError{t.stage,
		fmt.Errorf("the mail server answered %s with %s, which is neither yes nor no", t.stage, a)}
}

// clean returns a server's answer safe to show: some repeat the client's input.
func (t *conversation) clean(said string) string {
	if password := t.server.Password.Expose(); password != "" {
		user := t.server.Username
		for _, secret := range []string{password, user + "\x00" + password, "\x00" + user + "\x00" + password} {
			said = strings.ReplaceAll(said, base64.StdEncoding.EncodeToString([]byte(secret)), "…")
			said = strings.ReplaceAll(said, secret, "…")
		}
	}
	return cleaned(said, t.to)
}

// limit is by when a connection must have answered.
type limit struct {
	mu      sync.Mutex
	conn    net.Conn
	hurried bool
}

// set gives the connection so long from now; no longer once it was hurried.
func (l *limit) set(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hurried {
		l.by(d)
	}
}

// hurry leaves the connection the time for a last word.
func (l *limit) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hurried = true
	l.by(lastWord)
}

// by sets the deadline. If that fails the connection is gone, and the next command fails.
func (l *limit) by(d time.Duration) { _ = l.conn.SetDeadline(time.Now().Add(d)) }

func positive(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
