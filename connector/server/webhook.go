package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/state"
)

const (
	maxBody    = 256 << 10 // unless Config says otherwise
	smallBody  = 32 << 10  // bytes allowed for every request; a delivery has a few hundred
	maxLarge   = 64        // bodies above that in memory at a time
	largeBytes = maxLarge * maxBody
	largeWait  = 2 * time.Second  // how long a large body waits to be one of them
	maxName    = 200              // the maximum bytes of an id or a type
	storeWait  = 10 * time.Second // how long a delivery waits for its turn in a busy ledger
	retryAfter = "10"             // seconds until a sender may find the ledger better
	keyBytes   = 16               // of a body's hash in a delivery's key
	// how long fitting keys are used without a new read: another process may have replaced them
	keysFor = time.Minute
)

// tooSlow is readBody's outcome for a body that did not arrive in time. It is reported as BrokenOff, and
// answered with 408 instead of 400.
const tooSlow RequestOutcome = "too_slow"

// serveWebhook answers one request with a status and no body, and reports it.
func (s *Server) serveWebhook(w http.ResponseWriter, r *http.Request) {
	client := s.client(r)
	defer func() {
		thrown := recover()
		if thrown == nil {
			return
		}
		s.cfg.Report(Event{Outcome: Panicked, Client: client,
			Err: fmt.Errorf("the webhook endpoint panicked with a %T", thrown)})
		w.WriteHeader(statuses[Panicked])
	}()
	event := s.receive(w, r)
	status := statuses[event.Outcome]
	if event.Outcome == tooSlow {
		status, event.Outcome = http.StatusRequestTimeout, BrokenOff
	}
	if refused(event.Outcome) && s.tooMany(w, r, client) {
		event, status = Event{Outcome: TooMany}, statuses[TooMany]
	}
	event.Client = client
	w.WriteHeader(status)
	s.cfg.Report(event)
}

// refused reports whether a request ended because of what it is, and not because
// of how we are.
func refused(o RequestOutcome) bool { return statuses[o]/100 == 4 }

// receive does everything to a request but answer it: the cheap refusals first,
// then the signature over the raw bytes, and only then a look at what they say.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) Event {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return Event{Outcome: WrongMethod}
	}
	if compressed(r.Header) {
		w.Header().Set("Accept-Encoding", "identity")
		return Event{Outcome: WrongEncoding}
	}
	if !connector.IsJSON(r.Header.Get("Content-Type")) {
		return Event{Outcome: WrongType}
	}
	if refusal, err := s.check(r.Context(), KeyFailed,
		func(k Keys) error { return k.Delivery.Check(r.Header) }); err != nil {
		return notHeld(w, refusal, err)
	}
	body, done, refusal := s.readBody(w, r)
	defer done()
	if refusal != "" {
		return Event{Outcome: refusal}
	}
	var signed billing.Signed
	now := s.cfg.Now()
	refusal, err := s.check(r.Context(), SignatureFailed, func(k Keys) (err error) {
		signed, err = k.Verifier.Verify(r.Header, body, now)
		return err
	})
	if err != nil {
		return notHeld(w, refusal, err)
	}
	keepConnection(r.Context())
	events := billing.ReadEvents(s.cfg.Events, r.Header, body)
	deliveries := make([]state.Delivery, len(events))
	for i, event := range events {
		d, eventID := understand(s.cfg.Events, r.Header, event)
		d.Key = identity(signed, eventID, event.Body)
		deliveries[i] = d
	}
	return s.store(w, r, deliveries)
}

// check checks a request against the keys. If they do not fit, it reads the keys anew and checks once more: a
// secret is stored before any other request to the service, so a new one is there by then. Only one failing
// request at a time reads the keys.
func (s *Server) check(ctx context.Context, refusal RequestOutcome, against func(Keys) error) (RequestOutcome, error) {
	keys, err := s.current(ctx)
	if err != nil {
		return NotStored, err
	}
	err = against(*keys)
	if s.cfg.Renew == nil || !errors.Is(err, billing.ErrSignatureWrong) && !errors.Is(err, billing.ErrDeliveryKey) {
		return refusal, err
	}
	s.renewing.Lock()
	keys, err = s.renew(ctx)
	s.renewing.Unlock()
	if err != nil {
		return NotStored, err
	}
	if err = against(*keys); errors.Is(err, billing.ErrSignatureWrong) && keys.Unknown {
		return SecretUnknown, err
	}
	return refusal, err
}

