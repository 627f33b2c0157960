package mail_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"payersync/connector"
	"payersync/connector/mail"
	"payersync/connector/mail/mailtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	from    = "accounts@harbour.example"
	to      = "maureen@tideswell.example"
	message = "From: <accounts@harbour.example>\r\nTo: <maureen@tideswell.example>\r\nSubject: x\r\n\r\nA line.\r\n.\r\nThe last line.\r\n"
)

// outcome names what a caller is told.
func outcome(err error) string {
	var refused *mail.RefusedError
	var deferred *mail.DeferredError
	var notSent *mail.NotSentError
	var unclear *mail.UnclearError
	switch {
	case err == nil:
		return "sent"
	case errors.As(err, &refused):
		return "refused at " + string(refused.Stage)
	case errors.As(err, &deferred):
		return "deferred at " + string(deferred.Stage)
	case errors.As(err, &notSent):
		return "not sent at " + string(notSent.Stage)
	case errors.As(err, &unclear):
		return "unclear"
	}
	return "an error of no kind: " + err.Error()
}

func TestAMessageIsHandedOverOnceAsItIs(t *testing.T) {
	t.Parallel()
	for _, how := range []mail.Encryption{mail.StartTLS, mail.ImplicitTLS, mail.NoTLS} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			box := mailtest.New(t, how)
			server := box.Server(how)
			answer, err := server.Send(t.Context(), from, to, []byte(message))
			if err != nil || !strings.Contains(answer, "OK") {
				t.Fatalf("the server said %q, %v", answer, err)
			}
			got := box.Received()
			if len(got) != 1 || got[0].From != from || len(got[0].To) != 1 || got[0].To[0] != to || got[0].Raw != message {
				t.Fatalf("it came as %+v", got)
			}
			if got[0].Secure != (how != mail.NoTLS) || how != mail.NoTLS && got[0].User != mailtest.Username {
				t.Errorf("encrypted: %t, signed in: %q", got[0].Secure, got[0].User)
			}
		})
	}
}

func TestWhatAServerSaysIsANoForNowOrForGood(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		step  mailtest.Point
		stage mail.Stage
	}{{mailtest.AtHello, mail.AtGreeting}, {mailtest.AtSignIn, mail.AtSignIn}, {mailtest.AtMail, mail.AtSender},
		{mailtest.AtRcpt, mail.AtRecipient}, {mailtest.AtData, mail.AtMessage}} {
		for code, word := range map[int]string{421: "deferred", 450: "deferred", 452: "deferred", 550: "refused",
			554: "refused"} {
			t.Run(fmt.Sprintf("%d at %s", code, tt.step), func(t *testing.T) {
				t.Parallel()
				box := mailtest.New(t, mail.ImplicitTLS)
				box.Fail(tt.step, mailtest.Refusal(code, "5.1.1 says the server"))
				server := box.Server(mail.ImplicitTLS)
				_, err := server.Send(t.Context(), from, to, []byte(message))
				if got, want := outcome(err), word+" at "+string(tt.stage); got != want {
					t.Fatalf("it is %s (%v), want %s", got, err, want)
				}
				if says := fmt.Sprintf("did not take %s: %d 5.1.1 says the server", tt.stage, code); !strings.Contains(err.Error(),
					says) {
					t.Errorf("it is told as %q, want %q", err, says)
				}
				var refused *mail.RefusedError
				if errors.As(err, &refused) && (refused.Answer.Code != code || refused.Answer.Enhanced != "5.1.1") {
					t.Errorf("the answer is kept as %+v", refused.Answer)
				}
				if len(box.Received()) != 0 {
					t.Error("and it arrived")
				}
			})
		}
	}
}

func TestOnlyWhatIsSaidOfTheMessageIsSaidOfThePayer(t *testing.T) {
	t.Parallel()
	for stage, want := range map[mail.Stage]bool{
		mail.AtConnection: false, mail.AtGreeting: false, mail.AtEncryption: false, mail.AtSignIn: false,
		mail.AtSender:    false,
		mail.AtRecipient: true, mail.AtMessage: true,
	} {
		if stage.OfThisMessage() != want {
			t.Errorf("an answer to %s is about one message: %t", stage, !want)
		}
	}
}

// scripted is a server that says what it is told to, line by line, and then does the last thing.
type scripted struct {
	address string
	heard   chan string // what it was sent, when the conversation is over
}

