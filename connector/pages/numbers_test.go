package pages_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/health"
	"payersync/connector/pages"
	"payersync/connector/readiness"
	"payersync/internal/longtest"
	"payersync/state"
)

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// mixUp lets anything happen to the payers of the sample books: by reads, runs and persons.
func (h *house) mixUp(r *rand.Rand) {
	h.t.Helper()
	records := must(h.ledger.Records(context.Background(), state.RecordFilter{}))(h.t)
	for i, row := range records {
		h.happens(r, row, records[(i+1)%len(records)])
	}
	for range r.IntN(3) {
		h.receive(state.Delivery{Key: fmt.Sprintf("event:%d#1", r.Uint64()), Type: "odd", State: connector.InboxQuarantined,
			Detail: "It names no customer.", Body: []byte(`{}`)})
	}
}

func (h *house) happens(r *rand.Rand, row, other state.RecordRow) {
	h.t.Helper()
	id, mandate := row.ID(), ""
	if row.MandateID != nil {
		mandate = *row.MandateID
	}
	word := state.Entry{Actor: "ada", Action: "say", Subject: id.SourceID, Reason: "as it happens"}
	what := r.IntN(12)
	switch {
	case what == 0:
		_ = must(h.ledger.Forget(context.Background(), id, word))(h.t)
		return
	case what >= 7 && what < 10:
		h.tells(r, id, word)
		return
	}
	h.do(func(tx *state.Tx) error {
		switch {
		case what == 1:
			_, err := tx.GiveUp(id, "as it is", word)
			return err
		case what == 2:
			if err := tx.Merge(id.Connection, id.SourceID, other.SourceID); !errors.Is(err, state.ErrMerged) &&
				!errors.Is(err, state.ErrUnderWay) {
				return err
			}
		case what < 6 && mandate != "":
			_, err := tx.SaveMandate(connector.Mandate{ID: mandate, CustomerID: *row.BillingID,
				Status: pick[connector.MandateStatus](r, "PENDING", "ACTIVE", "CANCELLED", "DORMANT")}, connector.CauseSweep, "1")
			return err
		case what < 7 && mandate != "":
			_, err := tx.NoteHandover(mandate, h.ledger.Now(), "ada")
			return err
		}
		return nil
	})
}

// tells says that something is the matter with a record, of one topic or of two, and puts it off perhaps.
func (h *house) tells(r *rand.Rand, id state.RecordID, word state.Entry) {
	reason := pick(r, slices.Sorted(maps.Keys(connector.Reasons))...)
	h.do(func(tx *state.Tx) error {
		for _, topic := range pick(r, []state.Topic{state.TopicRecord}, []state.Topic{state.TopicLink},
			[]state.Topic{state.TopicRecord, state.TopicLink}) {
			tx.Explain(state.Payer{Connection: id.Connection, SourceID: id.SourceID}, topic, reason, "Something is the matter.")
		}
		return nil
	})
	if r.IntN(3) == 0 {
		h.do(func(tx *state.Tx) error {
			_, err := tx.PutOff(id, reason, h.ledger.Now().Add(48*time.Hour), word)
			return err
		})
	}
}

