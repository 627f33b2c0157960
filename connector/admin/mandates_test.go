package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/billing"
	"payersync/connector/reconcile"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/connector/transport"
	"payersync/state"
	"payersync/state/statetest"
)

// The long mode, for releases and nights:
//
//	go test ./connector/admin -run LostLinksOfARebuiltLedger -lost-links 5000
var lostLinks = flag.Int("lost-links", 150, "links that a rebuilt ledger has lost")

// desk is a ledger, an in-process billing service, and what people do about mandates.
type desk struct {
	t       *testing.T
	ledger  *state.Ledger
	box     *sandbox.Sandbox
	service *billing.Client
	acts    *admin.Mandates
	run     int64
	said    []string // what failed
}

// newDesk opens a desk whose service is asked so often in a second; 0 for as often as it takes.
func newDesk(t *testing.T, perSecond float64, switches sandbox.Switches) *desk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	d := &desk{t: t, box: sandbox.New(sandbox.Options{ClientID: "app-1", ClientSecret: connector.NewSecret("app-secret"),
		Switches: switches, TokenLife: 24 * time.Hour})}
	var err error
	if d.ledger, err = state.Open(t.Context(), state.Options{Path: path, KeyFile: path + ".key"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.ledger.Close() })
	d.service = d.client(0)
	asked := d.client(perSecond)
	rec := &reconcile.Reconciler{Ledger: d.ledger, Billing: asked,
		Lookup: reconcile.Lookup{MaxAge: 24 * time.Hour, Quarantine: 15 * time.Minute}}
	d.acts = &admin.Mandates{
		Ledger: d.ledger, Syncer: &syncer.Syncer{Ledger: d.ledger, Billing: asked, Reconciler: rec}, Billing: asked,
		WhenCreated: "same",
	}
	d.do(func(tx *state.Tx) (err error) {
		if err := errors.Join(tx.PinConnection(state.Connection{Name: "acme", Info: connector.SourceInfo{Kind: "books"}}),
			tx.SaveMapping("m1", "version: 1", "tester")); err != nil {
			return err
		}
		d.run, err = tx.OpenRun(state.NewRun{Connection: "acme", Kind: connector.RunSync, Trigger: "manual", Mapping: "m1",
			Holder: "test"})
		return err
	})
	return d
}

