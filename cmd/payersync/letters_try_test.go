package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"payersync/connector/mail"
	"payersync/connector/mail/mailtest"
)

// letters configures a mail server and the sender.
func (w *world) letters(address, more string) {
	w.t.Helper()
	host, port, err := net.SplitHostPort(address)
	w.must(err)
	w.edit("payersync.yaml", "\nlog: {", `
letters:
  smtp: {host: `+host+`, port: `+port+`, tls: none}
  from: "Harbour Bakery accounts <accounts@harbour.example>"
  legal: "Harbour Bakery Ltd, 1 Quay Street, Whitby"
  link_hosts: [pay.harbour.example]
  languages: [en, de]
`+more+`
log: {`)
}

func TestATestLetterReachesWhoeverIsNamedWithNobodysData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	box := mailtest.New(t, mail.NoTLS)
	w.letters(box.Address, "")
	if r := w.expect(exitDone, "letters", "preview", "--test", "--to", "me@harbour.example", "--kind", "reminder",
		"--language", "de"); !strings.Contains(r.out, "The mail server took the letter: ") {
		t.Errorf("it says %s", r.out)
	}
	got := box.Received()
	if len(got) != 1 || len(got[0].To) != 1 || got[0].To[0] != "me@harbour.example" ||
		got[0].From != "accounts@harbour.example" {
		t.Fatalf("it came as %+v", got)
	}
	for _, want := range []string{"Subject: Test: Harbour Bakery accounts: Ihr Lastschriftmandat ist noch offen",
		"Guten Tag Maureen Tideswell", "https://pay.harbour.example/sign/EXAMPLE-not-a-real-link"} {
		if !strings.Contains(strings.ReplaceAll(got[0].Raw, "\r\n ", " "), want) {
			t.Errorf("the letter does not say %q:\n%s", want, got[0].Raw)
		}
	}
}

func TestATestLetterThatIsNotTakenSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	if r := w.expect(exitUsage, "letters", "preview", "--test", "--to", "me@harbour.example"); !strings.Contains(r.errOut,
		"add letters.smtp and letters.from") {
		t.Errorf("without a mail server it says %s", r.errOut)
	}
	box := mailtest.New(t, mail.NoTLS)
	w.letters(box.Address, "")
	for to, want := range map[string]string{"me": "write one bare address",
		"a@example.org,b@example.org": "it is more than one address"} {
		if r := w.expect(exitUsage, "letters", "preview", "--test", "--to", to); !strings.Contains(r.errOut, want) {
			t.Errorf("of --to %s it says %s", to, r.errOut)
		}
	}
	if r := w.expect(exitUsage, "letters", "preview", "--test", "--to", "me@harbour.example", "--language",
		"fr"); !strings.Contains(r.errOut, "letters.languages has en, de") {
		t.Errorf("of a language that there is none of it says %s", r.errOut)
	}
	for _, tt := range []struct {
		step mailtest.Point
		err  error
		want string
	}{
		{mailtest.AtMail, mailtest.Refusal(550, "not yours"),
			"did not take the sender: 550 not yours; name a sender in letters.from"},
		{mailtest.AtRcpt, mailtest.Refusal(550, "no such user"),
			"did not take the recipient: 550 no such user; ask the operator of the mail server"},
		{mailtest.AtRcpt, mailtest.Refusal(450, "busy"), "450 busy; try again later"},
		{mailtest.AtAnswer, mailtest.ErrCut, "look whether it arrived before you try again"},
	} {
		box.Fail(tt.step, tt.err)
		if r := w.expect(exitFailed, "letters", "preview", "--test", "--to",
			"me@harbour.example"); !strings.Contains(r.errOut, "the test letter was not handed over") ||
			!strings.Contains(r.errOut, tt.want) {
			t.Errorf("it says %s, want %s", r.errOut, tt.want)
		}
		box.Fail(tt.step, nil)
	}
}

func TestAPreviewShowsTheLetterInForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	if r := w.expect(exitDone, "letters", "preview"); !strings.HasPrefix(r.out,
		"Subject: Your company: your direct debit mandate\n\nHello Maureen Tideswell,\n") {
		t.Errorf("before anything is set up it shows\n%s", r.out)
	}
	w.letters("127.0.0.1:2525", "  templates: letters")
	w.must(os.Mkdir(w.path("letters"), 0o700))
	w.write("letters/invitation.de.txt",
		"Subject: Ihr Mandat\n\nMoin{{with .Contact}} {{.}}{{end}},\n\n{{.Link}}\n\n{{.Sender}}\n")
	var got letterReport
	r := w.expect(exitDone, "letters", "preview", "--language", "de", "--output", "json")
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Subject != "Ihr Mandat" ||
		!strings.HasPrefix(got.Text, "Moin Maureen Tideswell,\n") ||
		!strings.Contains(got.HTML, "<p>Moin Maureen Tideswell,</p>") || got.Version == "" {
		t.Errorf("of an own template it shows %+v, %v", got, err)
	}
	w.write("letters/invitation.de.txt", "Subject: Ihr Mandat\n\nHier: {{.Lnik}}\n\n{{.Sender}}\n")
	if r := w.expect(exitUsage, "letters", "preview"); !strings.Contains(r.errOut,
		"invitation.de.txt:3:9: there is no field Lnik; did you mean {{.Link}}?") {
		t.Errorf("of a wrong template it says\n%s", r.errOut)
	}
}

// names is a DNS.
type names map[string][]string

