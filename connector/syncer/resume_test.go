package syncer_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/internal/longtest"
	"payersync/state"
)

// edit is a colleague's edit of one member of a customer.
type edit struct{ member, value string }

var address = edit{"addresses", `[{"line1":"9 Other St","postCode":"LS1 4AP"}]`}

// operation is a write on a customer of which the answer is lost.
type operation struct {
	// begin makes a world whose next run of a connection sends the write.
	begin func(t *testing.T) (*world, syncer.Connection)
	same  edit // of what the write changes
	other edit // of another field of ours
	done  func(w *world) bool
	told  connector.Reason // when nobody edits the customer; "" for nothing
	again string           // a loss after which the write is planned again, and shows what it overwrites
}

var operations = map[string]operation{
	"update": {
		begin: func(t *testing.T) (*world, syncer.Connection) {
			w := withContact(t, "ann@x.example")
			w.books.put("A1", "Ann Ray", "ann@x.example")
			return w, w.connection()
		},
		same: edit{"name", `"Ann Fox"`}, other: edit{"people", `[{"name":"Ann Ray","email":"corrected@x.example"}]`},
		done: func(w *world) bool { return w.member("A1", "name") == `"Ann Ray"` },
	},
	"undo of an update": {
		begin: func(t *testing.T) (*world, syncer.Connection) {
			w := withContact(t, "ann@x.example")
			w.books.put("A1", "Ann Ray", "ann@x.example")
			w.complete(w.run())
			w.does(w.undo(connector.ActionUpdate))
			return w, w.connection()
		},
		same: edit{"name", `"Ann Fox"`}, other: edit{"people", `[{"name":"Ann Ray","email":"corrected@x.example"}]`},
		done: func(w *world) bool { return w.member("A1", "name") == `"Ann Lee"` },
	},
	"unlink": {
		begin: func(t *testing.T) (*world, syncer.Connection) {
			w := withContact(t, "ann@x.example")
			w.unlink()
			return w, w.connection()
		},
		same: edit{"externalData", `{"customerNo":"X9"}`}, other: edit{"name", `"Ann Fox"`},
		done: func(w *world) bool { return w.payer("A1").BillingID == "" },
		told: connector.ReasonUnlinked,
	},
	"undo of an adoption": {
		begin: func(t *testing.T) (*world, syncer.Connection) {
			w, customer := likened(t)
			w.say("A1", customer, state.WordAccept)
			w.complete(w.run())
			w.books.put("A1", "Northwind Trading", "a@example.com")
			w.complete(w.run())
			w.does(w.undo(connector.ActionAdopt))
			return w, w.connection()
		},
		same: edit{"name", `"Southwind"`}, other: address,
		done: func(w *world) bool { return w.payer("A1").BillingID == "" },
		told: connector.ReasonUnlinked,
	},
	"adoption by key": {
		begin: func(t *testing.T) (*world, syncer.Connection) {
			w := newWorld(t)
			w.add(`{"name":"Northwind","people":[{"name":"Northwind","email":"a@example.com"}],"externalData":{"customerNo":"A1"}}`)
			w.books.put("A1", "Northwind", "a@example.com")
			return w, w.connection()
		},
		same: address, other: edit{"people", `[{"name":"Northwind","email":"corrected@x.example"}]`},
		done: func(w *world) bool {
			return w.payer("A1").BillingID != "" && strings.Contains(w.member("A1", "addresses"), "1 Quay St")
		},
	},
	"adoption by word": {
		begin: func(t *testing.T) (*world, syncer.Connection) {
			w, customer := likened(t)
			w.say("A1", customer, state.WordAccept)
			return w, w.connection()
		},
		same: edit{"externalData", `{"customerNo":"X9"}`}, other: edit{"name", `"Southwind"`},
		done:  func(w *world) bool { return w.payer("A1").BillingID != "" },
		again: lostBefore,
	},
	"rekey": {
		begin: func(t *testing.T) (*world, syncer.Connection) {
			w := withContact(t, "ann@x.example")
			w.books.putAs("A1", map[string]string{"No": "N7", "Name": "Ann Lee", "Email": "ann@x.example", "Postcode": "LS1 4AP",
				"Group": "payer"})
			w.run()
			w.does(w.move("A1", "A1"))
			return w, w.connection()
		},
		same: edit{"externalData", `{"customerNo":"X9"}`}, other: edit{"name", `"Ann Fox"`},
		done: func(w *world) bool { return w.payer("A1").Key.Value == "N7" && w.byKey()["N7"].ID != "" },
	},
	"rekey of a renumbered record": {
		begin: func(t *testing.T) (*world, syncer.Connection) {
			w := withContact(t, "ann@x.example")
			w.books.put("N7", "Ann Lee", "ann@x.example")
			w.books.set(connector.Record{SourceID: "A1", State: connector.RecordArchived})
			w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
			w.does(w.move("A1", "N7"))
			return w, w.connection()
		},
		same: edit{"externalData", `{"customerNo":"X9"}`}, other: edit{"name", `"Ann Fox"`},
		done: func(w *world) bool { return w.payer("N7").BillingID != "" && w.byKey()["N7"].ID != "" },
	},
	"merge": {
		begin: func(t *testing.T) (*world, syncer.Connection) {
			w := withContact(t, "ann@x.example")
			w.books.put("N7", "Ann Lee", "ann@x.example")
			w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
			w.does(w.merge("A1", "N7"))
			return w, w.connection()
		},
		same: edit{"externalData", `{"customerNo":"X9"}`}, other: edit{"name", `"Ann Fox"`},
		done: func(w *world) bool { return w.payer("N7").BillingID != "" && w.byKey()["N7"].ID != "" },
	},
	"books that moved": {
		begin: func(t *testing.T) (*world, syncer.Connection) {
			w, b := aMove(t, 1)
			if left, err := w.moveTo(b, "C0000", "700"); err != nil || len(left) > 0 {
				t.Fatalf("left are %v: %v", left, err)
			}
			return w, w.connectionOf(b)
		},
		same: edit{"externalData", `{"customerNo":"C0000","accountId":"X9"}`}, other: edit{"name", `"Ann Fox"`},
		done: func(w *world) bool {
			return w.payerIn(next, "700").BillingID != "" && strings.Contains(string(w.only().Raw), `"accountId":"700"`)
		},
	},
}

