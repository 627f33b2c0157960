package pages

import (
	"cmp"
	"context"
	"net/netip"
	"sync"
	"time"

	"payersync/connector/office"
	"payersync/state"
)

const (
	freeTries      = 5                // wrong passwords for a name from one network until it has to wait
	freeTriesHot   = 2                // the same for a name that many networks try
	hotName        = 50               // wrong passwords for a name, from everywhere, that make it such a name
	freeTriesNet   = 20               // wrong passwords from a network: an office has several people
	freeTriesBlock = 100              // wrong passwords from a /48, the most that one IPv6 customer usually has
	cleanTries     = 2                // fewer wrong passwords than this leave a network clean
	firstWait      = 30 * time.Second // doubles with each more
	longestWait    = 15 * time.Minute // so that nobody can keep anybody out for long
	forgetAfter    = time.Hour        // without a wrong password all is forgotten
	remembered     = 20000            // counters that are kept in memory
	tellEvery      = time.Minute      // a line about refusals of one person goes into the audit log
	saveEvery      = 5 * time.Second  // the counters that have changed go into the ledger
	savedAtOnce    = 1000             // counters, in one write
)

// Door counts wrong passwords, and limits how often a refusal is written down. Its counters are in
// memory and in the ledger, so they survive a restart; it outlives the Config. It is safe for
// concurrent use.
//
// A browser with a valid device cookie is counted by itself (see device.go). Strangers are counted
// by network, and by name and network together. No counter is of a name alone: attackers would lock
// out its owner everywhere.
type Door struct {
	ledger    *state.Ledger
	passwords *office.Passwords

	mu      sync.Mutex
	loaded  bool
	tries   map[string]*tries
	changed map[string]bool // counters that the ledger does not have as they are
	saved   time.Time       // when a save began
	told    map[string]*refusals

	background sync.WaitGroup
}

// tries is a counter of wrong passwords.
type tries struct {
	wrong  int
	last   time.Time
	until  time.Time // before it, no password is checked
	stored bool      // the ledger has it, as it is or as it was
}

// refusals counts the refusals not yet in the audit log.
type refusals struct {
	untold int
	last   time.Time // when it was told
}

// NewDoor returns a door with the ledger's saved counters. Close it before the ledger.
func NewDoor(ledger *state.Ledger) *Door {
	return &Door{ledger: ledger, passwords: office.NewPasswords(), tries: map[string]*tries{}, changed: map[string]bool{}, told: map[string]*refusals{}}
}

// Close saves the counters and waits for audit entries in progress.
func (d *Door) Close() {
	d.background.Wait()
	for {
		if n, err := d.save(context.Background(), time.Now(), 0); n == 0 || err != nil {
			return
		}
	}
}

// attempt is one password sent by a client.
type attempt struct {
	from     office.Client
	device   string         // the counter of the device; "" for a stranger
	counters map[string]int // of a stranger, each with how many are free
	pair     string         // which of them is of the name and the network
}

// enter counts an attempt before the password check, so simultaneous attempts count too. It returns the time for the
// client to wait instead; 0 for none.
func (d *Door) enter(ctx context.Context, name, network string, known device, now time.Time) (a attempt, wait time.Duration, err error) {
	if known.nonce != "" {
		a = attempt{from: office.KnownDevice, device: d.ledger.SignInHash("device counter", known.nonce)}
		var left bool
		err = d.ledger.Do(ctx, func(tx *state.Tx) (err error) {
			left, err = tx.TakeDeviceAttempt(a.device, deviceTries, known.expires)
			return err
		})
		if err != nil || left {
			return a, 0, err
		}
	}
	return d.enterAsStranger(ctx, name, network, now)
}

func (d *Door) enterAsStranger(ctx context.Context, name, network string, now time.Time) (a attempt, wait time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.load(ctx, now); err != nil {
		return a, 0, err
	}
	a = attempt{from: office.CleanClient, counters: map[string]int{}, pair: d.ledger.SignInHash("name and network", name, network)}
	anywhere := d.ledger.SignInHash("name", name)
	a.counters[a.pair] = freeTries
	if d.wrong(anywhere, now) >= hotName {
		a.counters[a.pair] = freeTriesHot
	}
	a.counters[d.ledger.SignInHash("network", network)] = freeTriesNet
	if block := blockOf(network); block != "" {
		a.counters[d.ledger.SignInHash("block", block)] = freeTriesBlock
	}
	for counter, free := range a.counters {
		if t := d.tries[counter]; t != nil {
			wait = max(wait, t.until.Sub(now))
		}
		if d.wrong(counter, now) >= min(cleanTries, free) {
			a.from = office.Suspect
		}
	}
	if wait > 0 {
		return a, wait, nil
	}
	a.counters[anywhere] = 0
	for counter, free := range a.counters {
		d.count(counter, free, now)
	}
	return a, 0, nil
}

