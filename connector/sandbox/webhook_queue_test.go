package sandbox

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector"
)

func TestReceiverMayActOnTheSandbox(t *testing.T) {
	t.Parallel()
	w, r := subscribed(t, Options{})
	id := w.openLink(w.create(`{"name":"A"}`))
	must(t, w.Sign(id))
	r.onEach = func() { w.Deliveries().Drop(0) }
	if got := w.deliver(); got != 1 || w.Pending() != 0 {
		t.Errorf("a receiver that loses the next delivery: got %d taken, %d waiting", got, w.Pending())
	}
	must(t, w.Approve(id))
	r.onEach = func() { must(t, w.SetStatus(id, "ACTIVE")) }
	if got := w.deliver(); got != 1 || w.Pending() != 1 {
		t.Errorf("a receiver that causes events: got %d taken, %d waiting", got, w.Pending())
	}
}

func TestQueueCanLoseDoubleSwapAndHold(t *testing.T) {
	t.Parallel()
	order := func(act func(*world, Queue)) string {
		w, r := subscribed(t, Options{})
		id := w.openLink(w.create(`{"name":"A"}`))
		must(t, w.Sign(id))
		must(t, w.Approve(id))
		act(w, w.Deliveries())
		w.deliver()
		var out []string
		for _, body := range r.bodies() {
			out = append(out, text(t, body, "status"))
		}
		return strings.Join(out, " ")
	}
	tests := []struct {
		name string
		act  func(*world, Queue)
		want string
	}{
		{"nothing", func(*world, Queue) {}, "CREATED PENDING ACTIVE"},
		{"drop", func(_ *world, q Queue) { q.Drop(1) }, "CREATED ACTIVE"},
		{"duplicate", func(_ *world, q Queue) { q.Duplicate(0) }, "CREATED CREATED PENDING ACTIVE"},
		{"swap", func(_ *world, q Queue) { q.Swap(0, 2) }, "ACTIVE PENDING CREATED"},
		{"hold", func(_ *world, q Queue) { q.Hold(1, start.Add(time.Hour)) }, "CREATED ACTIVE"},
		{"hold, over", func(w *world, q Queue) { q.Hold(1, start.Add(time.Hour)); w.wait(time.Hour) },
			"CREATED PENDING ACTIVE"},
	}
	for _, tt := range tests {
		if got := order(tt.act); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestDuplicatesShareTheirID(t *testing.T) {
	t.Parallel()
	w, _ := subscribed(t, Options{DeliveryFaults: DeliveryFaults{Duplicate: 1}})
	w.openLink(w.create(`{"name":"A"}`))
	d := w.Deliveries().List()
	if len(d) != 2 || d[0].ID != d[1].ID || !bytes.Equal(d[0].Body, d[1].Body) {
		t.Errorf("got %+v", d)
	}
}

func TestDeliveryFaultsStrikeAtTheirRate(t *testing.T) {
	t.Parallel()
	w, _ := subscribed(t, Options{DeliveryFaults: DeliveryFaults{Drop: 0.2, Duplicate: 0.5, Hold: 0.5,
		HoldUpTo: time.Hour}})
	const n = 2000
	id := w.openLink(w.create(`{"name":"A"}`))
	for range n - 1 {
		must(t, w.SetStatus(id, connector.MandateActive))
	}
	var held int
	d := w.Deliveries().List()
	for _, one := range d {
		if one.Due.After(start) {
			held++
		}
		if one.Due.After(start.Add(time.Hour)) {
			t.Fatalf("held until %v", one.Due)
		}
	}
	if want := n * 8 / 10 * 15 / 10; len(d) < want*9/10 || len(d) > want*11/10 {
		t.Errorf("got %d deliveries of %d events, want about %d", len(d), n, want)
	}
	if held < len(d)*4/10 || held > len(d)*6/10 {
		t.Errorf("got %d of %d held back, want about half", held, len(d))
	}
}

func TestRotatedSecretSignsWhatIsSentFromThen(t *testing.T) {
	t.Parallel()
	w, r := subscribed(t, Options{})
	id := w.openLink(w.create(`{"name":"A"}`))
	w.deliver()
	must(t, w.SetWebhookSecret(connector.NewSecret("another secret of enough length")))
	must(t, w.Sign(id))
	w.deliver()
	for i, secret := range []string{"", "another secret of enough length"} {
		g := r.got[i]
		if signed := g.header.Get("X-Signature") == hexMAC(secret, g.body); signed != (i == 1) {
			t.Errorf("delivery %d: signed with the new secret: %v", i, signed)
		}
	}
	strict := newWorld(t, with(Switches{Signature: Signature{Key: "hex"}}))
	if err := strict.SetWebhookSecret(connector.NewSecret("no hex")); err == nil ||
		strings.Contains(err.Error(), "no hex") {
		t.Errorf("got %v", err)
	}
}

func TestRunDeliversUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answers: []int{500}}
		s := New(Options{Deliver: &http.Client{Transport: r}, Retries: []time.Duration{20 * time.Second}})
		w := &world{Sandbox: s, t: t, token: s.IssueToken(ClientCredentials, 24*time.Hour)}
		w.want(200, "PUT", "/api/apps/sandbox/webhooks", subscription1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		id := w.openLink(w.create(`{"name":"A"}`))
		synctest.Wait()
		if got := len(r.bodies()); got != 1 {
			t.Errorf("got %d attempts at once, want 1", got)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got := len(r.bodies()); got != 2 {
			t.Errorf("got %d attempts after the retry, want 2", got)
		}
		w.Inject(Fault{Kind: Late, Count: 1, Delay: 10*time.Minute + 5*time.Second})
		if _, err := w.try("PUT", "/api/customers/directdebitmandates/"+id+":cancel", ""); err == nil {
			t.Error("a late request was answered")
		}
		must(t, s.Sign(id))
		time.Sleep(10*time.Minute + 6*time.Second)
		synctest.Wait()
		if got := len(r.bodies()); got != 4 {
			t.Errorf("got %d attempts after sign and late cancel, want 4", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnOlderSecretIsTheOneBefore(t *testing.T) {
	t.Parallel()
	s := New(Options{Switches: Switches{Signature: Signature{SignatureItem: "v1", WithOlder: true,
		Secret: connector.NewSecret("first")}}})
	must(t, s.SetWebhookSecret(connector.NewSecret("second")))
	r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1/", nil)
	must(t, err)
	must(t, s.SignAsNow(r, []byte("{}")))
	if got, want := r.Header.Get("X-Signature"), "v1="+hexMAC("first", "{}")+",v1="+hexMAC("second", "{}"); got != want {
		t.Errorf("it signs %s, want %s", got, want)
	}
}

func TestWhatAnEd25519SetUpNamesIsThePublicKey(t *testing.T) {
	t.Parallel()
	sw := Adfin()
	sw.Signature.Algorithm, sw.Signature.Secret = "ed25519", connector.NewSecret("the seed of a private key")
	s := New(Options{Switches: sw})
	if key, err := base64.StdEncoding.DecodeString(s.WebhookSecret().Expose()); err != nil ||
		len(key) != ed25519.PublicKeySize {
		t.Errorf("it names %q: %v", s.WebhookSecret().Expose(), err)
	}
	before := s.WebhookSecret()
	if must(t, s.SetWebhookSecret(connector.NewSecret("another seed"))); s.WebhookSecret() == before {
		t.Error("another seed has the same public key")
	}
}
