package propose

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"payersync/connector"
)

// payers finds the rows to include as customers.
func (p *proposing) payers() {
	var conditions, reasons []string
	var columns []*column
	for _, find := range []func() (*column, string, string){p.total, p.placeholders, p.suppliers, p.status, p.customers,
		p.kind, p.leavers, p.payment} {
		if c, condition, why := find(); c != nil {
			conditions, reasons, columns = append(conditions, condition), append(reasons, why), append(columns, c)
		}
	}
	for _, f := range p.filters() {
		conditions, reasons, columns = append(conditions, f.condition), append(reasons, f.why), append(columns, f.column)
	}
	if len(columns) > 0 {
		p.rule("include", strings.Join(conditions, " && "), strings.Join(reasons, "; "), columns...)
	}
}

// total excludes the lines of totals at the end, if they have an id like the others.
func (p *proposing) total() (*column, string, string) {
	if len(p.id) != 1 {
		return nil, "", ""
	}
	var are []string
	c := p.id[0]
	for _, row := range p.totals {
		if text := c.value(row); text != "" {
			if is := "trim(" + c.written() + ")" + c.likeTotal(text); !slices.Contains(are, is) {
				are = append(are, is)
			}
		}
	}
	if len(are) == 0 {
		return nil, "", ""
	}
	return c, "not (" + strings.Join(are, " || ") + ")",
		"lines that count the customers, or describe the columns, are none"
}

// stamped matches a line with the time of the export.
var stamped = regexp.MustCompile(`[12][0-9]{3}.* [0-9]{1,2}:[0-9]{2}`)

