package httpsource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/expr-lang/expr/types"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/mapping/strict"
)

// Fake is a model of a profile's system, made from its model, list and fake. A test against it
// finds mistakes inside the profile. It cannot find a wrong fact about the real system. It is an http.RoundTripper that
// sends nothing.
type Fake struct {
	After func()           // is called behind each page; may be nil
	Now   func() time.Time // the system's clock
	Fault Fault            // what it suffers from now

	profile   *Profile
	source    *Source // for the variables and addresses
	mu        sync.Mutex
	customers []*customer
	made      int
	keys      map[string]key // the place of each variable in a request
	expected  map[string]string
	paths     []string // of requests for the list
}

// customer is one record of the model.
type customer struct {
	number   int
	name     string
	state    connector.RecordState
	survivor string
	updated  time.Time
	spoilt   bool
	value    string // of the field that write sets
}

// Fault is a trouble of a Fake.
type Fault string

// The troubles.
const (
	Down       Fault = "server error"
	Overloaded Fault = "overloaded"
	WebPage    Fault = "web page"
	Cut        Fault = "cut off"
	NoList     Fault = "no list"
	Throttled  Fault = "throttled, with the time to go on"
	Bare       Fault = "throttled, without a time"
	Expired    Fault = "credentials refused"
	Forbidden  Fault = "access withdrawn"
	Redirect   Fault = "redirected"
	Elsewhere  Fault = "next page on another host"
)

// compileFake compiles the shape of the system's answers.
func (p *Profile) compileFake(c *compiling) {
	at, f := strict.Path{"fake"}, p.file.Fake
	set, _, _, _, _, _ := p.names()
	page := set.with(types.Map{"rows": types.Any, "page": types.Int, "pages": types.Int, "total": types.Int,
		"size": types.Int, "next": types.Any, "cursor": types.Any, "found": types.Int})
	record := set.with(types.Map{"id": types.String, "number": types.Int, "name": types.String, "state": types.String,
		"survivor": types.Any, "updated": types.Any, "value": types.String})
	p.fakeAnswer, p.fakeTenant = c.holes(at.Key("answer"), f.Answer, page), c.holes(at.Key("tenant"), f.Tenant, set)
	p.fakeRecord, p.fakeRow, p.fakeJoin = c.holes(at.Key("record"), any(f.Record), record),
		c.holes(at.Key("row"), any(f.Row), record), c.holes(at.Key("join"), any(f.Join), record)
	p.fakeLogin = c.holes(at.Key("login"), f.Login, set)
	p.fakeWrote = c.holes(at.Key("wrote"), f.Wrote, record.with(types.Map{"record": types.Any}))
	headers := map[string]any{}
	for name, t := range f.Headers {
		headers[name] = string(t)
	}
	p.fakeHeaders = c.holes(at.Key("headers"), any(headers), page)
}

// NewFake returns the model of a profile's system, without customers, as a source with these settings reads it.
func NewFake(p *Profile, c Config, now func() time.Time) (*Fake, error) {
	if p.file.Fake == nil {
		return nil, errors.New("the profile has no block fake, so there is no model of its system")
	}
	s, err := New(p, c, Dependencies{Now: now})
	if err != nil {
		return nil, err
	}
	f := &Fake{Now: now, profile: p, source: s}
	if s.keys != nil {
		s.login = f.session
	}
	return f, f.learn()
}

// key is how one variable stands in a request.
type key struct {
	name           string // of the part of the request
	before, behind string // what is around a text
	at0, step      int    // of a number: its value at 0, and for each one more
}

// Marks that stand for the texts of a request while the model learns their places.
const markSince, markAfter, markCursor = "@since@", "@after@", "@cursor@"

// learned is the page size with which the model learns where variables stand in a request. A number that grows by it
// from one page to the next is an offset.
const learned = 10

// learn finds out where the variables stand in a request for the list, by writing it several times.
func (f *Fake) learn() error {
	first, err := f.flat(map[string]any{})
	if err != nil {
		return err
	}
	f.keys = map[string]key{}
	f.expected = first
	for name, with := range map[string]struct {
		vars map[string]any
		mark string
	}{"page": {map[string]any{"page": 1, "offset": learned}, ""},
		"size":   {map[string]any{"size": learned + 1}, strconv.Itoa(learned + 1)},
		"since":  {map[string]any{"since": markSince, "full": false}, markSince},
		"after":  {map[string]any{"after": markAfter}, markAfter},
		"cursor": {map[string]any{"cursor": markCursor}, markCursor}} {
		other, err := f.flat(with.vars)
		if err != nil {
			return err
		}
		f.paths = append(f.paths, other["path"])
		for part, value := range other {
			if k, found := placeOf(first[part], value, with.mark); found {
				k.name = part
				f.keys[name] = k
			}
		}
	}
	for _, k := range f.keys {
		delete(f.expected, k.name)
	}
	delete(f.expected, "path")
	return nil
}

// placeOf returns the place of a variable in a part of a request, which is first without it, and other with it. A
// variable without a mark is a number.
func placeOf(first, other, mark string) (key, bool) {
	if first == other {
		return key{}, false
	}
	if mark != "" {
		before, behind, found := strings.Cut(other, mark)
		return key{before: before, behind: behind}, found
	}
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(other)
	return key{at0: a, step: b - a}, err1 == nil && err2 == nil
}

// flat writes a request for the first page of a full read, but with other variables, and returns its parts by name.
func (f *Fake) flat(vars map[string]any) (map[string]string, error) {
	env := f.source.request(f.tenant(), time.Time{})
	env["size"] = learned
	maps.Copy(env, vars)
	req, err := f.source.build(connector.WithOperation(context.Background(), opList), f.profile.list, env)
	if err != nil {
		return nil, err
	}
	return parts(req)
}

