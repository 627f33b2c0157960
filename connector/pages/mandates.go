package pages

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/letters"
	"payersync/connector/readiness"
	"payersync/connector/safecsv"
	"payersync/state"
)

// waiting are the parts of the work list, by their name in an address.
var waiting = []struct {
	show, label string
	which       admin.Which
}{
	{"", "All", admin.Which{}},
	{"unsent", "Not invited yet", admin.Which{Step: readiness.NotSent}},
	{"3", "3 days or more", admin.Which{Days: 3}},
	{"7", "7 days", admin.Which{Days: 7}},
	{"14", "14 days", admin.Which{Days: 14}},
	{"30", "30 days", admin.Which{Days: 30}},
	{"bounced", "E-mail bounced", admin.Which{Step: readiness.Bounced}},
	{"stopped", "Stopped", admin.Which{Step: readiness.Stopped}},
	{"lost", "Signing link lost", admin.Which{Step: readiness.LinkLost}},
	{"replaced", "Replaced", admin.Which{Replaced: true}},
}

// part is a link to a part of a list, with how many are in it.
type part struct {
	choice
	Count int
}

// workRow is a payer yet to sign.
type workRow struct {
	admin.ReadinessOfRecord
	Path   string // of the payer's page
	Local  string // of the e-mail address as the visitor may see it, with the @
	Domain string
	Status chip
	Why    string // it does not go on by itself
	Next   string // the next step: a letter, or a task
}

// mandates lists the payers yet to sign, longest wait first.
func (v *visit) mandates() error {
	c, err := v.counted()
	if c == nil {
		return err
	}
	content := struct {
		Counted  time.Time
		Waiting  int
		Lost     int
		Choices  []part
		Rows     []workRow
		Pager    pager
		Several  bool // connections
		Operator bool
		Letters  bool // the user may see them
		Today    string
		Show     string
		Signing  *chart
		Least    int
		Written  []writtenBack // the newest write-back of each connection
	}{Counted: c.At, Several: len(v.pages.cfg.Connections) > 1, Operator: v.User.Role.May(Operator),
		Letters: v.pages.served["/mandates/letters"], Today: admin.DayOf(v.pages.now()), Least: admin.LeastGroup}
	var which admin.Which
	show := v.filled("show")
	content.Show = show
	for _, w := range waiting {
		w.which.Class = readiness.Awaiting
		n := c.Number(w.which)
		switch w.show {
		case "":
			content.Waiting = n
		case "lost":
			content.Lost = n
		}
		if w.show == show {
			which = w.which
		}
		content.Choices = append(content.Choices,
			part{choice{w.label, v.with("show", w.show, "after", ""), w.show == show}, n})
	}
	if which.Class == "" {
		return notFound
	}
	rows, next, err := v.pages.cfg.Standings.Page(v.Context(), c, which, v.filled("after"), rowsShown)
	if err != nil {
		return err
	}
	if content.Rows, err = v.workRows(rows); err != nil {
		return err
	}
	content.Pager = v.page(next).of(len(rows), c.Number(which))
	if content.Written, err = v.writtenBack(); err != nil {
		return err
	}
	if at := slices.IndexFunc(c.Signing, func(s admin.Signing) bool { return s.By == "all" }); at >= 0 {
		s := c.Signing[at]
		content.Signing = newChart("Days to sign",
			fmt.Sprintf("Half of %s came within %s, nine of ten within %s.", connector.Plural(s.Signed, "signature"),
				within(s.Median), within(s.P90)),
			"Days", "Signatures", boundLabels(admin.SignedIn[:], ">"), s.Days[:])
	}
	return v.show("mandates", "Mandates", content)
}

