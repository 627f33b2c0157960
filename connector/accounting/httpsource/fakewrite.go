package httpsource

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/transport"
)

// The model builds a request with these marks in the places of the value and of the id. So it finds the places.
const markValue, markID = "@value@", "987654321"

// sampleField is the field that write sets in the model.
func (p *Profile) sampleField() string {
	if name := p.file.Write.Field.Name; name != "" {
		return name
	}
	return p.file.Write.Field.Example
}

// field answers a request that reads or sets the field of one record. For other requests, known is false. A real system
// also takes an unknown field, and ignores it. So does the model.
func (f *Fake) field(req *http.Request, got map[string]string) (status int, answer any, known bool) {
	w := f.profile.write
	if w == nil {
		return 0, nil, false
	}
	if vars, want, whole := f.ofOne(req, got, w.read); whole {
		return f.shows(f.find(vars["id"].(string)), want)
	}
	vars, want, whole := f.ofOne(req, got, w.request)
	if want == nil {
		return 0, nil, false
	}
	c := f.find(vars["id"].(string))
	switch {
	case whole && c != nil:
		return f.set(c, req, vars)
	case whole, c == nil && vars["id"] != "" && strings.Contains(want["path"], markID):
		return http.StatusNotFound, map[string]any{}, true
	case c != nil && !slices.Contains(f.paths, got["path"]) &&
		got["path"] == strings.ReplaceAll(want["path"], markID, vars["id"].(string)):
		return http.StatusOK, f.wrote(c), true // without effect
	}
	return 0, nil, false
}

// ofOne compares a request with r, which the profile makes for one record. vars has the id and the value of the
// request. want is r with marks, or nil if the methods differ. whole is true if all parts of the request are as in r.
func (f *Fake) ofOne(req *http.Request, got map[string]string, r request) (vars map[string]any,
	want map[string]string, whole bool) {
	vars = f.source.request(f.tenant(), time.Time{})
	vars["id"], vars["field"], vars["value"], vars["version"] = markID, f.profile.sampleField(), markValue, ""
	made, err := f.source.build(req.Context(), r, vars)
	if err != nil || made.Method != req.Method {
		return vars, nil, false
	}
	if want, err = parts(made); err != nil {
		return vars, nil, false
	}
	vars["id"], vars["value"] = textIn(want, got, markID), textIn(want, got, markValue)
	return vars, want, f.same(req, got, r, vars)
}

// textIn returns what stands in a request in the place of a mark.
func textIn(want, got map[string]string, mark string) string {
	for part, text := range want {
		before, behind, found := strings.Cut(text, mark)
		if !found {
			continue
		}
		value, ok1 := strings.CutPrefix(got[part], before)
		value, ok2 := strings.CutSuffix(value, behind)
		if ok1 && ok2 && value != "<nil>" && value != "false" {
			return value
		}
	}
	return ""
}

// shows answers a request that reads the field.
func (f *Fake) shows(c *customer, want map[string]string) (int, any, bool) {
	path := string(f.profile.file.Write.Read.Record)
	switch {
	case c == nil && strings.Contains(want["path"], markID):
		return http.StatusNotFound, map[string]any{}, true
	case c == nil:
		return http.StatusOK, wrapped([]any{}, path), true
	}
	record, err := f.record(c)
	return http.StatusOK, wrapped(record, path), err == nil
}

// version is the version of a customer as write.read.version reads it.
func (f *Fake) version(c *customer) string {
	rule := f.profile.write.version
	if rule == nil {
		return ""
	}
	raw, err := f.record(c)
	if err != nil {
		return ""
	}
	record, _ := valueOf(raw)
	v, _ := rule.run(map[string]any{"set": f.source.set["set"], "record": record, "field": f.profile.sampleField()})
	return wordsOf(v)
}

// set sets the field of a customer, unless the request has the version of an older edit.
func (f *Fake) set(c *customer, req *http.Request, vars map[string]any) (int, any, bool) {
	vars["version"] = f.version(c)
	made, err := f.source.build(req.Context(), f.profile.write.request, vars)
	if err != nil {
		return http.StatusBadRequest, map[string]any{}, true
	}
	for name := range f.profile.write.headers {
		if req.Header.Get(name) != made.Header.Get(name) {
			return http.StatusConflict, map[string]any{}, true
		}
	}
	c.value, c.updated = vars["value"].(string), f.Now()
	return http.StatusOK, f.wrote(c), true
}

