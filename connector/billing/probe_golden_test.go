package billing_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
)

var update = flag.Bool("update", false, "write testdata/probes.txt anew")

const goldenProbes = "testdata/probes.txt"

// variant is a service, the client that asks it, and how both were prepared.
type variant struct {
	name     string
	switches sandbox.Switches
	dialect  billing.Dialect
	prepare  func(box *sandbox.Sandbox, cfg *billing.Config)
}

// variants turns every switch of the sandbox and every setting of the dialect, one at a time, in
// both profiles.
func variants() (out []variant) {
	for _, profile := range []string{"standard", "adfin"} {
		sw, _ := sandbox.Profile(profile)
		d, _ := billing.Profile(profile)
		out = append(out, variant{profile, sw, d, nil})
		for _, k := range sandbox.Table() {
			values := k.Allowed
			if len(values) == 0 {
				values = []string{"other", "0", "2", "CREATED", "PENDING,ACTIVE"}
			}
			for _, value := range values {
				turned := sw
				if value != k.Value(sw) && turned.Set(k.Name, value) == nil && turned.Validate() == nil {
					out = append(out, variant{profile + " service " + k.Name + "=" + value, turned, d, nil})
				}
			}
		}
		for _, w := range wrongs(profile) {
			turned, dialect := sw, d
			w.turn(&dialect)
			if w.service != nil {
				w.service(&turned)
			}
			out = append(out, variant{profile + " wrong " + w.setting + " " + w.value, turned, dialect,
				func(box *sandbox.Sandbox, _ *billing.Config) {
					if w.events != nil {
						box.ReplaceSubscription("https://books.example/hook", w.events...)
					}
				}})
		}
		for name, turn := range dialectTurns() {
			dialect := d
			turn(&dialect)
			out = append(out, variant{profile + " client " + name, sw, dialect, nil})
		}
		for name, prepare := range preparations() {
			out = append(out, variant{profile + " " + name, sw, d, prepare})
		}
	}
	for _, p := range pairings()[2:] {
		out = append(out, variant{"standard pairing " + p.name, p.switches, p.dialect, nil})
	}
	slices.SortStableFunc(out, func(a, b variant) int { return strings.Compare(a.name, b.name) })
	return out
}

func dialectTurns() map[string]func(d *billing.Dialect) {
	return map[string]func(d *billing.Dialect){
		"api_auth=client_credentials": func(d *billing.Dialect) { d.APIAuth = "client_credentials" },
		"first_page=0":                func(d *billing.Dialect) { d.List.FirstPage = "0" },
		"first_page=1":                func(d *billing.Dialect) { d.List.FirstPage = "1" },
		"envelope=array":              func(d *billing.Dialect) { d.List.Envelope = "array" },
		"envelope=customers":          func(d *billing.Dialect) { d.List.Envelope = "customers" },
		"mandate_link=auto":           func(d *billing.Dialect) { d.MandateLink = "auto" },
		"mandate_link=put":            func(d *billing.Dialect) { d.MandateLink = "put" },
		"mandate_link=get":            func(d *billing.Dialect) { d.MandateLink = "get" },
		"webhook_read=none":           func(d *billing.Dialect) { d.WebhookRead = "none" },
		"link_when_created=same":      func(d *billing.Dialect) { d.LinkWhenCreated = "same" },
		"token_auth=basic":            func(d *billing.Dialect) { d.TokenAuth = "basic" },
		"webhook_setup=digest":        func(d *billing.Dialect) { d.WebhookSetup = "digest_auth_subscribe" },
	}
}

