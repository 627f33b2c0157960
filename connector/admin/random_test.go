package admin_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/readiness"
	"payersync/state"
)

var randomLedgers = flag.Int("ledgers", 60, "how many random ledgers are reported on")

func oneIn[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomPlaced returns a record that stands anywhere.
func randomPlaced(r *rand.Rand, id string) placed {
	p := placed{
		id: id, verdict: oneIn(r, state.Included, state.Included, state.Included, state.Held, state.Excluded, ""),
		state: oneIn(r, connector.RecordActive, connector.RecordActive, connector.RecordActive, connector.RecordArchived,
			connector.RecordUnknown),
		unlinked: r.IntN(5) == 0, lost: r.IntN(5) == 0,
		status: oneIn[connector.MandateStatus](r, "", "CREATED", "CREATED", "PENDING", "ACTIVE", "ACTIVE", "CANCELLED",
			"DORMANT"),
	}
	if r.IntN(6) > 0 {
		p.label = connector.Label{Number: id, Name: "Payer " + id,
			Email: oneIn(r, "", id+"@example.com", "shared@example.com"), Language: oneIn(r, "", "de", "en")}
	}
	if r.IntN(4) == 0 {
		p.topic = oneIn(r, state.TopicRecord, state.TopicLink, state.TopicMandate)
		p.reason = oneIn(r, slices.Sorted(maps.Keys(connector.Reasons))...)
	}
	for range r.IntN(3) {
		p.moves = append(p.moves, oneIn[connector.MandateStatus](r, "CREATED", "PENDING", "ACTIVE", "CANCELLED", "DORMANT"))
	}
	if p.unlinked || p.status == "" {
		p.moves = nil
	}
	return p
}

// happen lets something more happen to a record, by letters, persons and reads.
func (w *world) happen(r *rand.Rand, connection string, p placed) {
	w.t.Helper()
	id := state.RecordID{Connection: connection, SourceID: p.id}
	payer := state.Payer{Connection: connection, SourceID: p.id, Key: connector.Key{Name: "acct", Value: p.id}}
	word := state.Entry{Actor: "ada", Action: "say", Subject: p.id, Reason: "as it happens"}
	linked := !p.unlinked
	if linked {
		payer.BillingID = "b-" + p.id
	}
	mandate := ""
	if linked && p.status != "" {
		mandate = "m-" + p.id
		payer.MandateID = mandate
	}
	w.do(func(tx *state.Tx) error {
		switch what := r.IntN(9); {
		case what == 0:
			return tx.AddLetterStop(state.LetterStop{Scope: state.StopPayer, RecordID: id,
				Why: oneIn(r, state.StopPerson, state.StopOptedOut), UntilOn: oneIn(r, "", "2026-11-01", "2027-06-01")})
		case what == 1 && p.label.Email != "":
			return tx.AddLetterStop(state.LetterStop{Scope: state.StopAddress, Recipient: w.ledger.RecipientHash(p.label.Email),
				Why: oneIn(r, state.StopBounced, state.StopOptedOut)})
		case what == 2 && mandate != "":
			_, err := tx.NoteHandover(mandate, w.now, "ada")
			return err
		case what == 3 && mandate != "":
			return w.letter(tx, r, id, mandate)
		case what == 4:
			_, err := tx.GiveUp(id, "as it is", word)
			return err
		case what == 5 && linked:
			return unlessOther(tx.AllowWithoutRecord(payer, word))
		case what == 6 && mandate != "":
			_, err := tx.LetBe(payer, word)
			return unlessOther(err)
		case what == 7 && linked:
			ticket, err := tx.Ticket()
			if err != nil {
				return err
			}
			_, err = tx.ForgetRemote(payer.BillingID, ticket)
			return err
		case what == 8 && linked: // another mandate, of which the link may not be known
			m := connector.Mandate{ID: "n-" + p.id, CustomerID: payer.BillingID,
				Status: oneIn[connector.MandateStatus](r, "CREATED", "ACTIVE"), URL: oneIn(r, "", "https://pay.example.com/sign/n")}
			_, err := tx.SaveMandate(m, connector.CauseSweep, "1")
			return errors.Join(err, tx.SetMandate(connection, p.id, m.ID))
		}
		return nil
	})
}

// unlessOther drops the error that the payer has another mandate by now.
func unlessOther(err error) error {
	if errors.Is(err, state.ErrOtherMandate) {
		return nil
	}
	return err
}

// letter freezes a letter, and lets it leave as far as the ledger does.
func (w *world) letter(tx *state.Tx, r *rand.Rand, id state.RecordID, mandate string) error {
	l := state.Letter{MandateID: mandate, Step: r.IntN(3), Kind: "invitation", RecordID: id, Recipient: "r", Setup: "s",
		Language: "en", Body: []byte("…"), LookedAt: w.now, FrozenAt: w.now}
	l.MessageID = fmt.Sprintf("%s-%d-%d", mandate, l.Step, r.Uint64())
	if err := tx.FreezeLetter(l); err != nil {
		return nil // that step has one
	}
	_, may, err := tx.BeginSending(l.MessageID, w.now.Add(-time.Minute), w.now.Format(time.DateOnly))
	if err != nil || !may || r.IntN(5) == 0 {
		return err
	}
	return tx.EndLetter(l.MessageID,
		oneIn(r, state.MessageSent, state.MessageSent, state.MessageUnclear, state.MessageRefused), false, "")
}

// randomWorld returns a ledger in which anything has happened.
func randomWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 130)) // a failure is repeated by its number
	w := newWorld(t)
	w.now = w.now.Add(-time.Duration(r.IntN(900)) * 24 * time.Hour)
	for _, connection := range []string{"acme", "beta"} {
		for n := range r.IntN(12) {
			p := randomPlaced(r, fmt.Sprintf("%s%d", connection[:1], n))
			w.book(connection, p)
			for range r.IntN(4) {
				w.now = w.now.Add(time.Duration(r.IntN(100)) * time.Hour)
				w.happen(r, connection, p)
			}
		}
	}
	w.now = w.now.Add(time.Duration(oneIn(r, 0, 1, 20, 40)) * time.Hour)
	return w
}

