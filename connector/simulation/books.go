package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/mapping"
)

// books is an accounting system in memory.
type books struct {
	connection string // its connection
	records    []connector.Record
	broken     bool // the next reading breaks off after its first page
	tells      bool // it reports unchanged readings by a mark
}

var booksInfo = func() connector.SourceInfo {
	info := connector.SourceInfo{Kind: "books", Snapshot: true}
	for _, name := range []string{"No", "Name", "Email", "Postcode", "Group"} {
		info.Fields = append(info.Fields, connector.Field{Name: name, Type: connector.TypeText})
	}
	return info
}()

var errBooks = errors.New("the accounting system broke off")

// Customers yields what changed since, two records on a page.
func (b *books) Customers(_ context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	records, broken := slices.Clone(b.records), b.broken
	records = slices.DeleteFunc(records, func(r connector.Record) bool { return r.UpdatedAt.Before(since) })
	return func(yield func(connector.Page, error) bool) {
		for page := range slices.Chunk(records, 2) {
			if !yield(connector.Page{Records: page}, nil) {
				return
			}
			if broken {
				yield(connector.Page{}, errBooks)
				return
			}
		}
	}
}

// Mark returns a digest of all records.
func (b *books) Mark(context.Context) (string, error) {
	if !b.tells {
		return "", nil
	}
	text, err := json.Marshal(b.records)
	return string(text), err
}

// fields are the columns of a record.
type fields struct{ No, Name, Email, Postcode, Group string }

// label names connections other than the first, for the log.
func (b *books) label() string {
	if b.connection == connection {
		return ""
	}
	return " of " + b.connection
}

func (b *books) find(id string) int {
	return slices.IndexFunc(b.records, func(r connector.Record) bool { return r.SourceID == id })
}

func (b *books) fields(id string) fields {
	var f fields
	if i := b.find(id); i >= 0 {
		_ = json.Unmarshal(b.records[i].Data, &f) // put wrote it
	}
	return f
}

// put writes a record as its system would, with the time of the edit.
func (b *books) put(id string, f fields, as connector.RecordState, at time.Time) {
	data, _ := json.Marshal(f) // strings only
	r := connector.Record{SourceID: id, State: as, Data: data, UpdatedAt: at}
	if i := b.find(id); i >= 0 {
		b.records[i] = r
		return
	}
	b.records = append(b.records, r)
}

// putPayer adds a payer's record with a key.
func (b *books) putPayer(id, key string) {
	b.put(id, fields{key, "Payer " + id, strings.ToLower(id) + "@payer.test", "LS1 4AP", "payer"}, connector.RecordActive,
		time.Now())
}

func (b *books) remove(id string) {
	b.records = slices.DeleteFunc(b.records, func(r connector.Record) bool { return r.SourceID == id })
}

const keyName = "customerNo"

// mappings are the versions an admin may save; each owns the same fields.
var mappings = func() []*mapping.Mapping {
	const head = "version: 1\nsource: books\nkey: {customerNo: No}\ninclude: Group == \"payer\"\n"
	const link = "mandate:\n  request: customer.people[0].email != \"\"\n"
	const address = "  addresses:\n    - {line1: '\"1 Quay St\"', postCode: Postcode}\n"
	var out []*mapping.Mapping
	for _, body := range []string{
		"customer:\n  name: trim(Name)\n  people:\n    - {name: trim(Name), email: lower(trim(Email))}\n" + address + link,
		"customer:\n  name: trim(Name) + \" Ltd\"\n  people:\n    - {name: trim(Name), email: lower(trim(Email))}\n" +
			address + link,
		"customer:\n  name: trim(Name)\n  people:\n    - {name: trim(Name), email: lower(trim(Email)), phone: '\"0113 496 0000\"'}\n" + address + "externalData: {tier: Group}\n" + link,
		"customer:\n  name: trim(Name)\n  people:\n    - {name: trim(Name), email: lower(trim(Email))}\n" + address,
	} {
		m, err := mapping.Load("mapping.yaml", []byte(head+body), booksInfo)
		if err != nil {
			panic(err) // the texts above are part of this file
		}
		out = append(out, m)
	}
	return out
}()
