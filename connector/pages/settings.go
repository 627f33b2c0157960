package pages

import (
	"context"
	"time"

	"payersync/state"
)

// JobTimes is a job of payersync serve, with when it was at work and is next.
type JobTimes struct {
	state.JobRow
	Schedule string
	NextAt   time.Time // zero while it is idle
	Idle     bool      // no process keeps the schedules
}

// Setting is one value of the configuration, as people may see it: never a secret.
type Setting struct{ Group, Name, Value string }

// settings shows the configuration. It changes nothing.
func (v *visit) settings() error {
	ctx := v.Context()
	jobs, err := v.pages.cfg.Jobs(ctx)
	if err != nil {
		return err
	}
	consents, err := v.ledger().Consents(ctx)
	if err != nil {
		return err
	}
	sources, err := v.ledger().Sources(ctx)
	if err != nil {
		return err
	}
	serving, err := v.ledger().Serving(ctx)
	if err != nil {
		return err
	}
	if v.pages.limited { // a mistake in the configuration may name any connection
		serving = state.Serving{}
	}
	type group struct {
		Name     string
		Settings []Setting
	}
	var groups []group
	for _, s := range v.pages.cfg.Settings() {
		if len(groups) == 0 || groups[len(groups)-1].Name != s.Group {
			groups = append(groups, group{Name: s.Group})
		}
		last := &groups[len(groups)-1]
		last.Settings = append(last.Settings, s)
	}
	return v.show("settings", "Settings", struct {
		Connections []string
		Sources     []state.SourceRow
		Consents    []state.ConsentRow
		Jobs        []JobTimes
		Groups      []group
		Serving     state.Serving
		MayUsers    bool
		MayAudit    bool
		HasPassword bool
	}{v.pages.cfg.Connections, sources, consents, jobs, groups, serving, v.User.Role.May(Admin) &&
		v.pages.served["/settings/users"], v.pages.served["/audit"], v.way == byPassword})
}

func noJobs(context.Context) ([]JobTimes, error) { return nil, nil }

// sourceOf returns the known facts about a connection's source; nil if not read yet.
func sourceOf(all []state.SourceRow, connection string) *state.SourceRow {
	for i := range all {
		if all[i].Connection == connection {
			return &all[i]
		}
	}
	return nil
}

// sourceChip is how a connection's source was met last.
func sourceChip(s *state.SourceRow) chip {
	switch {
	case s == nil:
		return chip{"◷", "Not read yet", none}
	case s.MovedTo != "":
		return chip{"–", "Closed: moved to " + s.MovedTo, none}
	case s.State == state.SourceActive:
		return chip{"✓", "Connected", good}
	case s.State == state.SourceParked:
		return chip{"◷", "Request limit used up", waits}
	default:
		return chip{"✕", "Access refused", stopped}
	}
}
