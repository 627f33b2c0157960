package pages

import (
	"cmp"
	"time"

	"payersync/connector/admin"
	"payersync/state"
)

// counters count wrong passwords: all counters of a process, or those of one attempt.
type counters struct {
	tries   map[string]*tries
	changed map[string]bool // those that the ledger does not have as they are
}

// tries is a counter of wrong passwords.
type tries struct {
	wrong  int
	last   time.Time
	until  time.Time // before it, no password is checked
	stored bool      // the ledger has it, as it is or as it was
}

func newCounters() counters {
	return counters{tries: map[string]*tries{}, changed: map[string]bool{}}
}

// add takes over counters of the ledger.
func (c counters) add(rows []state.SignInAttempts) {
	for _, r := range rows {
		c.tries[r.Counter] = &tries{wrong: r.Wrong, until: r.WaitUntil, last: r.ExpiresAt.Add(-forgetAfter), stored: true}
	}
}

// judge returns the time for a stranger to wait before a password is checked; 0 for none. It sets how trustworthy the
// stranger is.
func (c counters) judge(a *attempt, now time.Time) (wait time.Duration) {
	a.from = admin.CleanClient
	a.counters[a.pair] = freeTries
	if c.wrong(a.anywhere, now) >= hotName {
		a.counters[a.pair] = freeTriesHot
	}
	for counter, free := range a.counters {
		if counter == a.anywhere {
			continue
		}
		if t := c.tries[counter]; t != nil {
			wait = max(wait, t.until.Sub(now))
		}
		if c.wrong(counter, now) >= min(cleanTries, free) {
			a.from = admin.Suspect
		}
	}
	return wait
}

// wrong returns the number of unexpired wrong passwords of a counter.
func (c counters) wrong(counter string, now time.Time) int {
	if t := c.tries[counter]; t != nil && now.Sub(t.last) <= forgetAfter {
		return t.wrong
	}
	return 0
}

// count adds a wrong password to each counter of an attempt. From the free ones on, each makes a wait; with none free,
// it only counts.
func (c counters) count(a attempt, now time.Time) {
	for counter, free := range a.counters {
		t := c.tries[counter]
		if t == nil || now.Sub(t.last) > forgetAfter {
			t = &tries{}
			evicted := keep(c.tries, counter, t,
				func(a, b *tries) int { return cmp.Or(cmp.Compare(a.wrong, b.wrong), a.last.Compare(b.last)) })
			delete(c.changed, evicted) // the ledger drops the least of its rows by itself
		}
		t.wrong, t.last = t.wrong+1, now
		c.changed[counter] = true
		if over := t.wrong - free; free > 0 && over >= 0 {
			t.until = now.Add(min(longestWait, firstWait<<min(over, 10)))
		}
	}
}

// takeBack takes back the wrong password of an attempt. After a good one, the name and the network begin anew.
func (c counters) takeBack(a attempt, good bool) {
	for counter := range a.counters {
		t := c.tries[counter]
		if t == nil {
			continue
		}
		c.changed[counter] = true
		if t.wrong, t.until = t.wrong-1, (time.Time{}); t.wrong <= 0 || good && counter == a.pair {
			delete(c.tries, counter)
			if !t.stored {
				delete(c.changed, counter)
			}
		}
	}
}

// unsaved returns so many changed counters at most as the ledger keeps them, and counts them as saved.
func (c counters) unsaved(most int) (rows []state.SignInAttempts) {
	for counter := range c.changed {
		row := state.SignInAttempts{Counter: counter}
		if t := c.tries[counter]; t != nil {
			row.Wrong, row.WaitUntil, row.ExpiresAt, t.stored = t.wrong, t.until, t.last.Add(forgetAfter), true
		}
		delete(c.changed, counter)
		if rows = append(rows, row); len(rows) == most {
			break
		}
	}
	return rows
}
