package main

import (
	"context"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// mappingFiles names the mapping files of the configured connections.
func mappingFiles(s *session.Session) admin.MappingFiles {
	return func(connection string) string {
		c, _ := connector.Find(s.Config.Connections, func(c config.Connection) bool { return c.Name == connection })
		return c.Mapping
	}
}

// eachNotAsked passes each rule that excludes payers from mandate requests, with their number, to do: of one
// connection, or of all for "".
func (a *app) eachNotAsked(ctx context.Context, s *session.Session, connection string,
	do func(admin.NotAsked) error) error {
	rows, err := admin.NotAskedBy(ctx, s.Ledger, connection, mappingFiles(s))
	for _, n := range rows {
		if err == nil {
			err = do(n)
		}
	}
	return err
}

// eachNotAskedOf is eachNotAsked for a plan. A sent or superseded plan does not store it.
func (a *app) eachNotAskedOf(ctx context.Context, s *session.Session, plan state.Plan,
	do func(admin.NotAsked) error) error {
	if plan.State == state.PlanApplied || plan.State == state.PlanSuperseded {
		return nil
	}
	return a.eachNotAsked(ctx, s, plan.Connection, do)
}

func (a *app) printNotAsked(ctx context.Context, s *session.Session, connection string) error {
	return a.eachNotAsked(ctx, s, connection, a.printUnasked)
}

func (a *app) printUnasked(n admin.NotAsked) error {
	a.Hanging("  ", show.Visible(n.Sentence))
	return nil
}
