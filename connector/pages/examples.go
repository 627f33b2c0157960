package pages

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/letters"
	"payersync/state"
)

// letterPolicy lets a browser only display a letter, like mail programs do. The letter runs no script, sends no form,
// loads nothing and has no origin, despite any template or name in it.
const letterPolicy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// exampleRow is a letter with invented data.
type exampleRow struct {
	Kind    letters.Kind
	Subject string
	Lines   []string
	Path    string // of the letter as HTML
}

// examples shows the letters of all kinds in a language, filled with invented data.
func (v *visit) examples() error {
	desk := v.pages.cfg.Letters
	if desk == nil || desk.Example == nil {
		return noExample
	}
	languages := desk.Desk.Settings.Languages
	language := v.filled("language")
	if language == "" && len(languages) > 0 {
		language = languages[0]
	}
	if !slices.Contains(languages, language) {
		return noExample
	}
	var page struct {
		Language string
		Choices  []choice
		Rows     []exampleRow
	}
	page.Language = language
	page.Choices = append(page.Choices,
		connector.Map(languages, func(l string) choice { return choice{l, v.with("language", l), l == language} })...)
	for _, kind := range admin.LetterKinds {
		letter, err := desk.Example(kind, language)
		if err != nil {
			return err
		}
		page.Rows = append(page.Rows,
			exampleRow{kind, letter.Subject, strings.Split(letter.Text, "\n"), "/mandates/letters/example/" + string(kind) +
				"/" + language})
	}
	return v.show("examples", "Example letters", page)
}

var noExample = problem{Status: http.StatusNotFound, Title: "There is no such letter",
	Sentence: "No letter of this kind is written in this language.", Next: "Choose an example on the page of letters.",
	Path: "/mandates/letters"}

// example shows such a letter as mail programs do.
func (v *visit) example() error {
	desk, kind, language := v.pages.cfg.Letters, letters.Kind(v.PathValue("kind")), v.PathValue("language")
	if desk == nil || desk.Example == nil || !slices.Contains(admin.LetterKinds, kind) ||
		!slices.Contains(desk.Desk.Settings.Languages, language) {
		return noExample
	}
	letter, err := desk.Example(kind, language)
	if err != nil {
		return err
	}
	return v.showLetter(letter.HTML)
}

// prepared shows a payer's next letter as mail programs do, but for its link.
func (v *visit) prepared() error {
	desk := v.pages.cfg.Letters
	id := state.RecordID{Connection: v.PathValue("connection"), SourceID: v.PathValue("id")}
	next, err := desk.NextOf(v.Context(), id)
	switch {
	case errors.Is(err, admin.ErrCounting):
		return v.show("counting", "Counting", v.with())
	case err != nil:
		return err
	}
	x, has := next[id]
	if !has || x.What != letters.Due && x.What != letters.Waits {
		return problem{Status: http.StatusNotFound, Title: "There is no such letter",
			Sentence: "No letter to this payer is prepared.", Next: "The page of letters lists those that are.",
			Path: "/mandates/letters"}
	}
	html, err := desk.HTML(v.Context(), x)
	if err != nil {
		return err
	}
	return v.showLetter(html)
}

// Prepared returns the address of the letter as HTML.
func (r letterRow) Prepared() string {
	return "/mandates/letters/prepared" + strings.TrimPrefix(r.Path, "/payers")
}

// showLetter answers with a letter, and with nothing of ours around it.
func (v *visit) showLetter(html string) error {
	h := v.w.Header()
	h.Set("Content-Security-Policy", letterPolicy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	_, _ = v.w.Write([]byte(html)) //nolint:gosec // of a template; it escapes its values
	return nil
}
