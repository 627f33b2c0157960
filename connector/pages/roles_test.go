package pages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"payersync/connector/pages"
)

// access says of every address who may use it. A route without a row fails.
var access = map[string]struct {
	path string // an address that fits the pattern
	role pages.Role
}{
	"GET /plans":      {"/plans", pages.Viewer},
	"GET /plans/{n}":  {"/plans/1", pages.Viewer},
	"POST /plans/{n}": {"/plans/1", pages.Operator},
	"GET /runs":       {"/runs", pages.Viewer},
	"GET /runs/{n}":   {"/runs/1", pages.Viewer},
	"POST /runs":      {"/runs", pages.Operator},
}

func TestEveryRouteIsForItsRolesAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	visitors := map[pages.Role]*visitor{"": h.stranger()}
	for _, role := range pages.Roles {
		visitors[role] = h.enter("anna the "+string(role), role)
	}
	routes := pages.Routes()
	for pattern := range access {
		if _, ok := routes[pattern]; !ok {
			t.Errorf("there is a row for %s, and no such route", pattern)
		}
	}
	for pattern, role := range routes {
		row, ok := access[pattern]
		if !ok || row.role != role {
			t.Errorf("%s takes the role %s, and the table says %q", pattern, role, row.role)
			continue
		}
		method, _, _ := strings.Cut(pattern, " ")
		for who, v := range visitors {
			v.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			status, body := v.send(method, row.path, url.Values{})
			switch {
			case who == "" && status != http.StatusUnauthorized:
				t.Errorf("%s was answered %d to who is not signed in", pattern, status)
			case who != "" && !who.May(role) && status != http.StatusForbidden:
				t.Errorf("%s was answered %d to the role %s", pattern, status, who)
			case who.May(role) && (status == http.StatusForbidden || status == http.StatusUnauthorized || status >= http.StatusInternalServerError):
				t.Errorf("%s was answered %d to the role %s:\n%s", pattern, status, who, body)
			}
		}
	}
}
