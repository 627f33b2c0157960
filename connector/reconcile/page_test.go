package reconcile_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/connector/reconcile"
	"payersync/state"
	"payersync/state/statetest"
)

// told is everything in the clear that a list may change.
var told = []string{
	"SELECT billing_id, key_values, digest, known_pass, listed_at, ticket, read_at FROM remote_customers ORDER BY 1",
	"SELECT kind, value, billing_id FROM remote_traits ORDER BY 1, 2, 3",
	"SELECT billing_id, digest, mandate_status FROM remote_profiles ORDER BY 1",
	"SELECT source_id, key_name, key_value, billing_id, link_state, applied_hash, mandate_id, seen_at, shows, shown_at, confirmed_at, answered_at, read_digest, moves_value, updated_at FROM payers ORDER BY 1",
	"SELECT source_id, class, rests, replan FROM source_records ORDER BY 1",
	"SELECT source_id, topic, reason, detail, since FROM attention ORDER BY 1, 2",
	"SELECT mandate_id, billing_id, status, status_since, service_time, last_seen_at, listed, link IS NULL FROM mandates ORDER BY 1",
	"SELECT mandate_id, billing_id, from_status, to_status, cause FROM mandate_history ORDER BY 1, 2, 4",
	"SELECT billing_id, seen_at, listed FROM financial_statuses ORDER BY 1",
	"SELECT ticket FROM ledger",
}

// dump is everything that the ledger tells.
func dump(t testing.TB, path string) (out []string) {
	t.Helper()
	for _, query := range told {
		out = append(out, strings.Split(statetest.Dump(t, path, query), "\n")...)
	}
	return out
}

// reopen copies the closed ledger of a world, and opens the copy for another.
func (w *world) reopen(name string) *world {
	w.t.Helper()
	other := *w
	other.path = filepath.Join(w.t.TempDir(), name+".db")
	statetest.New(w.t, other.path)
	if err := statetest.Copy(w.path, other.path); err != nil {
		w.t.Fatal(err)
	}
	var err error
	if other.ledger, err = state.Open(w.t.Context(),
		state.Options{Path: other.path, KeyFile: w.path + ".key", Now: w.ledger.Now}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = other.ledger.Close() })
	rec := *w.rec
	rec.Ledger = other.ledger
	other.rec = &rec
	return &other
}

var (
	sentName  = "Northwind"
	sentPhone = "+44 113 496 0000"
)

// sent is what a create sent of a record.
func sent(sourceID string) connector.Customer {
	return connector.Customer{Name: sentName, ExternalData: map[string]string{"no": sourceID},
		People: []connector.Person{{Name: "Ada", Email: sourceID + "@example.com", Phone: sentPhone}}}
}

// asSent is a customer that shows what was sent.
func asSent(sourceID, billingID string) connector.RemoteCustomer {
	return connector.RemoteCustomer{ID: billingID, Name: sentName, Emails: []string{sourceID + "@example.com"},
		Phones:       []string{sentPhone},
		ExternalData: map[string]string{"no": sourceID}}
}

// made makes a payer with the customer that the answer to a create named. The ledger knows what was sent.
func (w *world) made(sourceID, billingID string, answer connector.RemoteCustomer) {
	w.t.Helper()
	record := connector.Record{SourceID: sourceID, State: connector.RecordActive, Data: []byte(`{}`)}
	w.do(func(tx *state.Tx) error {
		if err := tx.SavePage(w.run, "acme", []connector.Record{record}); err != nil {
			return err
		}
		key := connector.Key{Name: "no", Value: sourceID}
		planned := protocol.Facts{Key: key.ID(),
			Record: protocol.Record{Usability: protocol.Included, Key: key.ID(), Hash: sent(sourceID).Hash()}}
		if err := tx.SaveDecisions(w.run, "acme", "m1",
			state.Decision{SourceID: sourceID, ContentHash: record.Hash(), Verdict: state.Included, Key: key,
				Facts: state.FactsOfPlan(planned, false)}); err != nil {
			return err
		}
		p := state.Payer{Connection: "acme", SourceID: sourceID, Key: key}
		if err := tx.LinkPayer(p, billingID, false); err != nil {
			return err
		}
		ticket, err := tx.Ticket()
		if err != nil {
			return err
		}
		if err := tx.SetApplied(p, sent(sourceID)); err != nil {
			return err
		}
		if err := tx.Answered(p); err != nil {
			return err
		}
		_, err = reconcile.Observe(tx, reconcile.OfCustomer(answer, ticket, connector.CauseCreate, "run 1"))
		return err
	})
}

