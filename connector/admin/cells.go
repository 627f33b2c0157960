package admin

import (
	"fmt"
	"time"
)

// HandoverHeader are the columns of a hand-over file. They are a public interface: mail merges
// and `payersync mandates handover --sent` read them.
var HandoverHeader = []string{"number", "name", "contact", "e-mail", "phone", "language", "status", "link",
	"link_since", "days", "sent", "reminded", "next", "note", "connection", "mandate_id"}

// Cells returns the row as cells, by HandoverHeader.
func (r HandoverRow) Cells() []string {
	return []string{r.Number, r.Name, r.Contact, r.Email, r.Phone, r.Language, string(r.Status), r.Link,
		DayOf(r.LinkSince), fmt.Sprint(r.Days),
		DayOf(r.Sent), DayOf(r.Reminded), r.Next, r.Note, r.Connection, r.MandateID}
}

// ReportHeader are the columns of a report as CSV. They are a public interface.
var ReportHeader = []string{"class", "step", "number", "name", "mandate", "since", "days", "who_must_act", "sentence",
	"cure", "letters", "last_letter", "connection", "record", "note", "financial_status", "financial_seen"}

// Cells returns the row as cells, by ReportHeader.
func (r ReportRow) Cells() []string {
	return []string{string(r.Class), string(r.Step), r.Number, r.Name, string(r.Mandate), utc(r.Since), fmt.Sprint(r.Days),
		string(r.Who), r.Sentence, r.Cure,
		fmt.Sprint(r.Letters), utc(r.LastLetter), r.Connection, r.SourceID, r.Note, r.Status, utc(r.SeenAt)}
}

// DayOf returns the day of a time in the local time zone; blank for the zero time. A date alone, at midnight in UTC,
// keeps its day.
func DayOf(at time.Time) string {
	switch {
	case at.IsZero():
		return ""
	case at.Equal(at.UTC().Truncate(24 * time.Hour)):
		return at.UTC().Format(time.DateOnly)
	}
	return at.Local().Format(time.DateOnly)
}

// utc returns a time for other programs; blank for the zero time.
func utc(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