// numbered returns the links of a page that a number belongs to, with the number.
func numbered(t *testing.T, page, pattern string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(page, -1) {
		n, err := strconv.Atoi(strings.ReplaceAll(m[2], ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		out[html.UnescapeString(m[1])] = n
	}
	return out
}

// rowsAt returns how many rows the list behind a link has, on all its pages.
func rowsAt(v *visitor, path string) (n int) {
	for path != "" {
		page := v.get(path, http.StatusOK)
		_, body, _ := strings.Cut(page, "<caption>")
		if at := strings.LastIndex(page, "<table class=\"rows report\""); at >= 0 {
			body = page[at:]
		} else if strings.HasPrefix(path, "/mandates/report") {
			return n
		}
		body, _, _ = strings.Cut(body, "</table>")
		n += strings.Count(body, "<tr><th scope=\"row\"") + strings.Count(body, "name=\"id\" value=")
		path = ""
		if m := regexp.MustCompile(`<a [^>]*href="([^"]+)"[^>]*rel="next"|rel="next"[^>]*href="([^"]+)"`).FindStringSubmatch(page); m != nil {
			path = html.UnescapeString(m[1] + m[2])
		}
	}
	return n
}

const (
	// 3 left the books
	linkedNumber = `<a href="([^"]+)">([\d,]+) `
	// of the list of what needs somebody
	needNumber = `<span class="many">([\d,]+)</span><div><strong><a href="([^"]+)">`
	// of a class of payers
	shareNumber = `<a href="([^"]+)"><strong>([\d,]+)</strong>`
	tableNumber = `<th scope="row"[^>]*><a href="([^"]+)"[^>]*>[^<]+</a></th><td class="n"[^>]*>([\d,]+)` // of a row
)

func TestEveryNumberLeadsToExactlyItsPayers(t *testing.T) {
	t.Parallel()
	for seed := range longtest.Number[uint64](1, 6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.run(true)
			h.mixUp(rand.New(rand.NewPCG(seed, 75)))
			h.recount()
			v := h.enter("vera", pages.Viewer)
			shown := map[string]map[string]int{}
			for _, page := range []string{"/", "/mandates/report"} {
				text := v.get(page, http.StatusOK)
				shown[page] = numbered(t, text, tableNumber)
				maps.Copy(shown[page], numbered(t, text, linkedNumber))
				maps.Copy(shown[page], numbered(t, text, shareNumber))
				for _, m := range regexp.MustCompile(needNumber).FindAllStringSubmatch(text, -1) {
					shown[page][html.UnescapeString(m[2])] = must(strconv.Atoi(strings.ReplaceAll(m[1], ",", "")))(t)
				}
				for path, n := range shown[page] {
					if strings.HasPrefix(path, "/runs") || strings.HasPrefix(path, "/todo/event") ||
						strings.HasPrefix(path, "/webhooks") {
						continue // several lists, or another kind of row
					}
					if rows := rowsAt(v, path); rows != n {
						t.Errorf("%s says %d, and %s lists %d", page, n, path, rows)
					}
				}
			}
			waits := map[readiness.Who]int{}
			payers, records := 0, 0
			if err := h.ledger.EachReadiness(t.Context(), "", func(f state.ReadinessFacts) error {
				s := readiness.Of(f, h.ledger.Now())
				waits[s.Who]++
				records++
				if s.Counts() {
					payers++
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			const yours = "/mandates/report?who=you"
			if n := shown["/mandates/report"][yours]; n != waits[readiness.You] {
				t.Errorf("%d wait for you, and the report says %d: %v", waits[readiness.You], n, shown)
			}
			holds(t, v.get("/", http.StatusOK), fmt.Sprintf("of %d payers can be debited.", payers))
			holds(t, v.get("/mandates/report", http.StatusOK), fmt.Sprintf("of %d payers can be debited.", payers))
			if payers == records {
				t.Errorf("every record is a payer, so that nothing was tried")
			}
		})
	}
}

// The status, the metrics, the report, the alerts, the lists and the pages answer the same questions
// with the same numbers, whatever happened to the payers.
func TestTheSameQuestionGetsTheSameNumberEverywhere(t *testing.T) {
	t.Parallel()
	for seed := range longtest.Number[uint64](1, 6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			text := must(fs.ReadFile(configs.FS, "quickstart/customers.csv"))(t)
			lines := bytes.SplitAfter(bytes.TrimRight(text, "\n"), []byte("\n"))
			excluded := bytes.Replace(lines[2], []byte(",Active,"), []byte(",Closed,"), 1)
			// HB001 is there twice
			h.books(slices.Concat(text, lines[1], bytes.Replace(excluded, []byte("HB002"), []byte("HB902"), 1)))
			h.run(true)
			h.sameLists()
			h.mixUp(rand.New(rand.NewPCG(seed, 76)))
			h.recount()
			h.sameLists()
			h.sameStandings()
			h.sameReasons()
			h.sameLinks()
		})
	}
}

// sameLists compares the list of payers, and that of the other records, with what the overview counts.
func (h *house) sameLists() {
	h.t.Helper()
	ctx := h.t.Context()
	counted := must(admin.CountNow(ctx, h.ledger, 0))(h.t)
	payers := must(h.ledger.Records(ctx, state.RecordFilter{Payers: true}))(h.t)
	others := must(h.ledger.Records(ctx, state.RecordFilter{Others: true}))(h.t)
	left := 0
	for _, r := range payers {
		if r.Left {
			left++
		}
	}
	if len(payers)-left != counted.Payers || len(payers)+len(others) != counted.Records {
		h.t.Errorf("%d of %d records count as payers; %d are listed, %d of them left, beside %d others", counted.Payers,
			counted.Records, len(payers), left, len(others))
	}
	byKey := must(h.ledger.Records(ctx, state.RecordFilter{Payers: true, Sort: state.ByKey}))(h.t)
	if n := must(h.ledger.CountRecords(ctx, state.RecordFilter{Payers: true}))(h.t); n != len(payers) || len(byKey) != n {
		h.t.Errorf("%d payers are counted, %d listed, and %d listed by number", n, len(payers), len(byKey))
	}
}

// sameStandings compares the report with what the status counts.
func (h *house) sameStandings() {
	h.t.Helper()
	counted := must(admin.CountNow(h.t.Context(), h.ledger, 0))(h.t)
	rows, payers := 0, 0
	report := must(admin.MakeReport(h.t.Context(), h.ledger, admin.ReportOn{}, func(r admin.ReportRow) error {
		if rows++; r.Counts() {
			payers++
		}
		return nil
	}))(h.t)
	if counted.Records != rows || counted.Payers != payers || report.Payers != payers ||
		!maps.Equal(counted.Acts(), report.Acts()) {
		h.t.Errorf("the report has %d records, %d payers and %v to act; the status %d, %d and %v", rows, payers,
			report.Acts(), counted.Records, counted.Payers, counted.Acts())
	}
	if left := must(h.ledger.Records(h.t.Context(),
		state.RecordFilter{}))(h.t); len(left)-payers != len(slices.DeleteFunc(left,
		func(r state.RecordRow) bool { return !r.Left })) {
		h.t.Errorf("of %d records %d are payers, and the list marks others as left", rows, payers)
	}
}

// sameReasons compares the counts of what needs a person with the lists of it.
func (h *house) sameReasons() {
	h.t.Helper()
	ctx := h.t.Context()
	funnel, numbers := must(h.ledger.Funnel(ctx))(h.t), must(h.ledger.NewCounter().Count(ctx))(h.t)
	alerts := map[string]int{}
	for _, c := range must(health.Present(ctx, h.ledger, health.Expected{}, health.Attention,
		health.MandateCancelled, health.MandateUnknown, health.EventsUnclear))(h.t) {
		switch c.Code {
		case health.Attention:
			alerts[c.Subject] = c.Count
		case health.EventsUnclear:
			alerts[string(connector.ReasonEventNotUnderstood)] = c.Count
		}
	}
	metrics, off := map[string]int{}, map[string]int{}
	for _, a := range numbers.Attention {
		metrics[a.Reason], off[a.Reason] = metrics[a.Reason]+a.N, off[a.Reason]+a.PutOff
	}
	lists, v := &admin.Lists{Ledger: h.ledger, Once: true}, h.enter("vera", pages.Viewer)
	for _, r := range slices.Sorted(maps.Keys(connector.Reasons)) {
		reason := string(r)
		// attention list
		now := must(h.ledger.Attention(ctx, state.Filter{State: reason, PutOff: state.NotPutOff, Alone: true}))(h.t)
		later := must(h.ledger.Attention(ctx, state.Filter{State: reason, PutOff: state.OnlyPutOff, Alone: true}))(h.t)
		// payers list --reason
		listed := must(lists.Page(ctx, admin.Query{RecordFilter: state.RecordFilter{Reason: reason}}))(h.t)
		n := len(now)
		if funnel.Attention[reason] != n || metrics[reason] != n || funnel.PutOff[reason] != len(later) ||
			off[reason] != len(later) {
			h.t.Errorf("%s: %d are listed and %d put off; the status counts %d and %d, the metrics %d and %d", reason, n,
				len(later), funnel.Attention[reason], funnel.PutOff[reason], metrics[reason], off[reason])
		}
		if alert, told := alerts[reason]; told != (n > 0 &&
			!slices.Contains([]connector.Reason{connector.ReasonMandateCancelled, connector.ReasonStatusUnknown,
				connector.ReasonSubscriptionChanged}, r)) || told && alert != n {
			h.t.Errorf("%s: %d are listed, and alerts tell of %d (%t)", reason, n, alert, told)
		}
		if r != connector.ReasonEventNotUnderstood && r != connector.ReasonSubscriptionChanged && len(listed.Rows) != n {
			h.t.Errorf("%s: %d need a person, and the list of payers has %d", reason, n, len(listed.Rows))
		}
		if shown := rowsAt(v, "/todo/"+reason); shown != n {
			h.t.Errorf("%s: %d need a person, and the page lists %d", reason, n, shown)
		}
	}
}

// sameLinks compares the counts by link state and by mandate with the lists of payers.
func (h *house) sameLinks() {
	h.t.Helper()
	funnel := must(h.ledger.Funnel(h.t.Context()))(h.t)
	count := func(f state.RecordFilter) (all, left int) {
		for _, r := range must(h.ledger.Records(h.t.Context(), f))(h.t) {
			if all++; r.Left {
				left++
			}
		}
		return all, left
	}
	for _, link := range []connector.LinkState{connector.LinkNew, connector.LinkCreating, connector.LinkLinked,
		connector.LinkMissing, connector.LinkConflict, connector.LinkHeld} {
		if all, left := count(state.RecordFilter{Link: string(link)}); funnel.Payers[string(link)] != all ||
			funnel.Left[string(link)] != left {
			h.t.Errorf("%s: %d are listed, %d of them left; the status counts %d and %d", link, all, left,
				funnel.Payers[string(link)], funnel.Left[string(link)])
		}
	}
}
