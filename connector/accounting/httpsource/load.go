package httpsource

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/types"

	"payersync/connector"
	"payersync/mapping/strict"
)

// MaxProfile is the largest readable profile, in bytes.
const MaxProfile = 100 << 10

// Profile describes one accounting system. It is safe for concurrent use.
type Profile struct {
	file    profileFile
	meaning string
	fields  []connector.Field
	walk    Walk

	base, within, zone       *template
	authorize, token         *template
	headers, authHeaders     map[string]*template
	tenant, list             request
	login, detail            request
	session                  *rule
	joins                    []join
	tenantWhere              *rule
	tenantID, tenantName     *rule
	last, next, after        *rule
	cursor                   *rule
	total, empty             *rule
	refuse, problems         []*rule
	errors, states           []*rule
	survivors                []*rule
	id, updated              *rule
	probes                   []request
	write                    *write // nil if nothing is ever written
	probeWhen                []*rule
	recordNames              []string // the fields that rules of a record read
	fakeAnswer, fakeTenant   any
	fakeRecord, fakeHeaders  any
	fakeRow, fakeJoin        any
	fakeLogin, fakeWrote     any
	kinds                    map[string]connector.FieldType
	hostIsSetting, wholeOnly bool
}

// join is a further list whose rows belong to records.
type join struct {
	request
	of, id, last, total *rule
}

// request is a compiled request.
type request struct {
	method         string
	path           *template
	query, headers map[string]*template
	body           any // of maps, lists, constants and templates
}

// The kinds of credentials.
const (
	AuthHeader = "header"        // fixed keys
	AuthLogin  = "login"         // keys in the bodies of requests, after a login
	AuthCode   = "oauth2-code"   // a person's consent
	AuthClient = "oauth2-client" // the app alone
)

// hidden is a time of edit that the system filters by and never shows.
const hidden = "hidden"

// Walk is how a list is read. It is derived from the profile.
type Walk string

// The walks.
const (
	Keyset  Walk = "behind a key: one pass" // pages cannot skip a record
	Counted Walk = "by position: passes until two agree"
)

// Load reads a profile that is whole, the content of the file called name. The error is a *strict.Error with every
// problem.
func Load(name string, data []byte) (*Profile, error) { return LoadOver(name, data, nil) }

// LoadOver is Load for a profile that may extend a shipped one. shipped returns the text of a shipped profile.
func LoadOver(name string, data []byte, shipped func(name string) ([]byte, error)) (*Profile, error) {
	if len(data) > MaxProfile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, MaxProfile)
	}
	if err := stillOpen(name, data); err != nil {
		return nil, err
	}
	written, doc, err := strict.LoadOver(name, data, profileFile{},
		strict.Over{Key: "extends", Read: shipped, ByName: []strict.Path{{"record", "fields"}}})
	if err != nil {
		return nil, err
	}
	c := &compiling{doc: doc}
	if written.Extends != "" && shipped == nil {
		c.report(doc.Problem(strict.Path{"extends"}, "a shipped profile is whole; remove extends"))
	}
	if doc.Inherited(strict.Path{"proven", "live"}) {
		written.Proven.Live = "never" // what a company proved of the shipped profile proves nothing of this one
	}
	p := &Profile{file: written, kinds: map[string]connector.FieldType{}}
	p.fields = c.declare(strict.Path{"record", "fields"}, written.Record.Fields)
	for _, f := range p.fields {
		p.kinds[f.Name] = f.Type
	}
	p.compile(c)
	if len(c.problems) == 0 {
		p.derive(c)
	}
	if err := strict.NewError(c.problems); err != nil {
		return nil, err
	}
	if p.meaning, err = meaningOf(written); err != nil {
		return nil, fmt.Errorf("%s: a body is no JSON: %w", name, err)
	}
	return p, nil
}

