package admin

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"payersync/state"
)

// A long list takes seconds. So people get the last one at once, updated with the decisions since then.
func TestALongListOfMatchesIsShownAtOnceWithWhatWasDecidedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := state.RecordID{Connection: "acme", SourceID: "A"}, state.RecordID{Connection: "acme", SourceID: "B"},
			state.RecordID{Connection: "acme", SourceID: "C"}
		var waits atomic.Pointer[[]state.RecordID] // as the ledger has it
		waits.Store(&[]state.RecordID{a, b, c})
		var board Board
		work := func(context.Context) (now Waiting, err error) {
			for _, id := range *waits.Load() {
				now.Rows = append(now.Rows, Likeness{RecordID: id, Group: Likely})
			}
			time.Sleep(time.Second)
			return now, nil
		}
		commits := int64(1)
		shows := func(when string, took time.Duration, want ...state.RecordID) {
			t.Helper()
			began := time.Now()
			now, err := board.latest(t.Context(), commits, work)
			if err != nil {
				t.Fatal(err)
			}
			var got []state.RecordID
			for _, l := range now.Rows {
				got = append(got, l.RecordID)
			}
			if !slices.Equal(got, want) || time.Since(began) != took {
				t.Errorf("%s it shows %v after %v, want %v after %v", when, got, time.Since(began), want, took)
			}
		}
		shows("the first time", time.Second, a, b, c)
		commits = 2
		waits.Store(&[]state.RecordID{b, c})
		board.decide(a)
		shows("once A is decided", 0, b, c)
		commits = 3
		waits.Store(&[]state.RecordID{a, b, c})
		board.undecide(a)
		shows("once that is taken back", 0, a, b, c)
		time.Sleep(time.Minute)
		commits = 4
		waits.Store(&[]state.RecordID{c})
		shows("while others decide", 0, a, b, c)
		time.Sleep(time.Minute)
		shows("later", 0, c)
		synctest.Wait()
		board.Close()
	})
}

// A short list is always current, whoever decided.
func TestAShortListOfMatchesIsThatOfTheMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var board Board
		rows := 3
		for commits := range int64(5) {
			now, err := board.latest(t.Context(), commits, func(context.Context) (Waiting, error) {
				time.Sleep(50 * time.Millisecond)
				return Waiting{Rows: make([]Likeness, rows)}, nil
			})
			if err != nil || len(now.Rows) != rows {
				t.Errorf("after %d commits %d wait, %v; want %d", commits, len(now.Rows), err, rows)
			}
			rows++
		}
		board.Close()
		if _, err := new(Board).latest(t.Context(), 1,
			func(ctx context.Context) (Waiting, error) { return Waiting{}, context.DeadlineExceeded }); err == nil {
			t.Error("what could not be worked out is an empty list")
		}
	})
}

// The page and payers match --above put a record into the same group.
func TestARecordIsNotLikelyWhenAnotherRecordFitsItsCustomer(t *testing.T) {
	t.Parallel()
	same := []state.MatchCandidate{{BillingID: "c1", Score: 100, Reasons: "name_same email_same"}}
	for name, c := range map[string]struct {
		candidates []state.MatchCandidate
		claims     int
		want       Likelihood
	}{
		"alone":                   {same, 1, Likely},
		"another record fits":     {same, 2, Several},
		"another customer fits":   {append(same[:1:1], state.MatchCandidate{BillingID: "c2", Score: 50}), 1, Several},
		"only the names are same": {[]state.MatchCandidate{{BillingID: "c1", Score: 70, Reasons: "name_same"}}, 1, Unclear},
	} {
		l := Likeness{Candidates: c.candidates}
		if l.judge(map[string]int{"c1": c.claims}); l.Group != c.want {
			t.Errorf("%s: it is in the group %s, want %s", name, l.Group, c.want)
		}
	}
}
