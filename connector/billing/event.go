package billing

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// EventPaths say where in a delivery its facts are found: for each, the first
// path that leads to text or a number counts. A path names members, one inside
// the other, joined by dots; header:NAME names a header, which is no part of
// what is signed.
type EventPaths struct {
	Type       []string `yaml:"type"`
	CustomerID []string `yaml:"customer_id"`
	MandateID  []string `yaml:"mandate_id"`
	EventID    []string `yaml:"event_id"`
	OccurredAt []string `yaml:"occurred_at"`
}

// DefaultEventPaths returns paths for the flat and nested spellings that
// services of this kind use; interface.md section 6 shows none. A bare id is
// not among them: it may be the customer's as well as the event's, and one
// taken for the other would make all later events of a customer look like
// repeats.
func DefaultEventPaths() EventPaths {
	return EventPaths{
		Type:       []string{"type", "eventType", "event_type", "event.type", "event", "data.type", "header:adfin-webhook-type"},
		CustomerID: anywhere("customerId", "customer_id", "customer.id", "directDebitMandate.customerId", "mandate.customerId", "mandate.customer.id"),
		MandateID:  anywhere("directDebitMandateId", "mandateId", "mandate_id", "directDebitMandate.id", "mandate.id"),
		EventID:    []string{"eventId", "event_id", "event.id", "data.eventId"},
		OccurredAt: anywhere("occurredAt", "occurred_at", "eventTime", "createdAt", "created_at", "creationTime", "timestamp", "event.time"),
	}
}

// anywhere returns the paths at the top and inside the usual wrappers.
func anywhere(paths ...string) []string {
	out := append([]string(nil), paths...)
	for _, wrapper := range []string{"data", "payload", "event", "data.object"} {
		for _, path := range paths {
			out = append(out, wrapper+"."+path)
		}
	}
	return out
}

// Event is what a delivery says. It is a hint: what is true is read from the
// customer (architecture.md ruling 3).
type Event struct {
	Type       string // as the service spells it
	CustomerID string // "" when the event names none
	MandateID  string // may be another id than the interface's (billing.md section 6.2)
	EventID    string // "" when the event has none
	OccurredAt string // as it came
}

// MaxEventBytes bounds a delivery's body (fault F37).
const MaxEventBytes = 256 << 10

var (
	errEventTooLarge = fmt.Errorf("it has more than %d bytes", MaxEventBytes)
	errNoEvent       = errors.New("it names neither a type nor a customer")
)

// ParseEvent reads a verified delivery. It returns an error for what is no JSON
// object within the bounds of fault F90 or names neither a type nor a customer;
// such a delivery is quarantined (fault F38). An unknown type is no error.
func ParseEvent(paths EventPaths, h http.Header, body []byte) (Event, error) {
	o, err := parseEventBody(body)
	if err != nil {
		return Event{}, fmt.Errorf("read the delivery: %w", err)
	}
	first := func(paths []string) string {
		for _, path := range paths {
			if text := lookUp(o, h, path); text != "" {
				return text
			}
		}
		return ""
	}
	out := Event{first(paths.Type), first(paths.CustomerID), first(paths.MandateID), first(paths.EventID), first(paths.OccurredAt)}
	if out.Type == "" && out.CustomerID == "" {
		return Event{}, fmt.Errorf("read the delivery: %w", errNoEvent)
	}
	return out, nil
}

func parseEventBody(body []byte) (object, error) {
	if len(body) > MaxEventBytes {
		return nil, errEventTooLarge
	}
	return decodeObject(body)
}

func lookUp(o object, h http.Header, path string) string {
	if name, ok := strings.CutPrefix(path, "header:"); ok {
		return h.Get(name)
	}
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		inner, err := parseObject(o.get(key))
		if err != nil {
			return ""
		}
		o = inner
	}
	return scalar(o.get(keys[len(keys)-1]))
}
