package tryton_test

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/tryton"
	"payersync/connector/accounting/tryton/trytontest"
	"payersync/connector/transport"
)

const pageSize = 15

// server is shared: the first database takes Tryton several seconds.
var server trytontest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// books is a Tryton database with a front, and a source that reads it through
// the front.
type books struct {
	*trytontest.Database
	t       testing.TB
	front   *trytontest.Front
	limiter *accountingtest.Limiter
	source  *tryton.Source
	spoilt  map[int64]bool
	edits   int
}

func openBooks(t testing.TB) *books {
	db := server.Database(t)
	b := &books{Database: db, t: t, front: db.NewFront(t), limiter: &accountingtest.Limiter{}, spoilt: map[int64]bool{}}
	b.source = b.open(b.config())
	return b
}

func (b *books) config() tryton.Config {
	return tryton.Config{
		URL: b.front.URL, Database: b.Name, User: trytontest.User, Password: connector.NewSecret(trytontest.Password),
		PageSize: pageSize,
	}
}

// open returns a source without repeated calls, so every fault shows.
func (b *books) open(c tryton.Config) *tryton.Source {
	http := transport.New(transport.Options{Retries: -1})
	b.t.Cleanup(http.Close)
	s, err := tryton.New(c, tryton.Deps{HTTP: http, Limiter: b.limiter, Now: time.Now})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// add makes n parties in one transaction, so that they share a time.
func (b *books) add(n int) []int64 {
	values := make([]trytontest.Values, n)
	for i := range values {
		values[i] = trytontest.Values{
			"name":      "Customer " + strconv.Itoa(i),
			"addresses": create(trytontest.Values{"street": "1 Quay St\nUnit 4", "city": "Whitby", "postal_code": "YO21 3CK"}),
			"contact_mechanisms": create(
				trytontest.Values{"type": "email", "value": "c" + strconv.Itoa(i) + "@books.example"},
				trytontest.Values{"type": "phone", "value": "+442079460123"}),
		}
	}
	return b.Create("party.party", values...)
}

// create is the command that makes parts of a party together with it.
func create(values ...trytontest.Values) []any { return []any{[]any{"create", values}} }

// read returns what one read of a source gives, by id.
func read(t testing.TB, s accounting.Source, since time.Time) map[string]connector.Record {
	t.Helper()
	out, err := tryRead(t.Context(), s, since)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryRead(ctx context.Context, s accounting.Source, since time.Time) (map[string]connector.Record, error) {
	out := map[string]connector.Record{}
	for page, err := range s.Customers(ctx, since) {
		if err != nil {
			return out, err
		}
		for _, r := range page.Records {
			out[r.SourceID] = r
		}
	}
	return out, nil
}

// entry is a record of any model, as the dump reads it.
type entry struct {
	ID, Party                             int64
	Name, Code, Type, Value, Street, City *string
	PostalCode                            *string `json:"postal_code"`
	PartyName                             *string `json:"party_name"`
	Country                               *int64
	Active                                any
	ReplacedBy                            *int64 `json:"replaced_by"`
	TaxIdentifier                         *int64 `json:"tax_identifier"`
	Categories                            []int64
}

func (b *books) rows(model string, all bool, fields ...string) (out []entry) {
	b.Rows(&out, model, all, fields...)
	return out
}

// dump is the database read model by model, in another way than the source reads
// it: every part by itself, and only what is active as Tryton itself sees it.
type dump struct {
	categories  map[int64]*string
	identifiers map[int64]any
	first       map[int64]map[string]*string // contact mechanisms by party and type
	parts       map[int64]map[string][]any   // by party and list
}

func (b *books) dump() dump {
	d := dump{map[int64]*string{}, map[int64]any{}, map[int64]map[string]*string{}, map[int64]map[string][]any{}}
	countries := map[int64]*string{}
	for _, r := range b.rows("country.country", true, "code") {
		countries[r.ID] = r.Code
	}
	for _, r := range b.rows("party.category", true, "name") {
		d.categories[r.ID] = r.Name
	}
	for _, r := range b.rows("party.address", false, "party", "party_name", "name", "street", "postal_code", "city",
		"country") {
		value := map[string]any{"party_name": r.PartyName, "name": r.Name, "street": r.Street, "postal_code": r.PostalCode,
			"city":    r.City,
			"country": nil, "subdivision": nil, "invoice": nil, "delivery": nil}
		if r.Country != nil {
			value["country"] = countries[*r.Country]
		}
		d.add(r.Party, "addresses", value)
	}
	for _, r := range b.rows("party.contact_mechanism", false, "party", "type", "value", "name") {
		d.add(r.Party, "contact_mechanisms", map[string]any{"type": r.Type, "value": r.Value, "name": r.Name, "invoice": nil})
		if d.first[r.Party] == nil {
			d.first[r.Party] = map[string]*string{}
		}
		if _, has := d.first[r.Party][*r.Type]; !has {
			d.first[r.Party][*r.Type] = r.Value
		}
	}
	for _, r := range b.rows("party.identifier", true, "party", "type", "code") {
		d.identifiers[r.ID] = map[string]any{"type": r.Type, "code": r.Code}
		d.add(r.Party, "identifiers", d.identifiers[r.ID])
	}
	return d
}

func (d dump) add(party int64, list string, value any) {
	if d.parts[party] == nil {
		d.parts[party] = map[string][]any{}
	}
	d.parts[party][list] = append(d.parts[party][list], value)
}

// truth returns what a full read must give.
func (b *books) truth() []connector.Record {
	d := b.dump()
	var out []connector.Record
	for _, r := range b.rows("party.party", true, "name", "code", "active", "replaced_by", "tax_identifier",
		"categories") {
		if b.spoilt[r.ID] {
			continue
		}
		active := r.Active == true || r.Active == 1.0
		record := connector.Record{SourceID: strconv.FormatInt(r.ID, 10), State: connector.RecordActive}
		switch {
		case r.ReplacedBy != nil:
			record.State, record.MergedInto = connector.RecordMerged, strconv.FormatInt(*r.ReplacedBy, 10)
		case !active:
			record.State = connector.RecordArchived
		}
		data, err := json.Marshal(d.data(r, active))
		if err != nil {
			b.t.Fatal(err)
		}
		record.Data = data
		out = append(out, record)
	}
	return out
}

func (d dump) data(r entry, active bool) map[string]any {
	out := map[string]any{"id": strconv.FormatInt(r.ID, 10), "code": r.Code, "name": r.Name, "active": active,
		"tax_identifier": nil}
	for _, kind := range []string{"email", "phone", "mobile", "website"} {
		out[kind] = d.first[r.ID][kind]
	}
	for _, list := range []string{"addresses", "contact_mechanisms", "identifiers"} {
		out[list] = append([]any{}, d.parts[r.ID][list]...)
	}
	if r.TaxIdentifier != nil {
		out["tax_identifier"] = d.identifiers[*r.TaxIdentifier]
	}
	names := []any{}
	for _, id := range r.Categories {
		names = append(names, d.categories[id])
	}
	out["categories"] = names
	return out
}

// facts returns what counts of records, in a form to compare.
func facts(t testing.TB, records map[string]connector.Record) map[string]any {
	t.Helper()
	out := map[string]any{}
	for id, r := range records {
		var data any
		if err := json.Unmarshal(r.Data, &data); err != nil {
			t.Fatal(err)
		}
		out[id] = []any{r.State, r.MergedInto, r.Problem, data}
	}
	return out
}

func byID(records []connector.Record) map[string]connector.Record {
	out := map[string]connector.Record{}
	for _, r := range records {
		out[r.SourceID] = r
	}
	return out
}
