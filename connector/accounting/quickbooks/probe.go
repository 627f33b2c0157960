package quickbooks

import (
	"context"
	"fmt"

	"payersync/connector/accounting"
)

// Probe tests the steps of a run, with two requests: credentials, company, permission, clock and one page. It
// ends at the first failure.
func (s *Source) Probe(ctx context.Context) []accounting.Probe {
	out := []accounting.Probe{s.caller.Probe(ctx)}
	if !out[0].OK {
		return out
	}
	name, err := s.company(ctx)
	if err != nil {
		return append(out, accounting.Probe{Name: "tenant", Detail: err.Error()})
	}
	out = append(out, accounting.Probe{Name: "tenant", OK: true, Detail: name + " = " + s.config.Company})
	said, a, err := s.query(ctx, "SELECT * FROM Customer WHERE "+everybody+" ORDERBY Id STARTPOSITION 1 MAXRESULTS 1")
	if err != nil {
		return append(out, accounting.Probe{Name: "permissions", Detail: err.Error()})
	}
	out = append(out, accounting.Probe{Name: "permissions", OK: true, Detail: "customers may be read"},
		accounting.ProbeClock(a.Header.Get("Date"), s.now()))
	for _, raw := range said.Customer {
		if r, _ := s.record(raw); r.Problem != "" {
			return append(out, accounting.Probe{Name: "one page", Detail: r.Problem})
		}
	}
	return append(out, accounting.Probe{Name: "one page", OK: true,
		Detail: fmt.Sprintf("asked for one customer, %d came", len(said.Customer))})
}
