// Package tryton reads the parties of a Tryton server over its JSON-RPC. It knows Tryton's signs of an
// active, deactivated, merged or erased party, and finds the changed ones. README.md lists the traps. The
// mapping decides which parties are customers, for example by a category.
//
// # Finding changes
//
// A party is read again when its own time of edit, or that of an address, contact
// mechanism or identifier of it, lies at or after the bound. Three things of
// Tryton shape that question:
//
//   - write_date is null until the first edit, so that every clause has a twin
//     for create_date;
//   - inactive records are hidden from nested clauses too, unless the context of
//     the call says otherwise;
//   - an erasure empties a party's name without a time of edit where nothing of
//     the party was active, so that parties without a name are read every time.
//
// Three things leave no trace at all, and are seen by the next full read alone: a
// party that was deleted, a part of a party that was deleted by itself, and a
// category that got another name.
//
// # Order
//
// Pages are bound by the id of the last party before them, and a page is one
// transaction of the server, parts of the parties included. An edit under the
// read therefore moves no party to another page.
//
// # Sessions
//
//	no session ──login──▶ session ──401, idle for 300 s──▶ login again, once for a call
//	      │
//	      └── refused: never tried again by this Source
//
// Tryton closes a login to everybody after a few wrong passwords, the right one
// included. A Source therefore logs in with one attempt, and a refusal is kept.
package tryton

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// DefaultPageSize and MaxPageSize bound how many parties one call reads.
const (
	DefaultPageSize = 200
	MaxPageSize     = 1000
)

// Config names the Tryton database and the user to read it.
type Config struct {
	// URL is the server's address; https, or http on this machine.
	URL string `yaml:"url" jsonschema_description:"Where the Tryton server is, for example https://tryton.example.com."`

	// Database is the server's name for the database.
	Database string `yaml:"database" jsonschema_description:"The database on the server."`

	// User is the login of a separate user with permission to read parties only.
	User string `yaml:"user" jsonschema_description:"The login of a user who may read parties; use one of its own."`

	Password connector.Secret `yaml:"password" jsonschema_description:"env:NAME or file:PATH."`

	// PageSize is how many parties one call reads; 0 is DefaultPageSize.
	PageSize int `yaml:"page_size,omitempty" jsonschema:"minimum=0,maximum=1000" jsonschema_description:"Parties that one call reads. Default 200."`
}

// Deps are the dependencies of a Source. Limiter may be nil: Tryton has no limit of requests, but a
// temporarily closed login parks the source. Without Now it is time.Now.
type Deps struct {
	HTTP    *transport.Client
	Limiter accounting.Limiter
	Now     func() time.Time
}

// Source is a Tryton database as an accounting source. It may be used by several
// goroutines at once.
type Source struct {
	database string
	pageSize int
	rpc      *client
}

// New returns the source of the configuration c. It sends nothing. Its errors name the wrong key of c.
func New(c Config, d Deps) (*Source, error) {
	base, err := url.Parse(c.URL)
	switch {
	case c.URL == "" || err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http":
		return nil, fmt.Errorf("tryton source: url is no web address; write it as in https://tryton.example.com")
	case base.User != nil || base.RawQuery != "":
		return nil, fmt.Errorf("tryton source: url holds more than an address; put the login in user and password")
	case c.Database == "" || strings.ContainsAny(c.Database, "/?#"):
		return nil, fmt.Errorf("tryton source: database is blank or holds a slash; write the database's name alone")
	case c.User == "":
		return nil, fmt.Errorf("tryton source: user is missing; name the login of a user who may read parties")
	case c.Password.IsZero():
		return nil, fmt.Errorf("tryton source: password is missing; write it as env:NAME or file:PATH")
	case c.PageSize < 0 || c.PageSize > MaxPageSize:
		return nil, fmt.Errorf("tryton source: page_size is not between 1 and %d", MaxPageSize)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Source{
		database: c.Database,
		pageSize: cmp.Or(c.PageSize, DefaultPageSize),
		rpc: &client{
			http: d.HTTP, limiter: d.Limiter, now: d.Now,
			root: base.JoinPath("/").String(), path: base.JoinPath(c.Database, "/").String(),
			database: c.Database, user: c.User, password: c.Password,
		},
	}, nil
}

// Describe returns the fields of a party. It calls nobody: whether the database
// can be read is found out by Probe and Customers.
func (s *Source) Describe(context.Context) (connector.SourceInfo, error) {
	return connector.SourceInfo{Kind: "tryton", Tenant: s.database, TenantName: s.database, Fields: Fields()}, nil
}

// Customers yields the parties changed at or after since, in the order of their ids; the zero time asks for
// all of them. A merged party names its survivor; a deactivated or erased one is archived. Its errors are
// *accounting.Disconnected for a refused login, *accounting.Parked for a temporarily closed one, and
// *connector.RemoteError.
func (s *Source) Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	var after int64 // id of the last party read
	return accounting.Walk(ctx, accounting.Pager{Fetch: func(ctx context.Context, n int) (accounting.Sheet, error) {
		if n == 0 {
			after = 0
		}
		sheet, last, err := s.page(ctx, since, after)
		after = last
		return sheet, err
	}})
}

// page reads the parties behind the one with the id after, and returns the id of
// the last of them.
func (s *Source) page(ctx context.Context, since time.Time, after int64) (accounting.Sheet, int64, error) {
	wanted, err := s.rpc.columns(ctx)
	if err != nil {
		return accounting.Sheet{}, after, err
	}
	var rows []json.RawMessage
	err = s.rpc.call(ctx, "model.party.party.search_read", &rows,
		changed(since, after), 0, s.pageSize, [][]string{{"id", "ASC"}}, wanted, inactiveToo)
	if err != nil {
		return accounting.Sheet{}, after, err
	}
	sheet := accounting.Sheet{Last: len(rows) < s.pageSize}
	for _, row := range rows {
		id, err := idOf(row)
		if err != nil || id <= after {
			return accounting.Sheet{}, after, failed("the parties came without ids or in another order than was asked for")
		}
		after = id
		sheet.Records = append(sheet.Records, record(id, row))
	}
	return sheet, after, nil
}

// inactiveToo is the context of every read. A clause about "active" would not do:
// the server adds its own to nested clauses.
var inactiveToo = map[string]any{"active_test": false}

// parts are the lists of a party whose edits leave the party's own time of edit unchanged.
var parts = []string{"addresses", "contact_mechanisms", "identifiers"}

// changed returns the query for parties behind an id, changed at or after since.
func changed(since time.Time, after int64) []any {
	domain := []any{[]any{"id", ">", after}}
	if since.IsZero() {
		return domain
	}
	bound := wireTime(since)
	either := []any{"OR", []any{"name", "=", nil}}
	for _, prefix := range append([]string{""}, dotted(parts)...) {
		either = append(either, []any{prefix + "write_date", ">=", bound}, []any{prefix + "create_date", ">=", bound})
	}
	return append(domain, either)
}

func dotted(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name + "."
	}
	return out
}
