package billing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
)

// spelled is a customer as the service shows it.
func spelled(sw sandbox.Switches, n int) json.RawMessage {
	person := `{"name":"Older %[1]d","email":"older%[1]d@example.org","phone":"01632 960200"}`
	if sw.PersonFields == "long" {
		person = `{"firstName":"Older","lastName":"%[1]d","email":"older%[1]d@example.org","phoneNo":"01632 960200"}`
	}
	address := `{"line1":"%[1]d Quay","city":"Whitby","postCode":"YO21 3CK"}`
	if sw.AddressFields == "long" {
		address = `{"addressLine1":"%[1]d Quay","city":"Whitby","postalCode":"YO21 3CK"}`
	}
	pairs := map[string]string{
		"map": `{"legacyNo":"L%[1]d"}`, "list": `[{"key":"legacyNo","value":"L%[1]d"}]`,
		"object": `{"connectorType":"legacyNo","id":"L%[1]d"}`, "array": `[{"connectorType":"legacyNo","id":"L%[1]d"}]`,
	}[sw.ExternalData]
	return json.RawMessage(fmt.Sprintf(`{"name":"Older %[1]d","people":[`+person+`],"addresses":[`+address+`],"externalData":`+pairs+`,"vip":{"score":1.50}}`, n))
}

