package httpsource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// WriteConfig names the field that write-back sets, and its value for each status of a mandate. Without any value the
// field holds the status itself.
type WriteConfig struct {
	Field     string `yaml:"field,omitempty" jsonschema_description:"The field to set, where the profile leaves the choice. It is there already."`
	Asked     string `yaml:"asked,omitempty" jsonschema_description:"The field's value while a mandate was asked for. Default, if no status has a value, its word: asked."`
	Signed    string `yaml:"signed,omitempty" jsonschema_description:"The field's value once the payer has signed, while the bank decides."`
	Active    string `yaml:"active,omitempty" jsonschema_description:"The field's value for an active mandate."`
	Cancelled string `yaml:"cancelled,omitempty" jsonschema_description:"The field's value for a cancelled mandate."`
}

func (c WriteConfig) of() map[connector.FieldStatus]string {
	out := map[connector.FieldStatus]string{connector.FieldAsked: c.Asked, connector.FieldSigned: c.Signed,
		connector.FieldActive: c.Active, connector.FieldCancelled: c.Cancelled}
	if c.Asked+c.Signed+c.Active+c.Cancelled == "" {
		for standing := range out {
			out[standing] = string(standing)
		}
	}
	return out
}

// FieldWriter sets one field of the records of a profile's system. One goroutine at a time may use it.
type FieldWriter struct {
	source *Source
	writes accounting.Caller // never repeats
	field  string
	values map[connector.FieldStatus]string
	tenant string // the company, once it was read
}

// NewWriter returns a writer to the company of a source. It sends nothing. Its errors begin with the wrong key of w.
func NewWriter(p *Profile, c Config, w WriteConfig, d Dependencies) (*FieldWriter, error) {
	f := p.file.Write
	if f == nil {
		return nil, fmt.Errorf("field: the profile %s does not say how a field is set, so nothing can be written there; use webhook, or leave writeback out",
			p.Name())
	}
	if f.Field.Name != "" && w.Field != "" {
		return nil, fmt.Errorf("field: %s sets %s always; remove the key", p.Name(), f.Field.Name)
	}
	out := &FieldWriter{field: cmp.Or(f.Field.Name, w.Field), values: w.of()}
	if out.field == "" {
		return nil, fmt.Errorf("field: name %s, as %s", f.Field.Is, f.Field.Example)
	}
	if _, err := checkText(out.field, cmp.Or(f.Field.Pattern, ".+")); err != nil {
		return nil, fmt.Errorf("field: %w", err)
	}
	for _, standing := range out.Says() {
		value := out.values[standing]
		if _, err := checkText(value, cmp.Or(f.Field.Value, "[^\r\n]+")); err != nil || strings.TrimSpace(value) != value {
			return nil, fmt.Errorf("%s: %q is no value of %s", standing, value, f.Field.Is)
		}
	}
	var err error
	if out.source, err = New(p, c, d); err != nil {
		return nil, fmt.Errorf("field: %w", err)
	}
	out.writes = out.source.caller
	out.writes.Send = func(r *http.Request) (*http.Response, error) { return d.HTTP.Do(r, transport.Never) }
	return out, nil
}

// Setup names the company, the field, its values, and the request by a hash.
func (w *FieldWriter) Setup() string {
	p := w.source.profile
	text := fmt.Sprintf("%s %s field %q (request %s)", p.Name(), w.source.tenant, w.field, p.write.meaning)
	for _, standing := range w.Says() {
		text += fmt.Sprintf(" %s=%q", standing, w.values[standing])
	}
	return text
}

// Written returns the fields of a record that change with it.
func (w *FieldWriter) Written() []connector.WrittenPart {
	p := w.source.profile
	fields := slices.Clone(p.file.Write.Changes)
	if _, declared := p.kinds[w.field]; declared {
		fields = append(fields, w.field)
	}
	return connector.Map(fields, func(name string) connector.WrittenPart { return connector.WrittenPart{Field: name} })
}

// Says are the standings with a value.
func (w *FieldWriter) Says() []connector.FieldStatus {
	return connector.Filter(connector.FieldStatuses, func(s connector.FieldStatus) bool { return w.values[s] != "" })
}

// Value is the configured value, and for none the earlier one.
func (w *FieldWriter) Value(to connector.FieldStatus, earlier string) string {
	if value := w.values[to]; value != "" {
		return value
	}
	for _, ours := range w.values {
		if ours == earlier {
			return ""
		}
	}
	return earlier
}