// declare turns written fields into declared ones.
func (c *compiling) declare(at strict.Path, written []fieldFile) (out []connector.Field) {
	met := map[string]bool{}
	for i, f := range written {
		here := at.Index(i)
		kind := connector.FieldType(f.Type)
		if kind == "" {
			kind = connector.TypeText
		}
		switch {
		case met[strings.ToLower(f.Name)]:
			c.report(c.doc.Problem(here.Key("name"), "the field %q is declared twice", f.Name))
		case kind == connector.TypeObject && len(f.Fields) == 0:
			c.report(c.doc.Problem(here.Key("name"), "the object %s has no fields; name those that a mapping may read", f.Name))
		case len(f.Fields) > 0 && kind != connector.TypeObject && kind != connector.TypeList:
			c.report(c.doc.Problem(here.Key("name"), "%s has fields of its own, so its type is object or list", f.Name))
		case len(f.Export) > 0 && kind != connector.TypeText && kind != connector.TypeNumber:
			c.report(c.doc.Problem(here.Key("export"), "%s is a %s, and only a text or a number identifies a customer in an export",
				f.Name, kind))
		}
		met[strings.ToLower(f.Name)] = true
		out = append(out, connector.Field{Name: f.Name, Type: kind, Description: f.Is, Example: string(f.Example),
			Exported: f.Export, Fields: c.declare(here.Key("fields"), f.Fields)})
	}
	return out
}

// The variables of each place.
func (p *Profile) names() (set, request, answer, failure, record, row names) {
	settings := types.Map{}
	for name, s := range p.file.Settings {
		if s.Type != "secret" {
			settings[name] = types.Any
		}
	}
	set = names{vars: types.Map{"set": settings}}
	request = set.with(types.Map{"full": types.Bool, "since": types.Any, "page": types.Int, "offset": types.Int,
		"size": types.Int, "after": types.Any, "cursor": types.Any, "tenant": types.String, "fields": types.TypeOf([]any{})})
	said := types.Map{"status": types.Int, "body": types.Any, "header": types.TypeOf(func(string) string { return "" }),
		"link": types.TypeOf(func(string) string { return "" })}
	answer = request.with(said).with(types.Map{"rows": types.Int})
	failure = set.with(said).with(types.Map{"text": types.String})
	record = set.with(types.Map{"tenant": types.String, "record": types.Any})
	record.kinds = p.kinds
	for _, f := range p.fields {
		record.vars[f.Name] = types.Any
	}
	for _, undeclared := range []string{p.file.Model.Changed, p.file.Model.Order} {
		if _, declared := record.vars[undeclared]; !declared && undeclared != "none" && undeclared != hidden {
			record.vars[undeclared] = types.Any
		}
	}
	row = set.with(types.Map{"record": types.Any})
	row.open = true
	return set, request, answer, failure, record, row
}

func (n names) with(more types.Map) names {
	vars := maps.Clone(n.vars)
	maps.Copy(vars, more)
	return names{vars: vars}
}

// secretNames are the variables of the headers with the keys.
func (p *Profile) secretNames(set names) names {
	secrets := types.Map{}
	for name, s := range p.file.Settings {
		if s.Type == "secret" {
			secrets[name] = types.Any
		}
	}
	return set.with(types.Map{"secret": secrets})
}

