package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

func (w *world) preview(o syncer.PreviewOptions) syncer.Preview {
	w.t.Helper()
	p, err := w.syncer.Preview(context.Background(), w.connection(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// edit edits the mapping.
func (w *world) edit(old, text string) {
	w.t.Helper()
	if !strings.Contains(w.mapping, old) {
		w.t.Fatalf("the mapping does not hold %q", old)
	}
	w.mapping = strings.Replace(w.mapping, old, text, 1)
}

func TestAPreviewTellsWhatAnEditWouldChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("1", "ann", "ann@example.com")
	w.books.put("2", "Bob", "bob@example.com")
	w.books.put("3", "cid", "cid@example.com")
	w.books.putAs("4", map[string]string{"No": "4", "Name": "Left Out", "Email": "left@example.com", "Group": "other"})
	w.books.putAs("5", map[string]string{"No": "5", "Name": "Broken", "Email": "broken", "Group": "payer"})
	w.run()

	w.edit("name: trim(Name)\n  people:", "name: upper(Name)\n  people:")
	w.edit("postCode: Postcode", `postCode: 'No == "2" ? "" : Postcode'`)
	w.edit(`include: Group == "payer"`, `include: No != "3"`)
	before := len(w.service.Requests())
	got := w.preview(syncer.PreviewOptions{Limit: 10})
	if n := len(w.service.Requests()) - before; n != 0 {
		t.Errorf("the preview made %d requests", n)
	}

	got.Mapping, got.Weight = "", state.Weight{}
	for i := range got.Customers {
		got.Customers[i].BillingID = ""
	}
	upper := []syncer.FieldManner{{Path: "name", Manner: syncer.MannerCase}}
	const canSign = "The mapping excludes the record, and the payer can still sign: a mandate waits for its signature. Nothing was cancelled."
	want := syncer.Preview{
		Connection: "acme", Records: 5, Linked: 3, Creates: 1, Updates: 2, Held: 2, Links: 1,
		Limits: "1 field would be emptied (the limit is 0).",
		Fields: []syncer.FieldCount{{Path: "name", Changed: 2}, {Path: "addresses[0].postCode", Changed: 1, Emptied: 1}},
		Blanked: []syncer.BlankedField{
			{SourceID: "2", Path: "addresses[0].postCode", From: "LS1 4AP"},
		},
		Groups: []syncer.ChangeGroup{
			{Changes: upper, Count: 1, SourceIDs: []string{"1"},
				Example: []connector.FieldChange{{Path: "name", From: "ann", To: "ANN"}}},
			{
				Changes: append([]syncer.FieldManner{{Path: "addresses[0].postCode", Manner: syncer.MannerEmptied}}, upper...),
				Count:   1, SourceIDs: []string{"2"},
				Example: []connector.FieldChange{{Path: "addresses[0].postCode", From: "LS1 4AP"},
					{Path: "name", From: "Bob", To: "BOB"}},
			},
		},
		Included:   syncer.Named{Count: 1, SourceIDs: []string{"4"}},
		Dropped:    syncer.Named{Count: 1, Linked: 1, SourceIDs: []string{"3"}},
		Mended:     syncer.Named{SourceIDs: []string{}},
		KeyChanges: syncer.Named{SourceIDs: []string{}},
		Failures: []syncer.Failure{
			{Reason: connector.ReasonLeftWithMandate, Count: 1, New: 1, SourceIDs: []string{"3"}, Detail: canSign},
			{Reason: connector.ReasonEmailMalformed, Count: 1, SourceIDs: []string{"5"},
				Detail: "The e-mail address of contact 1 is not well formed."},
		},
		Customers: []syncer.CustomerPreview{
			{SourceID: "1", Key: key("1"), Verdict: state.Included, Action: connector.ActionUpdate,
				Diff: []connector.FieldChange{{Path: "name", From: "ann", To: "ANN"}}},
			{SourceID: "2", Key: key("2"), Verdict: state.Included, Action: connector.ActionUpdate,
				Diff: []connector.FieldChange{
					{Path: "addresses[0].postCode", From: "LS1 4AP"}, {Path: "name", From: "Bob", To: "BOB"},
				}},
			{SourceID: "3", Key: key("3"), Verdict: state.Excluded, Reason: connector.ReasonLeftWithMandate, Detail: canSign},
			{SourceID: "4", Key: key("4"), Verdict: state.Included, Action: connector.ActionCreate, Link: true,
				Diff: []connector.FieldChange{
					{Path: "addresses[0].line1", To: "1 Quay St"}, {Path: "externalData.customerNo", To: "4"},
					{Path: "name", To: "LEFT OUT"},
					{Path: "people[0].email", To: "left@example.com"}, {Path: "people[0].name", To: "Left Out"},
				}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("preview (-want +got):\n%s", diff)
	}
}

func key(value string) connector.Key { return connector.Key{Name: "customerNo", Value: value} }

func TestAPreviewNamesKeysThatWouldChangeAndTellsOfOneRecordAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 30 {
		w.books.put(fmt.Sprintf("%02d", i), fmt.Sprintf("Payer %d", i), fmt.Sprintf("p%d@example.com", i))
	}
	w.run()
	w.edit("customerNo: No", "customerNo: upper(Name)")
	got := w.preview(syncer.PreviewOptions{Limit: 5, SourceID: "17"})
	if got.KeyChanges.Count != 30 || got.KeyChanges.Linked != 30 || len(got.KeyChanges.SourceIDs) != 5 || got.Held != 30 {
		t.Errorf("key changes %+v, held %d", got.KeyChanges, got.Held)
	}
	if len(got.Customers) != 1 || got.Customers[0].SourceID != "17" ||
		got.Customers[0].Reason != connector.ReasonKeyChanged {
		t.Errorf("customers %+v", got.Customers)
	}
}

// The mappings that TestAPreviewSaysWhatThePlanDoes goes from and to.
var previewMappings = []func(string) string{
	func(m string) string { return m },
	func(m string) string { return m + "# another version\n" },
	func(m string) string {
		return strings.Replace(m, `include: Group == "payer"`, `include: Group != "payer"`, 1)
	},
	func(m string) string { return strings.Replace(m, "include: Group == \"payer\"\n", "", 1) },
	func(m string) string { return strings.Replace(m, "customerNo: No", "customerNo: 'truncate(No, 1)'", 1) },
	func(m string) string { return strings.Replace(m, "name: trim(Name)\n", "name: upper(Name)\n", 1) },
	func(m string) string {
		return strings.Replace(m, "postCode: Postcode", "postCode: digits(Postcode)", 1)
	},
	func(m string) string {
		return strings.Replace(m, "lower(trim(Email))", `'replace(Email, "example", "")'`, 1)
	},
	func(m string) string { return m[:strings.Index(m, "mandate:")] },
}

// TestAPreviewSaysWhatThePlanDoes makes small random worlds, leaves them at some
// point between plan and apply, edits the mapping, and compares the preview with
// the plan of the very next run.
func TestAPreviewSaysWhatThePlanDoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(t)
			w.mapping = previewMappings[r.IntN(5)](standardMapping)
			w.syncer.Settings.Guards = syncer.Guards{MaxCreates: 2, MaxChangesFloor: 1}
			for range 1 + r.IntN(3) {
				w.scramble(r)
				if r.IntN(2) == 0 {
					w.service.Inject(sandbox.Fault{
						Kind:   pick(r, []sandbox.FaultKind{sandbox.LostRequest, sandbox.LostResponse, sandbox.ErrorBefore}),
						Status: http.StatusUnprocessableEntity, Method: pick(r, []string{"POST", "PUT", "GET"}),
						Count: 1 + r.IntN(4), Probability: 0.6,
					})
				}
				w.runWith(t.Context(), w.anyRun(r))
				w.service.ClearFaults()
			}
			w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan}) // what the service holds is known as it is
			from := w.mapping
			if r.IntN(3) > 0 {
				w.mapping = pick(r, previewMappings)(standardMapping)
			}
			got := w.preview(syncer.PreviewOptions{Limit: 3})
			res := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
			var stands *syncer.Standstill
			if res.Err != nil && !errors.As(res.Err, &stands) {
				t.Fatal(res.Err)
			}
			plan := res.Plan
			said := []any{got.Creates, got.Adopts, got.Updates, got.Links, got.Weight, got.Limits, got.Excluded}
			does := []any{plan.Creates, plan.Adopts, plan.Updates, plan.Links, plan.Open, plan.Limits, res.Counts.Excluded}
			if diff := cmp.Diff(does, said); diff != "" {
				t.Errorf("preview is another than the plan: creates, adopts, updates, links, weight, limits, excluded (-plan +preview):\n%s\nfrom\n%s\nto\n%s", diff, from, w.mapping)
			}
			if stands == nil { // else the plan before it stays
				counts, err := w.ledger.UnaskedCounts(t.Context(), "acme")
				if diff := cmp.Diff(counts, got.NotAsked, cmpopts.EquateEmpty()); err != nil || diff != "" {
					t.Errorf("payers that are not asked, %v (-plan +preview):\n%s\nfrom\n%s\nto\n%s", err, diff, from, w.mapping)
				}
			}
			if sum := got.Creates + got.Adopts + got.Updates + got.Unchanged + got.Excluded + got.Held +
				got.InFlight; sum != got.Records {
				t.Errorf("the classes add up to %d of %d records", sum, got.Records)
			}
		})
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// scramble changes the accounting system a little.
func (w *world) scramble(r *rand.Rand) {
	for range 3 + r.IntN(4) {
		no := fmt.Sprint(10 + r.IntN(8))
		w.books.putAs(no, map[string]string{
			"No":       no, // the first figure alone is shared by all
			"Name":     pick(r, []string{"Ann", "bob ", "Cid Ltd", ""}) + no,
			"Email":    pick(r, []string{"a" + no + "@example.com", "", "broken"}),
			"Postcode": pick(r, []string{"LS1 4AP", "", "York"}), "Group": pick(r, []string{"payer", "payer", "other"}),
		})
	}
	switch r.IntN(4) {
	case 0: // a row is gone
		w.books.mu.Lock()
		w.books.records = slices.Delete(w.books.records, 0, 1)
		w.books.mu.Unlock()
	case 1: // a record is archived
		w.books.mu.Lock()
		w.books.records[0].State = connector.RecordArchived
		w.books.mu.Unlock()
	}
}

