package pages_test

import (
	"encoding/json"
	"strings"
	"testing"

	"payersync/connector/pages"
)

// What an accountant decides is shown first, and every page that asks is sound: two records of one payer, a
// customer that somebody else changed, and a customer that is taken off its payer.
//
// covers F261
func TestDecisionsAreShownBeforeTheyAreTakenInABrowser(t *testing.T) {
	for _, l := range []look{{width: 1280}, {width: 390, dark: true, noScript: true}} {
		t.Run(l.String(), func(t *testing.T) {
			h := newHouse(t)
			h.run(true)
			text := string(sampleBooks(t))
			lines := strings.SplitAfter(text, "\n")
			h.books([]byte(text + strings.Replace(lines[1], "HB001,", "HB902,", 1)))
			h.edit("HB002", func(fields map[string]any) { fields["name"] = "Renamed By Hand" })
			must(h.reader.Sweep(t.Context()))(t)
			h.run(true)
			b := h.browse(l)
			b.name = "decisions-" + l.String()
			h.signIn(b, "olga", pages.Operator)
			b.open("/payers/quickstart/HB902")
			b.stop("Two payers…", "One payer: merge the records…")
			b.press("a[data-act=merge]")
			b.stop("One payer", "HB001", "HB902")
			b.fill("#reason", "entered twice")
			b.press("main form[method=post] button")
			b.stop("Saved. The next run sends it", "Separate the records…")
			if text := b.text(); strings.Contains(text, "One payer: merge the records…") {
				t.Errorf("what was decided is offered once more:\n%s", text)
			}
			b.open("/payers/quickstart/HB002")
			b.stop("Keep their value…", "Send our value…", "Leave a field to the billing service…")
			b.press("a[data-act=ignore]")
			b.stop("Renamed By Hand", "Service", "Accounting system", "Fields left to the billing service")
			b.open("/payers/quickstart/HB002")
			b.press("a[data-act=take_theirs]")
			b.stop("Renamed By Hand", "Both sides")
			b.fill("#reason", "renamed in March")
			b.press("main form[method=post] button")
			b.reads("Saved. Nothing was sent.")
			b.open("/todo/entered_twice")
			b.stop("On the page of each payer", "Two payers")
		})
	}
}

// edit changes the customer of a payer in the billing service, as a colleague does.
func (h *house) edit(id string, change func(map[string]any)) {
	h.t.Helper()
	p := must(h.ledger.Payer(h.t.Context(), sample, id))(h.t)
	for _, c := range h.box.Customers() {
		if c.ID != p.BillingID {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(c.Raw, &fields); err != nil {
			h.t.Fatal(err)
		}
		change(fields)
		if err := h.box.Edit(c.ID, must(json.Marshal(fields))(h.t)); err != nil {
			h.t.Fatal(err)
		}
	}
}
