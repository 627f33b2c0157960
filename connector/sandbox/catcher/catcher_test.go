package catcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// box is a catcher that is served, and how to reach it.
type box struct {
	*Catcher
	t       *testing.T
	address string
}

func serve(t *testing.T, opt Config) *box {
	t.Helper()
	opt.Now = func() time.Time { return start }
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &box{New(opt), t, listener.Addr().String()}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the catcher ended: %v", err)
		}
	})
	return b
}

// send sends a letter as a mail program does, and waits so long for every answer.
func (b *box) send(patience time.Duration, source string, recipients ...string) error {
	b.t.Helper()
	c, err := smtp.Dial(b.address)
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	c.CommandTimeout, c.SubmissionTimeout = patience, patience
	return c.SendMail("books@harbour.example", recipients, strings.NewReader(source))
}

func (b *box) must(source string, recipients ...string) {
	b.t.Helper()
	if err := b.send(10*time.Second, source, recipients...); err != nil {
		b.t.Fatal(err)
	}
}

func plain(subject string) string {
	return "From: books@harbour.example\r\nTo: a@payer.example\r\nSubject: " + subject + "\r\n\r\nGood morning\r\n"
}

const german = "From: =?utf-8?q?B=C3=A4ckerei?= <books@harbour.example>\r\n" +
	"To: \"J. =?utf-8?q?Gr=C3=BCn?=\" <j@gruen.example>\r\n" +
	"Subject: =?utf-8?q?Bitte_best=C3=A4tigen?=\r\n" +
	"Message-ID: <1@harbour.example>\r\n" +
	"MIME-Version: 1.0\r\n" +
	"Content-Type: multipart/alternative; boundary=XX\r\n\r\n" +
	"--XX\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" +
	"Gr=C3=BC=C3=9Fe: https://pay.example/sign/abc.\r\nNoch einmal: https://pay.example/sign/abc=\r\n und <http://b.example/x?y=3D1>\r\n" +
	"--XX\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n" +
	"PHA+R3LDvMOfZTwvcD4=\r\n--XX--\r\n"

func TestLetterIsReadAsItsReaderSeesIt(t *testing.T) {
	t.Parallel()
	b := serve(t, Config{})
	b.must(german, "j@gruen.example")
	want := []Letter{{
		Number: 1, ReceivedAt: start, Sender: "books@harbour.example", Recipients: []string{"j@gruen.example"},
		From: "Bäckerei <books@harbour.example>", To: `"J. Grün" <j@gruen.example>`, Subject: "Bitte bestätigen",
		MessageID: "<1@harbour.example>",
		Text:      "Grüße: https://pay.example/sign/abc.\nNoch einmal: https://pay.example/sign/abc und <http://b.example/x?y=1>",
		HTML:      "<p>Grüße</p>", Source: []byte(german),
	}}
	got := b.Letters("")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"https://pay.example/sign/abc", "http://b.example/x?y=1"}, got[0].Links()); diff != "" {
		t.Errorf("links (-want +got)\n%s", diff)
	}
}

func TestLettersThatCannotBeReadAreKeptAsTheyCame(t *testing.T) {
	t.Parallel()
	b := serve(t, Config{})
	for _, tt := range []struct{ name, source, text, html string }{
		{"no head", "\r\nonly a body\r\n", "only a body\n", ""},
		{"no mail at all", "nothing\r\n", "", ""},
		{"another character set", "Content-Type: text/plain; charset=iso-8859-1\r\n\r\nGr\xfcn\r\n", "Grün\n", ""},
		{"a character set nobody knows", "Content-Type: text/plain; charset=x-rot13\r\n\r\nUryyb\r\n", "", ""},
		{"broken base64", "Content-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\nPHA+!!\r\n", "", "<p>"},
		{"bytes that are no text", "Content-Type: text/plain\r\n\r\na\xff\r\n", "a\uFFFD\n", ""},
		{"an end that is missing", "Content-Type: multipart/mixed; boundary=X\r\n\r\n--X\r\n\r\nhalf", "half", ""},
		{"a part within a part", "Content-Type: multipart/mixed; boundary=X\r\n\r\n--X\r\nContent-Type: multipart/alternative; boundary=Y\r\n\r\n--Y\r\n\r\ndeep\r\n--Y--\r\n--X--\r\n", "deep", ""},
	} {
		b.must(tt.source, "a@payer.example")
		l := b.Letters("")[0]
		if l.Text != tt.text || l.HTML != tt.html {
			t.Errorf("%s: got text %q and HTML %q, want %q and %q", tt.name, l.Text, l.HTML, tt.text, tt.html)
		}
		if got := strings.TrimSuffix(string(l.Source), "\r\n"); got != strings.TrimSuffix(tt.source, "\r\n") {
			t.Errorf("%s: the source is %q, not %q", tt.name, got, tt.source)
		}
	}
}

