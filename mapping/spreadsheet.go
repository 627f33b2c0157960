package mapping

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A spreadsheet's function, under its names in several languages, and its replacement here. $1 is its first argument,
// $+ are all of them joined with +, $and and $or are all as conditions, and $3* are the third and later ones. The first
// form with the same number of arguments counts.
var spreadsheetFunctions = []struct {
	names string
	forms []string
	usage string
}{
	{"IF WENN SI ALS SE IIF", []string{"($1 ? $2 : $3)", `($1 ? $2 : "")`}, "condition ? a : b"},
	{"IFERROR IFNA WENNFEHLER SIERREUR NVL IFNULL ISNULL", []string{"coalesce($1, $2)"}, "coalesce(a, b)"},
	{"CONCATENATE CONCAT VERKETTEN TEXTKETTE CONCATENER CONCATENAR", []string{"$+"}, "a + b"},
	{"TEXTJOIN TEXTVERKETTEN JOINDRE.TEXTE", []string{"join([$3*], $1)"}, `join([a, b], " ")`},
	{"LEFT LINKS GAUCHE IZQUIERDA LEFTSTR", []string{"truncate($1, $2)", "truncate($1, 1)"}, "truncate(text, n)"},
	{"RIGHT RECHTS DROITE DERECHA", []string{"$1[-$2:]", "$1[-1:]"}, "text[-n:]"},
	{"MID TEIL STXT DEEL SUBSTRING SUBSTR", []string{"$mid"}, "text[from:to], counted from 0"},
	{"TRIM GLÄTTEN SUPPRESPACE STRIP", []string{"trim($1)"}, "trim(text)"},
	{"UPPER GROSS GROẞ GROß MAJUSCULE UCASE TOUPPER TOUPPERCASE", []string{"upper($1)"}, "upper(text)"},
	{"LOWER KLEIN MINUSCULE LCASE TOLOWER TOLOWERCASE", []string{"lower($1)"}, "lower(text)"},
	{"PROPER GROSS2 NOMPROPRE CAPITALIZE INITCAP", []string{"title($1)"}, "title(text)"},
	{"SUBSTITUTE WECHSELN", []string{"replace($1, $2, $3)"}, "replace(text, old, new)"},
	{"LEN LÄNGE NBCAR LENGTH", []string{"len($1)"}, "len(text)"},
	{"ISBLANK ISTLEER ESTVIDE ESBLANCO ISEMPTY EMPTY", []string{"isBlank($1)"}, "isBlank(text)"},
	{"NOT NICHT NON NIET", []string{"not ($1)"}, "not condition"},
	{"AND UND ET", []string{"$and"}, "a and b"},
	{"OR ODER OU OF", []string{"$or"}, "a or b"},
	{"EXACT IDENTISCH", []string{"$1 == $2"}, "a == b"},
	{"VALUE WERT CNUM VALOR WAARDE NUMBER NUMBERVALUE FLOAT", []string{"number($1)"}, "number(text)"},
	{"SEARCH FIND SUCHEN FINDEN CHERCHE TROUVE", []string{"$2 contains $1"}, `text contains "x"`},
	{"ISNUMBER ISTZAHL ESTNUM", []string{"$1"}, `text contains "x"`},
	{"CHAR ZEICHEN CAR", []string{"$char"}, `"\n"`},
	{"DATE DATUM FECHA", []string{"$date"}, `date("2026-01-31")`},
}

// withoutCure are functions without any replacement.
var withoutCure = map[string]string{
	"TODAY NOW HEUTE JETZT AUJOURDHUI HOY":                                            `nothing here knows today's date, so that a record always gives the same customer; compare with a fixed one: date("2026-01-31")`,
	"VLOOKUP SVERWEIS XLOOKUP XVERWEIS LOOKUP HLOOKUP INDEX MATCH RECHERCHEV BUSCARV": "another table cannot be looked into; write its pairs out, as in %[1]s == \"a\" ? \"b\" : %[1]s == \"c\" ? \"d\" : \"\"",
	"SUM SUMIF SUMIFS SUMME COUNTIF ZÄHLENWENN AVERAGE MAX MIN SOMME":                 "one record is looked at at a time, so rows are not added up; name a field that holds the sum, as in %[1]s",
	"TEXT":                       "numbers and dates are not given another look; take the field as it is: %[1]s",
	"REGEX REGEXMATCH REGEXTEST": "patterns are asked with matches, as in %[1]s matches \"^[A-Z]\"",
}

func functionNames() []string {
	known := slices.Concat(slices.Collect(maps.Keys(functions)), loops, []string{fnField})
	slices.Sort(known)
	return known
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// spreadsheet returns what is written in place of a spreadsheet's function, and
// "" when there is nothing.
func spreadsheet(d *draft, name string, args []string) string {
	upper := strings.ToUpper(name)
	for names, why := range withoutCure {
		if slices.Contains(strings.Fields(names), upper) {
			if strings.Contains(why, "%") {
				why = fmt.Sprintf(why, Written(d.example()))
			}
			d.whys, d.from, d.dead = nil, -1, false
			d.refuse(name+" is not here: "+why, name)
			return ""
		}
	}
	for _, f := range spreadsheetFunctions {
		if !slices.Contains(strings.Fields(f.names), upper) {
			continue
		}
		for _, form := range f.forms {
			if instead := filled(form, args); instead != "" {
				d.note(fmt.Sprintf("%s is written %s here", name, f.usage), name)
				return instead
			}
		}
	}
	return ""
}

var argument = regexp.MustCompile(`\$(\d)(\*?)`)

// filled puts arguments into a form, and gives "" when their number does not fit.
func filled(form string, args []string) string {
	if len(args) == 0 || slices.Contains(args, "") {
		return ""
	}
	switch form {
	case "$+":
		return strings.Join(args, " + ")
	case "$and", "$or":
		return "(" + strings.Join(args, " "+form[1:]+" ") + ")"
	case "$char":
		return map[string]string{"10": `"\n"`, "13": `"\n"`, "32": `" "`, "9": `"\t"`}[args[0]]
	case "$mid":
		return middle(args)
	case "$date":
		return dateOf(args)
	}
	most, rest := 0, false
	for _, m := range argument.FindAllStringSubmatch(form, -1) {
		n, _ := strconv.Atoi(m[1])
		most, rest = max(most, n), rest || m[2] != ""
	}
	if most > len(args) || most < len(args) && !rest && !strings.HasPrefix(form, "$1") {
		return ""
	}
	return argument.ReplaceAllStringFunc(form, func(found string) string {
		n, _ := strconv.Atoi(found[1:2])
		if strings.HasSuffix(found, "*") {
			return strings.Join(args[n-1:], ", ")
		}
		return args[n-1]
	})
}

func middle(args []string) string {
	if len(args) != 3 {
		return ""
	}
	from, err := strconv.Atoi(args[1])
	length, errToo := strconv.Atoi(args[2])
	if err != nil || errToo != nil || from < 1 {
		return ""
	}
	return fmt.Sprintf("%s[%d:%d]", args[0], from-1, from-1+length)
}

func dateOf(args []string) string {
	var n [3]int
	for i := range n {
		var err error
		if len(args) != len(n) {
			return ""
		}
		if n[i], err = strconv.Atoi(args[i]); err != nil {
			return ""
		}
	}
	return fmt.Sprintf(`date("%04d-%02d-%02d")`, n[0], n[1], n[2])
}
