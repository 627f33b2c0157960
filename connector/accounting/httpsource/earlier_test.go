package httpsource_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestAProfileThatBeginsWithTheSecondPageIsFound(t *testing.T) {
	t.Parallel()
	rows := func(ids ...string) func() (int, http.Header, string) {
		return says(`{"items": [{"id": "` + strings.Join(ids, `", "open": true}, {"id": "`) + `", "open": true}]}`)
	}
	missing := func() (int, http.Header, string) { return http.StatusNotFound, http.Header{}, "{}" }
	for name, c := range map[string]struct {
		from   string // of the request
		before func() (int, http.Header, string)
		asked  bool
		late   bool
	}{
		"the page before holds others":    {"${page + 1}", rows("1", "2"), true, true},
		"the page before is the first":    {"${page + 1}", rows("3", "4"), true, false},
		"there is no page before":         {"${page + 1}", missing, true, false},
		"the first page is 0":             {"${page}", rows("1", "2"), false, false},
		"pages are counted by a position": {"${offset}", rows("1", "2"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := "0"
			if c.from == "${page + 1}" {
				first = "1"
			}
			text := strings.NewReplacer(`"${offset}"`, `"`+c.from+`"`, "next: body.next", "last: rows < 2").Replace(keyed)
			s := &scripted{answers: map[string]func() (int, http.Header, string){
				"/api/company": says(`{"id": "1", "name": "Books"}`),
				"/api/main/customers?from=" + first + "&q=a%20b%2Bc": rows("3", "4")}}
			if first == "1" {
				s.answers["/api/main/customers?from=0&q=a%20b%2Bc"] = c.before
			}
			source, err := openKeyed(t, text, keyedConfig("https://books.example"), s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := source.Try(t.Context()); (err != nil) != c.late || c.late && !strings.Contains(err.Error(), "wrong number") {
				t.Errorf("one page gives %v", err)
			}
			asked := 0
			for _, req := range s.asked {
				if strings.Contains(req.URL.RawQuery, "from=0") && first == "1" || strings.Contains(req.URL.RawQuery, "from=-") {
					asked++
				}
			}
			if (asked > 0) != c.asked {
				t.Errorf("the page before was asked for %d times", asked)
			}
			failed := ""
			for _, p := range source.Probe(t.Context()) {
				if !p.OK && p.Name == "one page" {
					failed = p.Detail
				}
			}
			if (failed != "") != c.late {
				t.Errorf("the check says %q", failed)
			}
		})
	}
}