// workRows returns the payers yet to sign, with their next step.
func (v *visit) workRows(stood []admin.ReadinessOfRecord) (out []workRow, err error) {
	ids := make([]state.RecordID, len(stood))
	for i, r := range stood {
		ids[i] = state.RecordID{Connection: r.Connection, SourceID: r.SourceID}
	}
	written, err := v.pages.cfg.Letters.NextOf(v.Context(), ids...)
	counting := errors.Is(err, admin.ErrCounting)
	if err != nil && !counting {
		return nil, err
	}
	for i, r := range stood {
		row := workRow{ReadinessOfRecord: r, Path: payerPath(ids[i]), Status: stepChip(r.Assessment), Why: whyItStops(r.Assessment),
			Next: r.Handover.Next}
		if x, has := written[ids[i]]; has && x.What != letters.Stopped && x.What != letters.Finished {
			row.Next = nextLetter(x)
		} else if counting {
			row.Next = "Is being worked out: look again in a moment."
		}
		if address := v.email(r.Handover.Email); address != "" {
			at := strings.IndexByte(address, '@') + 1
			row.Local, row.Domain = address[:at], address[at:]
		}
		out = append(out, row)
	}
	return out, nil
}

// counted returns the last count of all records. While the first count is running, it shows a page with this message
// and returns nil.
func (v *visit) counted() (*admin.Count, error) {
	c, err := v.pages.cfg.Standings.Latest(v.Context())
	if errors.Is(err, admin.ErrCounting) {
		return nil, v.show("counting", "Counting", v.with())
	}
	return c, err
}

// stepChip returns the chip of a payer yet to sign.
func stepChip(s readiness.Assessment) chip {
	switch s.Step {
	case readiness.NotSent:
		return chip{"–", "Not invited", none}
	case readiness.Sent:
		return chip{"✎", "Sent, not signed", waits}
	case readiness.LinkLost:
		return chip{"✕", "Signing link lost", stopped}
	case readiness.Bounced:
		return chip{"✕", "E-mail bounced", stopped}
	}
	return chip{"✕", "Stopped", stopped}
}

// whyItStops explains why a payer yet to sign gets no reminder, or names an uncertainty.
func whyItStops(s readiness.Assessment) string {
	switch {
	case s.Step == readiness.LinkLost:
		return "payersync has no signing link."
	case s.Step == readiness.Stopped, s.Step == readiness.Bounced:
		return s.Sentence
	case s.Note != "":
		return "payersync does not know whether the last letter arrived."
	}
	return ""
}

// handOver sends the hand-over file. The audit log has the requester before the first byte is sent.
func (v *visit) handOver() error {
	why, err := v.reason()
	if err != nil {
		return err
	}
	h := admin.Handover{Valid: v.pages.cfg.Valid, Why: why}
	switch who := v.filled("who"); who {
	case "all":
	case "unsent":
		h.NotSent = true
	case "lost":
		h.Lost = true
	default:
		days, err := strconv.Atoi(who)
		if err != nil || days < 1 || days > 3650 {
			return problem{Status: http.StatusUnprocessableEntity, Title: "No file was made",
				Sentence: "The form does not name the payers for the file.", Next: "Go back, choose who, and try again."}
		}
		h.Older = time.Duration(days) * 24 * time.Hour
	}
	file, err := admin.MakeHandover(v.Context(), v.ledger(), h, v.User.Name)
	if err != nil {
		return err
	}
	var rows [][]string
	if err := file.Each(v.Context(),
		func(r admin.HandoverRow) error { rows = append(rows, r.Cells()); return nil }); err != nil {
		return err
	}
	return v.download("links.csv", admin.HandoverHeader, rows)
}

