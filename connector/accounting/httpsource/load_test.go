package httpsource_test

import (
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/transport"
	"payersync/mapping/strict"
)

// freeagent is the text of the shipped profile.
func freeagent(t testing.TB) string {
	t.Helper()
	data, err := fs.ReadFile(configs.FS, "sources/freeagent/profile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// writing adds a block write to a profile, with other lines in it.
func writing(others ...string) string {
	lines := map[string]string{"method": "method: PUT", "path": `path: "/contacts/${id}"`, "body": `body: {note: "${value}"}`,
		"field": "field: {name: note, is: a note}",
		"read":  `read: {path: "/contacts/${id}", record: contact, value: record.note}`}
	for _, other := range others {
		key, _, _ := strings.Cut(other, ":")
		lines[key] = other
	}
	out := "\nwrite:\n"
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		out += "  " + lines[key] + "\n"
	}
	return out + "traps:"
}

// Each broken profile is the shipped one with one edit.
func TestBrokenProfilesAreExplainedByPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, from, to, want string }{
		{"unknown key", "title: FreeAgent", "titel: FreeAgent", `unknown key "titel"; did you mean "title"?`},
		{"missing key", "title: FreeAgent\n", "", `the key "title" is missing`},
		{"another version", "profile: 1", "profile: 2", `profile cannot be "2"`},
		{"unknown name", "updated: updated_at", "updated: update_at", `unknown name "update_at"; did you mean "updated_at"?`},
		{"unknown setting", "set.sandbox == true", "set.sandbx == true",
			`there is no setting "sandbx"; did you mean "sandbox"?`},
		{"number for a text", `{when: status == "Active"`, `{when: status == 1`,
			"status is declared as a text, and is compared with a number here"},
		{"flag for a text", `{when: status == "Active"`, `{when: status == true`, "compared with a flag"},
		{"no question", `{when: status == "Active"`, `{when: '"Active"'`, "asks a question"},
		{"unknown function", `split(url, "/")[-1]`, `splt(url, "/")`, "this function is not known"},
		{"forbidden function", `split(url, "/")[-1]`, `now()`, "this function is not known"},
		{"a loop", `split(url, "/")[-1]`, `'filter([url], # != "")[0]'`, "no loops"},
		{"let", `split(url, "/")[-1]`, `let a = url; a + a`, "let and ;"},
		{"a range", `split(url, "/")[-1]`, `(1..1000000000)[0]`, "no ranges"},
		{"syntax", `split(url, "/")[-1]`, `split(url, "/"[-1]`, "cannot be read here"},
		{"a pattern that is none", `{when: status == "Active"`, `{when: 'status matches "("'`, "this pattern is not valid"},
		{"a pattern from the answer", `{when: status == "Active"`, `{when: status matches url`,
			"matches takes a pattern in quotes"},
		{"open hole", `per_page: "${size}"`, `per_page: "${size"`, "this hole is not closed"},
		{"state unknown", "is: archived}", "is: sleeping}", `cannot be "sleeping"`},
		{"merged without survivor", "is: archived}", "is: merged}", "names the survivor's id under into"},
		{"no way on", "page: \"${page + 1}\"", "pages: \"1\"", "nothing leads to the second page"},
		{"no end", "  last: link(\"next\") == \"\"\n", "", "nothing says which page is the last"},
		{"keyset by pages", "paging: offset", "paging: keyset", "model.paging is offset"},
		{"since without a form", "  since: \"2006-01-02T15:04:05.000Z\"\n", "", "needs list.since"},
		{"form without since", `updated_since: "${since}", `, "", "no part of the request reads since"},
		{"time without a year", `times: ["2006-01-02T15:04:05Z07:00"]`, `times: ["YYYY-MM-DD"]`, "is no form of a time"},
		{"a POST that may write", "list:\n  path:", "list:\n  method: POST\n  path:", "say so with reads: true"},
		{"a body of a GET", "list:\n  path:", "list:\n  body: {a: 1}\n  path:", "a GET has no body"},
		{"path to another host", "path: /contacts", "path: https://elsewhere.example/contacts", "begins with a slash"},
		{"field twice", "{name: mobile,", "{name: email,", `the field "email" is declared twice`},
		{"object without fields", "{name: mobile,", "{name: mobile, type: object,", "has no fields"},
		{"text with fields", "{name: mobile,", "{name: mobile, fields: [{name: a}],", "so its type is object or list"},
		{"secret of another name", "sandbox: {type: flag,", "token: {type: secret, is: x}\n  sandbox: {type: flag,",
			"api_key or api_secret"},
		{"secret that is none", "sandbox: {type: flag,", "api_key: {type: text, is: x}\n  sandbox: {type: flag,",
			"api_key or api_secret"},
		{"keys for OAuth", "client: basic}", "client: basic, headers: {X-Key: a}}", "for kind header alone"},
		{"keys without a key", "kind: oauth2-code, authorize: /approve_app, token: /token_endpoint, client: basic",
			"kind: header, headers: {X-Key: a}", "no header holds a key"},
		{"a secret outside of auth", `per_page: "${size}"`, `per_page: "${secret.api_key}"`, `unknown name "secret"`},
		{"OAuth without a page", "authorize: /approve_app, ", "", "the page for the consent"},
		{"three windows", "{requests: 3600, per: 1h}", "{requests: 3600, per: 1h}, {requests: 9, per: 24h}",
			"two windows at most"},
		{"no length of time", "per: 1m}", "per: often}", "a length of time"},
		{"size 0", "size: 100", "size: 0", "at least 1"},
		{"unknown walk", "deletes: vanish", "deletes: sometimes", `cannot be "sometimes"`},
		{"the whole environment", `split(url, "/")[-1]`, `string($env)`, "unknown name"},
		{"no name", "name: freeagent", "name: Free Agent", "small letters and digits"},
		{"a query in a path", "path: /contacts", "path: /contacts?view=all", "belongs under query"},
		{"an open value", "children: none}", `children: "?"}`, "model.children is still open"},
		{"an open value in a rule", `{when: status == "Active"`, `{when: 'status == "?"'`, "is still open"},
		{"a window without requests", "requests: 120", "requests: 0", "at least 1"},
		{"a key without a request for it", "  records: contacts\n", "  records: contacts\n  after: url\n", "it needs both"},
		{"a request behind a key without the key", `page: "${page + 1}"`, `after: "${after}"`, "it needs both"},
		{"no times", "  times: [\"2006-01-02T15:04:05Z07:00\"]\n", "", "record.times"},
		{"no time of edit", "  updated: updated_at\n", "", "record.updated"},
		{"a list of its own without a field", "  records: contacts\n",
			"  records: contacts\n  join: [{name: addresses, path: /addresses, records: addresses, of: contact, id: id, last: rows < size}]\n", "record.fields declares no list addresses"},
		{"a list of its own without an owner", "  records: contacts\n",
			"  records: contacts\n  join: [{name: addresses, path: /addresses, records: addresses, id: id, last: rows < size}]\n", `the key "of" is missing`},
		{"a detail without its place", "  records: contacts\n",
			"  records: contacts\n  detail: {path: \"/contacts/${row.id}\"}\n", `the key "record" is missing`},
		{"a row outside of a detail", "path: /contacts", "path: \"/contacts/${row.id}\"", `unknown name "row"`},
		{"a login for OAuth", "client: basic}", "client: basic, login: {path: /login, session: body.id}}",
			"for kind login alone"},
		{"a login that is missing", "kind: oauth2-code, authorize: /approve_app, token: /token_endpoint, client: basic",
			"kind: login", "for kind login alone"},
		{"a login without a key", "kind: oauth2-code, authorize: /approve_app, token: /token_endpoint, client: basic",
			"kind: login, login: {path: /login, session: body.id}", "no key is in the body of auth.login"},
		{"a session in a header", "headers: {Accept: application/json}",
			"headers: {Accept: application/json, X-Session: \"${session}\"}", `unknown name "session"`},
		{"a write of nothing", "\ntraps:", writing("body: {note: x}"), "no part of the request holds the value"},
		{"a write to nobody", "\ntraps:", writing("path: /contacts"), "says which record it is for"},
		{"a read of everybody", "\ntraps:", writing("read: {path: /contacts, record: contact, value: record.note}"),
			"says which record is read"},
		{"a write that deletes", "\ntraps:", writing("method: DELETE"), `cannot be "DELETE"`},
		{"a write of any field", "\ntraps:", writing("field: {is: a note}"), "it needs both"},
		{"a fixed field that is chosen", "\ntraps:", writing("body: '${{(field): value}}'"), "it needs both"},
		{"a chosen field without a pattern", "\ntraps:", writing("body: '${{(field): value}}'", "field: {is: a note}"),
			"give a pattern"},
		{"a bad pattern of a value", "\ntraps:", writing(`field: {name: note, is: a note, value: "("}`), "is not valid"},
		{"a version that nobody reads", "\ntraps:",
			writing(`read: {path: "/contacts/${id}", record: contact, value: record.note, version: record.v}`), "it needs both"},
		{"a version that nobody gives", "\ntraps:", writing(`headers: {If-Match: "${version}"}`), "it needs both"},
		{"a change of an unknown field", "\ntraps:", writing("changes: [emal]"), `did you mean "email"?`},
		{"a write elsewhere", "\ntraps:", writing("path: https://elsewhere.example/${id}"), "begins with a slash"},
		{"a write without a read", "\ntraps:", writing("read: {path: /a}"), `the key "record" is missing`},
		{"a value from nowhere", "\ntraps:", writing("body: {note: '${valu}'}"), `did you mean "value"?`},
		{"an export of a flag", "{name: mobile,", "{name: mobile, type: flag, export: [Mobile],", "identifies a customer in an export"},
		{"an export without a heading", "{name: mobile,", `{name: mobile, export: [""],`, "export"},
		{"an anchor", "title: FreeAgent", "title: &a FreeAgent", "cannot be named with &"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := freeagent(t)
			if !strings.Contains(text, tt.from) {
				t.Fatalf("the profile has no %q", tt.from)
			}
			_, err := httpsource.Load("books.yaml", []byte(strings.Replace(text, tt.from, tt.to, 1)))
			var all *strict.Error
			if !errors.As(err, &all) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if p := all.Problems[0]; p.Line == 0 || p.Column == 0 || p.File != "books.yaml" {
				t.Errorf("the problem has no place: %+v", p)
			}
		})
	}
}

