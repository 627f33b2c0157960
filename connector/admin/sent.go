package admin

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/readiness"
	"payersync/state"
)

// Sending is a reported hand-over: the link of one payer, on a day.
type Sending struct {
	Place      string // where it is said, for example "links.csv line 7: "; "" for nowhere
	MandateID  string // or, if it is blank,
	Number     string // of the payer, or its source id, billing id or mandate id
	Connection string // of the number; "" for all
	On         time.Time
}

// The limits for a file of sendings.
const (
	sentLines = 1_000_000
	sentBytes = 256 << 20
)

// numberColumns and dayColumns are how the columns of a file of sendings may be called.
var (
	numberColumns = []string{"number", "record", "id"}
	dayColumns    = []string{"date", "on", "sent_on"}
)

// ReadSendings reads a file of sendings: a hand-over file, or any CSV with a column number, and a column date for
// different days. The separator is a comma or a semicolon. on is the day of rows without one. Mistakes in single rows
// are returned separately.
func ReadSendings(name string, r io.Reader, on time.Time) (out []Sending, problems []error, err error) {
	text, err := io.ReadAll(io.LimitReader(r, sentBytes))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	in := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(text), "\ufeff")))
	in.Comma = separatorOf(string(text))
	header, err := in.Read()
	if err != nil {
		return nil, nil, connector.Advise(fmt.Errorf("cannot read %s: it has no line with the names of its columns. A line \"number,date\" will do, and a hand-over file has one", name), connector.Step{Do: connector.DoHandOver})
	}
	number, mandate := columnOf(header, numberColumns...), columnOf(header, "mandate_id")
	connection, day := columnOf(header, "connection"), columnOf(header, dayColumns...)
	if number < 0 && mandate < 0 {
		return nil, nil, connector.Advise(fmt.Errorf("cannot read %s: it has no column \"number\" and none \"mandate_id\". Take a file with the columns number and date, or a hand-over file", name), connector.Step{Do: connector.DoHandOver})
	}
	in.FieldsPerRecord = len(header)
	for {
		row, err := in.Read()
		switch {
		case errors.Is(err, io.EOF):
			return out, problems, nil
		case err != nil:
			return nil, nil, fmt.Errorf("cannot read %s: %w; save it as CSV again", name, unquoted(err))
		case len(out) == sentLines:
			return nil, nil, fmt.Errorf("cannot read %s: it has more than %d rows; divide it", name, sentLines)
		}
		line, _ := in.FieldPos(0)
		s := Sending{Place: fmt.Sprintf("%s line %d: ", name, line), MandateID: cell(row, mandate), Number: cell(row, number),
			Connection: cell(row, connection), On: on}
		if text := cell(row, day); text != "" {
			if s.On, err = time.Parse(time.DateOnly, text); err != nil {
				problems = append(problems,
					fmt.Errorf("%sthe date of %s is not one; write it as 2026-11-20", s.Place, orNobody(s.Number)))
				continue
			}
		}
		switch {
		case s.MandateID == "" && s.Number == "":
			problems = append(problems, fmt.Errorf("%sit names nobody: fill in the number", s.Place))
		case s.On.IsZero():
			problems = append(problems,
				fmt.Errorf("%s%s has no date; give the day with --on, or a column date", s.Place, orNobody(s.Number)))
		default:
			out = append(out, s)
		}
	}
}

func orNobody(number string) string {
	if number == "" {
		return "this row"
	}
	return "number " + number
}

// unquoted removes the quoted part of a line from a parser's error, because it may be personal.
func unquoted(err error) error {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("line %d: %w", parse.StartLine, parse.Err)
	}
	return err
}

// separatorOf returns the separator of the columns, by the first line.
func separatorOf(text string) rune {
	if first, _, _ := strings.Cut(text, "\n"); strings.Count(first, ";") > strings.Count(first, ",") {
		return ';'
	}
	return ','
}

func columnOf(header []string, names ...string) int {
	for _, name := range names {
		for i, h := range header {
			if strings.EqualFold(strings.TrimSpace(h), name) {
				return i
			}
		}
	}
	return -1
}

// cell returns a cell as it was before it was made safe for spreadsheets.
func cell(row []string, at int) string {
	if at < 0 {
		return ""
	}
	text := strings.TrimSpace(row[at])
	if bare, quoted := strings.CutPrefix(text, "'"); quoted && strings.IndexAny(bare, "=+-@＝＋－＠\t\r\n") == 0 {
		return bare
	}
	return text
}

// SentResult is the result of reported hand-overs.
type SentResult struct {
	Noted  int     `json:"noted"`
	Before int     `json:"noted_before"` // the same was noted before
	Failed int     `json:"failed"`
	Errors []error `json:"-"`
}