// wrote is the answer to a write.
func (f *Fake) wrote(c *customer) any {
	record, err := f.record(c)
	if err != nil {
		return nil
	}
	if f.profile.fakeWrote == nil {
		return wrapped(record, string(f.profile.file.Write.Read.Record))
	}
	env := f.vars(c)
	env["record"], _ = valueOf(record)
	out, err := filled(f.profile.fakeWrote, env)
	if err != nil {
		return nil
	}
	return out
}

// writer is a writer of a profile to the model.
func (t *try) writer() (*FieldWriter, error) {
	p := t.source.profile
	clock := func() time.Time { return t.now }
	client := transport.New(transport.Options{Base: t.Fake, Retries: -1, Now: clock})
	config := WriteConfig{Active: p.file.Write.Field.Sample}
	if p.file.Write.Field.Name == "" {
		config.Field = p.file.Write.Field.Example
	}
	return NewWriter(p, p.SampleConfig(), config, Dependencies{HTTP: client, Limiter: unlimited{}, Now: clock,
		Token: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "sample"})})
}

// writesOneField writes to a record, reads it, and takes it back.
func writesOneField(ctx context.Context, t *try) error {
	w, err := t.writer()
	if err != nil {
		return err
	}
	id, other := t.ids[1], t.ids[2]
	for _, value := range []string{w.Value(connector.FieldActive, ""), ""} {
		t.now = t.now.Add(time.Second)
		if err := t.writes(ctx, w, id, value); err != nil {
			return err
		}
		held, err := w.Read(ctx, []string{id, other})
		if err != nil {
			return err
		}
		if held[id].Value != value || held[other].Value != "" {
			return fmt.Errorf("%q was written to one record; it holds %q, and another one holds %q", value, held[id].Value,
				held[other].Value)
		}
		if err := readsAll(ctx, t); err != nil {
			return err
		}
	}
	return errors.Join(t.seesEdits(ctx, w, id), t.writesInTrouble(ctx, w, id))
}

// writes reads the field of a record, and sets it.
func (t *try) writes(ctx context.Context, w *FieldWriter, id, value string) error {
	held, err := w.Read(ctx, []string{id})
	if err != nil {
		return err
	}
	field, there := held[id]
	if !there || field.Closed != "" {
		return fmt.Errorf("record %s cannot be written to: %s", id, field.Closed)
	}
	frozen, err := w.Freeze(connector.Write{SourceID: id, Field: field, Value: value})
	if err != nil {
		return err
	}
	return w.Send(ctx, "", frozen)
}

// seesEdits tries a write with the version of an older edit, and reads a record that is not there.
func (t *try) seesEdits(ctx context.Context, w *FieldWriter, id string) error {
	held, err := w.Read(ctx, []string{id})
	if err != nil {
		return err
	}
	t.now = t.now.Add(time.Second)
	t.rename(id)
	frozen, err := w.Freeze(connector.Write{SourceID: id, Field: held[id], Value: w.Value(connector.FieldActive, "")})
	if err != nil {
		return err
	}
	if err := w.Send(ctx, "", frozen); held[id].Version != "" && !errors.Is(err, connector.ErrStale) {
		return fmt.Errorf("a write to a record that was edited meanwhile ends with %q", fmt.Sprint(err))
	}
	t.Remove(t.ids[3])
	held, err = w.Read(ctx, []string{t.ids[3]})
	if err == nil && len(held) > 0 {
		err = errors.New("a record that is not there has a field")
	}
	return err
}

// writesInTrouble sends a write into each trouble. None may look as if the field was set.
func (t *try) writesInTrouble(ctx context.Context, w *FieldWriter, id string) error {
	held, err := w.Read(ctx, []string{id})
	if err != nil {
		return err
	}
	frozen, err := w.Freeze(connector.Write{SourceID: id, Field: held[id], Value: w.Value(connector.FieldActive, "")})
	if err != nil {
		return err
	}
	for fault, none := range map[Fault]bool{Down: false, WebPage: false, Cut: false, Redirect: false, Throttled: true,
		Bare: true, Expired: true, Forbidden: true} {
		t.Fault = fault
		err := w.Send(ctx, "", frozen)
		t.Fault = ""
		var refused *connector.WriteRefusedError
		if err == nil || errors.As(err, &refused) || errors.Is(err, connector.ErrNotWritten) != none {
			return fmt.Errorf("%s: a write ends with %q", fault, fmt.Sprint(err))
		}
	}
	return nil
}
