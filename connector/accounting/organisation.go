package accounting

import (
	"context"
	"errors"

	"payersync/connector"
)

// Organisation is whose books a source reads: its stable id in the system, and its name.
type Organisation struct{ ID, Name string }

// Proof keeps for a day which organisation a source was proved to read.
type Proof interface {
	// Known returns the organisation where it need not be asked for today.
	Known(ctx context.Context) (o Organisation, known bool, err error)
	// Keep keeps what the system has just said.
	Keep(ctx context.Context, o Organisation) error
	// Forget has the system asked anew.
	Forget(ctx context.Context) error
}

// Prover asks an accounting system which organisation a source reads, where the Proof does not
// know. Every request names the organisation or goes by credentials of it alone, so a system that
// no longer lets them in says so by itself.
type Prover struct {
	Proof Proof  // nil for none: the system is asked each time
	ID    string // of the organisation that is to be read; "" for whichever it is
	Ask   func(ctx context.Context) (Organisation, error)
}

// Organisation returns the organisation.
func (p Prover) Organisation(ctx context.Context) (Organisation, error) {
	if p.Proof == nil {
		return p.Ask(ctx)
	}
	if o, known, err := p.Proof.Known(ctx); err != nil || known && (p.ID == "" || o.ID == p.ID) {
		return o, err
	}
	return p.Anew(ctx)
}

// Anew asks whatever the Proof knows, and has it keep the answer.
func (p Prover) Anew(ctx context.Context) (Organisation, error) {
	o, err := p.Ask(ctx)
	if err == nil && p.Proof != nil {
		err = p.Proof.Keep(ctx, o)
	}
	return o, err
}

// Doubt returns the error of a read. One that can mean that the source reaches another organisation
// has the system asked anew: what it then says explains more.
func (p Prover) Doubt(ctx context.Context, err error) error {
	if err == nil || p.Proof == nil || !isDoubt(err) {
		return err
	}
	if forgot := p.Proof.Forget(ctx); forgot != nil {
		return errors.Join(err, forgot)
	}
	if _, said := p.Anew(ctx); said != nil {
		return said
	}
	return err
}

// isDoubt reports whether a read failed because the credentials may be another organisation's.
func isDoubt(err error) bool {
	var out *Disconnected
	if errors.As(err, &out) {
		return true
	}
	switch connector.FaultOf(err) {
	case connector.FaultUnauthorized, connector.FaultNotFound, connector.FaultRejected:
		return true
	}
	return false
}
