package accounting_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/connector/accounting"
)

// listing is a list of customers that is served in pages while it changes.
type listing struct {
	rows  []row
	size  int // of a page
	byAge bool
	after func() // behind each page
	clock int
}

type row struct{ id, version, edited int }

func (l *listing) fetch(_ context.Context, n int) (accounting.Sheet, error) {
	rows := slices.Clone(l.rows)
	if l.byAge {
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.edited, b.edited) })
	}
	var s accounting.Sheet
	for _, r := range rows[min(n*l.size, len(rows)):min((n+1)*l.size, len(rows))] {
		s.Records = append(s.Records, record(r.id, r.version))
	}
	s.Last = len(s.Records) < l.size
	if l.after != nil {
		l.after()
	}
	return s, nil
}

func (l *listing) edit(i int) {
	l.clock++
	l.rows[i].version++
	l.rows[i].edited = l.clock
}

func newListing(n, size int) *listing {
	l := &listing{size: size}
	for i := range n {
		l.rows = append(l.rows, row{id: i})
	}
	return l
}

func record(id, version int) connector.Record {
	return connector.Record{SourceID: fmt.Sprintf("c%04d", id), State: connector.RecordActive,
		Data: []byte(fmt.Sprintf(`{"v":%d}`, version))}
}

// collect walks a listing and returns what it gave, in order.
func collect(ctx context.Context, p accounting.Pager) (ids []string, proof connector.Proof, err error) {
	for page, err := range accounting.Walk(ctx, p) {
		if err != nil {
			return ids, proof, err
		}
		proof = proof.Plus(page.Proof)
		for _, r := range page.Records {
			ids = append(ids, r.SourceID)
		}
	}
	return ids, proof, nil
}

func TestWalkGivesEveryRecordOnceAndCountsItsPages(t *testing.T) {
	t.Parallel()
	ids, proof, err := collect(t.Context(), accounting.Pager{Fetch: newListing(10, 4).fetch})
	if err != nil || len(ids) != 10 {
		t.Errorf("got %d records, %v", len(ids), err)
	}
	if want := (connector.Proof{Pages: 3, Passes: 1}); proof != want {
		t.Errorf("proof %+v, want %+v", proof, want)
	}
}

// covers F46, S17
func TestWalkByIDLosesNothingWhateverIsEditedMeanwhile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newListing(rapid.IntRange(0, 60).Draw(t, "rows"), rapid.IntRange(1, 9).Draw(t, "size"))
		edits := rapid.SliceOfN(rapid.IntRange(0, 1<<20), 0, 40).Draw(t, "edits")
		l.after = func() {
			for range min(3, len(edits)) {
				if len(l.rows) > 0 {
					l.edit(edits[0] % len(l.rows))
				}
				edits = edits[1:]
			}
		}
		rows := len(l.rows)
		ids, _, err := collect(t.Context(), accounting.Pager{Fetch: l.fetch})
		slices.Sort(ids)
		if got := len(slices.Compact(ids)); err != nil || got != rows {
			t.Fatalf("got %d of %d customers, %v", got, rows, err)
		}
	})
}

func TestRecordThatChangedIsGivenAgainAndOneThatDidNotIsCounted(t *testing.T) {
	t.Parallel()
	sheets := [][]connector.Record{
		{record(1, 1), record(2, 1)}, {record(2, 1), record(3, 1)}, {record(1, 2), record(4, 1)},
	}
	ids, proof, err := collect(t.Context(),
		accounting.Pager{Fetch: func(_ context.Context, n int) (accounting.Sheet, error) {
			return accounting.Sheet{Records: sheets[n], Last: n == 2}, nil
		}})
	if want := []string{"c0001", "c0002", "c0003", "c0001", "c0004"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("got %q, %v, want %q", ids, err, want)
	}
	if proof.Repeats != 2 {
		t.Errorf("%d repeats, want 2", proof.Repeats)
	}
}

// covers F45, S17
func TestWalkThatCannotBeCompleteEndsWithAnErrorThatMayPass(t *testing.T) {
	t.Parallel()
	same := func(context.Context, int) (accounting.Sheet, error) {
		return accounting.Sheet{Records: []connector.Record{record(1, 1)}}, nil
	}
	fresh := 0
	endless := func(context.Context, int) (accounting.Sheet, error) {
		fresh++
		return accounting.Sheet{Records: []connector.Record{record(fresh, 1)}, Last: fresh%3 == 0}, nil
	}
	tests := []struct {
		name  string
		pager accounting.Pager
		pages int
		want  string
	}{
		{"the same page again and again", accounting.Pager{Fetch: same}, 3,
			"pages 2 and 3 of its list of customers hold nothing"},
		{"empty pages without end",
			accounting.Pager{Fetch: func(context.Context, int) (accounting.Sheet, error) { return accounting.Sheet{}, nil }}, 2,
			"hold nothing"},
		{"more pages than anybody has", accounting.Pager{MaxPages: 2, Fetch: endless}, 2, "does not end after 2 pages"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fresh = 0
			_, proof, err := collect(t.Context(), tt.pager)
			if connector.FaultOf(err) != connector.FaultUnavailable || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
			if proof.Pages != tt.pages {
				t.Errorf("%d pages were read, want %d", proof.Pages, tt.pages)
			}
		})
	}
}

func TestWalkEndsWithItsFirstError(t *testing.T) {
	t.Parallel()
	broken := errors.New("no answer")
	l := newListing(10, 2)
	ids, _, err := collect(t.Context(),
		accounting.Pager{Fetch: func(ctx context.Context, n int) (accounting.Sheet, error) {
			if n == 2 {
				return accounting.Sheet{}, broken
			}
			return l.fetch(ctx, n)
		}})
	if !errors.Is(err, broken) || len(ids) != 4 {
		t.Errorf("got %d records and %v", len(ids), err)
	}
}

func TestWalkFetchesNothingMoreForAConsumerThatStopped(t *testing.T) {
	t.Parallel()
	l, fetched := newListing(10, 2), 0
	l.after = func() { fetched++ }
	for range accounting.Walk(t.Context(), accounting.Pager{Fetch: l.fetch}) {
		break
	}
	if fetched != 1 {
		t.Errorf("%d pages were fetched, want 1", fetched)
	}
}
