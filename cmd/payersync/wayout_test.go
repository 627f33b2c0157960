package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/office"
	"payersync/connector/sandbox"
	"payersync/internal/longtest"
	"payersync/state"
)

// stage is an installation with commands called in this process, on a test clock.
type stage struct {
	*world
	mu    sync.Mutex
	clock time.Time

	another string // a customer that is nobody's
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{clock: time.Now().UTC()}
	s.world = newWorld(t, nil, func(o *sandbox.Options) { o.Now = s.now })
	return s
}

func (s *stage) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

func (s *stage) wait(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(d)
}

// app returns the program of a person without a terminal, with its output.
func (s *stage) app(out, errOut io.Writer) *app {
	return &app{program: program{Console: &show.Console{In: strings.NewReader(""), Out: out, ErrOut: errOut}, getenv: func(name string) (string, bool) {
		v, ok := s.env[name]
		return v, ok
	}}, now: s.now, config: s.path("payersync.yaml")}
}

// call runs a command to its end.
func (s *stage) call(args ...string) result { return s.called(false, args...) }

// called is call, from todo or not.
func (s *stage) called(walks bool, args ...string) result {
	var out, errOut bytes.Buffer
	a := s.app(&out, &errOut)
	a.walks = walks
	root := a.root()
	root.SetArgs(append(args, "--config", s.path("payersync.yaml")))
	root.SetOut(&out)
	root.SetErr(&errOut)
	err := root.ExecuteContext(s.t.Context())
	a.report(err)
	return result{exitCode(err), out.String(), errOut.String()}
}

// do is call for a command that has to end with one of these codes.
func (s *stage) do(args []string, codes ...int) result {
	s.t.Helper()
	r := s.call(args...)
	if !slices.Contains(codes, r.code) {
		s.t.Fatalf("payersync %s ended with %d, want one of %v\nstdout: %s\nstderr: %s", strings.Join(args, " "), r.code, codes, r.out, r.errOut)
	}
	return r
}

// sync makes a run, which may leave something to a person.
func (s *stage) sync() result { return s.do([]string{"sync", "--yes"}, exitDone, exitAttention) }

// told returns the reasons that the list gives for a record or a delivery.
func (s *stage) told(id string) (codes []string) {
	s.t.Helper()
	for _, a := range decodeLines[state.AttentionRow](s.t, s.do([]string{"attention", "list", "--output", "json"}, exitDone)) {
		if a.SourceID == id {
			codes = append(codes, a.Reason)
		}
	}
	return codes
}

// customer returns the sandbox's customer of a record, by its name there.
func (s *stage) customer(name string) sandbox.Customer {
	s.t.Helper()
	for _, c := range s.box.Customers() {
		if c.Name == name {
			return c
		}
	}
	s.t.Fatalf("the service has no customer called %q", name)
	return sandbox.Customer{}
}

func (s *stage) edited(name string, change func(map[string]any)) {
	s.t.Helper()
	c := s.customer(name)
	var fields map[string]any
	s.must(json.Unmarshal(c.Raw, &fields))
	change(fields)
	raw, err := json.Marshal(fields)
	s.must(err)
	s.must(s.box.Edit(c.ID, raw))
}

func (s *stage) added(format string, args ...any) string {
	s.t.Helper()
	id, err := s.box.Add(json.RawMessage(fmt.Sprintf(format, args...)))
	s.must(err)
	return id
}

