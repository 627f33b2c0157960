package accounting

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"payersync/connector"
)

// Organisation is the company of a source: its stable id in the system, and its name.
type Organisation struct{ ID, Name string }

// Choose returns the organisation to read of those within reach: the one with the configured id, or the only one. It
// goes by id, and never by place in the list or by name (fault F28). The error is a *Disconnected if the configured one
// is out of reach.
func Choose(system, id string, reached []Organisation) (Organisation, error) {
	for _, o := range reached {
		if o.ID == id || id == "" && len(reached) == 1 {
			return o, nil
		}
	}
	named := strings.Join(connector.Map(reached, func(o Organisation) string { return o.Name + " = " + o.ID }), ", ")
	switch {
	case len(reached) == 0:
		return Organisation{}, &Disconnected{Reason: "no " + system + " organisation is connected any more"}
	case id == "":
		return Organisation{}, fmt.Errorf("choose the %s organisation: the access covers %d of them; set tenant to one of %s",
			system, len(reached), named)
	}
	return Organisation{}, &Disconnected{Reason: fmt.Sprintf("the access does not cover organisation %s, but %s", id,
		named)}
}

// Proof remembers a source's proved organisation for a day.
type Proof interface {
	// Known returns the organisation if it was proved today.
	Known(ctx context.Context) (o Organisation, known bool, err error)
	// Keep stores the system's answer.
	Keep(ctx context.Context, o Organisation) error
	// Forget has the system asked anew.
	Forget(ctx context.Context) error
}

// Prover asks an accounting system for the source's organisation, unless the Proof knows it. Every request
// names the organisation, or uses credentials of it alone. So a system that no longer admits them says so by
// itself.
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

// Anew asks the system, whatever the Proof knows, and stores the answer in it.
func (p Prover) Anew(ctx context.Context) (Organisation, error) {
	o, err := p.Ask(ctx)
	if err == nil && p.Proof != nil {
		err = p.Proof.Keep(ctx, o)
	}
	return o, err
}

// Doubt returns the error of a read. If the source may reach another organisation, it asks the system anew,
// for a better explanation.
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
