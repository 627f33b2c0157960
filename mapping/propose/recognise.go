package propose

import (
	"fmt"
	"slices"
	"strings"
)

// Recognised is the program of an export, and the headings it was recognised by.
type Recognised struct {
	Program  string   `json:"program"`
	Headings []string `json:"headings"`
}

// String is a sentence about it.
func (r Recognised) String() string {
	return fmt.Sprintf("An export of %s, by the headings %s.", r.Program, strings.Join(r.Headings, ", "))
}

// recognise finds the program that wrote the table, and gives the columns their meanings. Of several
// programs, the one with most headings in common counts.
func (p *proposing) recognise() {
	for _, e := range exports() {
		if (p.export == nil || len(e.known) > len(p.export.known)) &&
			!slices.ContainsFunc(e.known, func(h string) bool { return p.called(h) == nil }) {
			p.export = &e
		}
	}
	if p.export == nil {
		return
	}
	p.out.Recognised = &Recognised{Program: p.export.program}
	for _, h := range p.export.known {
		p.out.Recognised.Headings = append(p.out.Recognised.Headings, p.called(h).name)
	}
	for i, m := range p.export.columns {
		if c := p.called(m.heading); c != nil && c.meant == nil {
			c.meant, c.rank = &m, i
			if m.role == roleNone {
				p.leave(c, m.why)
			}
		}
	}
}

// called returns the column with a heading, in plain words; nil when there is none.
func (p *proposing) called(words string) *column {
	i := slices.IndexFunc(p.columns, func(c *column) bool { return c.words == words })
	if i < 0 {
		return nil
	}
	return p.columns[i]
}

// filter is a condition that rows of customers fulfil.
type filter struct {
	column         *column
	condition, why string
}

// filters are the conditions of a known export for being a customer. They are written even if every row
// fulfils them, because the next export may differ.
func (p *proposing) filters() (out []filter) {
	for _, c := range p.columns {
		if c.meant == nil {
			continue
		}
		var r reading
		switch left, kept := c.meant.left, c.meant.kept; {
		case len(left) > 0:
			r = c.allBut(left)
		case len(kept) == 1 && kept[0] == "":
			n := c.rows - c.filled
			r = reading{fmt.Sprintf("only rows with a blank %q (%s rows)", c.name, of(n, c.rows)), "isBlank(" + c.written() +
				")", fmt.Sprintf("%s rows hold something in %q and are excluded", of(c.filled, c.rows), c.name), n}
		case len(kept) > 0:
			r = c.only(kept)
		default:
			continue
		}
		if taken, condition, why := p.take(c, r); taken != nil {
			out = append(out, filter{taken, condition, why})
		}
	}
	return out
}

// warnOfMarkup notes used columns with texts written as in a web page.
func (p *proposing) warnOfMarkup() {
	for _, c := range p.columns {
		if c.used && c.markup > 0 {
			p.note("%s signs such as &amp;, <br> or \\n in %q: they are sent as they stand. Export again as plain text.",
				rowsHave(c.markup), c.name)
		}
	}
}

// warn notes the traps of a known export that matter to this file.
func (p *proposing) warn() {
	if p.export == nil {
		return
	}
	for _, t := range p.export.traps {
		if t.column == "" {
			p.note("%s", t.text)
			continue
		}
		c, n := p.called(t.column), 0
		if c == nil {
			if t.match.MatchString("") { // without the column, all are blank
				p.note("%s", t.text)
			}
			continue
		}
		for _, row := range p.rows {
			if t.match.MatchString(strings.TrimSpace(c.value(row))) {
				n++
			}
		}
		if n > 0 {
			p.note("%s It is so in %s rows.", t.text, of(n, c.rows))
		}
	}
}
