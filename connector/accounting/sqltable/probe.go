package sqltable

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// Probe tries what a read needs: the connection and its user, the query and its
// columns, one page.
func (s *Source) Probe(ctx context.Context) []accounting.Probe {
	r, err := s.open(ctx)
	if err != nil {
		return []accounting.Probe{{Name: "connection and query", Detail: err.Error()}}
	}
	columns := len(r.columns)
	r.close()
	out := []accounting.Probe{{Name: "connection and query", OK: true, Detail: fmt.Sprintf("%s, %d columns, read only", s.config.Driver, columns)}}
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
	detail := fmt.Sprintf("%d rows, %d of them with a problem%s", rows, problems, first)
	return append(out, accounting.Probe{Name: "one page", OK: problems < max(1, rows), Detail: detail})
}