func (d *desk) client(perSecond float64) *billing.Client {
	d.t.Helper()
	c, err := billing.New(billing.Config{
		BaseURL: "http://localhost/api", ClientID: "app-1", ClientSecret: connector.NewSecret("app-secret"),
		RedirectURL: "https://app.example.com/signed",
		Dialect:     billing.Standard(),
		HTTP:        transport.New(transport.Options{Base: d.box.RoundTripper(), Retries: -1, RatePerSecond: perSecond}),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

func (d *desk) do(fn func(*state.Tx) error) {
	d.t.Helper()
	if err := d.ledger.Do(context.Background(), fn); err != nil {
		d.t.Fatal(err)
	}
}

// waits makes payers whose mandates wait for a signature, without signing links in the ledger.
func (d *desk) waits(payers int) {
	d.t.Helper()
	for i := range payers {
		id := fmt.Sprintf("A%05d", i)
		key := connector.Key{Name: "no", Value: id}
		body, err := json.Marshal(map[string]any{"name": "Customer " + id, "externalData": map[string]string{"no": id}})
		if err != nil {
			d.t.Fatal(err)
		}
		c, err := d.service.CreateCustomer(d.t.Context(), body)
		if err != nil {
			d.t.Fatal(err)
		}
		if _, err := d.service.RequestMandateLink(d.t.Context(), c.ID); err != nil {
			d.t.Fatal(err)
		}
		seen, err := d.service.Customer(d.t.Context(), c.ID)
		if err != nil {
			d.t.Fatal(err)
		}
		record := connector.Record{SourceID: id, State: connector.RecordActive, Data: []byte(`{}`)}
		d.do(func(tx *state.Tx) error {
			if err := tx.SavePage(d.run, "acme", []connector.Record{record}); err != nil {
				return err
			}
			if err := tx.SaveDecisions(d.run, "acme", "m1",
				state.Decision{SourceID: id, ContentHash: record.Hash(), Verdict: state.Included, Key: key}); err != nil {
				return err
			}
			if err := tx.LinkPayer(state.Payer{Connection: "acme", SourceID: id}, c.ID, true); err != nil {
				return err
			}
			ticket, err := tx.Ticket()
			if err != nil {
				return err
			}
			_, err = reconcile.Observe(tx, reconcile.OfCustomer(seen, ticket, connector.CauseSweep, "1"))
			return err
		})
	}
}

// find returns the links that are meant.
func (d *desk) find(which admin.Links) []state.Payer {
	d.t.Helper()
	found, err := d.acts.Find(d.t.Context(), which)
	if err != nil {
		d.t.Fatal(err)
	}
	return found
}

// fetch fetches all of them, on a person's word.
func (d *desk) fetch(ctx context.Context, payers []state.Payer) (admin.Fetched, error) {
	return d.acts.Fetch(ctx, admin.Fetching{
		Payers: payers, Said: true, By: syncer.Operator{Name: "ada"},
		Failed: func(id string, err error) { d.said = append(d.said, id+": "+err.Error()) },
	})
}

// wantOneMandateEach checks that no customer has got a second mandate.
func (d *desk) wantOneMandateEach() {
	d.t.Helper()
	for _, c := range d.box.Customers() {
		if len(c.Mandates) != 1 {
			d.t.Errorf("customer %s has %d mandates", c.ID, len(c.Mandates))
		}
	}
}

// Fetching stops twice half way, in the middle of a request too, and goes on with what is
// left. Each link takes a look and a request, so the time is known before.
//
// covers F132, F58
func TestLostLinksOfARebuiltLedgerAreFetchedAtTheRateHoweverOftenItStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 5
		d := newDesk(t, perSecond, sandbox.Switches{})
		d.waits(*lostLinks)
		began, requests := time.Now(), len(d.box.Requests())
		for _, part := range []int{4, 2} { // of what is left
			lost := d.find(admin.Links{})
			ctx, kill := context.WithTimeout(t.Context(),
				time.Duration(2*len(lost)/part)*time.Second/perSecond+50*time.Millisecond)
			if got, err := d.fetch(ctx, lost); err == nil || got.Fetched == 0 || got.Fetched >= len(lost) {
				t.Errorf("stopped half way it fetched %+v, %v", got, err)
			}
			kill()
		}
		left := d.find(admin.Links{})
		if got, err := d.fetch(t.Context(), left); err != nil || got.Fetched != len(left) || got.Failed != 0 {
			t.Errorf("the last time it fetched %+v, %v", got, err)
		}
		if left := d.find(admin.Links{}); len(left) != 0 {
			t.Errorf("%d links are lost still", len(left))
		}
		d.wantOneMandateEach()
		took, made := time.Since(began), len(d.box.Requests())-requests
		t.Logf("%d links took %d requests and %v at %d requests a second", *lostLinks, made, took.Round(time.Second),
			perSecond)
		if want := time.Duration(2**lostLinks) * time.Second / perSecond; took < want-2*time.Second ||
			took > want+want/20+5*time.Second {
			t.Errorf("%d links took %v, want about %v", *lostLinks, took, want)
		}
		synctest.Wait()
		if err := d.ledger.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Nothing is asked for that only a person lets go.
func TestWhatAPersonIsAskedBeforeLinksAreFetched(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when  string
		links int
		want  admin.Asking
	}{
		{"same", 0, admin.AskNothing}, {"same", 200, admin.AskNothing}, {"same", 201, admin.AskOnce},
		{"unknown", 1, admin.AskOnce}, {"", 1, admin.AskOnce},
		{"new", 1, admin.AskEach}, {"new", 500, admin.AskEach}, {"new", 0, admin.AskNothing},
	} {
		acts := &admin.Mandates{WhenCreated: c.when}
		if got := acts.Asks(c.links); got != c.want {
			t.Errorf("with %q and %d links it asks %d, want %d", c.when, c.links, got, c.want)
		}
		if c.want == admin.AskNothing {
			continue
		}
		if _, err := acts.Fetch(t.Context(), admin.Fetching{Payers: make([]state.Payer, c.links)}); !errors.Is(err,
			admin.ErrNotAsked) {
			t.Errorf("with %q and %d links it began without a word: %v", c.when, c.links, err)
		}
	}
}

// Links that are old, or have expired, are asked for again, and the service says whether they
// are the same; one that it refuses is handed to nobody.
//
// covers F132
func TestOldLinksAreFetchedAgainAndRefusedOnesHandedToNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		d := newDesk(t, 0, sandbox.Switches{})
		d.waits(3)
		if got, err := d.fetch(t.Context(), d.find(admin.Links{})); err != nil || got.Fetched != 3 {
			t.Fatalf("it fetched %+v, %v", got, err)
		}
		time.Sleep(31 * day)
		if got := d.find(admin.Links{Older: 32 * day}); len(got) != 0 {
			t.Errorf("%d links are older than they are", len(got))
		}
		old := d.find(admin.Links{Older: 30 * day})
		if got, err := d.fetch(t.Context(), old[:1]); err != nil || got.Fetched != 1 || len(old) != 3 {
			t.Errorf("of %d old ones it fetched %+v, %v", len(old), got, err)
		}
		d.acts.Valid = 30 * day
		expired := d.find(admin.Links{})
		if len(expired) != 2 {
			t.Fatalf("%d links have expired, want 2", len(expired))
		}
		for _, p := range append(old[:1:1], expired...) {
			if got, err := d.acts.Expired(t.Context(), p.MandateID); err != nil || got != (p.SourceID != old[0].SourceID) {
				t.Errorf("%s has expired: %v, %v", p.SourceID, got, err)
			}
		}
		d.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusUnprocessableEntity, Method: http.MethodPut,
			Path: "/api/customers/*/directdebitmandates", Count: 1})
		if got, err := d.fetch(t.Context(), expired); err != nil || got.Fetched != 1 || got.Failed != 1 || len(d.said) != 1 {
			t.Errorf("with a refusal it fetched %+v, %v, %q", got, err, d.said)
		}
		refused := expired[0]
		link, err := d.ledger.SigningLink(t.Context(), refused.MandateID)
		told, attErr := d.ledger.AttentionOf(t.Context(), "acme", refused.SourceID)
		if link != "" || len(told) != 1 || told[0].Reason != string(connector.ReasonLinkRefused) ||
			errors.Join(err, attErr) != nil {
			t.Errorf("of the refused one the link is %q, told is %+v, %v", link, told, errors.Join(err, attErr))
		}
		if got, err := d.fetch(t.Context(), d.find(admin.Links{})); err != nil || got.Fetched != 1 {
			t.Errorf("once it is given it fetched %+v, %v", got, err)
		}
		if told, err = d.ledger.AttentionOf(t.Context(), "acme", refused.SourceID); len(told) != 0 || err != nil {
			t.Errorf("it is told of still: %+v, %v", told, err)
		}
		d.wantOneMandateEach()
		if err := d.ledger.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A mandate cancelled meanwhile is not replaced, and a signed one needs no link.
