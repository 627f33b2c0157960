package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const subscription1 = `{"url":"https://hooks.test/in","events":["dd-mandate"],"name":"n","description":"d"}`

// receiver is a webhook endpoint in process. It answers with the statuses of
// answers in turn, then with 204.
type receiver struct {
	mu      sync.Mutex
	answers []int
	onEach  func()
	got     []received
}

type received struct {
	url    string
	header http.Header
	body   string
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if r.onEach != nil {
		r.onEach()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, received{req.URL.String(), req.Header, string(body)})
	status := http.StatusNoContent
	if len(r.answers) > 0 {
		status, r.answers = r.answers[0], r.answers[1:]
	}
	if status == 0 {
		return nil, errors.New("nobody answers")
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(nil))}, nil
}

func (r *receiver) bodies() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, g := range r.got {
		out = append(out, g.body)
	}
	return out
}

// subscribed returns a world whose mandate events go to the receiver.
func subscribed(t *testing.T, opt Options) (*world, *receiver) {
	t.Helper()
	r := &receiver{}
	opt.Deliver = &http.Client{Transport: r}
	w := newWorld(t, opt)
	w.want(200, "PUT", "/api/apps/sandbox/webhooks", subscription1)
	return w, r
}

func (w *world) deliver() int {
	w.t.Helper()
	n, err := w.Deliver(w.t.Context())
	must(w.t, err)
	return n
}

func TestSubscribingReplacesTheSubscription(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	if got := w.want(200, "GET", "/api/apps/sandbox/webhooks", "").body; got != "[]" {
		t.Errorf("got %s", got)
	}
	first := w.want(200, "PUT", "/api/apps/sandbox/webhooks", subscription1).body
	want := `{"id":"` + text(t, first, "id") +
		`","url":"https://hooks.test/in","events":["dd-mandate"],"name":"n","description":"d","enabled":true}`
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	second := w.want(200, "PUT", "/api/apps/sandbox/webhooks",
		`{"url":"https://hooks.test/other","events":["payment"]}`).body
	if got := w.want(200, "GET", "/api/apps/sandbox/webhooks", "").body; got != "["+second+"]" {
		t.Errorf("got %s, want only %s", got, second)
	}
}

func TestOthersMayTakeTheSubscriptionAway(t *testing.T) {
	t.Parallel()
	w, r := subscribed(t, Options{})
	read := func() string { return w.want(200, "GET", "/api/apps/sandbox/webhooks", "").body }
	customer := w.create(`{"name":"Ada"}`)
	must(t, w.EditSubscription("https://hooks.test/other", "customer"))
	if got := read(); !strings.Contains(got, `"url":"https://hooks.test/other","events":["customer"]`) {
		t.Errorf("edited it is %s", got)
	}
	must(t, w.DisableSubscription())
	must(t, w.Edit(customer, []byte(`{"name":"Bea"}`)))
	if n := w.deliver(); n != 0 || len(r.bodies()) != 0 {
		t.Errorf("%d webhooks are sent while the subscription is disabled", n)
	}
	w.ReplaceSubscription("https://hooks.test/third", "customer")
	if got := read(); !strings.Contains(got, `"url":"https://hooks.test/third"`) ||
		!strings.Contains(got, `"enabled":true`) {
		t.Errorf("replaced it is %s", got)
	}
	must(t, w.DeleteSubscription())
	if got := read(); got != "[]" {
		t.Errorf("deleted it is %s", got)
	}
	if err := w.DisableSubscription(); !errors.Is(err, ErrNoSubscription) {
		t.Errorf("disabling nothing: %v", err)
	}
	hidden := newWorld(t, Options{Switches: Switches{WebhookRead: "none"}})
	hidden.want(405, "GET", "/api/apps/sandbox/webhooks", "")
}

func TestSubscriptionRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.want(403, "PUT", "/api/apps/other/webhooks", subscription1)
	w.want(403, "GET", "/api/apps/other/webhooks", "")
	for _, body := range []string{
		`{"events":["payment"]}`, `{"url":"not a url","events":["payment"]}`, `{"url":"https://hooks.test"}`,
		`{"url":"https://hooks.test","events":[]}`, `{"url":"https://hooks.test","events":[""]}`,
		`{"url":"https://hooks.test","events":"payment"}`,
	} {
		w.want(422, "PUT", "/api/apps/sandbox/webhooks", body)
	}
	w.want(404, "PUT", "/api/apps/sandbox/webhooks/digest", "")
	w.want(404, "PUT", "/api/apps/sandbox/webhooks/auth", `{}`)
}

