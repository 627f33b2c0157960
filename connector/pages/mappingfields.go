package pages

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/mapping"
	"payersync/mapping/strict"
)

// fieldsTab is the table of a customer's fields with their rules, in place of the mapping's text.
type fieldsTab struct {
	Rows    []fieldRule
	Columns []admin.Column
	Quick   bool // each row has the columns to choose from
	Open    string
}

// quickest is how many choices of columns the rows of a page have together; with more, only the opened row has them.
const quickest = 400

// fieldRule is a row of the table.
type fieldRule struct {
	admin.CustomerField
	Does    string // the rule in words
	Wrong   string // its mistake
	Open    bool   // its form is open
	Why     string // of a proposal that the form has
	Kinds   []option
	Parts   [][]option // the columns to choose from, for each part
	Needs   []option   // those of a condition
	Written []option   // the spellings of the value
}

// ByHand reports whether the rule can only be edited as text.
func (f fieldRule) ByHand() bool { return f.Rule.Kind == mapping.ByHand }

// Idle reports whether the field has no rule, and nothing to say about it.
func (f fieldRule) Idle() bool { return f.Rule.Kind == mapping.NoRule && !f.Open && f.Wrong == "" }

// ruleOn is a row of the table on a page.
type ruleOn struct {
	fieldRule
	P *mappingPage
}

// Ruled returns the rows of fields with a rule.
func (p *mappingPage) Ruled() []ruleOn { return p.rowsOf(false) }

// Idle returns the rows of fields without a rule, which are folded away.
func (p *mappingPage) Idle() []ruleOn { return p.rowsOf(true) }

func (p *mappingPage) rowsOf(idle bool) (out []ruleOn) {
	for _, f := range p.Table.Rows {
		if f.Idle() == idle {
			out = append(out, ruleOn{f, p})
		}
	}
	return out
}

// tab is an entry of the pages about a mapping.
type tab struct {
	Path, Label string
	Here        bool
	Do          string // of the button that opens it with the edited text; "" for a link
}

// mappingTabs returns the tabs; those of an editor keep what is edited.
func mappingTabs(path, here string, editor bool) []tab {
	tabs := []tab{
		{Path: path, Label: "Fields", Do: "fields"}, {Path: path + "/text", Label: "Text (YAML)", Do: "text"},
		{Path: path + "/quality", Label: "Data quality"}, {Path: path + "/versions", Label: "Versions"},
	}
	for i, name := range []string{"fields", "text", "quality", "versions"} {
		if tabs[i].Here = name == here; tabs[i].Here || !editor {
			tabs[i].Do = ""
		}
	}
	return tabs
}

// Tabs returns the tabs of the page.
func (p *mappingPage) Tabs() []tab {
	if p.AsText {
		return mappingTabs(p.Path, "text", p.MayEdit)
	}
	return mappingTabs(p.Path, "fields", p.MayEdit)
}

// lineOfText is a line of the mapping's text.
type lineOfText struct {
	N       int
	Path    string
	MayEdit bool
}

// LineAt returns a line of the text.
func (p *mappingPage) LineAt(n int) lineOfText { return lineOfText{n, p.Path, p.MayEdit} }

// mappingText shows the text of a mapping.
func (v *visit) mappingText() error { return v.openMapping(true) }

// addFieldsTab adds the table, unless the text is no mapping.
func (v *visit) addFieldsTab(p *mappingPage, checked admin.Checked) error {
	p.Table = &fieldsTab{Columns: admin.Columns(checked.Info.Fields), Open: p.Open}
	m, privacy := v.pages.cfg.Mappings, admin.Privacy{Whole: p.Raw}
	fields, err := m.CustomerFields(v.Context(), checked.Connection, []byte(p.Text), privacy)
	var wrong *strict.Error
	if errors.As(err, &wrong) {
		return nil
	} else if err != nil {
		return err
	}
	p.Table.Quick = p.MayEdit && len(fields)*len(p.Table.Columns) <= quickest
	mistakes := map[int]string{}
	for _, w := range p.Wrong {
		mistakes[w.Line] = w.Message
	}
	for _, f := range fields {
		row := fieldRule{CustomerField: f, Does: p.Table.sentence(f.Rule)}
		row.Open = f.Path == p.Open && p.MayEdit && !row.ByHand()
		if f.Line > 0 {
			row.Wrong = mistakes[f.Line]
		}
		switch {
		case row.Open && p.Refused.Kind != mapping.NoRule:
			row.Rule = p.Refused
		case row.Open && f.Rule.Kind == mapping.NoRule:
			if row.Rule, row.Why, err = m.ProposeRule(v.Context(), checked.Connection, f.Path); err != nil {
				return err
			}
		}
		if row.Open {
			p.Table.addForm(&row)
		}
		p.Table.Rows = append(p.Table.Rows, row)
	}
	return nil
}