// NoteSent notes links sent by somebody else. It reports failures and still notes the others.
func NoteSent(ctx context.Context, ledger *state.Ledger, sendings []Sending, actor, reason string) (r SentResult,
	err error) {
	by, err := indexed(ctx, ledger, sendings)
	if err != nil {
		return r, err
	}
	today := day(ledger.Now())
	type noted struct {
		mandate string
		on      time.Time
	}
	var notes []noted
	for _, s := range sendings {
		m, err := by.find(s, today)
		if err != nil {
			r.Failed, r.Errors = r.Failed+1, append(r.Errors, err)
			continue
		}
		notes = append(notes, noted{m.ID, s.On})
	}
	if len(notes) == 0 {
		return r, nil
	}
	err = ledger.Do(ctx, func(tx *state.Tx) error {
		r.Noted, r.Before = 0, 0
		for _, n := range notes {
			news, err := tx.NoteHandover(n.mandate, n.on, actor)
			if err != nil {
				return err
			}
			if news {
				r.Noted++
			} else {
				r.Before++
			}
		}
		if r.Noted == 0 {
			return nil
		}
		return tx.Audit(state.Entry{Actor: actor, Action: "note sent links", Subject: connector.Plural(r.Noted, "mandate"),
			Reason: reason})
	})
	return r, err
}

// day returns the local day of a time, as a date alone.
func day(at time.Time) time.Time {
	at = at.Local()
	return time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
}

// payersBy are the payers with a mandate, by their possible names in a file.
type payersBy map[string][]state.ReadinessFacts

// fewSendings is the maximum number of sendings to look up one by one.
const fewSendings = 100

// indexed returns the payers possibly named by sendings.
func indexed(ctx context.Context, ledger *state.Ledger, sendings []Sending) (payersBy, error) {
	by := payersBy{}
	add := func(f state.ReadinessFacts) error {
		if f.Mandate.ID == "" {
			return nil
		}
		f.Label = nil // the name does not matter
		known := map[string]bool{}
		for _, name := range []string{f.Key.Value, f.SourceID, f.BillingID, f.Mandate.ID} {
			if !known[name] {
				by[name] = append(by[name], f)
			}
			known[name] = true
		}
		return nil
	}
	if len(sendings) > fewSendings || slices.ContainsFunc(sendings, func(s Sending) bool { return s.MandateID == "" }) {
		return by, ledger.EachReadiness(ctx, "", add)
	}
	for _, s := range sendings {
		if by[s.MandateID] != nil {
			continue // it is named twice
		}
		payers, err := ledger.FindPayers(ctx, s.MandateID)
		if err != nil {
			return nil, err
		}
		for _, p := range payers {
			f, err := ledger.ReadinessOf(ctx, state.RecordID{Connection: p.Connection, SourceID: p.SourceID})
			if err == nil && f != nil {
				err = add(*f)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return by, nil
}

// find returns the mandate of a sent link, or the reason against noting it.
func (by payersBy) find(s Sending, today time.Time) (state.ReadinessMandate, error) {
	var m state.ReadinessMandate
	refuse := func(why string, args ...any) error {
		return fmt.Errorf("%scannot note %s: %s", s.Place, orNobody(s.Number), fmt.Sprintf(why, args...))
	}
	advise := func(step connector.Step, why string, args ...any) error {
		return connector.Advise(refuse(why, args...), step)
	}
	name := s.Number
	if s.MandateID != "" {
		name = s.MandateID
	}
	var found []state.ReadinessFacts
	for _, f := range by[name] {
		if (s.Connection == "" || f.Connection == s.Connection) && (s.MandateID == "" || f.Mandate.ID == s.MandateID) {
			found = append(found, f)
		}
	}
	switch {
	case len(found) == 0 && s.MandateID != "":
		return m, advise(connector.Step{Do: connector.DoHandOver},
			"no payer has the mandate %s now, so its signing link is no longer of use. Write a new file", s.MandateID)
	case len(found) == 0:
		return m, advise(connector.Step{Do: connector.DoFindPayer},
			"no payer with a mandate has this number. Search for the payer")
	case len(found) > 1:
		return m, refuse("%d payers have this number; add a column connection, or name the mandate's id", len(found))
	}
	m = found[0].Mandate
	switch {
	case s.On.After(today):
		return m, refuse("%s is in the future; note it when it is sent", s.On.Format(time.DateOnly))
	case s.On.Before(day(m.FirstSeen)):
		return m, refuse("%s is before its mandate was there, on %s; check the date", s.On.Format(time.DateOnly),
			day(m.FirstSeen).Format(time.DateOnly))
	case m.Status == connector.MandateCreated && !readiness.HoldsLink(m):
		return m, advise(connector.Step{Act: connector.ActRequest, Of: found[0].SourceID, Connection: found[0].Connection},
			"its signing link is lost, so it cannot have been sent from here. Fetch it again")
	}
	return m, nil
}