func TestLongExpressionsAndProfilesAreRefused(t *testing.T) {
	t.Parallel()
	long := "url" + strings.Repeat(" + url", 400)
	if _, err := httpsource.Load("books.yaml",
		[]byte(strings.Replace(freeagent(t), `split(url, "/")[-1]`, long, 1))); err == nil ||
		!strings.Contains(err.Error(), "longer than") {
		t.Errorf("a long expression: %v", err)
	}
	if _, err := httpsource.Load("books.yaml", make([]byte, httpsource.MaxProfile+1)); err == nil ||
		!strings.Contains(err.Error(), "larger than") {
		t.Errorf("a large profile: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(freeagent(f)))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = httpsource.Load("books.yaml", data) })
}

// keyed is a profile of a system with a key, and with an address as its setting.
const keyed = `profile: 1
name: keyed
title: Keyed
proven: {documents: never, live: never}
settings: {url: {type: address, required: true, is: Your server.}, folder: {type: text, is: A folder., default: main}, api_key: {type: secret, required: true, is: A key.}}
base: ${set.url}/api
auth: {kind: header, headers: {X-Key: "${secret.api_key}"}}
tenant: {path: /company, records: $, id: id, name: name}
list: {path: "/${set.folder}/customers", query: {from: "${offset}", q: "a b+c"}, size: 2, records: items, next: body.next}
model: {order: none, paging: offset, changed: none, deletes: vanish, children: none}
errors: [{when: status == 429, is: throttled, wait: 90s, reset: {header: X-Reset, as: epoch}}]
record: {noun: customer, id: id, states: [{when: open == true, is: active}], fields: [{name: id}, {name: name}, {name: open, type: flag}]}
`

// scripted answers requests by their path and query, and notes them.
type scripted struct {
	answers map[string]func() (int, http.Header, string)
	asked   []*http.Request
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, req)
	answer, ok := s.answers[req.URL.RequestURI()]
	if !ok {
		return nil, errors.New("nobody wrote an answer to " + req.URL.RequestURI())
	}
	status, header, body := answer()
	return &http.Response{StatusCode: status, Header: header, Body: readerOf(body), ContentLength: int64(len(body)),
		Request: req}, nil
}

func says(body string) func() (int, http.Header, string) {
	return func() (int, http.Header, string) { return http.StatusOK, http.Header{}, body }
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// openKeyed returns a source of the profile keyed.
func openKeyed(t testing.TB, text string, c httpsource.Config, s *scripted) (*httpsource.Source, error) {
	t.Helper()
	p, err := httpsource.Load("keyed.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	client := transport.New(transport.Options{Base: s, Retries: -1})
	return httpsource.New(p, c,
		httpsource.Dependencies{HTTP: client, Limiter: &accountingtest.Limiter{}, Now: func() time.Time { return noon }})
}

func keyedConfig(address string) httpsource.Config {
	return httpsource.Config{Settings: map[string]string{"url": address},
		Secrets: map[string]connector.Secret{"api_key": connector.NewSecret("canary-key")}}
}

const firstPage = "/api/main/customers?from=0&q=a%20b%2Bc"

func TestKeyStandsInItsHeaderAloneAndASpaceIsPercentTwenty(t *testing.T) {
	t.Parallel()
	s := &scripted{answers: map[string]func() (int, http.Header, string){
		"/api/company": says(`{"id": 12345678901234567890, "name": "Northwind"}`),
		firstPage:      says(`{"items": [{"id": 900719925474099312, "name": "Ann", "open": true, "iban": "secret"}], "next": null}`),
	}}
	source, err := openKeyed(t, keyed, keyedConfig("https://books.example"), s)
	if err != nil {
		t.Fatal(err)
	}
	all, err := readAll(t.Context(), source, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	r := all["900719925474099312"]
	if string(r.Data) != `{"id":"900719925474099312","name":"Ann","open":true}` || r.State != connector.RecordActive {
		t.Errorf("record %+v", r)
	}
	for _, req := range s.asked {
		if req.Header.Get("X-Key") != "canary-key" || req.Header.Get("Authorization") != "" ||
			strings.Contains(req.URL.String(), "canary") || req.URL.Host != "books.example" {
			t.Errorf("request %s %v", req.URL, req.Header)
		}
	}
	if info, err := source.Describe(t.Context()); err != nil || info.Tenant != "12345678901234567890" || !info.Snapshot {
		t.Errorf("described as %+v, %v", info, err)
	}
}

func TestEveryRequestStaysAtItsHost(t *testing.T) {
	t.Parallel()
	for _, next := range []string{
		"https://elsewhere.example/api/x", "http://books.example/api/x", "//elsewhere.example/x",
		"https://books.example:8443/x", "https://books.example@elsewhere.example/x",
		"https://user:password@books.example/x", "https://[::1]/x", `https:\\elsewhere.example`, "https:elsewhere",
		"ftp://books.example/x", "https://books.example.elsewhere.example/",
	} {
		s := &scripted{answers: map[string]func() (int, http.Header, string){
			"/api/company": says(`{"id": 1, "name": "Northwind"}`),
			firstPage:      says(`{"items": [{"id": 1, "open": true}], "next": "` + strings.ReplaceAll(next, `\`, `\\`) + `"}`),
		}}
		source, err := openKeyed(t, keyed, keyedConfig("https://books.example"), s)
		if err != nil {
			t.Fatal(err)
		}
		_, err = readAll(t.Context(), source, time.Time{})
		if err == nil || len(s.asked) != 2 || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %d requests, error %v", next, len(s.asked), err)
		}
	}
}

func TestRelativeAddressOfTheNextPageIsBelowBase(t *testing.T) {
	t.Parallel()
	s := &scripted{answers: map[string]func() (int, http.Header, string){
		"/api/company":          says(`{"id": 1, "name": "Northwind"}`),
		firstPage:               says(`{"items": [{"id": 1, "open": true}], "next": "customers?from=1"}`),
		"/api/customers?from=1": says(`{"items": [{"id": 2, "open": false}], "next": ""}`),
	}}
	source, err := openKeyed(t, keyed, keyedConfig("https://books.example"), s)
	if err != nil {
		t.Fatal(err)
	}
	all, err := readAll(t.Context(), source, time.Time{})
	if err != nil || len(all) != 2 || all["2"].State != connector.RecordUnknown {
		t.Errorf("read %v, %v", all, err)
	}
}

func TestSettingsLeadToNoOtherPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, folder string }{
		{"http://books.example", ""}, {"https://user:password@books.example", ""}, {"https://books.example?x=", ""},
		{"https://books.example#", "a#b"}, {"books.example", ""}, {"", ""},
		{"https://books.example", "../../x"}, {"https://books.example", "a/b"}, {"https://books.example", "a?b"},
		{"https://books.example", "@elsewhere.example"},
	} {
		config := keyedConfig(c.url)
		if c.folder != "" {
			config.Settings["folder"] = c.folder
		}
		if _, err := openKeyed(t, keyed, config, &scripted{}); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// covers F13
func TestThrottleIsOverAtTheTimeOfItsHeader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		as     string
		header http.Header
		after  time.Duration
	}{
		{"epoch", http.Header{"Retry-After": {"37"}}, 37 * time.Second},
		{"epoch", http.Header{"Retry-After": {"Fri, 20 Nov 2026 12:02:00 GMT"}}, 2 * time.Minute},
		{"epoch", http.Header{"Retry-After": {"1795176180"}}, 3 * time.Minute},
		{"epoch", http.Header{"X-Reset": {"1795176240"}}, 4 * time.Minute},
		{"epoch-ms", http.Header{"X-Reset": {"1795176240500"}}, 4*time.Minute + 500*time.Millisecond},
		{"seconds", http.Header{"X-Reset": {"5"}}, 5 * time.Second},
		{"seconds", http.Header{"X-Reset": {"999999999999"}}, 24 * time.Hour},
		{"epoch", http.Header{"X-Reset": {"soon"}}, 90 * time.Second},
		{"epoch", http.Header{}, 90 * time.Second},
		{"epoch", http.Header{"X-Reset": {"17"}}, 0},
	} {
		s := &scripted{answers: map[string]func() (int, http.Header, string){
			"/api/company": func() (int, http.Header, string) { return http.StatusTooManyRequests, tt.header, `"canary"` },
		}}
		source, err := openKeyed(t, strings.Replace(keyed, "as: epoch}", "as: "+tt.as+"}", 1),
			keyedConfig("https://books.example"), s)
		if err != nil {
			t.Fatal(err)
		}
		_, err = source.Describe(t.Context())
		var parked *accounting.Parked
		if !errors.As(err, &parked) || !parked.Until.Equal(noon.Add(tt.after)) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%v as %s: %v, want %s later", tt.header, tt.as, err, tt.after)
		}
	}
}

func TestAnswersThatProveNothingEndTheRead(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"no list": `{"next": null}`, "null": `{"items": null}`, "an object": `{"items": {"id": 1}}`, "a text": `"items"`,
		"a web page": `<!DOCTYPE html>canary`, "nothing": ``,
		"cut": `{"items": [{"id": 1}`, "too many": `{"items": [` + strings.Repeat(`{"id": 1},`, 40) +
			`{"id": 2}], "next": null}`, "a link that is a number": `{"items": [], "next": true}`,
	} {
		s := &scripted{answers: map[string]func() (int, http.Header,
			string){"/api/company": says(`{"id": 1, "name": "Northwind"}`), firstPage: says(body)}}
		source, err := openKeyed(t, keyed, keyedConfig("https://books.example"), s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = readAll(t.Context(), source, time.Time{}); connector.FaultOf(err) != connector.FaultUnavailable ||
			strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
