package alarm

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
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

// Email tells one person, or one list, by mail. There is one recipient, so that a message was
// either taken or it was not.
type Email struct {
	To, From  string // addresses
	Server    string // host and port
	TLS       Encryption
	Username  string // "" for a server that asks for none
	Password  connector.Secret
	HelloName string         // what this machine calls itself; "" for localhost
	Roots     *x509.CertPool // who vouches for the server; nil for the system's
}

// How long a conversation with a mail server may take, and how long what is under way may
// when payersync is told to stop meanwhile: to hear the answer, and again to note it.
const (
	mailPatience = time.Minute
	lastWord     = 5 * time.Second
)

// Freeze returns the mail, headers and all.
func (e *Email) Freeze(m Message) ([]byte, error) {
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := errors.Join(msg.From(e.From), msg.To(e.To)); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(e.From, "@")
	msg.SetMessageIDWithValue(m.ID + "@" + domain)
	msg.SetDateWithValue(m.At)
	msg.Subject(m.Subject())
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // nobody answers that they are on holiday
	msg.SetBodyString(mail.TypeTextPlain, m.Text())
	var out bytes.Buffer
	_, err := msg.WriteTo(&out)
	return out.Bytes(), err
}

// Send hands a mail to the server.
func (e *Email) Send(ctx context.Context, _ string, body []byte) (answer string, err error) {
	host, _, err := net.SplitHostPort(e.Server)
	if err != nil {
		return "", err
	}
	conn, err := (&net.Dialer{Timeout: mailPatience / 4}).DialContext(ctx, "tcp", e.Server)
	if err != nil {
		return "", fmt.Errorf("the mail server %s cannot be reached: %w", e.Server, err)
	}
	defer func() { _ = conn.Close() }() // QUIT was said, or nobody listens
	if err := conn.SetDeadline(time.Now().Add(mailPatience)); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now().Add(lastWord)) })
	defer stop()
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: e.Roots}
	over := conn
	if e.TLS == ImplicitTLS {
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return "", fmt.Errorf("no encrypted connection to the mail server: %w", err)
		}
		over = secured
	}
	c, err := smtp.NewClient(over, host)
	if err != nil {
		return "", failed("the mail server's greeting", err)
	}
	if err := e.greet(c, config); err != nil {
		return "", err
	}
	return e.hand(c, body)
}

// greet introduces us, encrypts the connection, and signs in.
func (e *Email) greet(c *smtp.Client, config *tls.Config) error {
	c.SkipSMTPUTF8(true)
	name := e.HelloName
	if name == "" {
		name = "localhost"
	}
	if err := c.Hello(name); err != nil {
		return failed("the mail server's greeting", err)
	}
	if e.TLS == StartTLS {
		if offered, _ := c.Extension("STARTTLS"); !offered {
			return &RefusedError{errors.New("the mail server does not offer STARTTLS, so nothing was said to it; see the way's tls and port")}
		}
		if err := c.StartTLS(config); err != nil {
			return failed("STARTTLS", err)
		}
	}
	if e.Username == "" {
		return nil
	}
	how, err := e.auth(c, config.ServerName)
	if err != nil {
		return err
	}
	if err := c.Auth(how); err != nil {
		return failed("user name and password", err)
	}
	return nil
}

// auth chooses how to sign in: so that the server learns no password, where it offers that.
func (e *Email) auth(c *smtp.Client, host string) (smtp.Auth, error) {
	_, offered := c.Extension("AUTH")
	for _, known := range []struct {
		name string
		auth smtp.Auth
	}{
		{"SCRAM-SHA-256", smtp.ScramSHA256Auth(e.Username, e.Password.Expose())},
		{"PLAIN", smtp.PlainAuth("", e.Username, e.Password.Expose(), host, false)},
		{"LOGIN", smtp.LoginAuth(e.Username, e.Password.Expose(), host, false)},
	} {
		for word := range strings.FieldsSeq(offered) {
			if strings.EqualFold(word, known.name) {
				return known.auth, nil
			}
		}
	}
	return nil, &RefusedError{fmt.Errorf("the mail server offers none of the ways to sign in that payersync knows (SCRAM-SHA-256, PLAIN, LOGIN), but %q", plain(offered))}
}

// hand says who writes to whom, and what.
func (e *Email) hand(c *smtp.Client, body []byte) (answer string, err error) {
	if err := c.Mail("<" + e.From + ">"); err != nil {
		return "", failed("the sender "+e.From, err)
	}
	if err := c.Rcpt("<" + e.To + ">"); err != nil {
		return "", failed("the recipient", err)
	}
	w, err := c.Data()
	if err != nil {
		return "", failed("the mail", err)
	}
	if _, err := w.Write(body); err != nil {
		return "", failed("the mail", err)
	}
	if err := w.Close(); err != nil {
		return "", failed("the mail", err)
	}
	if said, ok := w.(*smtp.DataCloser); ok {
		answer = plain(said.ServerResponse())
	}
	_ = c.Quit() // it was taken, whatever comes now
	return answer, nil
}

// failed says what a mail server did not take, and whether it never will.
func failed(what string, err error) error {
	var said *textproto.Error
	if !errors.As(err, &said) {
		return fmt.Errorf("the mail server took %s with no answer: %w", what, err)
	}
	const longest = 300
	text := plain(said.Msg)
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	err = fmt.Errorf("the mail server did not take %s: %d %s", what, said.Code, text)
	if said.Code >= 500 {
		return &RefusedError{err}
	}
	return err
}
