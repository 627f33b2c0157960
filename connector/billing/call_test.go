package billing_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
	"payersync/connector/transport"
)

// operation is one call of the client, for the tests that make every one of
// them fail.
type operation struct {
	name  string
	reads bool
	call  func(ctx context.Context, c *billing.Client) error
}

func operations() []operation {
	return []operation{
		{"create", false, func(ctx context.Context, c *billing.Client) error {
			_, err := c.CreateCustomer(ctx, []byte(`{"name":"Northwind"}`))
			return err
		}},
		{"update", false, func(ctx context.Context, c *billing.Client) error {
			return c.UpdateCustomer(ctx, "c1", []byte(`{"id":"c1","name":"Northwind"}`))
		}},
		{"link", false, func(ctx context.Context, c *billing.Client) error {
			_, err := c.RequestMandateLink(ctx, "c1")
			return err
		}},
		{"cancel", false, func(ctx context.Context, c *billing.Client) error { return c.CancelMandate(ctx, "m1", "moved") }},
		{"subscribe", false, func(ctx context.Context, c *billing.Client) error {
			_, err := c.Subscribe(ctx, billing.Subscription{URL: "https://hooks.example/in", Events: []string{"customer"}},
				setUp(nil))
			return err
		}},
		{"get", true, func(ctx context.Context, c *billing.Client) error {
			_, err := c.Customer(ctx, "c1")
			return err
		}},
		{"list", true, func(ctx context.Context, c *billing.Client) error {
			for _, err := range c.Customers(ctx) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"search", true, func(ctx context.Context, c *billing.Client) error {
			_, err := c.SearchCustomers(ctx, "north")
			return err
		}},
	}
}

// covers F03, F09, F13, F17, F20, F29, F53
func TestEveryAnswerHasOneMeaning(t *testing.T) {
	t.Parallel()
	const json, html = "application/json", "text/html"
	tests := []struct {
		name        string
		rt          http.RoundTripper
		read, write connector.Fault
	}{
		{"malformed", answers(400, json, `{}`), connector.FaultRejected, connector.FaultRejected},
		{"refused for its content", answers(422, json, `{}`), connector.FaultRejected, connector.FaultRejected},
		{"conflict", answers(409, json, `{}`), connector.FaultRejected, connector.FaultRejected},
		{"no token", answers(401, json, `{}`), connector.FaultUnauthorized, connector.FaultUnauthorized},
		{"forbidden", answers(403, json, `{}`), connector.FaultUnauthorized, connector.FaultUnauthorized},
		{"no such object", answers(404, json, `{}`), connector.FaultNotFound, connector.FaultNotFound},
		{"too many requests", answers(429, json, `{}`), connector.FaultThrottled, connector.FaultThrottled},
		{"request timed out", answers(408, json, `{}`), connector.FaultUnavailable, connector.FaultUnknown},
		{"internal error", answers(500, json, `{}`), connector.FaultUnavailable, connector.FaultUnknown},
		{"bad gateway", answers(502, html, `<html>`), connector.FaultUnavailable, connector.FaultUnknown},
		{"not implemented", answers(501, json, `{}`), connector.FaultUnavailable, connector.FaultUnavailable},
		{"see other", answers(303, json, ``), connector.FaultUnavailable, connector.FaultUnknown},
		{"repeat there", answers(307, json, ``), connector.FaultUnavailable, connector.FaultUnavailable},
		{"portal page", answers(200, html, `<!doctype html><p>Sign in`), connector.FaultUnavailable, connector.FaultUnknown},
		{"JSON that calls itself a page", answers(200, html, `{"id":"c1"}`), connector.FaultUnavailable,
			connector.FaultUnknown},
		{"two values", answers(200, json, `{"id":"c1"} {}`), connector.FaultUnavailable, connector.FaultUnknown},
		{"the same key twice", answers(200, json, `{"id":"c1","ID":"c2"}`), connector.FaultUnavailable,
			connector.FaultUnknown},
		{"reset", failing(errors.New("connection reset by peer")), connector.FaultUnavailable, connector.FaultUnknown},
		{"cut short", answersCut(`{"id":"c1","name":"North`), connector.FaultUnavailable, connector.FaultUnknown},
		{"no connection", failing(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}),
			connector.FaultUnavailable, connector.FaultUnavailable},
		{"no such name", failing(&net.DNSError{Err: "no such host", Name: "billing.example"}), connector.FaultUnavailable,
			connector.FaultUnavailable},
	}
	for _, tt := range tests {
		for _, op := range operations() {
			t.Run(tt.name+"/"+op.name, func(t *testing.T) {
				t.Parallel()
				want := tt.write
				if op.reads {
					want = tt.read
				}
				err := op.call(t.Context(), newClient(t, config(tt.rt)))
				var remote *connector.RemoteError
				if !errors.As(err, &remote) {
					t.Fatalf("error %v is no *connector.RemoteError", err)
				}
				if remote.Fault != want || remote.Op == "" || remote.Detail == "" {
					t.Errorf("got fault %q, op %q, detail %q; want fault %q", remote.Fault, remote.Op, remote.Detail, want)
				}
			})
		}
	}
}