// likeTotal returns an expression for a total, whose number changes from export to export.
func (c *column) likeTotal(text string) string {
	isStamped := func(v string) bool { return stamped.MatchString(v) }
	if isStamped(text) && !slices.ContainsFunc(c.common(), isStamped) {
		return fmt.Sprintf(" matches %q", stamped.String())
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	if len(words) > 0 {
		first, last := words[0], words[len(words)-1]
		for _, by := range []struct {
			is   bool
			how  string
			word string
			same func(string, string) bool
		}{
			{strings.HasPrefix(text, first), "startsWith", first, strings.HasPrefix},
			{strings.HasSuffix(text, last), "endsWith", last, strings.HasSuffix},
		} {
			others := slices.ContainsFunc(c.common(), func(v string) bool { return by.same(v, strings.ToLower(by.word)) })
			if by.is && len(by.word) > 2 && !others {
				return fmt.Sprintf(" %s %q", by.how, by.word)
			}
		}
	}
	return fmt.Sprintf(" == %q", text)
}

// placeholder matches names that stand for nobody, or for many.
var placeholder = regexp.MustCompile(`^(cash (sales?|customers?|account)|counter sales?|walk-?in( customers?)?|sundry( customers?| sales)?|miscellaneous customers?|barverk(auf|äufe)|laufkundschaft|diverse (kunden|debitoren)|ventes? comptoir|clients? divers|clienti vari|passanten)$|\b(do not|don't) use\b|\bnicht (mehr )?(verwenden|benutzen)\b|\bne (pas|plus) utiliser\b|\bnon usare\b|\bniet (meer )?gebruiken\b|\bno usar\b`)

// placeholders excludes names such as cash sales, and names marked as not to be used.
func (p *proposing) placeholders() (*column, string, string) {
	c := p.name.company
	if c == nil {
		return nil, "", ""
	}
	n, text := 0, "lower(trim("+c.written()+"))"
	var are []string
	for _, name := range c.common() {
		found := placeholder.FindString(name)
		if found == "" {
			continue
		}
		n += c.times[name]
		is := fmt.Sprintf("%s contains %q", text, found)
		if found == name {
			is = fmt.Sprintf("%s == %q", text, found)
		}
		if !slices.Contains(are, is) {
			are = append(are, is)
		}
	}
	if n == 0 {
		return nil, "", ""
	}
	return p.take(c, reading{fmt.Sprintf("all but names as “cash sales” and “do not use” (%s rows)", of(c.rows-n, c.rows)),
		"not (" + strings.Join(are, " || ") + ")",
		fmt.Sprintf("%s rows have a name in %q as “cash sales” or “do not use” and are excluded", of(n, c.rows), c.name),
		c.rows - n})
}

// suppliers tells debtors and creditors apart by their accounts, as DATEV numbers them.
func (p *proposing) suppliers() (*column, string, string) {
	if len(p.id) != 1 || p.id[0].words != "konto" {
		return nil, "", ""
	}
	c, creditors, length := p.id[0], 0, 0
	for v := range c.times {
		length = cmp.Or(length, len(v))
		if len(v) != length || strings.Trim(v, "0123456789") != "" {
			return nil, "", ""
		}
		if v[0] >= '7' {
			creditors++
		}
	}
	if creditors == 0 && c.meant == nil {
		return nil, "", ""
	}
	customers := reading{fmt.Sprintf("accounts below 7 (%s rows)", of(c.rows-creditors, c.rows)), "trim(" + c.written() +
		`) < "7"`, fmt.Sprintf("accounts from 7 on are suppliers: %s rows are excluded", of(creditors, c.rows)),
		c.rows - creditors}
	return p.take(c, customers)
}

// take uses a certain reading. It asks if the reading excludes most rows.
func (p *proposing) take(c *column, r reading) (*column, string, string) {
	if r.kept*2 < c.rows {
		return p.read(c, []reading{r})
	}
	return c, r.condition, r.why
}

// customers finds a column with yes for customers, or with yes for suppliers if there is none for customers.
func (p *proposing) customers() (*column, string, string) {
	flags := func(c *column) bool { return c.flags == c.filled && len(c.times) <= 2 }
	if c := p.first(roleCustomer, flags); c != nil {
		yes := c.of(yesWords)
		if c.sum(yes) == c.rows || len(yes) == 0 {
			p.leave(c, "it says the same of every row")
			return nil, "", ""
		}
		return p.take(c, c.only(yes))
	}
	if c := p.first(roleSupplier, flags); c != nil && c.sum(c.of(yesWords)) > 0 {
		yes := c.of(yesWords)
		return p.read(c, []reading{c.allBut(yes), c.only(yes)})
	}
	return nil, "", ""
}

// of returns the values among words, the commonest first.
func (c *column) of(words []string) []string {
	return slices.DeleteFunc(c.common(), func(v string) bool { return !slices.Contains(words, v) })
}

// status finds a column that tells present customers from former ones.
func (p *proposing) status() (*column, string, string) {
	return p.sorted(p.first(roleStatus, func(c *column) bool { return len(c.times) <= maxKinds }))
}

// kind finds a column for telling customers from prospects and suppliers.
func (p *proposing) kind() (*column, string, string) {
	return p.sorted(p.first(roleKind,
		func(c *column) bool { return len(c.times) <= maxKinds && c.sum(inactiveWords) > 0 }))
}

// leavers finds a column with the day on which a customer left.
func (p *proposing) leavers() (*column, string, string) {
	c := p.first(roleLeft, func(c *column) bool { return (c.dates+c.sum(c.serials()))*10 >= c.filled*9 })
	if c == nil {
		return nil, "", ""
	}
	none := slices.DeleteFunc(c.common(), func(v string) bool { return !isNoDay(v) })
	left := c.filled - c.sum(none)
	condition := "isBlank(" + c.written() + ")"
	if len(none) > 0 {
		condition = "(" + condition + " || " + oneOf(c, none) + ")"
	}
	why := fmt.Sprintf("%s rows have a day in %q and are excluded", of(left, c.rows), c.name)
	return p.take(c, reading{fmt.Sprintf("only rows without a day in %q (%s rows)", c.name, of(c.rows-left, c.rows)),
		condition, why, c.rows - left})
}

// serial matches a day as spreadsheets count them.
var serial = regexp.MustCompile(`^[2-6][0-9]{4}(\.[0-9]+)?$`)

func (c *column) serials() []string {
	return slices.DeleteFunc(c.common(), func(v string) bool { return !serial.MatchString(v) })
}

// yearOfDay matches the year of a day.
var yearOfDay = regexp.MustCompile(`\b[0-9]{4}\b`)

// isNoDay reports whether a day stands for none, as 0000-00-00, 30.12.1899 and 9999-12-31 do.
func isNoDay(day string) bool {
	// in brackets stands no year, but a number of milliseconds
	year := yearOfDay.FindString(strings.SplitN(day, "(", 2)[0])
	return year != "" && (year < "1901" || year > "2900")
}

// sorted uses the values of a column to tell customers from others.
func (p *proposing) sorted(c *column) (*column, string, string) {
	if c == nil {
		return nil, "", ""
	}
	yes, no, flags := activeWords, inactiveWords, c.flags*10 >= c.filled*9
	_, negated := c.affirmed()
	inverted := c.has(invertedHeadings) != negated
	if flags {
		yes, no = yesWords, noWords
		if inverted {
			yes, no = no, yes
		}
	}
	var in, out, other []string
	for _, v := range c.common() {
		switch meant := c.meaning(v); {
		case slices.Contains(yes, meant), meant != v && slices.Contains(activeWords, meant), !flags &&
			hasPart(v, activeWords):
			in = append(in, v)
		case slices.Contains(no, meant), meant != v && slices.Contains(inactiveWords, meant):
			out = append(out, v)
		default:
			other = append(other, v)
		}
	}
	switch {
	case flags && len(other) == 0 && !c.ofStatus() && len(c.legend) == 0:
		return p.askFlags(c, inverted)
	case len(out) == 0 && len(other) == 0 && (!flags || inverted || c.filled == c.rows):
		p.leave(c, "it says the same of every row")
		return nil, "", ""
	case len(in) > 0 && len(other) == 0 && !inverted:
		return p.take(c, c.only(in))
	case len(other) == 0:
		return p.take(c, c.allBut(out))
	}
	return p.askStatus(c, in, out, other)
}

// meaning returns the heading's explanation of a value: for 0 "active" below "Status (0 = active, 1 =
// blocked)". It is the value itself if the heading explains none.
func (c *column) meaning(value string) string {
	if meant := c.legend[value]; meant != "" {
		return meant
	}
	return value
}

// hasPart reports whether one of several words in a cell is among words: "customer, supplier".
func hasPart(value string, words []string) bool {
	parts := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(",;/|+&", r) })
	return len(parts) > 1 && slices.ContainsFunc(parts,
		func(part string) bool { return slices.Contains(words, strings.TrimSpace(part)) })
}

