package templates

import (
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"payersync/connector/letters"
)

// render returns a letter above its frame.
func (t *template) render(frame *template, v values, code string) (Letter, error) {
	var l Letter
	var err error
	if l.Subject, err = t.renderSubject(v); err != nil {
		return Letter{}, err
	}
	var text, page strings.Builder
	fmt.Fprintf(&page, "<!DOCTYPE html>\n<html lang=\"%s\">\n<head><meta charset=\"utf-8\"><title>%s</title></head>\n"+
		"<body style=\"font-family: sans-serif; font-size: 16px; line-height: 1.5; max-width: 38em\">\n",
		html.EscapeString(code), html.EscapeString(l.Subject))
	if err := t.write(&text, &page, v); err != nil {
		return Letter{}, err
	}
	text.WriteString("--------\n")
	page.WriteString("<hr>\n<div style=\"font-size: 14px\">\n")
	if err := frame.write(&text, &page, v); err != nil {
		return Letter{}, err
	}
	page.WriteString("</div>\n</body>\n</html>\n")
	l.Text, l.HTML = strings.TrimRight(text.String(), "\n")+"\n", page.String()
	return l, nil
}

// renderSubject returns the subject in one line; a long name is cut.
func (t *template) renderSubject(v values) (string, error) {
	var b strings.Builder
	if err := t.subject.Execute(&b, v); err != nil {
		return "", err
	}
	subject := inOneLine(b.String())
	if runes := []rune(subject); len(runes) > MaxSubject {
		subject = strings.TrimSpace(string(runes[:MaxSubject-1])) + "…"
	}
	return subject, nil
}

// write appends the paragraphs that are not blank.
func (t *template) write(text, page *strings.Builder, v values) error {
	for _, p := range t.paragraphs {
		var words, marks strings.Builder
		if err := p.text.Execute(&words, v); err != nil {
			return err
		}
		if strings.TrimSpace(words.String()) == "" {
			continue
		}
		if err := p.html.Execute(&marks, v); err != nil {
			return err
		}
		text.WriteString(strings.TrimSpace(words.String()) + "\n\n")
		page.WriteString("<p>" + strings.TrimSpace(marks.String()) + "</p>\n")
	}
	return nil
}

// executed finds the place in the engine's error about a template that does not fit its values.
var executed = regexp.MustCompile(`^(?:html/)?template: ?\S*?:(\d+):(\d+): (?:executing .*?: )?(.*)$`)

// try writes the letter with and without its values, and checks the results.
func (r *reader) try(t *template) {
	full := values{
		Name: "Example", Contact: "Example", Number: "Example", Link: "Example", Days: 12,
		Sender: "Example", Legal: "Example", ReplyTo: "Example", Stop: "Example",
	}
	few := full
	few.Name, few.Contact, few.Number, few.Stop, few.Days = "", "", "", "", 0
	body := 0
	if t.subject != nil {
		head, _, _ := strings.Cut(r.text, "\n\n")
		body = len(head)
	}
	spans := paragraphsOf(r.text, body)
	for _, v := range []values{full, few} {
		if t.subject != nil && !r.trySubject(t, v) {
			return
		}
		for i, p := range t.paragraphs {
			var words, marks strings.Builder
			err := p.text.Execute(&words, v)
			if err == nil {
				err = p.html.Execute(&marks, v)
			}
			if err != nil {
				r.unfit(spans[i][0], err)
				return
			}
			r.match(words.String(), func(int) int { return spans[i][0] })
		}
		if len(r.problems) > 0 {
			return
		}
	}
}

func (r *reader) trySubject(t *template, v values) bool {
	const at = len("Subject:")
	var b strings.Builder
	real := r.options.fill(v) // its sender, and so its length, is known
	if err := t.subject.Execute(&b, real); err != nil {
		r.unfit(at, err)
		return false
	}
	if n := utf8.RuneCountInString(inOneLine(b.String())); n > MaxSubject {
		r.problem(at+1, n, "the subject comes to %d characters, and %d are shown of it; shorten it", n, MaxSubject)
		return false
	}
	return true
}

// unfit is the error of a template with conditions that do not fit their values.
func (r *reader) unfit(from int, err error) {
	why := err.Error()
	if m := executed.FindStringSubmatch(why); m != nil {
		line, _ := strconv.Atoi(m[1])
		column, _ := strconv.Atoi(m[2])
		for range line - 1 {
			if i := strings.IndexByte(r.text[from:], '\n'); i >= 0 {
				from += i + 1
			}
		}
		from, why = from+column, m[3]
	}
	r.problem(from, 2, "%s; numbers are compared with numbers, as in {{if gt .Days 1}}, and text with text, as in {{if eq .Number \"1\"}}", why)
}

// longest is the maximum length of a value in a letter, in characters.
const longest = 120

// link matches text that a mail program would turn into a link, or count as one.
var link = regexp.MustCompile(`(?i)://|\bwww\.|[<>@]|\b(?:https?|mailto|javascript|data):`)

// value returns a payer's value for a letter: in one line, and without another address.
func value(s string) string {
	s = inOneLine(s)
	if link.MatchString(s) {
		return ""
	}
	if runes := []rune(s); len(runes) > longest {
		s = strings.TrimSpace(string(runes[:longest-1])) + "…"
	}
	return s
}

// inOneLine returns a text without line ends, invisible characters and direction marks.
func inOneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c), unicode.IsControl(c):
			return ' '
		case hidden(c), unicode.Is(unicode.Cf, c), unicode.Is(unicode.Co, c), unicode.Is(unicode.Zl, c),
			unicode.Is(unicode.Zp, c):
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, "�"))), " ")
}

// Examples returns invented values for a letter of a kind.
func Examples(kind letters.Kind, host string) Fields {
	f := Fields{Name: "Tideswell & Sons Ltd", Contact: "Maureen Tideswell", Number: "K-1042", Link: "https://" + host +
		"/sign/EXAMPLE-not-a-real-link"}
	if kind == letters.Reminder || kind == letters.LastCall {
		f.Days = 14
	}
	return f
}
