package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting/httpsource"
	"payersync/mapping"
	"payersync/state"
	"payersync/state/files"
)

// initFlags are how init was called.
type initFlags struct {
	dir    string
	source string
	csv    string // the file of the set-up
	name   string // of the connection, for csv
	id     []string
	yes    bool
	ask    []string // the payers asked for a mandate

	dsnFile   string // holds the address of the database, for source sql
	tableName string
	preset    string
}

func (a *app) initCmd() *cobra.Command {
	f := initFlags{dir: "."}
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a first set-up: for your own export, another source, or sample data",
		Long: `Writes the files of a first try into DIR (default: here). payersync.yaml is for the
sandbox, and production.yaml for your billing service, each with its own ledger. It
also writes mapping.yaml, schemas for editors, customers.csv as sample data, and a key
file that seals personal data in the ledgers. With --source it writes the files for
that kind of source, without data. It never replaces an existing file.

With --csv it examines your own export: its format, and every column with three values
and its fill rate. It proposes the identifying columns, the payers, and the columns
for name, contact and address, each with the reason. If two readings are about equally
likely, it asks, three questions at most. It ends with a plan on a model of the
billing service: nothing leaves this machine. The file stays in its place;
payersync.yaml names it.

With --source sql it does the same for a database of SQLite, PostgreSQL or MariaDB. It
lists the tables with their rows, asks for the table of customers, and writes the
query. It reads in read-only transactions. It recognises the tables of Odoo, Dolibarr,
ERPNext, GnuCash and LedgerSMB. The file of --dsn-file contains an address such as
postgres://USER:PASSWORD@HOST/DATABASE, or is a SQLite database; only you may have
permission to read it. The password goes into a file that payersync.yaml names.

It asks which payers sign a direct debit mandate: everybody with an e-mail address, a
group, payment method or currency, or nobody yet. --ask answers it. --yes takes
everybody. Without both and without a terminal, payersync asks nobody, and says so.
Nothing is sent before a plan shows it.`,
		Example: "  payersync init --csv \"Customers Muster Ltd.csv\" muster\n  payersync init --csv Contacts.csv --source csv-xero --name \"Harbour Books\" harbour\n" +
			"  payersync init --source sql --dsn-file books.dsn --name \"Harbour Books\" harbour\n  payersync init acme && cd acme\n  payersync init --source xero",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runInit(cmd, args, f) },
	}
	c.Flags().StringVar(&f.source, "source", "",
		"kind of source: sql for a database that init looks at, or "+strings.Join(sourceKinds(),
			", ")+", or the FILE of a profile of your own; the default is sample data")
	c.Flags().StringVar(&f.csv, "csv", "", "look at the export `FILE` and propose a set-up for it")
	c.Flags().StringVar(&f.name, "name", "",
		"the `COMPANY` of these customers; the default is the name of the file or the database")
	c.Flags().StringSliceVar(&f.id, "id", nil, "the `COLUMN` that identifies a customer, or several with commas")
	c.Flags().StringArrayVar(&f.ask, "ask", nil,
		"payers to ask for a mandate: everybody, nobody, `COLUMN=VALUE` or currency=EUR; several times for several values")
	c.Flags().BoolVar(&f.yes, "yes", false, "accept the proposal, and ask nothing")
	c.Flags().StringVar(&f.dsnFile, "dsn-file", "",
		"for --source sql: a `FILE` with the address of the database, or a SQLite database; without it, init asks")
	c.Flags().StringVar(&f.tableName, "table", "",
		"for --source sql: the table or view with the customers is `NAME`; without it, init asks")
	c.Flags().StringVar(&f.preset, "preset", "",
		"for --source sql: the database is that of `PROGRAM`: "+strings.Join(presetNames(),
			", ")+"; the default is to recognise it")
	return c
}

func (a *app) runInit(cmd *cobra.Command, args []string, f initFlags) error {
	if len(args) == 1 {
		f.dir = args[0]
	}
	if (f.dsnFile != "" || f.tableName != "" || f.preset != "") && f.source != sqlSource {
		return usage.Errorf("--dsn-file, --table and --preset are for a database; add --source sql")
	}
	if cmd.Flags().Changed("csv") {
		return a.initialiseCSV(cmd.Context(), f)
	}
	if f.source == sqlSource {
		return a.initialiseSQL(cmd.Context(), f)
	}
	if f.name != "" || f.yes || len(f.id) > 0 {
		return usage.Errorf("--name, --id and --yes are for data that init examines; add --csv FILE or --source sql")
	}
	return a.initialise(cmd.Context(), f)
}