// peopled puts three customers into a service, the first with a signed mandate, and a
// scratch customer that nobody is served by.
func peopled(t *testing.T, box *sandbox.Sandbox) (scratch string) {
	t.Helper()
	for i := range 4 {
		raw := spelled(box.Switches(), i+1)
		var err error
		if i == 0 {
			_, err = box.Begin(raw, connector.MandatePending)
		} else {
			scratch, err = box.Add(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return scratch
}

// probed returns the findings of reading and writing with a service and these events, or those of the
// configuration.
func probed(t *testing.T, sw sandbox.Switches, d billing.Dialect, subscribed ...string) (found []billing.Finding,
	trial billing.Trial) {
	t.Helper()
	box, client := newSandbox(t, sw, d)
	scratch := peopled(t, box)
	if subscribed == nil {
		subscribed = []string{"customer", "dd-mandate"}
	}
	box.ReplaceSubscription("https://books.example/hook", subscribed...)
	found, err := client.Probe(t.Context())
	if n := box.Writes(); n != 0 {
		t.Fatalf("reading sent %d writes", n)
	}
	if err != nil || slices.Contains(different(found), "dialect.token_auth") {
		return found, trial
	}
	customers := len(box.Customers())
	trial, err = client.ProbeByWriting(t.Context(), scratch)
	if err != nil {
		t.Fatalf("the trial: %v", err)
	}
	if trial.Left != "" || len(box.Customers()) != customers {
		t.Errorf("the trial left the customer %s, and %d customers", trial.Left, len(box.Customers()))
	}
	c, _ := box.Customer(scratch)
	for _, m := range c.Mandates {
		if m.Status != connector.MandateCancelled {
			t.Errorf("the trial left a mandate %s", m.Status)
		}
	}
	return append(found, trial.Findings...), trial
}

func different(found []billing.Finding) (settings []string) {
	for _, f := range found {
		if f.Differs() && !slices.Contains(settings, f.Setting) {
			settings = append(settings, f.Setting)
		}
	}
	slices.Sort(settings)
	return settings
}

func TestAProbeSaysNothingWhenEverythingIsRight(t *testing.T) {
	t.Parallel()
	for _, p := range pairings() {
		if p.switches.ExternalData == "array" && p.dialect.ExternalData == "map" || p.name == "answers long, written short" {
			continue // reading takes answers for requests: it names what looks otherwise, as likely
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			found, trial := probed(t, p.switches, p.dialect)
			if got := different(found); len(got) > 0 {
				t.Errorf("it names %v: %+v", got, found)
			}
			if len(trial.Lost) > 0 || !trial.Tripped {
				t.Errorf("the round trip lost %v, made %v", trial.Lost, trial.Tripped)
			}
		})
	}
}

// wrong is a configuration that is wrong by one.
type wrong struct {
	setting, value string
	turn           func(d *billing.Dialect)
	service        func(sw *sandbox.Switches) // how the service differs from the profile, nil for not
	// what is subscribed to there, in its own spelling; nil for that of the configuration
	events []string
}

func wrongs(profile string) []wrong {
	out := []wrong{
		{"token_auth", "basic", func(d *billing.Dialect) { d.TokenAuth = "basic" },
			func(sw *sandbox.Switches) { sw.TokenAuth = "form" }, nil},
		{"token_auth", "form", func(d *billing.Dialect) { d.TokenAuth = "form" },
			func(sw *sandbox.Switches) { sw.TokenAuth = "basic" }, nil},
		{"list.page_param", "p", func(d *billing.Dialect) { d.List.PageParam = "p" }, nil, nil},
		{"list.page_param", "nr", func(d *billing.Dialect) {}, func(sw *sandbox.Switches) { sw.List.PageParam = "nr" }, nil},
		{"list.size_param", "limit", func(d *billing.Dialect) { d.List.SizeParam = "limit" }, nil, nil},
		{"list.first_page", "1", func(d *billing.Dialect) { d.List.FirstPage = "1" }, nil, nil},
		{"list.first_page", "0", func(d *billing.Dialect) { d.List.FirstPage = "0" },
			func(sw *sandbox.Switches) { sw.List.FirstPage = 1 }, nil},
		{"list.envelope", "entries", func(d *billing.Dialect) { d.List.Envelope = "entries" }, nil, nil},
		{"list.envelope", "auto", func(d *billing.Dialect) {}, func(sw *sandbox.Switches) { sw.List.Envelope = "payers" },
			nil},
		{"update", "path_id", func(d *billing.Dialect) { d.Update = "path_id" },
			func(sw *sandbox.Switches) { sw.Update = "body_id" }, nil},
		{"update", "body_id", func(d *billing.Dialect) { d.Update = "body_id" },
			func(sw *sandbox.Switches) { sw.Update = "path_id" }, nil},
		{"mandate_link", "get", func(d *billing.Dialect) { d.MandateLink = "get" },
			func(sw *sandbox.Switches) { sw.MandateLink = "put" }, nil},
		{"mandate_link", "get", func(d *billing.Dialect) { d.MandateLink = "get" },
			func(sw *sandbox.Switches) { sw.MandateLink = "put_list" }, nil},
		{"mandate_link", "put", func(d *billing.Dialect) { d.MandateLink = "put" },
			func(sw *sandbox.Switches) { sw.MandateLink = "get" }, nil},
		{"link_when_created", "new", func(d *billing.Dialect) { d.LinkWhenCreated = "new" }, nil, nil},
		{"link_when_created", "same", func(d *billing.Dialect) { d.LinkWhenCreated = "same" },
			func(sw *sandbox.Switches) { sw.LinkWhenCreated = "new" }, nil},
		{"read_only", "", func(d *billing.Dialect) { d.ReadOnly = []string{"directDebitMandate", "timezone"} },
			func(sw *sandbox.Switches) { sw.CustomerTimes = true }, nil},
		{"webhook.events", "dd-mandate, customer", func(d *billing.Dialect) {}, nil, []string{"customers", "dd-mandate"}},
	}
	for _, way := range []string{"slash", "query", "body"} {
		out = append(out, wrong{"cancel", way, func(d *billing.Dialect) { d.Cancel = way }, nil, nil})
	}
	other := map[string][]string{"standard": {"long", "list", "object"}, "adfin": {"short", "list", "map"}}[profile]
	out = append(out, wrong{"person_fields", other[0], func(d *billing.Dialect) { d.PersonFields = other[0] }, nil, nil},
		wrong{"address_fields", other[0], func(d *billing.Dialect) { d.AddressFields = other[0] }, nil, nil})
	for _, shape := range other[1:] {
		out = append(out, wrong{"external_data", shape, func(d *billing.Dialect) { d.ExternalData = shape }, nil, nil})
	}
	return out
}

func TestAProbeNamesTheOnePointThatIsWrong(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"standard", "adfin"} {
		for _, w := range wrongs(profile) {
			t.Run(profile+" "+w.setting+" "+w.value, func(t *testing.T) {
				t.Parallel()
				sw, _ := sandbox.Profile(profile)
				d, _ := billing.Profile(profile)
				w.turn(&d)
				if w.service != nil {
					w.service(&sw)
				}
				found, _ := probed(t, sw, d, w.events...)
				want := w.setting
				if want != "webhook.events" {
					want = "dialect." + want
				}
				if got := different(found); !slices.Equal(got, []string{want}) {
					t.Errorf("it names %v: %+v", got, found)
				}
			})
		}
	}
}

func TestAProbeNamesATokenOfTheWrongKind(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403} {
		sw := sandbox.Standard()
		sw.APITokens, sw.WrongTokenStatus = "authorization_code", status
		found, _ := probed(t, sw, billing.Standard())
		if got := different(found); !slices.Equal(got, []string{"dialect.api_auth"}) {
			t.Errorf("HTTP %d: it names %v", status, got)
		}
	}
}