// blockOf returns the /48 of a smaller IPv6 network; "" for any other network.
func blockOf(network string) string {
	of, err := netip.ParsePrefix(network)
	if err != nil || of.Addr().Is4() || of.Bits() <= 48 {
		return ""
	}
	block, _ := of.Addr().Prefix(48)
	return block.String()
}

// wrong returns the number of unexpired wrong passwords of a counter.
func (d *Door) wrong(counter string, now time.Time) int {
	if t := d.tries[counter]; t != nil && now.Sub(t.last) <= forgetAfter {
		return t.wrong
	}
	return 0
}

// count adds a wrong password to a counter. From the free ones on, each makes a wait; with none free,
// it only counts.
func (d *Door) count(counter string, free int, now time.Time) {
	t := d.tries[counter]
	if t == nil || now.Sub(t.last) > forgetAfter {
		t = &tries{}
		evicted := keep(d.tries, counter, t, func(a, b *tries) int { return cmp.Or(cmp.Compare(a.wrong, b.wrong), a.last.Compare(b.last)) })
		delete(d.changed, evicted) // the ledger drops the least of its rows by itself
	}
	t.wrong, t.last = t.wrong+1, now
	d.changed[counter] = true
	if over := t.wrong - free; free > 0 && over >= 0 {
		t.until = now.Add(min(longestWait, firstWait<<min(over, 10)))
	}
}

// good takes back an attempt, because the password was right.
func (d *Door) good(ctx context.Context, a attempt) error { return d.takeBack(ctx, a, true) }

// unchecked takes back an attempt, because the password was not checked.
func (d *Door) unchecked(ctx context.Context, a attempt) error { return d.takeBack(ctx, a, false) }

func (d *Door) takeBack(ctx context.Context, a attempt, good bool) error {
	if a.device != "" {
		return d.ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.ReturnDeviceAttempt(a.device) })
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for counter := range a.counters {
		t := d.tries[counter]
		if t == nil {
			continue
		}
		d.changed[counter] = true
		if t.wrong, t.until = t.wrong-1, (time.Time{}); t.wrong <= 0 || good && counter == a.pair {
			delete(d.tries, counter)
			if !t.stored {
				delete(d.changed, counter)
			}
		}
	}
	return nil
}

// load reads the counters of the ledger once. The caller holds the lock.
func (d *Door) load(ctx context.Context, now time.Time) error {
	if d.loaded {
		return nil
	}
	rows, err := d.ledger.SignInAttempts(ctx, now, remembered)
	if err != nil {
		return err
	}
	for _, r := range rows {
		d.tries[r.Counter] = &tries{wrong: r.Wrong, until: r.WaitUntil, last: r.ExpiresAt.Add(-forgetAfter), stored: true}
	}
	d.loaded = true
	return nil
}

// save writes changed counters to the ledger, unless it did so a moment ago. It returns the number written.
func (d *Door) save(ctx context.Context, now time.Time, every time.Duration) (n int, err error) {
	rows := d.unsaved(now, every)
	if len(rows) == 0 {
		return 0, nil
	}
	err = d.ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.KeepSignInAttempts(rows, now, remembered) })
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, r := range rows {
			d.changed[r.Counter] = true
		}
	}
	return len(rows), err
}

func (d *Door) unsaved(now time.Time, every time.Duration) (rows []state.SignInAttempts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.saved) < every {
		return nil
	}
	d.saved = now
	for counter := range d.changed {
		row := state.SignInAttempts{Counter: counter}
		if t := d.tries[counter]; t != nil {
			row.Wrong, row.WaitUntil, row.ExpiresAt, t.stored = t.wrong, t.until, t.last.Add(forgetAfter), true
		}
		delete(d.changed, counter)
		if rows = append(rows, row); len(rows) == savedAtOnce {
			break
		}
	}
	return rows
}

// later runs do in the background, so the response time does not depend on it.
func (d *Door) later(do func()) { d.background.Go(do) }

// tell counts a refusal, and returns how many to write to the audit log now; 0 for none.
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

// compared is the number of entries keep looks at to find the least important one.
const compared = 16

// keep stores an entry. If the map is full, it evicts the least of a few random entries and returns its key: comparing
// all would take too long in an attack.
func keep[V any](in map[string]V, key string, value V, compare func(a, b V) int) (evicted string) {
	if _, there := in[key]; !there && len(in) >= remembered {
		looked := 0
		for k, v := range in {
			if looked == 0 || compare(v, in[evicted]) < 0 {
				evicted = k
			}
			if looked++; looked == compared {
				break
			}
		}
		delete(in, evicted)
	}
	in[key] = value
	return evicted
}
