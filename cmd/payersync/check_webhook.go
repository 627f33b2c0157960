package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payersync/cmd/payersync/internal/session"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/transport"
)

// testPatience is how long an endpoint may take to answer a test delivery: two are over before a page would be cut off.
const testPatience = 8 * time.Second

// checkWebhook tests the way of deliveries: the signature, the running serve, and the public address, by
// sending a signed test delivery to it.
func (a *app) checkWebhook(ctx context.Context, s *session.Session) []finding {
	hook := s.Config.Billing.Webhook
	if hook == nil {
		return []finding{tell("webhook", "none configured: changes are found by the sweep alone", nil)}
	}
	_, err := heldAgainst(ctx, s.Ledger, hook)
	if errors.Is(err, errNoWebhookSecret) && s.Billing.WantsDeliveryKey() {
		return []finding{{
			Check: "webhook", OK: true, Warning: true,
			Detail: "no signing secret is known yet, and payersync serve does not start without one; payersync webhooks subscribe gets it from the service",
			Next:   "payersync webhooks subscribe",
		}}
	}
	found := []finding{tell("webhook", "the signature can be verified", err)}
	if err != nil {
		return found
	}
	if hook.Signature.AgeUnchecked() {
		found = append(found, finding{
			Check: "webhook signature", OK: true, Warning: true,
			Detail: "billing.webhook.signature names the place of the signing time, but signed does not contain {timestamp}. The signature does not cover the time, so payersync does not check the age of a delivery",
			Next:   "find out the signed text of the service, and write it as signed, for example {timestamp}.{body}; if it signs the body alone, remove timestamp_item and timestamp_header",
		})
	}
	if file := deliveryKeyAmong(hook.Signature.Secrets, s.Config.Ledger.Path); s.Config.Node == nil && file != "" {
		found = append(found, finding{
			Check:  "webhook secrets",
			Detail: fmt.Sprintf("billing.webhook.signature.secrets contains the delivery key of %s: anybody with one delivery can forge the next", file),
			Next:   "take it out there, and put it under billing.webhook.delivery_key.keys if it is still in use",
		})
	}
	address := cmp.Or(s.Config.Server.Health, s.Config.Server.Webhooks)
	if err := healthy(ctx, address); err != nil {
		return append(found, tell("webhook address",
			"payersync serve does not answer on this machine just now, so nothing was sent to "+plainAddress(hook.PublicURL),
			nil))
	}
	return append(found, a.checkPublicAddress(ctx, s))
}

// deliveryKeyAmong returns the file beside the ledger, written by earlier versions, if its delivery key is
// among the secrets; "" for none.
func deliveryKeyAmong(secrets []connector.Secret, ledger string) string {
	beside := os.DirFS(filepath.Dir(ledger))
	written, _ := fs.Glob(beside, "webhook-delivery-key-*") // whose only error is the pattern's
	for _, file := range written {
		key, err := fs.ReadFile(beside, file)
		if err != nil {
			continue // of another user, who cannot have it read from here either
		}
		if slices.ContainsFunc(secrets,
			func(s connector.Secret) bool { return s.Expose() == strings.TrimSpace(string(key)) }) {
			return file
		}
	}
	return ""
}

// checkPublicAddress looks whether a test delivery comes through the public address.
func (a *app) checkPublicAddress(ctx context.Context, s *session.Session) finding {
	const check = "webhook address"
	tested, err := a.tryPublicAddress(ctx, s)
	if err != nil {
		return tell(check, "", err)
	}
	return finding{Check: check, OK: tested.OK, Detail: tested.Detail, Next: tested.Next}
}

// tryPublicAddress sends a signed test delivery to the public address, and looks for it in
// this ledger: another payersync, or another program, may answer there.
func (a *app) tryPublicAddress(ctx context.Context, s *session.Session) (admin.Tested, error) {
	public := plainAddress(s.Config.Billing.Webhook.PublicURL)
	sent, err := a.deliverTest(ctx, s, false)
	if err != nil {
		return admin.Tested{Detail: fmt.Sprintf("%s cannot be reached from here: %s", public, errorText(err)),
			Next: a.nextOnTheWay(ctx, s)}, nil
	}
	if !sent.taken() {
		return admin.Tested{Detail: fmt.Sprintf("%s answered %d to a signed test delivery", public, sent.status),
			Next: cmp.Or(meanings[sent.status], a.nextOnTheWay(ctx, s))}, nil
	}
	switch arrived, err := s.Ledger.DeliveryNamed(ctx, sent.key); {
	case err != nil:
		return admin.Tested{}, err
	case arrived == nil:
		return admin.Tested{
			Detail: fmt.Sprintf("%s answered %d to a signed test delivery, but it did not come to this ledger", public,
				sent.status),
			Next: "another payersync serve, or another program, answers at that address: check its name, the proxy and server.webhooks",
		}, nil
	}
	return admin.Tested{OK: true, Detail: fmt.Sprintf("a signed test delivery came to this ledger through %s", public)},
		nil
}

// meanings are the meanings of the answers to a test delivery.
var meanings = map[int]string{
	http.StatusUnauthorized:          "that is the answer to another secret. serve may lack the newest one in billing.webhook.signature.secrets, or in delivery_key.keys. payersync_webhook_requests_total and serve's log name the failed check",
	http.StatusNotFound:              "that is the answer to another path. See whether the proxy passes the path of billing.webhook.public_url on unchanged, or set billing.webhook.path to the path that it passes on",
	http.StatusMethodNotAllowed:      "another program answers at that address: check the proxy's target",
	http.StatusRequestEntityTooLarge: "the proxy takes smaller bodies only: let it take 256 KiB",
	http.StatusServiceUnavailable:    "serve cannot accept deliveries just now, or a change of the secret is unfinished: payersync status and serve's log have the details",
	http.StatusTooManyRequests:       "refused requests have used up the limit of the client named by the proxy: see server.trusted_proxies",
}

// nextOnTheWay names the half of the way at which a test delivery failed.
func (a *app) nextOnTheWay(ctx context.Context, s *session.Session) string {
	if local, err := a.deliverTest(ctx, s, true); err == nil && local.taken() {
		return "serve takes the same delivery at " + s.Config.Server.Webhooks +
			", so look at the name, the certificate and the proxy in between"
	}
	return "serve does not take the same delivery at " + s.Config.Server.Webhooks +
		" either: see its log, and payersync webhooks subscribe --test --local"
}

// sentTest is a test delivery after sending.
type sentTest struct {
	url    string
	status int    // the status of the answer
	text   string // the same in words
	key    string // of the delivery in the inbox
}

func (t sentTest) taken() bool { return t.status/100 == 2 }

// deliverTest sends a signed test delivery; an answer of any kind is no error.
func (a *app) deliverTest(ctx context.Context, s *session.Session, local bool) (sentTest, error) {
	req, key, err := a.testDelivery(ctx, s, local)
	if err != nil {
		return sentTest{}, err
	}
	client := http.Client{Timeout: testPatience,
		Transport: transport.WithUserAgent(&http.Transport{Proxy: transport.ProxyFor(s.Config.HTTP.Address()),
			DisableKeepAlives: true}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	var failed *url.Error // it holds the address, perhaps with a secret in it
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if err != nil {
		return sentTest{}, err
	}
	return sentTest{plainAddress(req.URL.String()), resp.StatusCode, resp.Status, key}, resp.Body.Close()
}
