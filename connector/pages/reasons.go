package pages

import "payersync/connector"

// decided are the best pages to settle a reason.
var decided = map[connector.Reason]leads{
	connector.ReasonLikeness: {"/matches", "Compare"}, connector.ReasonLinkLost: {"/mandates/links", "Fetch signing links"},
	connector.ReasonEventNotUnderstood: {"/webhooks", "See webhooks"}, connector.ReasonSubscriptionChanged: {"/webhooks", "See webhooks"},
}