// Read returns the field's value of these records. It first checks the company.
func (w *FieldWriter) Read(ctx context.Context, sourceIDs []string) (map[string]connector.WrittenField, error) {
	who, err := w.source.prover.Organisation(ctx)
	if err != nil {
		return nil, err
	}
	w.tenant = who.ID
	out := map[string]connector.WrittenField{}
	for _, id := range sourceIDs {
		field, there, err := w.readOne(ctx, w.vars(who.ID, id, w.field))
		if err != nil {
			return nil, w.source.prover.Doubt(ctx, err)
		}
		if there {
			out[id] = field
		}
	}
	return out, nil
}

// vars are the variables of the requests for one record.
func (w *FieldWriter) vars(tenant, id, field string) map[string]any {
	vars := w.source.request(tenant, time.Time{})
	vars["id"], vars["field"] = id, field
	return vars
}

// readOne reads the field of one record; false for no record.
func (w *FieldWriter) readOne(ctx context.Context, vars map[string]any) (f connector.WrittenField, there bool, err error) {
	const op = "read one field"
	s, file := w.source, w.source.profile.file.Write.Read
	req, err := s.build(ctx, s.profile.write.read, vars)
	if err != nil {
		return f, false, s.unbuilt(op, err)
	}
	a, err := s.ask(ctx, op, req, string(file.Record), vars)
	switch {
	case errors.Is(err, errEmpty), connector.FaultOf(err) == connector.FaultNotFound:
		return f, false, nil
	case err != nil:
		return f, false, err
	case len(a.rows) == 0:
		return f, false, nil
	case len(a.rows) > 1:
		return f, false, s.unusable(op, "it is not one record")
	}
	r := s.reader(s.local(w.tenant))
	if id, err := r.idOf(a.rows[0]); err != nil || id != vars["id"] {
		return f, false, s.unusable(op, "it is not the record that was asked for")
	}
	f, err = w.fieldOf(a.rows[0])
	if err != nil {
		err = s.unusable(op, err.Error())
	}
	return f, true, err
}

// fieldOf reads the field in a record.
func (w *FieldWriter) fieldOf(raw json.RawMessage) (f connector.WrittenField, err error) {
	rules, file := w.source.profile.write, w.source.profile.file
	record, err := valueOf(raw)
	if err != nil {
		return f, err
	}
	env := copyOf(w.source.set)
	env["record"], env["field"] = record, w.field
	v, err := rules.value.run(env)
	if err != nil {
		return f, err
	}
	if f.Value, err = fieldText(v, file.Record.Empty); err != nil {
		return f, err
	}
	if rules.version != nil {
		v, err := rules.version.run(env)
		if f.Version = wordsOf(v); err != nil || f.Version == "" || strings.ContainsAny(f.Version, "\r\n") {
			return f, errors.New("it shows no version of the record")
		}
	}
	for i, closed := range rules.closed {
		yes, err := closed.is(env)
		if err != nil {
			return f, err
		}
		if yes {
			f.Closed = file.Write.Read.Closed[i].Say
			return f, nil
		}
	}
	return f, nil
}

// fieldText is a value as text; "" for null and for what the system writes for nothing.
func fieldText(v any, empty string) (string, error) {
	if v == nil || empty != "" && string(jsonOf(v)) == empty {
		return "", nil
	}
	if flag, isFlag := v.(bool); isFlag {
		return fmt.Sprint(flag), nil
	}
	if words := wordsOf(v); words != "" || v == "" {
		return words, nil
	}
	return "", errors.New("the field holds neither a text nor a whole number")
}

// frozenWrite is a frozen write: what its request is made from, without keys.
type frozenWrite struct {
	Request string `json:"request"` // hash of how it is made
	Tenant  string `json:"tenant"`
	ID      string `json:"id"`
	Field   string `json:"field"`
	Before  string `json:"before"`
	Value   string `json:"value"`
	Version string `json:"version,omitempty"`
}

// Freeze returns the values of the request. Keys are added when it is sent.
func (w *FieldWriter) Freeze(wr connector.Write) ([]byte, error) {
	if wr.SourceID == "" || w.tenant == "" {
		return nil, errors.New("a record without an id, or of a company that was not read, is not written to")
	}
	return json.Marshal(frozenWrite{w.source.profile.write.meaning, w.tenant, wr.SourceID, w.field, wr.Field.Value,
		wr.Value, wr.Field.Version})
}

