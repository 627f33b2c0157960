package letters

import (
	"context"
	"fmt"
	"time"

	"payersync/connector/outbox"
	"payersync/state"
)

// The limits for bounced letters.
const (
	mostBounces  = 10
	shareBounces = 20 // one of so many letters of a day
	leastBounces = 3
)

// brakeOnBounces stops all letters if too many of the last day's went to nonexistent addresses.
func (d *Desk) brakeOnBounces(ctx context.Context) (bool, error) {
	since := d.Ledger.Now().Add(-24 * time.Hour)
	bounced, err := d.Ledger.BouncedSince(ctx, since)
	if err != nil || bounced < leastBounces {
		return false, err
	}
	sent := 0
	if err := d.Ledger.EachLetter(ctx, "", func(l state.Letter) error {
		if l.SendingAt.After(since) {
			sent++
		}
		return nil
	}); err != nil {
		return false, err
	}
	if bounced < mostBounces && bounced*shareBounces <= sent {
		return false, nil
	}
	return true, d.brake(ctx,
		fmt.Sprintf("%d of the %d letters of a day were to addresses that do not exist.", bounced, sent))
}

// brake stops all letters until a person releases the brake.
func (d *Desk) brake(ctx context.Context, why string) error {
	return outbox.Note(ctx, d.Ledger, func(tx *state.Tx) error {
		return tx.AddLetterStop(state.LetterStop{Scope: state.StopAll, Why: state.StopBrake, Actor: "payersync", Note: why})
	})
}
