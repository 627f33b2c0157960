package main

import (
	"context"
	"fmt"
	"time"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
)

// putBackShown is for how long status tells of a ledger that was put back. What is
// ours is brought in line with the books until a day after a restore.
const putBackShown = 7 * 24 * time.Hour

// putBack returns when it was noticed that the ledger had been put back; zero when
// that never happened, or long ago.
func (a *app) putBack(ctx context.Context, s *session.Session) (time.Time, error) {
	at, err := s.Ledger.PutBack(ctx)
	if a.now().Sub(at) > putBackShown {
		at = time.Time{}
	}
	return at, err
}

// putBackTexts says that the ledger was put back.
func putBackTexts(at time.Time) []string {
	if at.IsZero() {
		return nil
	}
	return []string{fmt.Sprintf("On %s the ledger was found to be an older copy that had been put back. It counts as restored since then; payersync sweep looks up what was sent meanwhile.",
		show.Time(at))}
}
