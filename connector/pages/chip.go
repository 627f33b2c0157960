package pages

import (
	"unicode"
	"unicode/utf8"

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
		return chip{"✎", capital(s.Label()), waits}
	case connector.MandatePending, connector.MandateMigrating:
		return chip{"◷", capital(s.Label()), bank}
	case connector.MandateActive:
		return chip{"✓", capital(s.Label()), good}
	case connector.MandateCancelled:
		return chip{"✕", capital(s.Label()), stopped}
	default:
		return chip{"?", capital(s.Label()), waits}
	}
}

// outcome returns the chip of a run.
func outcome(r state.RunRow) chip {
	switch connector.RunOutcome(r.Outcome) {
	case connector.RunRunning:
		return chip{"◷", "Running", bank}
	case connector.RunAwaitingApproval:
		return chip{"◷", "Waits for approval", waits}
	case connector.RunComplete:
		if r.Held+r.Failed > 0 {
			return chip{"✓", "Finished, " + number(r.Held+r.Failed) + " need attention", waits}
		}
		return chip{"✓", "Complete", good}
	case connector.RunInterrupted:
		return chip{"✕", "Interrupted", stopped}
	case connector.RunIncomplete:
		return chip{"✕", "Not finished", stopped}
	default:
		return chip{"✕", "Failed", stopped}
	}
}

// capital returns a text with its first letter as a capital.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}