// keyed makes the mapping read the key of a record from its second street.
func (s *stage) keyed() {
	s.edit("mapping.yaml", "accountNumber: AccountNumber", "accountNumber: Depot")
	s.edit("mapping.yaml", `, {line1: Depot, city: "Hull"}`, "")
}

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
		return s.reads(with(matterRow, "K1"), row{ID: "M2", Name: "Second", Email: "second@example.org", Street: "3 Row", Depot: "K1"}, with(otherRow, "K9"))
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
		s.edit("mapping.yaml", "    - {name: trim(Name)", "    - {name: Phone, primary: true}\n    - {primary: true, name: trim(Name)")
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
		s.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusNotFound, Method: http.MethodGet, Path: customersPath + "/" + id})
		return s.reads(matterRow, otherRow)
	},
	connector.ReasonKeyUnderWay: func(s *stage) string {
		s.keyed()
		s.reads(with(otherRow, "K9"))
		s.box.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPost, Path: customersPath})
		first := with(matterRow, "K1")
		first.ID = "M0"
		s.reads(first, with(otherRow, "K9"))
		s.do([]string{"attention", "close", "--give-up", "M0", "--reason", "a test record"}, exitDone) // and its request may arrive all the same
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
		s.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusUnprocessableEntity, Method: http.MethodPost, Path: customersPath})
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
		s.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusUnprocessableEntity, Method: http.MethodPut, Path: linkCalls})
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
			_, err := tx.Receive(state.Delivery{Key: key, Type: "dd-mandate", Body: fmt.Appendf(nil, `{"about":{"who":%q}}`, s.customer("Matter Ltd").ID), State: connector.InboxQuarantined, Detail: "It names no customer."})
			return err
		})
		return key
	},
	connector.ReasonAddressBounced: func(s *stage) string {
		id := s.reads(matterRow, otherRow)
		s.stored(func(tx *state.Tx) error {
			const there = "hash of the address"
			return errors.Join(tx.NoteLetterAddress(state.RecordID{Connection: "acme", SourceID: id}, there),
				tx.AddLetterStop(state.LetterStop{Scope: state.StopAddress, Recipient: there, Why: state.StopBounced, Note: "5.1.1", Actor: "mail server"}))
		})
		return id
	},
	connector.ReasonSubscriptionChanged: func(s *stage) string {
		s.reads(matterRow, otherRow)
		s.do([]string{"webhooks", "subscribe"}, exitDone)
		s.do([]string{"sweep"}, exitDone)
		s.must(s.box.DeleteSubscription())
		s.do([]string{"sweep"}, exitAttention)
		return office.Subscription
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
	l, err := state.Open(s.t.Context(), state.Options{Path: s.path("payersync.db"), KeyFile: s.path("payersync.key"), Now: s.now})
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
			told = append(told, fmt.Sprint(r["link_state"], r["billing_id"], r["mandate_id"], r["mandate_status"], r["attention_reason"], r["decision"]))
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
				for name, perform := range map[string]func(*testing.T, *acted, int, connector.Way){"terminal": settles, "page": settlesOnPages, "undo": undoes} {
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
		fmt.Fprintf(&text, "| %s | %s | %s | `%s` | %s | %s | %s |\n", r.reason, r.act, office.Acts[r.act].Role, r.terminal, r.page, r.sent, r.undone)
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

// proposed returns the proposal of a way out of a finding, as the commands and the pages show it.
func (s *stage) proposed(id string, reason connector.Reason, at int) office.Proposal {
	s.t.Helper()
	a := s.app(io.Discard, io.Discard)
	opened, err := a.open(s.t.Context())
	s.must(err)
	defer opened.Close()
	matters, err := a.mattersOf(s.t.Context(), opened, id, "")
	s.must(err)
	for _, told := range matters[0].Told {
		if told.Reason != reason {
			continue
		}
		d := told.Ways[at].Decision
		if d.Parts = []string{"name"}; office.Acts[d.Act].Asks(office.InputCustomer) && d.Customer == "" {
			d.Customer = s.another
		}
		p, err := a.attentionOf(opened).Propose(s.t.Context(), d)
		if errors.Is(err, office.ErrNoWebhook) { // the command itself subscribes
			return office.Proposal{Decision: d}
		}
		s.must(err)
		return p
	}
	s.t.Fatalf("%s is not told %s", id, reason)
	return office.Proposal{}
}

// lines returns the lines of a preview.
func lines(v office.Preview) []string {
	return slices.Concat([]string{v.Becomes}, v.Warnings, v.Notes, []string{v.Sends, v.Undo})
}

// shown fails unless a command of todo shows the effect of an act, and does nothing without a yes.
func (s *stage) shown(t *testing.T, args []string, want office.Preview) {
	t.Helper()
	writes, log := s.box.Writes(), s.do([]string{"audit", "--output", "json"}, exitDone).out
	r := s.called(true, slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--yes" })...)
	if r.code == exitDone || s.box.Writes() != writes || s.do([]string{"audit", "--output", "json"}, exitDone).out != log {
		t.Errorf("without a yes it ended with %d, sent %d requests, and the log says\n%s", r.code, s.box.Writes()-writes, s.do([]string{"audit", "--output", "json"}, exitDone).out)
	}
	for _, line := range lines(want) {
		if !strings.Contains(r.errOut, show.Visible(line)) {
			t.Errorf("todo does not show %q:\n%s", line, r.errOut)
		}
	}
}

// sent fails unless requests are as a preview says.
func (s *stage) sent(t *testing.T, v office.Preview, now, all int) {
	t.Helper()
	switch {
	case v.When != connector.SendsNow && now > 0, v.When == connector.SendsNothing && all > now && !strings.Contains(v.Becomes, "sends nothing for this payer"):
		t.Errorf("%d requests were sent at once and %d in all, and the preview said %q", now, all, v.Sends)
	case v.When == connector.SendsNow && now == 0 && v.Act != connector.ActSubscribe:
		t.Errorf("nothing was sent, and the preview said %q", v.Sends)
	}
	if v.When != connector.SendsNextSync || v.Compares || len(v.Changes) == 0 {
		return
	}
	if !slices.ContainsFunc(s.box.Customers(), func(c sandbox.Customer) bool {
		var fields any
		s.must(json.Unmarshal(c.Raw, &fields))
		return !slices.ContainsFunc(v.Changes, func(f connector.FieldChange) bool { return valueAt(fields, f.Path) != f.To })
	}) {
		t.Errorf("no customer has the values that the preview showed: %+v", v.Changes)
	}
}

// valueAt returns the text at a path of a customer; "" for none.
func valueAt(in any, path string) string {
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		switch of := in.(type) {
		case map[string]any:
			in = of[step]
		case []any:
			n, err := strconv.Atoi(step)
			if in = nil; err == nil && n < len(of) {
				in = of[n]
			}
		default:
			in = nil
		}
	}
	if in == nil {
		return ""
	}
	return fmt.Sprint(in)
}

// undoes takes an act back, and looks that everything is as before.
func undoes(t *testing.T, row *acted, at int, way connector.Way) {
	facts := office.Acts[way.Act]
	reason := row.reason
	if facts.Undo == "" {
		row.undone = "no: " + facts.Final
		return
	}
	if sampled := []connector.Reason{connector.ReasonEmailMalformed, connector.ReasonKeyShared, connector.ReasonForeignChange}; way.Act == connector.ActGiveUp && !slices.Contains(sampled, reason) {
		row.undone = fmt.Sprintf("as for %s", sampled[0])
		return
	}
	s := newStage(t)
	id := situations[reason](s)
	if way.Act == connector.ActLink {
		s.another = s.added(`{"name":"Matter Ltd","people":[{"name":"Matter Ltd","email":"matter@example.org"}]}`)
	}
	p := s.proposed(id, reason, at)
	before, customers := s.told(id), s.untouched()
	s.do(s.line(t, commandLine(wordsOf(office.WayOut{Decision: p.Decision, Why: way.Why})), "decided in haste"), exitDone)
	back := office.WayOut{Why: true, Decision: office.Decision{Act: facts.Undo, Record: p.Record, Other: p.Other, Customer: p.Customer}}
	args := s.line(t, commandLine(wordsOf(back)), "decided again")
	s.do(args, exitDone)
	if !s.audited("decided again") {
		t.Error("the audit log does not say that it was taken back")
	}
	s.sync()
	if after := s.told(id); !slices.Equal(before, after) {
		t.Errorf("%s is told %v, and was told %v", id, after, before)
	}
	if now := s.untouched(); now != customers {
		t.Errorf("the other record was touched:\n%s\nwas\n%s", now, customers)
	}
	row.undone = "`payersync " + actCommands[facts.Undo] + "`"
}

func settles(t *testing.T, row *acted, at int, way connector.Way) {
	s, reason := newStage(t), row.reason
	id := situations[reason](s)
	if told := s.told(id); !slices.Contains(told, string(reason)) {
		t.Fatalf("%s is told %v, want %s", id, told, reason)
	}
	matter := decode[shownMatter](t, s.do([]string{"attention", "show", id, "--output", "json"}, exitDone))
	var out *shownWay
	for _, told := range matter.Told {
		if told.Reason == reason {
			out = &told.Ways[at]
		}
	}
	if out == nil || out.Does != way.Does || out.Sends != way.Sends {
		t.Fatalf("attention show does not name the way %q: %+v", way.Act, matter.Told)
	}
	if before := beforehand[way.Act]; before != nil {
		before(s)
	}
	other := s.untouched()
	why, again := fmt.Sprintf("settled by way %d of %s", at, reason), fmt.Sprintf("once more by way %d of %s", at, reason)
	if strings.Contains(out.Command, "ANOTHER") {
		s.another = s.added(`{"name":"Matter Ltd","people":[{"name":"Matter Ltd","email":"matter@example.org"}]}`)
	}
	args := s.line(t, out.Command, why)
	t.Logf("payersync %s", strings.Join(args, " "))
	preview := s.proposed(id, reason, at).Preview()
	if preview.When != way.Sends && !(reason == connector.ReasonKeyShared && way.Act == connector.ActGiveUp) { // the next run then decides on the other record
		t.Errorf("the preview says %q, and the way %q", preview.Sends, way.Sends)
	}
	s.shown(t, args, preview)
	writes := s.box.Writes()
	s.do(args, exitDone)
	now := s.box.Writes() - writes
	if !s.audited(why) && slices.Contains(args, why) {
		t.Errorf("the audit log does not say %q", why)
	}
	if way.Sends != connector.SendsNow {
		s.do(s.line(t, out.Command, again), exitDone)
		if s.audited(again) {
			t.Error("the same word was noted twice")
		}
	}
	s.settle(t, reason, id)
	s.sent(t, preview, now, s.box.Writes()-writes)
	if n := s.box.Writes() - writes; n > 0 && way.Sends == connector.SendsNothing {
		t.Errorf("%d requests were sent after a word that sends nothing", n)
	}
	if now := s.untouched(); now != other {
		t.Errorf("the other record was touched:\n%s\nwas\n%s", now, other)
	}
	row.terminal, row.sent = "payersync "+actCommands[way.Act], strings.ReplaceAll(string(preview.When), "_", " ")
}

// line is a command that attention show printed, with what its person has to say.
func (s *stage) line(t *testing.T, command, why string) []string {
	t.Helper()
	words := shellWords(command)
	for i, w := range words {
		switch w {
		case "why":
			words[i] = why
		case "PART":
			words[i] = "name"
		case "ANOTHER":
			words[i] = s.another
		}
	}
	a := &app{program: program{Console: &show.Console{}, getenv: func(string) (string, bool) { return "", false }}}
	c, rest, err := a.root().Find(words[1:])
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	for flag, value := range map[string]string{"yes": "", "note": why, "reason": why} {
		f := c.Flags().Lookup(flag)
		switch {
		case f == nil, slices.Contains(rest, "--"+flag), flag == "reason" && c.Flags().Lookup("note") != nil:
		case value == "":
			words = append(words, "--"+flag)
		default:
			words = append(words, "--"+flag, value)
		}
	}
	return words[1:]
}

// settle syncs until everything has come to rest, and fails when the reason is still told.
func (s *stage) settle(t *testing.T, reason connector.Reason, id string) {
	t.Helper()
	s.sync()
	if reason == connector.ReasonOutcomeUnknown || reason == connector.ReasonKeyUnderWay {
		for range 3 { // what has no answer may arrive, whatever a person says
			s.wait(time.Hour)
			s.sync()
		}
	}
	swept, synced := s.do([]string{"sweep"}, exitDone, exitAttention), s.sync()
	if told := s.told(id); slices.Contains(told, string(reason)) {
		t.Errorf("after it was settled %s is told %v", id, told)
	}
	if all := s.do([]string{"attention", "list", "--output", "json"}, exitDone).out; all == "" && (swept.code != exitDone || synced.code != exitDone) {
		t.Errorf("nothing needs a person, and sweep ends with %d and sync with %d:\n%s%s%s", swept.code, synced.code, swept.out, swept.errOut, synced.out)
	}
}
