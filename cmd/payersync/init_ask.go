package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/mapping"
)

// The words of --ask besides COLUMN=VALUE.
const (
	askEverybody = "everybody"
	askNobody    = "nobody"
	askCurrency  = "currency" // means the column with the currency if no column has this name
)

// hasEmail is the condition for sending the payer a signing link.
const hasEmail = `any(customer.people, .email != "")`

// askSample is the data for the question of mandate requests.
type askSample struct {
	mapping []byte
	columns []string   // nil if the source names none
	rows    [][]string // nil if there is no data yet
	money   string     // the field with the currency, if it is no column of its own
	load    func([]byte) (*mapping.Mapping, error)
	record  func(cells []string) ([]byte, error) // a row as the source gives it
}

// askChoice is a possible answer: a rule, and its meaning.
type askChoice struct {
	rule     string
	sentence string // as the question offers it
}

// askWhom decides which payers are asked for a mandate, by --ask, a person or --yes, and returns the mapping
// with that rule. Without a choice, nobody is asked: an unwanted mandate cannot be silently taken back.
func (a *app) askWhom(ctx context.Context, f initFlags, s askSample) ([]byte, askChoice, error) {
	at := requestLine.FindIndex(s.mapping)
	if at == nil { // there is no e-mail address to ask at
		if len(f.ask) > 0 && !slices.Equal(f.ask, []string{askNobody}) {
			return nil, askChoice{}, usage.Errorf("--ask: no column contains e-mail addresses, so payersync cannot ask for mandates; omit --ask")
		}
		return s.mapping, askChoice{}, nil
	}
	chosen, err := a.chooseWhom(ctx, f, s)
	if err != nil {
		return nil, askChoice{}, err
	}
	if chosen.rule == "" { // the present rule asks everybody
		return s.mapping, chosen, nil
	}
	line := "\n# " + chosen.sentence + "\nmandate:\n  request: " + yamlText(chosen.rule) + "\n"
	if chosen.rule == "false" {
		line = "\n# nobody is asked yet; everybody with an e-mail address is by " + hasEmail +
			"\nmandate:\n  request: false\n"
	}
	out := slices.Concat(s.mapping[:at[0]], []byte(line), withoutRequests(s.mapping[at[1]:]))
	if s.load != nil {
		if _, err := s.load(out); err != nil {
			return nil, askChoice{}, usage.Errorf("--ask cannot be made a rule of %s: %s", mappingFile, shownLines(err.Error()))
		}
	}
	return out, chosen, nil
}

// requestLine matches the rule in a mapping written by init, with its comment.
var requestLine = regexp.MustCompile(`(?:\n# .*)*\nmandate:(?: *#.*)?\n  request: .*\n`)

// wantedRequests are the examples' expectations of the rule: another rule asks others.
var wantedRequests = regexp.MustCompile(`(?m)^ +request: (?:true|false)(?: +#.*)?\n|, request: (?:true|false)`)

func withoutRequests(text []byte) []byte { return wantedRequests.ReplaceAll(text, nil) }

