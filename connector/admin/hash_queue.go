package admin

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Client classifies a browser sending a password. Each kind has its own queue for hashing, so attackers cannot fill the
// queue of the others.
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
	hashPatience   = 10 * time.Second // one client's longest wait
)

// hashesWait is the number of waiting clients of each kind, in addition to those in progress. Many clean networks may
// wait, so a new one is served despite a crowd: each has few tries before it is suspect.
var hashesWait = [clientKinds]int{KnownDevice: 16, CleanClient: 256, Suspect: 16}

// hashQueue limits the concurrent work of clients. A free place goes to the first waiting kind, and within it to the
// earliest client. It is safe for concurrent use.
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

// giveUp ends a client's wait. A place granted meanwhile goes to the next client.
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