// ruleKinds are the kinds of rules in a drop-down.
var ruleKinds = []option{
	{Value: string(mapping.Column), Label: "One column"},
	{Value: string(mapping.First), Label: "The first column that is filled"},
	{Value: string(mapping.Joined), Label: "Several columns in a row"},
	{Value: string(mapping.OnlyIf), Label: "A column, under a condition"},
	{Value: string(mapping.Fixed), Label: "A fixed text"},
}

// fewestParts is how many columns a form asks for at least.
const fewestParts = 3

// addForm adds the choices of a row's form.
func (t *fieldsTab) addForm(row *fieldRule) {
	row.Kinds = slices.Clone(ruleKinds)
	if !row.Required {
		row.Kinds = append(row.Kinds, option{Label: "No rule"})
	}
	for i := range row.Kinds {
		row.Kinds[i].Here = row.Kinds[i].Value == string(row.Rule.Kind)
	}
	for i := range max(fewestParts, len(row.Rule.Parts)+1) {
		part := ""
		if i < len(row.Rule.Parts) {
			part = row.Rule.Parts[i]
		}
		row.Parts = append(row.Parts, t.choices(part))
	}
	row.Needs = t.choices(row.Rule.If)
	if spellings := row.spellings(); len(spellings) > 0 {
		row.Written = append(row.Written, option{"", "As it is", row.Rule.Form == ""})
		for _, form := range spellings {
			row.Written = append(row.Written, option{form, t.formWords(form), row.Rule.Form == form})
		}
	}
}

// spellings returns the forms that the field may have, with the one that it has.
func (f fieldRule) spellings() []string {
	if f.Rule.Form == "" || slices.Contains(f.Forms, f.Rule.Form) {
		return f.Forms
	}
	return append([]string{f.Rule.Form}, f.Forms...)
}

// choices returns the columns to choose from. A part that is no column stands before them.
func (t *fieldsTab) choices(part string) []option {
	out := []option{{"", "–", part == ""}}
	here := t.word(part)
	if part != "" && !slices.ContainsFunc(t.Columns, func(c admin.Column) bool { return c.Label == here }) {
		out = append(out, option{part, here, true})
	}
	for _, c := range t.Columns {
		out = append(out, option{"", c.Label, c.Label == here})
	}
	return out
}

// word returns a part of a rule as people read it: a column by its name.
func (t *fieldsTab) word(part string) string {
	column := mapping.ColumnOf(part)
	if i := slices.IndexFunc(t.Columns, func(c admin.Column) bool { return c.Written == column }); column != "" &&
		i >= 0 {
		return t.Columns[i].Label
	}
	if rule := mapping.ReadSimple(part); rule.Kind == mapping.Joined || rule.Kind == mapping.Fixed {
		return t.sentence(rule)
	}
	return part
}

// sentence returns a rule as people read it.
func (t *fieldsTab) sentence(r mapping.Simple) string {
	words := connector.Map(r.Parts, t.word)
	text := ""
	switch r.Kind {
	case mapping.NoRule, mapping.ByHand:
		return ""
	case mapping.Column:
		text = words[0]
	case mapping.First:
		text = strings.Join(words, ", otherwise ")
	case mapping.Joined:
		if text = strings.Join(words, ", then "); strings.TrimSpace(r.Sign) != "" && strings.TrimSpace(r.Sign) != "," {
			text += fmt.Sprintf(", with “%s” between", r.Sign)
		}
	case mapping.OnlyIf:
		if text = fmt.Sprintf("%s, only if %s is filled", words[0], t.word(r.If)); r.Equals != "" {
			text = fmt.Sprintf("%s, only if %s is “%s”", words[0], t.word(r.If), r.Equals)
		}
	case mapping.Fixed:
		text = "“" + r.Text + "”"
	}
	if r.Form != "" {
		text += " (" + t.formWords(r.Form) + ")"
	}
	return text
}

// formWords returns a form as people read it.
func (t *fieldsTab) formWords(form string) string {
	switch form {
	case "lower(firstEmail(…))", "firstEmail(…)":
		return "first e-mail address"
	case "phone(…)":
		return "phone number with country code"
	case "postcode(…)":
		return "spelling of UK postcodes"
	case "country(…)":
		return "two-letter country code"
	}
	if strings.HasPrefix(form, "phone(…, default(country(") {
		return "phone number of the customer's country"
	}
	return form
}