// sqlSource is the --source for a database.
const sqlSource = "sql"

const (
	configFile     = "payersync.yaml"  // with the sandbox
	productionFile = "production.yaml" // with the billing service, and a ledger of its own
	mappingFile    = "mapping.yaml"
	keyFile        = "payersync.key"
	sampleData     = "customers.csv"
)

// firstSource is a first set-up for a source with a shipped mapping.
type firstSource struct {
	block string // its block in payersync.yaml
	query string // a file of configs/sql that it reads with; "" for none
	next  string // the remaining step before the first plan

	profile *httpsource.Profile // nil for a source without one
	mapping string              // its mapping in configs; "" for one that is drafted from the profile
}

const (
	nextExport  = "put your export there as customers.csv             README: how each system exports it"
	nextConsent = "set the two variables named in payersync.yaml, then: payersync connect quickstart"
	nextFill    = "fill in the source in payersync.yaml, and set its variable"
)

var firstSources = map[string]firstSource{
	"csv-generic": {block: "{kind: csv, path: customers.csv, id: [AccountNumber]}", next: nextExport},
	"csv-xero":    {block: "{kind: csv, path: customers.csv, preset: xero}", next: nextExport},
	"csv-sage":    {block: "{kind: csv, path: customers.csv, preset: sage}", next: nextExport},
	"xero": {block: "{kind: xero, client_id: env:XERO_CLIENT_ID, client_secret: env:XERO_CLIENT_SECRET}",
		next: nextConsent},
	"quickbooks": {block: "{kind: quickbooks, client_id: env:QBO_CLIENT_ID, client_secret: env:QBO_CLIENT_SECRET}",
		next: nextConsent},
	"tryton":       {block: `{kind: tryton, url: "https://tryton.example.com", database: books, user: payersync, password: env:TRYTON_PASSWORD}`, next: nextFill},
	"sql-dolibarr": {block: "{kind: sql, driver: mysql, database: dolibarr, user: payersync, password: env:BOOKS_PASSWORD, query_file: dolibarr.sql, id: [id], active: active, updated_at: updated_at}", query: "dolibarr.sql", next: nextFill},
	"sql-erpnext":  {block: "{kind: sql, driver: mysql, database: _site, user: payersync, password: env:BOOKS_PASSWORD, query_file: erpnext.sql, id: [id], active: active, updated_at: modified}", query: "erpnext.sql", next: nextFill},
	"sql-odoo":     {block: "{kind: sql, driver: postgres, database: mycompany, user: payersync, password: env:BOOKS_PASSWORD, query_file: odoo.sql, id: [id], active: active, updated_at: write_date}", query: "odoo.sql", next: nextFill},
	"sql-gnucash": {block: "{kind: sql, driver: sqlite, path: book.gnucash, preset: gnucash, query_file: gnucash.sql}",
		query: "gnucash.sql", next: "put your book there as book.gnucash, or name it in payersync.yaml"},
	"sql-ledgersmb": {block: "{kind: sql, driver: postgres, database: mycompany, user: payersync, password: env:BOOKS_PASSWORD, query_file: ledgersmb.sql, id: [id], active: active}", query: "ledgersmb.sql", next: nextFill},
}

// productionBlock is the source's block in the shipped production.yaml.
const productionBlock = "{kind: csv, path: books.csv, id: [AccountNumber]}"

// sourceKinds returns the possible values of --source.
func sourceKinds() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(firstSources)), config.Profiles()...)))
}

// firstSourceOf returns the first set-up for a value of --source; for "" that of the sample data.
func firstSourceOf(kind string) (firstSource, error) {
	source, known := firstSources[kind]
	switch {
	case kind == "":
		source.mapping = "quickstart/mapping.yaml"
	case known:
		source.mapping = path.Join("mappings", kind+".yaml")
	case isOwnProfile(kind):
		p, err := config.LoadProfile(kind)
		if err != nil {
			return source, usage.Mistake{Err: err}
		}
		source = sourceWith(p, "kind: http, profile: "+filepath.Base(kind))
		if p.Extends() != "" {
			source.mapping = shippedMapping(p.Extends())
		}
	case slices.Contains(config.Profiles(), kind):
		source = sourceWith(config.ShippedProfile(kind), "kind: "+kind)
		source.mapping = shippedMapping(kind)
	default:
		return source, usage.Errorf("there is no kind of source %q; --source is sql or one of %s", kind,
			strings.Join(sourceKinds(), ", "))
	}
	return source, nil
}

