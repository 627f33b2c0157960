package sandbox

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCreateIsIdempotentByBodyHash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	first := w.want(200, "POST", "/api/customers", `{"name":"Northwind"}`)
	again := w.want(200, "POST", "/api/customers", `{"name":"Northwind"}`)
	if first.body != again.body {
		t.Errorf("got %s, then %s", first.body, again.body)
	}
	w.create(`{"name": "Northwind"}`)
	if n := len(w.Customers()); n != 2 {
		t.Errorf("got %d customers, want 2: one per body", n)
	}
}

func TestReplayedCreateAnswersTheCustomerAsItIsNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.create(`{"name":"Northwind"}`)
	must(t, w.Edit(id, json.RawMessage(`{"name":"Southwind"}`)))
	again := w.want(200, "POST", "/api/customers", `{"name":"Northwind"}`)
	if text(t, again.body, "id") != id || text(t, again.body, "name") != "Southwind" {
		t.Errorf("got %s", again.body)
	}
}

func TestHashMemoryEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		memory time.Duration
		wait   time.Duration
		want   int
	}{
		{"for ever", 0, 1000 * time.Hour, 1},
		{"within", time.Hour, time.Hour - time.Second, 1},
		{"over", time.Hour, time.Hour, 2},
		{"never", -1, 0, 2},
	}
	for _, tt := range tests {
		w := newWorld(t, Options{Switches: Switches{HashMemory: tt.memory}, TokenLife: 10_000 * time.Hour})
		w.token = w.IssueToken(ClientCredentials, 10_000*time.Hour)
		w.create(`{"name":"Northwind"}`)
		w.wait(tt.wait)
		w.create(`{"name":"Northwind"}`)
		if got := len(w.Customers()); got != tt.want {
			t.Errorf("%s: got %d customers, want %d", tt.name, got, tt.want)
		}
	}
}

func TestHashAcrossDelete(t *testing.T) {
	t.Parallel()
	for _, outlives := range []bool{false, true} {
		w := newWorld(t, with(Switches{HashOutlivesDelete: outlives}))
		id := w.create(`{"name":"Northwind"}`)
		must(t, w.Delete(id))
		again := w.create(`{"name":"Northwind"}`)
		if (again == id) != outlives {
			t.Errorf("outlives %v: got id %s after %s", outlives, again, id)
		}
		if got := w.do("GET", "/api/customers/"+again, "").status; (got == 404) != outlives {
			t.Errorf("outlives %v: got status %d for the answered id", outlives, got)
		}
	}
}

func TestCreateValidatesFirst(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body, field, code string
	}{
		{"no name", `{}`, "name", "MISSING"},
		{"blank name", `{"name":"  "}`, "name", "MISSING"},
		{"name of another type", `{"name":7}`, "name", "MISSING"},
		{"malformed e-mail", `{"name":"A","people":[{"email":"ok@example.com"},{"email":"nobody"}]}`, "people[1].email",
			"MALFORMED_EMAIL"},
		{"e-mail of another type", `{"name":"A","people":[{"email":7}]}`, "people[0].email", "MALFORMED_EMAIL"},
		{"people no list", `{"name":"A","people":{}}`, "people", "NOT_A_LIST"},
		{"person no object", `{"name":"A","people":[1]}`, "people", "NOT_A_LIST"},
		{"two addresses", `{"name":"A","addresses":[{},{}]}`, "addresses", "TOO_MANY"},
		{"addresses no list", `{"name":"A","addresses":"x"}`, "addresses", "NOT_A_LIST"},
	}
	for _, tt := range tests {
		for _, status := range []int{422, 400} {
			w := newWorld(t, with(Switches{ValidationStatus: status}))
			got := w.want(status, "POST", "/api/customers", tt.body)
			want := `[{"field":"` + tt.field + `","code":"` + tt.code + `"}]`
			if errs := at(t, got.body, "errors"); errs != want {
				t.Errorf("%s: got %s, want %s", tt.name, errs, want)
			}
			if strings.Contains(got.body, "nobody") {
				t.Errorf("%s: the answer holds the value: %s", tt.name, got.body)
			}
			if len(w.Customers()) != 0 {
				t.Errorf("%s: a customer was made", tt.name)
			}
		}
	}
}

func TestCreateTakesBlankContacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.create(`{"name":"A","people":[{"email":""},{"email":null},{}],"addresses":null}`)
}

func TestBodiesMustBeOneJSONObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	for _, body := range []string{"", "[]", "{", `{"name":"A"}{}`, `{"name":"A"} x`, "null", "{\"name\":\"\xff\"}"} {
		w.want(400, "POST", "/api/customers", body)
	}
}

func TestBodiesMustSayTheyAreJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	req := w.request("POST", "/api/customers", `{"name":"A"}`)
	req.Header.Set("Content-Type", "text/plain")
	got, err := roundTrip(w.RoundTripper(), req)
	must(t, err)
	if got.status != 415 {
		t.Errorf("got status %d, want 415", got.status)
	}
}

func TestOversizedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.want(413, "POST", "/api/customers", `{"name":"`+strings.Repeat("x", maxBody)+`"}`)
}

// foreign has spaces, escapes, number spellings and nesting that a decoder and
// encoder would not give back.
const foreign = `"big":12345678901234567890, "price" : 1.50e+2,"deep":{ "b":1, "a":[null ,{"x":-0.0}]},"caf\u00e9":"\/"`

func TestUnknownFieldsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.create(`{"name":"A", ` + foreign + `}`)
	w.want(200, "PUT", "/api/customers", `{"id":"`+id+`","name":"B", `+foreign+`}`)
	got := w.want(200, "GET", "/api/customers/"+id, "").body
	want := `{"id":"` + id + `","name":"B",` + strings.NewReplacer(", \"price\"", ",\"price\"").Replace(foreign) +
		`,"timezone":"Europe/London"}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestUpdateReplacesWholesale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.create(`{"name":"A","note":"keep me","externalData":{"k":"1"}}`)
	w.want(200, "PUT", "/api/customers", `{"id":"`+id+`","name":"B"}`)
	got, _ := w.Customer(id)
	if want := `{"id":"` + id + `","name":"B","timezone":"Europe/London"}`; string(got.Raw) != want {
		t.Errorf("got %s, want %s", got.Raw, want)
	}
}

func TestServiceOwnedFieldsCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(Switches{CustomerTimes: true}))
	id := w.create(`{"id":"mine","name":"A","timezone":"Mars","directDebitMandate":{"status":"ACTIVE"},"creationTime":"never"}`)
	w.wait(time.Minute)
	w.want(200, "PUT", "/api/customers", `{"id":"`+id+`","name":"A","timezone":"Mars","lastUpdatedTime":"never"}`)
	got, _ := w.Customer(id)
	want := `{"id":"` + id + `","name":"A","timezone":"Europe/London","creationTime":"2026-03-02T09:00:00.000Z","lastUpdatedTime":"2026-03-02T09:01:00.000Z"}`
	if diff := cmp.Diff(want, string(got.Raw)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestUpdateForms(t *testing.T) {
	t.Parallel()
	for form, want := range map[string][2]int{"body_id": {200, 405}, "path_id": {405, 200}, "both": {200, 200}} {
		w := newWorld(t, with(Switches{Update: form}))
		id := w.create(`{"name":"A"}`)
		w.want(want[0], "PUT", "/api/customers", `{"id":"`+id+`","name":"B"}`)
		w.want(want[1], "PUT", "/api/customers/"+id, `{"name":"C"}`)
	}
}

func TestUpdateRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(Switches{Update: "both"}))
	id := w.create(`{"name":"A"}`)
	w.want(422, "PUT", "/api/customers", `{"name":"no id"}`)
	w.want(404, "PUT", "/api/customers", `{"id":"unknown","name":"B"}`)
	w.want(404, "PUT", "/api/customers/unknown", `{"name":"B"}`)
	w.want(422, "PUT", "/api/customers/"+id, `{"id":"other","name":"B"}`)
	w.want(422, "PUT", "/api/customers/"+id, `{"people":[]}`)
	if got, _ := w.Customer(id); got.Name != "A" {
		t.Errorf("a refused update changed the name to %q", got.Name)
	}
}

func TestWriteAnswers(t *testing.T) {
	t.Parallel()
	for form, wantBody := range map[string]bool{"object": true, "empty": false} {
		w := newWorld(t, with(Switches{WriteAnswer: form}))
		id := w.create(`{"name":"A"}`)
		got := w.want(200, "PUT", "/api/customers", `{"id":"`+id+`","name":"B"}`)
		if (got.body != "") != wantBody || (got.header.Get("Content-Type") != "") != wantBody {
			t.Errorf("%s: got %q, headers %v", form, got.body, got.header)
		}
	}
}

func TestDeleteIsHard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.create(`{"name":"A"}`)
	mandate := w.openLink(id)
	w.want(204, "DELETE", "/api/customers/"+id, "")
	w.want(404, "DELETE", "/api/customers/"+id, "")
	w.want(404, "GET", "/api/customers/"+id, "")
	w.want(404, "PUT", "/api/customers/directdebitmandates/"+mandate+":cancel", "")
	if _, ok := w.Mandate(mandate); !ok {
		t.Error("the mandate's history is gone")
	}
}

func TestCreateAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		sw   Switches
		want string
	}{
		{"an address, no mandate", Switches{},
			`{"id":"ID","name":"A","externalData":{"k":"1"},"timezone":"Europe/London","url":"https://pay.test/sign/ID","redirectUrl":"https://pay.test"}`},
		{"nothing of signing", Switches{CreateLink: "none"},
			`{"id":"ID","name":"A","externalData":{"k":"1"},"timezone":"Europe/London"}`},
		{"no external data, empty mandate",
			Switches{CreateLink: "none", CreateHidesExternalData: true, EmptyMandate: "object"},
			`{"id":"ID","name":"A","directDebitMandate":{},"timezone":"Europe/London"}`},
		{"null mandate", Switches{CreateLink: "none", EmptyMandate: "null"},
			`{"id":"ID","name":"A","externalData":{"k":"1"},"directDebitMandate":null,"timezone":"Europe/London"}`},
	}
	for _, tt := range tests {
		w := newWorld(t, Options{Switches: tt.sw, PublicURL: "https://pay.test/"})
		got := w.want(200, "POST", "/api/customers", `{"name":"A","externalData":{"k":"1"}}`).body
		got = strings.ReplaceAll(got, w.Customers()[0].ID, "ID")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
		if n := len(w.Customers()[0].Mandates); n != 0 {
			t.Errorf("%s: got %d mandates", tt.name, n)
		}
	}
}

func TestCreateCanMakeAMandate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(Switches{CreateLink: "mandate"}))
	got := w.want(200, "POST", "/api/customers", `{"name":"A"}`).body
	m := w.Customers()[0].Mandates[0]
	if text(t, got, "url") != m.URL || text(t, got, "directDebitMandate", "status") != "CREATED" {
		t.Errorf("got %s for mandate %+v", got, m)
	}
}

func TestFinancialDetailsAreEmbeddedOnRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.create(`{"name":"A"}`)
	must(t, w.SetFinancialStatus(id, "OVERDUE"))
	plain := w.want(200, "GET", "/api/customers/"+id, "").body
	full := w.want(200, "GET", "/api/customers/"+id+"?includeCustomerFinancialDetails=true", "").body
	if strings.Contains(plain, "financialDetails") || text(t, full, "financialDetails", "financialStatus") != "OVERDUE" {
		t.Errorf("got %s and %s", plain, full)
	}
}

func TestTimesFollowTheSwitch(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		"rfc3339": "2026-03-02T09:00:00.000Z", "utc": "2026-03-02T09:00:00.000UTC", "zoneless": "2026-03-02T09:00:00.000",
	} {
		w := newWorld(t, with(Switches{Times: form}))
		id := w.create(`{"name":"A"}`)
		w.openLink(id)
		got := w.want(200, "GET", "/api/customers/"+id, "").body
		if at := text(t, got, "directDebitMandate", "lastUpdatedTime"); at != want {
			t.Errorf("%s: got %s, want %s", form, at, want)
		}
	}
}

func TestAddAndEditKeepBytesAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id, err := w.Add(json.RawMessage(`{"name":"A","people":[{"firstName":"Ann","phoneNo":"1"}],"externalData":[{"key":"k","value":"1"}]}`))
	must(t, err)
	got, _ := w.Customer(id)
	want := `{"id":"` + id + `","name":"A","people":[{"firstName":"Ann","phoneNo":"1"}],"externalData":[{"key":"k","value":"1"}],"timezone":"Europe/London"}`
	if string(got.Raw) != want || got.ExternalData["k"] != "1" {
		t.Errorf("got %s, %v", got.Raw, got.ExternalData)
	}
	must(t, w.Edit(id, json.RawMessage(`{"externalData":{"k":2}}`)))
	if got, _ := w.Customer(id); got.ExternalData["k"] != "2" || got.Name != "" {
		t.Errorf("got %s", got.Raw)
	}
	if _, err := w.Add(json.RawMessage(`[]`)); err == nil {
		t.Error("Add took a list")
	}
	if err := w.Edit(id, json.RawMessage(`{`)); err == nil {
		t.Error("Edit took half an object")
	}
}

func TestRequestsAreKeptInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.create(`{"name":"A"}`)
	w.wait(time.Second)
	w.want(404, "GET", "/api/customers/a%2Fb?includeCustomerFinancialDetails=true", "")
	want := []Request{
		{Method: "POST", Path: "/api/customers", Body: []byte(`{"name":"A"}`), Status: 200, At: start},
		{Method: "GET", Path: "/api/customers/a%2Fb", RawQuery: "includeCustomerFinancialDetails=true", Body: []byte{},
			Status: 404, At: start.Add(time.Second)},
	}
	if diff := cmp.Diff(want, w.Requests()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	w.ResetRequests()
	if got := w.Requests(); len(got) != 0 || w.Writes() != 1 {
		t.Errorf("got %d requests, %d writes", len(got), w.Writes())
	}
}

func TestActsOnUnknownCustomersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	for name, err := range map[string]error{
		"edit": w.Edit("x", json.RawMessage(`{}`)), "delete": w.Delete("x"), "status": w.SetFinancialStatus("x", "OVERDUE"),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, ok := w.Customer("x"); ok {
		t.Error("there is a customer x")
	}
}
