package readiness

import (
	"payersync/connector"
	"payersync/state"
)

// Planned is the cure of a record with a planned change.
const Planned = "Start a run. If the plan is above the limits, approve it."

// Ends names the steps that end the state of a record. A report holds 100,000 of them, so it is a number.
type Ends uint8

// The kinds of steps.
const (
	endsByItself Ends = iota // or the acts of its finding end it
	endsByAsking
	endsByHand
	endsByPlan
	endsByRead
	endsByRequest
	endsByRule
	endsByRun
	endsByTakingUp
)

// stepsOf are the steps by their kind. Acts are on the record itself.
var stepsOf = map[Ends][]connector.Step{
	endsByAsking:   {{Act: connector.ActAsk}},
	endsByHand:     {{Do: connector.DoPlanLetters}, {Do: connector.DoHandOver}},
	endsByPlan:     {{Do: connector.DoSync}, {Do: connector.DoListPlans}},
	endsByRead:     {{Do: connector.DoServe}, {Do: connector.DoSweep}},
	endsByRequest:  {{Act: connector.ActRequest}},
	endsByRule:     {{Act: connector.ActAskByRule}},
	endsByRun:      {{Do: connector.DoSync}},
	endsByTakingUp: {{Act: connector.ActTakeUp}},
}

// Steps returns the steps of Cure, for the record of.
func (s Assessment) Steps(of state.RecordID) (steps []connector.Step) {
	for _, step := range stepsOf[s.Ends] {
		if step.Act != "" {
			step.Of, step.Connection = of.SourceID, of.Connection
		}
		steps = append(steps, step)
	}
	return steps
}