func TestFetchingLeavesWhatIsOpenNoMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 0, sandbox.Switches{})
	d.waits(3)
	lost := d.find(admin.Links{})
	for i, act := range []func(string) error{d.box.PayerCancel, d.box.Sign} {
		if err := act(lost[i].MandateID); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.fetch(t.Context(), lost); err != nil || got.Fetched != 2 || got.Failed != 1 {
		t.Errorf("it fetched %+v, %v, %q", got, err, d.said)
	}
	d.wantOneMandateEach()
	if left := d.find(admin.Links{}); len(left) != 0 {
		t.Errorf("%d are to be fetched still", len(left))
	}
}

// A service that does not answer, or takes the request in another way, ends it.
func TestFetchingEndsWhereTheNextWouldFareNoBetter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ status int }{{http.StatusTooManyRequests}, {http.StatusNotFound}} {
		d := newDesk(t, 0, sandbox.Switches{MandateLink: "put"})
		d.waits(3)
		lost := d.find(admin.Links{})
		d.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: c.status, Method: http.MethodPut,
			Path: "/api/customers/*/directdebitmandates"})
		if got, err := d.fetch(t.Context(), lost); err == nil || got.Fetched != 0 || got.Failed != 0 {
			t.Errorf("with %d it fetched %+v, %v", c.status, got, err)
		}
		if told, err := d.ledger.AttentionOf(t.Context(), "acme", lost[0].SourceID); len(told) != 0 || err != nil {
			t.Errorf("with %d the record is told of: %+v, %v", c.status, told, err)
		}
	}
}

func TestACancellationNeedsAMandate(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 0, sandbox.Switches{})
	d.waits(1)
	_, err := (&admin.Attention{Ledger: d.ledger, Mandates: d.acts}).Perform(t.Context(),
		admin.Decision{Act: connector.ActCancel, Record: state.RecordID{Connection: "acme", SourceID: "none"}}, admin.By{})
	if !errors.Is(err, state.ErrNoPayer) {
		t.Errorf("it ended with %v", err)
	}
}

// The role comes from the table of acts, and is checked before anything else.
func TestAnActNeedsItsRoleAndItsReason(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 0, sandbox.Switches{})
	d.waits(1)
	acts := &admin.Attention{Ledger: d.ledger, Mandates: d.acts}
	cancels := admin.Decision{Act: connector.ActCancel, Record: state.RecordID{Connection: "acme", SourceID: "A00000"}}
	for _, c := range []struct {
		by   admin.By
		want error
	}{
		{admin.By{Operator: syncer.Operator{Name: "ada", Reason: "asked to"}, Role: admin.Viewer}, admin.ErrRole},
		{admin.By{Operator: syncer.Operator{Name: "ada", Reason: "asked to"}}, admin.ErrRole},
		{admin.By{Operator: syncer.Operator{Name: "ada", Reason: " "}, Role: admin.Operator}, syncer.ErrReasonNeeded},
	} {
		if _, err := acts.Perform(t.Context(), cancels, c.by); !errors.Is(err, c.want) {
			t.Errorf("for %+v it ended with %v, want %v", c.by, err, c.want)
		}
	}
}
