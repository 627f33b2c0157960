package pages

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/letters"
	"payersync/state"
)

// bouncedRow is a payer with bounced letters.
type bouncedRow struct {
	letterRow
	Stop state.LetterStop
}

// addBounced adds the payers excluded from letters because of bounces.
func (v *visit) addBounced(page *lettersPage) error {
	page.Dead = page.Plan.Count(letters.Stopped, letters.WhyBounced)
	if page.Dead == 0 {
		return nil
	}
	var dead []letters.Next
	for _, x := range page.Plan.Next {
		if x.Why == letters.WhyBounced && len(dead) < rowsShown {
			dead = append(dead, x)
		}
	}
	rows, err := v.letterRows(dead)
	if err != nil {
		return err
	}
	stops, err := v.ledger().LetterStops(v.Context())
	said := map[string]state.LetterStop{}
	for _, s := range stops {
		if s.Why == state.StopBounced {
			said[s.Recipient] = s
		}
	}
	page.Bounced = append(page.Bounced,
		connector.Map(rows, func(r letterRow) bouncedRow { return bouncedRow{r, said[r.Recipient]} })...)
	return err
}

// whoBounced names the list of bounced letters in messages.
const whoBounced = "the list of letters that came back"

// Became describes the result of a line.
func (*lettersPage) Became(h admin.BouncedLine) string { return h.Words(whoBounced) }

// noteBounced reads bounce reports or addresses.
func (v *visit) noteBounced() error {
	texts, err := v.bouncedTexts()
	if err != nil {
		return err
	}
	_, by, err := v.desk()
	if err != nil {
		return err
	}
	bounces := &admin.Bounces{Ledger: v.ledger()}
	heard, err := bounces.Texts(v.Context(), texts, by)
	switch {
	case errors.Is(err, admin.ErrTooManyLines):
		return problem{Status: http.StatusUnprocessableEntity, Title: "Nothing was saved", Sentence: "There are more than " +
			number(admin.MostLines) + " lines.", Next: "Go back, and enter them in several parts."}
	case err != nil:
		return err
	case len(heard) == 0:
		return problem{Status: http.StatusUnprocessableEntity, Title: "Nothing was saved",
			Sentence: "The form has no delivery report and no address.",
			Next:     "Go back, choose a file or write an address, and try again."}
	}
	v.changed()
	if len(heard) == 1 && heard[0].Wrong == "" {
		return v.done(heard[0].Words(whoBounced), "/mandates/letters")
	}
	page, err := v.lettersPage(v.pages.cfg.Letters.Desk.Plan)
	if err != nil {
		return err
	}
	page.Heard = heard
	var again []string
	for _, h := range heard {
		page.Misread = page.Misread || h.Wrong != ""
		if h.Wrong != "" && h.Name == "" { // the person still has the chosen file
			again = append(again, h.Text)
		}
	}
	page.Again = strings.Join(again, "\n")
	if page.Misread {
		return v.showAs(http.StatusUnprocessableEntity, "letters", "Some lines could not be read", page)
	}
	return v.show("letters", "Letters that came back", page)
}

// bouncedTexts returns the pasted text and the uploaded files.
func (v *visit) bouncedTexts() (texts []admin.BouncedText, err error) {
	texts = []admin.BouncedText{{Text: v.filled("text")}}
	if v.MultipartForm == nil {
		return texts, nil
	}
	for _, file := range v.MultipartForm.File["report"] {
		f, err := file.Open()
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		texts = append(texts, admin.BouncedText{Name: file.Filename, Text: string(raw)})
	}
	return texts, nil
}

// reviveBounced clears the bounces of a payer's address.
func (v *visit) reviveBounced() error {
	reason, err := v.reason()
	if err != nil {
		return err
	}
	connection, id, _ := strings.Cut(v.filled("payer"), "/")
	_, err = v.acts().Perform(v.Context(),
		admin.Decision{Act: connector.ActResume, Record: state.RecordID{Connection: connection, SourceID: id}}, v.by(reason))
	v.changed()
	switch {
	case errors.Is(err, admin.ErrNotBounced):
		return v.done("No letter to the payer's current address was marked as returned. Nothing was changed.",
			"/mandates/letters")
	case errors.Is(err, admin.ErrNotWrittenTo):
		return problem{Status: http.StatusConflict, Title: "Nothing was changed",
			Sentence: "payersync has no e-mail address of this payer.",
			Next:     "Go back to the letters. The operator of payersync can allow an address alone."}
	case err != nil:
		return err
	}
	return v.done("The next letter goes to this address when it is due. Nothing was sent yet.", "/mandates/letters")
}
