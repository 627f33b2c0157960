package pages_test

import (
	"context"

	"payersync/connector/office"
	"payersync/connector/syncer"
)

// matches returns what decides who is an existing customer.
func (h *house) matches() *office.Matches {
	ahead := &office.Ahead{}
	h.t.Cleanup(ahead.Close)
	return &office.Matches{
		Ledger: h.ledger, Syncer: h.syncer, Connections: []string{sample}, Ahead: ahead,
		Stored: func(context.Context, string) (syncer.Connection, error) { return h.conn, nil },
	}
}
