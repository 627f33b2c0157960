package pages

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"payersync/connector/admin"
	"payersync/state"
)

const (
	freeTries      = 5                // wrong passwords for a name from one network until it has to wait
	freeTriesHot   = 2                // the same for a name tried from many networks
	hotName        = 50               // wrong passwords for a name, from everywhere, that make it such a one
	freeTriesNet   = 20               // wrong passwords from a network: an office has several people
	freeTriesBlock = 100              // wrong passwords from a /48, the usual maximum of one IPv6 customer
	cleanTries     = 2                // fewer wrong passwords than this leave a network clean
	firstWait      = 30 * time.Second // doubles with each more
	longestWait    = 15 * time.Minute // so nobody can lock anybody out for long
	forgetAfter    = time.Hour        // without a wrong password all is forgotten
	remembered     = 20000            // counters in memory
	tellEvery      = time.Minute      // a line about refusals of one person goes into the audit log
	saveEvery      = 5 * time.Second  // the time between writes of changed counters to the ledger
	savedAtOnce    = 1000             // counters, in one write
)

// Door counts wrong passwords, and limits how often a refusal is written down. Its counters survive a restart; it
// outlives the Config. It is safe for concurrent use.
//
// A ledger's file has one server, so the counters of strangers are in memory, and go into the file every few seconds.
// Several nodes share a ledger in a database: each attempt is counted there, within one write. Otherwise each node
// would allow as many wrong passwords as one node alone.
//
// A browser with a valid device cookie is counted by itself (see device.go). Strangers are counted
// by network, and by name and network together. No counter is of a name alone: attackers would lock
// out its owner everywhere.
type Door struct {
	ledger    *state.Ledger
	passwords *admin.Passwords

	mu       sync.Mutex
	loaded   bool
	counters           // of a ledger's file
	saved    time.Time // when a save began
	told     map[string]*refusals

	background sync.WaitGroup
}

// refusals counts the refusals not yet in the audit log.
type refusals struct {
	untold int
	last   time.Time // when it was told
}

// NewDoor returns a door with the ledger's saved counters. Close it before the ledger.
func NewDoor(ledger *state.Ledger) *Door {
	return &Door{ledger: ledger, passwords: admin.NewPasswords(), counters: newCounters(), told: map[string]*refusals{}}
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
	from     admin.Client
	device   string         // the counter of the device; "" for a stranger
	counters map[string]int // of a stranger, each with how many are free
	pair     string         // the counter of the name and the network
	anywhere string         // the counter of the name, from everywhere; it never makes anybody wait
}

// enter counts an attempt before the password check, so simultaneous attempts count too. It returns the time for the
// client to wait instead; 0 for none.
func (d *Door) enter(ctx context.Context, name, network string, known device, now time.Time) (a attempt,
	wait time.Duration, err error) {
	if known.nonce != "" {
		a = attempt{from: admin.KnownDevice, device: d.ledger.SignInHash("device counter", known.nonce)}
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

func (d *Door) enterAsStranger(ctx context.Context, name, network string, now time.Time) (a attempt, wait time.Duration,
	err error) {
	a = d.stranger(name, network)
	if d.shared() { // clients that have to wait must not hold up the account's writes
		rows, err := d.ledger.SignInAttemptsOf(ctx, a.names(), now)
		found := newCounters()
		found.add(rows)
		if wait := found.judge(&a, now); err != nil || wait > 0 {
			return a, wait, err
		}
	}
	err = d.update(ctx, a, now, func(c counters) {
		if wait = c.judge(&a, now); wait <= 0 {
			c.count(a, now)
		}
	})
	return a, wait, err
}

// stranger returns an attempt of a browser without a valid device cookie.
func (d *Door) stranger(name, network string) attempt {
	a := attempt{pair: d.ledger.SignInHash("name and network", name, network), anywhere: d.ledger.SignInHash("name", name)}
	a.counters = map[string]int{a.pair: freeTries, a.anywhere: 0, d.ledger.SignInHash("network", network): freeTriesNet}
	if block := blockOf(network); block != "" {
		a.counters[d.ledger.SignInHash("block", block)] = freeTriesBlock
	}
	return a
}

// names returns the names of the counters of an attempt.
func (a attempt) names() []string { return slices.Sorted(maps.Keys(a.counters)) }

// shared reports whether other processes count strangers of this ledger as well.
func (d *Door) shared() bool { return d.ledger.AccountID() != 0 }

// update changes the counters of an attempt where they are: in memory, or in the ledger if it is shared.
func (d *Door) update(ctx context.Context, a attempt, now time.Time, change func(counters)) error {
	if !d.shared() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := d.load(ctx, now); err != nil {
			return err
		}
		change(d.counters)
		return nil
	}
	return d.ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		rows, err := tx.SignInAttemptsOf(a.names(), now)
		if err != nil {
			return err
		}
		c := newCounters()
		c.add(rows)
		change(c)
		return tx.KeepSignInAttempts(c.unsaved(savedAtOnce))
	})
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

// good takes back an attempt, because the password was right.
func (d *Door) good(ctx context.Context, a attempt) error { return d.takeBack(ctx, a, true) }

// unchecked takes back an attempt, because the password was not checked.
func (d *Door) unchecked(ctx context.Context, a attempt) error { return d.takeBack(ctx, a, false) }

func (d *Door) takeBack(ctx context.Context, a attempt, good bool) error {
	if a.device != "" {
		return d.ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.ReturnDeviceAttempt(a.device) })
	}
	return d.update(ctx, a, time.Now(), func(c counters) { c.takeBack(a, good) })
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
	d.add(rows)
	d.loaded = true
	return nil
}

// save writes changed counters to the ledger and drops those that are of no use, unless it did so a moment ago. It
// returns the number written.
func (d *Door) save(ctx context.Context, now time.Time, every time.Duration) (n int, err error) {
	rows, due := d.due(now, every)
	if !due || len(rows) == 0 && !d.shared() {
		return 0, nil
	}
	err = d.ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		return errors.Join(tx.KeepSignInAttempts(rows), tx.TrimSignInAttempts(now, remembered))
	})
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, r := range rows {
			d.changed[r.Counter] = true
		}
	}
	return len(rows), err
}

// due returns the counters to save, if the last save was not a moment ago.
func (d *Door) due(now time.Time, every time.Duration) (rows []state.SignInAttempts, due bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.saved) < every {
		return nil, false
	}
	d.saved = now
	return d.unsaved(savedAtOnce), true
}

// later runs do in the background, so the response time does not depend on it.
func (d *Door) later(do func()) { d.background.Go(do) }

// countRefusal counts a refusal, and returns how many to write to the audit log now; 0 for none.
func (d *Door) countRefusal(of string, now time.Time) int {
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
