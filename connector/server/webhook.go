package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/state"
)

const (
	maxBody    = 256 << 10
	maxName    = 200              // bytes of an id or a type; what is longer is no name
	storeWait  = 10 * time.Second // how long a delivery waits for its turn in a busy ledger
	retryAfter = "10"             // seconds until a sender may find the ledger better
	coarseTime = 10 * time.Minute // deliveries without id and time are the same if alike within it
)

// serveWebhook answers one request with a status and no body, and reports it.
func (s *Server) serveWebhook(w http.ResponseWriter, r *http.Request) {
	client := s.client(r)
	defer func() {
		thrown := recover()
		if thrown == nil {
			return
		}
		s.cfg.Report(Event{Outcome: Panicked, Client: client, Err: fmt.Errorf("the webhook endpoint panicked with a %T", thrown)})
		w.WriteHeader(statuses[Panicked])
	}()
	event := s.receive(w, r)
	event.Client = client
	w.WriteHeader(statuses[event.Outcome])
	s.cfg.Report(event)
}

// receive does everything to a request but answer it: the cheap refusals first,
// then the signature over the raw bytes, and only then a look at what they say.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) Event {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return Event{Outcome: WrongMethod}
	}
	if s.limited(w, r) {
		return Event{Outcome: TooMany}
	}
	if compressed(r.Header) {
		w.Header().Set("Accept-Encoding", "identity")
		return Event{Outcome: WrongEncoding}
	}
	if !saysJSON(r.Header) {
		return Event{Outcome: WrongType}
	}
	body, refusal := readBody(w, r)
	if refusal != "" {
		return Event{Outcome: refusal}
	}
	now := s.cfg.Now()
	signed, err := s.cfg.Verifier.Verify(r.Header, body, now)
	if err != nil {
		return Event{Outcome: SignatureFailed, Err: err}
	}
	d, coarse := s.delivery(r.Header, body, signed, now)
	return s.store(w, r, d, coarse)
}

// compressed reports whether the body is in any encoding but its own: what is
// verified and stored are the bytes as they came, and nothing is inflated for a
// stranger (fault F37).
func compressed(h http.Header) bool {
	for _, encoding := range h.Values("Content-Encoding") {
		if e := strings.TrimSpace(encoding); e != "" && !strings.EqualFold(e, "identity") {
			return true
		}
	}
	return false
}

func saysJSON(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"))
}

func readBody(w http.ResponseWriter, r *http.Request) (body []byte, refusal Outcome) {
	if r.ContentLength > maxBody {
		return nil, TooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, TooLarge
	case err != nil:
		return nil, BrokenOff
	}
	return body, ""
}

// delivery makes the inbox row of verified bytes. Bytes that say nothing which
// can be understood are kept too: refusing them would make the sender repeat them
// for ever or give the endpoint up (fault F38).
func (s *Server) delivery(h http.Header, body []byte, signed billing.Signed, now time.Time) (d state.Delivery, coarse bool) {
	event, err := billing.ParseEvent(s.cfg.Events, h, body)
	if err == nil && slices.ContainsFunc([]string{event.Type, event.CustomerID, event.EventID}, isNoName) {
		err = errNoName
	}
	var as connector.InboxState
	var why string
	if err != nil {
		event, as, why = billing.Event{}, connector.InboxQuarantined, fmt.Sprintf("It could not be understood: %v.", err)
	} else {
		as, why = classify(event)
	}
	key, coarse := identity(signed, event.EventID, body, now)
	return state.Delivery{Key: key, Type: event.Type, BillingID: event.CustomerID, Body: body, State: as, Detail: why}, coarse
}

var errNoName = errors.New("its type or one of its ids is too long or holds control characters")

// isNoName reports whether s cannot be an id or a type, or be shown as one.
func isNoName(s string) bool {
	return len(s) > maxName || strings.ContainsFunc(s, unicode.IsControl)
}

// classify says what a delivery is stored as, and why it is quarantined.
func classify(e billing.Event) (as connector.InboxState, why string) {
	switch {
	case e.CustomerID != "":
		return connector.InboxReceived, ""
	case notFollowed(e.Type):
		return connector.InboxIgnored, ""
	}
	return connector.InboxQuarantined, "It names no customer."
}

// notFollowed reports whether a type is of events that payersync does not follow:
// payments, invoices and the biller itself (billing.md section 6.2).
func notFollowed(eventType string) bool {
	name := strings.ToLower(eventType)
	if strings.Contains(name, "mandate") || strings.Contains(name, "customer") {
		return false
	}
	return strings.Contains(name, "payment") || strings.Contains(name, "invoice") || strings.Contains(name, "biller")
}

// identity returns the key by which a delivery is known again (fault F31): the id
// that was signed with it, else the id its body gives, else a hash of its bytes
// and its time. Without a signed time that time is ours, cut to ten minutes, and
// the key is coarse: two events that are spelt alike cannot be told from one that
// came twice.
func identity(signed billing.Signed, eventID string, body []byte, now time.Time) (key string, coarse bool) {
	if id := signed.DeliveryID; id != "" && !isNoName(id) {
		return "id:" + id, false
	}
	if eventID != "" {
		return "event:" + eventID, false
	}
	at, coarse := signed.SignedAt, signed.SignedAt.IsZero()
	if coarse {
		at = now.Truncate(coarseTime)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", at.UnixNano(), body)
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), coarse
}

// store commits the delivery and says what to answer. Only what is durable is
// acknowledged.
//
// A repeat under a coarse key may be news, so it is reflected once more: the
// worst that comes of it is one GET, where dropping it could leave a status wrong
// until the next sweep.
func (s *Server) store(w http.ResponseWriter, r *http.Request, d state.Delivery, coarse bool) Event {
	ctx, cancel := context.WithTimeout(r.Context(), storeWait)
	defer cancel()
	var fresh, again bool
	err := s.cfg.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		fresh, err = tx.Receive(d)
		if err == nil && !fresh && coarse && d.State == connector.InboxReceived {
			again, err = tx.ReplayDelivery(d.Key)
		}
		return err
	})
	if err != nil {
		w.Header().Set("Retry-After", retryAfter)
		return Event{Outcome: NotStored, Err: err}
	}
	if again || fresh && d.State == connector.InboxReceived {
		s.cfg.Nudge()
	}
	e := Event{Outcome: Accepted, Key: d.Key, Type: d.Type, State: d.State}
	if !fresh {
		e.Outcome = Repeated
	}
	return e
}