// download answers with a file for a spreadsheet, made whole before its first byte leaves.
func (v *visit) download(name string, header []string, rows [][]string) error {
	var file bytes.Buffer
	file.WriteString(safecsv.Mark)
	separator := ','
	if v.filled("separator") == "semicolon" {
		separator = safecsv.Semicolon
	}
	out := safecsv.New(&file, separator)
	err := out.Row(header)
	for _, row := range rows {
		err = errors.Join(err, out.Row(row))
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Content-Length", strconv.Itoa(file.Len()))
	_, _ = v.w.Write(file.Bytes())
	return nil
}

// noteSent notes that somebody else sent the links of the chosen payers.
func (v *visit) noteSent() error {
	on, err := time.Parse(time.DateOnly, v.filled("on"))
	chosen := v.Form["mandate"]
	switch {
	case len(chosen) == 0:
		return problem{Status: http.StatusUnprocessableEntity, Title: "Nothing was saved", Sentence: "No payer was selected.",
			Next: "Go back, select the payers that got their signing link, and try again."}
	case err != nil:
		return problem{Status: http.StatusUnprocessableEntity, Title: "Nothing was saved",
			Sentence: "The date of sending is missing, or is not a date.",
			Next:     "Go back and give the day, for example 2026-11-20."}
	}
	sendings := connector.Map(slices.Compact(slices.Sorted(slices.Values(chosen))),
		func(id string) admin.Sending { return admin.Sending{MandateID: id, On: on} })
	why, err := v.why()
	if err != nil {
		return err
	}
	r, err := admin.NoteSent(v.Context(), v.ledger(), sendings, v.User.Name, why)
	if err != nil {
		return err
	}
	v.changed()
	note := connector.Plural(r.Noted, "link") + " noted as sent on " + on.Format("2 Jan 2006") + "."
	if r.Before > 0 {
		note += fmt.Sprintf(" %d had been noted before.", r.Before)
	}
	for i, err := range r.Errors {
		if i == 3 {
			note += fmt.Sprintf(" And %d more.", len(r.Errors)-i)
			break
		}
		note += " " + upper(err.Error()) + "."
	}
	return v.done(note, "/mandates"+v.showing())
}

// showing returns the form's part of the work list, as a query.
func (v *visit) showing() string {
	show := v.PostFormValue("show")
	for _, w := range waiting {
		if w.show == show && show != "" {
			return "?show=" + show
		}
	}
	return ""
}

// exportReport sends the report as a file, or a class of it.
func (v *visit) exportReport() error {
	class, step, ok := classOf(v)
	if !ok {
		return problem{Status: http.StatusUnprocessableEntity, Title: "The file was not made",
			Sentence: "There is no such part of the report.", Next: "Go back to the report, choose one, and try again."}
	}
	if !v.pages.exporting.TryLock() {
		return problem{Status: http.StatusConflict, Title: "The file was not made",
			Sentence: "Another one is being made just now.", Next: "Wait a few seconds, go back, and try again."}
	}
	defer v.pages.exporting.Unlock()
	var rows [][]string
	_, err := admin.MakeReport(v.Context(), v.ledger(), admin.ReportOn{Valid: v.pages.cfg.Valid},
		func(r admin.ReportRow) error {
			if (class == "" || r.Class == class) && (step == "" || r.Step == step) {
				rows = append(rows, r.Cells())
			}
			return nil
		})
	if err != nil {
		return err
	}
	what := "all"
	if class != "" {
		what = strings.TrimSuffix("class "+string(class)+", "+string(step), ", ")
	}
	if err := admin.Audit(v.Context(), v.ledger(), state.Entry{Actor: v.User.Name, Action: "export report",
		Subject: connector.Plural(len(rows), "record"), Reason: what}); err != nil {
		return err
	}
	return v.download("report.csv", admin.ReportHeader, rows)
}

// writtenBack is the newest write-back of a connection.
type writtenBack struct {
	state.WritebackRun
	Path string // of what waits, or of its problems; "" for neither
}

// writtenBack returns the newest write-back of each connection.
func (v *visit) writtenBack() ([]writtenBack, error) {
	runs, err := v.ledger().WritebackRuns(v.Context())
	return connector.Map(runs, func(r state.WritebackRun) writtenBack {
		row := writtenBack{WritebackRun: r}
		switch {
		case r.Waiting > 0:
			row.Path = writesPath(r.Connection, admin.WaitingWrites)
		case r.Stuck > 0:
			row.Path = writesPath(r.Connection, admin.StuckWrites)
		}
		return row
	}), err
}
