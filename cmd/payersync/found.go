package main

import (
	"context"
	"fmt"
	"time"

	"payersync/state"
)

// tellOfRestore is what marks a ledger as restored by hand.
const tellOfRestore = `sqlite3 %s "UPDATE ledger SET restored_at = strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ')"`

// foundText says what the ledger's mark told when it was opened; "" for nothing.
func (s *session) foundText() string {
	path := s.cfg.Ledger.Path
	cannotTell := fmt.Sprintf("so it cannot be told whether the ledger is an older copy. If it is one, say so before anything else: "+tellOfRestore, path)
	switch s.ledger.Found() {
	case state.FoundOlder:
		return fmt.Sprintf("The ledger %s is older than it was: a copy of it was put back. It counts as restored: nothing is created before the service's list "+
			"has been read anew, %s from now at the earliest. What was sent since the copy was made is looked up there.", path, time.Duration(s.cfg.Lookup.Quarantine))
	case state.FoundNoMark:
		return fmt.Sprintf("The file %s.mark was not there or could not be read, and was made anew, %s", path, cannotTell)
	case state.FoundForeign:
		return fmt.Sprintf("The file %s.mark was of another ledger, and was made anew, %s", path, cannotTell)
	}
	return ""
}

// putBackShown is for how long status tells of a ledger that was put back. What is
// ours is brought in line with the books until a day after a restore.
const putBackShown = 7 * 24 * time.Hour

// putBack returns when it was noticed that the ledger had been put back; zero when
// that never happened, or long ago.
func (a *app) putBack(ctx context.Context, s *session) (time.Time, error) {
	at, err := s.ledger.PutBack(ctx)
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
		at.Local().Format(time.DateTime))}
}