// askStatus asks about values of a status other than known words.
func (p *proposing) askStatus(c *column, in, out, other []string) (*column, string, string) {
	var readings []reading
	if len(in) > 0 {
		readings = append(readings, c.only(in))
	}
	if len(out) > 0 {
		readings = append(readings, c.allBut(out))
	}
	if len(in)+len(out) == 0 { // ranks or groups: none of them excludes customers
		readings = append(readings, c.everybody())
	}
	if len(in) == 0 {
		readings = append(readings,
			connector.Map(other[:min(2, len(other))], func(v string) reading { return c.only([]string{v}) })...)
	}
	return p.read(c, readings)
}

// askFlags asks about yes and no below a heading with an unknown word.
func (p *proposing) askFlags(c *column, inverted bool) (*column, string, string) {
	marked, no := c.of(yesWords), false
	if len(marked) == 0 {
		marked, no = c.of(noWords), true
	}
	readings := []reading{c.only(marked), c.allBut(marked)}
	if inverted != no {
		slices.Reverse(readings)
	}
	if !inverted && c.score(roleStatus) > 0 && readings[0].kept*2 < c.rows { // the heading does not decide
		slices.Reverse(readings)
	}
	return p.read(c, readings)
}

// reading is a way to understand a status.
type reading struct {
	option, condition, why string
	kept                   int // rows
}

// isCondition reports whether a database's column holds yes or no in every row, so that it is a condition by
// itself, and whether these values are those for yes. A later row with neither waits, and is not silently
// excluded.
func (c *column) isCondition(values []string) (yes, is bool) {
	for v := range c.times {
		if _, known := connector.ReadFlag(v); !known {
			return false, false
		}
	}
	if len(values) == 0 || !c.stored || c.filled != c.rows {
		return false, false
	}
	yes, _ = connector.ReadFlag(values[0])
	return yes, !slices.ContainsFunc(values,
		func(v string) bool { other, _ := connector.ReadFlag(v); return other != yes })
}

// everybody takes all rows in.
func (c *column) everybody() reading {
	return reading{option: fmt.Sprintf("everybody (%d rows)", c.rows), kept: c.rows}
}

