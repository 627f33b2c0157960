package billing_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"payersync/connector"
	"payersync/connector/billing"
)

func TestNewReportsEveryWrongValueAtOnce(t *testing.T) {
	t.Parallel()
	_, err := billing.New(billing.Config{
		BaseURL: "http://billing.example/api", RedirectURL: "signed.html",
		Dialect: billing.Dialect{Cancel: "later", ReadOnly: []string{"name"}},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"billing.base_url: it must begin with https://", "billing.redirect_url: it is not an address", "Config.HTTP",
		`dialect.cancel: "later" is not allowed; use colon, slash, query, body`, `dialect.token_auth: ""`,
		"dialect.list.size: 0", "dialect.list.page_param",
		`dialect.read_only: "name"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

// covers F16, F81, F95
func TestNewRefusesAddressesThatWouldLeakOrMislead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		field, value string
		ok           bool
	}{
		{"base", "https://billing.example/api", true},
		{"base", "https://billing.example/api/", true},
		{"base", "http://127.0.0.1:8080/api", true},
		{"base", "http://[::1]:8080", true},
		{"base", "http://localhost/api", true},
		{"base", "http://localhost.example/api", false},
		{"base", "http://10.0.0.1/api", false},
		{"base", "ftp://billing.example", false},
		{"base", "https://user:pw@billing.example", false},
		{"base", "https://billing.example/api?x=1", false},
		{"base", "billing.example/api", false},
		{"base", "", false},
		{"auth", "", true},
		{"auth", "oauth2/token", true},
		{"auth", "https://login.example/token", true},
		{"auth", "http://login.example/token", false},
		{"redirect", "", true},
		{"redirect", "https://app.example/signed?from=payersync", true},
		{"redirect", "javascript:alert(1)", false},
		{"redirect", "http://app.example/signed", false},
	}
	for _, tt := range tests {
		cfg := config(answers(500, "", ""))
		*map[string]*string{"base": &cfg.BaseURL, "auth": &cfg.AuthURL, "redirect": &cfg.RedirectURL}[tt.field] = tt.value
		if _, err := billing.New(cfg); (err == nil) != tt.ok {
			t.Errorf("%s %q: error %v", tt.field, tt.value, err)
		}
	}
}

func TestNewNeedsTheCredentialsOfItsDialect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		apiAuth string
		strip   func(cfg *billing.Config)
		want    string
	}{
		{"client_credentials", func(cfg *billing.Config) { cfg.ClientSecret = connector.Secret{} }, "client_secret"},
		{"client_credentials", func(cfg *billing.Config) { cfg.ClientID = "" }, "client_id"},
		{"static", func(*billing.Config) {}, "api_token"},
		{"authorization_code", func(*billing.Config) {}, "nobody has given consent yet. Use client_credentials, or give it"},
	}
	for _, tt := range tests {
		cfg := config(answers(500, "", ""))
		cfg.Dialect.APIAuth = tt.apiAuth
		tt.strip(&cfg)
		if _, err := billing.New(cfg); err == nil || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(err.Error(), "app-secret") {
			t.Errorf("%s: error %v; want one with %q", tt.apiAuth, err, tt.want)
		}
	}
}

func TestProfilesAreValidAndFoundByName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]billing.Dialect{"standard": billing.Standard(), "adfin": billing.Adfin(),
		"sandbox": billing.Sandbox()} {
		got, err := billing.Profile(name)
		if err != nil || !cmp.Equal(want, got) || got.Validate() != nil {
			t.Errorf("%s: %v, %v", name, err, got.Validate())
		}
	}
	if _, err := billing.Profile("adfinn"); err == nil || !strings.Contains(err.Error(), "standard, adfin or sandbox") {
		t.Errorf("unknown profile: %v", err)
	}
}

func TestDialectIsReadFromTheDocumentedKeys(t *testing.T) {
	t.Parallel()
	const text = `
token_auth: form
api_auth: client_credentials
list: {page_param: Page, size_param: Size, first_page: auto, size: 100, envelope: auto}
person_fields: short
address_fields: short
external_data: map
update: body_id
mandate_link: auto
link_when_created: unknown
cancel: colon
reinstate: none
webhook_setup: subscribe
webhook_read: auto
financial_query: includeCustomerFinancialDetails
read_only: [directDebitMandate, timezone]
`
	var got billing.Dialect
	if err := yaml.Load([]byte(text), &got, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(billing.Standard(), got); diff != "" {
		t.Errorf("dialect (-want +got):\n%s", diff)
	}
	over := billing.Adfin()
	if err := yaml.Load([]byte("list: {first_page: 0}"), &over, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	if over.List.FirstPage != "0" || over.List.PageParam != "page" || over.Validate() != nil {
		t.Errorf("a setting written over a profile gave %+v, %v", over.List, over.Validate())
	}
	var signature billing.Signature
	const sample = `{header: x-signature, timestamp_header: t, algorithm: hmac-sha256, encoding: hex, prefix: p, signed: body, key: text, tolerance: 5m, scheme: ""}`
	if err := yaml.Load([]byte(sample), &signature, yaml.WithKnownFields()); err != nil ||
		signature.Tolerance.Minutes() != 5 {
		t.Errorf("signature = %+v, %v", signature, err)
	}
}

func TestDialectRefusesReadOnlyFieldsThatMustBeSent(t *testing.T) {
	t.Parallel()
	for field, ok := range map[string]bool{
		"lastUpdatedTime": true, "people.validForEmailCommunication": true, "addresses.id": true,
		"id": false, "people": false, "externalData": false, "": false, "people.": false, "other.x": false,
		"people.a.b": false,
	} {
		d := billing.Standard()
		d.ReadOnly = []string{field}
		if err := d.Validate(); (err == nil) != ok {
			t.Errorf("read_only %q: error %v", field, err)
		}
	}
}

// covers F41
func TestNewWebhookSecretIsKeptWhateverFailsAfterIt(t *testing.T) {
	t.Parallel()
	for _, failAt := range []string{"digest", "auth", "webhooks", "nowhere"} {
		var steps []string
		rt := scripted(func(r *http.Request, body string) (int, string, string) {
			step := filepath.Base(r.URL.Path)
			steps = append(steps, r.Method+" "+r.URL.Path)
			switch {
			case step == failAt:
				return 500, "", ""
			case step == "digest":
				return 200, "application/json", `{"secretKey":"new-secret"}`
			case step == "auth":
				return 200, "", ""
			}
			return 200, "application/json", `{"id":"w1","enabled":true}`
		})
		cfg := config(rt)
		cfg.Dialect.WebhookSetup = "digest_auth_subscribe"
		var kept []string
		how := setUp(&kept)
		how.Keep = func(secret connector.Secret) error {
			if len(steps) != 1 {
				t.Errorf("failing at %s: the secret was kept after %v", failAt, steps)
			}
			kept = append(kept, secret.Expose())
			return nil
		}
		got, err := newClient(t, cfg).Subscribe(t.Context(), hook(), how)
		if slices.Equal(kept, []string{"new-secret"}) != (failAt != "digest") || (err == nil) != (failAt == "nowhere") {
			t.Errorf("failing at %s: kept %d secrets, error %v", failAt, len(kept), err)
		}
		if err == nil && (got.ID != "w1" || !got.Enabled || got.URL != hook().URL) {
			t.Errorf("subscription = %+v", got)
		}
		want := []string{"PUT /api/apps/app-1/webhooks/digest", "PUT /api/apps/app-1/webhooks/auth",
			"PUT /api/apps/app-1/webhooks"}
		if diff := cmp.Diff(want[:len(steps)], steps); diff != "" {
			t.Errorf("failing at %s, steps (-want +got):\n%s", failAt, diff)
		}
		if strings.Contains(fmt.Sprintf("%+v %v", got, err), "new-secret") {
			t.Error("the secret is printed")
		}
	}
}

func TestSubscribeBringsBackASecretThatTheAnswerHolds(t *testing.T) {
	t.Parallel()
	client := newClient(t, config(answers(200, "application/json", `{"id":"w1","enabled":true,"secret":"given-back"}`)))
	var kept []string
	if got, err := client.Subscribe(t.Context(), hook(), setUp(&kept)); err != nil ||
		!slices.Equal(kept, []string{"given-back"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A secret that cannot be kept is used for nothing more: the next try is given another.
//
// covers F41
func TestNothingIsAskedAfterASecretThatCannotBeKept(t *testing.T) {
	t.Parallel()
	calls := 0
	rt := scripted(func(*http.Request, string) (int, string, string) {
		calls++
		return 200, "application/json", `{"secretKey":"new-secret"}`
	})
	cfg := config(rt)
	cfg.Dialect.WebhookSetup = "digest_auth_subscribe"
	full := errors.New("the disk is full")
	how := setUp(nil)
	how.Keep = func(connector.Secret) error { return full }
	if _, err := newClient(t, cfg).Subscribe(t.Context(), hook(), how); !errors.Is(err, full) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// The service is told of the delivery key in the way that deliveries are held against.
func TestTheServiceIsToldTheDeliveryKeyThatIsChecked(t *testing.T) {
	t.Parallel()
	const key = "a-delivery-key-of-31-characters"
	for want, as := range map[string]billing.DeliveryKey{
		`{"apiKeyAuthentication":{"headerKey":"X-Payersync-Key","headerValue":"` + key + `"}}`: {},
		`{"apiKeyAuthentication":{"headerKey":"x-our-key","headerValue":"` + key + `"}}`:       {Header: "x-our-key"},
		`{"basicAuthentication":{"username":"payersync","password":"` + key + `"}}`:            {Username: "payersync"},
	} {
		var told string
		rt := scripted(func(r *http.Request, body string) (int, string, string) {
			if strings.HasSuffix(r.URL.Path, "/auth") {
				told = body
			}
			return 200, "application/json", `{"id":"w1","secretKey":"new-secret"}`
		})
		cfg := config(rt)
		cfg.Dialect.WebhookSetup = "digest_auth_subscribe"
		how := setUp(nil)
		as.Keys = how.Key.Keys
		how.Key = as
		if _, err := newClient(t, cfg).Subscribe(t.Context(), hook(), how); err != nil || told != want {
			t.Errorf("told %s, want %s (%v)", told, want, err)
		}
	}
}

func TestLinkMethodIsFoundOutOnce(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 405, 501} {
		var sent []string
		rt := scripted(func(r *http.Request, body string) (int, string, string) {
			sent = append(sent, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/api/customers/")+" "+body)
			switch {
			case r.Method == "PUT":
				return status, "application/json", `{}`
			case strings.HasSuffix(r.URL.Path, "/c1"):
				return 200, "application/json", `{"id":"c1"}`
			}
			return 200, "application/json",
				`{"id":"m1","status":"CREATED","url":"https://sign.example/m1","customer":{"id":"c1"}}`
		})
		client := newClient(t, config(rt))
		for range 2 {
			if got, err := client.RequestMandateLink(t.Context(), "c1"); err != nil || got.ID != "m1" ||
				got.URL != "https://sign.example/m1" {
				t.Fatalf("refused with %d: %+v, %v", status, got, err)
			}
		}
		const body = ` {"redirectUrl":"` + redirect + `"}`
		want := []string{"PUT c1/directdebitmandates" + body, "GET c1 ", "GET c1/directdebitmandates" + body,
			"GET c1/directdebitmandates" + body}
		if status != 404 {
			want = append(want[:1], want[2:]...)
		}
		if diff := cmp.Diff(want, sent); diff != "" {
			t.Errorf("refused with %d, sent (-want +got):\n%s", status, diff)
		}
	}
}

// A 404 for the link marks a payer as missing only if the customer is.
//
// covers F43
func TestLinkNotFoundIsToldApartFromCustomerNotFound(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"auto", "put", "get"} {
		for customerStatus, want := range map[int]connector.Fault{
			200: connector.FaultRejected, 404: connector.FaultNotFound, 500: connector.FaultUnavailable,
		} {
			rt := scripted(func(r *http.Request, _ string) (int, string, string) {
				if strings.HasSuffix(r.URL.Path, "/c1") {
					return customerStatus, "application/json", `{"id":"c1"}`
				}
				return 404, "application/json", `{}`
			})
			cfg := config(rt)
			cfg.Dialect.MandateLink = method
			_, err := newClient(t, cfg).RequestMandateLink(t.Context(), "c1")
			if got := connector.FaultOf(err); got != want {
				t.Errorf("%s, customer %d: fault %q, want %q (%v)", method, customerStatus, got, want, err)
			}
		}
	}
}

// covers S15, F94
func TestMandateAnswersAreReadWithoutBankFields(t *testing.T) {
	t.Parallel()
	const mandate = `{"id":"m1","status":"CANCELLED","lastUpdateTime":"2024-11-05T04:50:32.132UTC","url":"https://sign.example/m1","bankAccountNumber":"12345678","failureReason":"DECEASED","customer":{"id":"c1"}}`
	link, err := newClient(t, config(answers(200, "application/json", mandate))).RequestMandateLink(t.Context(), "c1")
	want := connector.Mandate{ID: "m1", CustomerID: "c1", Status: "CANCELLED", ServiceTime: "2024-11-05T04:50:32.132UTC",
		URL: "https://sign.example/m1", FailureReason: connector.NewSecret("DECEASED")}
	if err != nil || link != want {
		t.Errorf("link = %+v, %v; want %+v", link, err, want)
	}
	got, err := newClient(t, config(answers(200, "application/json",
		`{"id":"c1","name":"A","directDebitMandate":`+mandate+`,"n":1.0}`))).Customer(t.Context(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	if *got.Mandate != want {
		t.Errorf("mandate = %+v, want %+v", *got.Mandate, want)
	}
	for _, secret := range []string{"12345678", "DECEASED", "sign.example"} {
		if strings.Contains(string(got.Raw), secret) {
			t.Errorf("raw customer holds %s: %s", secret, got.Raw)
		}
	}
}

func TestLinkAnswersThatAreNoLinkAreNotBelieved(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		`{"mandates":[{"id":"m1"}]}`, `{"id":"m1","status":"CREATED","url":"javascript:alert(1)"}`, `[]`,
		`{"id":"m1","status":"CREATED","url":"https://sign.example/m1","customer":{"id":"c2"}}`, `{"status":"CREATED"}`,
	} {
		_, err := newClient(t, config(answers(200, "application/json", answer))).RequestMandateLink(t.Context(), "c1")
		if connector.FaultOf(err) != connector.FaultUnknown || strings.Contains(err.Error(), "sign.example") {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

// covers F51, F56
func TestCustomerIsReadInEverySpelling(t *testing.T) {
	t.Parallel()
	mandate := func(status, at string) *connector.Mandate {
		return &connector.Mandate{ID: "m1", CustomerID: "7", Status: connector.MandateStatus(status), ServiceTime: at}
	}
	pairs := map[string]string{"k": "1"}
	tests := []struct {
		body string
		want connector.RemoteCustomer
	}{
		{`{"id":7,"name":"A","people":[{"email":"a@x.example","phone":"1"},{"name":"B","phoneNo":"2"},7],"addresses":[{"line1":"1 Quay St","city":"Leeds","postCode":"LS1"}],"externalData":{"k":1,"n":null,"o":{}}}`,
			connector.RemoteCustomer{
				Name: "A", Emails: []string{"a@x.example"}, Phones: []string{"1", "2"}, ExternalData: pairs,
				Addresses: []connector.Address{{Line1: "1 Quay St", City: "Leeds", PostCode: "LS1"}},
			}},
		{`{"id":"7","name":null,"people":null,"addresses":[{"addressLine1":"1 Quay St","postalCode":"LS1","country":"GB"}],"externalData":[{"key":"k","value":"1"},{"key":"","value":"2"}],"directDebitMandate":{}}`,
			connector.RemoteCustomer{ExternalData: pairs,
				Addresses: []connector.Address{{Line1: "1 Quay St", PostCode: "LS1", Country: "GB"}}}},
		{`{"id":"7","name":"A","externalData":{"connectorType":"k","id":"1"},"directDebitMandate":{"id":"m1","status":"MIGRATING"}}`,
			connector.RemoteCustomer{Name: "A", ExternalData: pairs, Mandate: mandate("MIGRATING", "")}},
		{`{"id":"7","name":"A","externalData":[{"connectorType":"QuickBooks","id":"q"}],"directDebitMandate":{"id":"m1","status":"ACTIVE","lastUpdatedTime":1730782232132}}`,
			connector.RemoteCustomer{Name: "A", ExternalData: map[string]string{"QUICKBOOKS": "q"},
				Mandate: mandate("ACTIVE", "1730782232132")}},
		{`{"id":"7","name":"A","directDebitMandate":null}`,
			connector.RemoteCustomer{Name: "A", ExternalData: map[string]string{}}},
	}
	for _, tt := range tests {
		got, err := newClient(t, config(answers(200, "application/json", tt.body))).Customer(t.Context(), "7")
		if err != nil {
			t.Errorf("%s: %v", tt.body, err)
		}
		tt.want.ID, got.Raw = "7", nil
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.body, diff)
		}
	}
}

// No request method but these is written anywhere in the client, so none can be
// sent; the tests over the sandbox watch the wire as well.
//
// covers S7
func TestClientHasNoDelete(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{"MethodGet": true, "MethodPost": true, "MethodPut": true, "MethodHead": true}
	for _, dir := range []string{".", "../transport"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) < 5 {
			t.Fatalf("%d files in %s, %v", len(files), dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, method := range methodsIn(t, file, source) {
				if !allowed[method] {
					t.Errorf("%s speaks of %s", file, method)
				}
			}
		}
	}
	if got := methodsIn(t, "x.go", []byte(`package x; var a, b = http.MethodDelete, "DELETE"`)); len(got) != 2 {
		t.Errorf("the check sees %q where both spellings are", got)
	}
}

// methodsIn returns the request methods that a file names: by constant, or as
// text in capitals.
func methodsIn(t *testing.T, name string, source []byte) (methods []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if strings.HasPrefix(n.Sel.Name, "Method") && n.Sel.Name != "Method" {
				methods = append(methods, n.Sel.Name)
			}
		case *ast.BasicLit:
			if text := strings.Trim(n.Value, "\"`"); text == "DELETE" || text == "PATCH" {
				methods = append(methods, text)
			}
		}
		return true
	})
	return methods
}
