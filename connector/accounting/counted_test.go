package accounting_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/internal/longtest"
)

var began = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// scripted is a listing with predefined passes: the ids of each pass, three on a page, and the system's count
// after it. Ids beginning with "new" changed after the read began.
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
	ids := s.passes[s.pass-1]
	sheet := accounting.Sheet{Last: len(ids) <= 3*(n+1)}
	for _, id := range ids[3*n : min(3*n+3, len(ids))] {
		r := connector.Record{SourceID: id, State: connector.RecordActive, UpdatedAt: began.Add(-time.Hour),
			Data: json.RawMessage("{}")}
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

// covers F46, F110
func TestCountedListingIsReadUntilAPassIsProven(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		script scripted
		passes int
	}{
		{"one page, and the count agrees", scripted{passes: [][]string{{"old1", "old2"}}, totals: []int{2}}, 1},
		{"an empty listing", scripted{passes: [][]string{{}}, totals: []int{0}}, 1},
		{"one page of more than are left", scripted{passes: [][]string{{"old1", "old2"}}, totals: []int{1}}, 1},
		{"one page of fewer than are counted", scripted{passes: [][]string{{"old1"}, {"old1"}}, totals: []int{2, 2}}, 2},
		{"two pages are confirmed by a second pass",
			scripted{passes: [][]string{{"old1", "old2", "old3", "old4"}, {"old1", "old2", "old3", "old4"}},
				totals: []int{4, 4}}, 2},
		{"one was skipped", scripted{passes: [][]string{{"old1", "old2"}, {"old1", "old3"}, {"old1", "old2", "old3"}},
			totals: []int{3, 3, 3}}, 3},
		{"one left behind the page, and hid another", scripted{passes: [][]string{
			{"old1", "old2", "old3", "old5", "old6"}, {"old2", "old3", "old4", "old5", "old6"},
			{"old2", "old3", "old4", "old5", "old6"}},
			totals: []int{5, 5, 5}}, 3},
		{"others are added all the time",
			scripted{passes: [][]string{{"old1", "old2", "old3", "old4"}, {"new1", "old1", "old2", "old3", "old4"}},
				totals: []int{4, 5}}, 2},
		{"others are added in front of the page", scripted{passes: [][]string{
			{"old1", "old2", "old3", "old3", "old4"}, {"new1", "old1", "old2", "old3", "old4"}}, totals: []int{5, 5}}, 2},
		{"one is met in two places", scripted{passes: [][]string{
			{"old1", "old2", "old3", "old5", "old1"}, {"old1", "old2", "old3", "old5", "old4"},
			{"old1", "old2", "old3", "old5", "old4"}, {"old1", "old2", "old3", "old5", "old4"}},
			totals: []int{5, 5, 5, 5}}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ids, err := tt.script.read(t)
			if err != nil || tt.script.pass != tt.passes {
				t.Errorf("%d passes, error %v; want %d", tt.script.pass, err, tt.passes)
			}
			slices.Sort(ids)
			if !slices.Equal(ids, slices.Compact(slices.Clone(ids))) {
				t.Errorf("further passes gave a record again: %q", ids)
			}
		})
	}
}

// live is a listing that is asked for by position, counts what it holds, and changes
// behind each page.
type live struct {
	ids   []string
	stays map[string]bool // there all the time
	after func()
}

const livePage = 4

func (l *live) fetch(_ context.Context, n int) (accounting.Sheet, error) {
	sheet := accounting.Sheet{Last: len(l.ids) <= (n+1)*livePage}
	for _, id := range l.ids[min(n*livePage, len(l.ids)):min((n+1)*livePage, len(l.ids))] {
		r := connector.Record{SourceID: id, UpdatedAt: began.Add(-time.Hour), Data: json.RawMessage("{}")}
		if id[:3] == "new" {
			r.UpdatedAt = began
		}
		sheet.Records = append(sheet.Records, r)
	}
	if l.after != nil {
		l.after()
	}
	return sheet, nil
}

func (l *live) remove(at int) {
	delete(l.stays, l.ids[at])
	l.ids = slices.Delete(l.ids, at, at+1)
}

// read returns the ids from a counted walk, and the permanent ids missing among them.
func (l *live) read(t testing.TB) (given, missed []string, err error) {
	t.Helper()
	l.stays = map[string]bool{}
	for _, id := range l.ids {
		l.stays[id] = true
	}
	census := accounting.Census{Began: func() time.Time { return began },
		Total: func(context.Context) (int, error) { return len(l.ids), nil }}
	for page, err := range accounting.WalkCounted(context.Background(), accounting.Pager{Fetch: l.fetch}, census) {
		if err != nil {
			return given, nil, err
		}
		for _, r := range page.Records {
			given = append(given, r.SourceID)
			delete(l.stays, r.SourceID)
		}
	}
	return given, slices.Sorted(maps.Keys(l.stays)), nil
}

func newLive(n int) *live {
	l := &live{}
	for i := range n {
		l.ids = append(l.ids, fmt.Sprintf("old%03d", i))
	}
	return l
}

// covers F110
func TestOneThatLeavesBehindThePageHidesNobody(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]func(l *live){
		"alone":                         func(*live) {},
		"and one is added at the end":   func(l *live) { l.ids = append(l.ids, "new001") },
		"and one is added in the front": func(l *live) { l.ids = append([]string{"new001"}, l.ids...) },
		"and one comes back unchanged":  func(l *live) { l.ids = append(l.ids, "old999") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, pages := newLive(11), 0
			l.after = func() {
				if pages++; pages == 1 {
					l.remove(1)
				}
				if pages == 2 {
					beside(l)
				}
			}
			if given, missed, err := l.read(t); err != nil || len(missed) > 0 {
				t.Errorf("gave %q, missed %q, %v", given, missed, err)
			}
		})
	}
}

