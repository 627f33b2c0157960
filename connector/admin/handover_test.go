package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// street is a book in which records stand everywhere.
func street(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	ada := connector.Label{Number: "A1", Name: "Ada", Email: "ada@bakery.example", Language: "de"}
	w.book("acme",
		placed{id: "A1", status: connector.MandateCreated, label: ada, people: []connector.Person{
			{Name: "Bob", Email: "bob@bakery.example"},
			{FirstName: "Ada", LastName: "Lee", Email: "ADA@bakery.example", Phone: "+44 20 1234"},
		}},
		placed{id: "A2", status: connector.MandateCreated},
		placed{id: "A3", status: connector.MandateCreated, lost: true},
		placed{id: "A4", status: connector.MandateCreated, verdict: state.Held, topic: state.TopicRecord,
			reason: connector.ReasonNameMissing},
		placed{id: "A5", status: connector.MandateCreated, verdict: state.Excluded},
		placed{id: "A6", status: connector.MandateCreated, moves: []connector.MandateStatus{connector.MandatePending}},
		placed{id: "A7"},
	)
	w.now = w.now.Add(20 * 24 * time.Hour)
	w.book("beta", placed{id: "B1", status: connector.MandateCreated}, placed{id: "B2", unlinked: true})
	return w
}

func (w *world) handover(h admin.Handover) []admin.HandoverRow {
	w.t.Helper()
	return w.rowsOf(w.makeHandover(h))
}

func (w *world) makeHandover(h admin.Handover) *admin.HandoverFile {
	w.t.Helper()
	file, err := admin.MakeHandover(context.Background(), w.ledger, h, "ada")
	if err != nil {
		w.t.Fatalf("%+v: %v", h, err)
	}
	return file
}

func (w *world) rowsOf(file *admin.HandoverFile) (rows []admin.HandoverRow) {
	w.t.Helper()
	if err := file.Each(context.Background(),
		func(r admin.HandoverRow) error { rows = append(rows, r); return nil }); err != nil {
		w.t.Fatal(err)
	}
	return rows
}

