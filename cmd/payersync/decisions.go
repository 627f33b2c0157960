package main

import (
	"strings"

	"github.com/sirupsen/logrus"

	"payersync/state"
)

// decisionsTo returns what logs why each record was planned as it was; nil where nobody
// wants to know. Fields are named, and no value is.
func decisionsTo(log *logrus.Logger) func(state.Decision) {
	if !log.IsLevelEnabled(logrus.DebugLevel) {
		return nil
	}
	return func(d state.Decision) {
		fields := logrus.Fields{"record": d.SourceID, "verdict": string(d.Verdict), "action": "none"}
		if c := d.Customer; c != nil {
			paths := make([]string, len(c.Diff))
			for i, f := range c.Diff {
				paths[i] = f.Path
			}
			fields["action"], fields["fields"] = string(c.Action), strings.Join(paths, " ")
			if c.BillingID != "" {
				fields["customer"] = c.BillingID
			}
		}
		if d.Link {
			fields["link"] = "asked for"
		}
		for name, reason := range map[string]string{"reason": string(d.Reason), "also": string(d.Also), "mandate": string(d.OfMandate), "why": d.Reason.Sentence()} {
			if reason != "" {
				fields[name] = reason
			}
		}
		log.WithFields(fields).Debug("decided")
	}
}