// current returns the latest keys, and reads them anew once they are too old: a withdrawn secret would still
// fit the old ones. One request reads for all others.
func (s *Server) current(ctx context.Context) (*Keys, error) {
	keys := s.keys.Load()
	if s.cfg.Renew == nil || s.cfg.Now().Before(keys.Until) {
		return keys, nil
	}
	s.renewing.Lock()
	defer s.renewing.Unlock()
	if now := s.keys.Load(); now != keys {
		return now, nil
	}
	return s.renew(ctx)
}

// renew reads the keys anew, while renewing is held. It goes on if the sender leaves: a cancelled read would
// look like an unreadable ledger.
func (s *Server) renew(ctx context.Context) (*Keys, error) {
	keys, err := s.cfg.Renew(context.WithoutCancel(ctx))
	if err != nil {
		return nil, fmt.Errorf("read the keys that check deliveries: %w", err)
	}
	return s.hold(keys), nil
}

// hold keeps the keys just read, for keysFor at most.
func (s *Server) hold(keys Keys) *Keys {
	if latest := s.cfg.Now().Add(keysFor); keys.Until.IsZero() || keys.Until.After(latest) {
		keys.Until = latest
	}
	s.keys.Store(&keys)
	return &keys
}

// notHeld answers a request whose signature fits no key.
func notHeld(w http.ResponseWriter, refusal RequestOutcome, err error) Event {
	if statuses[refusal] == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	return Event{Outcome: refusal, Err: err}
}

// compressed reports whether the body is compressed. The bytes are verified and stored as they came, and
// never inflated for a stranger (fault F37).
func compressed(h http.Header) bool {
	for _, encoding := range h.Values("Content-Encoding") {
		if e := strings.TrimSpace(encoding); e != "" && !strings.EqualFold(e, "identity") {
			return true
		}
	}
	return false
}

// readBody reads a body whole. The small ones, as deliveries are, wait for nothing;
// so many large ones at a time are held in memory, until done is called.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (body []byte, done func(), refusal RequestOutcome) {
	done = func() {}
	if r.ContentLength > int64(s.cfg.MaxBody) {
		return nil, done, TooLarge
	}
	var read bytes.Buffer
	read.Grow(int(min(max(r.ContentLength, 0), smallBody)) + bytes.MinRead)
	in := http.MaxBytesReader(w, r.Body, int64(s.cfg.MaxBody))
	_, err := io.CopyN(&read, in, smallBody)
	if err == nil {
		if !s.beginLarge(r.Context()) {
			w.Header().Set("Retry-After", retryAfter)
			return nil, done, Busy
		}
		done = func() { <-s.large }
		read.Grow(int(max(r.ContentLength-smallBody, 0)) + bytes.MinRead)
		_, err = read.ReadFrom(in)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return read.Bytes(), done, ""
	}
	switch connector.BodyStatus(err) {
	case http.StatusRequestEntityTooLarge:
		return nil, done, TooLarge
	case http.StatusRequestTimeout:
		return nil, done, tooSlow
	}
	return nil, done, BrokenOff
}

