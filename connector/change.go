package connector

import "time"

// LinkState says how a payer relates to a customer of the billing service. The
// package comment draws its moves.
type LinkState string

// The link states.
const (
	LinkNew      LinkState = "new"
	LinkCreating LinkState = "creating"
	LinkLinked   LinkState = "linked"
	LinkMissing  LinkState = "missing"
	LinkConflict LinkState = "conflict"
	LinkHeld     LinkState = "held"
)

// Action is the effect of a change for its payer.
type Action string

// The actions. ActionLink asks for a mandate signing link.
const (
	ActionCreate Action = "create"
	ActionAdopt  Action = "adopt"
	ActionUpdate Action = "update"
	ActionLink   Action = "link"

	// ActionUnlink is the displayed action of an update to release a customer by removing its key. In the ledger it is
	// an update.
	ActionUnlink Action = "unlink"
)

// ChangeState is the state of a change. The package comment shows its transitions.
type ChangeState string

// The change states.
const (
	ChangePending ChangeState = "pending"
	ChangeFrozen  ChangeState = "frozen"
	ChangeUnknown ChangeState = "unknown"
	ChangeDone    ChangeState = "done"
	ChangeFailed  ChangeState = "failed"
	ChangeHeld    ChangeState = "held"
	ChangeVoid    ChangeState = "void"
)

// RunKind says how a run reads its source.
type RunKind string

// The run kinds. A plan reads and plans and sends nothing.
const (
	RunSync     RunKind = "sync"
	RunBackfill RunKind = "backfill"
	RunPlan     RunKind = "plan"
)

// RunOutcome is how a run ended.
type RunOutcome string

// The outcomes. RunComplete means payersync has nothing left to do by itself. RunIncomplete means a later run has work
// to continue. RunFailed means the run could not do its work at all.
const (
	RunRunning          RunOutcome = "running"
	RunAwaitingApproval RunOutcome = "awaiting_approval"
	RunComplete         RunOutcome = "complete"
	RunIncomplete       RunOutcome = "incomplete"
	RunFailed           RunOutcome = "failed"

	// RunInterrupted is concluded by OutcomeAt and never stored: the next run closes such a run as incomplete.
	RunInterrupted RunOutcome = "interrupted"
)

// OutcomeAt returns the outcome of a run at a time. A process renews the lease of its run several times in its span, so
// an open run with an expired lease was interrupted.
func OutcomeAt(stored RunOutcome, lease, now time.Time) RunOutcome {
	if stored == RunRunning && !now.Before(lease) {
		return RunInterrupted
	}
	return stored
}

// InboxState is the state of an accepted webhook delivery.
type InboxState string

// The inbox states. Superseded means a read started later was applied before this delivery's own. Parked means its
// customer is not known yet. Quarantined means it was signed, but not understood. Ignored means payersync does not
// follow its subject.
const (
	InboxReceived    InboxState = "received"
	InboxReflected   InboxState = "reflected"
	InboxSuperseded  InboxState = "superseded"
	InboxParked      InboxState = "parked"
	InboxQuarantined InboxState = "quarantined"
	InboxIgnored     InboxState = "ignored"
)

// Cause is the reason for a read of a customer.
type Cause string

// The causes, as the mandate history names them.
const (
	CauseCreate  Cause = "create"
	CauseAdopt   Cause = "adopt"
	CauseUpdate  Cause = "update"
	CauseLink    Cause = "link"
	CauseCancel  Cause = "cancel"
	CauseWebhook Cause = "webhook"
	CauseSweep   Cause = "sweep"
)
