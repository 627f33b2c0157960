package office

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Client says how much is known of a browser that sends a password. Each kind has a line of its own
// for the work of hashing, so that attackers cannot fill the line of the others.
type Client int

// The kinds of clients.
const (
	KnownDevice Client = iota // the user has signed in with this browser before
	CleanClient               // hardly any wrong password has come from its network
	Suspect                   // several wrong passwords have come from its network
	clientKinds
)

const (
	deviceHashes   = 1                // at once, for known devices alone
	strangerHashes = 2                // at once, for all others
	hashPatience   = 10 * time.Second // for which one client waits
)

// hashesWait is how many clients of a kind wait, beside those at work. Many clean networks may wait,
// so that a new one is served behind a crowd of others: each has few tries before it is suspect.
var hashesWait = [clientKinds]int{KnownDevice: 16, CleanClient: 256, Suspect: 16}

// hashQueue lets a few clients at a time do something. A free place goes to the first kind of client
// that waits, and among these to the first that came. It is safe for concurrent use.
type hashQueue struct {
	mu      sync.Mutex
	free    int
	waiting [clientKinds][]chan struct{}
}

// enter waits for a place. It fails with ErrHashing if too many of the kind wait, or for too long.
// The caller gives the place back with leave.
func (q *hashQueue) enter(ctx context.Context, kind Client) error {
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
		return nil
	}
	if len(q.waiting[kind]) >= hashesWait[kind] {
		q.mu.Unlock()
		return ErrHashing
	}
	turn := make(chan struct{})
	q.waiting[kind] = append(q.waiting[kind], turn)
	q.mu.Unlock()
	ctx, done := context.WithTimeout(ctx, hashPatience)
	defer done()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		q.giveUp(kind, turn)
		return ErrHashing
	}
}

// giveUp ends the wait of a client. A place that it was given meanwhile goes to the next one.
func (q *hashQueue) giveUp(kind Client, turn chan struct{}) {
	q.mu.Lock()
	at := slices.Index(q.waiting[kind], turn)
	if at >= 0 {
		q.waiting[kind] = slices.Delete(q.waiting[kind], at, at+1)
	}
	q.mu.Unlock()
	if at < 0 {
		q.leave()
	}
}

// leave gives a place back.
func (q *hashQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for kind, line := range q.waiting {
		if len(line) > 0 {
			close(line[0])
			q.waiting[kind] = line[1:]
			return
		}
	}
	q.free++
}
