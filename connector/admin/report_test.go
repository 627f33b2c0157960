package admin_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/readiness"
	"payersync/state"
)

func (w *world) report(connection string) (admin.Report, []admin.ReportRow) {
	w.t.Helper()
	var rows []admin.ReportRow
	r, err := admin.MakeReport(context.Background(), w.ledger, admin.ReportOn{Connection: connection},
		func(row admin.ReportRow) error { rows = append(rows, row); return nil })
	if err != nil {
		w.t.Fatal(err)
	}
	return r, rows
}

func TestTheTotalsOfAReportAddUpToItsRecords(t *testing.T) {
	t.Parallel()
	w := street(t)
	for connection, want := range map[string]struct {
		records, left int
		classes       string
	}{
		"":     {9, 1, "A1 D not_sent, A2 D not_sent, A3 D link_lost, A4 D stopped, A5 J can_sign, A6 C , A7 F not_asked, B1 D not_sent, B2 G , "},
		"acme": {7, 1, "A1 D not_sent, A2 D not_sent, A3 D link_lost, A4 D stopped, A5 J can_sign, A6 C , A7 F not_asked, "},
		"beta": {2, 0, "B1 D not_sent, B2 G , "},
	} {
		r, rows := w.report(connection)
		got, sum, ages, who, late := "", 0, 0, 0, 0
		for _, row := range rows {
			got += fmt.Sprintf("%s %s %s, ", row.Number, row.Class, row.Step)
			if row.Late {
				late++
			}
		}
		for _, total := range r.Totals {
			sum += total.Records
			for _, n := range total.Ages {
				ages += n
			}
			for _, n := range total.Who {
				who += n
			}
		}
		if got != want.classes {
			t.Errorf("connection %q\n got %s\nwant %s", connection, got, want.classes)
		}
		if r.Records != want.records || sum != want.records || ages != want.records || who != want.records ||
			len(rows) != want.records || r.Left != want.left || r.Late != late {
			t.Errorf("connection %q: %d records, %d in totals, %d by age, %d by who must act, %d rows, %d left, %d late of %d",
				connection, r.Records, sum, ages, who, len(rows), r.Left, r.Late, late)
		}
	}
}

func TestARowOfAReportThatIsNamedIsTheOneThatTheReportHas(t *testing.T) {
	t.Parallel()
	w := street(t)
	r, rows := w.report("")
	slices.Reverse(rows)
	var records []state.RecordID
	for _, row := range rows {
		records = append(records, state.RecordID{Connection: row.Connection, SourceID: row.SourceID})
	}
	w.now = w.now.Add(24 * time.Hour) // days are counted until the report was made
	var got []admin.ReportRow
	if err := admin.EachReportRow(t.Context(), w.ledger, admin.ReportOn{}, r.At, records,
		func(row admin.ReportRow) error { got = append(got, row); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Errorf("(-report +named):\n%s", diff)
	}
}

// A wait of 20 days is in another column than one of today.
func TestTheAgesOfAReportAreThoseOfItsRows(t *testing.T) {
	t.Parallel()
	w := street(t)
	r, _ := w.report("")
	for _, total := range r.Totals {
		if total.Class == readiness.Awaiting && total.Step == readiness.NotSent {
			if diff := cmp.Diff([5]int{1, 0, 2, 0, 0}, total.Ages); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
}

func TestDaysToSignAreToldOfGroupsThatAreLargeEnough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun := w.now
	sent := time.Date(begun.Year(), begun.Month(), begun.Day(), 0, 0, 0, 0, time.UTC)
	for i := range 20 {
		p := placed{id: fmt.Sprintf("A%02d", i), status: connector.MandateCreated,
			label: connector.Label{Language: []string{"de", "en"}[i/18]}}
		w.now = begun
		w.book("acme", p)
		if i < 12 {
			w.do(func(tx *state.Tx) error { _, err := tx.NoteHandover("m-"+p.id, sent, "ada"); return err })
		}
		if i < 14 { // signed a day later, two days later, …
			w.now = begun.Add(time.Duration(i+1) * 24 * time.Hour)
			w.do(func(tx *state.Tx) error {
				_, err := tx.SaveMandate(connector.Mandate{ID: "m-" + p.id, CustomerID: "b-" + p.id,
					Status: connector.MandatePending}, connector.CauseSweep, "1")
				return err
			})
		}
	}
	w.now = begun.Add(20 * 24 * time.Hour)
	r, _ := w.report("")
	share := func(day, signed int) admin.Share { return admin.Share{Day: day, Sent: 12, Signed: signed} }
	// sent at the beginning of the day; of 30 days nobody knows
	shares := []admin.Share{share(1, 0), share(3, 2), share(7, 6), share(14, 12)}
	want := []admin.Signing{
		{By: "all", Mandates: 20, Signed: 14, Median: 7, P90: 13, Shares: shares, Days: [7]int{0, 1, 2, 4, 7}},
		{By: "letters", Group: "1", Mandates: 12, Signed: 12, Median: 6, P90: 11, Shares: shares,
			Days: [7]int{0, 1, 2, 4, 5}},
		{By: "language", Group: "de", Mandates: 18, Signed: 14, Median: 7, P90: 13, Shares: shares,
			Days: [7]int{0, 1, 2, 4, 7}},
		{By: "connection", Group: "acme", Mandates: 20, Signed: 14, Median: 7, P90: 13, Shares: shares,
			Days: [7]int{0, 1, 2, 4, 7}},
	}
	if diff := cmp.Diff(want, r.Signing); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if other, _ := w.report("beta"); len(other.Signing) != 0 {
		t.Errorf("of other books: %+v", other.Signing)
	}
}

// Without the key a report shows no names, not even of overdue payers.
func TestAReportWithoutTheKeyHasNoNames(t *testing.T) {
	t.Parallel()
	w := street(t)
	w.do(func(tx *state.Tx) error { return tx.SaveFinancial("b-A1", "OVERDUE") })
	_, rows := w.report("")
	overdue := ""
	for _, row := range rows {
		if row.Status != "" {
			overdue += fmt.Sprintf("%s %s %v ", row.Number, row.Status, row.SeenAt.Equal(w.now))
		}
	}
	if overdue != "A1 OVERDUE true " {
		t.Errorf("with the key: %q", overdue)
	}
	sealed := *w
	sealed.ledger = w.open(state.Options{KeyFile: w.path + ".none", Keyless: true})
	r, rows := sealed.report("")
	if !r.Sealed || len(rows) != 9 {
		t.Errorf("sealed %v, %d rows", r.Sealed, len(rows))
	}
	for _, row := range rows {
		if row.Name != "" || row.Status != "" {
			t.Errorf("%s has a name, or a financial status", row.Number)
		}
	}
}
