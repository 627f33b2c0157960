package billing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/billing"
)

// TestARefusalNamesTheSettingThatMayBeWrong goes through every call for which a service may
// refuse a spelling, and no record.
// covers F164
func TestARefusalNamesTheSettingThatMayBeWrong(t *testing.T) {
	t.Parallel()
	list := func(ctx context.Context, c *billing.Client) error { _, err := readAll(ctx, c); return err }
	subscribe := func(ctx context.Context, c *billing.Client) error {
		_, err := c.Subscribe(ctx, hook(), setUp(nil))
		return err
	}
	link := func(ctx context.Context, c *billing.Client) error {
		_, err := c.RequestMandateLink(ctx, "c1")
		return err
	}
	digest := func(d *billing.Dialect) { d.WebhookSetup = "digest_auth_subscribe" }
	for _, tt := range []struct {
		name     string
		turn     func(*billing.Dialect)
		path     string // whose requests are refused
		statuses []int
		answer   string
		call     func(context.Context, *billing.Client) error
		want     string
	}{
		{"no list here", nil, "/customers", []int{404, 405, 501}, `{}`, list, "billing.base_url"},
		{"another page", nil, "/customers", []int{400, 422}, `{}`, list,
			"page_param, size_param, size and first_page of billing.dialect.list"},
		{"a page number without effect", nil, "/customers", []int{200}, `[{"id":"a"}]`, list,
			"billing.dialect.list.page_param"},
		{"another token", nil, "/customers", []int{401, 403}, `{}`, list, "billing.dialect.api_auth (client_credentials)"},
		{"no token", nil, "/oauth2/token", []int{400, 401, 403}, `{}`, list, "billing.dialect.token_auth (form)"},
		{"no token endpoint", nil, "/oauth2/token", []int{404, 405}, `{}`, list, "billing.auth_url"},
		{"no subscription here", nil, "/webhooks", []int{404, 405, 501}, `{}`, subscribe,
			"billing.client_id and billing.base_url"},
		{"verification first", nil, "/webhooks", []int{400, 409, 412, 422, 428}, `{}`, subscribe,
			"billing.dialect.webhook_setup"},
		{"no digest", digest, "/webhooks/digest", []int{404, 405, 501}, `{}`, subscribe, "billing.dialect.webhook_setup"},
		{"no delivery key", digest, "/webhooks/auth", []int{404, 405, 501}, `{}`, subscribe, "billing.dialect.webhook_setup"},
		{"mandates in place of a link", nil, "/directdebitmandates", []int{200}, `{"mandates":[]}`, link,
			"billing.dialect.mandate_link"},
	} {
		for _, status := range tt.statuses {
			t.Run(fmt.Sprintf("%s, HTTP %d", tt.name, status), func(t *testing.T) {
				t.Parallel()
				cfg := config(refusing(tt.path, status, tt.answer))
				if tt.turn != nil {
					tt.turn(&cfg.Dialect)
				}
				if err := tt.call(t.Context(), newClient(t, cfg)); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("it says %v; want %s", err, tt.want)
				}
			})
		}
	}
}

// refusing answers requests to one path in its own way, and others as they want to be.
func refusing(path string, status int, answer string) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		switch {
		case strings.HasSuffix(r.URL.Path, path):
			return respond(status, "application/json", answer), nil
		case strings.HasSuffix(r.URL.Path, "/oauth2/token"):
			return respond(http.StatusOK, "application/json", tokenAnswer), nil
		}
		return respond(http.StatusOK, "application/json", `{"secretKey":"new"}`), nil
	}
}

// TestATokenThatCannotBeHadIsNoFaultOfTheCall is about the status of another endpoint: it says
// nothing about how the call is spelled that was never made.
// covers F165
func TestATokenThatCannotBeHadIsNoFaultOfTheCall(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 405, 501} {
		c := newClient(t, config(refusing("/oauth2/token", status, `{}`)))
		_, create := c.CreateCustomer(t.Context(), []byte(`{}`))
		_, link := c.RequestMandateLink(t.Context(), "c1")
		_, read := c.Subscriptions(t.Context())
		for call, err := range map[string]error{
			"create": create, "update": c.UpdateCustomer(t.Context(), "c1", []byte(`{}`)), "link": link,
			"cancel": c.CancelMandate(t.Context(), "m1", ""), "subscriptions": read,
		} {
			if err == nil || errors.Is(err, connector.ErrWrongWay) || errors.Is(err, billing.ErrNotShown) {
				t.Errorf("HTTP %d of a token, %s: %v", status, call, err)
			}
		}
	}
}
