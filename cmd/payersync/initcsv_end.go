package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/match"
	"payersync/mapping"
	"payersync/mapping/propose"
)

// assumption is an assumption of init, with the place to change it.
type assumption struct {
	Place    string `json:"place"` // mapping.yaml:12
	Sentence string `json:"sentence"`
}

// oddRow is a row to check before a first run.
type oddRow struct {
	Line int    `json:"line,omitempty"` // of a file
	Row  string `json:"row"`            // line 7, or the id of a row
	Why  string `json:"why"`
}

// topics are the rules decided by the answers.
var topics = map[string]string{
	"payment": "include", "id": "key.customerNumber", "email": "customer.people[0].email", "name": "customer.name",
	"region": "customer.people[0].phone",
}

// assumed lists init's assumptions: unanswered questions, and rules with effect on many customers.
func (s *dataSetup) assumed() []assumption {
	out := []assumption{}
	if s.shipped {
		return append(append(out, s.took...),
			assumption{mappingFile, "The mapping for --source " + s.source + " fits this " + s.what + "."})
	}
	out = append(out, s.took...)
	for _, q := range s.proposal.Questions {
		if q.Said {
			continue
		}
		path := topics[q.Topic]
		if strings.HasPrefix(q.Topic, "status ") {
			path = "include"
		}
		out = append(out, assumption{s.place(path), fmt.Sprintf("%s Taken: %s.", q.Text, q.Options[q.Taken])})
	}
	for _, path := range []string{"include", "customer.name", "mandate.request"} {
		if r := s.ruleAt(path); r != nil {
			out = append(out, assumption{s.place(path), fmt.Sprintf("%s: %s.", path, r.Why)})
		}
	}
	if s.rule("include") == "" {
		out = append(out, assumption{mappingFile, "Every row is a customer: no column says otherwise."})
	}
	return out
}

func (s *dataSetup) ruleAt(path string) *propose.Rule {
	i := slices.IndexFunc(s.proposal.Rules, func(r propose.Rule) bool { return r.Path == path })
	if i < 0 {
		return nil
	}
	return &s.proposal.Rules[i]
}

// place names the mapping's line of a rule.
func (s *dataSetup) place(path string) string {
	r := s.ruleAt(path)
	if r == nil {
		return mappingFile
	}
	key, section := path[strings.LastIndexByte(path, '.')+1:]+": ", ""
	for i, line := range strings.Split(string(s.mapping), "\n") {
		if name, _, ok := strings.Cut(line, ":"); ok && line != "" && line[0] != ' ' && line[0] != '#' {
			section = name
		}
		text := strings.TrimLeft(line, " -")
		if strings.HasPrefix(path, section) && strings.HasPrefix(text, key) &&
			strings.Contains(strings.ReplaceAll(text, "''", "'"), r.Value) {
			return fmt.Sprintf("%s:%d", mappingFile, i+1)
		}
	}
	return mappingFile
}

// How many odd rows are shown, and how many of one kind.
const (
	mostOdd       = 10
	mostOddOfKind = 4
)

// oddNames match unusual names for customers.
var oddNames = []struct {
	why  string
	name *regexp.Regexp
}{
	{"its name is that of a bank",
		regexp.MustCompile(`(?i)\b(bank|sparkasse|volksbank|raiffeisenbank|banque|banca|banco|building society)\b`)},
	{"its name is that of a tax or insurance office",
		regexp.MustCompile(`(?i)\b(finanzamt|finanzkasse|hmrc|hm revenue|tax office|inland revenue|urssaf|tr[eé]sor public|agenzia delle entrate|belastingdienst|agencia tributaria|krankenkasse|customs)\b`)},
	{"it stands for cash sales or for many customers",
		regexp.MustCompile(`(?i)\b(cash (sales?|customers?|account)|barverk(auf|äufe)|laufkund\w*|bargeschäft|diverse\w*|sundry|walk-?in|counter sales?|clients? divers|ventes? comptoir|clienti vari|contante|passanten)\b`)},
	{"its name marks it as unused",
		regexp.MustCompile(`(?i)(\bdo not use\b|\bdon'?t use\b|\bnot in use\b|nicht (mehr )?(verwenden|benutzen)|ne (pas|plus) utiliser|non usare|niet (meer )?gebruiken|no usar|\bdummy\b|\btest ?(kunde|customer|client|account)\b|\bdublette\b|\bduplicate\b|\bzzz)`)},
}

