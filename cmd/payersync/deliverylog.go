package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"payersync/connector"
	"payersync/connector/server"
)

const (
	tallyEvery = time.Minute
	maxTallied = 256 // outcomes of blocks with counters of their own

	mostOwnLines = 100 // a second for new deliveries: a line takes as long as a tenth of storing one
)

// deliveryLog logs the outcomes of requests to the webhook endpoint. Strangers can send any number of them
// and must not fill the log. So only a new delivery has a line of its own, up to mostOwnLines a second. Other
// outcomes, and the deliveries beyond those, have one line for the first of each client block, and one a minute
// with the number of later ones. A delivery that was not understood always has its line. No line holds anything
// of a request.
type deliveryLog struct {
	log *logrus.Logger

	mu    sync.Mutex
	since map[tallied]int // the number since the last line; a key for each with a line

	second time.Time // the present one, and its lines for new deliveries
	own    int
}

// tallied is the key of a counter.
type tallied struct {
	outcome server.RequestOutcome
	from    string // the client's block; blank when it is not known
}

const (
	otherBlocks                            = "other blocks" // of those beyond maxTallied
	brokenConnection server.RequestOutcome = "broken_connection"
)

func newDeliveryLog(log *logrus.Logger) *deliveryLog {
	return &deliveryLog{log: log, since: make(map[tallied]int)}
}

// report takes note of one request.
func (l *deliveryLog) report(e server.Event) {
	if e.Outcome == server.Accepted && (e.State == connector.InboxQuarantined || l.ownLine()) {
		l.log.WithFields(logrus.Fields{"outcome": e.Outcome, "type": e.Type, "state": e.State}).Info("webhook taken in")
		return
	}
	what := tallied{outcome: e.Outcome}
	if e.Client.IsValid() && e.Outcome != server.Accepted {
		what.from = e.Client.String()
	}
	l.count(what, e.Err)
}

// ownLine reports whether one more new delivery has a line of its own.
func (l *deliveryLog) ownLine() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now().Truncate(time.Second); !now.Equal(l.second) {
		l.second, l.own = now, 0
	}
	l.own++
	return l.own <= mostOwnLines
}

// reportStop takes note of one request of a recipient of letters. The ledger holds the refusal of
// letters; the log names nobody.
func (l *deliveryLog) reportStop(e server.StopEvent) {
	switch e.Outcome {
	case server.StopShown, server.StoppedBefore:
		return
	case server.LettersStopped:
		l.log.WithField("outcome", e.Outcome).Info("a recipient wants no more letters")
		return
	}
	what := tallied{outcome: server.RequestOutcome(e.Outcome)}
	if e.Client.IsValid() {
		what.from = e.Client.String()
	}
	l.count(what, e.Err)
}

// Write accepts the HTTP server's messages on broken connections, which anybody can cause.
func (l *deliveryLog) Write(line []byte) (int, error) {
	l.count(tallied{outcome: brokenConnection}, errors.New(strings.TrimSpace(string(line))))
	return len(line), nil
}

// run writes the minutes' lines until ctx ends.
func (l *deliveryLog) run(ctx context.Context) {
	tick := time.NewTicker(tallyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.flush()
		case <-ctx.Done():
			return
		}
	}
}

func (l *deliveryLog) count(what tallied, why error) {
	if what, first := l.add(what); first {
		l.line(what, 1, why)
	}
}

// add counts one, and reports whether it is the first of its kind. Beyond the
// bound, blocks are counted together.
func (l *deliveryLog) add(what tallied) (as tallied, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.since[what]; !known && len(l.since) >= maxTallied {
		what.from = otherBlocks
	}
	if _, known := l.since[what]; !known {
		l.since[what] = 0
		return what, true
	}
	l.since[what]++
	return what, false
}

// flush writes a line for each repeated kind since its last one, and forgets the others.
func (l *deliveryLog) flush() {
	again := l.take()
	for _, what := range slices.SortedFunc(maps.Keys(again), compareTallied) {
		l.line(what, again[what], nil)
	}
}

func (l *deliveryLog) take() map[tallied]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.since, func(_ tallied, n int) bool { return n == 0 })
	again := maps.Clone(l.since)
	for what := range l.since {
		l.since[what] = 0
	}
	return again
}

func compareTallied(a, b tallied) int {
	return cmp.Or(cmp.Compare(a.outcome, b.outcome), cmp.Compare(a.from, b.from))
}

func (l *deliveryLog) line(what tallied, count int, why error) {
	entry := l.log.WithFields(logrus.Fields{"outcome": what.outcome, "count": count})
	if what.from != "" {
		entry = entry.WithField("from", what.from)
	}
	if why != nil {
		entry = entry.WithError(why)
	}
	switch what.outcome {
	case server.Accepted, server.Repeated:
		entry.Info("webhook taken in")
	case server.Busy, server.NotStored, server.Panicked, server.NotReady:
		entry.Error("webhook not stored")
	case server.SecretUnknown:
		entry.Warn("webhook asked for once more: it fits no secret, and payersync webhooks subscribe came to no end")
	case server.RequestOutcome(server.StopNotStored), server.RequestOutcome(server.StopPanicked):
		entry.Error("a recipient's word was not stored")
	case server.RequestOutcome(server.StopUnknown), server.RequestOutcome(server.StopRefused):
		entry.Warn("a request to stop letters was refused")
	case brokenConnection:
		entry.Debug("a connection broke")
	default:
		entry.Warn("webhook refused")
	}
}