// failing answers API requests with an error.
func failing(err error) http.RoundTripper {
	return behindToken(func(*http.Request) (*http.Response, error) { return nil, err })
}

// answersCut breaks the connection before the end of its answer.
func answersCut(text string) http.RoundTripper {
	return behindToken(func(*http.Request) (*http.Response, error) {
		resp := respond(200, "application/json", text)
		resp.ContentLength += 100
		return resp, nil
	})
}

// covers F09
func TestWriteThatAnswersNothingIsKnownOnlyWhereTheInterfaceAllowsIt(t *testing.T) {
	t.Parallel()
	empty := map[string]connector.Fault{"create": connector.FaultUnknown, "link": connector.FaultUnknown,
		"subscribe": connector.FaultUnknown}
	for _, op := range operations()[:5] {
		err := op.call(t.Context(), newClient(t, config(answers(200, "", ""))))
		if got := connector.FaultOf(err); got != empty[op.name] {
			t.Errorf("%s: fault %q, want %q (%v)", op.name, got, empty[op.name], err)
		}
	}
}

func TestMissingContentTypeIsForgivenWhenTheBodyIsJSON(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"", "application/json", "application/json; charset=utf-8",
		"application/problem+json"} {
		got, err := newClient(t, config(answers(200, contentType, `{"id":"c1"}`))).Customer(t.Context(), "c1")
		if err != nil || got.ID != "c1" {
			t.Errorf("content type %q: %v, %v", contentType, got, err)
		}
	}
}

// A fault of the service itself: what the sandbox applied and what the client
// believes may differ in one direction only.
//
// covers F03, F09, F13, F14, F20, S15
func TestClientNeverCallsAnAppliedCreateHarmless(t *testing.T) {
	t.Parallel()
	for _, kind := range sandbox.FaultKinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			box, client := newSandbox(t, sandbox.Standard(), billing.Standard())
			box.Inject(sandbox.Fault{Kind: kind, Method: "POST", Path: "/api/customers", Delay: time.Millisecond})
			body, err := client.CreateBody(northwind())
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.CreateCustomer(t.Context(), body)
			made := len(box.Customers()) > 0
			if fault := connector.FaultOf(err); made && err != nil && fault != connector.FaultUnknown {
				t.Errorf("the customer was made, and the error says %q: %v", fault, err)
			}
			if box.Writes() != 1 {
				t.Errorf("%d writes, want 1: the transport must not repeat what may have happened", box.Writes())
			}
			if err != nil && strings.Contains(err.Error(), "northwind") {
				t.Errorf("the error quotes the customer: %v", err)
			}
		})
	}
}

