package pages_test

import (
	"net/http"
	"testing"

	"payersync/connector/pages"
)

// guidesOfTests have everything that guides are made of.
var guidesOfTests = []pages.Guide{
	{Name: "pages", Title: "The pages", Readers: "accountants",
		HTML: `<h1>The pages</h1><p>Read <a href="/help/letters"><code>payersync help letters</code></a> next.</p>`},
	{Name: "letters", Title: "Letters", Readers: "accountants",
		HTML: `<h1>Letters</h1><table><thead><tr><th>command</th><th>it does</th></tr></thead><tbody><tr><td><code>payersync mandates handover --for excel-de</code></td><td>writes a list</td></tr></tbody></table><ol><li>First</li><li>Then</li></ol><pre><code>letters:
  from: &quot;Harbour Bakery accounts &lt;accounts@harbour.example&gt;&quot; # a long line that has to be broken on a narrow screen</code></pre>`},
}

func TestPeopleReadTheGuidesOnThePages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("vera", pages.Viewer)
	holds(t, v.get("/", http.StatusOK), `<a href="/help">`, "Help</a>")
	holds(t, v.get("/help", http.StatusOK), `<a href="/help/letters">Letters</a>`, "for accountants")
	holds(t, v.get("/help/pages", http.StatusOK), "<h1>The pages</h1>", `<a href="/help/letters">`)
	holds(t, v.get("/help/letters", http.StatusOK), "<li>Then</li>", "&lt;accounts@harbour.example&gt;")
	v.get("/help/nothing", http.StatusNotFound)
}
