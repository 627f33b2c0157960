package pages_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payersync/connector/pages"
)

// The largest sizes for a browser, before compression.
const (
	firstVisit = 60_000 // with style and script
	nextPage   = 30_000
)

func TestNoPageIsLargerThanItsBudget(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.crowd(120)
	v := h.enter("anna", pages.Admin)
	largest := 0
	for pattern, row := range access {
		if !strings.HasPrefix(pattern, "GET ") || row.file {
			continue
		}
		if _, page := v.send(http.MethodGet, row.path, nil); len(page) > nextPage {
			t.Errorf("%s has %d bytes, and no page has more than %d", row.path, len(page), nextPage)
		} else {
			largest = max(largest, len(page))
		}
	}
	if page := v.get("/mandates", http.StatusOK); strings.Count(page, "<tr>") < 30 {
		t.Errorf("the list of mandates is not full, so its size says nothing:\n%s", page)
	}
	for _, name := range []string{"style.css", "pages.js"} {
		largest += len(must(os.ReadFile(filepath.Join("web", name)))(t))
	}
	if largest > firstVisit {
		t.Errorf("the first visit takes %d bytes, and may take %d", largest, firstVisit)
	}
	t.Logf("the first visit takes %d bytes at most", largest)
}
