package httpsource_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/transport"
)

// noting is FreeAgent's profile with a write-back into a declared field. FreeAgent itself has none.
func noting(t *testing.T, lines ...string) *httpsource.Profile {
	t.Helper()
	p, err := httpsource.Load("books.yaml", []byte(strings.Replace(freeagent(t), "\ntraps:",
		writing(append([]string{`body: {contact: {mobile: "${value}"}}`, "field: {name: mobile, is: the mobile phone}",
			`read: {path: "/contacts/${id}", record: contact, value: record.mobile}`}, lines...)...), 1)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// onePhone is a system with the contact 7.
type onePhone struct {
	mobile string
	sent   []string
	answer func(*http.Request) (int, string) // in the place of an answer to a write; status 0 for none
	write  func(string)                      // after a write was taken; nil to take it as it came
}

func (o *onePhone) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	status, text := http.StatusOK, `{"contact": {"url": "https://api.freeagent.com/v2/contacts/7", "mobile": "`+o.mobile+`"}}`
	switch {
	case req.URL.Path == "/v2/company":
		text = `{"company": {"subdomain": "northwind", "name": "Northwind"}}`
	case req.URL.Path != "/v2/contacts/7":
		status, text = http.StatusNotFound, `{}`
	case req.Method != http.MethodGet:
		o.sent = append(o.sent, req.Method+" "+req.URL.String()+" "+string(body))
		_, value, _ := strings.Cut(string(body), `"mobile":"`)
		value, _, _ = strings.Cut(value, `"`)
		if o.write != nil {
			o.write(value)
		} else {
			o.mobile = value
		}
		if o.answer != nil {
			status, text = o.answer(req)
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Request: req, Body: readerOf(text),
		ContentLength: int64(len(text))}, nil
}

func writerTo(t *testing.T, p *httpsource.Profile, o http.RoundTripper, c httpsource.WriteConfig) *httpsource.FieldWriter {
	t.Helper()
	w, err := httpsource.NewWriter(p, p.SampleConfig(), c, httpsource.Dependencies{Limiter: &accountingtest.Limiter{},
		HTTP: transport.New(transport.Options{Base: o, Retries: -1}), Now: time.Now,
		Token: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"})})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// set writes a value to a record, as write-back does.
func set(t *testing.T, w *httpsource.FieldWriter, id, value string) error {
	t.Helper()
	held, err := w.Read(t.Context(), []string{id})
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := w.Freeze(connector.Write{ID: "w1", SourceID: id, Field: held[id], Value: value})
	if err != nil {
		t.Fatal(err)
	}
	return w.Send(t.Context(), "w1", frozen)
}

// covers F146, F148
func TestAProfileWritesOneFieldAndReadsIt(t *testing.T) {
	t.Parallel()
	o := &onePhone{mobile: "cash"}
	w := writerTo(t, noting(t, "changes: [locale]"), o, httpsource.WriteConfig{Active: "DD active"})
	if err := set(t, w, "7", "DD active"); err != nil || o.mobile != "DD active" {
		t.Errorf("error %v, the field holds %q", err, o.mobile)
	}
	want := `PUT https://api.freeagent.com/v2/contacts/7 {"contact":{"mobile":"DD active"}}`
	if len(o.sent) != 1 || o.sent[0] != want {
		t.Errorf("sent %q", o.sent)
	}
	if held, err := w.Read(t.Context(), []string{"7", "8", "../7"}); err == nil || held != nil {
		t.Errorf("an id that leaves its place gives %v", held)
	}
	if held, err := w.Read(t.Context(), []string{"7", "8"}); err != nil || len(held) != 1 || held["7"].Value != "DD active" {
		t.Errorf("read %v, %v", held, err)
	}
	var parts []string
	for _, part := range w.Written() {
		parts = append(parts, part.Field)
	}
	if strings.Join(parts, " ") != "locale mobile" {
		t.Errorf("the fields %v count as no change", parts)
	}
	says := w.Says()
	if len(says) != 1 || w.Value(connector.FieldNone, "cash") != "cash" || w.Value(connector.FieldNone, "DD active") != "" {
		t.Errorf("it says %v", says)
	}
}

// covers F149
func TestAnswersToAWriteOfAProfile(t *testing.T) {
	t.Parallel()
	says := func(status int, body string) func(*http.Request) (int, string) {
		return func(*http.Request) (int, string) { return status, body }
	}
	refused := func(err error) bool { var r *connector.WriteRefusedError; return errors.As(err, &r) }
	none := func(err error) bool { return errors.Is(err, connector.ErrNotWritten) }
	stale := func(err error) bool { return errors.Is(err, connector.ErrStale) }
	made := func(err error) bool { return err == nil }
	unknown := func(err error) bool { return err != nil && !refused(err) && !none(err) && !stale(err) }
	ignores := func(string) {}
	for name, c := range map[string]struct {
		answer func(*http.Request) (int, string)
		write  func(*onePhone) func(string)
		want   func(error) bool
	}{
		"taken":                   {says(200, `{"ok": true}`), nil, made},
		"taken without a body":    {says(204, ""), nil, made},
		"taken, and ignored":      {says(200, `{"ok": true}`), func(*onePhone) func(string) { return ignores }, refused},
		"a success that is none":  {says(200, `{"ok": false}`), nil, unknown},
		"a success that says no":  {says(200, `{"error": 1}`), nil, unknown},
		"a page of the web":       {says(200, "<html>"), nil, unknown},
		"cut off":                 {says(200, `{"ok": tr`), nil, unknown},
		"edited meanwhile":        {says(409, `{}`), nil, stale},
		"not there any more":      {says(404, `{}`), nil, refused},
		"not such a value":        {says(422, `{}`), nil, refused},
		"not allowed":             {says(403, `{}`), nil, none},
		"another token is needed": {says(401, `{}`), nil, none},
		"too many requests":       {says(429, `{}`), nil, none},
		"a failure":               {says(500, `{}`), nil, unknown},
		"elsewhere":               {says(302, `{}`), nil, unknown},
		"somebody else's then":    {says(200, `{"ok": true}`), func(o *onePhone) func(string) { return func(string) { o.mobile = "card" } }, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &onePhone{mobile: "cash", answer: c.answer}
			if c.write != nil {
				o.write = c.write(o)
			}
			w := writerTo(t, noting(t, "done: status == 204 || body.ok == true", "stale: status == 409"), o,
				httpsource.WriteConfig{})
			err := set(t, w, "7", "active")
			if !c.want(err) || len(o.sent) == 0 {
				t.Errorf("error %v, sent %q", err, o.sent)
			}
			if err != nil && strings.Contains(err.Error(), "cash") {
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
}

func TestAWriteOfAnotherProfileIsNotSent(t *testing.T) {
	t.Parallel()
	o := &onePhone{}
	before, after := writerTo(t, noting(t), o, httpsource.WriteConfig{}), writerTo(t, noting(t, "method: PATCH"), o,
		httpsource.WriteConfig{})
	held, err := before.Read(t.Context(), []string{"7"})
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := before.Freeze(connector.Write{SourceID: "7", Field: held["7"], Value: "active"})
	if err != nil {
		t.Fatal(err)
	}
	if err := after.Send(t.Context(), "w1", frozen); !errors.Is(err, connector.ErrNotWritten) || len(o.sent) != 0 {
		t.Errorf("error %v, sent %q", err, o.sent)
	}
	if before.Setup() == after.Setup() {
		t.Error("another request needs no new approval")
	}
}

// Each error begins with the wrong key.
func TestMistakesOfAWriteBackAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		profile string
		config  httpsource.WriteConfig
		want    string
	}{
		{"freeagent", httpsource.WriteConfig{}, "field: the profile freeagent does not say"},
		{"odoo", httpsource.WriteConfig{}, "field: name a text field"},
		{"odoo", httpsource.WriteConfig{Field: "name"}, "field: does not look right"},
		{"odoo", httpsource.WriteConfig{Field: "x_dd", Active: " a"}, `active: " a" is no value`},
		{"businesscentral", httpsource.WriteConfig{Field: "email"}, "field: businesscentral sets paymentMethodId always"},
		{"businesscentral", httpsource.WriteConfig{}, `asked: "asked" is no value`},
		{"businesscentral", httpsource.WriteConfig{Active: "DD"}, `active: "DD" is no value`},
	} {
		for _, p := range shipped(t) {
			if p.Name() != c.profile {
				continue
			}
			_, err := httpsource.NewWriter(p, p.SampleConfig(), c.config, httpsource.Dependencies{Now: time.Now})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%s %+v: %v, want %q", c.profile, c.config, err, c.want)
			}
		}
	}
}
