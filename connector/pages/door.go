package pages

import (
	"cmp"
	"sync"
	"time"

	"payersync/connector/office"
)

const (
	freeTries    = 5                // wrong passwords for a name until it has to wait
	freeTriesNet = 20               // wrong passwords from a network: an office has several people
	firstWait    = 30 * time.Second // doubles with each more
	longestWait  = 15 * time.Minute // so that nobody can keep anybody out for long
	forgetAfter  = time.Hour        // without a wrong password all is forgotten
	remembered   = 10000            // names and networks that are kept in mind
	tellEvery    = time.Minute      // a line about refusals of one person goes into the audit log
)

// Door looks after who tries to get in: how many passwords may be tried, and how often a refusal
// is written down. What it knows is in memory, so it outlives the Config. It is safe for
// concurrent use.
//
// A name from a network from which that person has signed in before is counted by itself. Who
// guesses from elsewhere makes the name wait, and not the person.
type Door struct {
	passwords *office.Passwords

	mu    sync.Mutex
	tries map[string]*tries
	home  map[string]time.Time // name and network by which somebody has signed in
	told  map[string]*refusals
}

// tries are the wrong passwords of a name or a network.
type tries struct {
	wrong int
	last  time.Time
	until time.Time // before it, nothing is looked at
}

// refusals are those that the audit log was not told of yet.
type refusals struct {
	untold int
	last   time.Time // when it was told
}

// NewDoor returns a door that nobody has knocked at.
func NewDoor() *Door {
	return &Door{passwords: office.NewPasswords(), tries: map[string]*tries{}, home: map[string]time.Time{}, told: map[string]*refusals{}}
}

// keys returns under what a try is counted, with how many are free.
func (d *Door) keys(name, network string) map[string]int {
	as := "name " + name
	if _, known := d.home[name+" "+network]; known {
		as = "home " + name + " " + network
	}
	return map[string]int{as: freeTries, "network " + network: freeTriesNet}
}

// try takes a try before the password is looked at, so that many at once count, too. It returns
// how long to wait instead; 0 for not at all.
func (d *Door) try(name, network string, now time.Time) (wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keys := d.keys(name, network)
	for key := range keys {
		if t := d.tries[key]; t != nil {
			wait = max(wait, t.until.Sub(now))
		}
	}
	if wait > 0 {
		return wait
	}
	for key, free := range keys {
		t := d.tries[key]
		if t == nil || now.Sub(t.last) > forgetAfter {
			t = &tries{}
			keep(d.tries, key, t, func(a, b *tries) int { return cmp.Or(cmp.Compare(a.wrong, b.wrong), a.last.Compare(b.last)) })
		}
		t.wrong, t.last = t.wrong+1, now
		if over := t.wrong - free; over >= 0 {
			t.until = now.Add(min(longestWait, firstWait<<min(over, 10)))
		}
	}
	return 0
}

// good takes back what try has counted, because the password was right.
func (d *Door) good(name, network string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.back(name, network, true)
	keep(d.home, name+" "+network, now, time.Time.Compare)
}

// unknown takes back what try has counted, because the password was not looked at.
func (d *Door) unknown(name, network string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.back(name, network, false)
}

func (d *Door) back(name, network string, whole bool) {
	for key := range d.keys(name, network) {
		t := d.tries[key]
		switch {
		case t == nil:
		case whole && key != "network "+network:
			delete(d.tries, key)
		default:
			t.wrong, t.until = max(0, t.wrong-1), time.Time{}
		}
	}
}

// tell counts a refusal, and returns how many the audit log is to be told of now; 0 for none.
func (d *Door) tell(of string, now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.told[of]
	if r == nil {
		r = &refusals{}
		keep(d.told, of, r, func(a, b *refusals) int { return a.last.Compare(b.last) })
	}
	r.untold++
	if now.Sub(r.last) < tellEvery {
		return 0
	}
	n := r.untold
	r.untold, r.last = 0, now
	return n
}

// keep keeps something in mind. Where there is too much, what counts least goes.
func keep[V any](in map[string]V, key string, value V, compare func(a, b V) int) {
	if _, there := in[key]; !there && len(in) >= remembered {
		least, found := "", false
		for k, v := range in {
			if !found || compare(v, in[least]) < 0 {
				least, found = k, true
			}
		}
		delete(in, least)
	}
	in[key] = value
}
