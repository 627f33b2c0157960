package pages_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"payersync/connector/pages"
)

// systemsOfTests are more systems than payersync reads today.
var systemsOfTests = func() (out []pages.System) {
	for i := range 30 {
		out = append(out, pages.System{Name: fmt.Sprintf("books%d", i), Title: fmt.Sprintf("Harbour Books %d", i),
			Access: "consent", Tested: "never", Reads: "all each time", Walk: "is read by position",
			Limits:   "60 in 1m, 2 at a time",
			Register: strings.Repeat("Make an app with the vendor. ", 12), Begin: "payersync init --source books FOLDER",
			Traps: []string{strings.Repeat("The list leaves out archived customers. ", 8), "A merge deletes one of two."}})
	}
	return out
}()

func TestTheSystemsToConnectAreListedAndSearched(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("vera", pages.Viewer)
	holds(t, v.get("/settings", http.StatusOK), `href="/settings/systems"`)
	all := v.get("/settings/systems", http.StatusOK)
	holds(t, all, "30 accounting systems", "Harbour Books 7", "all each time", "60 in 1m, 2 at a time", `href="?q=books7"`)
	if strings.Contains(all, "A merge deletes") {
		t.Error("the whole list shows what belongs to one system")
	}
	one := v.get("/settings/systems?q=books7", http.StatusOK)
	holds(t, one, "Harbour Books 7", "A merge deletes", "Make an app", "payersync init --source books FOLDER", "never")
	if strings.Contains(one, "Harbour Books 8") {
		t.Error("a search for one system shows another")
	}
	holds(t, v.get("/settings/systems?q=HARBOUR+books+2", http.StatusOK), "Harbour Books 2<", "Harbour Books 29")
	holds(t, v.get("/settings/systems?q=%3Cscript%3E", http.StatusOK), "No system is called so", `value="&lt;script&gt;"`)
}