// compile compiles every expression.
func (p *Profile) compile(c *compiling) {
	f, top := &p.file, func(keys ...string) strict.Path { return keys }
	set, req, answer, failure, record, row := p.names()
	p.base, p.within = c.template(top("base"), f.Base, set), c.template(top("tenant", "within"), f.Tenant.Within, set)
	p.zone = c.template(top("record", "zone"), f.Record.Zone, set)
	p.authorize, p.token = c.template(top("auth", "authorize"), f.Auth.Authorize, set),
		c.template(top("auth", "token"), f.Auth.Token, set)
	p.headers = c.templates(top("headers"), f.Headers, req)
	p.authHeaders = c.templates(top("auth", "headers"), f.Auth.Headers, p.secretNames(set))
	if f.Auth.Kind == AuthLogin {
		c.secrets = p.secretNames(req).with(types.Map{"session": types.Any}).vars
	}
	p.tenant, p.list = c.request(top("tenant"), f.Tenant.requestFile, req), c.request(top("list"), f.List.requestFile, req)
	p.compileFurther(c, req, row)
	p.tenantWhere = c.rule(top("tenant", "where"), f.Tenant.Where, row, true)
	p.tenantID, p.tenantName = c.rule(top("tenant", "id"), f.Tenant.ID, row, false),
		c.rule(top("tenant", "name"), f.Tenant.Title, row, false)
	list := func(key string, e expression, flag bool) *rule { return c.rule(top("list", key), e, answer, flag) }
	p.last, p.next, p.total, p.empty = list("last", f.List.Last, true), list("next", f.List.Next, false),
		list("total", f.List.Total, false), list("empty", f.List.Empty, true)
	p.cursor = list("cursor", f.List.Cursor, false)
	p.after = c.rule(top("list", "after"), f.List.After, record, false)
	for i, r := range f.List.Refuse {
		p.refuse = append(p.refuse, c.rule(top("list", "refuse").Index(i).Key("when"), r.When, answer, true))
	}
	for i, r := range f.Errors {
		p.errors = append(p.errors, c.rule(top("errors").Index(i).Key("when"), r.When, failure, true))
	}
	p.compileRecord(c, record)
	p.compileWrite(c, req, row)
	for i, probe := range f.Probes {
		at := top("probes").Index(i)
		p.probes = append(p.probes, c.request(at, probe.requestFile, req))
		p.probeWhen = append(p.probeWhen, c.rule(at.Key("when"), probe.When, failure, true))
	}
	if f.Fake != nil {
		p.compileFake(c)
	}
}

// compileFurther compiles the requests besides those of the list and the company.
func (p *Profile) compileFurther(c *compiling, req, row names) {
	list, at := p.file.List, strict.Path{"list"}
	if l := p.file.Auth.Login; l != nil {
		here := strict.Path{"auth", "login"}
		p.login = c.request(here, l.requestFile, req)
		p.session = c.rule(here.Key("session"), l.Session, names{vars: types.Map{"status": types.Int, "body": types.Any}},
			false)
	}
	if list.Detail != nil {
		p.detail = c.request(at.Key("detail"), list.Detail.requestFile, req.with(types.Map{"row": types.Any}))
	}
	_, _, answer, _, _, _ := p.names()
	for i, j := range list.Join {
		here := at.Key("join").Index(i)
		p.joins = append(p.joins,
			join{c.request(here, j.requestFile, req), c.rule(here.Key("of"), j.Of, row, false),
				c.rule(here.Key("id"), j.ID, row, false),
				c.rule(here.Key("last"), j.Last, answer, true), c.rule(here.Key("total"), j.Total, answer, false)})
		if p.kinds[j.Name] != connector.TypeList {
			c.report(c.doc.Problem(here.Key("name"), "record.fields declares no list %s; declare it there, with its fields",
				j.Name))
		}
	}
}

func (p *Profile) compileRecord(c *compiling, record names) {
	f, at := p.file.Record, strict.Path{"record"}
	p.id, p.updated = c.rule(at.Key("id"), f.ID, record, false), c.rule(at.Key("updated"), f.Updated, record, false)
	for i, s := range f.States {
		here := at.Key("states").Index(i)
		p.states = append(p.states, c.rule(here.Key("when"), s.When, record, true))
		p.survivors = append(p.survivors, c.rule(here.Key("into"), s.Into, record, false))
		if (s.Is == "merged") != (s.Into != "") {
			c.report(c.doc.Problem(here.Key("is"),
				"the state merged names the survivor's id under into, and no other state does"))
		}
	}
	for i, r := range f.Problems {
		p.problems = append(p.problems, c.rule(at.Key("problems").Index(i).Key("when"), r.When, record, true))
	}
	met := map[string]bool{}
	for _, r := range slices.Concat([]*rule{p.id, p.updated, p.after}, p.states, p.survivors, p.problems) {
		if r == nil {
			continue
		}
		for _, name := range r.reads {
			met[name] = true
		}
	}
	p.recordNames = slices.Sorted(maps.Keys(met))
	for i, layout := range f.Times {
		if !slices.Contains([]string{"ms-date", "unix", "unix-ms"}, layout) && !strings.Contains(layout, "2006") {
			c.report(c.doc.Problem(at.Key("times").Index(i),
				"%q is no form of a time; write how the moment Go calls 2006-01-02T15:04:05Z07:00 looks, or ms-date, unix or unix-ms", layout))
		}
	}
}