// only returns the one customer that there is.
func (w *world) only() sandbox.Customer {
	w.t.Helper()
	all := w.service.Customers()
	if len(all) != 1 {
		w.t.Fatalf("there are %d customers, want one", len(all))
	}
	return all[0]
}

// runOf makes a run of a connection that approves its own plan. It fails if the process dies.
func (w *world) runOf(c syncer.Connection) error {
	_, err := w.syncer.Run(w.t.Context(), c, syncer.RunOptions{
		Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test",
		Approve: func(state.Plan) (bool, error) { return true, nil },
	})
	return err
}

const lostBefore, lostAfter = "lost before the service did it", "lost after the service did it"

// losses are the ways in which the answer to an update is lost. After the service did it, the
// process dies as well: otherwise the same run reads the customer and ends the update.
var losses = map[string]func(w *world, c syncer.Connection){
	lostBefore: func(w *world, c syncer.Connection) {
		w.service.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPut, Path: "/api/customers"})
		w.does(w.runOf(c))
		w.service.ClearFaults()
	},
	lostAfter: func(w *world, c syncer.Connection) { w.dying(c, http.MethodPut) },
}

// memberOf is member of the one customer.
func (w *world) memberOf(member string) string {
	w.t.Helper()
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(w.only().Raw, &members); err != nil {
		w.t.Fatal(err)
	}
	return string(members[member])
}

// editOnly is a colleague's edit of the one customer.
func (w *world) editOnly(e edit) {
	w.t.Helper()
	c, members := w.only(), map[string]json.RawMessage{}
	if err := json.Unmarshal(c.Raw, &members); err != nil {
		w.t.Fatal(err)
	}
	members[e.member] = json.RawMessage(e.value)
	raw, err := json.Marshal(members)
	w.does(err)
	w.does(w.service.Edit(c.ID, raw))
}

// Each write on a customer loses its answer, and a colleague edits the customer before the
// next run: the edit stays, and the write is done beside it or a person is told.
//
// covers F10, F251
func TestNoWriteWithoutAnAnswerOverwritesAColleaguesEdit(t *testing.T) {
	t.Parallel()
	for name, op := range operations {
		edits := map[string]edit{"the same field": op.same, "another field": op.other, "the address": address,
			"not ours": {"notes", `"call after noon"`}, "nobody": {"notes", ""}}
		for how, lose := range losses {
			for what, e := range edits {
				t.Run(strings.Join([]string{name, how, what}, ", "), func(t *testing.T) {
					if what != "the same field" { // the hardest of them
						longtest.Story(t, longtest.Computing)
					}
					t.Parallel()
					w, c := op.begin(t)
					w.service.ResetRequests()
					lose(w, c)
					if len(w.bodies(http.MethodPut, "/api/customers")) == 0 {
						t.Fatal("no write was sent")
					}
					if e.value != "" {
						w.editOnly(e)
					}
					for range 3 {
						w.restart()
						w.clock.advance(state.Arrival + time.Minute)
						w.does(w.runOf(c))
					}
					if got := w.memberOf(e.member); got != e.value && (how != op.again || !w.showed(e)) {
						t.Errorf("the colleague's %s became %s", e.value, got)
					}
					w.expectDoneOrTold(op, e)
					w.goOnByWord(c, op)
				})
			}
		}
	}
}

// member returns a member of the customer with a key.
func (w *world) member(key, member string) string {
	w.t.Helper()
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(w.byKey()[key].Raw, &members); err != nil {
		w.t.Fatal(err)
	}
	return string(members[member])
}

