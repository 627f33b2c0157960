package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/accounting/quickbooks"
	"payersync/connector/accounting/sqltable"
	"payersync/connector/accounting/tryton"
	"payersync/connector/accounting/xero"
	"payersync/connector/webhook"
	"payersync/connector/writeback"
	"payersync/mapping/strict"
)

// Writeback names the one field of the accounting system for the status of a mandate. Without it nothing is
// ever written there.
type Writeback struct {
	Webhook *AlertWebhook          `yaml:"webhook" jsonschema_description:"Tell another system by a signed POST; for every kind of source."`
	SQL     *SQLWriteback          `yaml:"sql" jsonschema_description:"Set one column of one row; for kind sql."`
	Tryton  *tryton.CategoryConfig `yaml:"tryton" jsonschema_description:"Put the party into a category; for kind tryton."`

	Xero       *xero.GroupConfig               `yaml:"xero" jsonschema_description:"Put the contact into a contact group; for kind xero. It needs a wider consent."`
	QuickBooks *quickbooks.PaymentMethodConfig `yaml:"quickbooks" jsonschema_description:"Set the preferred payment method; for kind quickbooks."`

	Profile *httpsource.WriteConfig `yaml:"profile" jsonschema_description:"Set one field as the source's profile says; for sources with a profile."`

	Fields []string `yaml:"fields" jsonschema_description:"Further fields of the source that come to hold what is written, or change with it. They count as no change of a record, and no mapping may read them."`
}

// SQLWriteback names the column to write, and the user for it.
type SQLWriteback struct {
	User      string `yaml:"user" jsonschema_description:"For servers: a user of its own who may read and change that column and nothing else."`
	Password  Secret `yaml:"password" jsonschema_description:"env:NAME or file:PATH."`
	Statement string `yaml:"statement" jsonschema:"required" jsonschema_description:"One UPDATE that sets one column of one row, for example UPDATE customers SET dd_status = :status WHERE customer_no = :id."`
	Read      string `yaml:"read" jsonschema_description:"One SELECT of that column, with :id. Default what statement writes."`
}

func (w SQLWriteback) config() sqltable.ColumnConfig {
	return sqltable.ColumnConfig{User: w.User, Password: w.Password.Secret, Statement: w.Statement, Read: w.Read}
}

// writeback checks a connection's write-back, and resolves its secrets.
func (c *check) writeback(at strict.Path, conn *Connection) {
	w := conn.Writeback
	if w == nil {
		return
	}
	var given []string
	for _, way := range []struct {
		name string
		is   bool
	}{{"webhook", w.Webhook != nil}, {KindSQL, w.SQL != nil}, {KindTryton, w.Tryton != nil}, {KindXero, w.Xero != nil},
		{KindQuickBooks, w.QuickBooks != nil}, {"profile", w.Profile != nil}} {
		if way.is {
			given = append(given, way.name)
		}
	}
	switch {
	case len(given) != 1:
		c.report(at, "%s writes in one way; give one of the keys webhook, profile, sql, tryton, xero and quickbooks", at)
		return
	case w.Profile != nil && conn.Source.Kind == KindHTTP && conn.Source.HTTP.Loaded == nil:
		return // its profile was reported
	case w.Profile != nil && conn.Source.ProfileOf() == nil:
		c.report(at.Key("profile"), "%s is for sources with a profile, and %s has none; use webhook, or leave writeback out",
			at.Key("profile"), conn.Source.Kind)
		return
	case w.Profile == nil && given[0] != "webhook" && given[0] != conn.Source.Kind:
		c.report(at.Key(given[0]),
			"%s is for sources of kind %s, and this one is of kind %s; use webhook, or leave writeback out", at.Key(given[0]),
			given[0], conn.Source.Kind)
		return
	}
	for i, name := range w.Fields {
		if strings.TrimSpace(name) == "" {
			c.report(at.Key("fields").Index(i), "%s is blank; name a field of the source, or remove the entry",
				at.Key("fields").Index(i))
		}
	}
	if w.SQL != nil {
		c.resolve(at.Key(KindSQL).Key("password"), &w.SQL.Password)
	}
	if w.Webhook != nil {
		c.alertWebhook(at.Key("webhook"), w.Webhook)
		return
	}
	conn.Source.Xero.Writes, conn.Source.HTTP.Writes = w.Xero != nil, w.Profile != nil // another consent
	blank := *conn
	blank.Source.QuickBooks.Company = cmp.Or(conn.Source.QuickBooks.Company, "0") // connecting tells it
	if _, err := blank.OpenWriter(SourceDeps{Now: time.Now}); err != nil {
		key, what, _ := strings.Cut(err.Error(), ": ")
		c.report(at.Key(given[0]).Key(key), "%s: %s", at.Key(given[0]).Key(key), what)
	}
}