// shippedMapping is the file of the mapping for a shipped profile.
func shippedMapping(profile string) string { return path.Join("sources", profile, "mapping.yaml") }

// sourceWith returns the first set-up for a profile.
func sourceWith(p *httpsource.Profile, begin string) firstSource {
	variable := strings.ToUpper(strings.ReplaceAll(p.Name(), "-", "_"))
	keys, next := []string{begin}, "set the variables named in payersync.yaml"
	if p.Auth() == httpsource.AuthCode || p.Auth() == httpsource.AuthClient {
		keys = append(keys, "client_id: env:"+variable+"_CLIENT_ID", "client_secret: env:"+variable+"_CLIENT_SECRET")
	}
	if p.Auth() == httpsource.AuthCode {
		next += ", then: payersync connect quickstart"
	}
	for _, s := range p.Settings() {
		switch {
		case s.Type == "secret":
			keys = append(keys, s.Name+": env:"+variable+"_"+strings.ToUpper(s.Name))
		case s.Required && s.Type == "address":
			next = "write the address of your server into payersync.yaml, and set the variables named there"
			keys = append(keys, s.Name+`: "https://books.example.com"`)
		case s.Required:
			keys = append(keys, s.Name+": change-me")
		}
	}
	return firstSource{block: "{" + strings.Join(keys, ", ") + "}", next: next, profile: p}
}

// firstFile is a file to be written by init.
type firstFile struct {
	name string
	data []byte
}

// firstFiles returns the files of a first set-up, for a kind of source or for the
// sample data.
func firstFiles(kind string) ([]firstFile, error) {
	source, err := firstSourceOf(kind)
	if err != nil {
		return nil, err
	}
	known := kind != ""
	shipped := []firstFile{{name: configSchemaFile, data: config.Schema()},
		{name: mappingSchemaFile, data: mapping.Schema()}}
	for _, f := range []struct{ name, from, line string }{
		{configFile, "quickstart/" + configFile, schemaLine(configSchemaFile)},
		{productionFile, "quickstart/" + productionFile, schemaLine(configSchemaFile)},
		{mappingFile, source.mapping, schemaLine(mappingSchemaFile)},
		{sampleData, "quickstart/" + sampleData, ""},
	} {
		if known && f.name == sampleData {
			continue
		}
		if f.from == "" {
			shipped = append(shipped, firstFile{f.name, []byte(f.line + draftMapping(source.profile))})
			continue
		}
		data, err := fs.ReadFile(configs.FS, f.from)
		if err != nil {
			return nil, fmt.Errorf("read the shipped %s: %w", f.name, err)
		}
		text := f.line + string(data)
		if p := source.profile; p != nil && p.Extends() != "" && f.name == mappingFile {
			text = strings.Replace(text, "\nsource: "+p.Extends()+"\n", "\nsource: "+p.Name()+"\n", 1)
		}
		if known && (f.name == configFile || f.name == productionFile) {
			text = strings.NewReplacer(firstSources["csv-generic"].block, source.block, productionBlock,
				source.block).Replace(text)
			text = sampleLetters.ReplaceAllString(text, lettersToTry)
			if !strings.Contains(source.block, "kind: csv") { // the system says whose books they are
				text = organisationLine.ReplaceAllString(text, "")
			}
		}
		shipped = append(shipped, firstFile{f.name, []byte(text)})
	}
	if source.query == "" {
		return shipped, nil
	}
	query, err := fs.ReadFile(configs.FS, path.Join("sql", source.query))
	if err != nil {
		return nil, fmt.Errorf("read the shipped %s: %w", source.query, err)
	}
	return append(shipped, firstFile{source.query, query}), nil
}

// sampleLetters are the letters of the sample company. A person decides the sender of letters for another
// accounting system.
var sampleLetters = regexp.MustCompile(`(?s)\n# Letters to payers .*\nletters:\n.*$`)

// lettersToTry stand in place of the sample company's letters, for a trial with the sandbox.
const lettersToTry = `
# To try letters with the sandbox, remove the first # of each line below. The sandbox delivers nothing;
# http://127.0.0.1:8090/letters shows the letters.
#letters:
#  sender: payersync
#  service_chasing_off: true      # the sandbox writes to nobody
#  smtp: {host: 127.0.0.1, port: 2525, tls: none}
#  from: Your company <accounts@your-company.example>
#  legal: Your company Ltd, street, town; registration number
#  link_hosts: [127.0.0.1]
#  languages: [en, de, fr]
#  test_to: you@your-company.example
#  window: Mon-Sun 00:00-24:00    # default Mon-Fri 08:30-17:00
`

