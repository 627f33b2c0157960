package xero_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/xero"
	"payersync/connector/accounting/xero/xerotest"
	"payersync/connector/transport"
)

// specification loads Xero's own description of its API, stored outside of the repository. Without it the
// test is skipped, unless VENDOR_SPECS says it is there.
func specification(t *testing.T) *openapi3.T {
	t.Helper()
	folder, promised := os.LookupEnv("VENDOR_SPECS")
	path := filepath.Join(cmp.Or(folder, "../../../../shared/specs"), "xero_accounting.yaml")
	if _, err := os.Stat(path); os.IsNotExist(err) && !promised {
		t.Skipf("there is no %s: Xero's specification is not part of the repository; set VENDOR_SPECS to its folder", path)
	}
	spec, err := openapi3.NewLoader().LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// checked validates every request and every answer within the organisation
// against the specification.
type checked struct {
	t       *testing.T
	spec    *openapi3.T
	server  *xerotest.Server
	through int
}

func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	path, inOrganisation := strings.CutPrefix(r.URL.Path, "/api.xro/2.0")
	if !inOrganisation { // the list of connections is described elsewhere
		return c.server.RoundTrip(r)
	}
	c.through++
	asked := c.request(r, path)
	if err := openapi3filter.ValidateRequest(r.Context(), asked); err != nil {
		c.t.Errorf("our request %s does not fit the specification: %v", path, err)
	}
	resp, err := c.server.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, _ := io.ReadAll(resp.Body) // in memory
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: asked, Status: resp.StatusCode, Header: resp.Header,
		Body: io.NopCloser(bytes.NewReader(body)),
	}); err != nil {
		c.t.Errorf("the model's answer to %s does not fit the specification: %v", path, err)
	}
	return resp, nil
}

func (c *checked) request(r *http.Request, path string) *openapi3filter.RequestValidationInput {
	item := c.spec.Paths.Value(path)
	if item == nil {
		c.t.Fatalf("the specification has no path %s", path)
	}
	return &openapi3filter.RequestValidationInput{
		Request: r, QueryParams: r.URL.Query(),
		Route: &routers.Route{Spec: c.spec, Path: path, PathItem: item, Method: r.Method,
			Operation: item.GetOperation(r.Method)},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}
}

func TestRequestsAndAnswersFitXerosSpecification(t *testing.T) {
	t.Parallel()
	spec := specification(t)
	for name, custom := range map[string]bool{"app": false, "custom connection": true} {
		t.Run(name, func(t *testing.T) {
			b := open(t, 40, xero.Config{})
			b.Custom = custom
			b.Archive(b.Contacts()[1].ContactID)
			b.Merge(b.Contacts()[2].ContactID, b.Contacts()[3].ContactID)
			b.Erase(b.Contacts()[4].ContactID)
			wire := &checked{t: t, spec: spec, server: b.Server}
			s, err := xero.New(xero.Config{PageSize: 15, CustomConnection: custom, OnlyCustomers: true}, xero.Deps{
				HTTP: transport.New(transport.Options{Base: wire}), Token: b.Server, Limiter: &b.limiter, Now: b.now,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, since := range []time.Time{{}, b.now().Add(-24 * time.Hour)} {
				if _, _, err := drain(s.Customers(t.Context(), since)); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d requests and answers validated", wire.through)
			if wire.through < 5 {
				t.Errorf("only %d requests went through the check", wire.through)
			}
		})
	}
}

func TestDeclaredFieldsAreXerosOwn(t *testing.T) {
	t.Parallel()
	spec := specification(t)
	info, err := open(t, 0, xero.Config{}).source.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for field, why := range accountingtest.Undescribed(info.Fields, spec.Components.Schemas["Contact"].Value) {
		t.Errorf("Contact.%s: %s", field, why)
	}
}
