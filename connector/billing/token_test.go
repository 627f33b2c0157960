package billing_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
	"payersync/connector/transport"
)

// tokenService issues numbered tokens and takes only the newest.
type tokenService struct {
	mu        sync.Mutex
	expiresIn string // raw JSON; "" leaves it out
	issued    int
	forms     []url.Values
	headers   []http.Header
}

func (s *tokenService) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/oauth2/token") {
		form, err := url.ParseQuery(readBody(r))
		s.forms, s.headers = append(s.forms, form), append(s.headers, r.Header)
		s.issued++
		answer := fmt.Sprintf(`{"access_token":"token-%d","token_type":"Bearer"`, s.issued)
		if s.expiresIn != "" {
			answer += `,"expires_in":` + s.expiresIn
		}
		return respond(200, "application/json", answer+"}"), err
	}
	if r.Header.Get("Authorization") != fmt.Sprintf("Bearer token-%d", s.issued) {
		return respond(401, "", ""), nil
	}
	return respond(200, "application/json", `{"id":"c1"}`), nil
}

// revoke makes the newest token worthless.
func (s *tokenService) revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued++
}

// covers F21
func TestTokenIsRenewedByItsStatedLife(t *testing.T) {
	t.Parallel()
	tests := []struct {
		expiresIn string
		after     time.Duration
		want      int // tokens issued for two reads that far apart
	}{
		{`3600`, 58 * time.Minute, 1},
		{`3600`, 59 * time.Minute, 2}, // a minute early
		{`"3600"`, 59 * time.Minute, 2},
		{`40`, 29 * time.Second, 1},
		{`40`, 30 * time.Second, 2}, // a quarter early
		{`1`, 0, 1},
		{`0`, 0, 2},
		{`-5`, 0, 2},
		{``, 24 * time.Hour, 1},
		{`null`, 24 * time.Hour, 1},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%q after %v", tt.expiresIn, tt.after), func(t *testing.T) {
			t.Parallel()
			service, now := &tokenService{expiresIn: tt.expiresIn}, start
			cfg := config(service)
			cfg.Now = func() time.Time { return now }
			client := newClient(t, cfg)
			for range 2 {
				if _, err := client.Customer(t.Context(), "c1"); err != nil {
					t.Fatal(err)
				}
				now = now.Add(tt.after)
			}
			if service.issued != tt.want {
				t.Errorf("%d tokens were issued, want %d", service.issued, tt.want)
			}
		})
	}
}

// covers F22
func TestManyCallersShareOneTokenFetch(t *testing.T) {
	t.Parallel()
	for _, expiresIn := range []string{"3600", "0"} {
		synctest.Test(t, func(t *testing.T) {
			service := &tokenService{expiresIn: expiresIn}
			slow := roundTrip(func(r *http.Request) (*http.Response, error) {
				time.Sleep(time.Second)
				return service.RoundTrip(r)
			})
			cfg := config(slow)
			cfg.HTTP = transport.New(transport.Options{Base: slow, Retries: -1, MaxInFlight: 64})
			client := newClient(t, cfg)
			var callers sync.WaitGroup
			for range 20 {
				callers.Go(func() {
					if _, err := client.Customer(t.Context(), "c1"); err != nil {
						t.Error(err)
					}
				})
			}
			callers.Wait()
			if service.issued != 1 {
				t.Errorf("expires_in %s: %d tokens were issued, want 1", expiresIn, service.issued)
			}
		})
	}
}