// lists shows the same pages to two ledgers that are alike: to one page by page, to the other customer by customer. It
// compares what they tell.
func (w *world) lists(passes ...[][]connector.RemoteCustomer) (together *world) {
	w.t.Helper()
	if err := w.ledger.Close(); err != nil {
		w.t.Fatal(err)
	}
	together, each := w.reopen("together"), w.reopen("each")
	for i, pages := range passes {
		repaired, otherwise, err := together.rec.ObserveList(w.t.Context(), pages, true)
		if err != nil {
			w.t.Fatal(err)
		}
		wantRepaired, wantOtherwise, err := each.rec.ObserveList(w.t.Context(), pages, false)
		if err != nil {
			w.t.Fatal(err)
		}
		if repaired != wantRepaired {
			w.t.Errorf("pass %d repaired %d, want %d", i+1, repaired, wantRepaired)
		}
		if diff := cmp.Diff(wantOtherwise, otherwise); diff != "" {
			w.t.Errorf("pass %d, customers to be read (-one by one +together):\n%s", i+1, diff)
		}
		if diff := cmp.Diff(dump(w.t, each.path), dump(w.t, together.path)); diff != "" {
			w.t.Errorf("pass %d, the ledger (-one by one +together):\n%s", i+1, diff)
		}
	}
	return together
}

// What may have happened to a customer before a list, and how a list may show it.
var (
	befores = []string{"read", "read", "mandate", "mandate read", "cancelled", "financial", "told", "answered", "country",
		"unlink", "stranger's key", "updated", "link"}
	showns = []string{"mandate", "mandate", "moved mandate", "other mandate", "cancelled", "unknown",
		"mandate without id", "link", "reason", "time", "name", "phone", "e-mail", "country", "bare", "no key", "other key",
		"more pairs", "financial", "financial", "twice", "key twice", "gone", "flags"}
)

// some draws up to three of the names.
func some(r *rand.Rand, names []string) (out []string) {
	for range r.IntN(4) {
		out = append(out, names[r.IntN(len(names))])
	}
	return out
}

// live lets these things happen to a payer's customer.
func (w *world) live(sourceID, billingID string, before []string) {
	w.t.Helper()
	c := asSent(sourceID, billingID)
	mandate := &connector.Mandate{ID: "m" + billingID, CustomerID: billingID, Status: connector.MandateCreated,
		ServiceTime: "t1"}
	if slices.Contains(before, "country") {
		c.Addresses = []connector.Address{{Line1: "1 Quay St", Country: "GB"}}
	}
	if slices.Contains(before, "link") {
		c.Mandate = &connector.Mandate{ID: "m" + billingID, CustomerID: billingID, Status: connector.MandateCreated,
			URL: "https://sign.example.com/" + billingID}
	}
	w.made(sourceID, billingID, c)
	read := func(c connector.RemoteCustomer) {
		w.do(func(tx *state.Tx) error {
			ticket, err := tx.Ticket()
			if err != nil {
				return err
			}
			_, err = reconcile.Observe(tx, reconcile.OfCustomer(c, ticket, connector.CauseWebhook, "delivery"))
			return err
		})
	}
	for _, what := range before {
		switch what {
		case "read":
			read(c)
		case "mandate", "mandate read", "cancelled":
			c.Mandate = mandate
			if what == "cancelled" {
				c.Mandate = &connector.Mandate{ID: mandate.ID, CustomerID: billingID, Status: connector.MandateCancelled}
			}
			read(c)
		case "financial":
			c.Financial = "GOOD"
			read(c)
		case "updated":
			c.Name = "Southwind"
			read(c)
		case "told":
			w.do(func(tx *state.Tx) error {
				tx.Explain(state.Payer{Connection: "acme", SourceID: sourceID}, state.TopicLink, connector.ReasonOutcomeUnknown, "")
				return nil
			})
		case "answered":
			w.do(func(tx *state.Tx) error {
				if _, err := tx.Ticket(); err != nil {
					return err
				}
				return tx.Answered(state.Payer{Connection: "acme", SourceID: sourceID})
			})
		case "unlink":
			p, err := w.ledger.Payer(w.t.Context(), "acme", sourceID)
			if err != nil {
				w.t.Fatal(err)
			}
			if p.Seen {
				w.do(func(tx *state.Tx) error { return tx.SayUnlink(p, 0) })
			}
		case "stranger's key":
			stranger := asSent(sourceID, "x"+billingID)
			read(stranger)
		}
	}
}

