package propose

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"payersync/mapping"
)

// column is a column with the facts about its values.
type column struct {
	name    string
	at      int               // its place in a row
	words   string            // its heading in plain words, without legend
	legend  map[string]string // the heading's meanings of values
	used    bool              // a rule reads it
	noFalse bool              // its cells with False are blank
	meant   *meaning          // its content, if its program is known
	rank    int               // of its meaning among those of the program

	rows    int
	filled  int
	times   map[string]int // how often each value stands there, without spaces around it and in small letters
	spoilt  int            // values changed by a spreadsheet, not counted among the others
	emails  int            // cells with an e-mail address in them
	numbers int            // cells in the form of phone numbers
	plus    int            // of these, with a country code
	codes   int            // cells without spaces and with a digit
	short   int            // cells of ten letters at most, with a digit
	dates   int
	amounts int
	ibans   int
	flags   int  // yes and no
	lands   int  // countries
	texts   int  // with letters
	markup  int  // with the signs of a web page or of a program for letters or line breaks
	running bool // it may be a counter of rows
	stored  bool // it is one of a database's table
}

var (
	phoneForm  = regexp.MustCompile(`^[+(]?[0-9][0-9 ()/.\-]{4,}[0-9]$`)
	codeForm   = regexp.MustCompile(`^[\pL\pN][\pL\pN._/\-]*$`)
	dateForm   = regexp.MustCompile(`^(\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[-/.]\d{2}[-/.]\d{2}|\d{1,2}[ -]\pL{3,9}\.?[ -]\d{2,4}|/Date\(-?\d+([+-]\d{4})?\)/)([ T].*)?$`)
	amountForm = regexp.MustCompile(`^[€£$]?\s?-?\d{1,3}([.,' ]?\d{3})*[.,]\d{2}\s?([€£$]|EUR|GBP|CHF)?$`)
	markup     = regexp.MustCompile(`(?i)&(amp|lt|gt|quot|apos|nbsp|[a-z]{1,2}(uml|acute|grave|circ|tilde|cedil|lig|slash|ring)|#[0-9]{2,5}|#x[0-9a-f]{2,4});|<br ?/?>|\\[rn]`)
	ibanForm   = regexp.MustCompile(`^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$`)
)

func newColumn(t Table, at int, name string) *column {
	heading, legend := withoutLegend(name)
	c := &column{name: name, at: at, words: plainWords(heading), legend: legend, rows: len(t.Rows),
		times: map[string]int{}}
	c.noFalse = c.hasFalseAmongTexts(t.Rows)
	for _, row := range t.Rows {
		cell := c.value(row)
		if cell == "" {
			continue
		}
		c.filled++
		if t.Spoilt != nil && t.Spoilt(cell) {
			c.spoilt++
			continue
		}
		c.times[strings.ToLower(cell)]++
		c.add(cell)
	}
	c.running = !t.Stored && c.counts()
	c.stored = t.Stored
	return c
}

// pythonFalse is how Python programs, Odoo before all, write a value that is not there.
const pythonFalse = "False"

// hasFalseAmongTexts reports whether False stands for blank: beside it there are values that are no
// yes or no.
func (c *column) hasFalseAmongTexts(rows [][]string) bool {
	falses, others := false, false
	for _, row := range rows {
		switch cell := c.value(row); {
		case cell == pythonFalse:
			falses = true
		case cell != "" && !isFlag(cell):
			others = true
		}
		if falses && others {
			return true
		}
	}
	return false
}

// value is a row's value in the column, without spaces around it.
func (c *column) value(row []string) string {
	cell := strings.TrimSpace(mapping.Value(row[c.at]))
	if c.noFalse && cell == pythonFalse {
		return ""
	}
	return cell
}

var (
	inBrackets  = regexp.MustCompile(`\s*[(\[]([^()\[\]]*)[)\]]`)
	legendEntry = regexp.MustCompile(`^\s*([\pL\pN]{1,10})\s*[=:]\s*(\pL[\pL ]*?)\s*$`)
)

