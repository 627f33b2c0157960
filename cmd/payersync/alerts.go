package main

import (
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector/condition"
)

// expected is what the configuration expects to be the case.
func (a *app) expected(s *session.Session) condition.Expected {
	return condition.Expected{
		Jobs: a.jobs(s), Webhooks: s.Config.Billing.Webhook != nil, Time: show.Time, Now: a.now,
		Has: func(connection string) bool { return s.Config.Has(connection) == nil }, ReliesOn: s.Config.ReliesOn,
	}
}
