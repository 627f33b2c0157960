package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/readiness"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

var operator = syncer.Operator{Name: "ada"}

// latest returns a count, once one is made.
func latest(t *testing.T, s *admin.ReadinessCounts) *admin.Count {
	t.Helper()
	for {
		c, err := s.Latest(t.Context())
		if err == nil {
			return c
		}
		if !errors.Is(err, admin.ErrCounting) {
			t.Fatal(err)
		}
	}
}

// walked returns the numbers on all pages.
func walked(t *testing.T, s *admin.ReadinessCounts, c *admin.Count, w admin.Which, limit int) (numbers []string) {
	t.Helper()
	for after := ""; ; {
		rows, next, err := s.Page(t.Context(), c, w, after, limit)
		if err != nil || len(rows) > limit {
			t.Fatalf("%+v: %d rows, %v", w, len(rows), err)
		}
		for _, r := range rows {
			numbers = append(numbers, r.Number)
		}
		if after = next; after == "" {
			return numbers
		}
	}
}

func TestACountIsTheReportAndItsPagesHaveEachRecordOnce(t *testing.T) {
	t.Parallel()
	w := street(t)
	s := &admin.ReadinessCounts{Ledger: w.ledger}
	defer s.Close()
	c := latest(t, s)
	whole, rows := w.report("")
	if c.Records != whole.Records || fmt.Sprint(c.Totals) != fmt.Sprint(whole.Totals) {
		t.Errorf("counted\n%v, reported\n%v", c.Totals, whole.Totals)
	}
	for _, limit := range []int{1, 2, 50} {
		if got := walked(t, s, c, admin.Which{}, limit); len(got) != len(rows) ||
			len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(rows) {
			t.Errorf("by %d: %v", limit, got)
		}
	}
	for _, x := range []struct {
		which admin.Which
		want  string
	}{
		{admin.Which{Class: readiness.Awaiting}, "A1 A2 A3 A4 B1"},
		{admin.Which{Class: readiness.Awaiting, Step: readiness.NotSent}, "A1 A2 B1"},
		{admin.Which{Class: readiness.Awaiting, Days: 14}, "A1 A2 A3 A4"},
		{admin.Which{Class: readiness.Awaiting, Connection: "beta"}, "B1"},
		{admin.Which{Class: readiness.LeftBehind}, "A5"},
		{admin.Which{Replaced: true}, ""},
	} {
		got := walked(t, s, c, x.which, 2)
		if strings.Join(got, " ") != x.want || c.Number(x.which) != len(got) {
			t.Errorf("%+v lists %v and counts %d, want %s", x.which, got, c.Number(x.which), x.want)
		}
	}
	if rows, next, err := s.Page(t.Context(), c, admin.Which{}, "nonsense", 1); err != nil || len(rows) != 1 ||
		next == "" {
		t.Errorf("after nonsense: %v, %q, %v", rows, next, err)
	}
}

func TestAPageShowsRecordsAsTheyStandNow(t *testing.T) {
	t.Parallel()
	w := street(t)
	s := &admin.ReadinessCounts{Ledger: w.ledger}
	defer s.Close()
	c := latest(t, s)
	if r, err := admin.NoteSent(t.Context(), w.ledger,
		[]admin.Sending{{MandateID: "m-A1", On: w.now.AddDate(0, 0, -1)}, {MandateID: "m-gone", On: w.now}}, "ada",
		""); err != nil || r.Noted != 1 || r.Failed != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.do(func(tx *state.Tx) error { // B1 has another mandate
		if _, err := tx.SaveMandate(connector.Mandate{ID: "m-new", CustomerID: "b-B1", Status: connector.MandateCreated,
			URL: "https://pay.example.com/sign/new"}, connector.CauseSweep, "1"); err != nil {
			return err
		}
		return tx.SetMandate("beta", "B1", "m-new")
	})
	unsent := admin.Which{Class: readiness.Awaiting, Step: readiness.NotSent}
	if got := walked(t, s, c, unsent, 50); fmt.Sprint(got) != "[A2 B1]" {
		t.Errorf("of those that were not sent there are %v", got)
	}
	s.Renew()
	for c.Number(unsent) != 2 {
		c = latest(t, s)
	}
	if got := walked(t, s, c, admin.Which{Replaced: true}, 50); fmt.Sprint(got) != "[B1]" {
		t.Errorf("replaced are %v", got)
	}
}

