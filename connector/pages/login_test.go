package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"payersync/connector/pages"
)

func TestALinkSignsInOnceAndOnlyByItsButton(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	link := h.link("anna", pages.Operator)
	v := h.stranger()
	v.get("/runs", http.StatusUnauthorized)
	for range 3 { // a preview, a scanner and the person herself
		holds(t, v.get(link, http.StatusOK), "anna", "operator")
	}
	v.get("/runs", http.StatusUnauthorized)
	v.send(http.MethodPost, link, nil)
	holds(t, v.get("/runs", http.StatusOK), "<bdi>anna</bdi>, operator")
	other := h.stranger()
	holds(t, other.get(link, http.StatusGone), "payersync pages link")
	if status, _ := other.send(http.MethodPost, link, nil); status != http.StatusGone {
		t.Errorf("a second use was answered %d", status)
	}
	other.get("/runs", http.StatusUnauthorized)
}

func TestSigningOutEndsTheLogin(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("anna", pages.Viewer)
	cookies := v.http.Jar
	v.get("/runs", http.StatusOK)
	holds(t, v.post("/signout", http.StatusOK), "payersync pages link")
	v.http.Jar = cookies
	v.get("/runs", http.StatusUnauthorized)
}

func TestRunsAreListed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.enter("anna", pages.Viewer)
	holds(t, v.get("/runs", http.StatusOK), "There was no run yet")
	h.run(true)
	page := v.get("/runs", http.StatusOK)
	holds(t, page, "<td class=\"n\" data-label=\"Read\">39</td>")
	if strings.Contains(page, "There was no run yet") {
		t.Error("the page says that there was no run")
	}
}
