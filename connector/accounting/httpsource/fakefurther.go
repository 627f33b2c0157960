package httpsource

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// session is the session that the model's login gives.
func (f *Fake) session(context.Context) (any, error) {
	body, err := filled(f.profile.fakeLogin, f.source.set)
	if err != nil {
		return nil, err
	}
	return f.profile.session.run(map[string]any{"status": http.StatusOK, "body": body})
}

// listedAs writes a customer as the list shows it.
func (f *Fake) listedAs(c *customer) (any, error) {
	if f.profile.file.List.Detail == nil {
		return f.record(c)
	}
	row, err := f.part(f.profile.fakeRow, c)
	if members, ok := row.(map[string]any); ok && c.spoilt {
		members["spoilt"] = c.updated.UnixNano() // a summary that changed
	}
	return row, err
}

// further answers a request besides those for the list and the company. known is false for those, and the answer nil
// for a record that is not there.
func (f *Fake) further(req *http.Request, got map[string]string) (answer any, known bool) {
	p, vars := f.profile, f.source.request(f.tenant(), time.Time{})
	same := func(r request, env map[string]any) bool { return f.same(req, got, r, env) }
	if p.Auth() == AuthLogin {
		env := copyOf(vars)
		if env["session"] = ""; same(p.login, env) {
			answer, _ = filled(p.fakeLogin, f.source.set)
			return answer, true
		}
	}
	for i, j := range p.joins {
		for page := range len(f.customers)/f.source.size + 2 {
			env := copyOf(vars)
			if env["page"], env["offset"] = page, page*f.source.size; same(j.request, env) {
				return f.children(p.file.List.Join[i].Name, page), true
			}
		}
	}
	if p.file.List.Detail == nil {
		return nil, false
	}
	for _, c := range f.customers {
		env := copyOf(vars)
		row, err := f.part(p.fakeRow, c)
		if env["row"] = escapedTexts(row); err == nil && same(p.detail, env) {
			record, err := f.record(c)
			if err != nil {
				return nil, true
			}
			return wrapped(record, string(p.file.List.Detail.Record)), true
		}
	}
	return nil, !slices.Contains(f.paths, got["path"]) && strings.HasPrefix(got["path"], f.paths[0]+"/")
}

// same reports whether a request is the one that the profile makes, but for its headers.
func (f *Fake) same(req *http.Request, got map[string]string, r request, env map[string]any) bool {
	made, err := f.source.build(req.Context(), r, env)
	if err != nil || made.Method != req.Method {
		return false
	}
	want, err := parts(made)
	isHeader := func(name, _ string) bool { return strings.HasPrefix(name, "header ") }
	have := maps.Clone(got)
	maps.DeleteFunc(want, isHeader)
	maps.DeleteFunc(have, isHeader)
	return err == nil && maps.Equal(want, have)
}

// children is a page of a further list, with a row for each customer.
func (f *Fake) children(name string, page int) any {
	from := min(page*f.source.size, len(f.customers))
	rows := []any{}
	for _, c := range f.customers[from:min(from+f.source.size, len(f.customers))] {
		row, err := f.part(f.profile.fakeJoin.(map[string]any)[name], c)
		if err != nil {
			return nil
		}
		rows = append(rows, row)
	}
	env := copyOf(f.source.set)
	env["rows"], env["total"], env["found"], env["size"], env["page"] = rows, len(f.customers), len(rows), f.source.size,
		page
	env["pages"], env["next"], env["cursor"] = (len(f.customers)+f.source.size-1)/f.source.size, nil, nil
	answer, err := filled(f.profile.fakeAnswer, env)
	if err != nil {
		return nil
	}
	return answer
}

// wrapped puts a value at a path.
func wrapped(v any, path string) any {
	if path == "$" {
		return v
	}
	keys := strings.Split(path, ".")
	for _, key := range slices.Backward(keys) {
		v = map[string]any{key: v}
	}
	return v
}
