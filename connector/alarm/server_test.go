package alarm

import (
	"io"
	"net/mail"
	"strings"
	"testing"

	smtp "payersync/connector/mail"
	"payersync/connector/mail/mailtest"
)

// mailbox is a mail server with one mailbox.
type mailbox struct {
	*mailtest.Box
	t *testing.T
}

// newMailbox serves a mailbox.
func newMailbox(t *testing.T, how smtp.Encryption) *mailbox {
	t.Helper()
	return &mailbox{mailtest.New(t, how), t}
}

// way returns how the mailbox is told.
func (b *mailbox) way(how smtp.Encryption) *Email {
	return &Email{To: "ops@example.org", From: "payersync@example.com", Server: b.Server(how)}
}

// received returns the mails that came, as they came.
func (b *mailbox) received() (out []string) {
	for _, m := range b.Received() {
		out = append(out, m.Raw)
	}
	return out
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
	return letter{m.Header.Get("Message-ID"), subject, m.Header.Get("To"), strings.ReplaceAll(string(body), "\r\n", "\n"),
		m.Header}
}
