package syncer

import (
	"context"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/state"
)

// loadDoubt reads the time at which the ledger's notes about sent requests turned out unreliable. For state.Arrival
// after it, unknown requests may still arrive.
func (r *run) loadDoubt(ctx context.Context) error {
	x, err := r.Ledger.Index(ctx, r.Reconciler.Lookup.Quarantine)
	if err != nil {
		return err
	}
	if !x.Restored.IsZero() {
		r.doubtEnds = x.Restored.Add(state.Arrival)
	}
	return nil
}

// awaited returns the end of the wait for a signing link request possibly sent before the ledger was restored. It also
// notes this end for the run. It returns "" if no time ends the wait.
func (r *run) awaited(f protocol.Facts, step protocol.Step) string {
	if step.Do != protocol.Wait || step.Reason != connector.ReasonOutcomeUnknown || f.Doubt.Since == 0 ||
		f.Doubt.Over != 0 || !r.doubtEnds.After(r.Ledger.Now()) {
		return ""
	}
	r.waitsUntil(r.doubtEnds)
	return fmt.Sprintf("The ledger was put back: a signing link may have been asked for that it does not know of. This ends by itself: links are asked for again from %s.", r.doubtEnds.UTC().Format(time.RFC3339))
}

// awaitedOf describes the end of the wait for a request about a linked payer's customer. This is the latest time of
// arrival, or the next run, because it reads the customer again.
func (r *run) awaitedOf(ctx context.Context, f protocol.Facts, p state.Payer, step protocol.Step) (string, error) {
	if step.Reason != connector.ReasonOutcomeUnknown {
		return "", nil
	}
	until := time.Time{}
	if step.Do == protocol.Wait {
		sent, err := r.Ledger.LastUnanswered(ctx, p.Connection, p.SourceID)
		if err != nil {
			return "", err
		}
		if !sent.IsZero() {
			until = sent.Add(state.Arrival)
		}
		if f.Doubt.Since != 0 && f.Doubt.Over == 0 && r.doubtEnds.After(until) {
			until = r.doubtEnds
		}
	}
	if !until.After(r.Ledger.Now()) {
		return "The last request got no answer. The next run reads the customer again.", nil
	}
	r.waitsUntil(until)
	return fmt.Sprintf("The last request got no answer, and may still arrive. Runs from %s on read the customer again.",
		until.UTC().Format(time.RFC3339)), nil
}
