package httpsource

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/url"

	"payersync/connector"
	"payersync/connector/accounting"
)

// unbuilt returns the error of a request that could not be made. A refused login stays what it is.
func (s *Source) unbuilt(op string, err error) error {
	var remote *connector.RemoteError
	var out *accounting.Disconnected
	var parked *accounting.Parked
	if errors.As(err, &remote) || errors.As(err, &out) || errors.As(err, &parked) {
		return err
	}
	return s.unusable(op, err.Error())
}

// detailed reads the record that a row of the list is a summary of. In further passes only changed rows are asked for
// again.
func (l *listing) detailed(ctx context.Context, row json.RawMessage) (connector.Record, error) {
	const op = "read a customer"
	s, key := l.source, sha256.Sum256(row)
	if known, ok := l.details[key]; ok {
		return known, nil
	}
	listed := l.reader.record(row)
	members, _ := valueOf(row)
	vars := copyOf(l.vars)
	vars["row"] = escapedTexts(members)
	req, err := s.build(ctx, s.profile.detail, vars)
	if err != nil {
		return l.reader.spoilt(listed.SourceID,
			"The "+s.profile.file.Record.Noun+" cannot be asked for by what the list shows of it."), nil
	}
	a, err := s.ask(ctx, op, req, string(s.profile.file.List.Detail.Record), vars)
	var refused *connector.RemoteError
	switch {
	case errors.As(err, &refused) && refused.Fault == connector.FaultNotFound:
		return l.reader.spoilt(listed.SourceID,
			"The "+s.profile.file.Record.Noun+" is in the list, and cannot be found by itself."), nil
	case err != nil:
		return connector.Record{}, err
	case len(a.rows) != 1:
		return connector.Record{}, s.unusable(op, "it is not one record")
	}
	out := l.reader.record(a.rows[0])
	if l.details == nil {
		l.details = map[[sha256.Size]byte]connector.Record{}
	}
	l.details[key] = out
	return out, nil
}

// escapedTexts returns a row with its texts ready for a path.
func escapedTexts(row any) any {
	members, ok := row.(map[string]any)
	if !ok {
		return nil
	}
	for name, v := range members {
		if words, isText := v.(string); isText {
			members[name] = url.PathEscape(words)
		}
	}
	return members
}

// join reads the lists whose rows belong to records, once for a read.
func (l *listing) join(ctx context.Context) error {
	if l.reader.joined != nil || len(l.source.profile.joins) == 0 {
		return nil
	}
	joined := map[string]map[string][]json.RawMessage{}
	for i := range l.source.profile.joins {
		rows, err := l.rowsOf(ctx, i)
		if err != nil {
			return err
		}
		joined[l.source.profile.file.List.Join[i].Name] = rows
	}
	l.reader.joined = joined
	return nil
}

// rowsOf reads a list whole and returns its rows by the record that they belong to.
func (l *listing) rowsOf(ctx context.Context, i int) (map[string][]json.RawMessage, error) {
	s, j, written := l.source, l.source.profile.joins[i], l.source.profile.file.List.Join[i]
	op := "read " + written.Name
	vars, owners, order, latest := copyOf(l.vars), map[string]string{}, []string{}, map[string]json.RawMessage{}
	total := 0
	fetch := func(ctx context.Context, n int) (sheet accounting.Sheet, err error) {
		if vars["page"] = n; n == 0 {
			vars["offset"], vars["after"] = 0, nil
		}
		req, err := s.build(ctx, j.request, vars)
		if err != nil {
			return sheet, s.unbuilt(op, err)
		}
		a, err := s.ask(ctx, op, req, string(written.Records), vars)
		if err != nil {
			return sheet, err
		}
		for _, raw := range a.rows {
			id, owner, err := j.identify(s.set, raw)
			if err != nil {
				return sheet, s.unusable(op, err.Error())
			}
			sheet.Records = append(sheet.Records, connector.Record{SourceID: id, Data: raw})
			if _, met := owners[id]; !met {
				order = append(order, id)
			}
			owners[id], latest[id] = owner, raw
		}
		vars["offset"] = vars["offset"].(int) + len(a.rows)
		if sheet.Last, err = j.last.is(a.env); err == nil && j.total != nil {
			var v any
			if v, err = j.total.run(a.env); err == nil {
				var isNumber bool
				if total, isNumber = v.(int); !isNumber || sheet.Last && vars["offset"].(int) < total {
					err = errors.New("it ends before as many rows as it counts")
				}
			}
		}
		if err != nil {
			return sheet, s.unusable(op, err.Error())
		}
		return sheet, nil
	}
	census := accounting.Census{Total: func(context.Context) (int, error) { return total, nil }, Began: s.now}
	for _, err := range accounting.WalkCounted(ctx, accounting.Pager{Fetch: fetch}, census) {
		if err != nil {
			return nil, err
		}
	}
	if len(order) < total {
		return nil, s.unusable(op, "it counts more rows than it lists")
	}
	out := map[string][]json.RawMessage{}
	for _, id := range order {
		out[owners[id]] = append(out[owners[id]], latest[id])
	}
	return out, nil
}

// identify returns the id of a row, and that of the record it belongs to; "" for a row of no record.
func (j join) identify(set map[string]any, raw json.RawMessage) (id, owner string, err error) {
	v, err := valueOf(raw)
	members, ok := v.(map[string]any)
	if err != nil || !ok {
		return "", "", errors.New("a row is no object")
	}
	env := copyOf(set)
	for name, member := range members {
		if _, taken := env[name]; !taken {
			env[name] = member
		}
	}
	env["record"] = members
	own, err := j.id.run(env)
	if id = wordsOf(own); err != nil || id == "" {
		return "", "", errors.New("a row has no id")
	}
	of, err := j.of.run(env)
	if err != nil {
		return id, "", nil // it belongs to nobody
	}
	return id, wordsOf(of), nil
}

// withJoined adds the rows of further lists to a record.
func (r *reader) withJoined(members map[string]json.RawMessage, id string) error {
	for name, rows := range r.joined {
		raw, err := json.Marshal(append([]json.RawMessage{}, rows[id]...))
		if err != nil {
			return err
		}
		members[name] = raw
	}
	return nil
}
