package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"payersync/connector"
	"payersync/state"
)

const wordOfRecipient = "List-Unsubscribe=One-Click"

// stopDesk is an endpoint whose ledger has one payer with a mandate, and what it reported.
type stopDesk struct {
	*endpoint
	token string
	mu    sync.Mutex
	ended []StopOutcome
}

func newStopDesk(t testing.TB, edit ...func(*Config)) *stopDesk {
	t.Helper()
	d := &stopDesk{}
	d.endpoint = newEndpoint(t, bodyOnly(), append([]func(*Config){func(c *Config) {
		c.StopPath, c.StopReport = StopPath,
			func(e StopEvent) { d.mu.Lock(); d.ended = append(d.ended, e.Outcome); d.mu.Unlock() }
	}}, edit...)...)
	record := connector.Record{SourceID: "A1", State: connector.RecordActive, Data: []byte(`{}`)}
	if err := d.ledger.Do(t.Context(), func(tx *state.Tx) error {
		if err := errors.Join(tx.PinConnection(state.Connection{Name: "acme", Info: connector.SourceInfo{Kind: "books"}}),
			tx.SaveMapping("m1", "version: 1", "tester")); err != nil {
			return err
		}
		run, err := tx.OpenRun(state.NewRun{Connection: "acme", Kind: connector.RunSync, Trigger: "manual", Mapping: "m1",
			Holder: "test"})
		if err != nil {
			return err
		}
		if err := errors.Join(tx.SavePage(run, "acme", []connector.Record{record}),
			tx.SaveDecisions(run, "acme", "m1",
				state.Decision{SourceID: "A1", ContentHash: record.Hash(), Verdict: state.Included,
					Key: connector.Key{Name: "no", Value: "A1"}})); err != nil {
			return err
		}
		if err := tx.LinkPayer(state.Payer{Connection: "acme", SourceID: "A1"}, "c1", true); err != nil {
			return err
		}
		_, err = tx.SaveMandate(connector.Mandate{ID: "m1", CustomerID: "c1", Status: connector.MandateCreated},
			connector.CauseSweep, "1")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	d.token = d.ledger.StopToken("m1")
	return d
}

// ask sends a request and returns the answer.
func (d *stopDesk) ask(method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, r)
	return w
}

func (d *stopDesk) wantEnded(want ...StopOutcome) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.ended, want) {
		d.t.Errorf("it ended as %q, want %q", d.ended, want)
	}
	d.ended = nil
}

// covers F133
func TestARecipientStopsLettersByAPostAlone(t *testing.T) {
	t.Parallel()
	d := newStopDesk(t)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodGet} { // a scanner, and then the person
		if w := d.ask(method, StopPath+d.token, ""); w.Code != http.StatusOK ||
			!bytes.Contains(w.Body.Bytes(), []byte("<button")) {
			t.Errorf("%s is answered with %d and no button", method, w.Code)
		}
	}
	d.wantEnded(StopShown, StopShown, StopShown)
	for range 2 {
		if w := d.ask(http.MethodPost, StopPath+d.token, wordOfRecipient); w.Code != http.StatusOK {
			t.Errorf("the word is answered with %d", w.Code)
		}
	}
	d.wantEnded(LettersStopped, StoppedBefore)
	// another process knows of it
	if got, err := d.open().OptOut(t.Context(), d.token); err != nil || got != (state.OptingOut{Known: true}) {
		t.Errorf("in the ledger it is %+v, %v", got, err)
	}
}

// RFC 8058 lets mail programs send either kind of form.
//
// covers F133
func TestMailProgramsSendEitherKindOfForm(t *testing.T) {
	t.Parallel()
	d := newStopDesk(t)
	const parts = "--x\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--x--\r\n"
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, StopPath+d.token, strings.NewReader(parts))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	w := httptest.NewRecorder()
	if d.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("it is answered with %d", w.Code)
	}
	d.wantEnded(LettersStopped)
}

