package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"payersync/connector"
)

// event is something that the subscriber may hear of.
type event struct {
	category string // the word of a subscription's events: customer, dd-mandate
	verb     string // CREATED, INITIATED, UPDATED, DELETED
	customer string
	mandate  *Mandate // nil for customer events
	biller   string   // "" for the one behind the tokens
}

// Delivery is one webhook on its way. Its body is fixed; it is signed anew each
// time it is sent.
type Delivery struct {
	ID         string // the same for every attempt and every duplicate
	Category   string // customer, dd-mandate or one of Switches.ExtraEvents
	CustomerID string
	MandateID  string
	Body       []byte
	Due        time.Time // not sent before
	Attempts   int       // made so far
	LastStatus int       // of the last attempt; 0 when it had no answer
}

// DeliveryFaults is the chance that a new delivery is lost, doubled or delayed, drawn from the seed.
// Deliveries with different delays overtake each other.
type DeliveryFaults struct {
	Drop, Duplicate, Hold float64       // from 0 to 1
	HoldUpTo              time.Duration // in Now-time
}

// emit queues the deliveries of e.
func (s *Sandbox) emit(e event) {
	sub := s.hooks.subscription
	if sub == nil || !sub.Enabled {
		return
	}
	if slices.Contains(sub.Events, e.category) {
		s.enqueue(e)
	}
	for _, extra := range s.opt.Switches.ExtraEvents {
		e.category = extra
		s.enqueue(e)
	}
}

func (s *Sandbox) enqueue(e event) {
	d := Delivery{ID: newUUID(s.eventIDs), Category: e.category, CustomerID: e.customer, Due: s.opt.Now()}
	if e.mandate != nil {
		d.MandateID = e.mandate.ID
	}
	d.Body = s.payload(d.ID, e)
	faults, chance := s.opt.DeliveryFaults, rand.New(s.deliveryChance)
	if chance.Float64() < faults.Drop {
		return
	}
	copies := 1
	if chance.Float64() < faults.Duplicate {
		copies = 2
	}
	for range copies {
		held := d
		if chance.Float64() < faults.Hold {
			held.Due = d.Due.Add(time.Duration(chance.Float64() * float64(faults.HoldUpTo)))
		}
		s.queue = append(s.queue, &held)
	}
	select {
	case s.wake <- struct{}{}:
	default: // Run has been told already
	}
}

// payload returns the body of a delivery. The interface does not document its shape. thin is the public one:
// its directDebitMandateId is not the id of the mandate endpoints.
func (s *Sandbox) payload(id string, e event) []byte {
	now := s.opt.Switches.time(s.opt.Now())
	var body any
	switch s.opt.Switches.Payload {
	case "flat":
		body = flatPayload{id, e.category, e.customer, e.mandateID(), e.status(), now}
	case "nested":
		body = map[string]any{"id": id, "type": e.category, "createdAt": now, "data": e.nested()}
	default:
		body = s.thinPayload(id, e)
	}
	out, _ := json.Marshal(body) // strings only
	return out
}

type flatPayload struct {
	EventID    string                  `json:"eventId"`
	Type       string                  `json:"type"`
	CustomerID string                  `json:"customerId"`
	MandateID  string                  `json:"mandateId,omitempty"`
	Status     connector.MandateStatus `json:"status,omitempty"`
	OccurredAt string                  `json:"occurredAt"`
}

func (e event) nested() map[string]any {
	data := map[string]any{"customer": map[string]string{"id": e.customer}}
	if e.mandate != nil {
		data["mandate"] = map[string]string{"id": e.mandate.ID, "status": string(e.mandate.Status)}
	}
	return data
}

func (s *Sandbox) thinPayload(id string, e event) map[string]string {
	kind := strings.ToUpper(strings.ReplaceAll(e.category, "-", "_"))
	if e.category == "dd-mandate" {
		kind = "DIRECT_DEBIT_MANDATE"
	}
	body := map[string]string{
		"type": kind + "_" + e.verb, "eventId": id, "billerId": cmp.Or(e.biller, s.opt.Switches.Biller, defaultBiller),
		"userId": "sandbox-user", "customerId": e.customer,
	}
	if e.mandate != nil {
		body["directDebitMandateId"] = newUUID(s.eventIDs)
	}
	return body
}

func (e event) mandateID() string {
	if e.mandate == nil {
		return ""
	}
	return e.mandate.ID
}

func (e event) status() connector.MandateStatus {
	if e.mandate == nil {
		return ""
	}
	return e.mandate.Status
}

// Pending returns how many deliveries wait, due or not.
func (s *Sandbox) Pending() int {
	defer s.lock()()
	return len(s.queue)
}

// Deliver sends the due deliveries, one by one in the order of the queue, and returns how many the receiver
// accepted with a 2xx. The others wait for the next time of Options.Retries and are given up after the last.
// The error says why sending stopped: the context ended, or there is no client.
func (s *Sandbox) Deliver(ctx context.Context) (sent int, err error) {
	if s.opt.Deliver == nil {
		return 0, errors.New("deliver webhooks: Options.Deliver has no client")
	}
	for range s.due() {
		d := s.take()
		if d == nil {
			return sent, nil
		}
		status, err := s.send(ctx, d)
		if err != nil {
			s.putBack(d)
			return sent, fmt.Errorf("deliver a webhook: %w", err)
		}
		if status/100 == 2 {
			sent++
			continue
		}
		s.postpone(d, status)
	}
	return sent, nil
}

