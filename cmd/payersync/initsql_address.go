package main

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/accounting/sqltable"
)

// addressForms says how the address of a database is written.
const addressForms = "postgres://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE (MariaDB too) or sqlite:FILE"

// address returns the database of --dsn-file, or a typed one.
func (f initFlags) address(ctx context.Context, console *show.Console) (sqltable.Config, error) {
	if f.dsnFile != "" {
		return readAddress(f.dsnFile)
	}
	if why := console.Unasked(); why != "" {
		return sqltable.Config{},
			usage.Errorf("--source sql needs to know the database, and %s; write its address into a file, as in %s, and add --dsn-file FILE. A SQLite file may be named itself", why, addressForms)
	}
	text, err := console.Fills(ctx,
		"\nWhich database? A SQLite file, or an address without the password, such as postgres://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE", "books.sqlite")
	if err != nil {
		return sqltable.Config{}, err
	}
	if !strings.Contains(text, "://") && !strings.HasPrefix(text, "sqlite:") {
		text = "sqlite:" + text
	}
	c, err := parseAddress(text)
	if err == nil && c.Driver != "sqlite" && c.Password.IsZero() {
		var password string
		password, err = console.Hides(ctx, "Password of "+show.Visible(c.User)+" (it is not shown)")
		c.Password = connector.NewSecret(password)
	}
	return c, err
}

// readAddress reads the file of --dsn-file. A SQLite database is its own address.
func readAddress(path string) (sqltable.Config, error) {
	if file, err := os.Open(path); err == nil { //nolint:gosec // a person names it
		start := make([]byte, 16)
		_, err := io.ReadFull(file, start)
		if err := errors.Join(err, file.Close()); err == nil && string(start) == "SQLite format 3\x00" {
			return sqltable.Config{Driver: "sqlite", Path: path}, nil
		}
	}
	text, err := config.ReadSecretFile("", path)
	if err != nil {
		return sqltable.Config{}, usage.Errorf("--dsn-file: %v", err)
	}
	c, err := parseAddress(text.Expose())
	if err != nil {
		return c, usage.Errorf("--dsn-file %s: %v", show.Visible(path), err)
	}
	return c, nil
}

// parseAddress reads the address of a database. The error repeats nothing of it, since it may
// hold a password.
func parseAddress(text string) (sqltable.Config, error) {
	if path, is := strings.CutPrefix(text, "sqlite:"); is {
		if path = strings.TrimPrefix(path, "//"); path == "" {
			return sqltable.Config{}, errors.New("it names no SQLite file; write sqlite:FILE")
		}
		return sqltable.Config{Driver: "sqlite", Path: path}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return sqltable.Config{},
			errors.New("it cannot be read as an address; write " + addressForms +
				", with signs such as @ and / in the password as %40 and %2F")
	}
	driver := map[string]string{"postgres": "postgres", "postgresql": "postgres", "mysql": "mysql",
		"mariadb": "mysql"}[u.Scheme]
	if driver == "" {
		return sqltable.Config{}, errors.New("it begins with no kind of database that is known; write " + addressForms)
	}
	password, _ := u.User.Password()
	c := sqltable.Config{Driver: driver, Host: u.Hostname(), Database: strings.TrimPrefix(u.Path, "/"),
		User: u.User.Username(), Password: connector.NewSecret(password)}
	if u.Port() != "" {
		if c.Port, err = strconv.Atoi(u.Port()); err != nil {
			return c, errors.New("its port is no number")
		}
	}
	switch {
	case c.Database == "" || strings.Contains(c.Database, "/"):
		return c, errors.New("it names no database; write it behind the host, as in " + addressForms)
	case c.User == "":
		return c, errors.New("it names no user; write a user with read permission only, as in " + addressForms)
	}
	return c, addressSettings(&c, u.Query())
}

// addressSettings reads the settings behind the question mark of an address.
func addressSettings(c *sqltable.Config, settings url.Values) error {
	for key, values := range settings {
		value := values[len(values)-1]
		switch key {
		case "host":
			c.Host = value
		case "tls", "sslmode":
			switch value {
			case "off", "disable", "false":
				c.TLS = "off"
			case "verify", "verify-full", "true":
				c.TLS = "verify"
			default:
				return errors.New("its " + key +
					" is none that payersync has; write verify-full, or disable on a line that nobody listens to")
			}
		case "ca_file", "sslrootcert":
			c.CAFile = value
		default:
			return errors.New("it sets " + strconv.Quote(show.Visible(key)) +
				", which payersync does not know; it takes host, sslmode and sslrootcert")
		}
	}
	return nil
}
