package billing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"payersync/connector"
)

// EventPaths are the places of a delivery's facts. For each fact, the first path to text or a number counts. A path is
// a list of nested member names with dots between them. A type may also come from a header, as header:NAME. Ids may
// not, because the signature does not cover headers.
type EventPaths struct {
	Type       []string `yaml:"type"`
	CustomerID []string `yaml:"customer_id"`
	MandateID  []string `yaml:"mandate_id"`
	EventID    []string `yaml:"event_id"`
	OccurredAt []string `yaml:"occurred_at"`
	BillerID   []string `yaml:"biller_id"`
	Events     []string `yaml:"events"` // the list in a delivery of several events
	Biller     string   `yaml:"-"`      // whose events are ours, where the app acts for several; "" for everybody's
	Settled    []string `yaml:"-"`      // types marked as known by a person
}

// DefaultEventPaths returns paths for the flat and nested spellings common among such services; the interface shows
// none. A bare id is not included: it may be the customer's or the event's. A customer id taken for an event id would
// make all later events of the customer look like repeats.
func DefaultEventPaths() EventPaths {
	return EventPaths{
		Type: []string{"type", "eventType", "event_type", "event.type", "event", "data.type",
			"header:adfin-webhook-type"},
		CustomerID: anywhere("customerId", "customer_id", "customer.id", "directDebitMandate.customerId",
			"mandate.customerId", "mandate.customer.id"),
		MandateID: anywhere("directDebitMandateId", "mandateId", "mandate_id", "directDebitMandate.id", "mandate.id"),
		EventID:   []string{"eventId", "event_id", "event.id", "data.eventId"},
		OccurredAt: anywhere("occurredAt", "occurred_at", "eventTime", "createdAt", "created_at", "creationTime", "timestamp",
			"event.time"),
		BillerID: anywhere("billerId", "biller_id", "biller.id"),
		Events:   []string{"events", "data.events", "payload.events", "data", "items", "notifications"},
	}
}

// Validate reports every path with an id or a time from a header, one per line, by its configuration key.
func (p EventPaths) Validate() error {
	var problems []error
	for _, list := range []struct {
		key   string
		paths []string
	}{{"customer_id", p.CustomerID}, {"mandate_id", p.MandateID}, {"event_id", p.EventID}, {"occurred_at", p.OccurredAt},
		{"biller_id", p.BillerID}, {"events", p.Events}} {
		for i, path := range list.paths {
			if strings.HasPrefix(path, headerPath) {
				problems = append(problems,
					fmt.Errorf("event_paths.%s[%d]: a header is not signed, so only the type is read from one; name a member of the body", list.key, i))
			}
		}
	}
	return errors.Join(problems...)
}

const headerPath = "header:"

// anywhere returns the paths at the top and inside the usual wrappers.
func anywhere(paths ...string) []string {
	out := append([]string(nil), paths...)
	for _, wrapper := range []string{"data", "payload", "event", "data.object"} {
		out = append(out, connector.Map(paths, func(path string) string { return wrapper + "." + path })...)
	}
	return out
}

// TypeHeader returns the first present header for the type, as "name: value"; "" for none.
func (p EventPaths) TypeHeader(h http.Header) string {
	for _, path := range p.Type {
		if name, ok := strings.CutPrefix(path, headerPath); ok && h.Get(name) != "" {
			return name + typeHeaderGap + h.Get(name)
		}
	}
	return ""
}

// TypeHeaders returns the headers for reading a kept delivery: the header returned by TypeHeader. If none was kept, all
// headers for the type have the value eventType.
func (p EventPaths) TypeHeaders(kept, eventType string) http.Header {
	h := http.Header{}
	if name, value, ok := strings.Cut(kept, typeHeaderGap); ok {
		h.Set(name, value)
		return h
	}
	for _, path := range p.Type {
		if name, ok := strings.CutPrefix(path, headerPath); ok && eventType != "" {
			h.Set(name, eventType)
		}
	}
	return h
}

const typeHeaderGap = ": "

// Event is what a delivery says. It is a hint: what is true is read from the
// customer (connector/RULES.md#tickets).
type Event struct {
	Type       string // as the service spells it
	CustomerID string // "" when the event names none
	MandateID  string // may be another id than the interface's (README.md#traps-that-public-documentation-shows)
	EventID    string // "" when the event has none
	OccurredAt string // as it came
	BillerID   string // of whose customers it tells; "" when it names nobody
}

// MaxEventBytes bounds a delivery's body (fault F37).
const MaxEventBytes = 256 << 10

var (
	errEventTooLarge = fmt.Errorf("it has more than %d bytes", MaxEventBytes)
	errNoEvent       = errors.New("it names no type, no customer and no mandate")
)

// OfAnother reports whether an event is about another biller's customers: one subscription serves all billers
// of an app.
func (p EventPaths) OfAnother(e Event) bool {
	return p.Biller != "" && e.BillerID != "" && e.BillerID != p.Biller
}

