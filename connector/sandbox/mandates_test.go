package sandbox

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

const redirect = `{"redirectUrl":"https://app.test/done"}`

func TestMandateLivesFromLinkToActive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{PublicURL: "https://pay.test"})
	customer := w.create(`{"name":"A"}`)
	got := w.want(200, "PUT", "/api/customers/"+customer+"/directdebitmandates", redirect).body
	id := text(t, got, "id")
	want := map[string]string{
		"status": "CREATED", "creationTime": "2026-03-02T09:00:00.000Z", "url": "https://pay.test/sign/" + id,
		"redirectUrl": "https://app.test/done", "bankAccountNumber": redactionMarker,
	}
	for name, value := range want {
		if text(t, got, name) != value {
			t.Errorf("%s: got %s, want %s", name, at(t, got, name), value)
		}
	}
	w.wait(time.Minute)
	must(t, w.Sign(id))
	w.wait(time.Minute)
	must(t, w.Approve(id))
	summary := at(t, w.want(200, "GET", "/api/customers/"+customer, "").body, "directDebitMandate")
	if want := `{"id":"` + id + `","status":"ACTIVE","lastUpdatedTime":"2026-03-02T09:02:00.000Z"}`; summary != want {
		t.Errorf("got %s, want %s", summary, want)
	}
	m, _ := w.Mandate(id)
	history := []StatusChange{{"CREATED", start}, {"PENDING", start.Add(time.Minute)}, {"ACTIVE", start.Add(2 * time.Minute)}}
	if diff := cmp.Diff(history, m.History); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLinkCallFollowsTheStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		created string
		advance func(*world, string) error
		same    bool
	}{
		{"created, same", "same", func(*world, string) error { return nil }, true},
		{"created, new", "new", func(*world, string) error { return nil }, false},
		{"pending", "new", func(w *world, id string) error { return w.Sign(id) }, true},
		{"active", "new", func(w *world, id string) error { return errors.Join(w.Sign(id), w.Approve(id)) }, true},
		{"cancelled", "same", func(w *world, id string) error { return w.PayerCancel(id) }, false},
		{"unknown status", "new", func(w *world, id string) error { return w.SetStatus(id, "SLEEPING") }, true},
	}
	for _, tt := range tests {
		w := newWorld(t, with(Switches{LinkWhenCreated: tt.created}))
		customer := w.create(`{"name":"A"}`)
		first := w.openLink(customer)
		must(t, tt.advance(w, first))
		before := w.status(first)
		second := w.openLink(customer)
		if (second == first) != tt.same {
			t.Errorf("%s: got mandate %s after %s", tt.name, second, first)
		}
		if w.status(first) != before {
			t.Errorf("%s: the first mandate went from %s to %s", tt.name, before, w.status(first))
		}
		if !tt.same && w.status(second) != connector.MandateCreated {
			t.Errorf("%s: the new mandate is %s", tt.name, w.status(second))
		}
		latest := text(t, w.do("GET", "/api/customers/"+customer, "").body, "directDebitMandate", "id")
		if latest != second {
			t.Errorf("%s: the customer shows %s, not the latest %s", tt.name, latest, second)
		}
	}
}

func TestActsWantTheRightStatus(t *testing.T) {
	t.Parallel()
	acts := map[string]func(*world, string) error{
		"sign":        func(w *world, id string) error { return w.Sign(id) },
		"approve":     func(w *world, id string) error { return w.Approve(id) },
		"payerCancel": func(w *world, id string) error { return w.PayerCancel(id) },
		"bankCancel":  func(w *world, id string) error { return w.BankCancel(id, "ACCOUNT_CLOSED") },
	}
	after := map[string]map[connector.MandateStatus]connector.MandateStatus{
		"sign":        {"CREATED": "PENDING"},
		"approve":     {"PENDING": "ACTIVE", "MIGRATING": "ACTIVE"},
		"payerCancel": {"CREATED": "CANCELLED", "PENDING": "CANCELLED", "ACTIVE": "CANCELLED", "MIGRATING": "CANCELLED"},
		"bankCancel":  {"CREATED": "CANCELLED", "PENDING": "CANCELLED", "ACTIVE": "CANCELLED", "MIGRATING": "CANCELLED"},
	}
	for name, act := range acts {
		for _, from := range []connector.MandateStatus{"CREATED", "PENDING", "ACTIVE", "CANCELLED", "MIGRATING", "SLEEPING"} {
			w := newWorld(t, Options{})
			id := w.openLink(w.create(`{"name":"A"}`))
			must(t, w.SetStatus(id, from))
			want, allowed := after[name][from]
			if !allowed {
				want = from
			}
			if err := act(w, id); (err == nil) != allowed || !allowed && !errors.Is(err, ErrStatus) {
				t.Errorf("%s from %s: got error %v", name, from, err)
			}
			if got := w.status(id); got != want {
				t.Errorf("%s from %s: got %s, want %s", name, from, got, want)
			}
		}
	}
}

func TestActsOnUnknownMandatesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	if err := w.Sign("x"); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if _, ok := w.Mandate("x"); ok {
		t.Error("there is a mandate x")
	}
}

func TestBankCancelLeavesAFailureReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	customer := w.create(`{"name":"A"}`)
	byPayer := w.openLink(customer)
	must(t, w.PayerCancel(byPayer))
	byBank := w.openLink(customer)
	must(t, w.BankCancel(byBank, "ACCOUNT_CLOSED"))
	if m, _ := w.Mandate(byPayer); m.FailureReason != "" {
		t.Errorf("payer's cancel: got reason %q", m.FailureReason)
	}
	got := w.want(200, "PUT", "/api/customers/directdebitmandates/"+byBank+":cancel", "{}").body
	if reason := text(t, got, "failureReason"); reason != "ACCOUNT_CLOSED" {
		t.Errorf("bank's cancel: got reason %q", reason)
	}
	if summary := at(t, w.do("GET", "/api/customers/"+customer, "").body, "directDebitMandate"); strings.Contains(summary,
		"ACCOUNT") {
		t.Errorf("the summary tells the reason: %s", summary)
	}
}

func TestLinkMethodsFollowTheSwitch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		word     string
		refusal  int
		put, get int
	}{
		{"both", 405, 200, 200},
		{"put", 405, 200, 405},
		{"get", 501, 501, 200},
		{"get", 404, 404, 200},
	}
	for _, tt := range tests {
		w := newWorld(t, with(Switches{MandateLink: tt.word, RefusedMethodStatus: tt.refusal}))
		path := "/api/customers/" + w.create(`{"name":"A"}`) + "/directdebitmandates"
		w.want(tt.put, "PUT", path, redirect)
		w.want(tt.get, "GET", path, redirect)
		if n := len(w.Customers()[0].Mandates); n != 1 {
			t.Errorf("%s: got %d mandates, want 1", tt.word, n)
		}
	}
}

func TestGetCanListMandates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(Switches{MandateLink: "put_list"}))
	customer := w.create(`{"name":"A"}`)
	path := "/api/customers/" + customer + "/directdebitmandates"
	if got := w.want(200, "GET", path, "").body; got != `{"mandates":[]}` {
		t.Errorf("got %s", got)
	}
	must(t, w.PayerCancel(w.openLink(customer)))
	w.openLink(customer)
	var all struct{ Mandates []struct{ Status string } }
	must(t, json.Unmarshal([]byte(w.want(200, "GET", path, "").body), &all))
	if len(all.Mandates) != 2 || all.Mandates[0].Status != "CANCELLED" || all.Mandates[1].Status != "CREATED" {
		t.Errorf("got %+v", all)
	}
	w.want(404, "GET", "/api/customers/unknown/directdebitmandates", "")
}

func TestLinkCallRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.create(`{"name":"A"}`)
	w.want(404, "PUT", "/api/customers/unknown/directdebitmandates", redirect)
	w.want(404, "PUT", "/api/customers/"+id+"/somethingelse", redirect)
	w.want(400, "PUT", "/api/customers/"+id+"/directdebitmandates", `[`)
	for _, bad := range []string{`"app"`, `"javascript:alert(1)"`, `7`, `""`, `"//app.test"`} {
		w.want(422, "PUT", "/api/customers/"+id+"/directdebitmandates", `{"redirectUrl":`+bad+`}`)
	}
	if n := len(w.Customers()[0].Mandates); n != 0 {
		t.Errorf("refused calls made %d mandates", n)
	}
}

