package health

import "payersync/connector"

// Code is the kind of a problem. Codes are a public interface: the configuration, JSON output and outgoing
// webhooks use them.
type Code string

// The codes, in display order.
const (
	LedgerUnwritable    Code = "ledger_unwritable"
	PutBack             Code = "ledger_put_back"
	WayFailed           Code = "alert_way_failed"
	SourceDisconnected  Code = "source_disconnected"
	SourceParked        Code = "source_parked"
	ConsentBroken       Code = "consent_broken"
	ConsentLapsing      Code = "consent_lapsing"
	WebhooksSilent      Code = "webhooks_silent"
	SubscriptionChanged Code = "subscription_changed"
	RotationUnfinished  Code = "webhook_rotation_unfinished"
	UpdatesHeld         Code = "updates_held"
	EventsUnclear       Code = "webhooks_not_understood"
	EventTypeUnknown    Code = "event_type_unknown"
	TwoWay              Code = "two_way"
	RunFailed           Code = "run_failed"
	RunIncomplete       Code = "run_incomplete"
	JobFailed           Code = "job_failed"
	JobOverdue          Code = "job_overdue"
	ConfigWrong         Code = "config_wrong"
	RestartNeeded       Code = "restart_needed"
	MappingWrong        Code = "mapping_wrong"
	ProfileEdited       Code = "profile_edited"
	Standstill          Code = "standstill"
	PlanWaits           Code = "plan_waits"
	PlanRejected        Code = "plan_rejected"
	CreatesWait         Code = "creates_wait"
	WritebackWaits      Code = "writeback_waits"
	WritebackStuck      Code = "writeback_stuck"
	MandateCancelled    Code = "mandate_cancelled"
	MandateUnknown      Code = "mandate_status_unknown"
	LettersHeld         Code = "letters_held"
	LettersWait         Code = "letters_wait"
	LettersUnclear      Code = "letters_unclear"
	RequestsUnanswered  Code = "requests_unanswered"
	Attention           Code = "attention"
)

// Codes are all codes, in display order.
var Codes = []Code{
	LedgerUnwritable, PutBack, WayFailed, SourceDisconnected, SourceParked, ConsentBroken, ConsentLapsing, WebhooksSilent,
	SubscriptionChanged, RotationUnfinished, EventsUnclear, EventTypeUnknown,
	UpdatesHeld, TwoWay, RunFailed, RunIncomplete, JobFailed, JobOverdue, ConfigWrong, RestartNeeded, MappingWrong,
	ProfileEdited, Standstill, PlanWaits, CreatesWait, PlanRejected, WritebackWaits, WritebackStuck, MandateCancelled, MandateUnknown,
	LettersHeld, LettersWait, LettersUnclear, RequestsUnanswered, Attention,
}

// titles are the codes' names at the head of a message.
var titles = map[Code]string{
	LedgerUnwritable:    "The ledger cannot be written to",
	PutBack:             "An older ledger was restored",
	WayFailed:           "Alarms do not arrive",
	SourceDisconnected:  "An accounting system refuses access",
	SourceParked:        "A request limit is used up",
	ConsentBroken:       "A consent must be renewed",
	ConsentLapsing:      "A consent expires soon",
	WebhooksSilent:      "No deliveries arrive",
	SubscriptionChanged: "The webhook subscription changed",
	RotationUnfinished:  "A new webhook secret is incomplete",
	UpdatesHeld:         "Updates are on hold",
	EventsUnclear:       "Deliveries are in quarantine",
	EventTypeUnknown:    "Deliveries have an unknown type",
	TwoWay:              "A connection only links customers",
	RunFailed:           "A run failed",
	RunIncomplete:       "A run did not finish",
	JobFailed:           "A job failed",
	JobOverdue:          "A job is overdue",
	ConfigWrong:         "The configuration has a mistake",
	RestartNeeded:       "A restart is needed",
	MappingWrong:        "A mapping file has a mistake",
	ProfileEdited:       "A source's profile was edited",
	Standstill:          "A connection is at a standstill",
	PlanWaits:           "A plan waits for approval",
	PlanRejected:        "A plan was rejected",
	CreatesWait:         "New customers are on hold",
	WritebackWaits:      "Write-backs wait for approval",
	WritebackStuck:      "Write-backs need attention",
	MandateCancelled:    "A mandate was cancelled",
	MandateUnknown:      "A mandate has an unknown status",
	LettersHeld:         "Letters are on hold",
	LettersWait:         "Letters wait for approval",
	LettersUnclear:      "Letters may not have arrived",
	RequestsUnanswered:  "Requests without an answer",
	Attention:           "Records need attention",
}

// Title returns the code's name at the head of a message.
func (c Code) Title() string { return titles[c] }

// toldApart are the reasons with separate codes.
var toldApart = []connector.Reason{connector.ReasonMandateCancelled, connector.ReasonStatusUnknown,
	connector.ReasonSubscriptionChanged, connector.ReasonEventNotUnderstood}
