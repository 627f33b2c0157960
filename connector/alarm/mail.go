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

// Email tells one person, or one list, by mail. There is one recipient, so that a message was
// either taken or it was not.
type Email struct {
	To, From string // addresses
	Server   smtp.Server
}

// How long what is under way may take when payersync is told to stop meanwhile: to note the
// answer that was heard.
const lastWord = 5 * time.Second

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

// Send hands a mail to the server. When it is not known whether that took it, it is handed over
// again: an alarm that comes twice does less harm than one that does not come.
func (e *Email) Send(ctx context.Context, _ string, body []byte) (answer string, err error) {
	server := e.Server
	server.Verdict = time.Minute // other ways wait meanwhile
	answer, err = server.Send(ctx, e.From, e.To, body)
	var refused *smtp.RefusedError
	if errors.As(err, &refused) {
		return "", &RefusedError{err}
	}
	return answer, err
}
