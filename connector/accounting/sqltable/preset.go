package sqltable

import (
	"context"
	"fmt"

	"payersync/connector"
)

// preset holds the known facts of one accounting system.
type preset struct {
	id     []string
	active string
	// check refuses a database of an unknown version, and returns its identity.
	check func(ctx context.Context, r *reading) (tenant string, err error)
}

var presets = map[string]preset{
	"":        {},
	"gnucash": {id: []string{"guid"}, active: "active", check: checkGnuCash},
}

// The known layouts of GnuCash (README.md#gnucash). The program's version is written as 4000013 for 4.13; the
// table of customers has a version of its own.
const (
	gnuCashCustomers = 2
	gnuCashFrom      = 4_000_000
	gnuCashBefore    = 6_000_000
)

func checkGnuCash(ctx context.Context, r *reading) (string, error) {
	version := func(table string) (n int64, err error) {
		err = r.tx.QueryRowContext(ctx, "SELECT table_version FROM versions WHERE table_name = '"+table+"'").Scan(&n)
		checked := r.source.check(ctx, err)
		if connector.FaultOf(checked) == connector.FaultRejected { // the query is ours, and right for a book
			return 0, fmt.Errorf("cannot read this database: it is none of GnuCash (%w); name the book that GnuCash saved, or leave preset out", err)
		}
		return n, checked
	}
	program, err := version("Gnucash")
	if err != nil {
		return "", err
	}
	customers, err := version("customers")
	if err != nil {
		return "", err
	}
	switch {
	case program < gnuCashFrom || program >= gnuCashBefore:
		return "", fmt.Errorf("cannot read this database: it was written by version %d of GnuCash, and 4 and 5 are known; use a payersync that knows it",
			program/1_000_000)
	case customers != gnuCashCustomers:
		return "", fmt.Errorf("cannot read this database: its table of customers has layout %d, and %d is known; use a payersync that knows it", customers, gnuCashCustomers)
	}
	var guid string
	err = r.tx.QueryRowContext(ctx, "SELECT guid FROM books").Scan(&guid)
	return guid, r.source.check(ctx, err)
}