// script serves one conversation: each answer is given when a line came, and the first at once.
// An answer "…" swallows the message up to its end, or as many lines of it as stand behind.
// After the last answer the connection is cut, or, with mute, kept open until the test is done.
func script(t *testing.T, mute bool, answers ...string) *scripted {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{listener.Addr().String(), make(chan string, 1)}
	over := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			s.heard <- ""
			return
		}
		var heard strings.Builder
		in := bufio.NewReader(conn)
		line := func() string {
			l, _ := in.ReadString('\n')
			heard.WriteString(l)
			return l
		}
		for i, answer := range answers {
			lines, swallow := strings.CutPrefix(answer, "…")
			switch {
			case swallow && lines == "":
				for l := line(); l != "" && l != ".\r\n"; l = line() {
				}
			case swallow:
				for range len(lines) {
					line()
				}
			default:
				if i > 0 && !strings.HasPrefix(answers[i-1], "…") && !strings.HasPrefix(answers[i-1], "250-") {
					line()
				}
				fmt.Fprintf(conn, "%s\r\n", answer)
			}
		}
		if mute {
			<-over
		}
		_ = conn.Close()
		s.heard <- heard.String()
	}()
	t.Cleanup(func() { close(over); _ = listener.Close(); <-done })
	return s
}

// untilData is what a server says until it wants the message.
var untilData = []string{"220 mail.example.org", "250 mail.example.org", "250 sender", "250 recipient", "354 go on"}

// covers F135
func TestACutConnectionIsUnclearFromTheFirstByteOfTheMessageOn(t *testing.T) {
	t.Parallel()
	cut := func(n int, more ...string) []string { return append(append([]string(nil), untilData[:n]...), more...) }
	for _, tt := range []struct {
		name    string
		answers []string
		want    string
	}{
		{"at once", cut(0), "not sent at the greeting"},
		{"after the greeting", cut(1), "not sent at the greeting"},
		{"after EHLO", cut(2), "not sent at the sender"},
		{"after the sender", cut(3), "not sent at the recipient"},
		{"after the recipient", cut(4), "not sent at the mail"},
		{"in the middle of the message", cut(5, "…12"), "unclear"},
		{"after the message, before its answer", cut(5, "…"), "unclear"},
		{"after a part of the answer", cut(5, "…", "250-it is"), "unclear"},
		{"after the answer, before QUIT", cut(5, "…", "250 taken"), "sent"},
		{"QUIT is refused", cut(5, "…", "250 taken", "421 no"), "sent"},
		{"nonsense before the message", cut(4, "what?"), "not sent at the mail"},
		{"nonsense after the message", cut(5, "…", "what?"), "unclear"},
		{"neither yes nor no before the message", cut(3, "354 go on"), "not sent at the recipient"},
		{"neither yes nor no after the message", cut(5, "…", "354 go on"), "unclear"},
		{"another yes than the one there is", cut(5, "…", "252 perhaps"), "unclear"},
		{"a no before the end of the message", cut(5, "…123", "552 too much"), "refused at the mail"},
		{"it goes away at the greeting", []string{"421 too busy"}, "deferred at the greeting"},
		{"it goes away at the message", cut(5, "…", "421 going down"), "deferred at the mail"},
		{"it answers twice", cut(4, "354 go on\r\n250 taken already"), "not sent at the mail"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := script(t, false, tt.answers...)
			server := &mail.Server{Addr: s.address, TLS: mail.NoTLS}
			_, err := server.Send(t.Context(), from, to, []byte(message))
			if got := outcome(err); got != tt.want {
				t.Errorf("it is %s (%v), want %s", got, err, tt.want)
			}
			heard := <-s.heard
			if strings.HasPrefix(outcome(err), "not sent") && strings.Contains(heard, "A line.") {
				t.Errorf("nothing was sent, it says, and the server heard:\n%s", heard)
			}
			if strings.Count(heard, "DATA\r\n") > 1 {
				t.Errorf("it was tried twice:\n%s", heard)
			}
		})
	}
}

func TestAServerThatNeverAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	for n := range len(untilData) + 2 {
		answers, want := append([]string(nil), untilData...), "unclear"
		if n <= len(untilData) {
			answers = answers[:n]
		} else {
			answers = append(answers, "…")
		}
		if n < len(untilData) {
			want = "not sent"
		}
		t.Run(fmt.Sprint(n, " answers"), func(t *testing.T) {
			t.Parallel()
			s := script(t, true, answers...)
			server := &mail.Server{Addr: s.address, TLS: mail.NoTLS, Patience: 300 * time.Millisecond,
				Verdict: 300 * time.Millisecond}
			_, err := server.Send(t.Context(), from, to, []byte(message))
			if got := outcome(err); !strings.HasPrefix(got, want) {
				t.Errorf("it is %s (%v), want %s", got, err, want)
			}
		})
	}
}

