package mapping

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	amount  = regexp.MustCompile(`^[-+(]?[€$£¥]?\s*\d[\d.,'’ ]*\s*[€$£¥%]?\)?$`)
	isoText = regexp.MustCompile(`^\d{4}-\d\d-\d\d`)
	// writtenDates are the common date forms; in 01/02 the day is first.
	writtenDates = []dateForm{
		{"DD.MM.YYYY", "02.01.2006"}, {"D.M.YYYY", "2.1.2006"}, {"DD/MM/YYYY", "02/01/2006"}, {"D/M/YYYY", "2/1/2006"},
		{"MM/DD/YYYY", "01/02/2006"}, {"M/D/YYYY", "1/2/2006"}, {"DD-MM-YYYY", "02-01-2006"}, {"MM-DD-YYYY", "01-02-2006"},
	}
)

// compared mends comparisons of a text with a number or a date in quotes, and of
// two texts by their size.
func compared(d *draft, m []string) string {
	inside, fixed := d.fixed(m[3])
	ordered := m[2] != "==" && m[2] != "!="
	switch {
	case fixed && (ordered || strings.HasPrefix(d.whole(m[1]), "date(")) && isoText.MatchString(inside):
		return ""
	case fixed && ordered && isWrittenDate(inside):
		return comparedWithDate(d, m, inside)
	case fixed:
		isNumber := strings.HasPrefix(d.whole(m[1]), "number(")
		if !amount.MatchString(inside) || !ordered && !isNumber || !d.isText(m[1]) && !isNumber {
			return ""
		}
		if plain := strings.Trim(inside, "+-()€$£¥% "); thousands.MatchString(plain) {
			d.refuse(oneOrThousand(plain), m[3])
			return ""
		}
		d.note(`texts are compared letter by letter, so that "9" is more than "10"; numbers are not in quotes`, m[0])
		return numberOf(d, m[1]) + " " + m[2] + " " + plainNumber(inside)
	case ordered && d.isText(m[1]) && d.isText(m[3]):
		d.note(`texts are compared letter by letter, so that "9" is more than "10"; number or date makes something to compare of them`, m[0])
		return numberOf(d, m[1]) + " " + m[2] + " " + numberOf(d, m[3])
	}
	return ""
}

func isWrittenDate(inside string) bool {
	return slices.ContainsFunc(writtenDates, func(form dateForm) bool { return form.reads(inside) })
}

func (f dateForm) reads(s string) bool {
	_, err := time.Parse(f.layout, s)
	return err == nil
}

// dayOrMonth are the ambiguous date forms. With points, the day is first everywhere.
var dayOrMonth = [][2]dateForm{
	{{"DD/MM/YYYY", "02/01/2006"}, {"MM/DD/YYYY", "01/02/2006"}},
	{{"D/M/YYYY", "2/1/2006"}, {"M/D/YYYY", "1/2/2006"}},
	{{"DD-MM-YYYY", "02-01-2006"}, {"MM-DD-YYYY", "01-02-2006"}},
}

// comparedWithDate corrects the comparison with a date in a form other than YYYY-MM-DD. If it could be one of two days,
// both are reported, unless the other side decides.
func comparedWithDate(d *draft, m []string, inside string) string {
	isRead := strings.HasPrefix(d.whole(m[1]), "date(")
	by := func(form dateForm) string {
		t, _ := time.Parse(form.layout, inside)
		left := m[1]
		if !isRead {
			left = fmt.Sprintf("date(%s, %s)", left, d.put(literal(form.words)))
		}
		return fmt.Sprintf("%s %s %s", left, m[2], d.put(literal(t.Format(time.DateOnly))))
	}
	form := writtenDates[slices.IndexFunc(writtenDates, func(form dateForm) bool { return form.reads(inside) })]
	if i := slices.IndexFunc(dayOrMonth,
		func(either [2]dateForm) bool { return either[0].reads(inside) && either[1].reads(inside) }); i >= 0 {
		either := dayOrMonth[i][:]
		said := slices.IndexFunc(either,
			func(form dateForm) bool { return isRead && strings.Contains(d.whole(m[1]), literal(form.words)) })
		if said < 0 {
			d.refuse(fmt.Sprintf("%s could be %s or %s; write %s or %s",
				inside, either[0].words, either[1].words, d.whole(by(either[0])), d.whole(by(either[1]))), m[0])
			return ""
		}
		form = either[said]
	}
	d.note("dates are compared as YYYY-MM-DD, which date makes of a text", m[0])
	return by(form)
}

// plainNumber is a number in quotes as the language writes it.
func plainNumber(inside string) string {
	for _, form := range []string{".", ","} {
		if n, ok := parseNumber(inside, numberForms[form]); ok {
			return strconv.FormatFloat(n, 'f', -1, 64)
		}
	}
	return inside
}

func numberOf(d *draft, of string) string {
	if d.isText(of) {
		return d.put("number(" + of + ")")
	}
	return of
}

func comparedWithNumber(d *draft, m []string) string {
	if !d.isText(m[1]) {
		return ""
	}
	return numberOf(d, m[1]) + " " + m[2] + " " + m[3]
}
