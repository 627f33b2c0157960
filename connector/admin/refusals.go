package admin

import (
	"payersync/connector"
	"payersync/state"
)

// RefusalsShown is the default number of days of refusals to show.
const RefusalsShown = 7

// Refused is the reason for refused requests to the webhook endpoint, in words, with the next step.
type Refused struct {
	state.Refusals
	Why, Next string
	Steps     []connector.Step // for that
}

// refusedWords are said of the reasons; each is an outcome of the endpoint.
var refusedWords = map[string][2]string{
	"wrong_path": {"Sent to another path",
		"A few are strangers who look around. If deliveries stay away, the proxy changes the path: see whether it hands on that of billing.webhook.public_url."},
	"wrong_method": {"Not a POST, as deliveries are",
		"Somebody opened the address in a browser, or a monitor asks for it: let that ask for /healthz."},
	"too_many": {"Too many refused ones from one sender",
		"Settle the other reasons first. If all come through a proxy, name it in server.trusted_proxies."},
	"wrong_encoding": {"The body was compressed", "Have the proxy hand bodies on as they are."},
	"wrong_type": {"The body was not called JSON",
		"Strangers, or a proxy that changes Content-Type: have it hand that on as it is."},
	"too_large": {"The body was too large",
		"Deliveries have a few hundred bytes. If the service's are larger, raise server.limits.max_body."},
	"broken_off": {"The body did not arrive whole", "See the connection and the time limits of the proxy."},
	"signature_failed": {"The signature did not fit, or was too old",
		"Strangers, or the secret was changed in the service: send a test. If it is refused too, see the clock of this machine, or subscribe again for a new secret."},
	"delivery_key_failed": {"The delivery key was missing, or another",
		"Strangers, or the key was changed in the service: subscribe again."},
	"secret_unknown": {"Signed with a secret that is not known yet",
		"The service sends them once more. A change of the secret came to no end: subscribe again."},
	"busy": {"Too many large bodies at once",
		"The service sends them once more. If it goes on, somebody floods the address: limit that at the proxy."},
	"not_stored": {"The ledger did not take them",
		"The service sends them once more. See that the disk has room, and look at the status."},
	"panicked": {"A mistake in payersync",
		"The service sends them once more. See the log of the service, and tell whoever maintains it."},
}

// refusedSteps are the steps of the reasons that have any.
var refusedSteps = map[string][]connector.Step{
	"signature_failed":    {{Do: connector.DoSubscribe}},
	"delivery_key_failed": {{Do: connector.DoSubscribe}},
	"secret_unknown":      {{Do: connector.DoSubscribe}},
	"not_stored":          {{Do: connector.DoStatus}},
}

// RefusedFor says why requests were refused, and what to do.
func RefusedFor(r state.Refusals) Refused {
	words, known := refusedWords[r.Reason]
	if !known {
		words = [2]string{r.Reason, "See the log of the service."}
	}
	return Refused{r, words[0], words[1], refusedSteps[r.Reason]}
}
