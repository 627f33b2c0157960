package billing_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/billing"
)

// Whatever the service answers with a 200, every call comes to an end; a write
// that cannot be understood is of unknown outcome, and what is read is the
// customer that was asked for.
//
// covers F09, F18, F20, F90
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		`{"id":"c1","name":"Northwind","people":[{"email":"a@example.com"}],"externalData":{"k":"1"}}`,
		`{"id":"c1","directDebitMandate":{"id":"m1","status":"PENDING","bankAccountNumber":"****1234","lastUpdatedTime":"2024-11-05T04:50:32.132UTC"}}`,
		`{"id":"c2"}`, `{"id":1}`, `{"ID":"c1"}`, `{"id":"c1","Id":"c2"}`, `[{"id":"c1"},{"id":"c1"}]`, `[]`, `null`, `{}`,
		``, "\xef\xbb\xbf{}",
		`{"customers":[{"id":"c1"}],"totalElements":1}`, `{"content":[{"id":"c1"},{}],"page":{"totalPages":-1}}`,
		`{"items":{},"data":[]}`,
		`{"id":"m1","status":"CREATED","url":"javascript:alert(1)"}`, `<html>sign in</html>`, `{"id":"c1"}{"id":"c2"}`,
		`{"id":"c1","people":{"email":[]}}`,
		`{"subscriptionId":"s1","secret":""}`,
	} {
		f.Add("application/json", []byte(body))
	}
	f.Add("text/html", []byte(`<p>`))
	f.Add("", []byte(`{"id":"c1"}`))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		client, err := billing.New(config(answers(200, contentType, string(body))))
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range operations() {
			err := op.call(t.Context(), client)
			if fault := connector.FaultOf(err); err != nil && (fault == "" || !op.reads && fault != connector.FaultUnknown) {
				t.Errorf("%s: fault %q of %v", op.name, fault, err)
			}
		}
		c, err := client.Customer(t.Context(), "c1")
		if err == nil && (c.ID != "c1" || !json.Valid(c.Raw)) {
			t.Errorf("asked for c1 and read %+v", c)
		}
		if err != nil && c.ID != "" {
			t.Errorf("both %+v and %v", c, err)
		}
	})
}

// settings are what a fuzzed number says of the dialect and of what is owned.
func settings(bits uint16) (d billing.Dialect, own []string) {
	d = billing.Standard()
	pick := func(values ...string) (chosen string) {
		chosen, bits = values[int(bits)%len(values)], bits/uint16(len(values))
		return chosen
	}
	d.PersonFields, d.AddressFields = pick("short", "long"), pick("short", "long")
	d.ExternalData, d.Update = pick("map", "list", "object"), pick("body_id", "path_id")
	return d, strings.Fields(pick("name people addresses", "name", "people", "addresses people", ""))
}

// A customer of any shape is either refused or merged without loss: members that
// are not ours stay byte for byte and in order, and once merged nothing is left
// to merge.
//
// covers F51, F55, F90, S5, S6
func FuzzMerge(f *testing.F) {
	for _, raw := range []string{
		`{"id":"c1","name":"Old","people":[{"name":"Ann","email":"a@example.com","x":1.0}],"addresses":[{"line1":"1 St","n":{}}],"externalData":{"k":"1","t":"x"}}`,
		`{ "n" : 12345678901234567890 , "people" : null, "name":"Old" }`,
		`{"people":[7,null,"x",{"email":"A@EXAMPLE.COM"}],"addresses":[[]]}`,
		`{"name":{"first":"Ann"},"externalData":[{"key":"k","value":"2"},{"key":"t"}]}`,
		`{"externalData":{"connectorType":"k","id":"1","name":"n"}}`,
		`{"people":[{"firstName":"Ann","lastName":"Lee","phoneNo":"1"},{"firstName":"Ann","lastName":"Lee"}],"timezone":"UTC"}`,
		`{"people":{"email":"a@example.com"}}`, `{"addresses":[{"addressLine1":"1 St","postalCode":"LS1"},{"line1":"2 St"}]}`,
		`{}`,
	} {
		f.Add([]byte(raw), "New", "a@example.com", "Ann Lee", "LS1 4AP", uint16(0))
		f.Add([]byte(raw), "", "", "Ann", "", uint16(23))
	}
	f.Fuzz(func(t *testing.T, raw []byte, name, email, contact, postCode string, bits uint16) {
		dialect, own := settings(bits)
		cfg := config(answers(500, "", ""))
		cfg.Dialect = dialect
		client, err := billing.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		last := &connector.Customer{Name: "Old", People: []connector.Person{{Name: "Ann", Email: "a@example.com"}},
			ExternalData: map[string]string{"k": "1"}}
		want := connector.Customer{Name: name, ExternalData: map[string]string{"k": "1"}}
		if email != "" || contact != "" {
			want.People = []connector.Person{{Name: contact, Email: email}}
		}
		if postCode != "" {
			want.Addresses = []connector.Address{{Line1: "1 St", PostCode: postCode}}
		}
		checkMerge(t, client, dialect, raw, last, want, own)
	})
}

func checkMerge(t *testing.T, client *billing.Client, dialect billing.Dialect, raw []byte, last *connector.Customer,
	want connector.Customer, own []string) {
	t.Helper()
	body, changed, err := client.MergeCustomer(connector.RemoteCustomer{ID: "c1", Raw: raw}, last, want, own)
	if err != nil || !changed {
		return
	}
	if !json.Valid(body) {
		t.Fatalf("%q became %q", raw, body)
	}
	ours := append(slices.Clone(own), "externalData", "id")
	if before, after := members(t, raw, append(ours, dialect.ReadOnly...)), members(t, body, ours); before != after {
		t.Errorf("members of others were\n%s\nand are\n%s", before, after)
	}
	for what, from := range map[string]*connector.Customer{"again": last, "after it was applied": &want} {
		if twice, changed, err := client.MergeCustomer(connector.RemoteCustomer{ID: "c1", Raw: body}, from, want,
			own); changed && err == nil {
			t.Errorf("merged %s it differs:\nfirst %s\nonce  %s\ntwice %s", what, raw, body, twice)
		}
	}
	if !listsOfObjects(raw) {
		return // an element that is no object cannot be told from one that was replaced
	}
	if paths, err := client.ForeignChanges(raw, withID(t, raw, body), last, want, own); err == nil && len(paths) > 0 {
		t.Errorf("our own update is called foreign: %q\nbefore %s\nafter  %s", paths, raw, body)
	}
}

func listsOfObjects(raw []byte) bool {
	var lists struct {
		People    []map[string]json.RawMessage `json:"people"`
		Addresses []map[string]json.RawMessage `json:"addresses"`
	}
	return json.Unmarshal(raw, &lists) == nil
}

// members renders an object's members in order, without those named.
func members(t *testing.T, raw []byte, without []string) string {
	t.Helper()
	var out strings.Builder
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			t.Fatalf("%v in %q", err, raw)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%v in %q", err, raw)
		}
		if !slices.Contains(without, key.(string)) {
			fmt.Fprintf(&out, "%q: %s\n", key, value)
		}
	}
	return out.String()
}

// withID adds the customer's id to the sent body, like a service with the id in the path.
func withID(t *testing.T, raw, body []byte) []byte {
	t.Helper()
	var was, is map[string]json.RawMessage
	if json.Unmarshal(raw, &was) != nil || json.Unmarshal(body, &is) != nil {
		t.Fatalf("not both are objects: %q and %q", raw, body)
	}
	delete(is, "id")
	if id, had := was["id"]; had {
		is["id"] = id
	}
	out, err := json.Marshal(is)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
