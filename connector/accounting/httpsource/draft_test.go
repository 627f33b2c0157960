package httpsource

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"payersync/mapping/strict"
)

func TestDraftsOfVendorsDescriptionsNameTheListAndWhatIsOpen(t *testing.T) {
	t.Parallel()
	for file, wants := range map[string][]string{
		"openapi/fortnox.yaml": {"path: /3/customers\n", `records: "Customers"`, "id: CustomerNumber"},
		"openapi/invoice-ninja.yaml": {"path: /api/v1/clients\n", "X-API-TOKEN", `"updated_at": "${since}"`,
			"is: deleted}"},
		"openapi/moneybird.yaml":       {"/contacts", `"per_page": "${size}"`, "id: id\n", "archived == false, is: active"},
		"openapi/sage-accounting.yaml": {"path: /contacts\n", `auth: {kind: "?"}`},
		"openapi/sevdesk.yaml":         {"path: /Contact\n", `Authorization: "${secret.api_key}"`},
		"xero_accounting.yaml":         {"path: /Contacts\n", `records: "Contacts"`, "id: ContactID"},
	} {
		folder, promised := os.LookupEnv("VENDOR_SPECS")
		path := filepath.Join(cmp.Or(folder, "../../../../shared/specs"), file)
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) && !promised {
			t.Skipf("there is no %s: vendors' descriptions are not part of the repository; set VENDOR_SPECS to their folder",
				path)
		}
		if err != nil {
			t.Fatal(err)
		}
		draft, err := Draft("books", text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(string(draft), want) {
				t.Errorf("%s: the draft has no %q:\n%.1500s", file, want, draft)
			}
		}
		_, err = Load("books.yaml", draft)
		var open *strict.Error
		if !errors.As(err, &open) || len(open.Problems) < 5 {
			t.Errorf("%s: the draft loads with %v", file, err)
			continue
		}
		for _, p := range open.Problems {
			if !strings.Contains(p.Message, "still open") || p.Line == 0 {
				t.Errorf("%s: %s", file, p)
			}
		}
	}
}

// covers personal data in recordings
func TestRecordingKeepsStatesAndReplacesPersonalValues(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t, "sevdesk")
	s, err := p.sample(byPath{
		"/api/v1/ContactAddress":   `{"objects": [{"id": "1", "contact": {"id": "7"}, "street": "Canary Street", "city": "Canary"}], "total": "1"}`,
		"/api/v1/CommunicationWay": `{"objects": [{"id": "2", "contact": {"id": "7"}, "type": "EMAIL", "value": "canary@north.example"}], "total": "1"}`,
		"/api/v1/Contact": `{"objects": [{"id": "7", "status": "1000", "name": "Canary Ltd", "birthday": "1971-03-04", "balance": 31337, "discount": 31337.5, "phone": "0113 4960111", "link": "https://canary.example/x?token=canary",
			"update": "2026-11-10T12:32:19+01:00", "sevClient": {"id": "692471"}}, {"id": "8", "status": "500", "name": "Canary Ltd", "sevClient": {"id": "692471"}}], "total": "2"}`,
	}, func() time.Time { return checkTime })
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.Record(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, canary := range []string{"anary", "1971", "31337", "4960111", "sample-key"} {
		if strings.Contains(string(text), canary) {
			t.Errorf("the recording holds %q:\n%s", canary, text)
		}
	}
	for _, want := range []string{`"1000"`, "state: active", "state: archived", "2026-11-10T11:32:19Z"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the recording has no %s:\n%s", want, text)
		}
	}
	if f := p.checkExamples(t.Context(), text); !f.OK {
		t.Errorf("the recording is no example: %s\n%s", f.Detail, text)
	}
}

func TestADescriptionWhoseSchemasContainThemselvesHasADraft(t *testing.T) {
	t.Parallel()
	draft, err := Draft("books", []byte(`{"openapi": "3.0.0", "servers": [{"url": "https://books.example"}], "paths": {"/customers": {"get": {
		"responses": {"200": {"content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Customer"}}}}}}}}},
		"components": {"schemas": {
		  "Customer": {"type": "object", "allOf": [{"$ref": "#/components/schemas/Customer"}], "properties": {"id": {"type": "string"}, "name": {"type": "string"},
		    "parent": {"$ref": "#/components/schemas/Customer"}, "branches": {"type": "array", "items": {"$ref": "#/components/schemas/Customer"}}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"path: /customers\n", "fake:", "  answer: \"${rows}\"", `    "id": "${id}"`, `name: "parent", type: object, fields: [`} {
		if !strings.Contains(string(draft), want) {
			t.Errorf("the draft has no %q:\n%s", want, draft)
		}
	}
}

// A draft leaves only what no description tells, and fits itself once a person has filled that in.
func TestADraftOfADescriptionWithACursorFitsItself(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	draft, err := Draft("quillbooks", text)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(draft), `"?"`); n != 5 {
		t.Errorf("%d values are open:\n%s", n, draft)
	}
	p, err := Load("quillbooks.yaml", []byte(strings.NewReplacer(`documents: "?"`, "documents: 2026-11",
		`order: "?", paging: "?"`, "order: id, unique: true, paging: keyset", `deletes: "?", children: "?"`,
		"deletes: vanish, children: joined").Replace(string(draft))))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Check(t.Context(), nil) {
		if !f.OK && f.Name != "examples" {
			t.Errorf("%s: %s", f.Name, f.Detail)
		}
	}
	if p.Walk() != Keyset || p.Whole() {
		t.Errorf("it is read %s", p.Walk())
	}
}

// A page counted from a wrong number would leave the first page out without an error.
func TestADraftGuessesTheFirstPageOnlyWhereTheDescriptionNamesIt(t *testing.T) {
	t.Parallel()
	for parameter, want := range map[string]string{
		"{name: page, in: query, schema: {type: integer, default: 0}}":                     `"page": "${page}"`,
		"{name: page, in: query, description: From 0., schema: {type: integer}}":           `"page": "${page}"`,
		"{name: page, in: query, schema: {type: integer, default: 1}}":                     `"page": "${page + 1}"`,
		"{name: page, in: query, description: Starts at 1., schema: {type: integer}}":      `"page": "${page + 1}"`,
		"{name: page, in: query, schema: {type: integer}}":                                 `"page": "?"`,
		"{name: page, in: query, description: Version 1.0 on., schema: {type: integer}}":   `"page": "?"`,
		"{name: page, in: query, description: From 10 to 20., schema: {type: integer}}":    `"page": "?"`,
		"{name: offset, in: query, schema: {type: integer}}":                               `"offset": "${offset}"`,
		"{name: page, in: query, type: integer, default: 1, description: as in swagger 2}": `"page": "${page + 1}"`,
	} {
		draft, err := Draft("books", []byte(`openapi: 3.0.3
info: {title: Books}
paths: {/customers: {get: {parameters: [`+parameter+`], responses: {"200": {content: {application/json: {schema:
  {type: object, properties: {data: {type: array, items: {type: object, properties: {id: {type: string}, name: {type: string}}}},
  meta: {type: object, properties: {has_more: {type: boolean}, total: {type: integer}}}}}}}}}}}}
`))
		for _, part := range []string{want, `last: not body["meta"]["has_more"]`, `total: body["meta"]["total"]`,
			`"meta": {"total": "${total}", "has_more": "${next != nil}"}`} {
			if err != nil || !strings.Contains(string(draft), part) {
				t.Errorf("%s: %v: the draft has no %s:\n%s", parameter, err, part, draft)
			}
		}
	}
}
