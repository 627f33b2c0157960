package pages

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"payersync/connector/admin"
	"payersync/connector/health"
)

// A user limited to connections sees the pages of an installation without any others. The limits apply once, here, not
// on each page: the ledger hides the rows of other connections, and all other data of the pages omits them. A page
// without its own check shows nothing more, and a forged address or form leads nowhere.

// reach tells limited users' access to a route: allowed, or the reason against a split by connection.
type reach string

const (
	theirs     reach = "theirs" // it shows and changes only data of their connections
	ofWebhooks reach = "Deliveries concern all customers of the billing service, of every connection."
	ofLetters  reach = "Letters of all connections are approved and sent together."
	ofUsers    reach = "A person who manages users could remove their own limits."
	ofMoves    reach = "A move concerns two connections."
	ofAudit    reach = "The audit log is one chain for all connections."
)

// within fails if a route is closed to limited users, or concerns a connection hidden from the person.
func (v *visit) within(to route) error {
	if !v.pages.limited {
		return nil
	}
	if to.reach != theirs {
		return problem{
			Status: http.StatusForbidden, Title: "This is not for one connection", Sentence: "You see " +
				strings.Join(v.pages.cfg.Connections, ", ") + " alone. " + string(to.reach),
			Next: "Nothing was changed. Ask an admin who sees all connections to look, or to change your limits.", limits: true,
		}
	}
	if strings.Contains(to.pattern, "{connection}") &&
		!slices.Contains(v.pages.cfg.Connections, v.PathValue("connection")) {
		return notFound
	}
	return nil
}

// both returns the connections within two limits; nil for no limits.
func both(one, other []string) []string {
	if one == nil {
		return other
	}
	return slices.DeleteFunc(slices.Clone(one),
		func(name string) bool { return other != nil && !slices.Contains(other, name) })
}

// only returns the pages for a user limited to connections.
func (p *Pages) only(connections []string) *Pages {
	names := slices.DeleteFunc(slices.Clone(p.cfg.Connections),
		func(name string) bool { return !slices.Contains(connections, name) })
	key := strings.Join(names, "\x1f")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.parts[key] == nil {
		part := &Pages{cfg: p.cfg.only(names), logins: p.logins, served: map[string]bool{}, exporting: p.exporting,
			limited: true}
		for _, r := range all {
			if path, ok := strings.CutPrefix(r.pattern, "GET "); ok && r.reach == theirs {
				part.served[path] = true
			}
		}
		p.parts[key] = part
	}
	return p.parts[key]
}

// only returns the configuration limited to these connections. Writes still keep the rules of the whole ledger:
// decisions on payers and customers see all of it, but get only records found within the limits.
func (c Config) only(names []string) Config {
	c.Connections = names
	c.Ledger = c.Ledger.LimitedTo(names)
	c.Lists, c.Standings, c.Fetcher = c.Lists.LimitedTo(c.Ledger, names), c.Standings.LimitedTo(c.Ledger, names),
		c.Fetcher.LimitedTo(names)
	c.Standings.SetValid(c.Valid)
	ours := func(job string) bool {
		_, of, _ := strings.Cut(job, " ")
		return slices.Contains(names, of)
	}
	expected, jobs := c.Expected, c.Jobs
	c.Expected = func() health.Expected {
		e := expected()
		has := e.Has
		e.Has = func(name string) bool { return slices.Contains(names, name) && (has == nil || has(name)) }
		return e
	}
	c.Jobs = func(ctx context.Context) ([]JobTimes, error) {
		all, err := jobs(ctx)
		return slices.DeleteFunc(all, func(j JobTimes) bool { return !ours(j.Name) }), err
	}
	c.Settings = func() []Setting { return nil }
	c.Moves = nil
	c.Letters, c.Deliveries, c.Nudge = nil, &admin.Deliveries{Ledger: c.Ledger, Read: unread}, func() {}
	if c.Mandates != nil {
		acts := *c.Mandates
		acts.Ledger, c.Mandates = c.Ledger, &acts
	}
	if c.Writebacks != nil {
		c.Writebacks = c.Writebacks.LimitedTo(c.Ledger, names)
	}
	if c.Attention != nil {
		acts := *c.Attention
		acts.Ledger, c.Attention = c.Ledger, &acts
	}
	if c.Matches != nil { // other claims to a customer need the whole ledger
		c.Matches = c.Matches.LimitedTo(names)
	}
	if c.Mappings != nil {
		c.Mappings = c.Mappings.LimitedTo(c.Ledger, names)
	}
	return c
}

// look returns the visible conditions: all of them, or those of the limited user's connections.
func (p *Pages) look(ctx context.Context, codes ...health.Code) ([]health.Condition, error) {
	found, err := health.Present(ctx, p.cfg.Ledger, p.cfg.Expected(), codes...)
	if p.limited {
		found = slices.DeleteFunc(found,
			func(c health.Condition) bool { return !slices.Contains(p.cfg.Connections, c.Connection) })
	}
	return found, err
}

// nav returns the navigation entries with a served page, and how much waits on each by the last count.
func (v *visit) nav() []entry {
	entries := slices.DeleteFunc(slices.Clone(nav), func(e entry) bool { return e.Path != "/" && !v.pages.served[e.Path] })
	waiting := map[string]int{}
	if c, err := v.pages.cfg.Standings.AtHand(v.Context()); err == nil { // without a count, the menu has no numbers
		lines := c.List(nil, v.reads)
		waiting["/plans"], waiting["/matches"] = admin.Items(lines, admin.KindPlan), admin.Items(lines, admin.KindMatch)
		waiting["/"] = len(lines)
	}
	here := -1 // the longest path that holds this page
	for i, e := range entries {
		entries[i].Count = waiting[e.Path]
		if v.URL.Path == e.Path || strings.HasPrefix(v.URL.Path, strings.TrimSuffix(e.Path, "/")+"/") &&
			(e.Path != "/" || strings.HasPrefix(v.URL.Path, "/todo/")) {
			here = i
		}
	}
	if here >= 0 {
		entries[here].Here = true
	}
	return entries
}
