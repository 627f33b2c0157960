package tryton

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// CategoryConfig assigns a category to each status of a mandate. Categories are names shown in Tryton, and must
// exist there. For a status without a category, the party is in none of them.
type CategoryConfig struct {
	Asked     string `yaml:"asked,omitempty" jsonschema_description:"The category of parties whose mandate was asked for."`
	Signed    string `yaml:"signed,omitempty" jsonschema_description:"The category of parties who have signed, while the bank decides."`
	Active    string `yaml:"active,omitempty" jsonschema_description:"The category of parties whose mandate is active."`
	Cancelled string `yaml:"cancelled,omitempty" jsonschema_description:"The category of parties whose mandate was cancelled."`
}

func (c CategoryConfig) of() map[connector.FieldStatus]string {
	return map[connector.FieldStatus]string{
		connector.FieldAsked: c.Asked, connector.FieldSigned: c.Signed, connector.FieldActive: c.Active,
		connector.FieldCancelled: c.Cancelled,
	}
}

// CategoryWriter puts parties into categories, and takes them out of no others than these. It may be
// used by one goroutine at a time.
type CategoryWriter struct {
	rpc    *client
	config CategoryConfig
	ids    map[string]int64 // of our categories, once they are known
}

// NewWriter returns a writer to the database of a source. It sends nothing. Its errors begin with the wrong
// key of w.
func NewWriter(c Config, w CategoryConfig, d Deps) (*CategoryWriter, error) {
	taken := map[string]connector.FieldStatus{}
	for _, standing := range connector.FieldStatuses {
		name := w.of()[standing]
		if name == "" {
			continue
		}
		if strings.TrimSpace(name) != name {
			return nil, fmt.Errorf("%s: %q begins or ends with a blank; write the category as Tryton shows it", standing, name)
		}
		if other, is := taken[name]; is {
			return nil, fmt.Errorf("%s: the category %q is that of %s already; give each status its own, or none", standing,
				name, other)
		}
		taken[name] = standing
	}
	if len(taken) == 0 {
		return nil, errors.New("active: no status has a category; name at least that of active")
	}
	s, err := New(c, d)
	if err != nil {
		return nil, err
	}
	return &CategoryWriter{rpc: s.rpc, config: w}, nil
}

// Setup names the categories.
func (w *CategoryWriter) Setup() string {
	text := fmt.Sprintf("tryton %s %s", w.rpc.path, w.rpc.user)
	for _, standing := range w.Says() {
		text += fmt.Sprintf(" %s=%q", standing, w.config.of()[standing])
	}
	return text
}

// Written is the part of a record that changes with it: our categories only.
func (w *CategoryWriter) Written() []connector.WrittenPart {
	part := connector.WrittenPart{Field: "categories"}
	part.Values = append(part.Values,
		connector.Map(w.Says(), func(standing connector.FieldStatus) string { return w.config.of()[standing] })...)
	return []connector.WrittenPart{part}
}

// Says returns the standings with a category.
func (w *CategoryWriter) Says() (out []connector.FieldStatus) {
	return connector.Filter(connector.FieldStatuses,
		func(standing connector.FieldStatus) bool { return w.config.of()[standing] != "" })
}

// Value is the category, and blank for none.
func (w *CategoryWriter) Value(to connector.FieldStatus, _ string) string { return w.config.of()[to] }

// categories finds the ids of our categories. None is ever made.
func (w *CategoryWriter) categories(ctx context.Context) (map[string]int64, error) {
	if w.ids != nil {
		return w.ids, nil
	}
	names := connector.Map(w.Says(), func(standing connector.FieldStatus) string { return w.config.of()[standing] })
	var rows []struct {
		ID   int64  `json:"id"`
		Name string `json:"name"`
	}
	if err := w.rpc.call(ctx, "model.party.category.search_read", &rows, []any{[]any{"name", "in", names}}, 0, nil, nil,
		[]string{"name"}, map[string]any{}); err != nil {
		return nil, err
	}
	ids := map[string]int64{}
	for _, r := range rows {
		if _, is := ids[r.Name]; is {
			return nil, fmt.Errorf("the category %q is there twice in Tryton; give one of them another name, or name another in the configuration", r.Name)
		}
		ids[r.Name] = r.ID
	}
	for _, name := range names {
		if _, is := ids[name]; !is {
			return nil, fmt.Errorf("there is no active category %q in Tryton; make it there, under Party, Configuration, Categories: payersync makes none", name)
		}
	}
	w.ids = ids
	return ids, nil
}

// between separates the names of several categories.
const between = " and "

