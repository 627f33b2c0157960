package syncer

import (
	"context"
	"fmt"

	"payersync/connector"
	"payersync/state"
)

// Profile is the description that a source is read by. After an edit, scheduled runs of its connection stop until a
// person has approved a plan made with it. An upgrade of payersync may edit a shipped profile.
type Profile interface {
	// Meaning is a hash of what the profile says, without the parts that only people read.
	Meaning() string
	// FitsItself reads a model of the system made from the profile, and fails if the profile contradicts it.
	FitsItself(ctx context.Context) error
}

func meaningOf(p Profile) string {
	if p == nil {
		return ""
	}
	return p.Meaning()
}

// byPerson is the trigger of a run that a person started.
const byPerson = "manual"

// EditedProfile is the error of a scheduled run whose source has an edited profile. Nobody has accepted it yet, so the
// run read nothing.
type EditedProfile struct{ Connection string }

// Error says what a person may do about it.
func (e *EditedProfile) Error() string {
	return fmt.Sprintf("the profile of the accounting system of %s was edited, by a person or by an upgrade of payersync. Scheduled runs read and send nothing until a plan made with it is approved", e.Connection)
}

// Steps returns the step that makes the plan.
func (e *EditedProfile) Steps() []connector.Step {
	return state.EditedProfile{Connection: e.Connection}.Steps()
}

// mayRead stops a run before it reads by an edited profile: a scheduled run always, and a person's run if the profile
// contradicts itself.
func (r *run) mayRead(ctx context.Context) error {
	switch {
	case !r.edited:
		return nil
	case r.opts.Trigger != byPerson:
		return &EditedProfile{r.conn.Name}
	}
	if err := r.conn.Profile.FitsItself(ctx); err != nil {
		return fmt.Errorf("the edited profile of the accounting system cannot be used, so nothing was read: %w", err)
	}
	return nil
}