func (c *compiling) templates(at strict.Path, written map[string]text, n names) map[string]*template {
	out := map[string]*template{}
	for _, key := range slices.Sorted(maps.Keys(written)) {
		out[key] = c.template(at.Key(key), written[key], n)
	}
	return out
}

func (c *compiling) request(at strict.Path, f requestFile, n names) request {
	out := request{method: "GET", path: c.template(at.Key("path"), f.Path, n),
		query: c.templates(at.Key("query"), f.Query, n), headers: c.templates(at.Key("headers"), f.Headers, n)}
	if !strings.HasPrefix(string(f.Path), "/") && !strings.HasPrefix(string(f.Path), "${") {
		c.report(c.doc.Problem(at.Key("path"), "%s begins with a slash: it is below base", at.Key("path")))
	}
	if strings.Contains(string(f.Path), "?") && !strings.Contains(string(f.Path), "${") {
		c.report(c.doc.Problem(at.Key("path"), "what follows the ? in %s belongs under query, as one key for each parameter",
			at.Key("path")))
	}
	switch {
	case f.Method == "POST" && !f.Reads:
		c.report(c.doc.Problem(at.Key("method"),
			"%s is POST; if this request changes nothing in the system, say so with reads: true", at.Key("method")))
	case f.Method == "POST":
		if c.secrets != nil {
			n = n.with(c.secrets)
		}
		out.method, out.body = "POST", c.holes(at.Key("body"), f.Body, n)
	case f.Body != nil:
		c.report(c.doc.Problem(at.Key("body"), "a GET has no body; add method: POST and reads: true, or remove it"))
	}
	return out
}

// holes compiles the texts in a value.
func (c *compiling) holes(at strict.Path, v any, n names) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out[key] = c.holes(at.Key(key), v[key], n)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = c.holes(at.Index(i), v[i], n)
		}
		return out
	case string:
		if strings.Contains(v, "${") {
			return c.template(at, text(v), n)
		}
	}
	return v
}

// filled evaluates the holes in a value.
func filled(v any, env map[string]any) (_ any, err error) {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			if out[key], err = filled(v[key], env); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i := range v {
			if out[i], err = filled(v[i], env); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *template:
		return v.fill(env)
	}
	return v, nil
}

// reads reports whether the request reads a variable.
func (r request) reads(name string) bool {
	if r.path.reads(name) || slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(r.query)),
		slices.Collect(maps.Values(r.headers))), func(t *template) bool { return t.reads(name) }) {
		return true
	}
	return inside(r.body, func(t *template) bool { return t.reads(name) })
}

func inside(v any, f func(*template) bool) bool {
	switch v := v.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), func(e any) bool { return inside(e, f) })
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return inside(e, f) })
	case *template:
		return f(v)
	}
	return false
}

