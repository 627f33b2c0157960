package sqltable

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// Probe tests the needs of a read: the connection and its user, the query and its columns, one page.
func (s *Source) Probe(ctx context.Context) []accounting.Probe {
	r, err := s.open(ctx)
	if err != nil {
		return []accounting.Probe{{Name: "connection and query", Detail: err.Error()}}
	}
	columns := len(r.columns)
	r.close()
	out := []accounting.Probe{{Name: "connection and query", OK: true,
		Detail: fmt.Sprintf("%s, %s, read only", s.config.Driver, connector.Plural(columns, "column"))}}
	rows, problems, first := 0, 0, ""
	err = s.stream(ctx, time.Time{}, func(p connector.Page) bool {
		for _, record := range p.Records {
			rows++
			if record.Problem != "" {
				problems++
				first = cmp.Or(first, ": "+record.Problem)
			}
		}
		return false
	})
	if err != nil {
		return append(out, accounting.Probe{Name: "one page", Detail: err.Error()})
	}
	detail := fmt.Sprintf("%s, %d of them with a problem%s", connector.Plural(rows, "row"), problems, first)
	return append(out, accounting.Probe{Name: "one page", OK: problems < max(1, rows), Detail: detail})
}
