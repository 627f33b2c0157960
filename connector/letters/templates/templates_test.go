package templates

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
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
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector/letters"
	"payersync/connector/mail"
	"payersync/mapping/strict"
)

var (
	update  = flag.Bool("update", false, "write the golden files anew")
	hostile = flag.Int("hostile", 500, "how many letters are written with hostile values")
)

const host = "pay.example.com"

func options() Options {
	return Options{
		From: netmail.Address{Name: "Harbour Bakery accounts", Address: "accounts@harbour.example"}, ReplyTo: "accounts@harbour.example",
		Legal:     "Harbour Bakery Ltd, 1 Quay Street, Whitby; registered in England 01234567",
		LinkHosts: []string{host}, Languages: []string{"en", "de", "fr"}, StopURL: "https://payersync.harbour.example/letters/stop",
	}
}

func loaded(t testing.TB, o Options) *Set {
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
		Kind: kind, Language: code, To: "maureen@tideswell.example", MessageID: "0123456789abcdef@harbour.example", Stop: "c3RvcA",
		Date: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), Name: f.Name, Contact: f.Contact, Number: f.Number, Link: f.Link, Days: f.Days,
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
	want := []string{"Auto-Submitted", "Content-Type", "Date", "From", "List-Unsubscribe", "List-Unsubscribe-Post", "Message-Id", "Mime-Version", "Reply-To", "Subject", "To"}
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
	for _, never := range []string{"<img", "<script", "<iframe", "<object", "<form", "<link", "style=\"background", "url("} {
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
		"\r\n", "\n", "\r", "\u2028", "\u0085", "\x00", "\u202e", "\u2066", "\u200b", "\ufeff", "Bcc: everybody@example.org", "\r\nTo: other@example.org\r\n", "\r\n\r\n", "\n.\n",
		"\"", "'", "<", ">", "&", "</p><script>alert(1)</script>", "<img src=https://evil.example/x.png>", "javascript:alert(1)", "https://evil.example/a", "www.evil.example",
		"{{.Link}}", "{{", "}}", "%0d%0aBcc:x", "=?utf-8?q?=0D=0ABcc:_x@example.org?=", "=0D=0A", "--", ";", ",", "@", "other@example.org", "Müller & Söhne", "株式会社", "مؤسسة", "Ünal", " ", strings.Repeat("x", 300), "\xff\xfe",
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
			b.To, b.MessageID, b.Stop, b.Link = or(broken.To, d.To), or(broken.MessageID, d.MessageID), or(broken.Stop, d.Stop), or(broken.Link, d.Link)
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
		"en": {"Hello Maureen Tideswell,\n", "Hello,\n"}, "de": {"Guten Tag Maureen Tideswell,\n", "Guten Tag,\n"}, "fr": {"Bonjour Maureen Tideswell,\n", "Bonjour,\n"},
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
		"https://evil.example/a": letters.ErrLinkHost, "https://pay.example.com.evil.example/": letters.ErrLinkHost, "https://evil.example/pay.example.com": letters.ErrLinkHost,
		"http://127.0.0.1:8080/a": letters.ErrLinkHost, "http://pay.example.com/a": letters.ErrLink, "https://pay.example.com@evil.example/": letters.ErrLink, "": letters.ErrLink, "pay.example.com": letters.ErrLink,
		"javascript:alert(1)": letters.ErrLink, "https://pay.example.com/a b": letters.ErrLink, "https://pay.example.com/\r\n": letters.ErrLink, "https://pay.example.com/\"><img>": letters.ErrLink, "https://pay.example.com/ä": letters.ErrLink,
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
	for _, to := range []string{"", "a@example.org,b@example.org", "Maureen <a@example.org>", `"a b"@example.org`, "a@example.org\r\nBcc: b@example.org"} {
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
	if h.Get("List-Unsubscribe") != "<mailto:accounts@harbour.example?subject=stop%20c3RvcA>" || h.Get("List-Unsubscribe-Post") != "" || !strings.Contains(text, "mit dem Wort STOPP") {
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

func TestAnOwnTemplateTakesThePlaceOfOne(t *testing.T) {
	t.Parallel()
	o := options()
	shippedVersion := loaded(t, o).Version()
	o.Languages = append(o.Languages, "de-AT")
	withAustria := loaded(t, o).Version()
	o.Own = fstest.MapFS{"invitation.de.txt": {Data: []byte(good)}, "README.md": {Data: []byte("ours")}, ".keep": {}}
	s := loaded(t, o)
	for code, want := range map[string]bool{"de": true, "de-AT": true, "en": false} {
		l, err := s.Render(letters.Invitation, code, Examples(letters.Invitation, host))
		if err != nil || strings.Contains(l.Text, "Moin") != want {
			t.Errorf("%s: %v\n%s", code, err, l.Text)
		}
	}
	if s.Version() == shippedVersion || s.Version() == withAustria || shippedVersion == withAustria || loaded(t, o).Version() != s.Version() {
		t.Error("the version does not tell the templates apart")
	}
	if _, err := s.Render(letters.Invitation, "it", Fields{}); err == nil {
		t.Error("a letter is written in a language that there is none of")
	}
}

const good = "Subject: Ihr Mandat\n\nMoin{{with .Contact}} {{.}}{{end}},\n\nhier ist der Link:\n\n{{.Link}}\n\nIhre\n{{.Sender}}\n"

func BenchmarkWrite(b *testing.B) {
	s := loaded(b, options())
	for i := 0; b.Loop(); i++ {
		if _, err := s.Write(draft(Kinds[i%len(Kinds)], Shipped[i%len(Shipped)])); err != nil {
			b.Fatal(err)
		}
	}
}

func TestWrongTemplatesAreToldWithPlaceAndCure(t *testing.T) {
	t.Parallel()
	body := func(paragraph string) string { return strings.Replace(good, "hier ist der Link:", paragraph, 1) }
	head := func(subject string) string { return strings.Replace(good, "Subject: Ihr Mandat", subject, 1) }
	const in = "invitation.de.txt"
	tests := []struct{ name, file, text, place, says string }{
		{"misspelt field", in, body("Für {{.Nmae}}."), "5:7", "did you mean {{.Name}}?"},
		{"field of another case", in, body("Für {{.name}}."), "5:7", "did you mean {{.Name}}?"},
		{"unknown field", in, body("{{.Iban}}"), "5:3", "there is no field Iban; the invitation has Name, Contact, Link, Sender, Number"},
		{"amount as a field", in, body("Es sind {{.Amount}}."), "5:11", "there is no field Amount"},
		{"field of a field", in, body("{{.Name.First}}"), "5:3", "there is no field Name.First"},
		{"days of an invitation", in, body("Seit {{.Days}} Tagen."), "5:8", "because no letter came before it; write it without"},
		{"field of the frame", in, body("{{.Legal}}"), "5:3", "does not belong here"},
		{"field in a subject", in, head("Subject: {{.Link}}"), "1:12", "the signing link does not belong in the subject"},
		{"unknown field in a subject", in, head("Subject: {{.Nam}}"), "1:12", "did you mean {{.Name}}?"},
		{"field inside of with", in, body("{{with .Name}}{{.Number}}{{end}}"), "5:17", "write {{$.Number}}"},
		{"dot outside of with", in, body("{{.}}"), "5:3", "name the field, as {{.Name}}"},
		{"braces not closed", in, body("Für {{.Name"), "5:5", "write }} behind the field"},
		{"if not closed", in, body("{{if .Name}}Für {{.Name}}."), "5:1", "write {{end}} before the empty line"},
		{"end too many", in, body("Für {{.Name}}{{end}}."), "5:5", "an {{end}} or {{else}} too many"},
		{"if over two paragraphs", in, body("{{if .Name}}Für\n\n{{.Name}}{{end}}."), "5:1", "write {{end}} before the empty line"},
		{"nothing in braces", in, body("{{}}"), "5:1", "a field is written {{.Name}}"},
		{"function", in, body(`{{printf "%s" .Name}}`), "5:1", "there is no printf in letters"},
		{"raw HTML by a function", in, body(`{{html .Name}}`), "5:1", "there is no html in letters"},
		{"pipe", in, body("{{.Name | .Number}}"), "5:3", "letters have no variables and no pipes"},
		{"variable", in, body("{{$x := .Name}}"), "5:3", "letters have no variables"},
		{"loop", in, body("{{range .Name}}x{{end}}"), "5:9", "write it without {{range}}"},
		{"definition", in, body(`{{define "x"}}x{{end}}`), "5:1", "remove {{define}} and {{block}}"},
		{"template of another", in, body(`{{template "x"}}`), "5:12", "write it without {{template}}"},
		{"text inside of braces", in, body(`{{"https://evil.example"}}`), "5:3", "text stands outside of the braces"},
		{"text behind or", in, body(`{{or .Name "Kunde"}}`), "5:12", "text stands outside of the braces"},
		{"number against text", in, body("{{if gt .Name 1}}x{{end}}"), "5:6", "numbers are compared with numbers"},
		{"no link", in, strings.Replace(good, "{{.Link}}\n\n", "", 1), "8:12", "the letter has no signing link; write {{.Link}}"},
		{"two links", in, strings.Replace(good, "{{.Link}}\n", "{{.Link}}\n\n{{.Link}}\n", 1), "9:3", "remove one of them"},
		{"link within a sentence", in, strings.Replace(good, "{{.Link}}", "Hier: {{.Link}}", 1), "7:9", "on a line of its own"},
		{"link that may be missing", in, strings.Replace(good, "{{.Link}}", "{{if .Name}}{{.Link}}{{end}}", 1), "7:15", "on a line of its own"},
		{"no sender", in, strings.Replace(good, "{{.Sender}}", "Wir", 1), "10:4", "does not tell {{.Sender}}, which it must; add it"},
		{"no subject", in, strings.TrimPrefix(good, "Subject: Ihr Mandat\n\n"), "1:1", "begin the file with a line such as Subject:"},
		{"empty subject", in, head("Subject: "), "1:1", "the subject is empty; write what the letter is about"},
		{"long subject", in, head("Subject: " + strings.Repeat("lang ", 16)), "1:10", "79 characters, and 78 are shown of it; shorten it"},
		{"subject long by its sender", in, head("Subject: " + strings.Repeat("lang ", 12) + "{{.Sender}}"), "1:10", "shorten it"},
		{"another header", in, head("Subject: x\nBcc: everybody"), "2:1", "remove the line Bcc"},
		{"subject over two lines", in, head("Subject: x\n folded"), "2:1", "an empty line between the subject and the letter; add one"},
		{"nothing but a subject", in, "Subject: x\n", "1:11", "there is no letter below the subject; write it"},
		{"empty file", in, "  \n", "1:1", "it is empty; write the letter, or remove the file"},
		{"amount in euro", in, body("Es geht um 12,50 €."), "5:12", "a letter tells no amount"},
		{"amount in pounds", in, body("About £ 300."), "5:7", "remove £ 300"},
		{"amount made of a field", "reminder.de.txt", body("EUR {{.Days}}"), "5:1", "remove EUR 12"},
		{"day", in, body("Einzug 01.12.2026."), "5:8", "a letter tells no day of a debit"},
		{"day in words", in, body("On 3 December we collect."), "5:4", "remove 3 December"},
		{"day of each month", in, body("Le prélèvement est le 15 du mois."), "5:20", "remove le 15"},
		{"due date", in, body("The due date is near."), "5:5", "remove due date"},
		{"bank details", in, body("GB33BUKB20201555555555"), "5:1", "a letter holds no bank details"},
		{"promotion", in, body("Jetzt mit Rabatt!"), "5:11", "so that it stays a message of service; remove Rabatt"},
		{"promotion in English", in, body("A special offer for you."), "5:3", "remove special offer"},
		{"promotion in French", in, body("Une offre pour vous."), "5:5", "remove offre"},
		{"percent", in, body("10 % weniger"), "5:1", "remove 10 %"},
		{"foreign address", in, body("Mehr unter https://evil.example/a"), "5:12", "a letter leads to one place"},
		{"shortener", in, body("Mehr unter bit.ly/abc"), "5:12", "remove bit.ly/abc"},
		{"address around a field", in, body("https://{{.Name}}"), "5:1", "a letter leads to one place"},
		{"mail address of others", in, body("An hilfe@evil.example"), "5:10", "remove evil.example"},
		{"image", in, body(`<img src="x.png">`), "5:1", "letters have no images and count nobody"},
		{"image of Markdown", in, body(`![x](y)`), "5:1", "letters have no images"},
		{"HTML", in, body(`<b>Wichtig</b>`), "5:1", "a template is plain text"},
		{"guessed form of address", in, body("Sehr geehrter Herr {{.Contact}}"), "5:15", "write the name alone, without Herr"},
		{"guessed in French", in, body("Madame {{.Contact}}"), "5:1", "without Madame"},
		{"invisible character", in, body("Hier\u200b"), "5:5", "the invisible character U+200B"},
		{"turned text", in, body("\u202eHier"), "5:1", "U+202E"},
		{"not UTF-8", in, body("Gr\xfc\xdfe"), "5:3", "save it as UTF-8"},
		{"too large", in, body(strings.Repeat("Hallo ", 4000)), "1:1", "larger than 20000 bytes, which a letter may not be; shorten it"},
		{"link of a thank-you", "thank_you.de.txt", good, "7:3", "a thank-you has no signing link; write it without"},
		{"frame without legal details", "frame.de.txt", "{{.Sender}} {{.ReplyTo}} {{.Stop}}\n", "1:35", "does not tell {{.Legal}}, which it must; add it"},
		{"frame without a way to stop", "frame.de.txt", "{{.Sender}} {{.ReplyTo}} {{.Legal}}\n", "1:36", "does not tell {{.Stop}}"},
		{"misspelt file", "invitaton.de.txt", good, "1:1", "did you mean invitation.de.txt?"},
		{"file of no kind", "notes.doc", "x", "1:1", "files are called by kind and language"},
		{"missing language", "", "", "1:1", "there is no template of the frame in the language it; write this file, or take it from letters.languages"},
	}
	if len(tests) < 50 {
		t.Fatalf("there are %d", len(tests))
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := options()
			o.Own, o.OwnName = fstest.MapFS{tt.file: {Data: []byte(tt.text)}}, "letters"
			if tt.file == "" {
				o.Own, o.Languages, tt.file = fstest.MapFS{}, append(o.Languages, "it"), "frame.it.txt"
			}
			_, err := Load(o)
			var found *strict.Error
			if !errors.As(err, &found) {
				t.Fatalf("it is taken: %v", err)
			}
			at := "letters/" + tt.file + ":" + tt.place + ": "
			if !slices.ContainsFunc(found.Problems, func(p strict.Problem) bool {
				return strings.HasPrefix(p.String(), at) && strings.Contains(p.Message, tt.says)
			}) {
				t.Errorf("it is told as\n%v\nwant %s…%s", err, at, tt.says)
			}
		})
	}
}

// Shipped templates are not checked again at run time.
func TestTheLettersOfPayersyncKeepTheRulesOfOthers(t *testing.T) {
	t.Parallel()
	o := options()
	own, err := fs.Sub(shipped, "shipped")
	if err != nil {
		t.Fatal(err)
	}
	o.Own = own
	if _, err := Load(o); err != nil {
		t.Error(err)
	}
}

func TestGoodWordsAreTaken(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Rufen Sie uns an, z.B. am Vormittag, unter 01234 567890.", "Feel free to call us.", "Write to accounts@harbour.example, or harbour.example.", "Madame, Monsieur,",
		"{{if eq .Number \"1\"}}a{{else if and .Name .Contact}}b{{else}}c{{end}}", "{{with .Name}}{{.}} ({{$.Number}}){{end}}", "Es dauert 2 Minuten & ist sicher.", "1 < 2",
	} {
		o := options()
		o.Own = fstest.MapFS{"invitation.de.txt": {Data: []byte(strings.Replace(good, "hier ist der Link:", text, 1))}}
		if _, err := Load(o); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The configuration is read every few seconds, and the templates with it.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := Load(options()); err != nil {
			b.Fatal(err)
		}
	}
}
