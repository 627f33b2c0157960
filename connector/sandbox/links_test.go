package sandbox

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector"
)

const day = 24 * time.Hour

// link asks for a signing link and returns the mandate it is of and its path on the
// sandbox.
func (w *world) link(customer string) (mandate, path string) {
	w.t.Helper()
	body := w.want(200, "PUT", "/api/customers/"+customer+"/directdebitmandates", "").body
	return text(w.t, body, "id"), strings.TrimPrefix(text(w.t, body, "url"), w.opt.PublicURL)
}

// opens reports whether a signing page offers to sign, and fails unless what it does
// not offer cannot be done either.
func (w *world) opens(path string) bool {
	w.t.Helper()
	page := w.do("GET", path, "")
	offers := page.status == http.StatusOK && strings.Contains(page.body, "<button>")
	if expired := strings.Contains(page.body,
		"This signing link has expired"); expired != (page.status == http.StatusGone) || expired && offers {
		w.t.Errorf("%s answers %d: %s", path, page.status, page.body)
	}
	if !offers {
		if got := w.form(path, http.Header{}, nil).status; got != http.StatusGone && got != http.StatusConflict &&
			got != http.StatusNotFound {
			w.t.Errorf("%s offers nothing, and signing there answers %d", path, got)
		}
	}
	return offers
}

func TestLinkExpiresAndAnotherOfTheSameMandateTakesItsPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(Switches{LinkLife: 30 * day}))
	customer := w.create(`{"name":"A"}`)
	mandate, first := w.link(customer)
	w.wait(30*day - time.Second)
	if again, path := w.link(customer); again != mandate || path != first || !w.opens(first) {
		t.Errorf("in time: got mandate %s at %s, not %s at %s", again, path, mandate, first)
	}
	w.wait(time.Second)
	if w.opens(first) {
		t.Error("a link opens after its life")
	}
	if page := w.want(410, "GET", first, "").header.Get("Content-Type"); !strings.HasPrefix(page, "text/html") {
		t.Errorf("the page is %q", page)
	}
	if w.status(mandate) != connector.MandateCreated {
		t.Errorf("the expired link signed: %s", w.status(mandate))
	}
	again, second := w.link(customer)
	if again != mandate || second == first {
		t.Fatalf("got mandate %s at %s", again, second)
	}
	if w.opens(first) || !w.opens(second) {
		t.Error("the first link opens again, or the second does not")
	}
	if !strings.Contains(w.want(200, "GET", "/", "").body, `href="`+second+`"`) {
		t.Error("the operator's page leads to an old link")
	}
	if got := w.form(second, browser(), nil); got.status != 303 || w.status(mandate) != connector.MandatePending {
		t.Errorf("signing answers %d, and leaves %s", got.status, w.status(mandate))
	}
	w.wait(60 * day)
	for _, path := range []string{first, second} {
		if got := w.want(200, "GET", path, "").body; !strings.Contains(got, connector.MandatePending.Label()) {
			t.Errorf("once it is signed, %s says %s", path, got)
		}
	}
	must(t, w.Delete(customer))
	w.want(404, "GET", first, "")
	w.want(404, "GET", second, "")
}

func TestLinkIsReplacedAsTheSwitchesSay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		created, replaced string
		sameMandate       bool
		firstOpens        bool
		first             connector.MandateStatus
	}{
		{"same", "", true, true, "CREATED"},
		{"renewed", "", true, false, "CREATED"},
		{"new", "open", false, true, "CREATED"},
		{"new", "cancelled", false, false, "CANCELLED"},
	}
	for _, tt := range tests {
		t.Run(tt.created+tt.replaced, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, with(Switches{LinkWhenCreated: tt.created, ReplacedMandate: tt.replaced}))
			customer := w.create(`{"name":"A"}`)
			mandate, first := w.link(customer)
			again, second := w.link(customer)
			if (again == mandate) != tt.sameMandate || (second == first) != (tt.created == "same") {
				t.Errorf("got mandate %s at %s after %s at %s", again, second, mandate, first)
			}
			if got := w.status(mandate); got != tt.first {
				t.Errorf("the first mandate is %s, not %s", got, tt.first)
			}
			if w.opens(first) != tt.firstOpens || !w.opens(second) {
				t.Errorf("the first link opens: %v, the second: %v", w.opens(first), w.opens(second))
			}
		})
	}
}

