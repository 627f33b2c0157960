package connector

import (
	"cmp"
	"fmt"
)

// WhyUnasked is why a payer without a mandate is not asked for one.
type WhyUnasked string

// Why payers are not asked.
const (
	UnaskedNoEmail WhyUnasked = "no_email" // no contact has an e-mail address
	UnaskedRule    WhyUnasked = "rule"     // mandate.request of the mapping is false
	UnaskedPerson  WhyUnasked = "person"   // a person decided not to ask
)

// AskDecision is a person's decision whether a payer is asked for a mandate; it comes before the mapping's rule.
type AskDecision string

// The decisions.
const (
	AskByRule AskDecision = ""           // the mapping decides
	Ask       AskDecision = "ask"        // ask, regardless of the mapping
	DoNotAsk  AskDecision = "do_not_ask" // do not ask, regardless of the mapping
)

// AskingRule names the mapping rule against asking a payer. file is the mapping's path. line is 0 for a file without
// mandate.request.
func AskingRule(file string, line int) string {
	file = cmp.Or(file, "the mapping")
	if line == 0 {
		return file + " has no rule mandate.request, so payersync requests no mandates"
	}
	return fmt.Sprintf("line %d of %s", line, file)
}