func TestNobodyCountsOnceItIsClosed(t *testing.T) {
	t.Parallel()
	w := street(t)
	s := &admin.ReadinessCounts{Ledger: w.ledger}
	s.Close()
	if c, err := s.Latest(t.Context()); !errors.Is(err, admin.ErrCounting) {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestASignatureIsCountedByTheWholeDaysThatItTook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := [7]int{2, 0, 1, 0, 0, 8, 1}
	for i, days := range []int{0, 0, 3, 15, 15, 16, 20, 30, 30, 30, 30, 31} {
		id := fmt.Sprintf("S%02d", i)
		w.book("acme", placed{id: id, status: connector.MandateCreated})
		w.now = w.now.Add(time.Duration(days)*24*time.Hour + time.Hour)
		w.do(func(tx *state.Tx) error {
			_, err := tx.SaveMandate(connector.Mandate{ID: "m-" + id, CustomerID: "b-" + id, Status: connector.MandatePending},
				connector.CauseSweep, "1")
			return err
		})
	}
	r, _ := w.report("")
	if len(r.Signing) == 0 || r.Signing[0].Days != want {
		t.Errorf("%+v, want %v", r.Signing, want)
	}
}

func TestLinksAreFetchedInTheBackgroundOneLotAtATime(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 0, sandbox.Switches{})
	d.waits(12)
	lost := d.find(admin.Links{})
	f := &admin.Fetcher{}
	defer f.Close()
	if l := f.Lot(); l.AtWork() || !l.Began.IsZero() {
		t.Errorf("before anything was begun: %+v", l)
	}
	if err := f.Begin(d.acts, admin.Fetching{Payers: lost, By: operator}); err != nil {
		t.Fatal(err)
	}
	if err := f.Begin(d.acts, admin.Fetching{Payers: lost, By: operator}); f.Lot().AtWork() &&
		!errors.Is(err, admin.ErrAtWork) {
		t.Errorf("a second lot was begun beside the first: %v", err)
	}
	for f.Lot().AtWork() {
		if l := f.Lot(); l.Done > l.Asked || l.Asked != 12 {
			t.Fatalf("%+v", l)
		}
	}
	if l := f.Lot(); l.Fetched.Fetched != 12 || l.Failed != 0 || l.Err != nil || l.By != "ada" {
		t.Errorf("%+v", l)
	}
	if left := d.find(admin.Links{}); len(left) != 0 {
		t.Errorf("%d links are still lost", len(left))
	}
	d.wantOneMandateEach()
}

func TestAFetcherStopsWithItsProcess(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, sandbox.Switches{}) // a request a second: it would take half a minute
	d.waits(12)
	f := &admin.Fetcher{}
	d.acts.WhenCreated = "unknown"
	if err := f.Begin(d.acts, admin.Fetching{Payers: d.find(admin.Links{}), By: operator}); !errors.Is(err,
		admin.ErrNotAsked) {
		t.Errorf("without a person's word: %v", err)
	}
	if err := f.Begin(d.acts, admin.Fetching{Payers: d.find(admin.Links{}), Said: true, By: operator}); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if l := f.Lot(); l.AtWork() || !errors.Is(l.Err, context.Canceled) {
		t.Errorf("%+v", l)
	}
	if err := f.Begin(d.acts, admin.Fetching{By: operator}); err == nil {
		t.Error("it begins again once it is closed")
	}
}
