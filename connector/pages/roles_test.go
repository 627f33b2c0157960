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
	file bool // it answers with a file to keep, and not with a page
}{
	"GET /mandates/writeback/{connection}":      {path: "/mandates/writeback/quickstart", role: pages.Viewer},
	"POST /mandates/writeback/{connection}":     {path: "/mandates/writeback/quickstart", role: pages.Operator},
	"GET /mandates":                             {path: "/mandates", role: pages.Viewer},
	"POST /mandates/handover":                   {path: "/mandates/handover", role: pages.Operator, file: true},
	"POST /mandates/sent":                       {path: "/mandates/sent", role: pages.Operator},
	"GET /mandates/links":                       {path: "/mandates/links", role: pages.Operator},
	"POST /mandates/links":                      {path: "/mandates/links", role: pages.Operator},
	"GET /mandates/report":                      {path: "/mandates/report", role: pages.Viewer},
	"POST /mandates/report":                     {path: "/mandates/report", role: pages.Operator, file: true},
	"GET /payers":                               {path: "/payers", role: pages.Viewer},
	"POST /payers/ask":                          {path: "/payers/ask", role: pages.Operator},
	"POST /payers/export":                       {path: "/payers/export", role: pages.Operator, file: true},
	"POST /payers":                              {path: "/payers", role: pages.Viewer},
	"GET /payers/{connection}/{id}":             {path: "/payers/quickstart/HB001", role: pages.Viewer},
	"POST /payers/{connection}/{id}/link":       {path: "/payers/quickstart/HB001/link", role: pages.Operator},
	"POST /payers/{connection}/{id}/raw":        {path: "/payers/quickstart/HB001/raw", role: pages.Admin},
	"GET /payers/{connection}/{id}/{act}":       {path: "/payers/quickstart/HB001/cancel", role: pages.Operator},
	"POST /payers/{connection}/{id}/{act}":      {path: "/payers/quickstart/HB001/cancel", role: pages.Operator},
	"GET /{$}":                                  {path: "/", role: pages.Viewer},
	"GET /todo/{reason}":                        {path: "/todo/email_malformed", role: pages.Viewer},
	"POST /todo/{reason}":                       {path: "/todo/likeness", role: pages.Operator},
	"GET /todo/{reason}/export":                 {path: "/todo/likeness/export", role: pages.Operator, file: true},
	"GET /runs":                                 {path: "/runs", role: pages.Viewer},
	"GET /webhooks":                             {path: "/webhooks", role: pages.Viewer},
	"POST /webhooks":                            {path: "/webhooks", role: pages.Operator},
	"POST /webhooks/subscription":               {path: "/webhooks/subscription", role: pages.Operator},
	"POST /webhooks/subscription/again":         {path: "/webhooks/subscription/again", role: pages.Admin},
	"GET /webhooks/{key}":                       {path: "/webhooks/event:none", role: pages.Viewer},
	"POST /webhooks/{key}/body":                 {path: "/webhooks/event:none/body", role: pages.Admin},
	"POST /webhooks/{key}/replay":               {path: "/webhooks/event:none/replay", role: pages.Operator},
	"POST /webhooks/{key}/close":                {path: "/webhooks/event:none/close", role: pages.Operator},
	"GET /settings":                             {path: "/settings", role: pages.Viewer},
	"GET /audit":                                {path: "/audit", role: pages.Viewer},
	"GET /help":                                 {path: "/help", role: pages.Viewer},
	"GET /help/{topic}":                         {path: "/help/letters", role: pages.Viewer},
	"GET /plans":                                {path: "/plans", role: pages.Viewer},
	"GET /plans/{n}":                            {path: "/plans/1", role: pages.Viewer},
	"POST /plans/{n}":                           {path: "/plans/1", role: pages.Operator},
	"GET /runs/{n}":                             {path: "/runs/1", role: pages.Viewer},
	"POST /runs":                                {path: "/runs", role: pages.Operator},
	"GET /mapping":                              {path: "/mapping", role: pages.Viewer},
	"GET /mapping/{connection}":                 {path: "/mapping/quickstart", role: pages.Viewer},
	"POST /mapping/{connection}":                {path: "/mapping/quickstart", role: pages.Admin},
	"GET /mapping/{connection}/text":            {path: "/mapping/quickstart/text", role: pages.Viewer},
	"GET /mapping/{connection}/quality":         {path: "/mapping/quickstart/quality", role: pages.Viewer},
	"GET /mapping/{connection}/versions":        {path: "/mapping/quickstart/versions", role: pages.Viewer},
	"GET /mapping/{connection}/preview/{hash}":  {path: "/mapping/quickstart/preview/0", role: pages.Admin},
	"POST /mapping/{connection}/preview/{hash}": {path: "/mapping/quickstart/preview/0", role: pages.Admin},
	"GET /matches":                              {path: "/matches", role: pages.Viewer},
	"POST /matches/separate":                    {path: "/matches/separate", role: pages.Operator},
	"POST /matches/finish":                      {path: "/matches/finish", role: pages.Operator},
	"GET /matches/likely":                       {path: "/matches/likely", role: pages.Operator},
	"POST /matches/likely":                      {path: "/matches/likely", role: pages.Operator},
	"GET /matches/linked":                       {path: "/matches/linked", role: pages.Operator},
	"POST /matches/linked":                      {path: "/matches/linked", role: pages.Operator},
	"GET /matches/{connection}/{id}":            {path: "/matches/quickstart/HB001", role: pages.Viewer},
	"POST /matches/{connection}/{id}":           {path: "/matches/quickstart/HB001", role: pages.Operator},
	"GET /connections/move":                     {path: "/connections/move", role: pages.Operator},
	"POST /connections/move":                    {path: "/connections/move", role: pages.Operator},
	"GET /settings/systems":                     {path: "/settings/systems", role: pages.Viewer},
	"GET /settings/users":                       {path: "/settings/users", role: pages.Admin},
	"POST /settings/users":                      {path: "/settings/users", role: pages.Admin},
	"GET /settings/users/{name}":                {path: "/settings/users/eve", role: pages.Admin},
	"POST /settings/users/{name}":               {path: "/settings/users/eve", role: pages.Admin},
	"GET /settings/password":                    {path: "/settings/password", role: pages.Viewer},
	"POST /settings/password":                   {path: "/settings/password", role: pages.Viewer},
	"GET /again":                                {path: "/again", role: pages.Viewer},
	"POST /again":                               {path: "/again", role: pages.Viewer},
	"GET /mandates/letters":                     {path: "/mandates/letters", role: pages.Viewer},
	"GET /mandates/letters/examples":            {path: "/mandates/letters/examples", role: pages.Viewer},

	"GET /mandates/letters/example/{kind}/{language}": {path: "/mandates/letters/example/invitation/en",
		role: pages.Viewer, file: true},
	"GET /mandates/letters/prepared/{connection}/{id}": {path: "/mandates/letters/prepared/quickstart/HB001",
		role: pages.Operator, file: true},

	"POST /mandates/letters/bounced":  {path: "/mandates/letters/bounced", role: pages.Operator},
	"POST /mandates/letters/revive":   {path: "/mandates/letters/revive", role: pages.Operator},
	"POST /mandates/letters":          {path: "/mandates/letters", role: pages.Operator},
	"POST /mandates/letters/alone":    {path: "/mandates/letters/alone", role: pages.Operator},
	"POST /mandates/letters/pause":    {path: "/mandates/letters/pause", role: pages.Operator},
	"POST /mandates/letters/resume":   {path: "/mandates/letters/resume", role: pages.Operator},
	"POST /mandates/letters/continue": {path: "/mandates/letters/continue", role: pages.Operator},
	"POST /mandates/letters/word":     {path: "/mandates/letters/word", role: pages.Operator},
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
			case who.May(role) && (status == http.StatusForbidden || status == http.StatusUnauthorized ||
				status >= http.StatusInternalServerError):
				t.Errorf("%s was answered %d to the role %s:\n%s", pattern, status, who, body)
			}
		}
	}
}