// derive decides how the list is read, and refuses a profile that contradicts itself.
func (p *Profile) derive(c *compiling) {
	f, list := &p.file, strict.Path{"list"}
	bad := func(at strict.Path, format string, args ...any) { c.report(c.doc.Problem(at, format, args...)) }
	ordered := f.Model.Unique && strings.TrimSpace(string(f.Record.ID)) == f.Model.Order
	byPage, byKey := p.list.reads("page") || p.list.reads("offset"), p.list.reads("after")
	byCursor := p.list.reads("cursor")
	p.walk, p.wholeOnly = Counted, !p.list.reads("since")
	switch {
	case byPage && f.Model.Paging == "keyset":
		bad(strict.Path{"model", "paging"}, "the list asks for pages by their number, so model.paging is offset")
	case byKey != (p.after != nil):
		bad(list.Key("after"), "list.after gives the key of the next page, and the request reads it as after; it needs both")
	case byCursor != (p.cursor != nil):
		bad(list.Key("cursor"), "list.cursor gives the cursor of the next page, and the request reads it as cursor; it needs both")
	case byCursor && (byPage || byKey || p.next != nil):
		bad(list.Key("cursor"), "one thing leads to the next page; remove either cursor or the others: page, offset, after, next")
	case byKey && !ordered:
		bad(strict.Path{"model", "order"},
			"pages behind a key need a list that is sorted by the record's id: model.order is the field of record.id, with unique: true")
	case f.Model.Paging == "keyset" && !ordered:
		bad(strict.Path{"model", "paging"},
			"keyset needs a list that is sorted by the record's id: model.order is the field of record.id, with unique: true; otherwise write offset")
	case !byPage && !byKey && !byCursor && p.next == nil:
		bad(list.Key("next"), "nothing leads to the second page: the request reads neither page, offset, after nor cursor, and there is no next")
	case p.next == nil && p.cursor == nil && p.last == nil:
		bad(list.Key("last"), "nothing says which page is the last; write last, for example rows < size")
	case byKey || f.Model.Paging == "keyset":
		p.walk = Keyset
	}
	if !p.wholeOnly && (f.List.Since == "" || f.Model.Changed == "none" || f.Model.Changed != hidden &&
		(p.updated == nil || len(f.Record.Times) == 0)) {
		bad(list.Key("since"), "a request since a time needs list.since (its form), model.changed, record.updated and record.times; if no record shows its time, model.changed is hidden")
	}
	if f.List.Since != "" && p.wholeOnly {
		bad(list.Key("since"), "list.since is given, and no part of the request reads since")
	}
	p.deriveAuth(bad)
	p.hostIsSetting = p.hasAddress()
}

// hasAddress reports whether base comes from a setting that is an address.
func (p *Profile) hasAddress() bool {
	for name, s := range p.file.Settings {
		if s.Type == "address" && p.base.reads("set."+name) {
			return true
		}
	}
	return false
}

func (p *Profile) deriveAuth(bad func(strict.Path, string, ...any)) {
	a, at := p.file.Auth, strict.Path{"auth"}
	switch {
	case slices.ContainsFunc(p.Settings(), func(s Setting) bool {
		return (s.Type == "secret") != (s.Name == "api_key" || s.Name == "api_secret")
	}):
		bad(strict.Path{"settings"},
			"a setting of type secret is called api_key or api_secret, and no other is: payersync hides these two")
	case (a.Kind == AuthHeader) != (len(a.Headers) > 0):
		bad(at.Key("headers"), "auth.headers names the headers with the keys, for kind header alone")
	case a.Kind == AuthHeader &&
		!slices.ContainsFunc(slices.Collect(maps.Values(p.authHeaders)), func(t *template) bool { return t.reads("secret") }):
		bad(at.Key("headers"), "no header holds a key; write it as ${secret.NAME}, with a setting NAME of type secret")
	case (a.Kind == AuthLogin) != (a.Login != nil):
		bad(at.Key("login"), "auth.login is the request that gives the session, for kind login alone")
	case a.Kind == AuthLogin && !p.login.reads("secret"):
		bad(at.Key("login"), "no key is in the body of auth.login; write it as ${secret.NAME}, with a setting NAME of type secret")
	case a.Kind != AuthHeader && a.Kind != AuthLogin && a.Token == "", a.Kind == AuthCode && a.Authorize == "":
		bad(at.Key("token"), "OAuth needs auth.token, the token endpoint, and oauth2-code needs auth.authorize as well, the page for the consent")
	}
}

// Timeless reports whether no record shows its time of edit. Only tests call it: their systems must rest in the end.
func (p *Profile) Timeless() bool { return p.updated == nil }