// show is how a list shows a payer's customer.
func show(sourceID, billingID string, shown []string) []connector.RemoteCustomer {
	c := asSent(sourceID, billingID)
	mandate := connector.Mandate{ID: "m" + billingID, CustomerID: billingID, Status: connector.MandateCreated}
	more := []connector.RemoteCustomer{}
	for _, what := range shown {
		switch what {
		case "mandate":
			c.Mandate = &mandate
		case "moved mandate":
			mandate.Status, c.Mandate = connector.MandateActive, &mandate
		case "other mandate":
			mandate.ID, c.Mandate = "n"+billingID, &mandate
		case "cancelled":
			mandate.Status, c.Mandate = connector.MandateCancelled, &mandate
		case "unknown":
			mandate.Status, c.Mandate = "PAUSED", &mandate
		case "mandate without id":
			mandate.ID, c.Mandate = "", &mandate
		case "link":
			mandate.URL, c.Mandate = "https://sign.example.com/"+billingID, &mandate
		case "reason":
			mandate.FailureReason, c.Mandate = connector.NewSecret("B"), &mandate
		case "time":
			mandate.ServiceTime, c.Mandate = "t2", &mandate
		case "name":
			c.Name = "Southwind"
		case "phone":
			c.Phones = []string{"+44 113 496 9999"}
		case "e-mail":
			c.Emails = []string{"other@example.com"}
		case "country":
			c.Addresses = []connector.Address{{Line1: "1 Quay St", Country: "GB"}}
		case "bare":
			c.ExternalData = nil
		case "no key":
			c.ExternalData = map[string]string{"theirs": "x"}
		case "other key":
			c.ExternalData = map[string]string{"no": sourceID + "-changed"}
		case "more pairs":
			c.ExternalData = map[string]string{"no": sourceID, "theirs": "x"}
		case "financial":
			c.Financial = "GOOD"
		case "flags":
			c.People = []connector.Person{{Email: sourceID + "@example.com", Primary: "true"}}
		case "twice":
			again := c
			again.Name = "Westwind"
			more = append(more, again)
		case "key twice":
			more = append(more, asSent(sourceID, "y"+billingID))
		case "gone":
			return more
		}
	}
	return append(more, c)
}

// covers F31, F32, F43, F49, S8, S9
func TestAPageIsObservedAsItsCustomersOneByOne(t *testing.T) {
	t.Parallel()
	const payers = 30
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t), rand.New(rand.NewPCG(seed, 1))
			var pages, calm [2][]connector.RemoteCustomer
			for i := range payers {
				sourceID, billingID, shown := fmt.Sprint("A", i), fmt.Sprint("c", i), []string(nil)
				w.live(sourceID, billingID, some(r, befores))
				if r.IntN(2) == 0 {
					shown = some(r, showns)
				}
				pages[i%2] = append(pages[i%2], show(sourceID, billingID, shown)...)
				calm[i%2] = append(calm[i%2], asSent(sourceID, billingID))
			}
			w.lists(pages[:], calm[:], pages[:])
		})
	}
}

func TestWhatAListShowsAsItIsKnownIsWrittenTogether(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, shown []string
		agree         bool
	}{
		"an answered create":                       {nil, nil, true},
		"an answered create with a financial word": {nil, []string{"financial"}, true},
		"one that was read":                        {[]string{"read"}, nil, true},
		"one that was answered since":              {[]string{"read", "answered"}, nil, true},
		"a known mandate":                          {[]string{"mandate"}, []string{"mandate"}, true},
		"a known financial status":                 {[]string{"financial"}, []string{"financial"}, true},
		"a mandate that is not shown":              {[]string{"mandate"}, nil, true},
		"a mandate that moved":                     {[]string{"mandate"}, []string{"moved mandate"}, false},
		"a mandate that is new":                    {nil, []string{"mandate"}, false},
		"another mandate":                          {[]string{"mandate"}, []string{"other mandate"}, false},
		"an unknown status":                        {[]string{"mandate"}, []string{"unknown"}, false},
		"a cancelled mandate":                      {[]string{"cancelled"}, []string{"cancelled"}, false},
		"no externalData":                          {[]string{"read"}, []string{"bare"}, false},
		"another key":                              {[]string{"read"}, []string{"other key"}, false},
		"another name":                             {[]string{"read"}, []string{"name"}, false},
		"another phone":                            {[]string{"read"}, []string{"phone"}, false},
		"something told":                           {[]string{"told"}, nil, false},
		"somebody else with the key":               {[]string{"stranger's key"}, nil, false},
		"somebody else with the key on the page":   {[]string{"read"}, []string{"key twice"}, false},
		"a customer twice":                         {[]string{"read"}, []string{"twice"}, false},
		"an unlinked customer":                     {[]string{"read", "unlink"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.live("A1", "c1", tt.before)
			page := show("A1", "c1", tt.shown)
			if n, err := w.rec.Agreeing(t.Context(), page); err != nil || (n == 1) != tt.agree {
				t.Errorf("%d of the page agree (%v), want %v", n, err, tt.agree)
			}
			w.lists([][]connector.RemoteCustomer{page})
		})
	}
}