// covers F46, F110
func TestNobodyIsHiddenWhoeverLeavesAndComes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := newLive(rapid.IntRange(0, 30).Draw(rt, "customers"))
		acts, added := rapid.SliceOfN(rapid.IntRange(0, 1<<16), 0, 12).Draw(rt, "acts"), 0
		l.after = func() {
			for range min(2, len(acts)) {
				act, at := acts[0]%2, acts[0]/2
				acts = acts[1:]
				switch {
				case act == 0 && len(l.ids) > 0:
					l.remove(at % len(l.ids))
				default:
					added++
					l.ids = slices.Insert(l.ids, at%(len(l.ids)+1), fmt.Sprintf("new%03d", added))
				}
			}
		}
		given, missed, err := l.read(t)
		if err != nil && connector.FaultOf(err) != connector.FaultUnavailable {
			rt.Fatal(err)
		}
		if len(missed) > 0 {
			rt.Fatalf("%q were there all the time and were not met", missed)
		}
		slices.Sort(given)
		if !slices.Equal(given, slices.Compact(slices.Clone(given))) {
			rt.Fatalf("a record was given twice: %q", given)
		}
	})
}

// Deletions and additions happen behind the first pages, in a list of the size of real books. PAYERSYNC_LONG reads
// 1,000 of them.
//
// covers F46, F110
func TestManySeededListsLoseNobody(t *testing.T) {
	t.Parallel()
	seeds := uint64(10)
	if longtest.Enabled() {
		seeds = 1000
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		l, added, left := newLive(2000), 0, random.IntN(600)
		l.after = func() {
			if left--; left < 0 {
				return
			}
			act := random.IntN(3)
			if act != 0 && len(l.ids) > 0 {
				l.remove(random.IntN(len(l.ids)))
			}
			if act != 1 {
				added++
				l.ids = slices.Insert(l.ids, random.IntN(len(l.ids)+1), fmt.Sprintf("new%03d", added))
			}
		}
		given, missed, err := l.read(t)
		if err != nil || len(missed) > 0 {
			t.Fatalf("seed %d: %v, missed %q", seed, err, missed)
		}
		slices.Sort(given)
		if !slices.Equal(given, slices.Compact(slices.Clone(given))) {
			t.Fatalf("seed %d: a record was given twice", seed)
		}
	}
}

func TestAdditionsBehindEveryPageNeedThreePassesAtMost(t *testing.T) {
	t.Parallel()
	l, pages := newLive(400), 0
	l.after = func() {
		pages++
		l.ids = slices.Insert(l.ids, (pages*37)%len(l.ids), fmt.Sprintf("new%03d", pages))
	}
	_, missed, err := l.read(t)
	if err != nil || len(missed) > 0 || pages > 3*len(l.ids)/livePage+3 {
		t.Errorf("%d pages for %d customers, missed %q, %v", pages, len(l.ids), missed, err)
	}
}

func TestListWithoutACountIsReadTwice(t *testing.T) {
	t.Parallel()
	for ids, passes := range map[string]int{"old1": 1, "old1 old2 old3 old4": 2} {
		s := &scripted{passes: [][]string{strings.Fields(ids), strings.Fields(ids)}}
		for _, err := range accounting.WalkCounted(t.Context(), accounting.Pager{Fetch: s.fetch},
			accounting.Census{Began: func() time.Time { return began }}) {
			if err != nil {
				t.Error(err)
			}
		}
		if s.pass != passes {
			t.Errorf("%q: %d passes, want %d", ids, s.pass, passes)
		}
	}
}

func TestListingThatNeverAgreesIsAnError(t *testing.T) {
	t.Parallel()
	s := &scripted{}
	for i := range 20 {
		// of which one is shown
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
	for range accounting.WalkCounted(t.Context(), accounting.Pager{Fetch: s.fetch},
		accounting.Census{Total: s.total, Began: func() time.Time { return began }}) {
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
	failing := accounting.Census{Total: func(context.Context) (int, error) { return 0, broken },
		Began: func() time.Time { return began }}
	var got []string
	for page, err := range accounting.WalkCounted(t.Context(), accounting.Pager{Fetch: listing.fetch}, failing) {
		got = append(got, fmt.Sprintf("%d records, %v", len(page.Records), err))
	}
	if diff := cmp.Diff([]string{"1 records, <nil>", "0 records, broken"}, got); diff != "" {
		t.Errorf("sequence (-want +got):\n%s", diff)
	}
}

// The memory of a walk is limited: a million customers fit in 256 MiB, so a quarter of them in a quarter of
// it. It is not parallel, because the heap is shared.
//
// covers F19
func TestWalkOverAVeryLongListKeepsLittleOfIt(t *testing.T) {
	const customers, size = 250_000, 500
	var before, after runtime.MemStats
	fetch := func(_ context.Context, n int) (accounting.Sheet, error) {
		s := accounting.Sheet{Last: (n+1)*size >= customers}
		for i := n * size; i < (n+1)*size; i++ {
			// as long as a GUID
			s.Records = append(s.Records, connector.Record{SourceID: fmt.Sprintf("%036d", i), Data: []byte("{}")})
		}
		if s.Last { // of each pass
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
