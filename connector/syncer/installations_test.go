package syncer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/internal/longtest"
	"payersync/state"
)

var drawnInstallations = longtest.Int("drawn-installations", 2, 6,
	"how many drawn pairs of installations are played; 100 at most, or as -rapid.checks says")

// enoughInstallations is from how many pairs on some word of a person must have been taken.
const enoughInstallations = 50

// installation is one of two that work on one account, each with books, an organisation and a
// ledger of its own.
type installation struct {
	*world
	organisation string
	added        int
}

func (i *installation) conn() syncer.Connection { return i.as("acme", i.organisation, i.books) }

// runs makes a run that may fail, and fails the test when it changes a customer of the other.
func (i *installation) runs(t *rapid.T, other *installation) {
	before := map[string]sandbox.Customer{}
	for _, c := range i.service.Customers() {
		before[c.ID] = c
	}
	_, _ = i.syncer.Run(context.Background(), i.conn(), syncer.RunOptions{
		Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test",
		Approve: func(state.Plan) (bool, error) { return true, nil },
	})
	for _, c := range i.service.Customers() {
		was, old := before[c.ID]
		if !old || string(was.Raw) == string(c.Raw) {
			continue
		}
		if key := connector.KeyIn(was.ExternalData, "customerNo"); key.Scope == other.organisation {
			t.Fatalf("%s changed a customer of %s from\n%s\nto\n%s", i.organisation, other.organisation, was.Raw, c.Raw)
		}
	}
	keys := map[connector.Key]string{}
	for _, c := range i.service.Customers() {
		key := connector.KeyIn(c.ExternalData, "customerNo")
		if first := keys[key]; first != "" && key.Scope != "" {
			t.Fatalf("the customers %s and %s both carry %s", first, c.ID, key)
		}
		keys[key] = c.ID
	}
}

// edits lets somebody change the books: two companies with the same numbers and names.
func (i *installation) edits(t *rapid.T) {
	id := fmt.Sprintf("C%d", rapid.IntRange(1, 5).Draw(t, "record"))
	no := id
	if rapid.IntRange(0, 5).Draw(t, "renumbered") == 0 {
		i.added++
		no = fmt.Sprintf("N%d", i.added)
	}
	i.books.putAs(id, map[string]string{
		"No": no, "Name": rapid.SampledFrom([]string{"Northwind " + id, "Southwind " + id}).Draw(t, "name"),
		"Email":    rapid.SampledFrom([]string{id + "@example.com", id + "@" + i.organisation + ".example"}).Draw(t, "email"),
		"Postcode": "LS1 4AP", "Group": rapid.SampledFrom([]string{"payer", "payer", "payer", "supplier"}).Draw(t, "group"),
	})
}

// says lets a person decide on a record: link, unlink, renumber, or undo a change. Impossible decisions are
// refused.
func (i *installation) says(t *rapid.T) error {
	ctx, id := context.Background(), fmt.Sprintf("C%d", rapid.IntRange(1, 5).Draw(t, "record"))
	p, err := i.ledger.Payer(ctx, "acme", id)
	if err != nil {
		return err
	}
	switch what := rapid.SampledFrom([]string{"accept", "reject", "unlink", "keep", "move", "undo"}).Draw(t,
		"word"); what {
	case "accept", "reject":
		all := i.service.Customers()
		if len(all) == 0 {
			return nil
		}
		customer := all[rapid.IntRange(0, len(all)-1).Draw(t, "customer")].ID
		return i.ledger.Do(ctx, func(tx *state.Tx) error {
			_, err := tx.SavePairDecision("acme", id, customer, state.PairVerdict(what))
			return err
		})
	case "unlink":
		return i.syncer.SayUnlink(ctx, syncer.Unlink{Payer: p}, ann)
	case "keep":
		return i.syncer.TakeUnlinkBack(ctx, p, ann)
	case "move":
		m, err := i.syncer.MoveOf(ctx, i.conn(), p, id)
		if err != nil {
			return err
		}
		return i.syncer.SayMove(ctx, m, ann)
	}
	past, err := i.ledger.ChangesOf(ctx, "acme", id)
	if err != nil || len(past) == 0 {
		return err
	}
	u, err := i.syncer.UndoOf(ctx, i.conn(), p, past[rapid.IntRange(0, len(past)-1).Draw(t, "change")].ID)
	if err != nil {
		return err
	}
	return i.syncer.SayUndo(ctx, u, ann)
}