// ParseEvent reads a verified delivery. It returns an error if the body is not a JSON object within the bounds of fault
// F90, or names no type, customer or mandate. Such a delivery is quarantined (fault F38). An unknown type is not an
// error.
func ParseEvent(paths EventPaths, h http.Header, body []byte) (Event, error) {
	o, err := parseEventBody(body)
	if err != nil {
		return Event{}, fmt.Errorf("read the delivery: %w", err)
	}
	found := &finder{of: o}
	first := func(paths []string, h http.Header) string {
		return connector.First(paths, func(path string) string { return lookUp(found, h, path) })
	}
	out := Event{first(paths.Type, h), first(paths.CustomerID, nil), first(paths.MandateID, nil),
		first(paths.EventID, nil), first(paths.OccurredAt, nil), first(paths.BillerID, nil)}
	if out.Type == "" && out.CustomerID == "" && out.MandateID == "" {
		return Event{}, fmt.Errorf("read the delivery: %w", errNoEvent)
	}
	return out, nil
}

// ReadEvent is one event of a delivery: its bytes with their meaning, or the reason why they have none.
type ReadEvent struct {
	Body  []byte
	Event Event
	Err   error
}

// ReadEvents reads a verified delivery: its events as SplitEvents returns them, or the delivery as a single event. It
// parses a single event once.
func ReadEvents(paths EventPaths, h http.Header, body []byte) []ReadEvent {
	event, err := ParseEvent(paths, h, body)
	if err == nil && (event.CustomerID != "" || event.MandateID != "") {
		return []ReadEvent{{body, event, nil}}
	}
	events := SplitEvents(paths, body)
	if events == nil {
		return []ReadEvent{{body, event, err}}
	}
	return connector.Map(events, func(part json.RawMessage) ReadEvent {
		event, err := ParseEvent(paths, h, part)
		return ReadEvent{part, event, err}
	})
}

// maxEventsOfOne is how many events one delivery may carry. One with more is quarantined whole.
const maxEventsOfOne = 500

// SplitEvents returns the events of a verified delivery with several events. They are the elements of a list at the top
// level, or of the first list of objects in paths.Events. It returns nil for a single event: an object with its own
// customer or mandate.
func SplitEvents(paths EventPaths, body []byte) []json.RawMessage {
	if len(body) > MaxEventBytes || checkJSON(body) != nil {
		return nil
	}
	if list := listOfObjects(body); list != nil {
		return list
	}
	o, err := parseObject(body)
	if err != nil {
		return nil
	}
	if e, err := ParseEvent(paths, nil, body); err == nil && (e.CustomerID != "" || e.MandateID != "") {
		return nil
	}
	for _, path := range paths.Events {
		if list := listOfObjects(valueAt(o, path)); list != nil {
			return list
		}
	}
	return nil
}

// listOfObjects returns the elements of a list of objects. It returns nil for an empty list, a list over the limit, and
// a list with other elements.
func listOfObjects(value json.RawMessage) []json.RawMessage {
	if value = bytes.TrimSpace(value); len(value) == 0 || value[0] != '[' {
		return nil
	}
	list, err := parseArray(value)
	if err != nil || len(list) > maxEventsOfOne {
		return nil
	}
	for _, element := range list {
		if _, err := parseObject(element); err != nil || isNull(element) {
			return nil
		}
	}
	return list
}

// valueAt returns the value at a path of names with dots between them; nil for none.
func valueAt(o object, path string) json.RawMessage {
	key, rest, nested := strings.Cut(path, ".")
	if !nested || o.has(path) {
		return o.get(path)
	}
	inner, err := parseObject(o.get(key))
	if err != nil {
		return nil
	}
	return valueAt(inner, rest)
}

func parseEventBody(body []byte) (object, error) {
	if len(body) > MaxEventBytes {
		return nil, errEventTooLarge
	}
	return decodeObject(body)
}

func lookUp(f *finder, h http.Header, path string) string {
	if name, ok := strings.CutPrefix(path, headerPath); ok {
		return h.Get(name)
	}
	return f.at(path)
}

// EventMember is a member of a delivery, without its value.
type EventMember struct {
	Path string `json:"path"` // as EventPaths name it
	Kind string `json:"kind"` // the kind of its value, in words
}

const maxEventMembers = 200

// EventMembers returns the structure of a delivery without its values, so a person can find its ids without personal
// data; at most the first 200 members.
func EventMembers(body []byte) ([]EventMember, error) {
	o, err := parseEventBody(body)
	if err != nil {
		return nil, fmt.Errorf("read the delivery: %w", err)
	}
	out := eventMembers(nil, "", o)
	return out[:min(len(out), maxEventMembers)], nil
}

func eventMembers(out []EventMember, at string, o object) []EventMember {
	for _, m := range o {
		if inner, err := parseObject(m.value); err == nil {
			out = eventMembers(out, at+m.key+".", inner)
			continue
		}
		out = append(out, EventMember{at + m.key, kindOf(m.value)})
	}
	return out
}

func kindOf(value json.RawMessage) string {
	switch text := scalar(value); {
	case value[0] == '"':
		return fmt.Sprintf("text of %d characters", utf8.RuneCountInString(text))
	case text != "":
		return "number"
	case value[0] == '[':
		return "list"
	}
	return string(value) // true, false or null
}
