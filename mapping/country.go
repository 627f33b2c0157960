package mapping

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
	"golang.org/x/text/unicode/norm"
)

// maxCountry is the longest text that is looked up as a country's name, in bytes.
const maxCountry = 100

// country returns the two letters by which ISO 3166-1 knows a country that is
// given by its code of two or three letters, its English name or its name in its
// own language. Anything else is returned trimmed, so that it is seen.
func country(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > maxCountry {
		return s
	}
	if code, ok := countries()[plainName(s)]; ok {
		return code
	}
	return s
}

// otherCountryNames are names that people write and the Unicode tables lack.
var otherCountryNames = map[string]string{
	"America": "US", "United States of America": "US",
	"Britain": "GB", "Great Britain": "GB", "UK": "GB", "England": "GB", "Scotland": "GB", "Wales": "GB", "Northern Ireland": "GB",
	"Burma": "MM", "Cabo Verde": "CV", "Czech Republic": "CZ", "Eire": "IE", "Republic of Ireland": "IE",
	"EL": "GR", "Eswatini": "SZ", "Holland": "NL", "Hong Kong": "HK", "Ivory Coast": "CI",
	"Macao": "MO", "Macau": "MO", "Myanmar": "MM", "North Macedonia": "MK", "Palestine": "PS",
	"Republic of Korea": "KR", "Russian Federation": "RU", "Türkiye": "TR", "Vatican": "VA",
}

// countries returns the code of every country by its plain names.
var countries = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	add := func(name, code string) {
		if name = plainName(name); name != "" && out[name] == "" {
			out[name] = code
		}
	}
	all := isoRegions()
	for _, r := range all {
		add(r.String(), r.String())
		add(r.ISO3(), r.String())
		add(display.English.Regions().Name(r), r.String())
	}
	for name, code := range otherCountryNames {
		add(name, code)
	}
	for _, r := range all {
		add(ownName(r), r.String())
	}
	return out
})

// isoRegions returns the countries of ISO 3166-1, and Kosovo: the regions of
// two letters that have a number among the countries and were not abolished.
func isoRegions() []language.Region {
	var out []language.Region
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			r, err := language.ParseRegion(string([]rune{a, b}))
			if err == nil && r.IsCountry() && r.Canonicalize() == r && r.M49() != 0 && display.English.Regions().Name(r) != "" {
				out = append(out, r)
			}
		}
	}
	return out
}

// ownName returns a country's name in the language most spoken there, and ""
// when that is not known.
func ownName(r language.Region) string {
	tag, err := language.Compose(language.Und, r)
	if err != nil {
		return ""
	}
	spoken, _ := tag.Base()
	names := display.Regions(language.Make(spoken.String()))
	if names == nil {
		return ""
	}
	return names.Name(r)
}

// plainName reduces a name to what its spellings have in common: "The
// Netherlands" and "NETHERLANDS", "St. Lucia" and "Saint Lucia", "U.S.A." and
// "USA".
func plainName(s string) string {
	var out strings.Builder
	s = strings.ToLower(norm.NFD.String(strings.ReplaceAll(s, ".", "")))
	words := strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) })
	for _, word := range words {
		switch {
		case word == "saint":
			out.WriteString("st")
		case len(words) == 1 || !slices.Contains([]string{"the", "and", "of"}, word):
			out.WriteString(strings.Map(withoutMarks, word))
		}
	}
	return out.String()
}

func withoutMarks(r rune) rune {
	if unicode.IsMark(r) {
		return -1
	}
	return r
}
