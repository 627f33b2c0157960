package pages

import (
	"payersync/connector"
	"payersync/state"
)

// chip is a status as people see it: a sign, a word and a colour, never the colour alone.
type chip struct{ Sign, Word, Kind string }

// The kinds of chips.
const (
	good    = "good"
	waits   = "waits"
	stopped = "stopped"
	bank    = "bank" // the bank decides
	none    = "none"
)

// mandate returns the chip of a mandate's status; "" is no mandate.
func mandate(status string) chip {
	switch s := connector.MandateStatus(status); s {
	case "":
		return chip{"–", "No mandate", none}
	case connector.MandateCreated:
		return chip{"✎", s.Label(), waits}
	case connector.MandatePending, connector.MandateMigrating:
		return chip{"◷", s.Label(), bank}
	case connector.MandateActive:
		return chip{"✓", s.Label(), good}
	case connector.MandateCancelled:
		return chip{"✕", s.Label(), stopped}
	default:
		return chip{"?", s.Label(), waits}
	}
}

// outcome returns the chip of a run.
func outcome(r state.RunRow) chip {
	switch connector.RunOutcome(r.Outcome) {
	case connector.RunRunning:
		return chip{"◷", "At work", bank}
	case connector.RunAwaitingApproval:
		return chip{"◷", "Waits for approval", waits}
	case connector.RunComplete:
		if r.Held+r.Failed > 0 {
			return chip{"✓", "Complete, not for all", waits}
		}
		return chip{"✓", "Complete", good}
	case connector.RunIncomplete:
		return chip{"✕", "Not to its end", stopped}
	default:
		return chip{"✕", "Failed", stopped}
	}
}