// only takes the rows with one of these values in.
func (c *column) only(values []string) reading {
	condition := oneOf(c, values)
	if yes, is := c.isCondition(values); is {
		condition = map[bool]string{true: "", false: "not "}[yes] + c.written()
	}
	return reading{fmt.Sprintf("only %s (%s rows)", listed(values), of(c.sum(values), c.rows)), condition, c.keeps(values),
		c.sum(values)}
}

// allBut leaves the rows with one of these values out.
func (c *column) allBut(values []string) reading {
	condition := "not (" + oneOf(c, values) + ")"
	if yes, is := c.isCondition(values); is {
		condition = map[bool]string{true: "not ", false: ""}[yes] + c.written()
	}
	return reading{fmt.Sprintf("all but %s (%s rows)", listed(values), of(c.rows-c.sum(values), c.rows)), condition,
		fmt.Sprintf("%s rows are excluded by %q", of(c.sum(values), c.rows), c.name), c.rows - c.sum(values)}
}

// read asks for the right one of several readings of a status.
func (p *proposing) read(c *column, readings []reading) (*column, string, string) {
	if !slices.ContainsFunc(readings, func(r reading) bool { return r.condition == "" }) {
		readings = append(readings, c.everybody())
	}
	options := connector.Map(readings, func(r reading) string { return r.option })
	r := readings[p.choose("status "+c.name,
		fmt.Sprintf("%q says %s. Who is a customer?", c.name, listed(c.common()[:min(4, len(c.times))])), false, options...)]
	if r.condition == "" {
		p.leave(c, "everybody is taken in")
		return nil, "", ""
	}
	return c, r.condition, r.why
}

// payment finds a column that tells payers by direct debit.
func (p *proposing) payment() (*column, string, string) {
	c := p.first(rolePayment, func(c *column) bool { return len(c.times) <= maxKinds })
	if c == nil {
		return nil, "", ""
	}
	flags := c.flags*10 >= c.filled*9
	if flags && !isDebit(c.name) {
		return p.askFlags(c, isOtherWay(c.words))
	}
	debit := connector.Filter(c.common(),
		func(v string) bool { return flags && slices.Contains(yesWords, v) || isDebit(v) })
	n := c.sum(debit)
	switch {
	case len(debit) == 0:
		p.leave(c, "none of its values is direct debit, so everybody is taken in")
		return nil, "", ""
	case n == c.rows:
		p.leave(c, "everybody pays by direct debit")
		return nil, "", ""
	}
	if p.choose("payment", fmt.Sprintf("%q says who pays by direct debit. Who is to become a customer of the billing service, and be asked for a mandate?", c.name), false,
		fmt.Sprintf("only %s (%s rows)", listed(debit), of(n, c.rows)), fmt.Sprintf("everybody (%d rows)", c.rows)) == 1 {
		p.leave(c, "everybody is taken in, however they pay now")
		return nil, "", ""
	}
	return c, oneOf(c, debit), c.keeps(debit)
}

// keeps says how many rows have one of these values.
func (c *column) keeps(values []string) string {
	return fmt.Sprintf("%s rows say %s in %q, and the others are left alone", of(c.sum(values), c.rows), listed(values),
		c.name)
}

// sum is how many rows have one of these values.
func (c *column) sum(values []string) (n int) {
	for _, v := range values {
		if v == "" {
			n += c.rows - c.filled
		}
		n += c.times[v]
	}
	return n
}

// oneOf is true for rows with one of these values.
func oneOf(c *column, values []string) string {
	text := "lower(trim(" + c.written() + "))"
	if len(values) == 1 {
		return fmt.Sprintf("%s == %q", text, values[0])
	}
	quoted := connector.Map(values, func(v string) string { return fmt.Sprintf("%q", v) })
	return text + " in [" + strings.Join(quoted, ", ") + "]"
}

// listed names values for people.
func listed(values []string) string {
	quoted := connector.Map(values, func(v string) string { return fmt.Sprintf("%q", v) })
	return strings.Join(quoted, ", ")
}

// mandate decides which payers are asked for a mandate.
func (p *proposing) mandate() {
	if len(p.emails) == 0 {
		p.note("No column with the customers' e-mail addresses is taken: customers would be created, and nobody would be asked for a mandate.")
		return
	}
	p.rule("mandate.request", `any(customer.people, .email != "")`, "whoever has an e-mail address is asked for a mandate")
}