// Send sets the field, and reads it afterwards.
func (w *FieldWriter) Send(ctx context.Context, _ string, frozen []byte) error {
	const op = "write one field"
	var f frozenWrite
	s, rules := w.source, w.source.profile.write
	if err := json.Unmarshal(frozen, &f); err != nil {
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	}
	if f.Request != rules.meaning {
		return fmt.Errorf("%w: the profile was edited since", connector.ErrNotWritten)
	}
	w.tenant = f.Tenant
	vars := w.vars(f.Tenant, f.ID, f.Field)
	vars["value"], vars["version"] = f.Value, f.Version
	req, err := s.build(ctx, rules.request, vars)
	if err != nil {
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	got, err := w.writes.Do(ctx, op, req)
	if err == nil {
		err = w.judge(ctx, op, got, vars)
	}
	var parked *accounting.Parked
	var gone *accounting.Disconnected
	switch {
	case errors.As(err, &parked):
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	case errors.As(err, &gone):
		return fmt.Errorf("%w: %w; writing needs %s", connector.ErrNotWritten, err,
			cmp.Or(s.profile.file.Write.Needs, "the permission to change customers"))
	case err != nil:
		return err
	}
	return w.verify(ctx, f)
}

// judge returns the error of an answer to a write.
func (w *FieldWriter) judge(ctx context.Context, op string, got accounting.Answer, vars map[string]any) error {
	s, rules, title := w.source, w.source.profile.write, w.source.profile.Title()
	a := s.answerOf(got, vars)
	if len(got.Body) > 0 {
		if json.Valid(got.Body) {
			a.env["body"], _ = valueOf(got.Body)
		} else if got.Status < http.StatusMultipleChoices {
			return s.unusable(op, accounting.NotJSON(got.Body)+" came instead of JSON")
		}
	}
	if rules.stale != nil {
		if yes, err := rules.stale.is(a.env); err == nil && yes {
			return connector.ErrStale
		}
	}
	err := s.byRules(ctx, op, a)
	if err == nil && got.Status < http.StatusMultipleChoices {
		if rules.done != nil {
			if yes, err := rules.done.is(a.env); err != nil || !yes {
				return s.unusable(op, "it does not say that the field was set")
			}
		}
		return nil
	}
	if err == nil {
		err = s.byStatus(ctx, op, a)
	}
	noun := s.profile.file.Record.Noun
	switch connector.FaultOf(err) {
	case connector.FaultNotFound:
		return &connector.WriteRefusedError{Why: fmt.Sprintf("The %s is not in %s any more.", noun, title), Err: err}
	case connector.FaultRejected:
		return &connector.WriteRefusedError{Why: fmt.Sprintf("%s refuses to set %s (HTTP %d).", title, w.field, got.Status),
			Err: err}
	}
	return err
}

// verify reads the field after a write. A value that is neither the new nor the former one means an unknown outcome.
func (w *FieldWriter) verify(ctx context.Context, f frozenWrite) error {
	title := w.source.profile.Title()
	now, there, err := w.readOne(ctx, w.vars(f.Tenant, f.ID, f.Field))
	switch {
	case err != nil:
		return fmt.Errorf("%s took the value, and the field cannot be read: %w", title, err)
	case !there:
		return &connector.WriteRefusedError{Why: "The record is not there any more."}
	case now.Value != f.Value && now.Value != f.Before:
		return fmt.Errorf("somebody else changed the field right after %s took the value", title)
	case now.Value != f.Value:
		return &connector.WriteRefusedError{Why: fmt.Sprintf("%s took the value, and %s does not hold it afterwards; look whether the field is there, and takes such a value.",
			title, f.Field)}
	}
	return nil
}

// Probe says what is written. It writes nothing.
func (w *FieldWriter) Probe(ctx context.Context) accounting.Probe {
	if _, err := w.source.prover.Organisation(ctx); err != nil {
		return accounting.Probe{Name: "write-back", Detail: err.Error()}
	}
	return accounting.Probe{Name: "write-back", OK: true, Detail: fmt.Sprintf("sets %s of a %s; whether payersync may write shows with the first write",
		w.field, w.source.profile.file.Record.Noun)}
}

// inPath returns variables whose id and field may stand in a path.
func inPath(env map[string]any) map[string]any {
	id, ofOne := env["id"].(string)
	if !ofOne {
		return env
	}
	out := copyOf(env)
	field, _ := env["field"].(string)
	out["id"], out["field"] = url.PathEscape(id), url.PathEscape(field)
	return out
}
