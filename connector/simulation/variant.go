package simulation

import (
	"context"
	"database/sql" //nolint:depguard // a variant weaker than the ledger must bypass state
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"payersync/state"
)

// variantSeeds is within how many seeds a weaker variant must be caught.
const variantSeeds = 1000

// variant is a weaker protocol in place of a part of the product. The zero value is the product. Each exists
// to prove that the oracle catches it.
type variant struct {
	name         string
	seed         uint64   // the seed that last caught it, played first
	breaks       []string // the invariants that may catch it
	remote       func(*world, *billing.Client) syncer.Billing
	drain        func(*process) func(context.Context) (reconcile.DrainResult, error)
	applyPayload func(p *process, body []byte) (status int)
	seeds        int      // within how many it must be caught; variantSeeds when 0
	hurried      bool     // no quarantine after a restore
	sweepless    bool     // no sweep finds changes missed by webhooks
	troubles     []string // always drawn by its seeds
	amends       bool     // its seeds have them
	trigger      string   // SQL in the ledger, for wrong records
}

func (v variant) wrap(w *world, c *billing.Client) syncer.Billing {
	if v.remote == nil {
		return c
	}
	return v.remote(w, c)
}

// variants are the weaker protocols (FAULTS.md#weaker-protocols), and a few violations of the basic rules.
var variants = []variant{
	{name: "rebuild the body on retry", seed: 549, breaks: []string{"S1", "S3"},
		remote: func(w *world, c *billing.Client) syncer.Billing { return rebuilding{c, w} }},
	{name: "one list pass", seed: 2, breaks: []string{"S4"},
		remote: func(_ *world, c *billing.Client) syncer.Billing { return &onePass{Client: c} }},
	{name: "no look before create", seed: 1, breaks: []string{"S4"},
		remote: func(_ *world, c *billing.Client) syncer.Billing { return blind{c} }},
	{name: "link asked for again without a look", seed: 1, breaks: []string{"F58"},
		remote: func(_ *world, c *billing.Client) syncer.Billing { return insistent{c} }},
	{name: "update without fetch", seed: 16, breaks: []string{"S5"},
		remote: func(_ *world, c *billing.Client) syncer.Billing { return careless{c} }},
	{name: "incomplete pass counts as complete", seed: 2, breaks: []string{"S4", "S17"},
		remote: func(_ *world, c *billing.Client) syncer.Billing { return hasty{c} }},
	{name: "payloads applied as they come", seed: 48, breaks: []string{"S8", "S9", "L2"}, applyPayload: applyAsItComes},
	{name: "payloads applied unless older", seed: 48, breaks: []string{"S8", "S9", "L2"}, applyPayload: applyUnlessOlder},
	{name: "ticket taken after the read", seed: 71, breaks: []string{"S9"}, drain: drainUnordered,
		seeds: 3 * variantSeeds},
	{name: "no sweep", seed: 93, breaks: []string{"L1", "L2"}, sweepless: true},
	{name: "no quarantine after a restore", seed: 199, breaks: []string{"S1", "S4"}, hurried: true},
	{name: "an empty list counts as proof", seed: 2, breaks: []string{"S1", "S17"}, troubles: []string{listEmpty},
		remote: func(w *world, c *billing.Client) syncer.Billing {
			return &credulous{Client: c, w: w, of: func(listed int) bool { return listed == 0 }}
		}},
	{name: "a short list counts as proof", seed: 2, breaks: []string{"S1", "S17"},
		troubles: []string{listShort, pagesLost, listBehind}, remote: func(w *world, c *billing.Client) syncer.Billing {
			return &credulous{Client: c, w: w, of: func(int) bool { return true }}
		}},
	{name: "a list without keys counts", seed: 6, breaks: []string{"S1", "S17"}, troubles: []string{listKeyless},
		remote: func(_ *world, c *billing.Client) syncer.Billing {
			return &presuming{Client: c, shown: map[string]map[string]string{}}
		}},
	{name: "no second look for 15 minutes", seed: 6, breaks: []string{"S1"}, troubles: []string{lateLook},
		remote: func(w *world, c *billing.Client) syncer.Billing {
			return &resting{Client: c, w: w}
		}},
	{name: "creates of others do not count", seed: 10, breaks: []string{"S1", "S3"}, amends: true,
		trigger: keylessAttempts},
	{name: "what was told is told for good", seed: 100, breaks: []string{"V5"}, amends: true, trigger: staleTellings},
	{name: "a class is not settled", seed: 2, breaks: []string{"V6"}, trigger: staleClasses},
	{name: "a finding about a customer is not settled", seed: 16, breaks: []string{"V6"}, amends: true,
		trigger: lostTellings},
}

// staleClasses undoes the class that the end of a write stores.
const staleClasses = `CREATE TRIGGER stale_classes AFTER UPDATE OF class ON source_records WHEN new.planned_hash = old.planned_hash AND new.replan = old.replan
	BEGIN UPDATE source_records SET class = old.class WHERE connection = new.connection AND source_id = new.source_id; END`

