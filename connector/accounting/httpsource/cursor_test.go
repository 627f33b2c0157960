package httpsource_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector/accounting/httpsource"
	"payersync/mapping/strict"
)

// cursored is the shipped profile of FreeAgent with pages behind a cursor, and further edits.
func cursored(t testing.TB, edits ...string) string {
	t.Helper()
	return strings.NewReplacer(append(edits,
		`page: "${page + 1}"`, `cursor: "${cursor}"`,
		`last: link("next") == ""`, `cursor: body.next`,
		`answer: {contacts: "${rows}"}`, `answer: {contacts: "${rows}", next: "${cursor}"}`)...).Replace(freeagent(t))
}

func TestPagesBehindACursorAreReadWhole(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"in any order": cursored(t),
		"in the order of the ids": cursored(t, "order: created_at, unique: false, paging: offset",
			"order: url, unique: true, paging: keyset", `id: split(url, "/")[-1]`, "id: url",
			`url: "https://api.freeagent.com/v2/contacts/${id}"`, `url: "${id}"`),
		"with a rule for the last page": cursored(t, `last: link("next") == ""`, "cursor: body.next\n  last: body.next == nil"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := httpsource.Load("books.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range p.Check(t.Context(), nil) {
				if !f.OK && f.Name != "examples" {
					t.Errorf("%s: %s", f.Name, f.Detail)
				}
			}
		})
	}
}

func TestACursorThatLeadsNowhereEndsTheReadAsIncomplete(t *testing.T) {
	t.Parallel()
	list := func(rules string) string {
		return strings.NewReplacer(`from: "${offset}"`, `from: "${cursor}"`, "next: body.next", rules).Replace(keyed)
	}
	for name, c := range map[string]struct{ rules, first, second, want string }{
		"it is its own":      {"cursor: body.next", `"a"`, `"a"`, "its own"},
		"it is an object":    {"cursor: body.next", `{"at": 3}`, `null`, "no text"},
		"none, and not last": {"cursor: body.next, last: rows < 2", `null`, `null`, "gives no cursor"},
		"it ends as it must": {"cursor: body.next", `"a"`, `null`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := func(id, next string) func() (int, http.Header, string) {
				return says(`{"items": [{"id": "` + id + `1", "open": true}, {"id": "` + id + `2", "open": true}], "next": ` + next + `}`)
			}
			s := &scripted{answers: map[string]func() (int, http.Header, string){
				"/api/company":                           says(`{"id": "1", "name": "Books"}`),
				"/api/main/customers?q=a%20b%2Bc":        page("1", c.first),
				"/api/main/customers?from=a&q=a%20b%2Bc": page("2", c.second),
			}}
			source, err := openKeyed(t, list(c.rules), keyedConfig("https://books.example"), s)
			if err != nil {
				t.Fatal(err)
			}
			met := map[string]bool{}
			for page, failed := range source.Customers(t.Context(), time.Time{}) {
				err = failed
				for _, r := range page.Records {
					met[r.SourceID] = true
				}
			}
			if c.want == "" && (err != nil || len(met) != 4) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%d records were met, and the read ended with %v", len(met), err)
			}
		})
	}
}

func TestAProfileWithACursorSaysWhereItStands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, want string }{
		"nobody reads it":   {`cursor: "${cursor}"`, `page_no: "x"`, "the request reads it as cursor; it needs both"},
		"nobody gives it":   {"cursor: body.next\n", "last: rows < size\n", "the request reads it as cursor; it needs both"},
		"it is not alone":   {`cursor: "${cursor}"`, `cursor: "${cursor}", page: "${page}"`, "remove either cursor or the others"},
		"of a record, also": {"cursor: body.next", "cursor: url", `unknown name "url"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := httpsource.Load("books.yaml", []byte(strings.Replace(cursored(t), c.from, c.to, 1)))
			var all *strict.Error
			if !errors.As(err, &all) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it is %v", err)
			}
		})
	}
}