// due returns how many deliveries Deliver may send, so a receiver that causes new events does not keep it
// busy for ever.
func (s *Sandbox) due() int {
	defer s.lock()()
	n, now := 0, s.opt.Now()
	for _, d := range s.queue {
		if !d.Due.After(now) {
			n++
		}
	}
	return n
}

// take removes the first due delivery from the queue; nil when there is none.
func (s *Sandbox) take() *Delivery {
	defer s.lock()()
	now := s.opt.Now()
	i := slices.IndexFunc(s.queue, func(d *Delivery) bool { return !d.Due.After(now) })
	if i < 0 {
		return nil
	}
	d := s.queue[i]
	s.queue = slices.Delete(s.queue, i, i+1)
	return d
}

// putBack returns an unsent delivery to the head of the queue.
func (s *Sandbox) putBack(d *Delivery) {
	defer s.lock()()
	s.queue = slices.Insert(s.queue, 0, d)
}

func (s *Sandbox) postpone(d *Delivery, status int) {
	defer s.lock()()
	d.LastStatus = status
	d.Attempts++
	if d.Attempts > len(s.opt.Retries) {
		return
	}
	d.Due = s.opt.Now().Add(s.opt.Retries[d.Attempts-1])
	s.queue = append(s.queue, d)
}

// send makes one attempt. A silent receiver counts as status 0; the error is for impossible attempts.
func (s *Sandbox) send(ctx context.Context, d *Delivery) (status int, err error) {
	req, err := s.outgoing(ctx, d)
	if errors.Is(err, ErrNoSubscription) {
		return http.StatusNoContent, nil // deleted just now: it is lost with the others
	}
	if err != nil {
		return 0, err
	}
	resp, err := s.opt.Deliver.Do(req)
	if err != nil {
		return 0, ctx.Err()
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)) // so the connection can be reused
	return resp.StatusCode, nil
}

// outgoing builds and signs the request for the subscription as it is now.
func (s *Sandbox) outgoing(ctx context.Context, d *Delivery) (*http.Request, error) {
	defer s.lock()()
	if s.hooks.subscription == nil {
		return nil, ErrNoSubscription
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.hooks.subscription.URL, bytes.NewReader(d.Body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	setIfNamed(req.Header, s.opt.Switches.TypeHeader, d.Category)
	s.hooks.credentials.show(req)
	return req, s.sign(req.Header, d.ID, d.Body)
}

// Run delivers until ctx ends, waking for new events, retries and late
// requests; it is for real servers. It returns nil when ctx ended, else what
// kept Deliver from sending.
func (s *Sandbox) Run(ctx context.Context) error {
	for {
		if _, err := s.Deliver(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		timer := time.NewTimer(s.untilNext())
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// untilNext is how long Run may sleep: to the next thing due by Now, at most a minute, and at least a moment,
// so a stopped clock makes no busy loop.
func (s *Sandbox) untilNext() time.Duration {
	defer s.lock()()
	now, next := s.opt.Now(), time.Minute
	for _, d := range s.queue {
		next = min(next, d.Due.Sub(now))
	}
	for _, l := range s.late {
		if !l.due.IsZero() {
			next = min(next, l.due.Sub(now))
		}
	}
	return max(next, 10*time.Millisecond)
}

// Queue is the sandbox's queue of deliveries, for tests that make the network
// between service and receiver misbehave. Its indexes are those of List; one
// out of range panics, as on a slice.
type Queue struct{ s *Sandbox }

// Deliveries returns the queue.
func (s *Sandbox) Deliveries() Queue { return Queue{s} }

// List returns the waiting deliveries in the order they will be sent.
func (q Queue) List() []Delivery {
	defer q.s.lock()()
	out := make([]Delivery, len(q.s.queue))
	for i, d := range q.s.queue {
		out[i] = *d
		out[i].Body = bytes.Clone(d.Body)
	}
	return out
}

// Drop loses delivery i for good.
func (q Queue) Drop(i int) {
	defer q.s.lock()()
	q.s.queue = slices.Delete(q.s.queue, i, i+1)
}

// Duplicate puts a second copy of delivery i behind it.
func (q Queue) Duplicate(i int) {
	defer q.s.lock()()
	twin := *q.s.queue[i]
	q.s.queue = slices.Insert(q.s.queue, i+1, &twin)
}

// Swap exchanges deliveries i and j.
func (q Queue) Swap(i, j int) {
	defer q.s.lock()()
	q.s.queue[i], q.s.queue[j] = q.s.queue[j], q.s.queue[i]
}

// Hold keeps delivery i back until the clock shows until.
func (q Queue) Hold(i int, until time.Time) {
	defer q.s.lock()()
	q.s.queue[i].Due = until
}
