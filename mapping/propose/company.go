package propose

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// legalForms end the names of companies.
var legalForms = []string{
	"ltd", "limited", "llp", "plc", "inc", "llc", "cic", "gmbh", "ag", "kg", "ohg", "gbr", "ug", "ek", "ev", "eg", "se",
	"sarl", "sas", "sasu", "eurl", "sa", "srl", "spa", "snc", "sas", "bv", "nv", "vof", "sl", "slu", "mbh", "kgaa", "ab",
	"oy", "aps", "sprl", "asbl", "scrl",
}

// everyday are words of file names and titles that are no part of a company's name.
var everyday = []string{
	"customer", "customers", "client", "clients", "contact", "contacts", "export", "exports", "exported", "list", "report",
	"all", "data", "copy", "final", "new", "the", "of", "as", "at", "from", "sheet", "table", "accounts", "debtors",
	"active",
	"kunden", "kundenliste", "kundenstamm", "kundendaten", "kundenexport", "debitoren", "debitorenliste", "stammdaten",
	"adressen", "adressliste", "liste", "stand", "vom", "von", "per", "der", "die", "das", "kopie", "neu", "aktuell",
	"tabelle", "debitoren", "kreditoren",
	"liste", "clientele", "fichier", "des", "de", "du", "les", "la", "le", "au", "elenco", "clienti", "anagrafica", "dei",
	"del", "al", "klanten", "klantenlijst", "debiteuren", "relaties", "lijst", "van", "clientes", "listado", "los", "el",
	"xero", "sage", "quickbooks", "datev", "lexware", "extf", "csv", "txt", "utf", "januar", "february", "januar", "march",
	"marz", "april", "may", "mai", "june", "juni", "july", "juli", "august", "september", "october", "oktober", "november",
	"december", "dezember", "january", "februar",
}

var wordsOfName = regexp.MustCompile(`[\pL\pN&'’.+]+`)

// Company returns whose customers a file holds, from its name and the lines above its headings:
// a name with a legal form. Any other may be a version or a program, so it is "" then.
func Company(path string, above []string) string {
	file := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	names := []string{companyIn(strings.NewReplacer("_", " ", "-", " ").Replace(file))}
	for _, line := range above {
		if name := companyIn(line); hasForm(name) {
			names = append(names, name)
		}
	}
	if i := slices.IndexFunc(names, hasForm); i >= 0 {
		return names[i]
	}
	return ""
}

// companyIn leaves the everyday words and numbers out of a text.
func companyIn(text string) string {
	var kept []string
	for _, w := range wordsOfName.FindAllString(text, -1) {
		plain := plainWords(strings.Trim(w, ".'’"))
		if plain == "" && w != "&" || slices.Contains(everyday, plain) || !strings.ContainsFunc(w, unicode.IsLetter) &&
			w != "&" || strings.ContainsFunc(w, unicode.IsDigit) && !strings.ContainsFunc(w[:1], unicode.IsLetter) {
			continue
		}
		kept = append(kept, w)
	}
	name := strings.Trim(strings.Join(kept, " "), " &'+")
	if len(kept) > 6 || len(name) < 2 {
		return ""
	}
	return name
}

func hasForm(name string) bool {
	words := strings.Fields(strings.ToLower(name))
	// S.à r.l.
	if len(words) > 2 && slices.Contains(legalForms, squeezed(plainWords(strings.Join(words[len(words)-2:], " ")))) {
		return true
	}
	return len(words) > 1 && slices.ContainsFunc(words[1:], func(w string) bool {
		return slices.Contains(legalForms, strings.ReplaceAll(strings.Trim(w, "&"), ".", ""))
	})
}

// Slug writes a company's name as names of connections are written: muster-gmbh.
func Slug(name string) string {
	name = strings.NewReplacer("ß", "ss", "ä", "ae", "ö", "oe", "ü", "ue", "Ä", "Ae", "Ö", "Oe", "Ü", "Ue", "&", " ", "'",
		"", "’", "").Replace(name)
	var out strings.Builder
	for _, r := range strings.ToLower(norm.NFKD.String(name)) {
		switch {
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			out.WriteRune(r)
		case !unicode.Is(unicode.Mn, r) && r != '.' && out.Len() > 0 && !strings.HasSuffix(out.String(), "-"):
			out.WriteByte('-')
		}
	}
	slug := out.String()
	return strings.Trim(slug[:min(len(slug), 40)], "-")
}