// showed reports whether a plan showed what a colleague wrote before it overwrote that.
func (w *world) showed(e edit) bool {
	w.t.Helper()
	past, err := w.ledger.ChangesOf(w.t.Context(), "acme", "A1")
	w.does(err)
	return slices.ContainsFunc(past, func(c state.PastChange) bool {
		return slices.ContainsFunc(c.Diff, func(f connector.FieldChange) bool {
			return strings.HasPrefix(f.Path, e.member) && strings.Contains(e.value, strconv.Quote(f.From))
		})
	})
}

// expectDoneOrTold fails the test unless the operation is done, or a person is told. An edit of
// what is not ours keeps nothing from its end.
func (w *world) expectDoneOrTold(op operation, e edit) {
	w.t.Helper()
	told, done := w.attention(), op.done(w)
	if !done && len(told) == 0 {
		w.t.Error("the write is not done, and nobody is told")
	}
	if e.member == "notes" &&
		(!done || len(told) > 1 || len(told) == 1 && !slices.Contains(slices.Collect(maps.Values(told)), string(op.told))) {
		w.t.Errorf("done: %v; told of %v, want %q", done, told, op.told)
	}
}

// goOnByWord has a person send our values for each record with drift, and fails the test unless that ends the
// operation.
func (w *world) goOnByWord(c syncer.Connection, op operation) {
	w.t.Helper()
	said := false
	for id, reason := range w.attention() {
		if reason != string(connector.ReasonForeignChange) {
			continue
		}
		said = true
		w.does(w.ledger.Do(w.t.Context(), func(tx *state.Tx) error {
			_, err := tx.RetryRecord(c.Name, id)
			return err
		}))
	}
	if !said {
		return
	}
	w.does(w.runOf(c))
	w.does(w.runOf(c))
	if told := w.attention(); !op.done(w) || len(told) > 0 {
		w.t.Errorf("after a person's word it is done: %v; told of %v", op.done(w), told)
	}
}

// What a colleague wrote meanwhile is nothing that a release takes back: it is planned again, and
// the new plan does not show the colleague's field.
//
// covers F76, F251
func TestAReleaseWithoutAnAnswerIsPlannedAgainAfterAColleaguesEdit(t *testing.T) {
	t.Parallel()
	op := operations["undo of an adoption"]
	w, c := op.begin(t)
	losses[lostBefore](w, c)
	sent := w.releases()
	w.editOnly(op.same)
	w.clock.advance(state.Arrival + time.Minute)
	w.does(w.runOf(c))
	w.does(w.runOf(c))
	now := w.releases()
	if len(sent) != 1 || len(now) != 2 || now[0].State != connector.ChangeVoid || now[1].State != connector.ChangeDone {
		t.Fatalf("the releases were %+v and are %+v", sent, now)
	}
	ofName := func(f connector.FieldChange) bool { return f.Path == "name" }
	if !slices.ContainsFunc(now[0].Diff, ofName) || slices.ContainsFunc(now[1].Diff, ofName) {
		t.Errorf("the first plan showed %v, and the second %v", now[0].Diff, now[1].Diff)
	}
}

// releases returns the changes of A1 that let its customer go.
func (w *world) releases() []state.PastChange {
	w.t.Helper()
	past, err := w.ledger.ChangesOf(w.t.Context(), "acme", "A1")
	w.does(err)
	return slices.DeleteFunc(past, func(c state.PastChange) bool { return c.Action != connector.ActionUnlink })
}

// moves are the operations that write another key.
var moves = []string{"rekey", "rekey of a renumbered record", "merge", "books that moved"}

// The write of a new key is lost, a colleague edits another field, and a person accepts that. The
// key is still to be written: a person is told until it is.
//
// covers F121, F251
func TestAcceptingAColleaguesEditLeavesNoKeyUnwritten(t *testing.T) {
	t.Parallel()
	for _, name := range moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := operations[name]
			w, c := op.begin(t)
			losses[lostBefore](w, c)
			w.editOnly(op.other)
			w.clock.advance(state.Arrival + time.Minute)
			w.does(w.runOf(c))
			for id := range w.attention() {
				d, err := w.syncer.DriftOf(t.Context(), c, w.payerIn(c.Name, id))
				w.does(err)
				if len(d.Fields) != 1 || d.Fields[0].Path != op.other.member {
					t.Errorf("a person may accept %v, want the name alone", d.Fields)
				}
				w.does(w.syncer.TakeTheirs(t.Context(), d, nil, ann))
			}
			w.does(w.runOf(c))
			if told := w.attention(); op.done(w) || len(told) != 1 {
				t.Errorf("the key is written: %v; told of %v", op.done(w), told)
			}
			w.goOnByWord(c, op)
			if got := w.memberOf(op.other.member); got != op.other.value {
				t.Errorf("the accepted %s became %s", op.other.value, got)
			}
		})
	}
}
