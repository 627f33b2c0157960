package alarm

import (
	"encoding/json"
	"time"

	"payersync/connector/webhook"
)

// Webhook sends alarms to another system by a signed POST.
type Webhook struct{ webhook.Receiver }

// Freeze returns the body of the request.
func (h *Webhook) Freeze(m Message) ([]byte, error) {
	for _, list := range []*[]Notice{&m.Begun, &m.Over} {
		if *list == nil {
			*list = []Notice{}
		}
	}
	return json.Marshal(struct {
		Type string    `json:"type"`
		Time time.Time `json:"timestamp"`
		Data Message   `json:"data"`
	}{"payersync." + string(m.Kind), m.At, m})
}