func TestLettersAreFoundByRecipient(t *testing.T) {
	t.Parallel()
	b := serve(t, Config{})
	b.must(plain("one"), "Ada@payer.example")
	b.must(plain("two"), "ben@payer.example", "carla@other.example")
	for recipient, want := range map[string][]string{
		"": {"two", "one"}, "ada@PAYER.example": {"one"}, "other": {"two"}, "payer.example": {"two", "one"}, "nobody": {},
	} {
		got := []string{}
		for _, l := range b.Letters(recipient) {
			got = append(got, l.Subject)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("letters to %q (-want +got)\n%s", recipient, diff)
		}
	}
}

func TestLettersAreFoundByWhatTheySay(t *testing.T) {
	t.Parallel()
	b := serve(t, Config{})
	b.must(german, "test@harbour.example")
	b.must(plain("Reminder"), "test@harbour.example")
	for part, want := range map[string][]int{
		"": {2, 1}, "GRÜSSE": {}, "grüße": {1}, "reminder": {2}, "TEST@": {2, 1}, "good morning": {2}, "sign/abc": {1},
		"nothing": {},
	} {
		got := []int{}
		for _, l := range b.Search(part) {
			got = append(got, l.Number)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("letters with %q (-want +got)\n%s", part, diff)
		}
	}
}

// covers F151
func TestCatcherKeepsTheNewestWithinItsBounds(t *testing.T) {
	t.Parallel()
	size := len(plain("0")) + len("Good morning\n")
	for _, tt := range []struct {
		name string
		opt  Config
		want int
	}{
		{"so many letters", Config{Letters: 3}, 3},
		{"so many bytes", Config{Bytes: 2 * size}, 2},
		{"one letter that is more than all bytes", Config{Bytes: 1}, 1},
	} {
		b := serve(t, tt.opt)
		for n := range 5 {
			b.must(plain(fmt.Sprint(n)), "a@payer.example")
		}
		got := b.Letters("")
		if len(got) != tt.want || got[0].Subject != "4" || got[0].Number != 5 || b.Received() != 5 {
			t.Errorf("%s: %d kept of %d, the newest is number %d", tt.name, len(got), b.Received(), got[0].Number)
		}
		if _, ok := b.Letter(1); ok {
			t.Errorf("%s: the first letter is still there", tt.name)
		}
		b.Clear()
		b.must(plain("after"), "a@payer.example")
		if got := b.Letters(""); len(got) != 1 || got[0].Number != 6 {
			t.Errorf("%s: after forgetting, got %+v", tt.name, got)
		}
	}
}

func TestLettersThatAreTooLargeAreRefused(t *testing.T) {
	t.Parallel()
	b := serve(t, Config{MaxLetter: 1000})
	err := b.send(10*time.Second, plain(strings.Repeat("x", 100))+strings.Repeat("y\r\n", 400), "a@payer.example")
	if code(err) != 552 || b.Received() != 0 {
		t.Errorf("got %v, and %d letters", err, b.Received())
	}
}

// code returns what the server answered; 0 for no answer, 250 for yes.
func code(err error) int {
	var said *smtp.SMTPError
	switch {
	case err == nil:
		return 250
	case errors.As(err, &said):
		return said.Code
	}
	return 0
}