// A stopping payersync begins no new message.
func TestAnEndedContextKeepsTheMessageBack(t *testing.T) {
	t.Parallel()
	for _, step := range []mailtest.Point{mailtest.AtHello, mailtest.AtMail, mailtest.AtRcpt} {
		box := mailtest.New(t, mail.NoTLS)
		ctx, cancel := context.WithCancel(t.Context())
		box.FailBy(step, func() error { cancel(); return nil })
		server := box.Server(mail.NoTLS)
		_, err := server.Send(ctx, from, to, []byte(message))
		if got := outcome(err); !strings.HasPrefix(got, "not sent") || !errors.Is(err, context.Canceled) ||
			len(box.Received()) != 0 {
			t.Errorf("stopped at %s: it is %s (%v)", step, got, err)
		}
	}
}

func TestTheAnswerIsHeardThatComesAfterTheContextEnded(t *testing.T) {
	t.Parallel()
	box := mailtest.New(t, mail.NoTLS)
	ctx, cancel := context.WithCancel(t.Context())
	box.FailBy(mailtest.AtAnswer, func() error { cancel(); return nil })
	server := box.Server(mail.NoTLS)
	if _, err := server.Send(ctx, from, to, []byte(message)); err != nil || len(box.Received()) != 1 {
		t.Errorf("it is %s (%v)", outcome(err), err)
	}
}

func TestNothingIsSaidToAServerThatCannotBeTrusted(t *testing.T) {
	t.Parallel()
	bare, encrypted := mailtest.New(t, mail.NoTLS), mailtest.New(t, mail.StartTLS)
	stranger := encrypted.Server(mail.StartTLS)
	_, stranger.Roots = mailtest.Certify(t)
	unencrypted := bare.Server(mail.NoTLS)
	unencrypted.TLS = mail.StartTLS
	clear := bare.Server(mail.NoTLS)
	clear.Username, clear.Password = mailtest.Username, connector.NewSecret(mailtest.Password)
	unknown := bare.Server("")
	for name, tt := range map[string]struct {
		server mail.Server
		want   string
	}{
		"no STARTTLS":         {unencrypted, "refused at the encryption"},
		"unknown certificate": {stranger, "not sent at the encryption"},
		"password in clear":   {clear, "not sent at the connection"},
		"no kind of TLS":      {unknown, "not sent at the connection"},
		"plain, elsewhere":    {mail.Server{Addr: "mail.example.org:25", TLS: mail.NoTLS}, "not sent at the connection"},
		"no port":             {mail.Server{Addr: "mail.example.org", TLS: mail.StartTLS}, "not sent at the connection"},
	} {
		if _, err := tt.server.Send(t.Context(), from, to, []byte(message)); outcome(err) != tt.want {
			t.Errorf("%s: it is %s (%v), want %s", name, outcome(err), err, tt.want)
		}
	}
	if len(bare.Received())+len(encrypted.Received()) != 0 {
		t.Error("something was handed over")
	}
}

func TestNoPasswordAndNoAddressIsInAnError(t *testing.T) {
	t.Parallel()
	box := mailtest.New(t, mail.StartTLS)
	server := box.Server(mail.StartTLS)
	server.Password = connector.NewSecret("another-password")
	_, err := server.Send(t.Context(), from, to, []byte(message))
	if outcome(err) != "refused at user name and password" || strings.Contains(err.Error(), "another-password") {
		t.Errorf("a wrong password is told as %v", err)
	}
	for _, said := range []string{
		"<maureen@tideswell.example>: no such user", "no such user maureen", "MAUREEN at Tideswell.Example",
		`"maureen"@tideswell.example is gone`,
		"maureen+tideswell.example@lists.example.net bounced", "maureen=40tideswell.example",
		"relay for maureen%tideswell.example, maureen",
		"user\r\n maureen@\r\n tideswell.example", "<\u202emaureen@tideswell.example>", "MÄUREEN@tideswell.example",
		"AGFub3RoZXI= another-password YW5vdGhlci1wYXNzd29yZA==",
	} {
		box.Fail(mailtest.AtSignIn, mailtest.Refusal(550, said))
		_, err := server.Send(t.Context(), from, to, []byte(message))
		if err == nil || !strings.Contains(err.Error(), "550") {
			t.Fatalf("it is %v", err)
		}
		for _, never := range []string{"maureen", "tideswell", "another-password", "YW5vdGhlci1wYXNzd29yZA", "\u202e", "\n"} {
			if strings.Contains(strings.ToLower(err.Error()), strings.ToLower(never)) {
				t.Errorf("%q is told as %q", said, err)
			}
		}
	}
}