func TestLinkCallIsRefusedInTheListedStatuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(Switches{LinkRefused: []connector.MandateStatus{"CREATED", "CANCELLED"}}))
	customer := w.create(`{"name":"A"}`)
	path := "/api/customers/" + customer + "/directdebitmandates"
	id := w.openLink(customer)
	w.want(400, "PUT", path, "")
	must(t, w.Sign(id))
	w.want(200, "PUT", path, "")
	must(t, w.PayerCancel(id))
	w.want(400, "GET", path, redirect)
	if n := len(w.Customers()[0].Mandates); n != 1 {
		t.Errorf("refused calls made %d mandates", n-1)
	}
}

func TestLinkCallIsRefusedForOneCustomer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	refused, other := w.create(`{"name":"A"}`), w.create(`{"name":"B"}`)
	must(t, w.RefuseLinks(refused, true))
	if got := w.want(400, "PUT", "/api/customers/"+refused+"/directdebitmandates", "").body; !strings.Contains(got,
		"NOT_LINKABLE") {
		t.Errorf("got %s", got)
	}
	w.openLink(other)
	must(t, w.RefuseLinks(refused, false))
	w.openLink(refused)
	if err := w.RefuseLinks("unknown", true); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestChangeOfBankLeadsToWhatTheSwitchSays(t *testing.T) {
	t.Parallel()
	for _, from := range []connector.MandateStatus{"PENDING", "ACTIVE"} {
		for word, want := range map[string]struct{ first, latest connector.MandateStatus }{
			"new": {"CANCELLED", "PENDING"}, "sign": {"CANCELLED", "CREATED"}, "same": {"PENDING", "PENDING"},
		} {
			w := newWorld(t, with(Switches{BankChange: word}))
			customer := w.create(`{"name":"A"}`)
			first := w.openLink(customer)
			must(t, w.SetStatus(first, from))
			before := len(w.Requests())
			latest, err := w.ChangeBank(first)
			must(t, err)
			if (latest == first) != (word == "same") || w.status(first) != want.first || w.status(latest) != want.latest {
				t.Errorf("%s from %s: mandate %s is %s, then %s is %s", word, from, first, w.status(first), latest,
					w.status(latest))
			}
			if got := text(t, w.do("GET", "/api/customers/"+customer, "").body, "directDebitMandate", "id"); got != latest {
				t.Errorf("%s: the customer shows mandate %s, not %s", word, got, latest)
			}
			if n := len(w.Requests()) - before; n != 1 { // the one above
				t.Errorf("%s: it took %d calls", word, n-1)
			}
		}
	}
	w := newWorld(t, Options{})
	id := w.openLink(w.create(`{"name":"A"}`))
	if _, err := w.ChangeBank(id); !errors.Is(err, ErrStatus) {
		t.Errorf("in CREATED: got %v", err)
	}
	if _, err := w.ChangeBank("unknown"); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestCancelledMandateComesBackUnderItsID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(Switches{FailureReason: "summary"}))
	customer := w.create(`{"name":"A"}`)
	id := w.openLink(customer)
	must(t, w.SetStatus(id, connector.MandateActive))
	must(t, w.BankCancel(id, "ACCOUNT_CLOSED"))
	must(t, w.Reinstate(id))
	if got := at(t, w.do("GET", "/api/customers/"+customer, "").body, "directDebitMandate"); !strings.Contains(got,
		`"id":"`+id+`","status":"ACTIVE"`) || strings.Contains(got, "ACCOUNT_CLOSED") {
		t.Errorf("got %s", got)
	}
	if err := w.Reinstate(id); !errors.Is(err, ErrStatus) {
		t.Errorf("once more: got %v", err)
	}
	if again := w.openLink(customer); again != id {
		t.Errorf("a link call made %s beside %s", again, id)
	}
}

func TestActsOnLinksAreToldByWebhook(t *testing.T) {
	t.Parallel()
	w, _ := subscribed(t, with(Switches{LinkWhenCreated: "renewed", BankChange: "sign"}))
	customer := w.create(`{"name":"A"}`)
	id := w.openLink(customer)
	w.openLink(customer) // renews, which is no event
	must(t, w.SetStatus(id, connector.MandateCancelled))
	must(t, w.Reinstate(id))
	_, err := w.ChangeBank(id)
	must(t, err)
	if n := w.Pending(); n != 5 {
		t.Errorf("%d deliveries wait, want those of the opening, the cancellation, the return, the new mandate and the end of the old", n)
	}
}
