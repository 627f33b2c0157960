package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/sandbox"
	"payersync/internal/longtest"
	"payersync/state"
)

// The payer with the finding, and another one to be left alone.
var (
	matterRow = row{ID: "M1", Name: "Matter Ltd", Email: "matter@example.org", Street: "1 Row", Depot: ""}
	otherRow  = row{ID: "A00009", Name: "Other Ltd", Email: "other@example.org", Street: "9 Row", Depot: ""}
)

// customersPath is the address of the service's customers.
const customersPath = "/api/customers"

// situations creates, for each reason, a real case of record M1, and returns the finding's id. Each comes
// from records of a source and answers of a service, as far as the program can make them.
var situations = map[connector.Reason]func(*stage) string{
	connector.ReasonRecordUnreadable: func(s *stage) string {
		return s.reads(matterRow, row{ID: "M1", Name: "Twin"}, otherRow)
	},
	connector.ReasonMappingFailed: func(s *stage) string {
		s.edit("mapping.yaml", "name: trim(Name)", `name: 'number(Phone) > 0 ? trim(Name) : ""'`)
		m, other := matterRow, otherRow
		m.Phone, other.Phone = "one", "1"
		return s.reads(m, other)
	},
	connector.ReasonKeyBlank: func(s *stage) string {
		s.keyed()
		return s.reads(matterRow, with(otherRow, "K9"))
	},
	connector.ReasonKeyShared: func(s *stage) string {
		s.keyed()
		return s.reads(with(matterRow, "K1"),
			row{ID: "M2", Name: "Second", Email: "second@example.org", Street: "3 Row", Depot: "K1"}, with(otherRow, "K9"))
	},
	connector.ReasonKeyChanged: func(s *stage) string {
		s.keyed()
		s.reads(with(matterRow, "K1"), with(otherRow, "K9"))
		return s.reads(with(matterRow, "K2"), with(otherRow, "K9"))
	},
	connector.ReasonNameMissing: func(s *stage) string {
		return s.reads(row{ID: "M1", Email: "matter@example.org", Street: "1 Row"}, otherRow)
	},
	connector.ReasonEmailMalformed: func(s *stage) string {
		return s.reads(row{ID: "M1", Name: "Matter Ltd", Email: "matter(at)example.org"}, otherRow)
	},
	connector.ReasonTooManyAddresses: func(s *stage) string {
		return s.reads(with(matterRow, "2 Quay"), otherRow)
	},
	connector.ReasonTwoWay: func(s *stage) string {
		s.reads(otherRow)
		s.edit("payersync.yaml", "mapping: mapping.yaml}", "mapping: mapping.yaml, two_way: link_only}")
		return s.reads(matterRow, otherRow)
	},
	connector.ReasonTwoPrimary: func(s *stage) string {
		s.edit("payersync.yaml", "  profile: sandbox\n", "  profile: sandbox\n  dialect: {person_primary: main}\n")
		s.edit("mapping.yaml", "    - {name: trim(Name)",
			"    - {name: Phone, primary: true}\n    - {primary: true, name: trim(Name)")
		m := matterRow
		m.Phone = "1"
		return s.reads(m, otherRow)
	},
	connector.ReasonIllegalText: func(s *stage) string {
		return s.reads(row{ID: "M1", Name: "Mat\x01ter", Email: "matter@example.org"}, otherRow)
	},
	connector.ReasonLikeness: func(s *stage) string {
		s.edit("payersync.yaml", "guards: {max_creates: 20}", "guards: {max_creates: 20, first_matching: false}")
		s.added(`{"name":"Matter Ltd","people":[{"name":"Matter Ltd","email":"matter@example.org"}]}`)
		return s.reads(matterRow, otherRow)
	},
	connector.ReasonRenumbered: func(s *stage) string {
		old := matterRow
		old.ID = "M0"
		s.reads(old, otherRow)
		return s.reads(matterRow, otherRow)
	},
	connector.ReasonEnteredTwice: func(s *stage) string {
		first := matterRow
		first.ID = "M0"
		s.reads(first, otherRow)
		return s.reads(first, matterRow, otherRow)
	},
	connector.ReasonDuplicateCustomer: func(s *stage) string {
		s.reads(matterRow, otherRow)
		s.added(`{"name":"Matter Ltd","people":[{"name":"Matter Ltd","email":"matter@example.org"}],"addresses":[{"line1":"1 Row"}]}`)
		s.do([]string{"sweep"}, exitDone, exitAttention)
		return s.swept()
	},
	connector.ReasonKeyDoubled: func(s *stage) string {
		s.reads(matterRow, otherRow)
		s.added(`{"name":"Double","externalData":{"accountNumber":"M1"}}`)
		return s.swept()
	},
	connector.ReasonKeyRemoved: func(s *stage) string {
		s.reads(matterRow, otherRow)
		s.edited("Matter Ltd", func(f map[string]any) { f["externalData"] = map[string]string{"note": "x"} })
		return s.swept()
	},
	connector.ReasonOtherKey: func(s *stage) string {
		s.reads(matterRow, otherRow)
		s.edited("Matter Ltd", func(f map[string]any) { f["externalData"] = map[string]string{"accountNumber": "Z7"} })
		return s.swept()
	},
	connector.ReasonKeyDisputed: func(s *stage) string {
		s.added(`{"name":"Somebody Else Entirely","people":[{"name":"Nobody","email":"nobody@elsewhere.example"}],"externalData":{"accountNumber":"M1"}}`)
		return s.reads(matterRow, otherRow)
	},
	connector.ReasonUnlinked: func(s *stage) string {
		s.reads(matterRow, otherRow)
		s.do([]string{"payers", "different", "M1", "--reason", "matched by mistake", "--yes"}, exitDone)
		return s.again()
	},
	connector.ReasonAnswerMismatch: func(s *stage) string {
		answer := func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || r.URL.Path != customersPath {
				return false
			}
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusCreated)
			fmt.Fprint(rw, `{"id":"0c9f3a52-4b8e-4a26-9f0e-5a1f6c7d8e90","name":"Third","externalData":{"accountNumber":"T3"}}`)
			return true
		}
		s.reads(otherRow)
		s.front.Store(&answer)
		defer s.front.Store(nil)
		return s.reads(matterRow, otherRow)
	},
	connector.ReasonKeyUnsettled: func(s *stage) string {
		s.reads(otherRow)
		id := s.added(`{"name":"Matter Ltd","externalData":{"accountNumber":"M1"}}`)
		s.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusNotFound, Method: http.MethodGet,
			Path: customersPath + "/" + id})
		return s.reads(matterRow, otherRow)
	},
	connector.ReasonKeyUnderWay: func(s *stage) string {
		s.keyed()
		s.reads(with(otherRow, "K9"))
		s.box.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPost, Path: customersPath})
		first := with(matterRow, "K1")
		first.ID = "M0"
		s.reads(first, with(otherRow, "K9"))
		// and its request may arrive all the same
		s.do([]string{"attention", "close", "--give-up", "M0", "--reason", "a test record"}, exitDone)
		second := with(matterRow, "K1")
		second.Name, second.Email = "Second", "second@example.org"
		return s.reads(first, second, with(otherRow, "K9"))
	},
	connector.ReasonCustomerMissing: func(s *stage) string {
		s.reads(matterRow, otherRow)
		s.wait(time.Hour)
		s.must(s.box.Delete(s.customer("Matter Ltd").ID))
		return s.swept()
	},
	connector.ReasonRejected: func(s *stage) string {
		s.reads(otherRow)
		s.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusUnprocessableEntity, Method: http.MethodPost,
			Path: customersPath})
		return s.reads(matterRow, otherRow)
	},
	connector.ReasonOutcomeUnknown: func(s *stage) string {
		s.reads(otherRow)
		s.box.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPut, Path: linkCalls, Count: 2})
		s.reads(matterRow, otherRow)
		s.sync()
		s.sync() // within the pause: nothing is asked for
		return "M1"
	},
	connector.ReasonNoAnswer: func(s *stage) string {
		s.reads(otherRow)
		s.box.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPost, Path: customersPath})
		s.reads(matterRow, otherRow)
		for range 12 {
			s.wait(time.Hour)
			s.sync()
		}
		return "M1"
	},
	connector.ReasonForeignChange: func(s *stage) string {
		s.reads(matterRow, otherRow)
		s.edited("Matter Ltd", func(f map[string]any) { f["name"] = "Renamed By Hand" })
		return s.swept()
	},
	connector.ReasonLinkLost: func(s *stage) string {
		s.reads(otherRow)
		s.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut, Path: linkCalls})
		s.reads(matterRow, otherRow)
		s.sync()
		return s.again()
	},
	connector.ReasonLinkRefused: func(s *stage) string {
		s.reads(otherRow)
		s.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusUnprocessableEntity, Method: http.MethodPut,
			Path: linkCalls})
		return s.reads(matterRow, otherRow)
	},
	connector.ReasonMandateCancelled: func(s *stage) string {
		s.reads(matterRow, otherRow)
		s.must(s.box.PayerCancel(s.mandateOf("M1").ID))
		return s.swept()
	},
	connector.ReasonStatusUnknown: func(s *stage) string {
		s.reads(matterRow, otherRow)
		s.must(s.box.SetStatus(s.mandateOf("M1").ID, "PAUSED"))
		return s.swept()
	},
	connector.ReasonRecordGone: func(s *stage) string {
		s.reads(matterRow, row{ID: "M2", Name: "Second", Email: "second@example.org", Street: "3 Row"}, otherRow)
		s.must(s.box.PayerCancel(s.mandateOf("M1").ID))
		s.swept()
		s.do([]string{"payers", "same", "M1", "--into", "M2", "--reason", "one payer", "--yes"}, exitDone)
		return s.again()
	},
	connector.ReasonLeftWithMandate: func(s *stage) string {
		s.edit("mapping.yaml", "customer:\n", "include: Depot != \"left\"\ncustomer:\n")
		s.edit("mapping.yaml", `, {line1: Depot, city: "Hull"}`, "")
		s.reads(matterRow, otherRow)
		return s.reads(with(matterRow, "left"), otherRow)
	},
	connector.ReasonEventNotUnderstood: func(s *stage) string {
		s.reads(matterRow, otherRow)
		const key = "event:not-understood"
		s.stored(func(tx *state.Tx) error {
			_, err := tx.Receive(state.Delivery{Key: key, Type: "dd-mandate",
				Body: fmt.Appendf(nil, `{"about":{"who":%q}}`, s.customer("Matter Ltd").ID), State: connector.InboxQuarantined,
				Detail: "It names no customer."})
			return err
		})
		return key
	},
	connector.ReasonAddressBounced: func(s *stage) string {
		id := s.reads(matterRow, otherRow)
		s.stored(func(tx *state.Tx) error {
			const there = "hash of the address"
			return errors.Join(tx.NoteLetterAddress(state.RecordID{Connection: "acme", SourceID: id}, there),
				tx.AddLetterStop(state.LetterStop{Scope: state.StopAddress, Recipient: there, Why: state.StopBounced, Note: "5.1.1",
					Actor: "mail server"}))
		})
		return id
	},
	connector.ReasonSubscriptionChanged: func(s *stage) string {
		s.reads(matterRow, otherRow)
		s.do([]string{"webhooks", "subscribe"}, exitDone)
		s.do([]string{"sweep"}, exitDone)
		s.must(s.box.DeleteSubscription())
		s.do([]string{"sweep"}, exitAttention)
		return admin.Subscription
	},
	connector.ReasonForgotten: func(s *stage) string {
		old := matterRow
		old.ID = "M0"
		s.reads(old, otherRow)
		s.do([]string{"ledger", "forget", "M0", "--mandate-stays", "--yes", "--reason", "ticket 88"}, exitDone)
		return s.reads(matterRow, otherRow)
	},
	connector.ReasonGivenUpChanged: func(s *stage) string {
		s.reads(row{ID: "M1", Name: "Matter Ltd", Email: "matter(at)example.org"}, otherRow)
		s.do([]string{"attention", "close", "--give-up", "M1", "--reason", "nobody mends it"}, exitDone)
		s.again()
		return s.reads(matterRow, otherRow)
	},
}

