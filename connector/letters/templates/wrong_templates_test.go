package templates

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"payersync/connector/letters"
	"payersync/mapping/strict"
)

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
	if s.Version() == shippedVersion || s.Version() == withAustria || shippedVersion == withAustria ||
		loaded(t, o).Version() != s.Version() {
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
		{"unknown field", in, body("{{.Iban}}"), "5:3",
			"there is no field Iban; the invitation has Name, Contact, Link, Sender, Number"},
		{"amount as a field", in, body("Es sind {{.Amount}}."), "5:11", "there is no field Amount"},
		{"field of a field", in, body("{{.Name.First}}"), "5:3", "there is no field Name.First"},
		{"days of an invitation", in, body("Seit {{.Days}} Tagen."), "5:8",
			"because no letter came before it; write it without"},
		{"field of the frame", in, body("{{.Legal}}"), "5:3", "does not belong here"},
		{"field in a subject", in, head("Subject: {{.Link}}"), "1:12", "the signing link does not belong in the subject"},
		{"unknown field in a subject", in, head("Subject: {{.Nam}}"), "1:12", "did you mean {{.Name}}?"},
		{"field inside of with", in, body("{{with .Name}}{{.Number}}{{end}}"), "5:17", "write {{$.Number}}"},
		{"dot outside of with", in, body("{{.}}"), "5:3", "name the field, as {{.Name}}"},
		{"braces not closed", in, body("Für {{.Name"), "5:5", "write }} behind the field"},
		{"if not closed", in, body("{{if .Name}}Für {{.Name}}."), "5:1", "write {{end}} before the empty line"},
		{"end too many", in, body("Für {{.Name}}{{end}}."), "5:5", "an {{end}} or {{else}} too many"},
		{"if over two paragraphs", in, body("{{if .Name}}Für\n\n{{.Name}}{{end}}."), "5:1",
			"write {{end}} before the empty line"},
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
		{"no link", in, strings.Replace(good, "{{.Link}}\n\n", "", 1), "8:12",
			"the letter has no signing link; write {{.Link}}"},
		{"two links", in, strings.Replace(good, "{{.Link}}\n", "{{.Link}}\n\n{{.Link}}\n", 1), "9:3", "remove one of them"},
		{"link within a sentence", in, strings.Replace(good, "{{.Link}}", "Hier: {{.Link}}", 1), "7:9",
			"on a line of its own"},
		{"link that may be missing", in, strings.Replace(good, "{{.Link}}", "{{if .Name}}{{.Link}}{{end}}", 1), "7:15",
			"on a line of its own"},
		{"no sender", in, strings.Replace(good, "{{.Sender}}", "Wir", 1), "10:4",
			"does not tell {{.Sender}}, which it must; add it"},
		{"no subject", in, strings.TrimPrefix(good, "Subject: Ihr Mandat\n\n"), "1:1",
			"begin the file with a line such as Subject:"},
		{"empty subject", in, head("Subject: "), "1:1", "the subject is empty; write what the letter is about"},
		{"long subject", in, head("Subject: " + strings.Repeat("lang ", 16)), "1:10",
			"79 characters, and 78 are shown of it; shorten it"},
		{"subject long by its sender", in, head("Subject: " + strings.Repeat("lang ", 12) + "{{.Sender}}"), "1:10",
			"shorten it"},
		{"another header", in, head("Subject: x\nBcc: everybody"), "2:1", "remove the line Bcc"},
		{"subject over two lines", in, head("Subject: x\n folded"), "2:1",
			"an empty line between the subject and the letter; add one"},
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
		{"guessed form of address", in, body("Sehr geehrter Herr {{.Contact}}"), "5:15",
			"write the name alone, without Herr"},
		{"guessed in French", in, body("Madame {{.Contact}}"), "5:1", "without Madame"},
		{"invisible character", in, body("Hier\u200b"), "5:5", "the invisible character U+200B"},
		{"turned text", in, body("\u202eHier"), "5:1", "U+202E"},
		{"not UTF-8", in, body("Gr\xfc\xdfe"), "5:3", "save it as UTF-8"},
		{"too large", in, body(strings.Repeat("Hallo ", 4000)), "1:1",
			"larger than 20000 bytes, which a letter may not be; shorten it"},
		{"link of a thank-you", "thank_you.de.txt", good, "7:3", "a thank-you has no signing link; write it without"},
		{"frame without legal details", "frame.de.txt", "{{.Sender}} {{.ReplyTo}} {{.Stop}}\n", "1:35",
			"does not tell {{.Legal}}, which it must; add it"},
		{"frame without a way to stop", "frame.de.txt", "{{.Sender}} {{.ReplyTo}} {{.Legal}}\n", "1:36",
			"does not tell {{.Stop}}"},
		{"misspelt file", "invitaton.de.txt", good, "1:1", "did you mean invitation.de.txt?"},
		{"file of no kind", "notes.doc", "x", "1:1", "files are called by kind and language"},
		{"missing language", "", "", "1:1",
			"there is no template of the frame in the language it; write this file, or take it from letters.languages"},
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
		"Rufen Sie uns an, z.B. am Vormittag, unter 01234 567890.", "Feel free to call us.",
		"Write to accounts@harbour.example, or harbour.example.", "Madame, Monsieur,",
		"{{if eq .Number \"1\"}}a{{else if and .Name .Contact}}b{{else}}c{{end}}",
		"{{with .Name}}{{.}} ({{$.Number}}){{end}}", "Es dauert 2 Minuten & ist sicher.", "1 < 2",
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
