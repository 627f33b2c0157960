package alarm

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"payersync/connector"
	"payersync/connector/condition"
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
		ID: "MESSAGE1", Kind: KindAlarms, At: at, Installation: "test", when: func(at time.Time) string { return at.Format(time.RFC3339) },
		Begun: []Told{{Code: condition.RunFailed, Subject: "acme", Connection: "acme", Urgent: true, Since: at, Sentence: "The last run of acme did not come to its end.", Next: "Look at it."}},
	}
}

func TestMailIsHandedOverEncryptedAndSignedIn(t *testing.T) {
	t.Parallel()
	for _, how := range []Encryption{StartTLS, ImplicitTLS, NoTLS} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			box := newMailbox(t, how)
			way := box.way(how)
			if how != NoTLS {
				way.Username, way.Password = "payersync", secretOfMail
			}
			body, err := way.Freeze(sample())
			if err != nil {
				t.Fatal(err)
			}
			answer, err := way.Send(t.Context(), "MESSAGE1", body)
			if err != nil || !strings.Contains(answer, "OK") {
				t.Fatalf("the server said %q, %v", answer, err)
			}
			got := box.read()
			if len(got) != 1 || got[0].id != "<MESSAGE1@example.com>" || got[0].subject != "payersync test: A run failed, acme" || !strings.Contains(got[0].to, "ops@example.org") {
				t.Fatalf("it came as %+v", got)
			}
			if got[0].header.Get("Auto-Submitted") != "auto-generated" || !strings.Contains(got[0].text, "\n- The last run of acme did not come to its end.\n") {
				t.Errorf("the mail reads:\n%s", box.received()[0])
			}
			if box.secure != (how != NoTLS) || how != NoTLS && box.user != "payersync" {
				t.Errorf("encrypted: %t, signed in: %q", box.secure, box.user)
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
		name, step string
		answer     error
		refused    bool
		says       string
	}{
		{"sender refused", atMail, refusal(550, "go away"), true, "the mail server did not take the sender payersync@example.com: 550 go away"},
		{"sender later", atMail, refusal(451, "greylisted"), false, "the sender payersync@example.com: 451 greylisted"},
		{"recipient refused", atRcpt, refusal(550, "no such user"), true, "did not take the recipient: 550 no such user"},
		{"recipient later", atRcpt, refusal(450, "mailbox busy"), false, "450 mailbox busy"},
		{"mail refused", atData, refusal(554, "it looks like spam"), true, "did not take the mail: 554 it looks like spam"},
		{"mail later", atData, refusal(452, "disk full"), false, "452 disk full"},
		{"cut at the sender", atMail, errCut, false, "took the sender payersync@example.com with no answer"},
		{"cut at the recipient", atRcpt, errCut, false, "took the recipient with no answer"},
		{"cut before it was taken", atData, errCut, false, "took the mail with no answer"},
		{"cut after it was taken", atAnswer, errCut, false, "took the mail with no answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			box := newMailbox(t, StartTLS)
			box.fails(tt.step, tt.answer)
			_, err := box.way(StartTLS).Send(t.Context(), "", []byte("Subject: x\r\n\r\nx\r\n"))
			var refused *RefusedError
			if err == nil || errors.As(err, &refused) != tt.refused || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it is told as %v (refused: %t), want %q", err, refused != nil, tt.says)
			}
		})
	}
}

func TestNothingIsSaidToAServerThatCannotBeTrusted(t *testing.T) {
	t.Parallel()
	bare, encrypted := newMailbox(t, NoTLS), newMailbox(t, StartTLS)
	stranger := encrypted.way(StartTLS)
	_, stranger.Roots = certify(t)
	unencrypted := bare.way(StartTLS)
	unencrypted.Username, unencrypted.Password = "payersync", secretOfMail
	for name, way := range map[string]*Email{"no STARTTLS": unencrypted, "unknown certificate": stranger} {
		if _, err := way.Send(t.Context(), "", []byte("x")); err == nil {
			t.Errorf("%s: the mail was handed over", name)
		}
	}
	if len(bare.received())+len(encrypted.received()) != 0 || bare.user != "" {
		t.Error("something was said")
	}
}

func TestAWrongPasswordIsRefusedAndNotShown(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, StartTLS)
	way := box.way(StartTLS)
	way.Username, way.Password = "payersync", connector.NewSecret("another-password")
	_, err := way.Send(t.Context(), "", []byte("x"))
	var refused *RefusedError
	if !errors.As(err, &refused) || strings.Contains(err.Error(), "another-password") {
		t.Errorf("it is told as %v", err)
	}
}

// A server that takes the connection and then says nothing holds nobody up for ever, and less
// when payersync is told to stop.
func TestAMuteServerIsGivenUp(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	way := &Email{To: "ops@example.org", From: "payersync@example.com", Server: listener.Addr().String(), TLS: NoTLS}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := way.Send(ctx, "", []byte("x")); err == nil {
		t.Error("a mail was handed to a server that says nothing")
	}
}

// A record's id comes from the books: whatever stands in it, it ends no header.
func TestNothingThatIsToldEndsAHeader(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, NoTLS)
	m := sample()
	evil := "acme\r\nBcc: everybody@example.org\r\n\r\nBuy now"
	m.Installation, m.Begun[0].Connection, m.Begun[0].Subject, m.Begun[0].Sentence = evil, evil, evil, plain(evil)
	way := box.way(NoTLS)
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
