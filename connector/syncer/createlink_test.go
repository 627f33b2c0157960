package syncer_test

import (
	"net/http"
	"strings"
	"testing"

	"payersync/connector/billing"
	"payersync/connector/sandbox"
)

// A link in a create's answer belongs to the mandate shown in that answer, and is not requested again. An
// address alone, an unsafe one and one without an approved request are ignored, and a lost answer provides
// none.
//
// covers F178
func TestALinkThatCameWithACreateIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	const pages = "https://pay.example"
	for _, tt := range []struct {
		name, path, switched, pages string
		lost, unwished, same        bool
		asked                       int  // requests for a link
		linked                      bool // its link is kept
		told                        string
	}{
		{name: "the mandate is there", path: "url", switched: "mandate", pages: pages, linked: true},
		{name: "an address alone", path: "url", switched: "url", pages: pages, asked: 1, linked: true},
		{name: "no address", path: "url", switched: "none", pages: pages, asked: 1, linked: true},
		{name: "not named", switched: "mandate", pages: pages, told: "link_lost"},
		{name: "not named, and asking again gives the same", switched: "mandate", pages: pages, same: true, asked: 1,
			linked: true},
		{name: "on this machine", path: "url", switched: "mandate", pages: "http://127.0.0.1:8080", linked: true},
		{name: "not safe", path: "url", switched: "mandate", pages: "http://pay.example", told: "link_lost"},
		{name: "the answer was lost", path: "url", switched: "mandate", pages: pages, lost: true, told: "link_lost"},
		{name: "nobody asked for a mandate", path: "url", switched: "mandate", pages: pages, unwished: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *sandbox.Options, d *billing.Dialect) {
				o.Switches.CreateLink, o.PublicURL, d.CreateLink = tt.switched, tt.pages, tt.path
			})
			w.syncer.Settings.SameMandate = tt.same
			if tt.unwished {
				w.edit("request: customer.people[0].email != \"\"", "request: customer.people[0].email == \"\"")
			}
			w.books.put("A1", "Northwind", "a@example.com")
			if tt.lost {
				w.service.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPost, Path: "/api/customers",
					Count: 1})
			}
			w.run()
			w.run()
			asked := 0
			for _, r := range w.service.Requests() {
				if strings.HasSuffix(r.Path, "/directdebitmandates") {
					asked++
				}
			}
			link, err := w.ledger.SigningLink(t.Context(), w.payer("A1").MandateID)
			if err != nil {
				t.Fatal(err)
			}
			if told := w.attention()["A1"]; asked != tt.asked || (link != "") != tt.linked || told != tt.told {
				t.Errorf("asked %d times, link %q, told %q; want %d, %v, %q", asked, link, told, tt.asked, tt.linked, tt.told)
			}
			made := w.byKey()["A1"].Mandates
			if len(made) != 1 || link != "" && link != made[0].URL {
				t.Errorf("link %q of %+v", link, made)
			}
			rows, err := w.ledger.AttentionOf(t.Context(), "acme", "A1")
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows { // nothing was asked for in any of these
				if !strings.Contains(row.Detail, "no signing link") || strings.Contains(row.Detail, "lost") {
					t.Errorf("told %q, want that there is no signing link yet", row.Detail)
				}
			}
		})
	}
}

// covers F178
func TestThatAnAnswerWasLostIsToldWhereALinkWasAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut,
		Path: "/api/customers/*/directdebitmandates", Count: 1})
	w.run()
	w.run()
	rows, err := w.ledger.AttentionOf(t.Context(), "acme", "A1")
	if err != nil || len(rows) != 1 || !strings.Contains(rows[0].Detail, "the answer with its signing link was lost") {
		t.Errorf("told %+v, %v; want that the answer was lost", rows, err)
	}
}