// beforehand is what a person does in the service, or in the configuration, before a way is
// taken: what was in the way is put right.
var beforehand = map[connector.Act]func(*stage){
	connector.ActRetry:   func(s *stage) { s.box.ClearFaults() },
	connector.ActRequest: func(s *stage) { s.box.ClearFaults() },
	connector.ActReplay: func(s *stage) {
		s.edit("payersync.yaml", "    signature:", "    event_paths: {customer_id: [about.who]}\n    signature:")
	},
}

func with(r row, depot string) row { r.Depot = depot; return r }

// reads syncs these rows, and returns the id of the one that is the matter.
func (s *stage) reads(rows ...row) string {
	s.t.Helper()
	s.export(rows...)
	return s.again()
}

func (s *stage) again() string {
	s.t.Helper()
	s.do([]string{"sync", "--yes"}, exitDone, exitAttention)
	return "M1"
}

// swept looks at the whole service, and syncs.
func (s *stage) swept() string {
	s.t.Helper()
	s.do([]string{"sweep"}, exitDone, exitAttention)
	return s.again()
}

// stored writes to the ledger, as a webhook would.
func (s *stage) stored(do func(*state.Tx) error) {
	s.t.Helper()
	l, err := state.Open(s.t.Context(),
		state.Options{Path: s.path("payersync.db"), KeyFile: s.path("payersync.key"), Now: s.now})
	s.must(err)
	s.must(l.Do(s.t.Context(), do))
	s.must(l.Close())
}

