package pages

import (
	"strings"

	"payersync/connector"
)

// decided are the best pages to settle a reason.
var decided = map[connector.Reason]leads{
	connector.ReasonLikeness: {"/matches", "Compare and decide"}, connector.ReasonLinkLost: {"/mandates/links", "Fetch the signing links"},
	connector.ReasonEventNotUnderstood: {"/webhooks", "Look at the webhooks"}, connector.ReasonSubscriptionChanged: {"/webhooks", "Look at the webhooks"},
}

// plainDetail returns the ledger's text about a payer without sentences about commands, because the page has buttons.
func plainDetail(detail string) string {
	var kept []string
	for _, sentence := range strings.SplitAfter(detail, ". ") {
		if !strings.Contains(sentence, "payersync payers ") && !strings.Contains(sentence, "payersync attention ") {
			kept = append(kept, strings.TrimSpace(sentence))
		}
	}
	if len(kept) == 0 {
		return detail
	}
	return strings.Join(kept, " ")
}
