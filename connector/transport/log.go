package transport

import (
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"payersync/connector"
)

// log writes an attempt at debug level: the request, the answer and the time it took. It keeps only the part
// of an address before the query, and only the reason of a failure. The caller reports the outcome.
func (c *call) log(req *http.Request, resp *http.Response, failed *Error, took time.Duration) {
	entry := c.client.options.Logger
	if entry == nil || !entry.Logger.IsLevelEnabled(logrus.DebugLevel) {
		return
	}
	fields := logrus.Fields{
		"method": req.Method, "url": req.URL.Scheme + "://" + req.URL.Host + req.URL.EscapedPath(),
		"took": took.Round(time.Millisecond).String(),
	}
	if run := connector.RunOf(req.Context()); run != 0 {
		fields["run"] = run
	}
	if c.attempts > 1 {
		fields["attempt"] = c.attempts
	}
	if failed != nil {
		fields["failed"] = string(failed.Reason)
	} else {
		fields["status"] = resp.StatusCode
	}
	entry.WithFields(fields).Debug("request")
}