// beginLarge waits until there is room for one more large body.
func (s *Server) beginLarge(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, largeWait)
	defer cancel()
	select {
	case s.large <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// KeyOf returns the key of verified bytes in the inbox.
func KeyOf(paths billing.EventPaths, h http.Header, signed billing.Signed, body []byte) string {
	_, eventID := Understand(paths, h, body)
	return identity(signed, eventID, body)
}

// Understand parses verified bytes into a delivery without its key, and the event's id. Unreadable bytes are
// quarantined: after a refusal the sender would repeat them for ever, or give up the endpoint (fault F38).
func Understand(paths billing.EventPaths, h http.Header, body []byte) (d state.Delivery, eventID string) {
	event, err := billing.ParseEvent(paths, h, body)
	return understand(paths, h, billing.ReadEvent{Body: body, Event: event, Err: err})
}

// understand is Understand for an event that was read already.
func understand(paths billing.EventPaths, h http.Header, read billing.ReadEvent) (d state.Delivery, eventID string) {
	event, err := read.Event, read.Err
	if err == nil && slices.ContainsFunc([]string{event.Type, event.CustomerID, event.MandateID, event.EventID},
		isNoName) {
		err = errNoName
	}
	d.Body = read.Body
	if header := paths.TypeHeader(h); !isNoName(header) {
		d.TypeHeader = header
	}
	if err != nil {
		d.State, d.Detail = connector.InboxQuarantined, fmt.Sprintf("It could not be understood: %v.", err)
		return d, ""
	}
	d.Type, d.BillingID = event.Type, event.CustomerID
	switch {
	case paths.OfAnother(event):
		d.State, d.BillingID, d.Detail = connector.InboxIgnored, "",
			"It tells of another biller of the same app (billing.webhook.biller_id)."
	case event.CustomerID != "":
		d.State = connector.InboxReceived
	case billing.EventAbout(event.Type) == billing.AboutLeft:
		d.State = connector.InboxIgnored
	case event.MandateID != "":
		d.State, d.MandateID = connector.InboxReceived, event.MandateID
	case slices.Contains(paths.Settled, event.Type):
		d.State = connector.InboxIgnored
	default:
		d.State, d.Detail = connector.InboxQuarantined, "It names neither a customer nor a mandate."
	}
	return d, event.EventID
}

// Reread parses a kept delivery with the present paths. Of its headers only the one with its type is kept. If
// there was none and the body names no type, the type from the first reading stays.
func Reread(paths billing.EventPaths, typeHeader, eventType string, body []byte) state.Delivery {
	d, _ := Understand(paths, paths.TypeHeaders(typeHeader, ""), body)
	if d.Type == "" && typeHeader == "" && eventType != "" {
		d, _ = Understand(paths, paths.TypeHeaders("", eventType), body)
	}
	return d
}

// RereadEvents parses a kept delivery with the present paths: into one delivery without a key, or several
// with a key for each event.
func RereadEvents(paths billing.EventPaths, typeHeader, eventType string, body []byte) []state.Delivery {
	events := billing.SplitEvents(paths, body)
	if events == nil {
		return []state.Delivery{Reread(paths, typeHeader, eventType, body)}
	}
	out := make([]state.Delivery, len(events))
	for i, event := range events {
		out[i] = Reread(paths, typeHeader, "", event)
		out[i].Key = KeyOf(paths, paths.TypeHeaders(typeHeader, ""), billing.Signed{}, event)
	}
	return out
}

var errNoName = errors.New("its type or one of its ids is too long or holds control characters")

// isNoName reports whether s cannot be an id or a type, or be shown as one.
func isNoName(s string) bool {
	return len(s) > maxName || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl)
}

// identity returns the key for recognising a repeated delivery (fault F31): a hash of the signed body. The
// signed id, or else the id in the body, stands before it for people, but never decides alone: the supposed
// event id may be the customer's, and then all later events would look like repeats. Without an id the signed
// time tells equal bodies apart.
func identity(signed billing.Signed, eventID string, body []byte) string {
	h := sha256.New()
	name := "sha256:"
	switch id := signed.DeliveryID; {
	case id != "" && !isNoName(id):
		name = "id:" + id + ":"
	case eventID != "":
		name = "event:" + eventID + ":"
	case !signed.SignedAt.IsZero():
		fmt.Fprintf(h, "%d:", signed.SignedAt.UnixNano())
	}
	h.Write(body)
	return name + hex.EncodeToString(h.Sum(nil)[:keyBytes])
}

// store commits the events of a delivery and returns the answer. Only durable events are acknowledged: if one
// of several could not be stored, the sender repeats all.
//
// A repeat may be news with the same text, so its customer is read once more. That costs at most one GET
// every few seconds. Without it, a status could stay wrong until the next sweep.
func (s *Server) store(w http.ResponseWriter, r *http.Request, deliveries []state.Delivery) Event {
	ctx, cancel := context.WithTimeout(r.Context(), storeWait)
	defer cancel()
	taken, err := s.takeIn(ctx, deliveries)
	nudge, repeated := false, true
	for i, t := range taken {
		nudge = nudge || t.Again || t.Fresh && deliveries[i].State == connector.InboxReceived
		repeated = repeated && !t.Fresh
	}
	if nudge {
		s.cfg.Nudge()
	}
	if err != nil {
		w.Header().Set("Retry-After", retryAfter)
		return Event{Outcome: NotStored, Err: err}
	}
	e := Event{Outcome: Accepted, Key: deliveries[0].Key, Type: deliveries[0].Type, State: deliveries[0].State}
	if repeated {
		e.Outcome = Repeated
	}
	return e
}

// takeIn stores the events concurrently, so the ledger writes them together.
func (s *Server) takeIn(ctx context.Context, deliveries []state.Delivery) ([]state.Taken, error) {
	taken, failed := make([]state.Taken, len(deliveries)), make([]error, len(deliveries))
	var all sync.WaitGroup
	for i, d := range deliveries[1:] {
		all.Go(func() { taken[i+1], failed[i+1] = s.cfg.Ledger.StoreDelivery(ctx, d) })
	}
	taken[0], failed[0] = s.cfg.Ledger.StoreDelivery(ctx, deliveries[0])
	all.Wait()
	for i, err := range failed {
		if err != nil {
			taken[i] = state.Taken{} // nothing is kept of it
		}
	}
	return taken, cmp.Or(failed...)
}