// covers F21, F22
func TestRefusedTokenIsRenewedOnce(t *testing.T) {
	t.Parallel()
	service := &tokenService{expiresIn: "3600"}
	client := newClient(t, config(service))
	if _, err := client.Customer(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	service.revoke()
	if _, err := client.Customer(t.Context(), "c1"); err != nil {
		t.Errorf("after a revocation: %v", err)
	}
	if n := len(service.forms); n != 2 {
		t.Errorf("%d token requests, want 2", n)
	}
}

// Time passes while a token is renewed, and nobody looks at the customer meanwhile.
//
// covers F21, F58
func TestLinkRequestIsNotRepeatedWithANewToken(t *testing.T) {
	t.Parallel()
	service := &tokenService{expiresIn: "3600"}
	client := newClient(t, config(service))
	if _, err := client.Customer(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	service.revoke()
	_, err := client.RequestMandateLink(t.Context(), "c1")
	if !errors.Is(err, connector.ErrTokenRenewed) || connector.FaultOf(err) != connector.FaultUnauthorized {
		t.Errorf("got %v, want ErrTokenRenewed", err)
	}
	if n := len(service.forms); n != 2 {
		t.Errorf("%d token requests, want 2: the next call needs a token that works", n)
	}
}

func TestTokenIsAskedForInTheDialectsForm(t *testing.T) {
	t.Parallel()
	for _, style := range []string{"form", "basic"} {
		service := &tokenService{expiresIn: "3600"}
		cfg := config(service)
		cfg.Dialect.TokenAuth = style
		if _, err := newClient(t, cfg).Customer(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		form, header := service.forms[0], service.headers[0].Get("Authorization")
		inForm := form.Get("client_id") == "app-1" && form.Get("client_secret") == "app-secret" && header == ""
		inHeader := !form.Has("client_secret") &&
			header == "Basic "+base64.StdEncoding.EncodeToString([]byte("app-1:app-secret"))
		if form.Get("grant_type") != "client_credentials" || (style == "form") != inForm || (style == "basic") != inHeader {
			t.Errorf("%s: sent form %v and header %q", style, form, header)
		}
	}
}

// covers F26, S15
func TestTokenEndpointErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	const json = "application/json"
	tests := []struct {
		name   string
		status int
		answer string
		want   connector.Fault
	}{
		{"wrong secret", 401, `{"error":"invalid_client","error_description":"app-secret is wrong"}`,
			connector.FaultUnauthorized},
		{"revoked", 400, `{"error":"invalid_grant"}`, connector.FaultUnauthorized},
		{"wrong secret, said with 200", 200, `{"error":"invalid_client"}`, connector.FaultUnauthorized},
		{"not allowed", 403, `{}`, connector.FaultUnauthorized},
		{"wrong path", 404, `<html>`, connector.FaultUnauthorized},
		{"throttled", 429, `{}`, connector.FaultThrottled},
		{"down", 503, `{"error":"temporarily_unavailable"}`, connector.FaultUnavailable},
		{"failing", 500, `app-secret`, connector.FaultUnavailable},
		{"slow request", 408, ``, connector.FaultUnavailable},
		{"redirect", 302, ``, connector.FaultUnavailable},
		{"portal", 200, `<html>app-secret`, connector.FaultUnavailable},
		{"no token in it", 200, `{"token_type":"Bearer"}`, connector.FaultUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := roundTrip(func(*http.Request) (*http.Response, error) { return respond(tt.status, json, tt.answer), nil })
			_, err := newClient(t, config(rt)).CreateCustomer(t.Context(), []byte(`{}`))
			if got := connector.FaultOf(err); got != tt.want {
				t.Errorf("fault %q, want %q (%v)", got, tt.want, err)
			}
			if strings.Contains(fmt.Sprintf("%v %+v", err, err), "app-secret") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

// covers F27
func TestWebhookEndpointExplainsTheWrongTokenKind(t *testing.T) {
	t.Parallel()
	switches := sandbox.Standard()
	switches.APITokens = sandbox.AuthorizationCode
	dialect := billing.Standard()
	dialect.APIAuth = "authorization_code"
	_, client := newSandbox(t, switches, dialect)
	body, err := client.CreateBody(northwind())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateCustomer(t.Context(), body); err != nil {
		t.Errorf("customers want the granted token: %v", err)
	}
	if _, err := client.Subscribe(t.Context(), hook(), setUp(nil)); err != nil {
		t.Errorf("the webhook wants the app's own token: %v", err)
	}
}

// covers F27
func TestEveryRefusalOfTheWebhookInterfaceSaysWhichTokenItTakes(t *testing.T) {
	t.Parallel()
	const which = "takes only a token of the app itself (client credentials)"
	refused := func(path string, status int) roundTrip {
		return func(r *http.Request) (*http.Response, error) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/token"):
				return respond(200, "application/json", `{"access_token":"own","expires_in":600}`), nil
			case strings.HasSuffix(r.URL.Path, path):
				return respond(status, "application/json", `{"code":"WRONG_TOKEN"}`), nil
			}
			return respond(200, "application/json", `{"secretKey":"new"}`), nil
		}
	}
	for _, auth := range []string{"client_credentials", "static", "authorization_code"} {
		for _, status := range []int{400, 401, 403} {
			for _, path := range []string{"/webhooks", "/webhooks/digest", "/webhooks/auth"} {
				cfg := config(refused(path, status))
				cfg.Dialect.APIAuth, cfg.APIToken, cfg.Tokens = auth, connector.NewSecret("another"), fixedToken{}
				cfg.Dialect.WebhookSetup, cfg.Dialect.WebhookRead = "digest_auth_subscribe", "auto"
				_, err := newClient(t, cfg).Subscribe(t.Context(), hook(), setUp(nil))
				said := fmt.Sprint(err)
				if !strings.Contains(said,
					which+map[bool]string{true: ";", false: ", whatever customers are read with (dialect.api_auth is " + auth +
						");"}[auth == "client_credentials"]) ||
					!strings.Contains(said, "one was sent") || !strings.Contains(said, "code WRONG_TOKEN") {
					t.Errorf("%s, %d to %s: %v", auth, status, path, err)
				}
				if path != "/webhooks" {
					continue
				}
				if _, err := newClient(t, cfg).Subscriptions(t.Context()); !strings.Contains(fmt.Sprint(err), which) {
					t.Errorf("%s, %d to a reading: %v", auth, status, err)
				}
			}
		}
	}
	cfg := config(refused("/customers/c1", 403))
	if _, err := newClient(t, cfg).Customer(t.Context(), "c1"); err == nil || strings.Contains(err.Error(), "webhook") {
		t.Errorf("customers refused: %v", err)
	}
	cfg = config(roundTrip(func(*http.Request) (*http.Response, error) {
		return respond(401, "application/json", `{"error":"invalid_client"}`), nil
	}))
	if _, err := newClient(t, cfg).Subscriptions(t.Context()); !strings.Contains(fmt.Sprint(err),
		which+"; none could be had") {
		t.Errorf("no token: %v", err)
	}
	cfg = config(roundTrip(func(r *http.Request) (*http.Response, error) {
		t.Errorf("%s was asked", r.URL.Path)
		return nil, errors.New("no")
	}))
	cfg.Dialect.APIAuth, cfg.APIToken, cfg.ClientSecret = "static", connector.NewSecret("another"), connector.Secret{}
	_, err := newClient(t, cfg).Subscribe(t.Context(), hook(), setUp(nil))
	if said := fmt.Sprint(err); connector.FaultOf(err) != connector.FaultUnauthorized || !strings.Contains(said, which) ||
		!strings.Contains(said, "nothing was sent") || strings.Contains(said, "another") {
		t.Errorf("without credentials: %v", err)
	}
}

// setUp keeps the secrets that are named in kept.
func setUp(kept *[]string) billing.SetUp {
	return billing.SetUp{
		Key: billing.DeliveryKey{Keys: []connector.Secret{connector.NewSecret("a-delivery-key-of-31-characters")}},
		Keep: func(secret connector.Secret) error {
			if kept != nil {
				*kept = append(*kept, secret.Expose())
			}
			return nil
		},
	}
}

func hook() billing.Subscription {
	return billing.Subscription{
		URL: "https://hooks.example/webhooks/billing", Events: []string{"customer", "dd-mandate"}, Name: "payersync",
		Description: "mirror",
	}
}

type fixedToken struct{ err error }

func (f fixedToken) Token() (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: "granted"}, f.err
}

// renewedElsewhere has no token before another process has renewed it.
type renewedElsewhere struct{ fixedToken }

func (renewedElsewhere) TokenContext(ctx context.Context) (*oauth2.Token, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// covers F67
func TestCallThatIsGivenUpDoesNotWaitForAGrantedToken(t *testing.T) {
	t.Parallel()
	cfg := config(answers(200, "application/json", `{"id":"c1"}`))
	cfg.Dialect.APIAuth, cfg.Tokens = "authorization_code",
		renewedElsewhere{fixedToken{errors.New("waited without regard to the caller")}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := newClient(t, cfg).Customer(ctx, "c1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// covers F26, F29
func TestGrantedTokenThatCannotBeHadIsNotTakenForARevocation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want connector.Fault
	}{
		{"revoked", &oauth2.RetrieveError{Response: respond(400, "", ""), ErrorCode: "invalid_grant"},
			connector.FaultUnauthorized},
		{"endpoint down", &oauth2.RetrieveError{Response: respond(503, "", "")}, connector.FaultUnavailable},
		{"store locked", errors.New("database is locked"), connector.FaultUnavailable},
		{"said by the store", &connector.RemoteError{Op: "renew", Fault: connector.FaultUnauthorized},
			connector.FaultUnauthorized},
		{"outcome of the renewal unknown", &connector.RemoteError{Op: "renew", Fault: connector.FaultUnknown},
			connector.FaultUnavailable},
	}
	for _, tt := range tests {
		cfg := config(answers(200, "application/json", `{"id":"c1"}`))
		cfg.Dialect.APIAuth, cfg.Tokens = "authorization_code", fixedToken{tt.err}
		_, err := newClient(t, cfg).CreateCustomer(t.Context(), []byte(`{}`))
		if got := connector.FaultOf(err); got != tt.want {
			t.Errorf("%s: fault %q, want %q (%v)", tt.name, got, tt.want, err)
		}
	}
}

func TestStaticTokenIsNotRenewed(t *testing.T) {
	t.Parallel()
	var sent int
	rt := roundTrip(func(r *http.Request) (*http.Response, error) {
		sent++
		if got := r.Header.Get("Authorization"); got != "Bearer given" {
			t.Errorf("Authorization = %q", got)
		}
		return respond(401, "", ""), nil
	})
	cfg := config(rt)
	cfg.Dialect.APIAuth, cfg.APIToken = "static", connector.NewSecret("given")
	if _, err := newClient(t, cfg).Customer(t.Context(), "c1"); connector.FaultOf(err) != connector.FaultUnauthorized ||
		sent != 1 {
		t.Errorf("%v after %d requests", err, sent)
	}
}
