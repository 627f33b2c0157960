// Package httpsource reads customers from any accounting system with a JSON API. A profile, a YAML file, says what
// the system does: how it asks for credentials, lists, orders, filters and pages, and what its statuses mean. The
// package derives from it how the list must be read, so no profile can choose a weaker way. The shipped profiles
// are in configs/sources.
//
// # Rules
//
//   - If a rule of a profile fails on an answer, the read ends as incomplete. payersync concludes nothing from it.
//   - A status that no rule knows is unknown, and never active.
//   - Every request stays on the scheme, host and port of base. Redirects are not followed.
//   - Keys stand in headers only. No body, query or text of an answer gets into an error.
package httpsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// Dependencies are the dependencies of a Source. Token is needed for OAuth alone; all others are needed.
type Dependencies struct {
	HTTP    *transport.Client
	Token   oauth2.TokenSource
	Limiter accounting.Limiter
	Proof   accounting.Proof // of the organisation; nil to ask each time
	Now     func() time.Time
}

// Source is one company of a profile's system. It may be used by several goroutines at once.
type Source struct {
	profile *Profile
	tenant  string         // the configured company
	size    int            // records on a page
	set     map[string]any // the variables of the settings
	base    *url.URL
	within  string
	zone    *time.Location
	caller  accounting.Caller
	keys    map[string]any // the keys, for the bodies of requests; nil where they stand in headers
	login   func(context.Context) (any, error)
	prover  accounting.Prover
	heard   func(op string, a accounting.Answer) // of each answer, for a recording; nil for none
	now     func() time.Time
}

// New returns the source of a profile. It sends nothing. Its errors name the wrong setting.
func New(p *Profile, c Config, d Dependencies) (*Source, error) {
	env, err := p.environment(c)
	if err != nil {
		return nil, err
	}
	s := &Source{profile: p, tenant: strings.TrimSpace(c.Tenant), set: env, now: d.Now,
		size: cmp.Or(c.PageSize, p.file.List.Size)}
	if c.PageSize != 0 && !p.list.reads("size") {
		return nil, fmt.Errorf("%s source: page_size has no effect, since the system has pages of its own size; remove it",
			p.Name())
	}
	if s.size < 1 || s.size > p.file.List.Size {
		return nil, fmt.Errorf("%s source: page_size is 1 to %d", p.Name(), p.file.List.Size)
	}
	if s.base, err = p.baseOf(c, env); err != nil {
		return nil, err
	}
	if s.within, err = p.within.words(env); err != nil {
		return nil, err
	}
	zone, err := p.zone.words(env)
	if err == nil {
		s.zone, err = time.LoadLocation(zone)
	}
	if err != nil {
		return nil, fmt.Errorf("%s source: the time zone is not known; write it as Europe/Amsterdam", p.Name())
	}
	send := func(r *http.Request) (*http.Response, error) { return d.HTTP.Do(r, transport.Always) }
	s.caller = accounting.Caller{System: p.Title(), Send: send, Token: d.Token, Limiter: d.Limiter, Authorize: s.bearer()}
	if p.Auth() == AuthHeader || p.Auth() == AuthLogin {
		if err := s.useKeys(c); err != nil {
			return nil, err
		}
	}
	s.prover = accounting.Prover{Proof: d.Proof, ID: s.tenant, Ask: s.organisation}
	return s, nil
}

// bearer writes access tokens into requests.
func (s *Source) bearer() func(*http.Request, string) {
	scheme := s.profile.file.Auth.Scheme
	if scheme == "" {
		scheme = "Bearer"
	}
	return func(req *http.Request, access string) { req.Header.Set("Authorization", scheme+" "+access) }
}

// useKeys writes the keys of the configuration into requests.
func (s *Source) useKeys(c Config) error {
	env, keys := copyOf(s.set), map[string]any{}
	for name, secret := range c.Secrets {
		keys[name] = secret.Expose()
	}
	env["secret"] = keys
	if s.profile.Auth() == AuthLogin {
		s.keys, s.login = keys, s.loginOnce()
	}
	headers := map[string]string{}
	for name, t := range s.profile.authHeaders {
		words, err := t.words(env)
		if err != nil || strings.ContainsAny(words, "\r\n") {
			return fmt.Errorf("%s source: a key is missing or has a line break in it", s.profile.Name())
		}
		headers[name] = words
	}
	s.caller.Token = oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "keys"})
	s.caller.Authorize = func(req *http.Request, _ string) {
		for name, words := range headers {
			req.Header.Set(name, words)
		}
	}
	return nil
}

// loginOnce returns a function that logs in at its first call, and gives the same session ever after. A failure is
// not kept.
func (s *Source) loginOnce() func(context.Context) (any, error) {
	var mu sync.Mutex
	var session any
	return func(ctx context.Context) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		if session != nil {
			return session, nil
		}
		const op = "log in"
		vars := s.request("", time.Time{})
		vars["session"] = "" // none yet, and not asked for
		req, err := s.build(ctx, s.profile.login, vars)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		a, err := s.ask(ctx, op, req, "", vars)
		if err != nil {
			return nil, err
		}
		v, err := s.profile.session.run(a.env)
		if err != nil {
			return nil, s.unusable(op, err.Error())
		}
		if wordsOf(v) == "" || wordsOf(v) == "0" {
			return nil, &accounting.Disconnected{Reason: s.profile.Title() + " refuses the keys"}
		}
		session = v
		return session, nil
	}
}

