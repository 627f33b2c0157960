package pages_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"payersync/connector"
	"payersync/connector/pages"
	"payersync/connector/writeback"
	"payersync/state"
)

// field is the field of the books that holds the status of a mandate.
type field struct {
	says map[string]string // by record
	down bool
}

func (f *field) Setup() string                          { return "column dd_status" }
func (f *field) Says() []connector.FieldStatus          { return connector.FieldStatuses }
func (f *field) Freeze(connector.Write) ([]byte, error) { return []byte("{}"), nil }

func (f *field) Value(to connector.FieldStatus, _ string) string { return "dd " + string(to) }

func (f *field) Read(_ context.Context, ids []string) (map[string]connector.WrittenField, error) {
	if f.down {
		return nil, errors.New("the books are down")
	}
	out := map[string]connector.WrittenField{}
	for _, id := range ids {
		out[id] = connector.WrittenField{Value: f.says[id]}
	}
	return out, nil
}

func (f *field) Send(context.Context, string, []byte) error { return nil }

// writer opens the write-back of the house.
func (h *house) writer(_ context.Context, connection string) (writeback.Target, error) {
	out := writeback.Target{Name: connection}
	if h.field != nil {
		out.Writer = h.field
	}
	return out, nil
}

// writeBack makes a run of the write-back.
func (h *house) writeBack() writeback.Result {
	h.t.Helper()
	c := must(h.writer(context.Background(), sample))(h.t)
	return must((&writeback.Run{Target: c, Ledger: h.ledger}).Do(context.Background()))(h.t)
}

const writesOf = "/mandates/writeback/" + sample

// An accountant sees what was written back on the page of the mandates, and the list of what needs somebody leads to
// the waiting writes.
func TestWriteBacksAreSeenWithTheMandates(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	v := h.enter("vera", pages.Viewer)
	lacks(t, v.get("/mandates", http.StatusOK), "Written back")
	v.get(writesOf, http.StatusNotFound)
	h.field = &field{}
	if r := h.writeBack(); r.Waiting != 33 {
		t.Fatalf("%+v", r)
	}
	holds(t, v.get("/mandates", http.StatusOK), `<h2 id="written">Written back to the accounting system</h2>`,
		`data-label="Wait for approval">33<`, `href="`+writesOf+`?show=waiting">See write-backs</a>`)
	holds(t, v.get("/", http.StatusOK), `href="`+writesOf+`?show=waiting">See write-backs</a>`)
	h.do(func(tx *state.Tx) error { return tx.NoteWriteback(state.WritebackRun{Connection: sample, Stuck: 1}) })
	holds(t, v.get("/", http.StatusOK), `href="`+writesOf+`?show=stuck">See write-backs</a>`)
	v.get("/mandates/writeback/nobody", http.StatusNotFound)
}

func TestWritesAreApprovedExactlyAsShown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.field = &field{says: map[string]string{"HB001": "<b>cheque</b>"}}
	h.run(true)
	viewer, olaf := h.enter("vera", pages.Viewer), h.enter("olaf", pages.Operator)
	seen := viewer.get(writesOf, http.StatusOK)
	holds(t, seen, "33 payers wait for approval", "Nothing was written to this field before", "25 of 33",
		"Two Magpies Cakes")
	lacks(t, seen, "cheque", "Field now", `name="shown"`, "column dd_status")
	viewer.post(writesOf, http.StatusForbidden, "shown", "x")

	page := olaf.get(writesOf+"?show=waiting", http.StatusOK)
	holds(t, page, "&lt;b&gt;cheque&lt;/b&gt;", `data-label="Field after"><span><bdi>dd asked</bdi>`, "column dd_status",
		"Approve these 33 writes", "No action takes the approval back")
	shown := hashIn(t, page)
	h.field.down = true
	down := olaf.get(writesOf, http.StatusOK)
	holds(t, down, "payersync cannot read the fields", shown)
	lacks(t, down, "cheque", "the books are down")

	mandate := must(h.ledger.Mandates(context.Background(), state.Filter{}))(t)[0]
	if err := h.box.Sign(mandate.MandateID); err != nil {
		t.Fatal(err)
	}
	h.sweep()
	late := olaf.post(writesOf, http.StatusConflict, "shown", shown)
	holds(t, late, "The writes changed while you were reading them.", "Nothing was approved.")
	if r := h.writeBack(); r.Waiting != 33 || r.Written != 0 {
		t.Errorf("after the late approval: %+v", r)
	}
	h.field.down = false
	holds(t, olaf.post(writesOf, http.StatusOK, "shown", hashIn(t, late), "reason", "looked at ten"),
		"33 writes approved. Nothing was written yet", "With the next run")
	if !h.audited("approve writeback") {
		t.Error("the audit log lacks the approval")
	}
	lacks(t, olaf.get("/", http.StatusOK), "See write-backs")
	holds(t, olaf.post(writesOf, http.StatusConflict, "shown", hashIn(t, late)), "These writes wait no more.")
	if r := h.writeBack(); r.Waiting != 0 || r.Written != 33 {
		t.Errorf("the run after the approval: %+v", r)
	}
	holds(t, olaf.get(writesOf, http.StatusOK), "Every field shows the present status, of 37 payers.")
}

func TestWritesAreApprovedInABrowser(t *testing.T) {
	for _, l := range []look{{width: 1280}, {width: 390, noScript: true}} {
		t.Run(l.String(), func(t *testing.T) {
			h := newHouse(t)
			h.field = &field{says: map[string]string{"HB001": "cheque", "HB002": ""}}
			h.run(true)
			h.writeBack()
			b := h.browse(l)
			h.signIn(b, "olaf", pages.Operator)
			b.press("a[href='" + writesOf + "?show=waiting']")
			b.sound("the waiting writes")
			b.picture("_mandates_writeback-" + l.String())
			b.press("main form button.primary")
			b.reads("33 writes approved. Nothing was written yet", "With the next run")
			b.sound("the approved writes")
			if r := h.writeBack(); r.Written != 33 {
				t.Errorf("the run after the approval: %+v", r)
			}
		})
	}
}

// A person gives the field of a payer back to payersync, from the list and on the payer's page.
func TestAFieldOfSomebodyElseIsTakenAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.field = &field{}
	target := must(h.writer(context.Background(), sample))(t)
	h.do(func(tx *state.Tx) error {
		return tx.FieldIsTheirs(state.RecordID{Connection: sample, SourceID: "HB001"}, target.SetupHash(),
			state.WritebackField{}, "")
	})
	const at = "/payers/" + sample + "/HB001/field"
	lacks(t, h.enter("vera", pages.Viewer).get(writesOf+"?show=stuck", http.StatusOK), at)
	v := h.enter("olaf", pages.Operator)
	holds(t, v.get(writesOf+"?show=stuck", http.StatusOK), `<a href="`+at+`">Write to the field again…</a>`)
	holds(t, v.get("/payers/"+sample+"/HB001", http.StatusOK), `href="`+at+`"`)
	holds(t, v.get(at, http.StatusOK), "A value that somebody else wrote there, or a refusal, no longer counts.",
		"Somebody else changed the field",
		"Nothing is sent to anybody.")
	v.post(at, http.StatusUnprocessableEntity)
	holds(t, v.post(at, http.StatusOK, "reason", "a slip of the pen"),
		"The next run of the write-back writes to the field again.")
	lacks(t, v.get(writesOf+"?show=stuck", http.StatusOK), at)
	v.post(at, http.StatusConflict, "reason", "once more")
}
