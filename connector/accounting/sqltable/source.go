// Package sqltable reads customers from a table or a query of a SQLite, PostgreSQL, MySQL or MariaDB
// database. It serves accounting systems with a database and no interface of their own, such as GnuCash and
// LedgerSMB (README.md), and exports written to a table.
//
// It only reads: in a read-only transaction, and SQLite files in read-only mode. A row becomes a record with
// the columns as its fields, typed as the database declares them. The mapping interprets the columns.
//
// # One read
//
//	connect ─▶ read-only transaction, one snapshot ─▶ ids that several rows have
//	                                               └▶ rows ─▶ records ─▶ pages of 500
//
// A SQLite read holds a lock, and the accounting program cannot save meanwhile. So the whole read finishes
// before its first page is passed on.
//
// # Limits
//
// A missing row says nothing about its customer: the query may have been narrowed. So a source is a snapshot,
// unless the configuration names a column with a reliable time of the last edit.
package sqltable

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"payersync/connector"
)

// The limits of a row and a page. A row above MaxRowBytes has a problem.
const (
	MaxRowBytes = 256 << 10 // bytes of a row as JSON
	pageSize    = 500       // records of a page
)

// Config names the database and the table or query to read.
type Config struct {
	Driver string `yaml:"driver" jsonschema:"enum=sqlite,enum=postgres,enum=mysql" jsonschema_description:"The kind of database; mysql is for MariaDB too."`

	// Path is a SQLite file; the fields below are for servers.
	Path     string           `yaml:"path,omitempty" jsonschema_description:"The SQLite file."`
	Host     string           `yaml:"host,omitempty" jsonschema_description:"Name or address of the server, or the path of its socket. Default 127.0.0.1."`
	Port     int              `yaml:"port,omitempty" jsonschema:"minimum=0,maximum=65535" jsonschema_description:"Default 5432 or 3306."`
	Database string           `yaml:"database,omitempty" jsonschema_description:"The database on the server."`
	User     string           `yaml:"user,omitempty" jsonschema_description:"A user who may read and nothing else."`
	Password connector.Secret `yaml:"password,omitempty" jsonschema_description:"env:NAME or file:PATH."`
	TLS      string           `yaml:"tls,omitempty" jsonschema:"enum=verify,enum=off" jsonschema_description:"Encryption with a verified certificate, or none. Default verify, and off on this machine."`
	CAFile   string           `yaml:"ca_file,omitempty" jsonschema_description:"Certificates to verify the server with, where it is not one the system trusts."`

	// One of these three names the data to read.
	Table     string `yaml:"table,omitempty" jsonschema_description:"The table or view to read, with its schema where it needs one."`
	Query     string `yaml:"query,omitempty" jsonschema_description:"One SELECT, in place of table."`
	QueryFile string `yaml:"query_file,omitempty" jsonschema_description:"A file that holds one SELECT, in place of table."`

	// Preset knows one accounting system: its identity and its readable versions.
	Preset string `yaml:"preset,omitempty" jsonschema:"enum=gnucash" jsonschema_description:"The accounting system that wrote the database."`

	ID     []string `yaml:"id,omitempty" jsonschema_description:"The column that identifies a customer, or several that do so together."`
	Active string   `yaml:"active,omitempty" jsonschema_description:"A column that is true or 1 for active customers, false or 0 for others."`

	UpdatedAt   string `yaml:"updated_at,omitempty" jsonschema_description:"The column with the time of the last edit."`
	Incremental bool   `yaml:"incremental,omitempty" jsonschema_description:"Read only rows that updated_at says changed. Only where every change sets it."`
	TimeZone    string `yaml:"time_zone,omitempty" jsonschema_description:"The zone of times in updated_at that name none, for example Europe/London. Default UTC."`

	// Reach limits the servers to connect to.
	Reach connector.Reach `yaml:"-" json:"-"`

	// Within is the folder that must contain a SQLite file.
	Within connector.Within `yaml:"-" json:"-"`

	// Writes marks the connection of a ColumnWriter, with permission to change data.
	Writes bool `yaml:"-" json:"-"`
}

// Source is a table or query as an accounting source. It holds no connection
// between calls and may be used by several goroutines at once.
type Source struct {
	config   Config // with defaults
	dialect  dialect
	preset   preset
	zone     *time.Location
	patience time.Duration // with a server
}

// New returns the source of the configuration c. It does not connect. Its errors name the wrong key of c.
func New(c Config) (*Source, error) {
	d, ok := dialects[c.Driver]
	if !ok {
		return nil, fmt.Errorf("sql source: driver %q is not known; use sqlite, postgres or mysql", c.Driver)
	}
	p, ok := presets[c.Preset]
	if !ok {
		return nil, fmt.Errorf("sql source: preset %q is not known; use gnucash, or omit it", c.Preset)
	}
	c.ID = slices.Clone(c.ID)
	if len(c.ID) == 0 {
		c.ID = p.id
	}
	c.Active = cmp.Or(c.Active, p.active)
	zone, err := time.LoadLocation(cmp.Or(c.TimeZone, "UTC"))
	if err != nil || strings.EqualFold(c.TimeZone, "local") {
		return nil, fmt.Errorf("sql source: time_zone %q is not known; write it as in Europe/London", c.TimeZone)
	}
	if err := connector.Each([]func() error{c.checkPlace, c.checkWhat, c.checkColumns},
		func(check func() error) error { return check() }); err != nil {
		return nil, err
	}
	if d.server {
		c = c.withServerDefaults(d)
	}
	return &Source{config: c, dialect: d, preset: p, zone: zone, patience: patience}, nil
}

