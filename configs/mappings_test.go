package configs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	yaml "go.yaml.in/yaml/v4"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting/csvfile"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/accounting/quickbooks"
	"payersync/connector/accounting/tryton"
	"payersync/connector/accounting/xero"
	"payersync/mapping"
)

// headers are the headings of the files that the mappings are written for.
var headers = map[string]struct {
	config csvfile.Config
	line   string
}{
	"mappings/csv-generic.yaml": {csvfile.Config{ID: []string{"AccountNumber"}},
		"AccountNumber,Name,Contact,Email,Phone,Address,City,Postcode,Country"},
	"mappings/csv-xero.yaml": {csvfile.Config{Preset: "xero"},
		"*ContactName,AccountNumber,EmailAddress,FirstName,LastName,POAttentionTo,POAddressLine1,POAddressLine2,POAddressLine3,POAddressLine4," +
			"POCity,PORegion,POPostalCode,POCountry,SAAttentionTo,SAAddressLine1,SAAddressLine2,SAAddressLine3,SAAddressLine4,SACity,SARegion," +
			"SAPostalCode,SACountry,PhoneNumber,FaxNumber,MobileNumber,DDINumber,BankAccountNumber,TaxNumber"},
	"mappings/csv-sage.yaml": {csvfile.Config{Preset: "sage"},
		"Reference,Company Name,Currency,Credit Limit,Main Address Type,Main Address Line 1,Main Address Line 2,Main Address Town," +
			"Main Address County,Main Address Post Code,Main Address Country,Main Contact Name,Main Contact Phone,Main Contact Type," +
			"Main Contact Mobile,Main Contact Email,Main Contact Fax,VAT Number,Ledger Account"},
}

// declared are the sources whose fields are known without a look at their data.
var declared = map[string]connector.SourceInfo{
	"mappings/quickbooks.yaml":   {Kind: "quickbooks", Tenant: "9130357849923456", Fields: quickbooks.Fields()},
	"mappings/sql-dolibarr.yaml": {Kind: "sql", Snapshot: true, Fields: columns(queries["sql/dolibarr.sql"])},
	"mappings/sql-erpnext.yaml":  {Kind: "sql", Snapshot: true, Fields: columns(queries["sql/erpnext.sql"])},
	"mappings/sql-odoo.yaml":     {Kind: "sql", Snapshot: true, Fields: columns(queries["sql/odoo.sql"])},
	"mappings/sql-gnucash.yaml": {Kind: "sql", Tenant: "b00c", Snapshot: true,
		Fields: columns(queries["sql/gnucash.sql"])},
	"mappings/sql-ledgersmb.yaml": {Kind: "sql", Snapshot: true, Fields: columns(queries["sql/ledgersmb.sql"])},
	"mappings/tryton.yaml":        {Kind: "tryton", Tenant: "books", Fields: tryton.Fields()},
	"mappings/xero.yaml":          {Kind: "xero", Tenant: "7d0c2f6e-51c5-4c7b-9a35-0f3f0c8a1b2d", Fields: xero.Fields()},
}

// queries are the columns of the shipped queries, as package sqltable's tests see
// them on real databases.
var queries = map[string]string{
	"sql/dolibarr.sql": "id code_client name name_alias active:number client:number supplier:number email phone address zip town country default_lang updated_at",
	"sql/erpnext.sql":  "id customer_name customer_type active:number language first_name last_name email phone address_line1 address_line2 city pincode country modified",
	"sql/odoo.sql": "id ref name active:flag is_company:flag customer_rank:number supplier_rank:number lang invoice_name email phone mobile " +
		"street street2 zip city country write_date",
	"sql/gnucash.sql": "guid number name notes active:number currency addr_name addr_addr1 addr_addr2 addr_addr3 addr_addr4 addr_phone addr_email",
	"sql/ledgersmb.sql": "id number name first_name last_name active:flag startdate enddate currency tax_id sales_tax_id billing_email email phone cell_phone " +
		"line_one line_two line_three city state mail_code country",
}

// columns declares columns, text where nothing else is said.
func columns(list string) []connector.Field {
	var out []connector.Field
	for _, column := range strings.Fields(list) {
		name, kind, other := strings.Cut(column, ":")
		if !other {
			kind = string(connector.TypeText)
		}
		out = append(out, connector.Field{Name: name, Type: connector.FieldType(kind)})
	}
	return out
}

