package main

import (
	"strings"
	"testing"

	"payersync/connector/credentials/credentialstest"
)

func TestOnePageIsTriedAndRecordedAndNothingIsStored(t *testing.T) {
	t.Parallel()
	w, v, _ := newProfiledWorld(t, "freeagent", freeagentBlock, 7)
	if done := w.connect(v); done.code != exitDone {
		t.Fatal(done.out, done.errOut)
	}
	tried := w.expect(exitDone, "source", "--try", "books", "--limit", "2")
	for _, want := range []string{"books is Northwind Books (northwind). The first page has 7 records: 7 active.",
		"1001 active", "payer Cu…, 100…, asked for a mandate"} {
		if !strings.Contains(strings.Join(strings.Fields(tried.out), " "), want) {
			t.Errorf("try does not say %q:\n%s", want, tried.out)
		}
	}
	if strings.Contains(tried.out, "1003") || strings.Contains(tried.out, "Customer 1") {
		t.Errorf("try shows more than it should:\n%s", tried.out)
	}
	if whole := w.expect(exitDone, "source", "--try", "books", "--show-values"); !strings.Contains(whole.out,
		"payer Customer 7") {
		t.Errorf("--show-values shows:\n%s", whole.out)
	}
	if got := len(w.box.Customers()); got != 0 {
		t.Errorf("%d customers were created", got)
	}
	if stored := w.expect(exitDone, "payers", "list", "--output", "json"); strings.Contains(stored.out, "1001") {
		t.Errorf("a record was stored:\n%s", stored.out)
	}

	recorded := w.expect(exitDone, "source", "--record", "books")
	for _, canary := range []string{"Customer 1", "northwind.example", "access-1", "refresh-1",
		credentialstest.ClientSecret, "Authorization"} {
		if strings.Contains(recorded.out, canary) {
			t.Errorf("the recording holds %q:\n%s", canary, recorded.out)
		}
	}
	w.write("own.yaml", strings.Replace(readShipped(t, "configs/sources/freeagent/profile.yaml"), "name: freeagent",
		"name: ourbooks", 1))
	w.write("examples.yaml", recorded.out)
	if checked := w.expect(exitDone, "source", "--check", w.path("own.yaml")); !strings.Contains(checked.out,
		"1 answer gave the records beside it") {
		t.Errorf("the recording is no example:\n%s", checked.out)
	}
	if other := w.run("source", "--try", "acme"); other.code != exitUsage ||
		!strings.Contains(other.errOut, "has no profile") {
		t.Errorf("a source without a profile ends with %d: %s", other.code, other.errOut)
	}
}

const openAPI = `openapi: 3.0.3
info: {title: Quay Books}
servers: [{url: "https://api.quay.example/v1"}]
paths:
  /invoices: {get: {responses: {"200": {content: {application/json: {schema: {type: array, items: {type: object, properties: {id: {type: string}, total: {type: number}}}}}}}}}}
  /customers:
    get:
      parameters: [{name: page, in: query}, {name: per_page, in: query}, {name: updated_since, in: query}]
      responses: {"200": {content: {application/json: {schema: {$ref: "#/components/schemas/Page"}}}}}
  /customers/{id}: {get: {responses: {"200": {content: {application/json: {schema: {$ref: "#/components/schemas/Customer"}}}}}}}
components:
  securitySchemes: {key: {type: apiKey, in: header, name: X-Quay-Key}}
  schemas:
    Page: {type: object, properties: {data: {type: array, items: {$ref: "#/components/schemas/Customer"}}, total_count: {type: integer}}}
    Customer:
      type: object
      properties: {id: {type: integer}, account_id: {type: integer}, name: {type: string}, email: {type: string}, iban: {type: string}, archived: {type: boolean}, updated_at: {type: string, format: date-time},
        address: {type: object, properties: {street: {type: string}, city: {type: string}}}}
`

func TestDraftFromADescriptionNamesWhatIsStillOpenAndRunsOnceItIsFilledIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.write("openapi.yaml", openAPI)
	draft := w.expect(exitDone, "source", "--new", "quay", "--openapi", w.path("openapi.yaml"))
	for _, want := range []string{`base: "https://api.quay.example/v1"`, `X-Quay-Key: "${secret.api_key}"`,
		"path: /customers\n", `"updated_since": "${since}"`, `"per_page": "${size}"`, `records: "data"`,
		`total: body["total_count"]`, "id: id\n", "{when: archived == false, is: active}"} {
		if !strings.Contains(draft.out, want) {
			t.Errorf("the draft has no %s:\n%s", want, draft.out)
		}
	}
	if strings.Contains(draft.out, "iban") {
		t.Errorf("the draft declares bank details:\n%s", draft.out)
	}
	w.write("quay.yaml", draft.out)
	w.edit("payersync.yaml", "guards:",
		"  - {name: books, source: {kind: http, profile: quay.yaml, api_key: x}, mapping: mapping.yaml}\nguards:")
	for _, command := range [][]string{{"source", "--check", w.path("quay.yaml")}, {"plan", "books"}} {
		r := w.run(command...)
		for _, want := range []string{"tenant.path is still open", "model.deletes is still open",
			"list.since is still open"} {
			if r.code != exitUsage || !strings.Contains(r.errOut, want) {
				t.Errorf("%v ends with %d, without %q:\n%s", command, r.code, want, r.errOut)
			}
		}
	}
	for from, to := range map[string]string{
		`documents: "?"`: "documents: 2026-11",
		`{path: "?", records: "?", id: "?", name: "?"}`: "{path: /company, records: $, id: id, name: name}",
		`order: "?", paging: "?"`:                       "order: none, paging: offset",
		`deletes: "?", children: "?"`:                   "deletes: vanish, children: none",
		`since: "?"`:                                    `since: "2006-01-02T15:04:05Z"`,
		`"page": "?"`:                                   `"page": "${page + 1}"`,
		`tenant: "?"`:                                   "tenant: {id: 1, name: Northwind Books}",
	} {
		w.edit("quay.yaml", from, to)
	}
	w.write("examples.yaml", "# One page.\nexamples:\n  - answer: {body: {total_count: 1, data: [{id: 7, archived: true, updated_at: \"2026-11-19T17:05:44Z\"}]}}\n    want: [{id: \"7\", state: archived, updated: \"2026-11-19T17:05:44Z\"}]\n")
	w.expect(exitDone, "source", "--check", w.path("quay.yaml"))
	for args, want := range map[string]string{
		"quay": "name the description of the API", "freeagent --openapi openapi.yaml": "there is a shipped profile freeagent",
		"Quay! --openapi x": "small letters", "quay --openapi nowhere.yaml": "cannot read the description",
	} {
		if r := w.run(append([]string{"source", "--new"}, strings.Fields(args)...)...); r.code != exitUsage ||
			!strings.Contains(r.errOut, want) {
			t.Errorf("--new %s ends with %d: %s", args, r.code, r.errOut)
		}
	}
	w.write("other.yaml", "openapi: 3.0.3\npaths: {/invoices: {get: {}}}\n")
	if r := w.run("source", "--new", "quay", "--openapi", w.path("other.yaml")); r.code != exitFailed ||
		!strings.Contains(r.errOut, "no path in it answers GET with a list of customers") {
		t.Errorf("a description without customers ends with %d: %s", r.code, r.errOut)
	}
}