func TestAnAnswerIsCutAndIsOneLine(t *testing.T) {
	t.Parallel()
	s := script(t, false, append(untilData[:5:5], "…", "250-taken by maureen@tideswell.example",
		"250 "+strings.Repeat("ä", 400))...)
	server := &mail.Server{Addr: s.address, TLS: mail.NoTLS}
	answer, err := server.Send(t.Context(), from, to, []byte(message))
	if err != nil || !strings.HasPrefix(answer, "taken by <address> ä") || len(answer) > 310 ||
		strings.ToValidUTF8(answer, "") != answer {
		t.Errorf("the answer is kept as %q, %v", answer, err)
	}
}

func TestWhatIsNotExactlyOnePlainAddressIsRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"accounts@harbour.example", "a.b+c@x-y.example.org", "root@localhost",
		"o'neil@example.org", "UPPER@EXAMPLE.ORG"} {
		if err := mail.CheckAddress(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for address, want := range map[string]error{
		"": mail.ErrNoAddress, "  ": mail.ErrNoAddress,
		"a@example.org, b@example.org": mail.ErrManyAddresses, "a@example.org;b@example.org": mail.ErrManyAddresses,
		"a@b@example.org":             mail.ErrManyAddresses,
		"a@example.org b@example.org": mail.ErrManyAddresses, "list:a@example.org;": mail.ErrManyAddresses,
		"Maureen <a@example.org>": mail.ErrNamedAddress, "<a@example.org>": mail.ErrNamedAddress,
		"maureen@tideßwell.example": mail.ErrForeignLetters, "a@example.org\u202e": mail.ErrForeignLetters,
		"a": mail.ErrNotPlain, "@example.org": mail.ErrNotPlain, "a@": mail.ErrNotPlain, ".a@example.org": mail.ErrNotPlain,
		"a..b@example.org":  mail.ErrNotPlain,
		`"a b"@example.org`: mail.ErrNotPlain, "a b@example.org": mail.ErrNotPlain, " a@example.org": mail.ErrNotPlain,
		"a@example.org\r\nRCPT TO": mail.ErrNotPlain,
		"a@[127.0.0.1]":            mail.ErrNotPlain, "a@-example.org": mail.ErrNotPlain, "a@example..org": mail.ErrNotPlain,
		"a@example.org.":          mail.ErrNotPlain,
		"a%b.example@example.org": mail.ErrNotPlain, "b.example!a@example.org": mail.ErrNotPlain,
		"a@exam_ple.org": mail.ErrNotPlain, "(x)a@example.org": mail.ErrNotPlain,
		strings.Repeat("a", 65) + "@example.org": mail.ErrNotPlain, "a@" + strings.Repeat("a.", 130) +
			"org": mail.ErrNotPlain,
	} {
		if err := mail.CheckAddress(address); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", address, err, want)
		}
		server := &mail.Server{Addr: "127.0.0.1:9", TLS: mail.NoTLS}
		if _, err := server.Send(t.Context(), from, address, []byte(message)); !errors.Is(err, want) ||
			outcome(err) != "not sent at the connection" {
			t.Errorf("a message to %q: %v", address, err)
		}
	}
}

func TestAMessageWithStrayLineEndsIsNotSent(t *testing.T) {
	t.Parallel()
	box := mailtest.New(t, mail.NoTLS)
	server := box.Server(mail.NoTLS)
	for _, body := range []string{"a\nb", "a\rb", "a\r\r\nb", "a\n.\r\nMAIL FROM:<x@y>", "a\r\n.\rb", "a\x00b"} {
		if _, err := server.Send(t.Context(), from, to, []byte(body)); outcome(err) != "not sent at the connection" {
			t.Errorf("%q is %s (%v)", body, outcome(err), err)
		}
	}
	if box.Talks() != 0 {
		t.Error("something was said")
	}
}