// anyRun returns how a run is made: it is planned only, waits, or sends.
func (w *world) anyRun(r *rand.Rand) syncer.RunOptions {
	o := syncer.RunOptions{Kind: pick(r, []connector.RunKind{connector.RunPlan, connector.RunSync, connector.RunSync})}
	if r.IntN(3) > 0 {
		o.Approve = func(state.Plan) (bool, error) { return true, nil }
	}
	return o
}

// foretells fails unless a preview says what the plan of the next run does.
func (w *world) foretells() syncer.Preview {
	w.t.Helper()
	said := w.preview(syncer.PreviewOptions{})
	plan := w.runWith(w.t.Context(), syncer.RunOptions{Kind: connector.RunPlan}).Plan
	if diff := cmp.Diff(
		[]any{plan.Creates, plan.Adopts, plan.Updates, plan.Links, plan.Open, plan.Limits},
		[]any{said.Creates, said.Adopts, said.Updates, said.Links, said.Weight, said.Limits}); diff != "" {
		w.t.Errorf("creates, adopts, updates, links, weight, limits (-plan +preview):\n%s", diff)
	}
	return said
}

func TestAPreviewKnowsThatARefusedUpdateIsNotTriedAgainByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("1", "Ann", "ann@example.com")
	w.run()
	w.books.put("1", "Anna", "ann@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusUnprocessableEntity,
		Method: http.MethodPut, Path: "/api/customers", Count: 1})
	w.run()
	if got := w.foretells(); got.Updates != 0 {
		t.Errorf("with the mapping as it was %d updates are foreseen", got.Updates)
	}
	w.mapping += "# edited\n"
	if got := w.foretells(); got.Updates != 0 {
		t.Errorf("with a mapping that says the same %d updates are foreseen", got.Updates)
	}
	w.mapping = strings.Replace(w.mapping, "name: trim(Name)", `name: trim(Name) + " Ltd"`, 1)
	if got := w.foretells(); got.Updates != 1 {
		t.Errorf("with a mapping that says something else %d updates are foreseen", got.Updates)
	}
}
