package state

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// glance opens the ledger of an account for one look of many.
func glance(t *testing.T, opts Options, looks *Looks, name string) *Ledger {
	t.Helper()
	opts.Account, opts.Brief, opts.Looks = name, true, looks
	l, err := Open(t.Context(), opts)
	must(t, err)
	return l
}

// notesOf returns what was noted in an account, as its ledger tells it.
func notesOf(t *testing.T, l *Ledger) []string {
	t.Helper()
	subjects, err := l.ids(t.Context(), "SELECT subject FROM audit WHERE action = ? ORDER BY seq", "note")
	must(t, err)
	return subjects
}

// covers F183
func TestWhatIsForeseenOfAnAccountIsItsOwn(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 8)
	const accounts = 12
	name := func(i int) string { return fmt.Sprint("account", i) }
	for i := range accounts {
		ofAccountNamed(t, opts, name(i)).do(note(name(i) + "'s own"))
	}
	looks := s.NewLooks()
	first := glance(t, opts, looks, name(0))
	notesOf(t, first)
	must(t, first.Close())
	var all sync.WaitGroup
	for i := range accounts {
		all.Go(func() {
			l := glance(t, opts, looks, name(i))
			if len(l.below.(*postgres).foreseen.coming) == 0 {
				t.Errorf("nothing was foreseen of %s", name(i))
			}
			if got := notesOf(t, l); len(got) != 1 || got[0] != name(i)+"'s own" {
				t.Errorf("%s is told %q", name(i), got)
			}
			must(t, l.Close())
		})
	}
	all.Wait()
}

func TestAnAnswerThatWasForeseenIsGivenOnce(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 8)
	d := ofAccountNamed(t, opts, "acme")
	d.do(note("before"))
	looks := s.NewLooks()
	l := glance(t, opts, looks, "acme")
	if got := notesOf(t, l); len(got) != 1 {
		t.Errorf("it is told %q", got)
	}
	must(t, l.Close())
	l = glance(t, opts, looks, "acme")
	d.do(note("meanwhile"))
	if got := notesOf(t, l); len(got) != 1 {
		t.Errorf("as it was when it was opened, it is told %q", got)
	}
	if got := notesOf(t, l); len(got) != 2 {
		t.Errorf("asked again, it is told %q", got)
	}
	if err := l.Do(t.Context(), note("by who looks")); !errors.Is(err, errLooksOn) {
		t.Errorf("a write ended with %v", err)
	}
	must(t, l.Close())
}

func TestAQuestionThatFailsWhereItIsForeseenSpoilsNoOther(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 4) // of which two read
	for _, name := range []string{"acme", "beta"} {
		ofAccountNamed(t, opts, name).do(note(name + "'s own"))
	}
	notes := asking{"SELECT subject FROM audit WHERE action = ? ORDER BY seq", []any{"note"}}
	for name, bad := range map[string]asking{"as it is answered": {"SELECT 1 / CAST(? AS BIGINT)", []any{int64(0)}}, "as it is read": {"SELECT nothing FROM nowhere", nil}} {
		looks := s.NewLooks()
		var betas [2]*Ledger
		for i := range betas { // so that all connections were set to it
			betas[i] = glance(t, opts, looks, "beta")
			notesOf(t, betas[i])
		}
		must(t, errors.Join(betas[0].Close(), betas[1].Close()))
		looks.usual.Store(&[]asking{notes, bad, notes})
		l := glance(t, opts, looks, "acme")
		for range 3 {
			if got := notesOf(t, l); len(got) != 1 || got[0] != "acme's own" {
				t.Errorf("%s: it is told %q", name, got)
			}
		}
		must(t, l.Close())
	}
}
