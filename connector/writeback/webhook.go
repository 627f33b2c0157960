package writeback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/connector/webhook"
)

// Webhook sends to another system, at least once, with the same id on every repeat, and nothing is known of
// what it makes of it.
type Webhook struct{ webhook.Receiver }

// HookBody is the body of a request; its keys are public.
type HookBody struct {
	ID         string                `json:"id"`
	Type       string                `json:"type"`
	At         time.Time             `json:"at"`
	Connection string                `json:"connection"`
	SourceID   string                `json:"source_id"`
	Key        string                `json:"key"`
	BillingID  string                `json:"billing_id"`
	MandateID  string                `json:"mandate_id"`
	From       connector.FieldStatus `json:"from"`
	To         connector.FieldStatus `json:"to"`
}

// Setup names the receiver.
func (h *Webhook) Setup() string { return "webhook " + h.URL }

// Says are all standings.
func (h *Webhook) Says() []connector.FieldStatus { return connector.FieldStatuses }

// Value is the standing itself.
func (h *Webhook) Value(to connector.FieldStatus, _ string) string { return string(to) }

// Freeze returns the body.
func (h *Webhook) Freeze(w connector.Write) ([]byte, error) {
	return json.Marshal(HookBody{w.ID, "mandate.status", h.Now().UTC(), w.Connection, w.SourceID, w.Key, w.BillingID,
		w.MandateID, w.From, w.To})
}

// Send posts the body. A refusal stands for all bodies: the receiver's address or secret is wrong.
func (h *Webhook) Send(ctx context.Context, id string, body []byte) error {
	_, err := h.Receiver.Send(ctx, id, body)
	var refused *webhook.RefusedError
	if errors.As(err, &refused) {
		return fmt.Errorf("%w; look at writeback.webhook, its url and its secret", err)
	}
	return err
}