func TestAHandoverFileHoldsWhoMaySignAndNobodyElse(t *testing.T) {
	t.Parallel()
	w := street(t)
	on := w.now.AddDate(0, 0, -3)
	if r, err := admin.NoteSent(t.Context(), w.ledger,
		[]admin.Sending{{Number: "A2", On: on}, {Number: "A2", On: on.AddDate(0, 0, 1)}}, "ada", ""); err != nil ||
		r.Noted != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, c := range []struct {
		h    admin.Handover
		want string
	}{
		{admin.Handover{}, "A1 A2 B1"},
		{admin.Handover{Connection: "beta"}, "B1"},
		{admin.Handover{NotSent: true}, "A1 B1"},
		{admin.Handover{Older: 14 * 24 * time.Hour}, "A1 A2"},
		{admin.Handover{Lost: true}, "A3"},
		{admin.Handover{Limit: 2}, "A1 A2"},
		{admin.Handover{Valid: 14 * 24 * time.Hour}, "B1"},
		{admin.Handover{Valid: 14 * 24 * time.Hour, Lost: true}, "A1 A2 A3"},
	} {
		var got []string
		for _, r := range w.handover(c.h) {
			got = append(got, r.Number)
			if (r.Link == "") != c.h.Lost || r.Link != "" && r.Link != "https://pay.example.com/sign/"+r.Number {
				t.Errorf("%+v: the link of %s is %q", c.h, r.Number, r.Link)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v holds %v, want %s", c.h, got, c.want)
		}
	}
	for limit, more := range []bool{false, true, true, false} { // of three
		if got := w.makeHandover(admin.Handover{Limit: limit}).More; got != more {
			t.Errorf("at most %d: there are more: %v", limit, got)
		}
	}
	rows := w.handover(admin.Handover{})
	day := func(text string) time.Time { at, _ := time.Parse(time.DateOnly, text); return at }
	want := []admin.HandoverRow{
		{Number: "A1", Name: "Ada", Contact: "Ada Lee", Email: "ada@bakery.example", Phone: "+44 20 1234", Language: "de",
			Status: "CREATED", Link: "https://pay.example.com/sign/A1",
			Days: 21, Next: "Send the signing link.", Connection: "acme", MandateID: "m-A1"},
		{Number: "A2", Status: "CREATED", Link: "https://pay.example.com/sign/A2", Days: 21,
			Sent: day(on.Format(time.DateOnly)), Reminded: day(on.AddDate(0, 0, 1).Format(time.DateOnly)),
			Next: "Wait, or call the payer.", Connection: "acme", MandateID: "m-A2"},
	}
	if diff := cmp.Diff(want, rows[:2], cmpopts.IgnoreUnexported(admin.HandoverRow{}),
		cmpopts.IgnoreFields(admin.HandoverRow{}, "LinkSince")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	lost := w.handover(admin.Handover{Lost: true})[0]
	if !strings.Contains(lost.Note, "Fetch the signing link again") || !lost.LinkSince.IsZero() {
		t.Errorf("a lost link is told as %+v", lost)
	}
}

// covers F130
func TestALinkOlderThanItsMandateIsHandedToNobody(t *testing.T) {
	t.Parallel()
	w := street(t)
	w.now = w.now.Add(time.Hour)
	w.do(func(tx *state.Tx) error { // the customer has another mandate by now, of which the link was never seen
		if _, err := tx.SaveMandate(connector.Mandate{ID: "m-new", CustomerID: "b-A1", Status: connector.MandateCreated},
			connector.CauseSweep, "1"); err != nil {
			return err
		}
		return tx.SetMandate("acme", "A1", "m-new")
	})
	// and this one began anew
	for _, status := range []connector.MandateStatus{connector.MandateCancelled, connector.MandateCreated} {
		w.now = w.now.Add(time.Hour)
		w.do(func(tx *state.Tx) error {
			_, err := tx.SaveMandate(connector.Mandate{ID: "m-A2", CustomerID: "b-A2", Status: status}, connector.CauseSweep,
				"1")
			return err
		})
	}
	for _, r := range w.handover(admin.Handover{}) {
		if r.Number != "B1" {
			t.Errorf("%s is handed over with the link %s", r.Number, r.Link)
		}
	}
	var lost []string
	for _, r := range w.handover(admin.Handover{Lost: true}) {
		lost = append(lost, r.Number+r.Link)
	}
	if fmt.Sprint(lost) != "[A1 A2 A3]" {
		t.Errorf("as lost are listed %v", lost)
	}
}

func TestWhoWroteAHandoverFileIsInTheAuditLogBeforeALinkIsSeen(t *testing.T) {
	t.Parallel()
	w := street(t)
	w.handover(admin.Handover{Connection: "acme", NotSent: true})
	w.handover(admin.Handover{Older: 14 * 24 * time.Hour})
	for _, want := range []string{"adawrite hand-over file2 mandatesconnection acme, not invited",
		"adawrite hand-over file2 mandatesolder than 14 days"} {
		if !w.inFile(want) {
			t.Errorf("the audit log has no %q", want)
		}
	}
}

// The file holds at most the payers in the audit log: a payer who came meanwhile is not in it.
func TestWhoLeavesTheListWhileItIsMadeIsHandedToNobody(t *testing.T) {
	t.Parallel()
	w := street(t)
	file := w.makeHandover(admin.Handover{})
	if !w.inFile("adawrite hand-over file3 mandatesall") {
		t.Error("the audit log does not have the file before its first row")
	}
	w.do(func(tx *state.Tx) error {
		_, err := tx.SaveMandate(connector.Mandate{ID: "m-A1", CustomerID: "b-A1", Status: connector.MandatePending},
			connector.CauseWebhook, "1")
		return err
	})
	w.book("beta", placed{id: "B7", status: connector.MandateCreated})
	var got []string
	for _, r := range w.rowsOf(file) {
		got = append(got, r.Number+r.Link)
	}
	if fmt.Sprint(got) != "[A2https://pay.example.com/sign/A2 B1https://pay.example.com/sign/B1]" {
		t.Errorf("the file holds %v", got)
	}
}

// inFile reports whether a text is in the ledger's file: the audit log is not sealed, and its
// columns stand side by side.
func (w *world) inFile(text string) bool {
	w.t.Helper()
	whole, err := os.ReadFile(w.path)
	wal, walErr := os.ReadFile(w.path + "-wal")
	if err := errors.Join(err, walErr); err != nil {
		w.t.Fatal(err)
	}
	return bytes.Contains(whole, []byte(text)) || bytes.Contains(wal, []byte(text))
}

func TestAFileOfSendingsIsReadAsPeopleKeepIt(t *testing.T) {
	t.Parallel()
	on := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	other := on.AddDate(0, 0, -2)
	for name, c := range map[string]struct {
		text     string
		want     []admin.Sending
		problems string // parts, a line each
		err      string
	}{
		"a hand-over file": {"\ufeffnumber,name,link,connection,mandate_id,sent\r\n'=A1,\"Ada, Ltd\",https://x,acme,m1,2026-01-01\r\n",
			[]admin.Sending{{Place: "f.csv line 2: ", MandateID: "m1", Number: "=A1", Connection: "acme", On: on}}, "", ""},
		"semicolons": {"Number;Date\nA1;2026-11-18\nA2;\n",
			[]admin.Sending{{Place: "f.csv line 2: ", Number: "A1", On: other},
				{Place: "f.csv line 3: ", Number: "A2", On: on}}, "", ""},
		"a name on two lines": {"name,number\n\"Ada\nLtd\",A1\nBob,A2\n",
			[]admin.Sending{{Place: "f.csv line 2: ", Number: "A1", On: on}, {Place: "f.csv line 4: ", Number: "A2", On: on}},
			"", ""},
		"wrong rows": {"number,date\n,2026-11-18\nA2,18.11.2026\nA3,2026-11-18\n",
			[]admin.Sending{{Place: "f.csv line 4: ", Number: "A3", On: other}},
			"f.csv line 2: it names nobody\nf.csv line 3: the date of number A2 is not one", ""},
		"no header":     {"", nil, "", "no line with the names of its columns"},
		"no number":     {"name,link\nAda,x\n", nil, "", `no column "number"`},
		"cells missing": {"number,date\nA1\n", nil, "", "f.csv: line 2: wrong number of fields"},
		"quotes":        {"number,name\nA1,\"Ada secret\n", nil, "", "f.csv: line 2: extraneous or missing"},
	} {
		got, problems, err := admin.ReadSendings("f.csv", strings.NewReader(c.text), on)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		var told []string
		for _, p := range problems {
			told = append(told, p.Error())
		}
		for i, part := range strings.Split(c.problems, "\n") {
			if (part != "" || len(told) > 0) && (i >= len(told) || !strings.Contains(told[i], part)) {
				t.Errorf("%s: told %q, want %q", name, told, part)
			}
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) ||
			strings.Contains(fmt.Sprint(err), "Ada") {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
	if _, problems, err := admin.ReadSendings("f.csv", strings.NewReader("number\nA1\n"), time.Time{}); err != nil ||
		len(problems) != 1 || !strings.Contains(problems[0].Error(), "has no date") {
		t.Errorf("without a day: %v, %v", problems, err)
	}
}

// covers F131
func TestWhatWasSentIsNotedOnceAndOnlyWhereItCanBeTrue(t *testing.T) {
	t.Parallel()
	w := street(t)
	w.book("beta", placed{id: "B3", key: "A1", status: connector.MandateActive})
	here := w.now.Local()
	today := time.Date(here.Year(), here.Month(), here.Day(), 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		s    admin.Sending
		want string
	}{
		{"by number", admin.Sending{Number: "A2", On: today}, "1 noted"},
		{"once more", admin.Sending{Number: "A2", On: today}, "1 before"},
		{"by the customer", admin.Sending{Number: "b-A2", On: today.AddDate(0, 0, -1)}, "1 noted"},
		{"by the mandate", admin.Sending{MandateID: "m-A2", Number: "whatever", On: today.AddDate(0, 0, -2)}, "1 noted"},
		{"of one who has signed meanwhile", admin.Sending{Number: "A6", On: today}, "1 noted"},
		{"a number that two have", admin.Sending{Place: "f.csv line 7: ", Number: "A1", On: today},
			"f.csv line 7: cannot note number A1: 2 payers have this number"},
		{"in one connection", admin.Sending{Number: "A1", Connection: "acme", On: today}, "1 noted"},
		{"tomorrow", admin.Sending{Number: "A2", On: today.AddDate(0, 0, 1)}, "in the future"},
		{"before there was a link", admin.Sending{Number: "B1", On: today.AddDate(0, 0, -3)},
			"before its mandate was there"},
		{"of a lost link", admin.Sending{Number: "A3", On: today}, "its signing link is lost"},
		{"of nobody", admin.Sending{Number: "A9", On: today}, "no payer with a mandate has this number"},
		{"of one without a mandate", admin.Sending{Number: "A7", On: today}, "no payer with a mandate has this number"},
		{"of another mandate", admin.Sending{MandateID: "m-old", Number: "A2", On: today},
			"its signing link is no longer of use"},
	} {
		r, err := admin.NoteSent(t.Context(), w.ledger, []admin.Sending{c.s}, "ada", "by post")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := fmt.Sprintf("%d noted %d before %v", r.Noted, r.Before, r.Errors)
		if !strings.Contains(got, c.want) || (r.Failed > 0) != (len(r.Errors) > 0) {
			t.Errorf("%s: %s, want %q", c.name, got, c.want)
		}
	}
	if !w.inFile("adanote sent links1 mandateby post") {
		t.Error("the audit log does not have who noted what, and why")
	}
}