// Every field of the dialect is found out by one of the probes, or there is a reason why none
// can.
func TestEverySettingOfTheDialectIsProbedOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	found, _ := probed(t, sandbox.Standard(), billing.Standard())
	for _, setting := range settingsOf(reflect.TypeFor[billing.Dialect](), "") {
		why, not := billing.Unprobed()[setting]
		known := slices.ContainsFunc(found, func(f billing.Finding) bool {
			return f.Setting == "dialect."+setting && f.Certainty != billing.Unknown
		})
		if known == not || not && why == "" {
			t.Errorf("%s: found out %v, and the reason why not is %q", setting, known, why)
		}
	}
}

func settingsOf(of reflect.Type, above string) (out []string) {
	for i := range of.NumField() {
		name := above + strings.Split(of.Field(i).Tag.Get("yaml"), ",")[0]
		if of.Field(i).Type.Kind() == reflect.Struct {
			out = append(out, settingsOf(of.Field(i).Type, name+".")...)
			continue
		}
		out = append(out, name)
	}
	return out
}

func TestAProbeOfAnEmptyServiceSaysWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	_, client := newSandbox(t, sandbox.Standard(), billing.Standard())
	found, err := client.Probe(t.Context())
	if err != nil || len(different(found)) > 0 {
		t.Fatalf("it names %v, %v", different(found), err)
	}
	for _, f := range found {
		if f.Certainty == billing.Unknown && f.How == "" {
			t.Errorf("%s is not known, and nothing says what would tell", f.Setting)
		}
	}
}

func TestATrialIsRefusedOnACustomerThatIsServed(t *testing.T) {
	t.Parallel()
	for _, status := range []connector.MandateStatus{connector.MandateCreated, connector.MandatePending,
		connector.MandateActive} {
		box, client := newSandbox(t, sandbox.Standard(), billing.Standard())
		id, err := box.Begin(json.RawMessage(`{"name":"Served"}`), status)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.ProbeByWriting(t.Context(), id); !errors.Is(err, billing.ErrNotScratch) || box.Writes() != 0 {
			t.Errorf("%s: %v, %d writes", status, err, box.Writes())
		}
	}
}

func TestListsWithoutKeysAreNamed(t *testing.T) {
	t.Parallel()
	box, client := newSandbox(t, sandbox.Standard(), billing.Standard())
	peopled(t, box)
	box.SetView(sandbox.View{NoKeys: true})
	if _, err := client.Probe(t.Context()); !errors.Is(err, billing.ErrNoKeysInLists) {
		t.Errorf("it says %v", err)
	}
}

func TestAnAnswerWithoutAListIsNamed(t *testing.T) {
	t.Parallel()
	client := newClient(t, config(answers(http.StatusOK, "application/json", `{"message":"hello"}`)))
	found, err := client.ProbeList(t.Context())
	if err == nil || len(found) != 3 || found[2].Setting != "dialect.list.envelope" ||
		found[2].Certainty != billing.Unknown || !strings.HasPrefix(found[2].How, "the answer holds no list of customers") {
		t.Errorf("it says %+v, %v", found, err)
	}
}

// covers F162
func TestAProbeProvesNothingByAPageThatIsRefusedOrMovesByItself(t *testing.T) {
	t.Parallel()
	reads := 0
	for name, answer := range map[string]func(r *http.Request) (int, string){
		"unknown parameters are refused": func(r *http.Request) (int, string) {
			for key := range r.URL.Query() {
				if key != "Size" {
					return 400, `{"code":"UNKNOWN"}`
				}
			}
			if r.URL.Query().Get("Size") == "1" {
				return 200, `[{"id":"a"}]`
			}
			return 200, `[{"id":"a"},{"id":"b"}]`
		},
		"another order each time": func(r *http.Request) (int, string) {
			reads++
			return 200, fmt.Sprintf(`[{"id":"n%d"},{"id":"a"}]`, reads)
		},
	} {
		client := newClient(t, config(scripted(func(r *http.Request, _ string) (int, string, string) {
			if !strings.HasSuffix(r.URL.Path, "/customers") {
				return 404, "application/json", `{}`
			}
			status, text := answer(r)
			return status, "application/json", text
		})))
		found, _ := client.ProbeList(t.Context())
		i := slices.IndexFunc(found, func(f billing.Finding) bool { return f.Setting == "dialect.list.page_param" })
		if i < 0 || found[i].Certainty == billing.Proven {
			t.Errorf("%s: it says %+v", name, found)
		}
	}
}