func (c Config) withServerDefaults(d dialect) Config {
	c.Host = cmp.Or(c.Host, "127.0.0.1")
	c.Port = cmp.Or(c.Port, d.port)
	if c.TLS == "" && local(c.Host) {
		c.TLS = "off"
	}
	c.TLS = cmp.Or(c.TLS, "verify")
	return c
}

// local reports whether a host is this machine: a socket or a loopback address.
func local(host string) bool {
	return strings.HasPrefix(host, "/") || connector.IsLoopback(host)
}

// checkPlace checks the keys of the database's address.
func (c Config) checkPlace() error {
	server := c.Host != "" || c.Port != 0 || c.Database != "" || c.User != "" || !c.Password.IsZero() || c.TLS != "" ||
		c.CAFile != ""
	switch {
	case c.Driver == "sqlite" && c.Path == "":
		return fmt.Errorf("sql source: path is missing; name the SQLite file")
	case c.Driver == "sqlite" && server:
		return fmt.Errorf("sql source: host, port, database, user, password, tls and ca_file are for servers; with driver sqlite omit them")
	case c.Driver == "sqlite":
		return nil
	case c.Path != "":
		return fmt.Errorf("sql source: path is for driver sqlite; name host and database")
	case c.Database == "":
		return fmt.Errorf("sql source: database is missing; name the database on the server")
	case c.User == "":
		return fmt.Errorf("sql source: user is missing; name a user who may read and nothing else")
	case !slices.Contains([]string{"", "verify", "off"}, c.TLS):
		return fmt.Errorf("sql source: tls %q is not known; use verify or off", c.TLS)
	case c.CAFile != "" && c.TLS == "off":
		return fmt.Errorf("sql source: ca_file has no use with tls off; leave one of them out")
	}
	return nil
}

// checkWhat checks the keys of the table or query.
func (c Config) checkWhat() error {
	given := 0
	for _, what := range []string{c.Table, c.Query, c.QueryFile} {
		if strings.TrimSpace(what) != "" {
			given++
		}
	}
	if given != 1 {
		return fmt.Errorf("sql source: say what to read with one of table, query and query_file; %d of them are given", given)
	}
	return nil
}

// checkColumns checks the keys of the columns.
func (c Config) checkColumns() error {
	switch {
	case len(c.ID) == 0:
		return fmt.Errorf("sql source: id is missing; name the column that identifies a customer, for example id: [customer_no]")
	case slices.Contains(c.ID, ""):
		return fmt.Errorf("sql source: an entry of id is blank; name a column or remove the entry")
	case c.Incremental && c.UpdatedAt == "":
		return fmt.Errorf("sql source: incremental needs updated_at; name the column with the time of the last edit")
	case c.TimeZone != "" && c.Driver == "sqlite":
		return fmt.Errorf("sql source: time_zone is for servers; SQLite's times are UTC or name their zone")
	}
	return nil
}

// statement returns the SELECT to read. A file is read anew for every call, as
// mappings are.
func (s *Source) statement() (string, error) {
	text := s.config.Query
	switch {
	case s.config.Table != "":
		return "SELECT * FROM " + s.dialect.name(strings.Split(s.config.Table, ".")...), nil
	case s.config.QueryFile != "":
		data, err := os.ReadFile(s.config.QueryFile)
		if err != nil {
			return "", fmt.Errorf("cannot read query_file: %w; put the query there or correct its path", err)
		}
		text = string(data)
	}
	return strings.TrimRight(text, "; \t\r\n"), nil
}

// Describe connects, and returns the columns of the query as fields.
func (s *Source) Describe(ctx context.Context) (connector.SourceInfo, error) {
	r, err := s.open(ctx)
	if err != nil {
		return connector.SourceInfo{}, err
	}
	defer r.close()
	info := connector.SourceInfo{Kind: "sql", Tenant: r.tenant, TenantName: s.config.Database,
		Snapshot: !s.config.Incremental}
	for _, c := range r.columns {
		if !c.binary {
			info.Fields = append(info.Fields, c.field)
		}
	}
	return info, nil
}

// Customers yields every row of the query, in pages of 500; since counts only for an incremental source. An
// unusable row is a record with its Problem set and no data. Rows with the same id are one such record. Its
// errors are *accounting.Disconnected if the database refuses the user, *connector.RemoteError, and those of
// unreadable files.
func (s *Source) Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		read := s.stream
		if !s.dialect.server {
			read = s.buffer
		}
		if err := read(ctx, since, func(p connector.Page) bool { return yield(p, nil) }); err != nil {
			yield(connector.Page{}, err)
		}
	}
}

// stream hands pages on while the database is read.
func (s *Source) stream(ctx context.Context, since time.Time, yield func(connector.Page) bool) error {
	r, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	return r.pages(ctx, since, yield)
}

// buffer passes pages on after the database was read and closed.
func (s *Source) buffer(ctx context.Context, since time.Time, yield func(connector.Page) bool) error {
	var pages []connector.Page
	err := s.stream(ctx, since, func(p connector.Page) bool {
		pages = append(pages, p)
		return true
	})
	if err != nil {
		return err
	}
	for _, p := range pages {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !yield(p) {
			return nil
		}
	}
	return nil
}