// oddRows returns up to ten unusual rows included by the mapping.
func (s *dataSetup) oddRows() []oddRow {
	m, err := s.loaded()
	if err != nil {
		return nil
	}
	found, ofKind, seen := []oddRow{}, map[string]int{}, map[string]string{}
	for i, cells := range s.table.Rows {
		if len(found) == mostOdd {
			break
		}
		data, err := s.record(cells)
		if err != nil {
			return found
		}
		made, err := m.Apply(connector.Record{State: connector.RecordActive, Data: data})
		if err != nil || !made.Included {
			continue
		}
		kind, why := oddness(made.Customer, s.row(i), seen)
		if kind == "" || ofKind[kind] == mostOddOfKind {
			continue
		}
		ofKind[kind]++
		odd := oddRow{Row: s.row(i), Why: why}
		_, _ = fmt.Sscanf(odd.Row, "line %d", &odd.Line) // a row of a database has none
		found = append(found, odd)
	}
	return found
}

// record is a row of the table as the source gives it.
func (s *dataSetup) record(cells []string) ([]byte, error) {
	row := make(map[string]any, len(cells))
	for at, cell := range cells {
		row[s.table.Columns[at]] = s.typed(at, cell)
	}
	return json.Marshal(row)
}

// typed is a cell as the source gives it.
func (s *dataSetup) typed(at int, cell string) any {
	i := slices.IndexFunc(s.info.Fields, func(f connector.Field) bool { return f.Name == s.table.Columns[at] })
	if i < 0 || s.info.Fields[i].Type == connector.TypeText {
		return cell
	}
	if cell == "" {
		return nil
	}
	return json.RawMessage(cell)
}

// oddness says why a customer looks odd; "" when it does not. seen holds the first row of each
// e-mail address and postal address so far.
func oddness(c connector.Customer, row string, seen map[string]string) (kind, why string) {
	if strings.TrimSpace(c.Name) == "" {
		return "name", "it has no name"
	}
	for _, odd := range oddNames {
		if odd.name.MatchString(c.Name) {
			return odd.why, odd.why
		}
	}
	for _, p := range c.People {
		if first := firstRow(seen, strings.ToLower(p.Email), row); first != "" {
			return "email", "it has the same e-mail address as " + first
		}
	}
	for _, a := range c.Addresses {
		if first := firstRow(seen, match.AddressKey(a), row); first != "" {
			return "address", "it has the same postal address as " + first
		}
	}
	return "", ""
}

// firstRow returns the first row with a key; "" if it is this row, or the key is blank.
func firstRow(seen map[string]string, key, row string) string {
	first, known := seen[key]
	switch {
	case key == "" || first == row:
		return ""
	case !known:
		seen[key] = row
	}
	return first
}

// loaded is the mapping for the existing columns.
func (s *dataSetup) loaded() (*mapping.Mapping, error) {
	info := s.info
	info.Organisation = s.name
	return mapping.Load(mappingFile, s.mapping, info)
}

// showEnd shows the assumptions and the unusual rows.
func (s *dataSetup) showEnd() {
	fmt.Fprintf(s.Out, "\nTaken for granted; change the line where it is wrong\n")
	for _, a := range s.assumed() {
		s.Hanging("  ", show.Visible(a.Place+"  "+a.Sentence))
	}
	odd := s.oddRows()
	if len(odd) == 0 {
		return
	}
	fmt.Fprintf(s.Out, "\nRows that look odd; look at them before a first run\n")
	for _, o := range odd {
		s.Hanging("  ", show.Visible(o.Row+": "+o.Why))
	}
}

var unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)

// lackingColumns returns the mapping's columns missing in the file.
func lackingColumns(err error) (names []string) {
	for _, m := range unknownField.FindAllStringSubmatch(err.Error(), -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}