func preparations() map[string]func(box *sandbox.Sandbox, cfg *billing.Config) {
	out := map[string]func(box *sandbox.Sandbox, cfg *billing.Config){
		"without customers": func(box *sandbox.Sandbox, _ *billing.Config) {
			for _, c := range box.Customers() {
				_ = box.Delete(c.ID)
			}
		},
		"with lists without keys": func(box *sandbox.Sandbox, _ *billing.Config) { box.SetView(sandbox.View{NoKeys: true}) },
		"without an app's secret": func(_ *sandbox.Sandbox, cfg *billing.Config) {
			if cfg.Tokens != nil { // else the client cannot be set up
				cfg.ClientSecret = connector.Secret{}
			}
		},
		"with a wrong secret": func(_ *sandbox.Sandbox,
			cfg *billing.Config) {
			cfg.ClientSecret = connector.NewSecret("wrong")
		},
		"without events":         func(_ *sandbox.Sandbox, cfg *billing.Config) { cfg.Events = nil },
		"without a subscription": func(box *sandbox.Sandbox, _ *billing.Config) { _ = box.DeleteSubscription() },
		"with other events": func(box *sandbox.Sandbox, _ *billing.Config) {
			box.ReplaceSubscription("https://books.example/hook", "DD_MANDATES", "invoice")
		},
		"with both spellings": func(box *sandbox.Sandbox, _ *billing.Config) {
			_, _ = box.Add(json.RawMessage(`{"name":"Both","people":[{"name":"A B","email":"a@b.example"},{"firstName":"C","lastName":"D","email":"c@d.example"}],"addresses":[{"addressLine1":"1 Quay","postCode":"YO21 3CK"}]}`))
		},
	}
	for _, path := range []string{"/api/customers", "/api/customers/*", "/api/customers/*/directdebitmandates",
		"/api/customers/directdebitmandates/*", "/api/apps/*/webhooks", "/api/oauth2/token"} {
		for _, method := range []string{"GET", "PUT", "POST"} {
			for _, status := range []int{400, 404, 405, 501, 503} {
				out[fmt.Sprintf("with %d for %s %s", status, method, path)] = func(box *sandbox.Sandbox, _ *billing.Config) {
					box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Method: method, Path: path, Status: status})
				}
			}
		}
	}
	return out
}

// report says in lines what reading and a trial find out of a variant.
func (v variant) report(t *testing.T) []string {
	t.Helper()
	box := sandbox.New(sandbox.Options{
		ClientID: "app-1", ClientSecret: connector.NewSecret("app-secret"), Switches: v.switches,
		Now: func() time.Time { return start },
	})
	cfg := config(box.RoundTripper())
	cfg.Dialect = v.dialect
	if v.dialect.APIAuth == "authorization_code" {
		cfg.Tokens = issuer{box}
	}
	scratch := peopled(t, box)
	box.ReplaceSubscription("https://books.example/hook", "customer", "dd-mandate")
	if v.prepare != nil {
		v.prepare(box, &cfg)
	}
	client := newClient(t, cfg)
	found, err := client.Probe(t.Context())
	lines := linesOf("read", found, err)
	if errors.Is(err, billing.ErrNoKeysInLists) || err == nil {
		trial, err := client.ProbeByWriting(t.Context(), scratch)
		lines = append(lines, linesOf("trial", trial.Findings, err)...)
		lines = append(lines, fmt.Sprintf("trial survived %v, lost %v, tripped %v, left %q", trial.Survived, trial.Lost,
			trial.Tripped, trial.Left))
	}
	return lines
}

func linesOf(step string, found []billing.Finding, err error) (lines []string) {
	for _, f := range found {
		lines = append(lines, fmt.Sprintf("%s %s: %q -> %q, %s: %s", step, f.Setting, f.Configured, f.Found, f.Certainty,
			f.How))
	}
	if err != nil {
		lines = append(lines, fmt.Sprintf("%s error: %s", step, strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return lines
}

// otherwise returns the additional and missing lines compared with the usual ones; all lines for a failed
// probe.
func otherwise(lines, usual []string) []string {
	if slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "read error") }) {
		return lines
	}
	out := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(usual, line) })
	for _, line := range usual {
		setting, _, _ := strings.Cut(line, ":")
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, setting) }) {
			out = append(out, "without "+setting)
		}
	}
	return out
}

// Every word and setting found by probes stays as in the golden file. For a variant the file has only the
// differences from its profile.
func TestProbesOfEveryVariantOfTheSandboxAreAsRecorded(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	var usual []string
	for _, v := range variants() {
		lines := v.report(t)
		shown := lines
		if v.name == "standard" || v.name == "adfin" {
			usual = lines
		} else {
			shown = otherwise(lines, usual)
		}
		if len(shown) > 0 {
			fmt.Fprintf(&out, "%s\n\t%s\n", v.name, strings.Join(shown, "\n\t"))
		}
	}
	if *update {
		if err := os.WriteFile(goldenProbes, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenProbes)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != string(want) {
		t.Error(cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")))
	}
}