func TestSetUpStepsComeBeforeTheSubscription(t *testing.T) {
	t.Parallel()
	r := &receiver{}
	w := newWorld(t, Options{Switches: Switches{WebhookSetup: "digest_auth_subscribe"},
		Deliver: &http.Client{Transport: r}})
	drawn := w.WebhookSecret().Expose()
	const app = "/api/apps/sandbox/webhooks"
	w.want(400, "PUT", app, subscription1)
	secret := text(t, w.want(200, "PUT", app+"/digest", "").body, "secretKey")
	if secret == drawn || secret != w.WebhookSecret().Expose() || len(secret) != 44 {
		t.Errorf("got secret %q after %q", secret, drawn)
	}
	w.want(400, "PUT", app, subscription1)
	for _, bad := range []string{`{}`, `{"basicAuthentication":{}}`, `{"apiKeyAuthentication":{"headerValue":"v"}}`,
		`{"basicAuthentication":"x"}`} {
		w.want(422, "PUT", app+"/auth", bad)
	}
	w.want(200, "PUT", app+"/auth",
		`{"basicAuthentication":{"username":"u","password":"p"},"apiKeyAuthentication":{"headerKey":"X-Api-Key","headerValue":"k"}}`)
	w.want(200, "PUT", app, subscription1)
	w.openLink(w.create(`{"name":"A"}`))
	w.deliver()
	got := http.Request{Header: r.got[0].header}
	if user, pass, _ := got.BasicAuth(); user != "u" || pass != "p" || got.Header.Get("X-Api-Key") != "k" {
		t.Errorf("got headers %v", got.Header)
	}
}

func TestCredentialsAloneDoNotSetUpWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(Switches{WebhookSetup: "digest_auth_subscribe"}))
	const app = "/api/apps/sandbox/webhooks"
	w.want(200, "PUT", app+"/auth", `{"basicAuthentication":{"username":"u","password":"p"}}`)
	w.want(400, "PUT", app, subscription1)
	w.want(403, "PUT", "/api/apps/other/webhooks/digest", "")
	w.want(403, "PUT", "/api/apps/other/webhooks/auth", `{"basicAuthentication":{"username":"u"}}`)
	if got := w.Writes(); got != 0 {
		t.Errorf("setting up webhooks counted as %d writes on customers", got)
	}
}

func TestMandateActsBecomeDeliveries(t *testing.T) {
	t.Parallel()
	w, r := subscribed(t, Options{Switches: Switches{TypeHeader: "X-Type"}})
	customer := w.create(`{"name":"A"}`)
	id := w.openLink(customer)
	must(t, w.Sign(id))
	must(t, w.Approve(id))
	must(t, w.BankCancel(id, "ACCOUNT_CLOSED"))
	if got := w.Pending(); got != 4 {
		t.Fatalf("got %d waiting, want 4", got)
	}
	if got := w.deliver(); got != 4 {
		t.Errorf("got %d taken, want 4", got)
	}
	for i, status := range []string{"CREATED", "PENDING", "ACTIVE", "CANCELLED"} {
		g := r.got[i]
		if text(t, g.body, "status") != status || text(t, g.body, "customerId") != customer ||
			text(t, g.body, "mandateId") != id {
			t.Errorf("delivery %d: got %s", i, g.body)
		}
		if g.url != "https://hooks.test/in" || g.header.Get("X-Type") != "dd-mandate" {
			t.Errorf("delivery %d: got %s, %v", i, g.url, g.header)
		}
		if strings.Contains(g.body, "ACCOUNT_CLOSED") {
			t.Errorf("the failure reason is in %s", g.body)
		}
	}
}

func TestOnlySubscribedAndExtraEventsAreSent(t *testing.T) {
	t.Parallel()
	types := func(events string, extra ...string) string {
		w, r := subscribed(t, Options{Switches: Switches{ExtraEvents: extra}})
		w.want(200, "PUT", "/api/apps/sandbox/webhooks", `{"url":"https://hooks.test/in","events":[`+events+`]}`)
		id := w.create(`{"name":"A"}`)
		w.openLink(id)
		must(t, w.Edit(id, []byte(`{"name":"B"}`)))
		must(t, w.Delete(id))
		w.deliver()
		var out []string
		for _, body := range r.bodies() {
			out = append(out, text(t, body, "type"))
		}
		return strings.Join(out, " ")
	}
	tests := []struct{ got, want string }{
		{types(`"payment"`), ""},
		{types(`"customer"`), "customer customer customer"},
		{types(`"dd-mandate","customer"`), "customer dd-mandate customer customer"},
		{types(`"dd-mandate"`, "surprise"), "surprise dd-mandate surprise surprise surprise"},
	}
	for i, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("case %d: got %q, want %q", i, tt.got, tt.want)
		}
	}
}