// withoutLegend removes the explanation of values from a heading: "Active (0/1)", or "Status (0 = active, 1 =
// blocked)", whose legend it returns.
func withoutLegend(heading string) (string, map[string]string) {
	var legend map[string]string
	rest := inBrackets.ReplaceAllStringFunc(heading, func(found string) string {
		entries := strings.FieldsFunc(strings.Trim(found, " ()[]"),
			func(r rune) bool { return strings.ContainsRune(",;/|", r) })
		read := map[string]string{}
		for _, e := range entries {
			if m := legendEntry.FindStringSubmatch(e); m != nil {
				read[strings.ToLower(m[1])] = strings.ToLower(m[2])
			} else if !isFlag(strings.TrimSpace(e)) {
				return found
			}
		}
		if len(read) > 0 {
			legend = read
		}
		return ""
	})
	if strings.TrimSpace(rest) == "" {
		return heading, nil
	}
	return rest, legend
}

// counts reports whether the values are those of a counter of rows, in any order: whole
// numbers without gaps that begin low. One in twenty may be missing or be something else. A
// number that is greater than there are rows counts customers: 10001, 10002.
func (c *column) counts() bool {
	var numbers []int
	for v := range c.times {
		if n, err := strconv.Atoi(strings.TrimSuffix(v, ".")); err == nil && !strings.HasPrefix(v, "+") &&
			(n == 0 || v[0] != '0') {
			numbers = append(numbers, n)
		}
	}
	few := max(1, c.filled/20)
	if len(numbers) == 0 || c.filled-len(numbers) > few {
		return false
	}
	least := slices.Min(numbers)
	return least >= 0 && least <= c.filled && slices.Max(numbers)-least+1-len(numbers) <= few
}

func (c *column) add(cell string) {
	compact := strings.ToUpper(strings.ReplaceAll(cell, " ", ""))
	letter := strings.ContainsFunc(cell, unicode.IsLetter)
	digit := strings.ContainsFunc(cell, unicode.IsDigit)
	land := false
	if letter && !digit && len(cell) < 60 {
		_, land = mapping.Country(cell)
	}
	for counter, is := range map[*int]bool{
		&c.emails: hasEmail(cell), &c.numbers: phoneForm.MatchString(mapping.PhoneText(cell)),
		&c.plus:  strings.HasPrefix(cell, "+"),
		&c.codes: digit && utf8.RuneCountInString(cell) <= 30 && codeForm.MatchString(cell), &c.short: digit &&
			len(compact) <= 10, &c.dates: dateForm.MatchString(cell), &c.amounts: amountForm.MatchString(cell),
		&c.ibans: IsIBAN(cell), &c.flags: isFlag(cell), &c.lands: land, &c.texts: letter,
	} {
		if is {
			*counter++
		}
	}
	if markup.MatchString(cell) {
		c.markup++
	}
}

// IsIBAN reports whether a cell has the form of an international bank account number.
func IsIBAN(cell string) bool {
	return ibanForm.MatchString(strings.ToUpper(strings.ReplaceAll(cell, " ", "")))
}

func hasEmail(cell string) bool {
	return mapping.HasEmail(cell)
}

// shared is how many rows have a value that another row has, too.
func (c *column) shared() (rows int) {
	for _, n := range c.times {
		if n > 1 {
			rows += n
		}
	}
	return rows
}

// common returns the values, the commonest first.
func (c *column) common() []string { return ranked(c.times) }

// written is how an expression names the column.
func (c *column) written() string {
	if c.noFalse {
		return fmt.Sprintf(`(%[1]s == %[2]q ? "" : %[1]s)`, mapping.Written(c.name), pythonFalse)
	}
	return mapping.Written(c.name)
}

// trimmed is its text without spaces around it.
func (c *column) trimmed() string { return "trim(" + c.written() + ")" }