// covers S15
func TestErrorsQuoteCodesAndNothingElse(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, answer, want string }{
		{"code", `{"code":"EMAIL_INVALID","message":"ada@northwind.example is wrong"}`, "EMAIL_INVALID"},
		{"oauth form", `{"error":"invalid_request","error_description":"Ada Lovelace"}`, "invalid_request"},
		{"nested", `{"error":{"code":"name.missing","message":"x"}}`, "name.missing"},
		{"free text", `{"error":"Ada Lovelace is no customer"}`, ""},
		{"an address", `{"code":"ada@northwind.example"}`, ""},
		{"a phone number", `{"code":"+442079460001"}`, ""},
		{"digits", `{"code":2079460001}`, ""},
		{"far too long", `{"code":"` + strings.Repeat("A", 60) + `"}`, ""},
		{"no object", `["EMAIL_INVALID"]`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := newClient(t, config(answers(422, "application/json", tt.answer))).CreateCustomer(t.Context(), []byte(`{}`))
			want := "create customer: the service refused the request for what it says"
			if tt.want != "" {
				want += ", code " + tt.want
			}
			if diff := cmp.Diff(want+" (HTTP 422)", err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// covers F13
func TestThrottledCallNamesTheTimeToTryAgain(t *testing.T) {
	t.Parallel()
	rt := behindToken(func(*http.Request) (*http.Response, error) {
		resp := respond(429, "", "")
		resp.Header.Set("Retry-After", "90")
		return resp, nil
	})
	_, err := newClient(t, config(rt)).Customer(t.Context(), "c1")
	if got, want := connector.RetryAt(err), start.Add(90*time.Second); !got.Equal(want) {
		t.Errorf("RetryAt = %v, want %v", got, want)
	}
}

func TestCancelledCallShowsItsCause(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	rt := behindToken(func(r *http.Request) (*http.Response, error) {
		cancel()
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	client := newClient(t, config(rt))
	_, err := client.CreateCustomer(ctx, []byte(`{}`))
	if !errors.Is(err, context.Canceled) || connector.FaultOf(err) != connector.FaultUnknown {
		t.Errorf("cancelled under way: %v (fault %q), want unknown", err, connector.FaultOf(err))
	}
	_, err = client.CreateCustomer(ctx, []byte(`{}`))
	if !errors.Is(err, context.Canceled) || connector.FaultOf(err) != connector.FaultUnavailable {
		t.Errorf("cancelled before sending: %v (fault %q), want unavailable", err, connector.FaultOf(err))
	}
}

// covers S3
func TestWritesSendExactlyTheGivenBytes(t *testing.T) {
	t.Parallel()
	const odd = "{ \"name\" :\t\"A \\u0026 B\", \"n\": 1.500, \"name\" : \"twice\" }\n"
	var sent []string
	rt := scripted(func(r *http.Request, body string) (int, string, string) {
		sent = append(sent, r.Method+" "+r.URL.Path+" "+body)
		if len(sent)%2 == 1 {
			return 401, "", "" // the second attempt of each has a new token
		}
		return 200, "application/json", `{"id":"c1"}`
	})
	client := newClient(t, config(rt))
	if _, err := client.CreateCustomer(t.Context(), []byte(odd)); err != nil {
		t.Error(err)
	}
	if err := client.UpdateCustomer(t.Context(), "c1", []byte(odd)); err != nil {
		t.Error(err)
	}
	create, update := "POST /api/customers "+odd, "PUT /api/customers "+odd
	if diff := cmp.Diff([]string{create, create, update, update}, sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestIDsAreEscapedAndNeverNameAnotherResource(t *testing.T) {
	t.Parallel()
	var paths []string
	rt := scripted(func(r *http.Request, _ string) (int, string, string) {
		paths = append(paths, r.URL.EscapedPath())
		return 404, "application/json", `{}`
	})
	client := newClient(t, config(rt))
	for _, id := range []string{"a/b", "a?b#c", "a b", "ü:1", "", ".", ".."} {
		if _, err := client.Customer(t.Context(), id); err == nil {
			t.Errorf("id %q was found", id)
		}
	}
	want := []string{"/api/customers/a%2Fb", "/api/customers/a%3Fb%23c", "/api/customers/a%20b", "/api/customers/%C3%BC:1"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestCustomerOfAnotherIDIsNotBelieved(t *testing.T) {
	t.Parallel()
	_, err := newClient(t, config(answers(200, "application/json", `{"id":"c2","name":"B"}`))).Customer(t.Context(), "c1")
	if connector.FaultOf(err) != connector.FaultUnavailable {
		t.Errorf("error = %v", err)
	}
}

// The raw bytes on the socket: an escaped colon would be another path.
func TestCancelSendsALiteralColon(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"colon": "PUT /api/customers/directdebitmandates/WiGr3E%2FGuO:cancel HTTP/1.1 " + `{"reason":"moved"}`,
		"slash": "PUT /api/customers/directdebitmandates/WiGr3E%2FGuO/cancel HTTP/1.1 " + `{"reason":"moved"}`,
		"query": "PUT /api/customers/directdebitmandates/WiGr3E%2FGuO?action=cancel HTTP/1.1 " + `{"reason":"moved"}`,
		"body":  "PUT /api/customers/directdebitmandates/WiGr3E%2FGuO HTTP/1.1 " + `{"action":"cancel","reason":"moved"}`,
	}
	for spelling, line := range want {
		t.Run(spelling, func(t *testing.T) {
			t.Parallel()
			address, received := rawServer(t)
			cfg := config(nil)
			cfg.BaseURL, cfg.HTTP = "http://"+address+"/api", transport.New(transport.Options{Retries: -1})
			cfg.Dialect.APIAuth, cfg.APIToken, cfg.Dialect.Cancel = "static", connector.NewSecret("token"), spelling
			if err := newClient(t, cfg).CancelMandate(t.Context(), "WiGr3E/GuO", "moved"); err != nil {
				t.Fatal(err)
			}
			if got := <-received; got != line {
				t.Errorf("request line and body\n got %s\nwant %s", got, line)
			}
		})
	}
}

// rawServer answers one request with 204 and returns its first line and body.
func rawServer(t *testing.T) (address string, received <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	out := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		var raw bytes.Buffer
		req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(conn, &raw)))
		if err != nil {
			out <- err.Error()
			return
		}
		body, _ := io.ReadAll(req.Body)
		line, _, _ := strings.Cut(raw.String(), "\r\n")
		out <- line + " " + string(body)
		_, _ = fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	}()
	return listener.Addr().String(), out
}

// covers F58
func TestLinkCancelAndReinstateGoOutOnceWhateverHappens(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/oauth2/token") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, tokenAnswer)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	for _, method := range []string{"put", "get"} {
		cfg := config(nil)
		cfg.BaseURL, cfg.HTTP, cfg.Dialect.MandateLink = server.URL, transport.New(transport.Options{}), method
		client := newClient(t, cfg)
		if _, err := client.RequestMandateLink(t.Context(), "c1"); connector.FaultOf(err) != connector.FaultUnknown {
			t.Errorf("link by %s: %v", method, err)
		}
		if err := client.CancelMandate(t.Context(), "m1", ""); connector.FaultOf(err) != connector.FaultUnknown {
			t.Errorf("cancel: %v", err)
		}
		if err := client.ReinstateMandate(t.Context(), "m1", ""); !errors.Is(err, billing.ErrNoReinstate) {
			t.Errorf("reinstate where there is none: %v", err)
		}
		cfg.Dialect.Reinstate = "colon"
		if err := newClient(t, cfg).ReinstateMandate(t.Context(), "m1",
			""); connector.FaultOf(err) != connector.FaultUnknown {
			t.Errorf("reinstate: %v", err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"PUT", "PUT", "PUT", "GET", "PUT", "PUT"}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// covers F176
func TestACreateInAPlaceThatIsNotThereIsNoRecordsFault(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 405, 501} {
		c := newClient(t, config(answers(status, "application/json", "{}")))
		_, err := c.CreateCustomer(t.Context(), []byte(`{"name":"A"}`))
		if !errors.Is(err, connector.ErrWrongWay) || !strings.Contains(err.Error(), "billing.base_url") {
			t.Errorf("HTTP %d: %v", status, err)
		}
	}
}