func TestShippedQueriesGiveTheColumnsThatMappingsAreTestedWith(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(configs.FS, "sql/*.sql")
	if err != nil || len(names) != len(queries) {
		t.Errorf("%d queries are shipped, %d are tested (%v)", len(names), len(queries), err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(configs.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(text), "\nSELECT\n")
		list, _, _ := strings.Cut(body, "\nFROM ")
		var got, want []string
		for column := range strings.SplitSeq(list, ",\n") {
			got = append(got, column[strings.LastIndexAny(column, " .")+1:])
		}
		for _, f := range columns(queries[name]) {
			want = append(want, f.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: columns (-tested +shipped):\n%s", name, diff)
		}
	}
}

// load loads a shipped mapping against what source describes.
func load(t *testing.T, name string, source *csvfile.Source) *mapping.Mapping {
	t.Helper()
	info, err := source.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return loadFor(t, name, info)
}

// loadFor loads a shipped mapping for a source that is described as info.
func loadFor(t *testing.T, name string, info connector.SourceInfo) *mapping.Mapping {
	t.Helper()
	text, err := fs.ReadFile(configs.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	info.Organisation = "harbour-books" // as the configuration names it
	m, err := mapping.Load(name, text, info)
	if err != nil {
		t.Fatalf("load:\n%v", err)
	}
	return m
}

func TestEveryShippedMappingLoadsAndPassesItsExamples(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(configs.FS, "mappings/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if info, known := declared[name]; known {
				if err := loadFor(t, name, info).CheckExamples(); err != nil {
					t.Errorf("examples:\n%v", err)
				}
				return
			}
			header, known := headers[name]
			if !known {
				t.Fatalf("neither header nor fields are known for %s; enter them in this test", name)
			}
			c := header.config
			c.Path = filepath.Join(t.TempDir(), "export.csv")
			if err := os.WriteFile(c.Path, []byte(header.line+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			source, err := csvfile.New(c)
			if err != nil {
				t.Fatal(err)
			}
			if err := load(t, name, source).CheckExamples(); err != nil {
				t.Errorf("examples:\n%v", err)
			}
		})
	}
	if len(names) != len(headers)+len(declared) {
		t.Errorf("%d mappings are shipped, %d are tested", len(names), len(headers)+len(declared))
	}
}

func TestTheMappingOfEveryProfileLoadsAndPassesItsExamples(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(configs.FS, "sources/*/profile.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal(len(names), err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(configs.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := httpsource.Load(name, text)
		if err != nil {
			t.Fatal(err)
		}
		info := connector.SourceInfo{Kind: p.Name(), Tenant: "company", Fields: p.Fields()}
		if err := loadFor(t, "sources/"+p.Name()+"/mapping.yaml", info).CheckExamples(); err != nil {
			t.Errorf("%s: examples:\n%v", name, err)
		}
	}
}

func TestTheMappingSchemaAcceptsEveryShippedMapping(t *testing.T) {
	t.Parallel()
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(mapping.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mapping.json", tree); err != nil {
		t.Fatal(err)
	}
	schema := c.MustCompile("mapping.json")
	names, err := fs.Glob(configs.FS, "mappings/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "quickstart/mapping.yaml") {
		text, err := fs.ReadFile(configs.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		var content any
		if err := yaml.Unmarshal(text, &content); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := schema.Validate(content); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQuickStartMappingPassesItsExamples(t *testing.T) {
	t.Parallel()
	source, _ := quickstart(t)
	if err := load(t, "quickstart/mapping.yaml", source).CheckExamples(); err != nil {
		t.Errorf("examples:\n%v", err)
	}
}

// covers F48, F53, F54
func TestQuickStartSortsItsRowsAsTheReadmeSays(t *testing.T) {
	t.Parallel()
	source, records := quickstart(t)
	m := load(t, "quickstart/mapping.yaml", source)
	got := map[string][]string{}
	for _, r := range records {
		kind := outcome(t, m, r)
		got[kind] = append(got[kind], r.SourceID)
	}
	if n := len(got["asked for a mandate"]); n != 33 {
		t.Errorf("%d customers are asked for a mandate, want 33", n)
	}
	delete(got, "asked for a mandate")
	want := map[string][]string{
		"not asked":                              {"HB020"},
		"excluded":                               {"HB022"},
		string(connector.ReasonRecordUnreadable): {"HB026"},
		string(connector.ReasonNameMissing):      {"HB008"},
		string(connector.ReasonEmailMalformed):   {"HB010"},
		string(connector.ReasonTooManyAddresses): {"HB013"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("other outcomes (-want +got):\n%s", diff)
	}
}

// outcome says what becomes of a record, as a plan would.
func outcome(t *testing.T, m *mapping.Mapping, r connector.Record) string {
	t.Helper()
	if r.Problem != "" {
		return string(connector.ReasonRecordUnreadable)
	}
	result, err := m.Apply(r)
	var failed *mapping.RecordError
	if errors.As(err, &failed) {
		return string(failed.Reason)
	}
	if err != nil {
		t.Fatal(err)
	}
	problems := result.Customer.Problems()
	switch {
	case !result.Included:
		return "excluded"
	case len(problems) > 0:
		return string(problems[0].Reason)
	case result.RequestMandate:
		return "asked for a mandate"
	}
	return "not asked"
}

func TestQuickStartMappingTidiesWhatIsMessy(t *testing.T) {
	t.Parallel()
	source, records := quickstart(t)
	m := load(t, "quickstart/mapping.yaml", source)
	customer := func(id string) connector.Customer {
		i := slices.IndexFunc(records, func(r connector.Record) bool { return r.SourceID == id })
		result, err := m.Apply(records[i])
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		return result.Customer
	}
	got := []string{
		customer("HB002").Name, customer("HB038").Name, customer("HB015").Name,
		customer("HB004").People[0].Email, customer("HB012").People[0].Email, customer("HB017").People[0].Email,
		customer("HB035").People[0].Email,
		customer("HB005").Addresses[0].Line1, customer("HB011").Addresses[0].PostCode,
	}
	want := []string{
		"The Proving Drawer", "Quayside Fishcakes", "=Equal Parts Bakehouse",
		"padraig@oharaspies.example", "beth@flourpower.example", "fern@twomagpies.example", "simon@wealdandwold.example",
		"Unit 3, The Old Biscuit Factory", "BS7 8KV",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tidied values (-want +got):\n%s", diff)
	}
	if n := strings.Count(strings.Join(got, ""), "\n"); n > 0 {
		t.Errorf("%d line breaks are left", n)
	}
}
