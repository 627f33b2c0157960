package templates

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector/letters"
	"payersync/connector/mail"
)

var (
	update  = flag.Bool("update", false, "write the golden files anew")
	hostile = flag.Int("hostile", 500, "how many letters are written with hostile values")
)

const host = "pay.example.com"

func options() Config {
	return Config{
		From:      netmail.Address{Name: "Harbour Bakery accounts", Address: "accounts@harbour.example"},
		ReplyTo:   "accounts@harbour.example",
		Legal:     "Harbour Bakery Ltd, 1 Quay Street, Whitby; registered in England 01234567",
		LinkHosts: []string{host}, Languages: []string{"en", "de", "fr"},
		StopURL: "https://payersync.harbour.example/letters/stop",
	}
}

func loaded(t testing.TB, o Config) *Set {
	t.Helper()
	s, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// draft returns a letter with invented values.
func draft(kind letters.Kind, code string) letters.Draft {
	f := Examples(kind, host)
	return letters.Draft{
		Kind: kind, Language: code, To: "maureen@tideswell.example", MessageID: "0123456789abcdef@harbour.example",
		Stop: "c3RvcA",
		Date: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), Name: f.Name, Contact: f.Contact, Number: f.Number, Link: f.Link,
		Days: f.Days,
	}
}