// parts returns the parts of a request by name: its path, its query, and the values of its body.
func parts(req *http.Request) (map[string]string, error) {
	out := map[string]string{"path": req.URL.Path}
	for name, values := range req.URL.Query() {
		out["query "+name] = strings.Join(values, " ")
	}
	for name := range req.Header {
		out["header "+name] = req.Header.Get(name)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil || len(body) == 0 {
		return out, err
	}
	var v any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	flatten(out, "body", v)
	return out, nil
}

func flatten(out map[string]string, at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			flatten(out, at+"."+name, v[name])
		}
	case []any:
		for i := range v {
			flatten(out, at+"."+strconv.Itoa(i), v[i])
		}
	default:
		out[at] = fmt.Sprint(v)
	}
}

// tenant is the id of the model's company.
func (f *Fake) tenant() string {
	body, _ := filled(f.profile.fakeTenant, f.source.set)
	raw, _ := json.Marshal(body)
	_, rows, _, _ := split(raw, string(f.profile.file.Tenant.Records), true)
	if len(rows) == 0 {
		return ""
	}
	v, _ := valueOf(rows[0])
	env := copyOf(f.source.set)
	members, _ := v.(map[string]any)
	maps.Copy(env, members)
	env["record"] = v
	id, _ := f.profile.tenantID.run(env)
	return f.source.prefix() + wordsOf(id)
}

// Add adds customers and returns their ids.
func (f *Fake) Add(n int) (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		f.made++
		c := &customer{number: 1000 + f.made, name: fmt.Sprintf("Customer %d", f.made), state: connector.RecordActive,
			updated: f.Now()}
		f.customers = append(f.customers, c)
		ids = append(ids, strconv.Itoa(c.number))
	}
	return ids
}

// Change changes a customer, and its time of last edit.
func (f *Fake) Change(id string, change func(name *string, state *connector.RecordState, survivor *string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.find(id); c != nil {
		change(&c.name, &c.state, &c.survivor)
		c.updated = f.Now()
	}
}

// Remove takes a customer out of the system without a trace.
func (f *Fake) Remove(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.customers = slices.DeleteFunc(f.customers, func(c *customer) bool { return strconv.Itoa(c.number) == id })
}

// Spoil makes a customer's record unreadable. Only tests call it: a check has no bad records.
func (f *Fake) Spoil(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.find(id); c != nil {
		c.spoilt, c.updated = true, f.Now()
	}
}

// Tie gives customers the same time of last edit. Only tests call it: a check edits one after the other.
func (f *Fake) Tie(ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if c := f.find(id); c != nil {
			c.updated = f.Now()
		}
	}
}

func (f *Fake) find(id string) *customer {
	i := slices.IndexFunc(f.customers, func(c *customer) bool { return strconv.Itoa(c.number) == id })
	if i < 0 {
		return nil
	}
	return f.customers[i]
}

// Truth returns what a complete read must give, without the spoilt records.
func (f *Fake) Truth() (out []connector.Record, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.customers {
		if c.spoilt {
			continue
		}
		raw, err := f.record(c)
		if err != nil {
			return nil, err
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, err
		}
		for _, j := range f.profile.file.List.Join {
			row, err := f.part(f.profile.fakeJoin.(map[string]any)[j.Name], c)
			if err != nil {
				return nil, err
			}
			if members[j.Name], err = json.Marshal([]any{row}); err != nil {
				return nil, err
			}
		}
		data, problem := accounting.DeclaredMembers(f.source.reader("").withoutEmpty(members), f.profile.fields)
		if problem != "" {
			return nil, errors.New("fake.record does not fit record.fields: " + problem)
		}
		out = append(out, connector.Record{SourceID: strconv.Itoa(c.number), State: c.state, MergedInto: c.survivor,
			Data: data})
	}
	return out, nil
}

// record writes a customer as the system does.
func (f *Fake) record(c *customer) (json.RawMessage, error) {
	v, err := f.part(f.profile.fakeRecord, c)
	if err != nil {
		return nil, err
	}
	if members, ok := v.(map[string]any); ok && c.spoilt {
		f.spoil(members)
	}
	return json.Marshal(v)
}

// part fills the shape of a customer, of its row in the list, or of what belongs to it.
func (f *Fake) part(shape any, c *customer) (any, error) {
	return filled(shape, f.vars(c))
}

// vars are the variables of the shapes of a customer.
func (f *Fake) vars(c *customer) map[string]any {
	env := copyOf(f.source.set)
	env["value"] = c.value
	env["id"], env["number"], env["name"], env["state"], env["survivor"] = strconv.Itoa(c.number), c.number, c.name,
		string(c.state), nil
	if c.survivor != "" {
		env["survivor"] = c.survivor
	}
	if times := f.profile.file.Record.Times; len(times) > 0 {
		env["updated"] = written(times[0], c.updated, f.source.zone)
	}
	return env
}

// spoil gives the first field that no rule reads a value of another kind.
func (f *Fake) spoil(members map[string]any) {
	for _, field := range f.profile.fields {
		if _, there := members[field.Name]; !there || slices.Contains(f.profile.recordNames, field.Name) {
			continue
		}
		if members[field.Name] = 7; field.Type == connector.TypeText {
			members[field.Name] = map[string]any{"broken": true}
		}
		return
	}
}

// written is a time in one of a profile's forms.
func written(form string, t time.Time, zone *time.Location) any {
	switch form {
	case "ms-date":
		_, offset := t.In(zone).Zone()
		return fmt.Sprintf("/Date(%d)/", t.UnixMilli()+int64(offset)*1000)
	case "unix":
		return t.Unix()
	case "unix-ms":
		return t.UnixMilli()
	}
	return t.In(zone).Format(form)
}