// covers F130
func TestRandomLedgersAreReportedOnWhole(t *testing.T) {
	t.Parallel()
	met := map[readiness.Class]int{}
	for seed := range uint64(*randomLedgers) {
		w := randomWorld(t, seed)
		w.checkReport(seed, met)
		w.checkInvited(seed)
		w.checkCount(t, seed)
		if err := w.ledger.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("records by class: %v", met)
	for _, c := range readiness.Classes {
		if met[c] == 0 && *randomLedgers >= 60 {
			t.Errorf("no record of class %s was met in %d ledgers", c, *randomLedgers)
		}
	}
}

// checkReport compares a report with the lists of records: every record is there once, and
// every count is the same.
func (w *world) checkReport(seed uint64, met map[readiness.Class]int) {
	w.t.Helper()
	for _, connection := range []string{"", "acme", "beta"} {
		report, rows := w.report(connection)
		page, err := w.lists.Page(w.t.Context(), admin.Query{RecordFilter: state.RecordFilter{Connection: connection}})
		if err != nil {
			w.t.Fatal(err)
		}
		var listed, reported []state.RecordID
		for _, r := range page.Rows {
			listed = append(listed, r.ID())
		}
		sums, byStatus := 0, map[connector.MandateStatus]int{}
		for _, r := range rows {
			reported = append(reported, state.RecordID{Connection: r.Connection, SourceID: r.SourceID})
			byStatus[r.Mandate]++
			if connection == "" {
				met[r.Class]++
			}
		}
		if diff := cmp.Diff(listed, reported); diff != "" {
			w.t.Errorf("seed %d, connection %q (-listed +reported):\n%s", seed, connection, diff)
		}
		inTotals := map[readiness.Class]int{}
		for _, total := range report.Totals {
			sums += total.Records
			inTotals[total.Class] += total.Records
		}
		if sums != len(listed) || report.Records != len(listed) {
			w.t.Errorf("seed %d, connection %q: %d in the totals, %d reported, %d listed", seed, connection, sums,
				report.Records, len(listed))
		}
		for class, n := range inTotals {
			if in := len(slices.Collect(rowsOf(rows, class))); in != n {
				w.t.Errorf("seed %d, connection %q: %d in the total of class %s, and %d rows", seed, connection, n, class, in)
			}
		}
		for _, status := range []connector.MandateStatus{"CREATED", "PENDING", "ACTIVE", "CANCELLED", "DORMANT"} {
			n, err := w.ledger.CountRecords(w.t.Context(), state.RecordFilter{Connection: connection, Mandate: string(status)})
			if err != nil || n != byStatus[status] {
				w.t.Errorf("seed %d, connection %q: %d listed with a mandate that is %s, %d reported, %v", seed, connection, n,
					status, byStatus[status], err)
			}
		}
	}
}

func rowsOf(rows []admin.ReportRow, class readiness.Class) func(func(admin.ReportRow) bool) {
	return func(yield func(admin.ReportRow) bool) {
		for _, r := range rows {
			if r.Class == class && !yield(r) {
				return
			}
		}
	}
}

// checkInvited compares the hand-over file with the report, and with whom letters may go to.
func (w *world) checkInvited(seed uint64) {
	w.t.Helper()
	handed := map[string]bool{}
	for _, r := range w.handover(admin.Handover{}) {
		handed[r.MandateID] = true
		if r.Link == "" {
			w.t.Errorf("seed %d: %s is handed over without its link", seed, r.MandateID)
		}
	}
	err := w.ledger.EachReadiness(w.t.Context(), "", func(f state.ReadinessFacts) error {
		s := readiness.Of(f, w.now)
		switch {
		case handed[f.Mandate.ID] &&
			(s.Class != readiness.Awaiting || s.Step == readiness.LinkLost || f.Mandate.LinkAt.Before(f.Mandate.Since)):
			w.t.Errorf("seed %d: %s is handed over, and is in class %s, step %q", seed, f.SourceID, s.Class, s.Step)
		case !handed[f.Mandate.ID] && s.Class == readiness.Awaiting && (s.Step == readiness.NotSent || s.Step == readiness.Sent):
			w.t.Errorf("seed %d: %s waits for its signature, step %q, and is not handed over", seed, f.SourceID, s.Step)
		case readiness.CanBeInvited(f) != handed[f.Mandate.ID]:
			w.t.Errorf("seed %d: letters may go to %s: %v, and it is handed over: %v", seed, f.SourceID,
				readiness.CanBeInvited(f), handed[f.Mandate.ID])
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// checkCount compares a count with the report, and each record's class by its outline with its class by all
// facts.
func (w *world) checkCount(t *testing.T, seed uint64) {
	t.Helper()
	whole := map[state.RecordID]readiness.Assessment{}
	err := w.ledger.EachReadiness(t.Context(), "", func(f state.ReadinessFacts) error {
		whole[f.RecordID] = wordless(readiness.Of(f, w.now))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	outlined := map[state.RecordID]readiness.Assessment{}
	err = w.ledger.EachReadinessUnordered(t.Context(), func(f state.ReadinessFacts) error {
		outlined[f.RecordID] = wordless(readiness.Of(f, w.now))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole, outlined); diff != "" {
		t.Errorf("seed %d (-by all that is known +by its outline):\n%s", seed, diff)
	}
	s := &admin.ReadinessCounts{Ledger: w.ledger}
	defer s.Close()
	report, _ := w.report("")
	if diff := cmp.Diff(report, latest(t, s).Report); diff != "" {
		t.Errorf("seed %d (-reported +counted):\n%s", seed, diff)
	}
}

// wordless returns a standing without its words.
func wordless(s readiness.Assessment) readiness.Assessment {
	s.Sentence, s.Cure, s.Note, s.Ends = "", "", "", 0
	return s
}