func (n names) texts(_ context.Context, name string) ([]string, error) {
	if n == nil {
		return nil, &net.DNSError{Err: "server misbehaving", Name: name, IsTemporary: true}
	}
	if found := n[name]; found != nil {
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func TestTheDomainOfTheSenderIsLookedAt(t *testing.T) {
	t.Parallel()
	const domain = "mail.harbour.example"
	good := names{
		domain: {"google-site-verification=x", "v=spf1 include:_spf.example.com -all"}, "m1._domainkey." +
			domain: {"v=DKIM1; k=rsa; p=MIGf"}, "_dmarc.harbour.example": {"v=DMARC1; p=none"},
	}
	with := func(name string, texts ...string) names {
		n := names{}
		for k, v := range good {
			n[k] = v
		}
		if n[name] = texts; texts == nil {
			delete(n, name)
		}
		return n
	}
	for _, tt := range []struct {
		name, selector string
		dns            names
		check, says    string
		next           string
	}{
		{"no SPF", "m1", with(domain), "letters SPF", "does not name the servers", "v=spf1 include:YOUR-MAIL-PROVIDER -all"},
		{"two SPF", "m1", with(domain, "v=spf1 -all", "v=spf1 mx -all"), "letters SPF", "has 2 SPF records",
			"make one record"},
		{"SPF for all", "m1", with(domain, "v=spf1 +all"), "letters SPF", "every server in the world", "-all"},
		{"no selector", "", good, "letters DKIM", "is not configured", "letters.dkim_selector"},
		{"no key", "m2", good, "letters DKIM", "there is no key at m2._domainkey." + domain, "publish the TXT record"},
		{"key taken back", "m1", with("m1._domainkey."+domain, "v=DKIM1; p="), "letters DKIM", "was taken back",
			"letters.dkim_selector"},
		{"no DMARC", "m1", with("_dmarc.harbour.example"), "letters DMARC", "has no policy for forged mail", "_dmarc." +
			domain + ": v=DMARC1; p=none; rua=mailto:accounts@harbour.example"},
		{"two DMARC", "m1", with("_dmarc.harbour.example", "v=DMARC1; p=none", "v=DMARC1; p=reject"), "letters DMARC",
			"has 2 records", "remove all but one"},
		{"DMARC of nothing", "m1", with("_dmarc.harbour.example", "v=DMARC1"), "letters DMARC",
			"has no policy known to receivers", "p=none"},
		{"no DNS", "m1", nil, "letters SPF", "the DNS could not be asked for " + domain + ": server misbehaving",
			"run payersync check again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := &app{program: program{texts: tt.dns.texts}}
			found := a.checkDomain(t.Context(), domain, tt.selector, "accounts@harbour.example")
			told := false
			for _, f := range found {
				if f.Check == tt.check {
					told = f.OK && f.Warning && strings.Contains(f.Detail, tt.says) && strings.Contains(f.Next, tt.next)
				}
			}
			if !told || len(found) != 3 {
				t.Errorf("it says %+v", found)
			}
		})
	}
	a := &app{program: program{texts: good.texts}}
	for _, f := range a.checkDomain(t.Context(), domain, "m1", "") {
		if !f.OK || f.Warning {
			t.Errorf("of a good domain it says %+v", f)
		}
	}
}

func TestADNSThatDoesNotAnswerHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	ctx, done := context.WithCancel(t.Context())
	done()
	a := &app{program: program{texts: func(ctx context.Context, _ string) ([]string, error) {
		<-ctx.Done()
		return nil, errors.New("anything")
	}}}
	for _, f := range a.checkDomain(ctx, "harbour.example", "m1", "") {
		if !f.Warning || !strings.Contains(f.Detail, "could not be asked for ") ||
			!strings.Contains(f.Detail, "it gave no answer") {
			t.Errorf("it says %+v", f)
		}
	}
}

func TestACheckSaysWhoWritesToPayers(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string][]string{
		"":                  {"payersync sends no letters; payersync mandates handover lists the unsigned payers"},
		"  sender: service": {"the billing service writes to payers; payersync sends them nothing"},
		"  sender: payersync": {
			"payersync writes to payers as accounts@harbour.example, in en, de",
			"nobody has confirmed that the billing service sends no letters of its own", "letters.service_chasing_off: true",
			"so payers get nothing", "name in letters.test_to",
			"harbour.example does not name the servers that may send its mail",
		},
	} {
		w := newWorld(t, people(1))
		w.letters("127.0.0.1:2525", yaml)
		s := w.served(nil)
		a := &app{program: program{texts: names{}.texts}}
		var said strings.Builder
		for _, f := range a.checkLetters(t.Context(), s.Config) {
			said.WriteString(f.Detail + " " + f.Next + "\n")
		}
		s.Close()
		for _, part := range want {
			if !strings.Contains(said.String(), part) {
				t.Errorf("with %q it says\n%s, not %s", yaml, said.String(), part)
			}
		}
	}
}

func TestACheckAsksNobodyOfADomainWhoseLettersStayOnThisMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.letters("127.0.0.1:2525", "  sender: payersync\n  test_to: me@harbour.example")
	s := w.served(nil)
	defer s.Close()
	a := &app{program: program{texts: func(_ context.Context, name string) ([]string, error) {
		t.Errorf("it asks the DNS about %s", name)
		return nil, nil
	}}}
	if found := a.checkLetters(t.Context(), s.Config); len(found) == 0 {
		t.Error("it finds nothing")
	}
}