// strangers change the service: they add look-alikes, rename customers, and take keys off.
func strangers(t *rapid.T, service *sandbox.Sandbox) {
	all := service.Customers()
	if len(all) == 0 || rapid.Bool().Draw(t, "adds") {
		id := rapid.IntRange(1, 5).Draw(t, "like")
		_, _ = service.Add(json.RawMessage(fmt.Sprintf(`{"name":"Northwind C%d","people":[{"email":"c%d@example.com"}],"notes":"by hand"}`, id, id)))
		return
	}
	c := all[rapid.IntRange(0, len(all)-1).Draw(t, "customer")]
	raw := string(c.Raw)
	if rapid.Bool().Draw(t, "renames") {
		raw = strings.ReplaceAll(raw, "wind C", "wind & Sons C")
	} else {
		raw = strings.ReplaceAll(raw, `"customerNo"`, `"formerNo"`)
	}
	_ = service.Edit(c.ID, json.RawMessage(raw))
}

// Whatever people edit and say, and whatever is lost on the way, an installation never changes
// a customer of the other one on its account, and no key is on two customers.
//
// covers F117
func TestTwoInstallationsNeverTouchEachOthersCustomers(t *testing.T) {
	t.Parallel()
	played, taken := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		if played++; played > drawnInstallations() {
			return // each has two ledgers of its own
		}
		w := newWorld(t)
		w.mapping = scopedMapping
		two := []*installation{{world: w, organisation: "harbour"}, {world: w.another(), organisation: "fjord"}}
		for range rapid.IntRange(20, 40).Draw(rt, "steps") {
			n := rapid.IntRange(0, 1).Draw(rt, "installation")
			i, other := two[n], two[1-n]
			switch step := rapid.SampledFrom([]string{"edits", "edits", "runs", "runs", "runs", "says", "says", "strangers",
				"fault", "restart", "later"}).Draw(rt, "step"); step {
			case "edits":
				i.edits(rt)
			case "runs":
				i.runs(rt, other)
			case "says":
				if err := i.says(rt); err == nil {
					taken++
				}
			case "strangers":
				strangers(rt, i.service)
			case "fault":
				i.service.Inject(sandbox.Fault{
					Kind: rapid.SampledFrom([]sandbox.FaultKind{sandbox.LostRequest, sandbox.LostResponse, sandbox.Late,
						sandbox.ErrorAfter, sandbox.Truncated}).Draw(rt, "kind"),
					Method: rapid.SampledFrom([]string{"PUT", "POST", "GET"}).Draw(rt, "method"), Path: "/api/customers",
					Count: rapid.IntRange(1, 3).Draw(rt, "count"),
				})
			case "restart":
				i.restart()
			case "later":
				i.clock.advance(time.Duration(rapid.IntRange(1, 30).Draw(rt, "minutes")) * time.Minute)
				if rapid.Bool().Draw(rt, "arrive") {
					i.service.ReleaseLate()
				}
			}
		}
		w.service.ClearFaults()
		w.service.ReleaseLate()
		for range 4 {
			w.clock.advance(time.Hour)
			for n, i := range two {
				i.runs(rt, two[1-n])
			}
		}
		for _, i := range two {
			rows, err := i.ledger.Payers(context.Background(), state.Filter{})
			if err != nil {
				rt.Fatal(err)
			}
			for _, row := range rows {
				if row.BillingID == nil {
					continue
				}
				c, _ := i.service.Customer(*row.BillingID)
				if scope := connector.KeyIn(c.ExternalData, "customerNo").Scope; scope != i.organisation && scope != "" &&
					!slices.Contains([]string{"missing", "conflict"}, row.LinkState) {
					rt.Errorf("record %s of %s is %s to a customer of %s", row.SourceID, i.organisation, row.LinkState, scope)
				}
			}
		}
	})
	if taken == 0 && drawnInstallations() >= enoughInstallations {
		t.Error("no word that a person said was taken, so nothing was tried there")
	}
}