func TestLinkCallInCreatedTakesTheNewReturnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	customer := w.create(`{"name":"A"}`)
	id := w.openLink(customer)
	w.want(200, "PUT", "/api/customers/"+customer+"/directdebitmandates", redirect)
	if m, _ := w.Mandate(id); m.RedirectURL != "https://app.test/done" {
		t.Errorf("got return address %q", m.RedirectURL)
	}
}

func TestCancelSpellings(t *testing.T) {
	t.Parallel()
	calls := map[string]struct{ path, body string }{
		"colon": {":cancel", `{"reason":"moved bank"}`},
		"slash": {"/cancel", ""},
		"query": {"?action=cancel", ""},
		"body":  {"", `{"action":"cancel"}`},
	}
	for word := range calls {
		for spelt, call := range calls {
			w := newWorld(t, with(Switches{Cancel: word}))
			id := w.openLink(w.create(`{"name":"A"}`))
			got := w.do("PUT", "/api/customers/directdebitmandates/"+id+call.path, call.body).status
			cancelled := w.status(id) == connector.MandateCancelled
			if cancelled != (word == spelt) || (got == 200) != cancelled {
				t.Errorf("switch %s, call %s: got status %d, cancelled %v", word, spelt, got, cancelled)
			}
		}
	}
}

func TestCancelRefusesAnEscapedColonAndOtherActions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.openLink(w.create(`{"name":"A"}`))
	for _, suffix := range []string{"%3Acancel", ":reinstate", ":", ""} {
		w.want(404, "PUT", "/api/customers/directdebitmandates/"+id+suffix, "{}")
	}
	w.want(404, "PUT", "/api/customers/directdebitmandates/unknown:cancel", "{}")
	if got := w.status(id); got != connector.MandateCreated {
		t.Errorf("got %s", got)
	}
}

func TestCancelIsRefusedFromTheListedStatuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(Switches{CancelRefused: []connector.MandateStatus{"ACTIVE"}}))
	id := w.openLink(w.create(`{"name":"A"}`))
	must(t, w.Sign(id))
	must(t, w.Approve(id))
	w.want(400, "PUT", "/api/customers/directdebitmandates/"+id+":cancel", "")
	if got := w.status(id); got != connector.MandateActive {
		t.Errorf("got %s", got)
	}
}

func TestCancellingTwiceIsCancellingOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.openLink(w.create(`{"name":"A"}`))
	for range 2 {
		w.want(200, "PUT", "/api/customers/directdebitmandates/"+id+":cancel", "")
	}
	if m, _ := w.Mandate(id); len(m.History) != 2 {
		t.Errorf("got history %v", m.History)
	}
}

func TestMandateTimesFollowTheSwitch(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		"exact": `"2026-03-02T09:00:42.000Z"`, "coarse": `"2026-03-02T09:00:00.000Z"`, "missing": "",
	} {
		w := newWorld(t, with(Switches{MandateTimes: form}))
		customer := w.create(`{"name":"A"}`)
		w.wait(42 * time.Second)
		w.openLink(customer)
		got := at(t, w.do("GET", "/api/customers/"+customer, "").body, "directDebitMandate", "lastUpdatedTime")
		if got != want {
			t.Errorf("%s: got %s, want %s", form, got, want)
		}
	}
}

func TestMigratingMandatesComeFromElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.create(`{"name":"A"}`)
	if _, err := w.Migrate(id); !errors.Is(err, ErrStatus) {
		t.Errorf("with the switch off: got %v", err)
	}
	w = newWorld(t, with(Switches{Migrating: true}))
	id = w.create(`{"name":"A"}`)
	mandate, err := w.Migrate(id)
	must(t, err)
	if got := w.names("?ddMandateStatuses=MIGRATING"); got != "A" {
		t.Errorf("got %q in MIGRATING", got)
	}
	if again := w.openLink(id); again != mandate {
		t.Errorf("a link call made %s beside %s", again, mandate)
	}
	must(t, w.Approve(mandate))
	if _, err := w.Migrate("unknown"); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}