// applyFields writes the choices of the table into the text.
func (v *visit) applyFields(p *mappingPage) error {
	conn, err := v.pages.cfg.Mappings.Source(v.Context(), p.Connection)
	if err != nil {
		return err
	}
	fields, err := mapping.CustomerFields([]byte(p.Text))
	var wrong *strict.Error
	if errors.As(err, &wrong) {
		return nil // its mistakes are shown
	} else if err != nil {
		return err
	}
	t := &fieldsTab{Columns: admin.Columns(conn.Info.Fields)}
	for _, f := range fields {
		rule, chosen := f.Rule, false
		switch column := v.PostFormValue("column " + f.Path); {
		case f.Rule.Kind == mapping.ByHand:
		case f.Path == v.PostFormValue("edits"):
			rule, chosen = t.ruleOf(v, f), true
		case column != "":
			rule, chosen = mapping.Simple{Kind: mapping.Column, Form: naturalForm(f)}, true
			rule.Parts = []string{t.part(column, rule.Form, f.Rule.Parts)}
		}
		if !chosen {
			continue
		}
		text, err := mapping.SetRule([]byte(p.Text), f.Path, rule)
		switch {
		case errors.Is(err, mapping.ErrNotSimple), errors.Is(err, strict.ErrNoPlace):
			p.Problem = fmt.Sprintf("the rule for %s is incomplete, or can only be written as text", admin.MappingLabel(f.Path))
			p.Anchor, p.Status = rowID(f.Path), http.StatusUnprocessableEntity
			p.Open, p.Refused = f.Path, rule
		case err != nil:
			return err
		default:
			p.Text = string(text)
		}
	}
	return nil
}

// naturalForm returns the form of a field's value for a newly chosen column.
func naturalForm(f mapping.CustomerField) string {
	if f.Rule.Kind != mapping.NoRule || len(f.Forms) == 0 {
		return f.Rule.Form
	}
	return f.Forms[0]
}

// ruleOf returns the rule of the open form.
func (t *fieldsTab) ruleOf(v *visit, f mapping.CustomerField) mapping.Simple {
	r := mapping.Simple{Kind: mapping.SimpleKind(v.PostFormValue("kind"))}
	switch r.Kind {
	case mapping.NoRule:
		return r
	case mapping.Fixed:
		r.Text = v.PostFormValue("fixed")
		return r
	}
	if form := v.PostFormValue("form"); mapping.ReadSimple(strings.Replace(form, mapping.Slot, "A", 1)).Form == form {
		r.Form = form
	}
	for i, choice := range v.PostForm["part"] {
		present := f.Rule.Parts[min(i, len(f.Rule.Parts)):]
		if part := t.part(choice, r.Form, slices.Concat(present, f.Rule.Parts)); part != "" {
			r.Parts = append(r.Parts, part)
		}
	}
	switch r.Kind {
	case mapping.First, mapping.Joined:
		if len(r.Parts) == 1 {
			r.Kind = mapping.Column
		} else if r.Kind == mapping.Joined {
			r.Sign = v.PostFormValue("sign")
		}
		return r
	case mapping.OnlyIf:
		r.If, r.Equals = t.part(v.PostFormValue("if"), "", []string{f.Rule.If}), v.PostFormValue("equals")
	}
	r.Parts = r.Parts[:min(1, len(r.Parts))]
	return r
}

// part returns the part of a rule for a choice; "" for none. A column that the rule reads already keeps its spelling,
// and any other one is trimmed unless a form does that.
func (t *fieldsTab) part(choice, form string, present []string) string {
	i := slices.IndexFunc(t.Columns, func(c admin.Column) bool { return c.Label == choice })
	at := slices.IndexFunc(present, func(part string) bool {
		return part == choice || i >= 0 && mapping.ColumnOf(part) == t.Columns[i].Written
	})
	switch {
	case choice == "":
		return ""
	case at >= 0:
		return present[at]
	case i >= 0 && form != "":
		return t.Columns[i].Written
	case i >= 0:
		return "trim(" + t.Columns[i].Written + ")"
	case mapping.ReadSimple(choice).Kind != mapping.ByHand:
		return choice
	}
	return ""
}

// rowID returns the anchor of a field's row.
func rowID(path string) string {
	return "field-" + strings.Trim(notInAnchors.ReplaceAllString(path, "-"), "-")
}

var notInAnchors = regexp.MustCompile(`[^A-Za-z0-9]+`)

// ID returns the anchor of the row.
func (f fieldRule) ID() string { return rowID(f.Path) }