// Read returns the parties' categories, of ours only.
func (w *CategoryWriter) Read(ctx context.Context, sourceIDs []string) (map[string]connector.WrittenField, error) {
	ours, err := w.categories(ctx)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, id := range sourceIDs {
		if n, err := strconv.ParseInt(id, 10, 64); err == nil {
			ids = append(ids, n)
		}
	}
	var rows []struct {
		ID         int64   `json:"id"`
		Active     flag    `json:"active"`
		Categories []int64 `json:"categories"`
	}
	if err := w.rpc.call(ctx, "model.party.party.search_read", &rows, []any{[]any{"id", "in", ids}}, 0, nil, nil,
		[]string{"active", "categories"}, inactiveToo); err != nil {
		return nil, err
	}
	out := make(map[string]connector.WrittenField, len(rows))
	for _, r := range rows {
		var in []string
		for name, id := range ours {
			if slices.Contains(r.Categories, id) {
				in = append(in, name)
			}
		}
		slices.Sort(in)
		field := connector.WrittenField{Value: strings.Join(in, between)}
		if r.Active.off() {
			field.Closed = "the party is not active"
		}
		out[strconv.FormatInt(r.ID, 10)] = field
	}
	return out, nil
}

// Freeze returns the parameters of the call: put into one category, take out of our others.
func (w *CategoryWriter) Freeze(wr connector.Write) ([]byte, error) {
	id, err := strconv.ParseInt(wr.SourceID, 10, 64)
	if err != nil {
		return nil, errors.New("the id of the party is no number")
	}
	if w.ids == nil {
		return nil, errors.New("the categories were not looked up")
	}
	var commands []any
	for _, standing := range w.Says() {
		name := w.config.of()[standing]
		switch {
		case name == wr.Value:
			commands = append(commands, []any{"add", []int64{w.ids[name]}})
		case slices.Contains(strings.Split(wr.Field.Value, between), name):
			commands = append(commands, []any{"remove", []int64{w.ids[name]}})
		}
	}
	return json.Marshal([]any{[]int64{id}, map[string]any{"categories": commands}, map[string]any{}})
}

// Send makes the call.
func (w *CategoryWriter) Send(ctx context.Context, _ string, frozen []byte) error {
	var parts []json.RawMessage // as they were frozen
	if err := json.Unmarshal(frozen, &parts); err != nil {
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	}
	params := make([]any, len(parts))
	for i := range parts {
		params[i] = parts[i]
	}
	session, err := w.rpc.login(ctx, "")
	if err == nil {
		if err = w.send(ctx, session, params); errors.Is(err, errSession) {
			if session, err = w.rpc.login(ctx, session); err == nil {
				err = w.send(ctx, session, params)
			}
		}
	} else {
		err = fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	}
	if errors.Is(err, errSession) {
		err = fmt.Errorf("%w: Tryton refuses the session", connector.ErrNotWritten)
	}
	return err
}

// send makes the call once: nothing repeats it behind our back.
func (w *CategoryWriter) send(ctx context.Context, session string, params []any) error {
	const method = "model.party.party.write"
	got, err := w.rpc.post(ctx,
		request{url: w.rpc.path, session: session, method: method, params: params, repeat: transport.Never})
	var parked *accounting.Parked
	switch {
	case errors.As(err, &parked):
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	case err != nil:
		return err
	case got.status == http.StatusUnauthorized:
		return errSession
	case got.status == http.StatusForbidden:
		return fmt.Errorf("%w: %w", connector.ErrNotWritten,
			&accounting.Disconnected{Reason: "its user may not use " + method})
	case got.status == http.StatusTooManyRequests || got.status >= 400 && got.status < 500:
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, w.rpc.refusedCall(got))
	case got.status != http.StatusOK:
		return w.rpc.refusedCall(got)
	}
	return w.judge(got.body)
}

// judge reads the answer to the call, which has no result on success.
func (w *CategoryWriter) judge(body []byte) error {
	var said struct {
		Error []json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return failed("the answer to the write has another form than is known")
	}
	if said.Error == nil {
		return nil
	}
	var kind string
	if len(said.Error) > 0 {
		_ = json.Unmarshal(said.Error[0], &kind) // other than text has no kind
	}
	switch {
	case strings.HasPrefix(kind, "403"), strings.Contains(kind, "Forbidden"):
		return fmt.Errorf("%w: %w", connector.ErrNotWritten,
			&accounting.Disconnected{Reason: "its user may not write parties"})
	case strings.HasPrefix(kind, "401"):
		return errSession
	case !errorKind.MatchString(kind):
		kind = "an error of its own"
	}
	return &connector.WriteRefusedError{Why: fmt.Sprintf("Tryton refuses to write to the party (%s); check that its user may write parties.", kind)}
}

// Probe tests the needs of a write, and writes nothing: the categories, and the right to write.
func (w *CategoryWriter) Probe(ctx context.Context) accounting.Probe {
	if _, err := w.categories(ctx); err != nil {
		return accounting.Probe{Name: "write-back", Detail: err.Error()}
	}
	var access map[string]struct {
		Write flag `json:"write"`
	}
	if err := w.rpc.call(ctx, "model.ir.model.access.get_access", &access, []string{"party.party"},
		struct{}{}); err != nil {
		return accounting.Probe{Name: "write-back", Detail: err.Error()}
	}
	if access["party.party"].Write.off() {
		return accounting.Probe{Name: "write-back",
			Detail: "its user may not write parties; allow it in Tryton, under Administration, Users"}
	}
	return accounting.Probe{Name: "write-back", OK: true, Detail: connector.Plural(len(w.ids), "category") +
		", and its user may write parties"}
}