// Written returns the fields of the source's records that write-back writes, or that change with it.
func (c *Connection) Written() (out []connector.WrittenPart) {
	if c.Writeback == nil {
		return nil
	}
	out = append(out, connector.Map(c.Writeback.Fields,
		func(name string) connector.WrittenPart { return connector.WrittenPart{Field: name} })...)
	blank := *c
	blank.Source.QuickBooks.Company = cmp.Or(c.Source.QuickBooks.Company, "0") // connecting tells it
	writer, err := blank.OpenWriter(SourceDeps{Now: time.Now})
	if own, is := writer.(interface {
		Written() []connector.WrittenPart
	}); is && err == nil { // the mistake was reported
		out = append(out, own.Written()...)
	}
	if at := c.Source.SQL.UpdatedAt; c.Writeback.SQL != nil && at != "" { // a trigger may move it
		out = append(out, connector.WrittenPart{Field: at})
	}
	return out
}

// OpenWriter returns the writer of a connection with a write-back; nil for one without. It sends nothing. The
// error begins with the wrong key.
func (c *Connection) OpenWriter(d SourceDeps) (writeback.Writer, error) {
	switch w := c.Writeback; {
	case w == nil:
		return nil, nil
	case w.SQL != nil:
		return sqltable.NewWriter(c.Source.SQL, w.SQL.config())
	case w.Tryton != nil:
		return tryton.NewWriter(c.Source.Tryton, *w.Tryton, tryton.Deps{HTTP: d.HTTP, Limiter: d.Limiter, Now: d.Now})
	case w.Xero != nil:
		return xero.NewWriter(c.Source.Xero, *w.Xero, xero.Deps{HTTP: d.HTTP, Token: d.Token, Limiter: d.Limiter, Now: d.Now})
	case w.QuickBooks != nil:
		return quickbooks.NewWriter(c.Source.QuickBooks, *w.QuickBooks,
			quickbooks.Deps{HTTP: d.HTTP, Token: d.Token, Limiter: d.Limiter, Now: d.Now})
	case w.Profile != nil:
		return httpsource.NewWriter(c.Source.ProfileOf(), c.Source.settings(), *w.Profile, d.ofProfile())
	default:
		return &writeback.Webhook{Receiver: webhook.Receiver{URL: w.Webhook.URL, Secret: w.Webhook.Secret.Secret,
			HTTP: d.HTTP, Now: d.Now}}, nil
	}
}

func (w *Writeback) secrets() (out []connector.Secret) {
	switch {
	case w == nil:
	case w.SQL != nil:
		out = append(out, w.SQL.Password.Secret)
	case w.Webhook != nil:
		out = append(out, w.Webhook.Secret.Secret)
	}
	return out
}

// WritesTo reports whether a connection writes back.
func (c *Config) WritesTo(name string) bool {
	return slices.ContainsFunc(c.Connections,
		func(conn Connection) bool { return conn.Name == name && conn.Writeback != nil })
}

// WritesBack reports whether any connection writes back.
func (c *Config) WritesBack() bool {
	return slices.ContainsFunc(c.Connections, func(conn Connection) bool { return conn.Writeback != nil })
}