// What a stranger sees is the same whatever the token is.
//
// covers F133
func TestNothingTellsATokenOfOursFromAnother(t *testing.T) {
	t.Parallel()
	d := newStopDesk(t)
	forged := strings.Repeat("A", len(d.token))
	for _, c := range []struct{ method, body string }{{http.MethodGet, ""}, {http.MethodPost, wordOfRecipient},
		{http.MethodPost, ""}, {http.MethodPut, ""},
		{http.MethodPost, strings.Repeat("x", stopBody+1) + "&" + wordOfRecipient}} {
		ours := d.ask(c.method, StopPath+d.token, c.body)
		for _, token := range []string{forged, "", "m1", "../" + d.token, d.token + "/", strings.Repeat("A", 8000)} {
			other := d.ask(c.method, StopPath+token, c.body)
			if ours.Code != other.Code || ours.Body.String() != other.Body.String() ||
				fmt.Sprint(ours.Header()) != fmt.Sprint(other.Header()) {
				t.Errorf("%s with %.20q is answered with %d, ours with %d", c.method, token, other.Code, ours.Code)
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(slices.DeleteFunc(slices.Clone(d.ended),
		func(o StopOutcome) bool { return o != LettersStopped })); n != 1 {
		t.Errorf("letters were stopped %d times, want once", n)
	}
}

func TestThePagesThatStopLettersHoldNothingForeign(t *testing.T) {
	t.Parallel()
	d := newStopDesk(t)
	for _, w := range []*httptest.ResponseRecorder{d.ask(http.MethodGet, StopPath+d.token, ""),
		d.ask(http.MethodPost, StopPath+d.token, wordOfRecipient)} {
		page := w.Body.String()
		for _, foreign := range []string{"<script", "style", "src=", "http", "<img", "<link", d.token} {
			if strings.Contains(page, foreign) {
				t.Errorf("the page holds %q", foreign)
			}
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"Referrer-Policy":         "no-referrer",
			"Cache-Control":           "no-store", "X-Content-Type-Options": "nosniff", "Set-Cookie": "",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
}

// Strangers who guess are put off; who has a letter of ours is not, from the same network.
//
// covers F133
func TestGuessesAtTokensAreLimited(t *testing.T) {
	t.Parallel()
	d := newStopDesk(t, func(c *Config) { c.Refused = 10 })
	statuses := map[int]int{}
	for range 100 {
		statuses[d.ask(http.MethodPost, StopPath+"guess", wordOfRecipient).Code]++
	}
	if statuses[http.StatusTooManyRequests] < 50 || statuses[http.StatusOK] < 10 {
		t.Errorf("guesses were answered with %v", statuses)
	}
	if w := d.ask(http.MethodPost, StopPath+d.token, wordOfRecipient); w.Code != http.StatusOK {
		t.Errorf("a recipient was answered with %d", w.Code)
	}
}

// covers F133
func TestAWordThatTheLedgerDidNotTakeIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	d := newStopDesk(t)
	if err := d.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	if w := d.ask(http.MethodPost, StopPath+d.token, wordOfRecipient); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("it was answered with %d", w.Code)
	}
	d.wantEnded(StopNotStored)
}

func TestStopsAreServedWhereRecipientsReachUsAlone(t *testing.T) {
	t.Parallel()
	d := newStopDesk(t, func(c *Config) { c.StopPath = "" })
	if w := d.ask(http.MethodPost, StopPath+d.token, wordOfRecipient); w.Code != http.StatusNotFound {
		t.Errorf("it is answered with %d, want 404", w.Code)
	}
	w := httptest.NewRecorder()
	newStopDesk(t).HealthHandler().ServeHTTP(w,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, StopPath+d.token, nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("beside the health pages it is answered with %d, want 404", w.Code)
	}
}

// Whatever a stranger sends, it is answered, and stops nobody.
//
// covers F133
func FuzzStopRequests(f *testing.F) {
	f.Add("POST", "abc", wordOfRecipient, "application/x-www-form-urlencoded")
	f.Add("GET", "../../healthz", "", "")
	f.Add("POST", "%00", "--x\r\n", "multipart/form-data; boundary=x")
	d := newStopDesk(f)
	f.Fuzz(func(t *testing.T, method, token, body, kind string) {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, StopPath, strings.NewReader(body))
		r.Method, r.URL.Path = method, StopPath+token
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		d.serveStop(w, r)
		if w.Code >= 500 || w.Code < 200 {
			t.Errorf("it is answered with %d", w.Code)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if slices.Contains(d.ended, LettersStopped) {
			t.Error("it stopped somebody's letters")
		}
		d.ended = nil
	})
}

func TestAWordOfARecipientThatDoesNotArriveIsRefused(t *testing.T) {
	t.Parallel()
	for reason, want := range map[error]int{os.ErrDeadlineExceeded: http.StatusRequestTimeout,
		io.ErrUnexpectedEOF: http.StatusBadRequest} {
		for _, kind := range []string{"application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
			d := newStopDesk(t)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, StopPath+d.token,
				io.MultiReader(strings.NewReader(wordOfRecipient+"&x="), iotest.ErrReader(reason)))
			r.Header.Set("Content-Type", kind)
			w := httptest.NewRecorder()
			d.Handler().ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s, %v: answered %d, want %d", kind, reason, w.Code, want)
			}
			d.wantEnded(StopRefused)
		}
	}
}
