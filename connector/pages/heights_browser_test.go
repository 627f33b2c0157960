package pages_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"payersync/connector/pages"
	"payersync/connector/syncer"
)

var crowdedPayers = flag.Int("crowded-payers", 10_000, "how many payers the pages have whose heights are measured")

// crowded returns an installation with letters and with much that waits: a plan of 400 changes, 300 matches,
// and one invalid e-mail address in 50 payers.
func crowded(t *testing.T, payers int) *house {
	t.Helper()
	h, _ := newPost(t)
	h.crowd(payers)
	books := string(must(os.ReadFile(h.file))(t))
	for n := range 400 {
		books = strings.Replace(books, fmt.Sprintf(",Bakery %d Limited,", n+1),
			fmt.Sprintf(",Bakery %d of Leeds and Bradford Limited,", n+1), 1)
	}
	for i := range 300 {
		name := fmt.Sprintf("Tideswell Bakery %d Ltd", i)
		books += fmt.Sprintf("M%03d,%s,Ann,accounts%d@tideswell.example,,4 Harbour Street,Whitby,YO21 3CK,,,,Active,\n", i,
			name, i)
		if i%10 == 9 {
			name = fmt.Sprintf("Ashcombe Cakes %d", i)
		}
		h.there(name, fmt.Sprintf("accounts%d@tideswell.example", i))
	}
	h.books([]byte(books))
	h.syncer.Settings.Guards = syncer.Guards{MaxCreates: 20, MaxChangesFloor: 20}
	h.sweep()
	h.run(false)
	h.recount()
	return h
}

// No page is longer than eight screens of a phone, however much there is to show: the rest is on further pages, or folded.
func TestNoPageIsLongerThanEightScreensOfAPhone(t *testing.T) {
	h := crowded(t, *crowdedPayers)
	paths := append(readPaths(), "/plans/3", "/payers?by=name", "/todo/likeness", "/mandates/report?stage=active",
		"/mandates?show=7", "/none")
	highest, which := 0.0, ""
	for _, l := range []look{{width: 390}, {width: 1280}} {
		b := h.browse(l)
		h.signIn(b, "anna", pages.Admin)
		for _, path := range paths {
			b.open(path)
			if screens := b.fits(path); screens > highest {
				highest, which = screens, path
			}
			b.picture("crowded-" + strings.NewReplacer("/", "_", "?", "_", "=", "_").Replace(path) + "-" + l.String())
		}
	}
	t.Logf("the longest page is %s, with %.1f screens", which, highest)
}
