package session

import (
	"context"
	"sync"
	"time"

	"payersync/connector/accounting"
	"payersync/state"
)

// proof stores a connection's proved organisation in the ledger for a day, so runs need not request it again.
// New credentials or a new consent require a new request.
type proof struct {
	ledger     *state.Ledger
	connection string
	by         string // keyed hash of the credentials

	mu   sync.Mutex
	said accounting.Organisation // not in the ledger yet: the connection's first run has not begun
}

// NewProof returns the proof of a connection; by is a keyed hash of its credentials.
func NewProof(ledger *state.Ledger, connection, by string) accounting.Proof {
	return &proof{ledger: ledger, connection: connection, by: by}
}

// Known returns today's answer with the same credentials.
func (p *proof) Known(ctx context.Context) (o accounting.Organisation, known bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said.ID != "" {
		o, p.said = p.said, accounting.Organisation{}
		return o, true, p.keep(ctx, o)
	}
	have, err := p.ledger.ProvedOrganisation(ctx, p.connection)
	if err != nil || have.At.IsZero() || have.By != p.by || !sameDay(have.At, p.ledger.Now()) {
		return o, false, err
	}
	return accounting.Organisation{ID: have.ID, Name: have.Name}, true, nil
}

// Keep stores the accounting system's answer.
func (p *proof) Keep(ctx context.Context, o accounting.Organisation) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keep(ctx, o)
}

func (p *proof) keep(ctx context.Context, o accounting.Organisation) error {
	return p.ledger.Do(ctx, func(tx *state.Tx) error {
		kept, err := tx.ProveOrganisation(p.connection, o.ID, p.by)
		if err == nil && !kept {
			p.said = o
		}
		return err
	})
}

// Forget has the accounting system asked anew.
func (p *proof) Forget(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = accounting.Organisation{}
	return p.ledger.Do(ctx, func(tx *state.Tx) error { return tx.DoubtOrganisation(p.connection) })
}

func sameDay(a, b time.Time) bool {
	return a.UTC().Truncate(24 * time.Hour).Equal(b.UTC().Truncate(24 * time.Hour))
}