func TestEachFaultTellsTheSenderAndKeepsAsItSays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault MailFault
		code  int
		kept  int
	}{
		{MailFault{Kind: CutBefore}, 0, 0},
		{MailFault{Kind: Refused}, 550, 0},
		{MailFault{Kind: Refused, Code: 553}, 553, 0},
		{MailFault{Kind: Deferred}, 451, 0},
		{MailFault{Kind: CutWithin}, 0, 0},
		{MailFault{Kind: LetterRefused}, 554, 0},
		{MailFault{Kind: LetterDeferred, Code: 421}, 421, 0},
		{MailFault{Kind: CutAfter}, 0, 1},
		{MailFault{Kind: Silent}, 0, 1},
		{MailFault{Kind: Slow, Delay: time.Millisecond}, 250, 1},
	} {
		t.Run(fmt.Sprint(tt.fault.Kind, tt.fault.Code), func(t *testing.T) {
			t.Parallel()
			b := serve(t, Config{})
			tt.fault.Count = 1
			b.Inject(tt.fault)
			patience := 10 * time.Second
			if tt.fault.Kind == Silent {
				patience = 50 * time.Millisecond
			}
			err := b.send(patience, plain("x"), "a@payer.example")
			if code(err) != tt.code || b.Received() != tt.kept {
				t.Errorf("the sender was told %d (%v) and %d letters came; want %d and %d", code(err), err, b.Received(), tt.code,
					tt.kept)
			}
			b.must(plain("y"), "a@payer.example") // a fault that struck as often as it may is over
			if b.Received() != tt.kept+1 {
				t.Errorf("after the fault %d letters came", b.Received())
			}
		})
	}
}

func TestEveryFaultKindIsTried(t *testing.T) {
	t.Parallel()
	for _, kind := range FaultKinds() {
		if err := (MailFault{Kind: kind}).Validate(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestFaultsStrikeWhomAndWhenTheySay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault MailFault
		to    []string // one letter each
		codes []int
	}{
		{"one recipient", MailFault{Kind: Refused, Recipient: "A@payer.example"},
			[]string{"a@payer.example", "b@payer.example", "a@payer.example"}, []int{550, 250, 550}},
		{"one recipient's letter", MailFault{Kind: LetterDeferred, Recipient: "b@payer.example"},
			[]string{"a@payer.example", "b@payer.example"}, []int{250, 452}},
		{"the first let pass", MailFault{Kind: Deferred, Skip: 2}, []string{"a@x.example", "b@x.example", "c@x.example"},
			[]int{250, 250, 451}},
		{"every other", MailFault{Kind: LetterRefused, Every: 2},
			[]string{"a@x.example", "b@x.example", "c@x.example", "d@x.example"}, []int{250, 554, 250, 554}},
		{"twice", MailFault{Kind: Deferred, Count: 2}, []string{"a@x.example", "b@x.example", "c@x.example"},
			[]int{451, 451, 250}},
	} {
		b := serve(t, Config{})
		b.Inject(tt.fault)
		var got []int
		for _, to := range tt.to {
			got = append(got, code(b.send(10*time.Second, plain("x"), to)))
		}
		if diff := cmp.Diff(tt.codes, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.name, diff)
		}
		b.ClearFaults()
		b.must(plain("x"), tt.to...)
	}
}

func TestAFaultIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]MailFault{
		"refused, recipient=ada@payer.example,count=1,code=553": {Kind: Refused, Recipient: "ada@payer.example", Count: 1,
			Code: 553},
		"slow,skip=1,every=2,delay=2s": {Kind: Slow, Skip: 1, Every: 2, Delay: 2 * time.Second},
		"silent":                       {Kind: Silent},
	} {
		if got, err := ParseFault(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "flood", "refused,count=x", "refused,count=-1", "slow,delay=long", "refused,cuont=1",
		"refused,", "slow,code=550"} {
		if got, err := ParseFault(bad); err == nil {
			t.Errorf("%q is taken as %+v", bad, got)
		}
	}
}

func TestFaultsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for _, f := range []MailFault{{}, {Kind: "flood"}, {Kind: Refused, Code: 450}, {Kind: Slow, Code: 550},
		{Kind: Refused, Skip: -1}, {Kind: Slow, Delay: -1}} {
		if err := f.Validate(); err == nil {
			t.Errorf("%+v passes", f)
		}
	}
}
