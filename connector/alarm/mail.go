package alarm

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	smtp "payersync/connector/mail"
)

// Email sends messages to one person, or one list, by mail. With one recipient, a message is either accepted or not.
type Email struct {
	To, From string // addresses
	Server   smtp.Server
}

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
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // prevents automatic holiday replies
	msg.SetBodyString(mail.TypeTextPlain, m.Text())
	var out bytes.Buffer
	_, err := msg.WriteTo(&out)
	return out.Bytes(), err
}

// Send submits a mail to the server. If its acceptance is unknown, the mail is submitted again: a duplicate alarm does
// less harm than a missing one.
func (e *Email) Send(ctx context.Context, _ string, body []byte) (answer string, err error) {
	server := e.Server
	server.Verdict = time.Minute // other ways wait meanwhile
	return server.Send(ctx, e.From, e.To, body)
}
