package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"payersync/connector/pages"
)

// guidesOfTests have everything that guides are made of.
var guidesOfTests = []pages.Guide{
	{Name: "pages", Title: "The pages", Readers: "accountants", Text: "# The pages\n\nRead `payersync help letters` next.\n"},
	{Name: "letters", Title: "Letters", Readers: "accountants", Text: "# Letters\n\n| command | it does |\n|---|---|\n| `payersync mandates handover --for excel-de` | writes a list |\n\n1. First\n2. Then\n\n```yaml\nletters:\n  from: \"Harbour Bakery accounts <accounts@harbour.example>\" # a long line that has to be broken on a narrow screen\n```\n\n<script>alert(1)</script>\n"},
}

func TestPeopleReadTheGuidesOnThePages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("vera", pages.Viewer)
	holds(t, v.get("/", http.StatusOK), `<a href="/help">Help</a>`)
	holds(t, v.get("/help", http.StatusOK), `<a href="/help/letters">Letters</a>`, "for accountants")
	holds(t, v.get("/help/pages", http.StatusOK), "<h1>The pages</h1>", `<a href="/help/letters"><code>payersync help letters</code></a>`)
	letters := v.get("/help/letters", http.StatusOK)
	holds(t, letters, "<td><code>payersync mandates handover --for excel-de</code></td>", "<li>Then</li>", "&lt;accounts@harbour.example&gt;")
	if strings.Contains(letters, "alert(1)") {
		t.Error("a guide brought a script of its own")
	}
	v.get("/help/nothing", http.StatusNotFound)
}