// request returns the variables of a request before the first page.
func (s *Source) request(tenant string, since time.Time) map[string]any {
	env, p := copyOf(s.set), s.profile
	fields := make([]any, len(p.fields))
	for i, f := range p.fields {
		fields[i] = f.Name
	}
	env["fields"], env["size"], env["tenant"] = fields, s.size, s.local(tenant)
	env["page"], env["offset"], env["after"], env["cursor"] = 0, 0, nil, nil
	env["full"], env["since"] = since.IsZero(), nil
	if !since.IsZero() {
		if time.Duration(p.file.Model.Grain) >= 24*time.Hour {
			since = since.Add(-24 * time.Hour)
		}
		if p.file.List.Exclusive {
			since = since.Add(-max(time.Duration(p.file.Model.Grain), time.Second))
		}
		env["since"] = s.sinceText(since)
	}
	return env
}

// sinceText writes a lower bound in the system's form, never later than the time itself.
func (s *Source) sinceText(since time.Time) any {
	switch layout := string(s.profile.file.List.Since); layout {
	case "unix":
		return since.Unix()
	case "unix-ms":
		return since.UnixMilli()
	default:
		return since.In(s.zone).Format(layout)
	}
}

// local is a company's id as its own system knows it.
func (s *Source) local(tenant string) string {
	return strings.TrimPrefix(tenant, s.prefix())
}

// prefix makes the ids of companies on servers of their own differ.
func (s *Source) prefix() string {
	if s.within == "" {
		return ""
	}
	return s.within + "#"
}

// Organisations returns the companies within reach, in the system's order, which means nothing.
func (s *Source) Organisations(ctx context.Context) (out []accounting.Organisation, err error) {
	const op = "read the company"
	p, vars := s.profile, s.request("", time.Time{})
	req, err := s.build(ctx, p.tenant, vars)
	if err != nil {
		return nil, s.unbuilt(op, err)
	}
	a, err := s.ask(ctx, op, req, string(p.file.Tenant.Records), vars)
	if err != nil {
		return nil, err
	}
	for _, raw := range a.rows {
		v, err := valueOf(raw)
		members, ok := v.(map[string]any)
		if err != nil || !ok {
			return nil, s.unusable(op, "a company is no object")
		}
		env := copyOf(s.set)
		for name, member := range members {
			if _, taken := env[name]; !taken {
				env[name] = member
			}
		}
		env["record"] = members
		if p.tenantWhere != nil {
			if yes, err := p.tenantWhere.is(env); err != nil {
				return nil, s.unusable(op, err.Error())
			} else if !yes {
				continue
			}
		}
		id, err1 := p.tenantID.run(env)
		name, err2 := p.tenantName.run(env)
		if err := errors.Join(err1, err2); err != nil || wordsOf(id) == "" {
			return nil, s.unusable(op, "it names no company")
		}
		one := accounting.Organisation{ID: s.prefix() + wordsOf(id), Name: wordsOf(name)}
		// some systems name it in each record
		if !slices.ContainsFunc(out, func(o accounting.Organisation) bool { return o.ID == one.ID }) {
			out = append(out, one)
		}
	}
	return out, nil
}

// organisation returns the company to read.
func (s *Source) organisation(ctx context.Context) (accounting.Organisation, error) {
	reached, err := s.Organisations(ctx)
	if errors.Is(err, errEmpty) {
		err = nil
	}
	if err != nil {
		return accounting.Organisation{}, err
	}
	id := s.tenant
	if id != "" && !strings.HasPrefix(id, s.prefix()) {
		id = s.prefix() + id
	}
	return accounting.Choose(s.profile.Title(), id, reached)
}

// Describe names the company and the fields of a record. It asks the system for the company: the error is an
// *accounting.Disconnected when it is not the configured one.
func (s *Source) Describe(ctx context.Context) (connector.SourceInfo, error) {
	info := connector.SourceInfo{Kind: s.profile.Name(), Tenant: s.tenant, Snapshot: s.profile.wholeOnly,
		Fields: s.profile.fields}
	who, err := s.prover.Organisation(ctx)
	if err != nil {
		return info, err
	}
	info.Tenant, info.TenantName = who.ID, who.Name
	return info, nil
}

// Customers yields the records edited at or after since, and all for the zero time. It first checks the company (fault
// F28). Errors are an *accounting.Parked when the request limit is used up, an *accounting.Disconnected when the system
// refuses access (fault F29), and else a *connector.RemoteError.
func (s *Source) Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		who, err := s.prover.Organisation(ctx)
		if err != nil {
			yield(connector.Page{}, err)
			return
		}
		if s.profile.wholeOnly {
			since = time.Time{}
		}
		l := &listing{source: s, reader: s.reader(s.local(who.ID)), vars: s.request(who.ID, since)}
		census := accounting.Census{Began: l.began}
		if s.profile.total != nil {
			census.Total = l.counted
		}
		pager := accounting.Pager{Fetch: l.fetch, Overlaps: s.profile.walk == Keyset}
		for page, err := range accounting.WalkCounted(ctx, pager, census) {
			if !yield(page, s.prover.Doubt(ctx, err)) {
				return
			}
		}
	}
}