// lostTellings loses that a customer is missing.
const lostTellings = `CREATE TRIGGER lost_tellings BEFORE INSERT ON attention WHEN new.reason = 'customer_missing'
	BEGIN SELECT raise(IGNORE); END`

// staleTellings reports a removed key for good.
const staleTellings = `CREATE TRIGGER stale_tellings BEFORE DELETE ON attention WHEN old.reason = 'key_removed'
	BEGIN SELECT raise(IGNORE); END`

// keylessAttempts stores creates without their keys, so each is under way for its own record alone.
const keylessAttempts = `CREATE TRIGGER weaker AFTER INSERT ON attempts WHEN new.action = 'create'
	BEGIN UPDATE attempts SET key_value = '' WHERE attempt_id = new.attempt_id; END`

// spoil installs the variant's trigger in an open ledger, and unspoil removes it before the next process
// opens the file: payersync refuses a file with a foreign trigger. Both use the driver registered by package
// state.
func (v variant) spoil(path string) error { return v.exec(path, v.trigger) }

func (v variant) unspoil(path string) error {
	name, _, _ := strings.Cut(strings.TrimPrefix(v.trigger, "CREATE TRIGGER "), " ")
	return v.exec(path, "DROP TRIGGER IF EXISTS "+name)
}

func (v variant) exec(path, statement string) error {
	if v.trigger == "" {
		return nil
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(context.Background(), statement)
	return errors.Join(err, db.Close())
}

// rebuilding sends a newly mapped record, not the frozen bytes.
type rebuilding struct {
	*billing.Client
	w *world
}

func (r rebuilding) CreateCustomer(ctx context.Context, body []byte) (connector.RemoteCustomer, error) {
	for _, record := range r.w.books.records {
		want, ok := r.w.rendered(record)
		if !ok || want.Key.Value != keyOf(body) {
			continue
		}
		if fresh, err := r.CreateBody(want.Customer); err == nil {
			body = fresh
		}
	}
	return r.Client.CreateCustomer(ctx, body)
}

// onePass answers every second list pass from the memory of the first.
type onePass struct {
	*billing.Client
	pages [][]connector.RemoteCustomer
	fresh bool
}

func (o *onePass) Customers(ctx context.Context) iter.Seq2[[]connector.RemoteCustomer, error] {
	if o.fresh {
		o.fresh = false
		return func(yield func([]connector.RemoteCustomer, error) bool) {
			for _, page := range o.pages {
				if !yield(page, nil) {
					return
				}
			}
		}
	}
	return func(yield func([]connector.RemoteCustomer, error) bool) {
		o.pages = nil
		for page, err := range o.Client.Customers(ctx) {
			if !yield(page, err) || err != nil {
				return
			}
			o.pages = append(o.pages, page)
		}
		o.fresh = true
	}
}

// blind sees an empty list, so it finds nothing before a create.
type blind struct{ *billing.Client }

func (b blind) Customers(context.Context) iter.Seq2[[]connector.RemoteCustomer, error] {
	return func(func([]connector.RemoteCustomer, error) bool) {}
}

// hasty takes a broken-off list for the whole.
type hasty struct{ *billing.Client }

func (h hasty) Customers(ctx context.Context) iter.Seq2[[]connector.RemoteCustomer, error] {
	return func(yield func([]connector.RemoteCustomer, error) bool) {
		for page, err := range h.Client.Customers(ctx) {
			if err != nil || !yield(page, nil) {
				return
			}
		}
	}
}

// insistent asks for a signing link again when it got no answer.
type insistent struct{ *billing.Client }

func (i insistent) RequestMandateLink(ctx context.Context, id string) (connector.Mandate, error) {
	m, err := i.Client.RequestMandateLink(ctx, id)
	if connector.FaultOf(err) == connector.FaultUnknown {
		return i.Client.RequestMandateLink(ctx, id)
	}
	return m, err
}

// careless sends updates with the wanted values alone.
type careless struct{ *billing.Client }

func (c careless) MergeCustomer(fetched connector.RemoteCustomer, last *connector.Customer, want connector.Customer,
	own []string) (json.RawMessage, bool, error) {
	_, changed, err := c.Client.MergeCustomer(fetched, last, want, own)
	if err != nil || !changed {
		return nil, changed, err
	}
	body, err := c.CreateBody(want)
	if err != nil {
		return nil, false, err
	}
	o := decode(body)
	o["id"] = fetched.ID
	body, err = json.Marshal(o)
	return body, true, err
}

// applyAsItComes believes the content of a delivery.
func applyAsItComes(p *process, body []byte) int {
	status := connector.MandateStatus(textOf(body, "status"))
	err := p.ledger.Do(context.Background(), func(tx *state.Tx) error {
		ticket, err := tx.Ticket()
		if err != nil || status == "" {
			return err
		}
		_, err = reconcile.Observe(tx, reconcile.Observation{
			CustomerID: textOf(body, "customerId"), Ticket: ticket, Cause: connector.CauseWebhook,
			CauseID: textOf(body, "eventId"),
			Mandate: &connector.Mandate{ID: textOf(body, "mandateId"), Status: status, ServiceTime: textOf(body, "occurredAt")},
		})
		return err
	})
	if err != nil {
		return http.StatusServiceUnavailable
	}
	_ = p.ledger.Do(context.Background(), func(tx *state.Tx) error {
		_, err := tx.Receive(state.Delivery{Key: "event:" + textOf(body, "eventId") + ":",
			BillingID: textOf(body, "customerId"), Body: body, State: connector.InboxReflected})
		return err
	})
	return http.StatusOK
}

// applyUnlessOlder believes a delivery unless it is dated before the last.
func applyUnlessOlder(p *process, body []byte) int {
	mandate, at := textOf(body, "mandateId"), textOf(body, "occurredAt")
	if at < p.w.newest[mandate] {
		return http.StatusOK
	}
	status := applyAsItComes(p, body)
	if status == http.StatusOK {
		p.w.newest[mandate] = at
	}
	return status
}

// drainUnordered reads first and asks for its place in the order afterwards.
func drainUnordered(p *process) func(context.Context) (reconcile.DrainResult, error) {
	return func(ctx context.Context) (res reconcile.DrainResult, err error) {
		open, err := p.ledger.OpenDeliveries(ctx, 0, 100)
		for _, d := range open {
			if !d.Known {
				continue
			}
			c, err := p.syncer.Billing.Customer(ctx, d.BillingID)
			if err != nil {
				return res, err
			}
			if err := p.ledger.Do(ctx, func(tx *state.Tx) error {
				ticket, err := tx.Ticket()
				if err != nil {
					return err
				}
				if _, err := reconcile.Observe(tx, reconcile.OfCustomer(c, ticket, connector.CauseWebhook, "")); err != nil {
					return err
				}
				return tx.CloseDeliveries(d, connector.InboxReflected, "")
			}); err != nil {
				return res, err
			}
			res.Reflected++
		}
		return res, err
	}
}

// credulous takes customers missing from lists of one kind as deleted, without a read.
type credulous struct {
	*billing.Client
	w      *world
	of     func(listed int) bool
	listed map[string]bool // by the newest complete list; nil for none
}

func (t *credulous) Customers(ctx context.Context) iter.Seq2[[]connector.RemoteCustomer, error] {
	return func(yield func([]connector.RemoteCustomer, error) bool) {
		listed := map[string]bool{}
		for page, err := range t.Client.Customers(ctx) {
			for _, c := range page {
				listed[c.ID] = true
			}
			if !yield(page, err) || err != nil {
				return
			}
		}
		t.listed = listed
	}
}

func (t *credulous) Customer(ctx context.Context, id string) (connector.RemoteCustomer, error) {
	if t.listed != nil && !t.listed[id] && t.of(len(t.listed)) {
		return connector.RemoteCustomer{},
			&connector.RemoteError{Op: "read customer", Fault: connector.FaultNotFound, Status: http.StatusNotFound,
				Detail: "no list has it"}
	}
	return t.Client.Customer(ctx, id)
}

// presuming takes a list without keys for one with keys: it puts back the keys it has read itself, and
// assumes that all others have none.
type presuming struct {
	*billing.Client
	shown map[string]map[string]string
}

func (t *presuming) Customer(ctx context.Context, id string) (connector.RemoteCustomer, error) {
	c, err := t.Client.Customer(ctx, id)
	if err == nil {
		t.shown[id] = c.ExternalData
	}
	return c, err
}

func (t *presuming) Customers(ctx context.Context) iter.Seq2[[]connector.RemoteCustomer, error] {
	return func(yield func([]connector.RemoteCustomer, error) bool) {
		for page, err := range t.Client.Customers(ctx) {
			for i, c := range page {
				switch {
				case len(c.ExternalData) > 0:
				case len(t.shown[c.ID]) > 0:
					page[i].ExternalData = t.shown[c.ID]
				default:
					page[i].ExternalData = map[string]string{"note": "none"}
				}
			}
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}

// resting reads no list within 15 minutes of its last two, and uses the last of them.
type resting struct {
	*billing.Client
	w     *world
	read  []time.Time // when the newest complete lists were read
	pages [][]connector.RemoteCustomer
}

func (t *resting) Customers(ctx context.Context) iter.Seq2[[]connector.RemoteCustomer, error] {
	return func(yield func([]connector.RemoteCustomer, error) bool) {
		t.read = slices.DeleteFunc(t.read, func(at time.Time) bool { return t.w.now().Sub(at) > 15*time.Minute })
		if len(t.read) >= 2 {
			for _, page := range t.pages {
				if !yield(page, nil) {
					return
				}
			}
			return
		}
		var pages [][]connector.RemoteCustomer
		for page, err := range t.Client.Customers(ctx) {
			if !yield(page, err) || err != nil {
				return
			}
			pages = append(pages, page)
		}
		t.pages, t.read = pages, append(t.read, t.w.now())
	}
}
