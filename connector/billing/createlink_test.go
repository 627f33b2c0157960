package billing_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"payersync/connector/billing"
)

// An address is a mandate's link where the answer shows the mandate, and nowhere else.
//
// covers F178
func TestALinkOfACreateIsTakenOnlyBesideItsMandate(t *testing.T) {
	t.Parallel()
	const waiting, link = `{"id":"m1","status":"CREATED"}`, "https://pay.example/sign/m1"
	for _, tt := range []struct{ path, mandate, url, want string }{
		{"url", waiting, link, link},
		{"", waiting, link, ""},
		{"url", `{}`, link, ""},
		{"url", `null`, link, ""},
		{"url", `{"status":"CREATED"}`, link, ""},
		{"url", `{"id":"m1","status":"ACTIVE"}`, link, ""},
		{"url", `{"id":"m1","status":"MIGRATING"}`, link, ""},
		{"url", `{"id":"m1","status":"CANCELLED"}`, link, ""},
		{"url", waiting, "http://pay.example/sign/m1", ""},
		{"url", waiting, "http://127.0.0.1:8080/sign/m1", "http://127.0.0.1:8080/sign/m1"},
		{"url", waiting, "http://localhost/sign/m1", "http://localhost/sign/m1"},
		{"url", waiting, "http://localhost.example/sign/m1", ""},
		{"url", waiting, "javascript:alert(1)", ""},
		{"url", waiting, "https://ada:secret@pay.example/", ""},
		{"url", waiting, redirect, ""},
		{"url", waiting, redirect + "/?from=m1", ""},
		{"url", waiting, "", ""},
		{"other.url", waiting, link, ""},
	} {
		cfg := config(answers(http.StatusOK, "application/json",
			fmt.Sprintf(`{"id":"c1","directDebitMandate":%s,"url":%q}`, tt.mandate, tt.url)))
		cfg.Dialect.CreateLink = tt.path
		client := newClient(t, cfg)
		made, err := client.CreateCustomer(t.Context(), []byte(`{"name":"A"}`))
		got := ""
		if made.Mandate != nil {
			got = made.Mandate.URL
		}
		if err != nil || got != tt.want {
			t.Errorf("%s beside %s at %q: link %q, %v; want %q", tt.url, tt.mandate, tt.path, got, err, tt.want)
		}
		if read, err := client.Customer(t.Context(), "c1"); err != nil || read.Mandate != nil && read.Mandate.URL != "" {
			t.Errorf("a read has a link: %+v, %v", read.Mandate, err)
		}
	}
}

func TestAPathOfTheLinkIsChecked(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"": "", "url": "", "directDebit.url": "", "redirectUrl": "come back to", "links.redirectUrl": "come back to",
		"people.url": "holds something else", "a..b": "is no path", "a b": "is no path",
	} {
		d := billing.Standard()
		d.CreateLink = path
		if err := d.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}
