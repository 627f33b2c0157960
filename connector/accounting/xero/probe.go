package xero

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"payersync/connector"
	"payersync/connector/accounting"
)

// Probe tests the steps of a run, with at most three requests: credentials, organisation, permission, clock
// and one page. It ends at the first failure.
func (s *Source) Probe(ctx context.Context) []accounting.Probe {
	out := []accounting.Probe{s.caller.Probe(ctx)}
	if !out[0].OK {
		return out
	}
	who, err := s.organisation(ctx)
	if err != nil {
		return append(out, failed("tenant", err))
	}
	out = append(out, accounting.Probe{Name: "tenant", OK: true, Detail: who.Name + " = " + who.ID})
	a, err := s.get(ctx, ask{
		op: "read one contact", path: "/api.xro/2.0/Contacts", tenant: who.ID,
		query: url.Values{"page": {"1"}, "pageSize": {"1"}, "includeArchived": {"true"}, "order": {"ContactID ASC"}},
	})
	if err != nil {
		return append(out, failed("permissions", err))
	}
	out = append(out, accounting.Probe{Name: "permissions", OK: true, Detail: "contacts may be read" + a.budget()})
	out = append(out, accounting.ProbeClock(a.Header.Get("Date"), s.now()))
	page, err := parsePage(a.Body, 1)
	if err != nil {
		return append(out, failed("one page", a.unusable(err)))
	}
	if len(page.Contacts) > 0 {
		if r := s.record(page.Contacts[0]); r.Problem != "" {
			return append(out, accounting.Probe{Name: "one page", Detail: r.Problem})
		}
	}
	return append(out, accounting.Probe{Name: "one page", OK: true,
		Detail: connector.Plural(page.Pagination.ItemCount, "contact") + " in all"})
}

func failed(name string, err error) accounting.Probe {
	return accounting.Probe{Name: name, Detail: err.Error()}
}

// budget returns the number of requests left today, if Xero gives it.
func (a answer) budget() string {
	left, err := strconv.Atoi(a.Header.Get("X-DayLimit-Remaining"))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("; requests left today: %d", left)
}