func TestWithoutASubscriptionNothingIsQueued(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.openLink(w.create(`{"name":"A"}`))
	if got := w.Pending(); got != 0 {
		t.Errorf("got %d waiting", got)
	}
	if _, err := w.Deliver(t.Context()); err == nil {
		t.Error("Deliver worked without a client")
	}
	if err := w.Run(t.Context()); err == nil {
		t.Error("Run worked without a client")
	}
}

func TestPayloadShapes(t *testing.T) {
	t.Parallel()
	shapes := map[string]string{
		"flat":   `{"eventId":"EVENT","type":"dd-mandate","customerId":"CUSTOMER","mandateId":"MANDATE","status":"CREATED","occurredAt":"2026-03-02T09:00:00.000Z"}`,
		"nested": `{"createdAt":"2026-03-02T09:00:00.000Z","data":{"customer":{"id":"CUSTOMER"},"mandate":{"id":"MANDATE","status":"CREATED"}},"id":"EVENT","type":"dd-mandate"}`,
		"thin":   `{"billerId":"sandbox-biller","customerId":"CUSTOMER","directDebitMandateId":"OTHER","eventId":"EVENT","type":"DIRECT_DEBIT_MANDATE_INITIATED","userId":"sandbox-user"}`,
	}
	for shape, want := range shapes {
		w, _ := subscribed(t, with(Switches{Payload: shape}))
		customer := w.create(`{"name":"A"}`)
		mandate := w.openLink(customer)
		d := w.Deliveries().List()[0]
		got := strings.NewReplacer(d.ID, "EVENT", customer, "CUSTOMER", mandate, "MANDATE").Replace(string(d.Body))
		if shape == "thin" {
			got = strings.Replace(got, text(t, got, "directDebitMandateId"), "OTHER", 1)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", shape, diff)
		}
	}
}

func TestRefusedDeliveriesAreRetriedInTime(t *testing.T) {
	t.Parallel()
	w, r := subscribed(t, Options{Retries: []time.Duration{time.Minute, time.Hour}})
	r.answers = []int{500, 0, 404}
	w.openLink(w.create(`{"name":"A"}`))
	steps := []struct {
		wait            time.Duration
		attempts, queue int
	}{{0, 1, 1}, {59 * time.Second, 1, 1}, {time.Second, 2, 1}, {59 * time.Minute, 2, 1}, {time.Minute, 3, 0},
		{24 * time.Hour, 3, 0}}
	for i, step := range steps {
		w.wait(step.wait)
		w.deliver()
		if got := len(r.bodies()); got != step.attempts || w.Pending() != step.queue {
			t.Errorf("step %d: got %d attempts, %d waiting", i, got, w.Pending())
		}
	}
	if b := r.bodies(); b[0] != b[2] {
		t.Errorf("the body changed from %s to %s", b[0], b[2])
	}
}

func TestRetriedDeliverySucceeds(t *testing.T) {
	t.Parallel()
	w, r := subscribed(t, Options{})
	r.answers = []int{503}
	w.openLink(w.create(`{"name":"A"}`))
	if got := w.deliver(); got != 0 {
		t.Errorf("got %d taken", got)
	}
	if d := w.Deliveries().List()[0]; d.Attempts != 1 || d.LastStatus != 503 || !d.Due.Equal(start.Add(time.Minute)) {
		t.Errorf("got %+v", d)
	}
	w.wait(time.Minute)
	if got := w.deliver(); got != 1 || w.Pending() != 0 {
		t.Errorf("got %d taken, %d waiting", got, w.Pending())
	}
}

func TestCancelledContextLosesNoDelivery(t *testing.T) {
	t.Parallel()
	w, r := subscribed(t, Options{})
	r.answers = []int{0}
	w.openLink(w.create(`{"name":"A"}`))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Deliver(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := w.deliver(); got != 1 {
		t.Errorf("got %d taken, want 1", got)
	}
}
