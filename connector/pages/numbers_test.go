package pages_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/pages"
	"payersync/connector/standing"
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
		h.receive(state.Delivery{Key: fmt.Sprintf("event:%d#1", r.Uint64()), Type: "odd", State: connector.InboxQuarantined, Detail: "It names no customer.", Body: []byte(`{}`)})
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
	if what == 0 {
		_ = must(h.ledger.Forget(context.Background(), id, word))(h.t)
		return
	}
	h.do(func(tx *state.Tx) error {
		switch {
		case what == 1:
			_, err := tx.GiveUp(id, "as it is", word)
			return err
		case what == 2:
			if err := tx.Merge(id.Connection, id.SourceID, other.SourceID); !errors.Is(err, state.ErrMerged) && !errors.Is(err, state.ErrUnderWay) {
				return err
			}
		case what < 6 && mandate != "":
			_, err := tx.SaveMandate(connector.Mandate{ID: mandate, CustomerID: *row.BillingID, Status: pick[connector.MandateStatus](r, "PENDING", "ACTIVE", "CANCELLED", "DORMANT")}, connector.CauseSweep, "1")
			return err
		case what == 6 && mandate != "":
			_, err := tx.NoteHandover(mandate, h.ledger.Now(), "ada")
			return err
		case what < 10:
			return h.tells(tx, r, id, word)
		}
		return nil
	})
}

// tells says that something is the matter with a record, of one topic or of two, and puts it off perhaps.
func (h *house) tells(tx *state.Tx, r *rand.Rand, id state.RecordID, word state.Entry) error {
	reason := pick(r, slices.Sorted(maps.Keys(connector.Reasons))...)
	topics := pick(r, []state.Topic{state.TopicRecord}, []state.Topic{state.TopicLink}, []state.Topic{state.TopicMandate}, []state.Topic{state.TopicLink, state.TopicMandate})
	for _, topic := range topics {
		if err := tx.SetAttention(id.Connection, id.SourceID, topic, reason, "Something is the matter."); err != nil {
			return err
		}
	}
	if r.IntN(3) == 0 {
		_, err := tx.PutOff(id, reason, h.ledger.Now().Add(48*time.Hour), word)
		return err
	}
	return nil
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
	linkedNumber = `<a href="([^"]+)">([\d,]+) `                                                           // 3 left the books
	tableNumber  = `<th scope="row"[^>]*><a href="([^"]+)"[^>]*>[^<]+</a></th><td class="n"[^>]*>([\d,]+)` // of a row
)

// sumOf adds up the numbers of the links that begin so.
func sumOf(of map[string]int, prefix string) (sum int) {
	for path, n := range of {
		if strings.HasPrefix(path, prefix) {
			sum += n
		}
	}
	return sum
}

func TestEveryNumberLeadsToExactlyItsPayers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.run(true)
			h.mixUp(rand.New(rand.NewPCG(seed, 75)))
			h.recount()
			v := h.enter("vera", pages.Viewer)
			shown := map[string]map[string]int{}
			for _, page := range []string{"/", "/mandates/report", "/todo"} {
				text := v.get(page, http.StatusOK)
				shown[page] = numbered(t, text, tableNumber)
				maps.Copy(shown[page], numbered(t, text, linkedNumber))
				for path, n := range shown[page] {
					if path == "/todo" || strings.HasPrefix(path, "/runs") || strings.HasPrefix(path, "/todo/event") || strings.HasPrefix(path, "/webhooks") {
						continue // several lists, or another kind of row
					}
					if rows := rowsAt(v, path); rows != n {
						t.Errorf("%s says %d, and %s lists %d", page, n, path, rows)
					}
				}
			}
			waits := map[standing.Who]int{}
			payers, records := 0, 0
			if err := h.ledger.EachStanding(t.Context(), "", func(f state.Standing) error {
				s := standing.Of(f, h.ledger.Now())
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
			if n := sumOf(shown["/"], yours+"&"); n != waits[standing.You] {
				t.Errorf("%d wait for you, and the overview leads to %d: %v", waits[standing.You], n, shown["/"])
			}
			for _, page := range []string{"/mandates/report", "/todo"} {
				if n := shown[page][yours]; n != waits[standing.You] {
					t.Errorf("%d wait for you, and %s says %d: %v", waits[standing.You], page, n, shown[page])
				}
			}
			holds(t, v.get("/", http.StatusOK), fmt.Sprintf("of %d payers can be debited.", payers))
			holds(t, v.get("/mandates/report", http.StatusOK), fmt.Sprintf("of %d payers can be debited.", payers))
			if payers == records {
				t.Errorf("every record is a payer, so that nothing was tried")
			}
		})
	}
}