var organisationLine = regexp.MustCompile(`(?m)^    organisation: .*\n`)

// setup is a first set-up for a person's own file.
type setup struct {
	name    string // of the connection and its organisation
	source  string // its block in payersync.yaml
	mapping []byte
	service string // address of the sandbox; "" for the usual one
}

// setupFiles returns the files of a set-up.
func setupFiles(s setup) ([]firstFile, error) {
	shipped, err := firstFiles("csv-generic")
	if err != nil {
		return nil, err
	}
	fill := []string{
		firstSources["csv-generic"].block, s.source,
		"name: quickstart", fmt.Sprintf("name: %q", s.name), "name: books", fmt.Sprintf("name: %q", s.name),
		"organisation: harbour-books", fmt.Sprintf("organisation: %q", s.name),
	}
	if s.service != "" {
		fill = append(fill, "127.0.0.1:8090", s.service, "  profile: sandbox\n",
			"  profile: sandbox\n  rate_per_second: 500\n")
	}
	for i, f := range shipped {
		switch f.name {
		case configFile, productionFile:
			shipped[i].data = []byte(strings.NewReplacer(fill...).Replace(string(f.data)))
		case mappingFile:
			shipped[i].data = append([]byte(schemaLine(mappingSchemaFile)), s.mapping...)
		}
	}
	return shipped, nil
}

func (a *app) initialise(ctx context.Context, f initFlags) error {
	dir, kind := f.dir, f.source
	shipped, err := firstFiles(kind)
	if err != nil {
		return err
	}
	if isOwnProfile(kind) {
		if shipped, err = withOwnProfile(shipped, dir, kind); err != nil {
			return err
		}
	}
	names := []string{keyFile}
	names = append(names, connector.Map(shipped, func(f firstFile) string { return f.name })...)
	if err := mayWrite(dir, names); err != nil {
		return err
	}
	whom, err := a.askOfShipped(ctx, f, shipped)
	if err != nil {
		return err
	}
	if err := writeSetup(dir, shipped); err != nil {
		return err
	}
	return a.printFirstSteps(dir, kind, names, whom)
}

// mayWrite refuses to overwrite one of the files.
func mayWrite(dir string, names []string) error {
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot write into %s: %s is there already; choose another folder, or move it away. A second company: payersync help sources", dir, name)
		}
	}
	return nil
}

// writeSetup writes the files of a first set-up into a folder, with a key.
func writeSetup(dir string, shipped []firstFile) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder %s: %w", dir, err)
	}
	if err := writeNew(dir, shipped); err != nil {
		return err
	}
	return state.CreateKey(filepath.Join(dir, keyFile))
}

// writeNew writes new files.
func writeNew(dir string, shipped []firstFile) (err error) {
	folder, err := files.OpenFolder(dir)
	if err != nil {
		return fmt.Errorf("cannot write into %s: %w; choose another folder", dir, err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	for _, s := range shipped {
		f, err := folder.Create(s.name)
		if err != nil {
			return fmt.Errorf("write %s: %w", s.name, err)
		}
		_, err = f.Write(s.data)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("write %s: %w", s.name, err)
		}
	}
	return nil
}

// folder returns a folder as a sentence names it.
func folder(dir string) string {
	if filepath.Clean(dir) == "." {
		return "this folder"
	}
	return dir
}

func (a *app) printFirstSteps(dir, kind string, names []string, whom askChoice) error {
	slices.Sort(names)
	if a.JSON() {
		return show.JSON(a.Out, map[string]any{"folder": dir, "files": names, "asked": whom.sentence})
	}
	fmt.Fprintf(a.Out, "Wrote %s into %s\n", strings.Join(names, ", "), folder(dir))
	a.printWhom(whom)
	source, _ := firstSourceOf(kind)
	a.printProfile(source.profile)
	fmt.Fprintln(a.Out, "Keep payersync.key safe: without it the ledger cannot be read. Next:")
	if source.next != "" {
		fmt.Fprintf(a.Out, "  %s\n", source.next)
	}
	fmt.Fprintf(a.Out, "  payersync sandbox                         in another terminal: a model of the billing service\n")
	fmt.Fprintf(a.Out, "  payersync plan --config %s   what would be done\n", filepath.Join(dir, configFile))
	fmt.Fprintf(a.Out, "For your billing service: two lines of %s are yours to fill in.\n", productionFile)
	return nil
}