// shellWords splits a command as a shell would, where a word in quotes holds no quote.
func shellWords(command string) (words []string) {
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

// untouched is what nobody but its own record may change.
func (s *stage) untouched() string {
	s.t.Helper()
	c := s.customer("Other Ltd")
	var told []string
	for _, r := range decodeLines[map[string]any](s.t, s.do([]string{"payers", "list", "--output", "json"}, exitDone)) {
		if r["source_id"] == otherRow.ID {
			told = append(told, fmt.Sprint(r["link_state"], r["billing_id"], r["mandate_id"], r["mandate_status"],
				r["attention_reason"], r["decision"]))
		}
	}
	return string(c.Raw) + strings.Join(told, " ")
}

// acted is where an act of a finding was performed, as a row of the table.
type acted struct {
	reason                       connector.Reason
	act                          connector.Act
	terminal, page, undone, sent string
}

// TestEveryActOfEveryFinding brings about every finding, and performs each of its acts once at the terminal and once on
// the pages. It also takes back each act that can be taken back. testdata/acts.txt shows where.
//
// covers F261
func TestEveryActOfEveryFinding(t *testing.T) {
	longtest.Story(t, longtest.Computing)
	t.Parallel()
	known := constantsOf(t, "../../connector/reason.go", "Reason")
	if n := len(connector.Reasons); n != len(known) || n != len(situations) {
		t.Fatalf("of %d reasons %d are explained, and %d are brought about here", len(known), n, len(situations))
	}
	var table []*acted
	t.Run("acts", func(t *testing.T) {
		for _, reason := range slices.Sorted(maps.Keys(connector.Reasons)) {
			if len(reason.Ways()) == 0 {
				t.Errorf("%s has no way out", reason)
			}
			for i, way := range reason.Ways() {
				row := &acted{reason: reason, act: way.Act}
				table = append(table, row)
				for name, perform := range map[string]func(*testing.T, *acted, int, connector.Way){"terminal": settles,
					"page": settlesOnPages, "undo": undoes} {
					t.Run(fmt.Sprintf("%s/%s/%s", reason, way.Act, name), func(t *testing.T) {
						t.Parallel()
						perform(t, row, i, way)
					})
				}
			}
		}
	})
	var text strings.Builder
	text.WriteString("| Finding | Act | Role | Terminal | Page | Sent | Taken back |\n|---|---|---|---|---|---|---|\n")
	for _, r := range table {
		if r.terminal == "" || r.page == "" || r.undone == "" { // only some were performed, or one of them failed
			return
		}
		fmt.Fprintf(&text, "| %s | %s | %s | `%s` | %s | %s | %s |\n", r.reason, r.act, admin.Acts[r.act].Role, r.terminal,
			r.page, r.sent, r.undone)
	}
	const golden = "testdata/acts.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if diff := cmp.Diff(string(want), text.String()); diff != "" || err != nil {
		t.Errorf("where acts are performed (-want +got), %v:\n%s", err, diff)
	}
}
