package transport

import (
	"net/http"
	"time"

	"payersync/connector"
)

// CallAttempt is the outcome of one attempt to send a request, for metrics. It holds nothing of the request but
// its purpose.
type CallAttempt struct {
	Operation string // as connector.WithOperation named it; "" for none
	Status    int    // of the answer; 0 without a usable one
	Reason    Reason // why there is none; "" with one
	Took      time.Duration
}

// observe reports a finished attempt.
func (c *call) observe(resp *http.Response, failed *Error, took time.Duration) {
	tell := c.client.options.Observe
	if tell == nil {
		return
	}
	a := CallAttempt{Operation: connector.OperationOf(c.caller), Took: took}
	if failed != nil {
		a.Reason = failed.Reason
	} else {
		a.Status = resp.StatusCode
	}
	tell(a)
}