// read takes a message apart.
func readMessage(t testing.TB, raw []byte) (h netmail.Header, text, page string) {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	media, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || media != "multipart/alternative" {
		t.Fatalf("the message is %s, %v", media, err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	var bodies []string
	for {
		p, err := parts.NextPart() // which decodes quoted-printable
		if err != nil {
			break
		}
		var b strings.Builder
		if _, err := fmt.Fprint(&b, readAll(t, p)); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, strings.ReplaceAll(b.String(), "\r\n", "\n"))
	}
	if len(bodies) != 2 {
		t.Fatalf("the message has %d parts", len(bodies))
	}
	return m.Header, bodies[0], bodies[1]
}

func readAll(t testing.TB, p *multipart.Part) string {
	t.Helper()
	data, err := os.ReadFile(os.DevNull)
	for buf := make([]byte, 4096); err == nil; {
		var n int
		n, err = p.Read(buf)
		data = append(data, buf[:n]...)
	}
	return string(data)
}

func TestEveryLetterIsAsItWasReviewed(t *testing.T) {
	t.Parallel()
	s := loaded(t, options())
	for _, code := range Shipped {
		for _, kind := range Kinds {
			raw, err := s.Write(draft(kind, code))
			if err != nil {
				t.Fatal(err)
			}
			h, text, page := readMessage(t, raw)
			subject, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject"))
			if err != nil {
				t.Fatal(err)
			}
			for ending, got := range map[string]string{"txt": "Subject: " + subject + "\n\n" + text, "html": page} {
				golden(t, fmt.Sprintf("%s.%s.%s", kind, code, ending), got)
			}
		}
	}
	raw, err := s.Write(draft(letters.Invitation, "de"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "invitation.de.eml", strings.ReplaceAll(string(raw), "\r\n", "\n"))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", name, diff)
	}
}

// addresses finds whatever leads somewhere.
var addresses = regexp.MustCompile(`https?://[^\s<>"]+`)

// checkLetter checks what holds of every letter, whatever stands in it.
func checkLetter(t testing.TB, raw []byte, d letters.Draft) {
	t.Helper()
	h, text, page := readMessage(t, raw)
	if len(raw) > MaxSize {
		t.Errorf("a letter of %d bytes", len(raw))
	}
	want := []string{"Auto-Submitted", "Content-Type", "Date", "From", "List-Unsubscribe", "List-Unsubscribe-Post",
		"Message-Id", "Mime-Version", "Reply-To", "Subject", "To"}
	var got []string
	for name, values := range h {
		if got = append(got, name); len(values) != 1 {
			t.Errorf("the header %s stands %d times", name, len(values))
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the headers are %v, want %v", got, want)
	}
	to, err := h.AddressList("To")
	if err != nil || len(to) != 1 || to[0].Address != d.To || to[0].Name != "" {
		t.Errorf("it goes to %v, %v", to, err)
	}
	from, err := h.AddressList("From")
	if err != nil || len(from) != 1 || from[0].Address != "accounts@harbour.example" {
		t.Errorf("it comes from %v, %v", from, err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject"))
	if err != nil || len([]rune(subject)) > MaxSubject || strings.ContainsAny(subject, "\r\n") {
		t.Errorf("the subject is %q, %v", subject, err)
	}
	stop := "https://payersync.harbour.example/letters/stop/" + d.Stop
	link := 0
	for _, found := range addresses.FindAllString(text, -1) {
		switch found {
		case d.Link:
			link++
		case stop:
		default:
			t.Errorf("the text leads to %s:\n%s", found, text)
		}
	}
	wanted := 1
	if d.Kind == ThankYou {
		wanted = 0
	}
	if link != wanted {
		t.Errorf("the text has the link %d times:\n%s", link, text)
	}
	if n := strings.Count(page, "<a "); n != wanted+1 {
		t.Errorf("the HTML has %d links:\n%s", n, page)
	}
	for _, never := range []string{"<img", "<script", "<iframe", "<object", "<form", "<link", "style=\"background",
		"url("} {
		if strings.Contains(strings.ToLower(page), never) {
			t.Errorf("the HTML has %s:\n%s", never, page)
		}
	}
}

// covers F136
func TestHostileValuesMakeNoHeaderAndNoRecipient(t *testing.T) {
	t.Parallel()
	s := loaded(t, options())
	pieces := []string{
		"\r\n", "\n", "\r", "\u2028", "\u0085", "\x00", "\u202e", "\u2066", "\u200b", "\ufeff", "Bcc: everybody@example.org",
		"\r\nTo: other@example.org\r\n", "\r\n\r\n", "\n.\n",
		"\"", "'", "<", ">", "&", "</p><script>alert(1)</script>", "<img src=https://evil.example/x.png>",
		"javascript:alert(1)", "https://evil.example/a", "www.evil.example",
		"{{.Link}}", "{{", "}}", "%0d%0aBcc:x", "=?utf-8?q?=0D=0ABcc:_x@example.org?=", "=0D=0A", "--", ";", ",", "@",
		"other@example.org", "Müller & Söhne", "株式会社", "مؤسسة", "Ünal", " ", strings.Repeat("x", 300), "\xff\xfe",
	}
	random := rand.New(rand.NewPCG(14, 15))
	value := func() string {
		var b strings.Builder
		for range random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	written := 0
	for i := range *hostile {
		d := draft(Kinds[random.IntN(len(Kinds))], Shipped[random.IntN(len(Shipped))])
		d.Name, d.Contact, d.Number, d.Days = value(), value(), value(), random.IntN(100)
		raw, err := s.Write(d)
		if err != nil {
			t.Fatalf("%d: %+v: %v", i, d, err)
		}
		checkLetter(t, raw, d)
		written++
		for name, broken := range map[string]letters.Draft{
			"address":    {To: d.To + value() + pieces[random.IntN(len(pieces))]},
			"message id": {MessageID: d.MessageID + value()},
			"stop":       {Stop: d.Stop + value()},
			"link":       {Link: d.Link + value()},
		} {
			b := d
			b.To, b.MessageID, b.Stop, b.Link = or(broken.To, d.To), or(broken.MessageID, d.MessageID), or(broken.Stop, d.Stop),
				or(broken.Link, d.Link)
			if raw, err := s.Write(b); err == nil {
				checkLetter(t, raw, b) // what is taken does no harm
				written++
			} else if strings.Contains(err.Error(), "evil") || strings.Contains(err.Error(), "tideswell") {
				t.Errorf("the error of a bad %s tells what it was: %v", name, err)
			}
		}
		if t.Failed() {
			t.Fatalf("with %#v", d)
		}
	}
	t.Logf("%d letters were written", written)
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func TestTheSameDraftGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	s := loaded(t, options())
	first, err := s.Write(draft(letters.Reminder, "fr"))
	if err != nil {
		t.Fatal(err)
	}
	another := loaded(t, options())
	for range 50 {
		if again, err := another.Write(draft(letters.Reminder, "fr")); err != nil || string(again) != string(first) {
			t.Fatalf("the same letter is written in two ways (%v)", err)
		}
	}
}

func TestOnlyAContactIsAddressedByName(t *testing.T) {
	t.Parallel()
	s := loaded(t, options())
	for code, want := range map[string][2]string{
		"en": {"Hello Maureen Tideswell,\n", "Hello,\n"}, "de": {"Guten Tag Maureen Tideswell,\n", "Guten Tag,\n"},
		"fr": {"Bonjour Maureen Tideswell,\n", "Bonjour,\n"},
	} {
		f := Examples(letters.Invitation, host)
		named, err := s.Render(letters.Invitation, code, f)
		if err != nil || !strings.HasPrefix(named.Text, want[0]) {
			t.Errorf("%s: %v\n%s", code, err, named.Text)
		}
		f.Contact = ""
		unnamed, err := s.Render(letters.Invitation, code, f)
		if err != nil || !strings.HasPrefix(unnamed.Text, want[1]) {
			t.Errorf("%s: %v\n%s", code, err, unnamed.Text)
		}
	}
}

func TestALinkElsewhereIsNotMailed(t *testing.T) {
	t.Parallel()
	s := loaded(t, options())
	for link, want := range map[string]error{
		"https://pay.example.com/a?b=c&d=%20#e": nil, "https://PAY.example.com:443/a": nil,
		"https://evil.example/a": letters.ErrLinkHost, "https://pay.example.com.evil.example/": letters.ErrLinkHost,
		"https://evil.example/pay.example.com": letters.ErrLinkHost,
		"http://127.0.0.1:8080/a":              letters.ErrLinkHost, "http://pay.example.com/a": letters.ErrLink,
		"https://pay.example.com@evil.example/": letters.ErrLink, "": letters.ErrLink, "pay.example.com": letters.ErrLink,
		"javascript:alert(1)": letters.ErrLink, "https://pay.example.com/a b": letters.ErrLink,
		"https://pay.example.com/\r\n": letters.ErrLink, "https://pay.example.com/\"><img>": letters.ErrLink,
		"https://pay.example.com/ä":                            letters.ErrLink,
		"https://pay.example.com/" + strings.Repeat("a", 2000): letters.ErrLink,
	} {
		d := draft(letters.Invitation, "en")
		d.Link = link
		raw, err := s.Write(d)
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", link, err, want)
		}
		if want == nil {
			checkLetter(t, raw, d)
		}
	}
	if err := letters.CheckLink("http://127.0.0.1:8080/sign/1", []string{"127.0.0.1"}); err != nil {
		t.Errorf("a link of a sandbox: %v", err)
	}
}

func TestALetterGoesToOnePlainAddress(t *testing.T) {
	t.Parallel()
	s := loaded(t, options())
	for _, to := range []string{"", "a@example.org,b@example.org", "Maureen <a@example.org>", `"a b"@example.org`,
		"a@example.org\r\nBcc: b@example.org"} {
		d := draft(letters.Invitation, "en")
		if d.To = to; to == "" {
			d.To = " "
		}
		if _, err := s.Write(d); err == nil || mail.CheckAddress(d.To) == nil {
			t.Errorf("a letter is written to %q", d.To)
		}
	}
}

func TestWithoutAStopAddressAReplyStops(t *testing.T) {
	t.Parallel()
	o := options()
	o.StopURL = ""
	raw, err := loaded(t, o).Write(draft(letters.Invitation, "de"))
	if err != nil {
		t.Fatal(err)
	}
	h, text, _ := readMessage(t, raw)
	if h.Get("List-Unsubscribe") != "<mailto:accounts@harbour.example?subject=stop%20c3RvcA>" ||
		h.Get("List-Unsubscribe-Post") != "" || !strings.Contains(text, "mit dem Wort STOPP") {
		t.Errorf("List-Unsubscribe is %q, with %q\n%s", h.Get("List-Unsubscribe"), h.Get("List-Unsubscribe-Post"), text)
	}
	raw, err = loaded(t, options()).Write(draft(letters.Invitation, "de"))
	if err != nil {
		t.Fatal(err)
	}
	h, _, _ = readMessage(t, raw)
	if h.Get("List-Unsubscribe") != "<https://payersync.harbour.example/letters/stop/c3RvcA>, <mailto:accounts@harbour.example?subject=stop%20c3RvcA>" || h.Get("List-Unsubscribe-Post") != "List-Unsubscribe=One-Click" {
		t.Errorf("List-Unsubscribe is %q, with %q", h.Get("List-Unsubscribe"), h.Get("List-Unsubscribe-Post"))
	}
}
