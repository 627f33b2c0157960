package alarm

import (
	"io"
	"mime"
	"mime/quotedprintable"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"payersync/connector"
	"payersync/connector/health"
	smtp "payersync/connector/mail"
	"payersync/connector/mail/mailtest"
	"payersync/connector/outbox"
	"payersync/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var words mime.WordDecoder

func decoder(encoding string, body io.Reader) io.Reader {
	if strings.EqualFold(encoding, "quoted-printable") {
		return quotedprintable.NewReader(body)
	}
	return body
}

// sample is a message that tells of one condition.
func sample() Message {
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	return Message{
		ID: "MESSAGE1", Kind: KindAlarms, At: at, Installation: "test",
		when: func(at time.Time) string { return at.Format(time.RFC3339) },
		Begun: []Notice{{Code: health.RunFailed, Subject: "acme", Connection: "acme", Urgent: true, Since: at,
			Sentence: "The last run of acme did not come to its end.", Next: "Look at it."}},
	}
}

func TestMailIsHandedOverEncryptedAndSignedIn(t *testing.T) {
	t.Parallel()
	for _, how := range []smtp.Encryption{smtp.StartTLS, smtp.ImplicitTLS, smtp.NoTLS} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			box := newMailbox(t, how)
			way := box.way(how)
			body, err := way.Freeze(sample())
			if err != nil {
				t.Fatal(err)
			}
			answer, err := way.Send(t.Context(), "MESSAGE1", body)
			if err != nil || !strings.Contains(answer, "OK") {
				t.Fatalf("the server said %q, %v", answer, err)
			}
			got := box.read()
			if len(got) != 1 || got[0].id != "<MESSAGE1@example.com>" ||
				got[0].subject != "payersync test: A run failed, acme" || !strings.Contains(got[0].to, "ops@example.org") {
				t.Fatalf("it came as %+v", got)
			}
			if got[0].header.Get("Auto-Submitted") != "auto-generated" ||
				!strings.Contains(got[0].text, "\n- The last run of acme did not come to its end.\n") {
				t.Errorf("the mail reads:\n%s", box.received()[0])
			}
			if m := box.Received()[0]; m.Secure != (how != smtp.NoTLS) || m.Secure != (m.User == mailtest.Username) {
				t.Errorf("encrypted: %t, signed in: %q", m.Secure, m.User)
			}
			if again, err := way.Freeze(sample()); err != nil || string(again) != string(body) {
				t.Errorf("the same message is written in two ways: %v", err)
			}
		})
	}
}

func TestWhatAMailServerSaysTellsWhetherItIsTriedAgain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		step    mailtest.Point
		answer  error
		refused bool
		says    string
	}{
		{"sender refused", mailtest.AtMail, mailtest.Refusal(550, "go away"), true,
			"the mail server did not take the sender: 550 go away"},
		{"sender later", mailtest.AtMail, mailtest.Refusal(451, "greylisted"), false, "the sender: 451 greylisted"},
		{"recipient refused", mailtest.AtRcpt, mailtest.Refusal(550, "no such user"), true,
			"did not take the recipient: 550 no such user"},
		{"recipient later", mailtest.AtRcpt, mailtest.Refusal(450, "mailbox busy"), false, "450 mailbox busy"},
		{"mail refused", mailtest.AtData, mailtest.Refusal(554, "it looks like spam"), true,
			"did not take the mail: 554 it looks like spam"},
		{"mail later", mailtest.AtData, mailtest.Refusal(452, "disk full"), false, "452 disk full"},
		{"cut at the sender", mailtest.AtMail, mailtest.ErrCut, false, "took the sender with no answer"},
		{"cut at the recipient", mailtest.AtRcpt, mailtest.ErrCut, false, "took the recipient with no answer"},
		{"cut before it was taken", mailtest.AtData, mailtest.ErrCut, false, "took the mail with no answer"},
		{"cut after it was taken", mailtest.AtAnswer, mailtest.ErrCut, false, "took the mail with no answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			box := newMailbox(t, smtp.StartTLS)
			box.Fail(tt.step, tt.answer)
			_, err := box.way(smtp.StartTLS).Send(t.Context(), "", []byte("Subject: x\r\n\r\nx\r\n"))
			refused := outbox.OutcomeOf("", err).State == state.MessageRefused
			if err == nil || refused != tt.refused || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it is told as %v (refused: %t), want %q", err, refused, tt.says)
			}
		})
	}
}

// A record's id comes from the books: whatever stands in it, it ends no header.
func TestNothingThatIsToldEndsAHeader(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, smtp.NoTLS)
	m := sample()
	evil := "acme\r\nBcc: everybody@example.org\r\n\r\nBuy now"
	m.Installation, m.Begun[0].Connection, m.Begun[0].Subject, m.Begun[0].Sentence = evil, evil, evil,
		connector.OneLine(evil)
	way := box.way(smtp.NoTLS)
	body, err := way.Freeze(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := way.Send(t.Context(), "", body); err != nil {
		t.Fatal(err)
	}
	got := box.read()[0]
	if got.header.Get("Bcc") != "" || strings.HasPrefix(got.text, "Buy") {
		t.Errorf("a header was made of a record's id:\n%s", box.received()[0])
	}
}