// yamlText writes an expression as a value of YAML.
func yamlText(text string) string {
	if strings.Contains(text, ": ") || strings.Contains(text, " #") {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return text
}

func (a *app) chooseWhom(ctx context.Context, f initFlags, s askSample) (askChoice, error) {
	everybody, nobody := askChoice{"", "everybody with an e-mail address"}, askChoice{"false", "nobody yet"}
	if len(f.ask) > 0 {
		return s.flagged(f.ask, everybody, nobody)
	}
	choices := append(append([]askChoice{everybody}, s.narrower()...), nobody)
	if s.rows != nil {
		choices[0].sentence += fmt.Sprintf(" (%d)", s.reached(nil))
	}
	switch {
	case f.yes:
		return choices[0], nil
	case a.Unasked() != "":
		return nobody, nil
	}
	offered := connector.Map(choices, func(c askChoice) string { return c.sentence })
	at, err := a.Chooses(ctx,
		"Which payers do you ask to sign a direct debit mandate? payersync asks nobody before you have seen a plan. You can decide on each payer later.", offered...)
	if err != nil {
		return askChoice{}, err
	}
	return choices[at], nil
}

// flagged returns the choice of --ask. Several values of one column are alternatives; several columns must all fit.
func (s *askSample) flagged(asks []string, everybody, nobody askChoice) (askChoice, error) {
	values, order := map[string][]string{}, []string{}
	for _, ask := range asks {
		column, value, isPair := strings.Cut(ask, "=")
		switch {
		case !isPair && len(asks) == 1 && ask == askEverybody:
			return everybody, nil
		case !isPair && len(asks) == 1 && ask == askNobody:
			return nobody, nil
		case !isPair:
			return askChoice{}, usage.Errorf("--ask %q: write everybody, nobody, COLUMN=VALUE or currency=EUR; only COLUMN=VALUE can be repeated", show.Visible(ask))
		}
		field, err := s.field(strings.TrimSpace(column))
		if err != nil {
			return askChoice{}, err
		}
		if values[field] == nil {
			order = append(order, field)
		}
		spelt, err := s.spellings(field, strings.TrimSpace(value))
		if err != nil {
			return askChoice{}, err
		}
		values[field] = append(values[field], spelt...)
	}
	rule, words := hasEmail, []string{}
	for _, field := range order {
		rule += " && " + isOneOf(field, values[field])
		words = append(words, fmt.Sprintf("%s is %s", field, strings.Join(values[field], " or ")))
	}
	return askChoice{rule, "only those whose " + strings.Join(words, " and ")}, nil
}

// field returns the column meant by --ask.
func (s *askSample) field(name string) (string, error) {
	if slices.Contains(s.columns, name) || s.columns == nil && name != askCurrency {
		return name, nil
	}
	if name == askCurrency && s.currency() != "" {
		return s.currency(), nil
	}
	if base, _, _ := strings.Cut(name, "."); slices.Contains(s.columns, base) {
		return name, nil
	}
	if s.columns == nil {
		return "", usage.Errorf("--ask: the currency of this source is not known; name its column: --ask COLUMN=EUR")
	}
	return "", usage.Errorf("--ask: there is no column %q; the columns are %s", show.Visible(name),
		show.Visible(strings.Join(s.columns, ", ")))
}

// spellings returns a value of a column as the rows spell it, in upper and lower case. It fails for a value that no row
// has: nobody would be asked, unseen.
func (s *askSample) spellings(column, wanted string) ([]string, error) {
	at := slices.Index(s.columns, column)
	if at < 0 || s.rows == nil || wanted == "" {
		return []string{wanted}, nil
	}
	counts, spelt := map[string]int{}, map[string]bool{}
	for _, row := range s.rows {
		v := strings.TrimSpace(row[at])
		if counts[v]++; strings.EqualFold(v, wanted) {
			spelt[v] = true
		}
	}
	if len(spelt) == 0 {
		delete(counts, "")
		return nil, usage.Errorf("--ask: no row has %q in the column %q; the most frequent values are %s",
			show.Visible(wanted), show.Visible(column), show.Visible(strings.Join(likeliest(counts), ", ")))
	}
	return slices.Sorted(maps.Keys(spelt)), nil
}

// currency returns the field with the currency of a customer; "" if unknown.
func (s *askSample) currency() string {
	if i := slices.IndexFunc(s.columns, currencyColumn.MatchString); s.money == "" && i >= 0 {
		return s.columns[i]
	}
	return s.money
}

var (
	currencyColumn = regexp.MustCompile(`(?i)currency|w(ä|ae)hrung|devise|valuta|moneda|monnaie`)
	groupColumn    = regexp.MustCompile(`(?i)pay(ment)?[ _-]?(method|type|by)|preferred payment|zahl(ungs)?(art|weise|form|weg)|zahlungsmethode|direct.?debit|lastschrift|einzug|sepa|mode de (r.glement|paiement)|modalit|betaalwijze|forma de pago|^(customer |contact |kunden)?(group|gruppe|category|kategorie|tags?|labels?|class|klasse|segment|type)s?$`)
	debitValue     = regexp.MustCompile(`(?i)direct.?debit|lastschrift|pr[eé]l[eè]vement|domiciliat|incasso|addebito|einzug|sepa|gocardless|bacs`)
)

// How many values of a column the question offers, and for how many columns.
const (
	mostKinds   = 8
	mostChoices = 3
)

// narrower returns the choices with fewer payers: by a payment method, a group or tag, and by the currency.
func (s *askSample) narrower() (out []askChoice) {
	if s.rows == nil {
		return s.currencies()
	}
	everybody := s.reached(nil)
	for _, kind := range []*regexp.Regexp{groupColumn, currencyColumn} {
		for at, column := range s.columns {
			if !kind.MatchString(column) && (kind != groupColumn || !s.saysDirectDebit(at)) {
				continue
			}
			counts := map[string]int{}
			s.reached(func(row []string) bool { counts[strings.TrimSpace(row[at])]++; return true })
			delete(counts, "")
			if len(counts) > mostKinds {
				continue
			}
			for _, value := range likeliest(counts) {
				if counts[value] < everybody {
					out = append(out, askChoice{hasEmail + " && " + isOneOf(column, []string{value}),
						fmt.Sprintf("only those whose %s is %s (%d)", column, value, counts[value])})
				}
			}
		}
	}
	return out
}

// saysDirectDebit reports whether a column has few different values, and one of them says direct debit.
func (s *askSample) saysDirectDebit(at int) bool {
	kinds, says := map[string]bool{}, false
	for _, row := range s.rows {
		v := strings.TrimSpace(row[at])
		if kinds[v] = true; len(kinds) > mostKinds {
			return false
		}
		says = says || debitValue.MatchString(v)
	}
	return says
}

// currencies offers the currencies of a source without customers read yet.
func (s *askSample) currencies() (out []askChoice) {
	field := s.currency()
	if field == "" {
		return nil
	}
	for _, code := range []string{"GBP", "EUR", "USD"} {
		out = append(out, askChoice{hasEmail + " && " + isOneOf(field, []string{code}),
			fmt.Sprintf("only those whose %s is %s", field, code)})
	}
	return out
}

// likeliest returns the values for direct debit, or else those of most customers.
func likeliest(counts map[string]int) []string {
	var all, debit []string
	for v := range counts {
		all = append(all, v)
		if debitValue.MatchString(v) {
			debit = append(debit, v)
		}
	}
	if len(debit) > 0 {
		all = debit
	}
	slices.SortFunc(all, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	return all[:min(len(all), mostChoices)]
}

// reached counts the customers of the sample with an e-mail address and the condition.
func (s *askSample) reached(holds func(row []string) bool) (n int) {
	m, err := s.load(s.mapping)
	if err != nil {
		return 0
	}
	for _, cells := range s.rows {
		data, err := s.record(cells)
		if err != nil {
			continue
		}
		made, err := m.Apply(connector.Record{State: connector.RecordActive, Data: data})
		email := func(p connector.Person) bool { return strings.TrimSpace(p.Email) != "" }
		if err == nil && made.Included && slices.ContainsFunc(made.Customer.People, email) && (holds == nil || holds(cells)) {
			n++
		}
	}
	return n
}

// isOneOf returns a condition for a field with one of some values. Xero's groups are a list.
func isOneOf(field string, values []string) string {
	quoted := connector.Map(values, func(v string) string { return fmt.Sprintf("%q", v) })
	is := "== " + quoted[0]
	if len(values) > 1 {
		is = "in [" + strings.Join(quoted, ", ") + "]"
	}
	if field == "ContactGroups" {
		return fmt.Sprintf("any(%s, .Name %s)", field, is)
	}
	if strings.Contains(field, ".") { // a member of an object, as QuickBooks has
		return field + " " + is
	}
	return "trim(" + mapping.Written(field) + ") " + is
}

// settleAsking decides which payers are asked, for a file or a table.
func (s *dataSetup) settleAsking(ctx context.Context) error {
	with := *s // that tries a mapping
	text, chosen, err := s.askWhom(ctx, s.initFlags,
		askSample{mapping: s.mapping, columns: s.table.Columns, rows: s.table.Rows, record: s.record,
			load: func(text []byte) (*mapping.Mapping, error) {
				with.mapping = text
				return with.loaded()
			}})
	if err != nil {
		return err
	}
	s.mapping, s.whom = text, chosen
	if r := s.ruleAt("mandate.request"); r != nil && chosen.rule != "" {
		r.Value, r.Why = chosen.rule, chosen.sentence
	}
	return nil
}

// shippedSample is the question's data for a source with a shipped mapping.
func shippedSample(kind string, text []byte) askSample {
	s := askSample{mapping: text}
	if fields := fieldsOf(&config.Source{SourceKeys: config.SourceKeys{Kind: kind}}); fields != nil {
		info := connector.SourceInfo{Kind: kind, Tenant: "any", Fields: fields}
		s.load = func(text []byte) (*mapping.Mapping, error) { return mapping.Load(mappingFile, text, info) }
		s.columns = append(s.columns, connector.Map(info.Fields, func(f connector.Field) string { return f.Name })...)
	}
	s.money = map[string]string{"quickbooks": "CurrencyRef.value", "csv-sage": "Currency", "sql-gnucash": "currency",
		"sql-ledgersmb": "currency"}[kind]
	return s
}

// askOfShipped decides which payers are asked in the mapping of a set-up without data. It keeps the rule of
// the sample data.
func (a *app) askOfShipped(ctx context.Context, f initFlags, files []firstFile) (askChoice, error) {
	i := slices.IndexFunc(files, func(x firstFile) bool { return x.name == mappingFile })
	if f.source == "" && len(f.ask) == 0 {
		return askChoice{}, nil
	}
	text, chosen, err := a.askWhom(ctx, f, shippedSample(f.source, files[i].data))
	files[i].data = text
	return chosen, err
}

// printWhom says which payers are asked, and how to change that. It prints nothing if there was no question.
func (a *app) printWhom(chosen askChoice) {
	if chosen.sentence == "" {
		return
	}
	a.Hanging("", fmt.Sprintf("Asked for a mandate: %s. Change it in %s, mandate.request.", chosen.sentence, mappingFile))
	if chosen.rule == "false" {
		a.Hanging("", "To ask all payers with an e-mail address, begin anew with --ask everybody, or change the rule; payersync payers ask asks single payers.")
	}
}