// covers F163
func TestATrialSaysWhichMandatesItLeftOpen(t *testing.T) {
	t.Parallel()
	sw := sandbox.Standard()
	sw.LinkWhenCreated, sw.CancelRefused = "new", []connector.MandateStatus{connector.MandateCreated}
	box, client := newSandbox(t, sw, billing.Standard())
	scratch := peopled(t, box)
	trial, err := client.ProbeByWriting(t.Context(), scratch)
	c, _ := box.Customer(scratch)
	if err != nil || len(c.Mandates) == 0 {
		t.Fatalf("%v, %d mandates", err, len(c.Mandates))
	}
	for _, m := range c.Mandates {
		if !strings.Contains(trial.Left, m.ID) {
			t.Errorf("the trial left %s open and says %q", m.ID, trial.Left)
		}
	}
}

// covers F163
func TestATrialCancelsTheOthersWhereOneHasNoAnswer(t *testing.T) {
	t.Parallel()
	sw := sandbox.Standard()
	sw.LinkWhenCreated = "new"
	box, client := newSandbox(t, sw, billing.Standard())
	scratch := peopled(t, box)
	box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Path: "/api/customers/directdebitmandates/*",
		Status: http.StatusInternalServerError, Count: 1})
	trial, err := client.ProbeByWriting(t.Context(), scratch)
	c, _ := box.Customer(scratch)
	if err == nil || len(c.Mandates) != 2 {
		t.Fatalf("%v, %d mandates", err, len(c.Mandates))
	}
	for _, m := range c.Mandates {
		if m.Status != connector.MandateCancelled && !strings.Contains(trial.Left, m.ID) {
			t.Errorf("%s is %s, and the trial left the customer %q", m.ID, m.Status, trial.Left)
		}
	}
	if first := c.Mandates[0]; first.Status != connector.MandateCancelled &&
		c.Mandates[1].Status != connector.MandateCancelled {
		t.Errorf("nobody cancelled the other one, %s", first.ID)
	}
	if !strings.Contains(trial.Left, "or are cancelled") {
		t.Errorf("it left the customer %q", trial.Left)
	}
}

// A service that shows the oldest mandate and understands no cancellation answers as if it did.
//
// covers F163
func TestATrialProvesACancellationByTheMandateItselfAlone(t *testing.T) {
	t.Parallel()
	links := 0
	cfg := config(behindToken(func(r *http.Request) (*http.Response, error) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/customers/directdebitmandates/"):
			return respond(http.StatusOK, "application/json", "{}"), nil
		case strings.HasSuffix(r.URL.Path, "/directdebitmandates"):
			links++
			return respond(http.StatusOK, "application/json",
				fmt.Sprintf(`{"id":"m%d","customerId":"c1","status":"CREATED","signatureLink":"https://sign.example/%[1]d"}`,
					links)), nil
		case r.Method == http.MethodGet && links > 0:
			return respond(http.StatusOK, "application/json",
				`{"id":"c1","name":"Older","directDebitMandate":{"id":"m1","status":"CREATED"}}`), nil
		}
		return respond(http.StatusOK, "application/json", `{"id":"c1","name":"Older"}`), nil
	}))
	trial, err := newClient(t, cfg).ProbeByWriting(t.Context(), "c1")
	if err != nil || links != 2 {
		t.Fatalf("%v, %d links", err, links)
	}
	for _, f := range trial.Findings {
		if f.Setting == "dialect.cancel" && f.Certainty == billing.Proven {
			t.Errorf("a cancellation that did nothing is proven: %+v", f)
		}
	}
	if !strings.Contains(trial.Left, "m1") || !strings.Contains(trial.Left, "m2") {
		t.Errorf("it left the customer %q", trial.Left)
	}
}

func TestATimeThatIsNotSignedTellsNoAge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signature billing.Signature
		unchecked bool
	}{
		"in a header, not signed": {billing.Signature{TimestampHeader: "t"}, true},
		"in a list, not signed":   {billing.Signature{SignatureItem: "v1", TimestampItem: "t", Signed: "body"}, true},
		"signed":                  {billing.Signature{TimestampHeader: "t", Signed: "{timestamp}.{body}"}, false},
		"no time at all":          {billing.Signature{Signed: "{body}"}, false},
		"the standard scheme":     {billing.Signature{Scheme: "standard-webhooks"}, false},
		"adfin":                   {billing.Signature{Scheme: "adfin"}, false},
	} {
		if got := tt.signature.AgeUnchecked(); got != tt.unchecked {
			t.Errorf("%s: %v", name, got)
		}
	}
}
