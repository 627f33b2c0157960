package propose

import (
	"fmt"
	"strings"
)

// top is how a proposed mapping begins.
const top = `# How a row of the %s becomes a customer of the billing service. payersync
# proposed it; behind each # is why.%s%s Correct what is wrong, then look at what it does%s

version: 1
source: %s
`

// File returns the mapping file, with the reasons as comments. Its head has these commands, each with its purpose; they
// show the effect of the file.
func (p Proposal) File(commands ...string) []byte {
	source, rows := "csv", "export"
	if p.Stored {
		source, rows = "sql", "query"
	}
	f := file{rules: map[string]Rule{}}
	recognised, part := "", ""
	if p.First > 0 {
		part = fmt.Sprintf(" It goes by the first %d rows.\n#", p.First)
	}
	if p.Recognised != nil {
		recognised = " " + oneLine(p.Recognised.String()) + "\n#"
	}
	ways := "."
	if len(commands) > 0 {
		ways = ":\n#\n#   " + strings.Join(commands, "\n#   ")
	}
	fmt.Fprintf(&f.text, top, rows, recognised, part, ways, source)
	for _, r := range p.Rules {
		f.rules[r.Path] = r
	}
	f.top("region", "region")
	f.block("key", "key.customerNumber")
	f.top("scope", "scope")
	f.top("include", "include")
	f.text.WriteString("\ncustomer:\n")
	f.line("  ", "name", "customer.name")
	f.element("people", "name", "email", "phone")
	f.element("addresses", "line1", "city", "postCode", "country")
	f.block("externalData", "externalData.number")
	f.block("mandate", "mandate.request")
	f.left(p.Left)
	return []byte(f.text.String())
}

// left lists the columns without a rule, those without a value in one line.
func (f *file) left(columns []Note) {
	if len(columns) == 0 {
		return
	}
	f.text.WriteString("\n# Columns that nothing is made of:\n")
	var empty []string
	for _, l := range columns {
		if l.Why == emptyColumn {
			empty = append(empty, oneLine(l.Column))
			continue
		}
		fmt.Fprintf(&f.text, "#   %s: %s\n", oneLine(l.Column), l.Why)
	}
	if len(empty) > 0 {
		fmt.Fprintf(&f.text, "#   empty: %s\n", strings.Join(empty, ", "))
	}
}

// file is a mapping file under construction.
type file struct {
	text  strings.Builder
	rules map[string]Rule
}

// top writes a top-level rule.
func (f *file) top(key, path string) {
	if _, has := f.rules[path]; has {
		f.text.WriteByte('\n')
		f.line("", key, path)
	}
}

// block writes a key with one rule below it.
func (f *file) block(key, path string) {
	if r, has := f.rules[path]; has {
		f.comment("\n", "", r.Why)
		fmt.Fprintf(&f.text, "%s:\n  %s: %s\n", key, path[strings.LastIndexByte(path, '.')+1:], scalar(r.Value))
	}
}

func (f *file) line(indent, key, path string) {
	if r, has := f.rules[path]; has {
		f.comment("", indent, r.Why)
		fmt.Fprintf(&f.text, "%s%s: %s\n", indent, key, scalar(r.Value))
	}
}

// element writes a list of one contact or address.
func (f *file) element(key string, fields ...string) {
	begun := false
	for _, field := range fields {
		r, has := f.rules[fmt.Sprintf("customer.%s[0].%s", key, field)]
		if !has {
			continue
		}
		indent, lead := "      ", "      "
		if !begun {
			fmt.Fprintf(&f.text, "  %s:\n", key)
			indent, lead, begun = "    ", "    - ", true
		}
		f.comment("", indent, r.Why)
		fmt.Fprintf(&f.text, "%s%s: %s\n", lead, field, scalar(r.Value))
	}
}

// comment writes the reason above its rule.
func (f *file) comment(before, indent, why string) {
	f.text.WriteString(before + indent + "# " + oneLine(why) + "\n")
}

// oneLine keeps a text from outside within its comment.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// scalar writes an expression as YAML takes it.
func scalar(s string) string {
	if strings.Contains(s, ": ") || strings.Contains(s, " #") || strings.ContainsAny(s[:1], "\"'[]{}&*!|>%@`-?:,#") ||
		strings.HasSuffix(s, ":") {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return s
}
