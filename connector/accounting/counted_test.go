package accounting_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/accounting"
)

var began = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// scripted is a listing whose passes are written down: the ids of each pass, and
// the count that the system gives after it. Ids beginning with "new" changed
// after the read began.
type scripted struct {
	passes [][]string
	totals []int
	pass   int
}

func (s *scripted) fetch(_ context.Context, n int) (accounting.Sheet, error) {
	if n == 0 {
		s.pass++
	}
	if s.pass > len(s.passes) {
		return accounting.Sheet{}, errors.New("nobody wrote this pass down")
	}
	sheet := accounting.Sheet{Last: true}
	for _, id := range s.passes[s.pass-1] {
		r := connector.Record{SourceID: id, State: connector.RecordActive, UpdatedAt: began.Add(-time.Hour), Data: json.RawMessage("{}")}
		if id[:3] == "new" {
			r.UpdatedAt = began
		}
		sheet.Records = append(sheet.Records, r)
	}
	return sheet, nil
}

func (s *scripted) total(context.Context) (int, error) { return s.totals[s.pass-1], nil }

func (s *scripted) read(t *testing.T) (ids []string, err error) {
	t.Helper()
	census := accounting.Census{Total: s.total, Began: func() time.Time { return began }}
	for page, err := range accounting.WalkCounted(t.Context(), accounting.Pager{Fetch: s.fetch}, census) {
		if err != nil {
			return ids, err
		}
		for _, r := range page.Records {
			ids = append(ids, r.SourceID)
		}
	}
	return ids, nil
}

// covers F46
func TestCountDecidesWhetherAListingIsReadAgain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		script scripted
		passes int
	}{
		{"the counts agree", scripted{passes: [][]string{{"old1", "old2"}}, totals: []int{2}}, 1},
		{"an empty listing", scripted{passes: [][]string{{}}, totals: []int{0}}, 1},
		{"more came than are left", scripted{passes: [][]string{{"old1", "old2"}}, totals: []int{1}}, 1},
		{"one was skipped", scripted{passes: [][]string{{"old1", "old2"}, {"old1", "old3"}}, totals: []int{3, 3}}, 2},
		{"one was skipped in each of two passes", scripted{passes: [][]string{{"old1"}, {"old2"}, {"old3"}, {"old1"}}, totals: []int{4, 4, 4, 4}}, 4},
		{"the system counts what it does not list", scripted{passes: [][]string{{"old1"}, {"old1"}}, totals: []int{2, 2}}, 2},
		{"others are added all the time", scripted{passes: [][]string{{"old1"}, {"old1", "new1"}}, totals: []int{2, 3}}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := tt.script.read(t); err != nil || tt.script.pass != tt.passes {
				t.Errorf("%d passes, error %v; want %d", tt.script.pass, err, tt.passes)
			}
		})
	}
}

func TestListingThatNeverAgreesIsAnError(t *testing.T) {
	t.Parallel()
	s := &scripted{}
	for i := range 20 {
		s.passes, s.totals = append(s.passes, []string{fmt.Sprintf("old%d", i)}), append(s.totals, 100)
	}
	_, err := s.read(t)
	if connector.FaultOf(err) != connector.FaultUnavailable || s.pass != 6 {
		t.Errorf("error %v after %d passes; want the fault unavailable after 6", err, s.pass)
	}
}

func TestConsumerOfACountedWalkMayStop(t *testing.T) {
	t.Parallel()
	s := &scripted{passes: [][]string{{"old1"}}, totals: []int{9}}
	for range accounting.WalkCounted(t.Context(), accounting.Pager{Fetch: s.fetch}, accounting.Census{Total: s.total, Began: func() time.Time { return began }}) {
		break
	}
	if s.pass != 1 {
		t.Errorf("%d passes were begun after the consumer stopped", s.pass)
	}
}

func TestErrorsEndACountedWalk(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	listing := &scripted{passes: [][]string{{"old1"}}, totals: []int{1}}
	failing := accounting.Census{Total: func(context.Context) (int, error) { return 0, broken }, Began: func() time.Time { return began }}
	var got []string
	for page, err := range accounting.WalkCounted(t.Context(), accounting.Pager{Fetch: listing.fetch}, failing) {
		got = append(got, fmt.Sprintf("%d records, %v", len(page.Records), err))
	}
	if diff := cmp.Diff([]string{"1 records, <nil>", "0 records, broken"}, got); diff != "" {
		t.Errorf("sequence (-want +got):\n%s", diff)
	}
}

// What a walk keeps of a list is bounded: a million customers fit in 256 MiB, so a
// quarter of them in a quarter of it. It is not parallel, for the heap is shared.
//
// covers F19
func TestWalkOverAVeryLongListKeepsLittleOfIt(t *testing.T) {
	const customers, size = 250_000, 500
	var before, after runtime.MemStats
	fetch := func(_ context.Context, n int) (accounting.Sheet, error) {
		s := accounting.Sheet{Last: (n+1)*size >= customers}
		for i := n * size; i < (n+1)*size; i++ {
			s.Records = append(s.Records, connector.Record{SourceID: fmt.Sprintf("%036d", i), Data: []byte("{}")}) // as long as a GUID
		}
		if s.Last {
			runtime.GC()
			runtime.ReadMemStats(&after)
		}
		return s, nil
	}
	runtime.GC()
	runtime.ReadMemStats(&before)
	census := accounting.Census{Total: func(context.Context) (int, error) { return customers, nil }, Began: time.Now}
	met := 0
	for page, err := range accounting.WalkCounted(t.Context(), accounting.Pager{Fetch: fetch}, census) {
		if err != nil {
			t.Fatal(err)
		}
		met += len(page.Records)
	}
	if kept := (after.HeapAlloc - before.HeapAlloc) >> 20; met != customers || kept > 64 {
		t.Errorf("%d customers met, %d MiB kept; want %d and 64 at most", met, kept, customers)
	}
}
