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

// maxCountry is the maximum length in bytes of a text to look up as a country name.
const maxCountry = 100

// country returns the two-letter ISO 3166-1 code of a country. The text is its code of two or three letters, its car
// letters, or its name: in English, in its own language, or in one of countryLanguages. Unknown and ambiguous texts are
// returned trimmed, so people can see them.
func country(s string) string {
	code, _ := readCountry(s)
	return code
}

// readCountry is country, and whether the text was understood.
func readCountry(s string) (string, bool) {
	s = strings.TrimSpace(s)
	if len(s) > maxCountry {
		return s, false
	}
	name := plainName(s)
	code := countries()[name]
	if len(code) != 2 || len(name) == 1 && !isLoneLetter(s) {
		return s, false
	}
	return code, name != "na" || strings.EqualFold(s, "na") // N/A is seldom Namibia
}

// isLoneLetter reports whether a text is one letter without other parts: "D" is a country, "D1" and "D-80331" are not.
func isLoneLetter(s string) bool { return len(strings.Trim(s, ".() ")) == 1 }

// couldBe returns the possible country codes of a text not understood: several, or one doubtful code.
func couldBe(s string) []string {
	return strings.Fields(countries()[plainName(s)])
}

// countryLanguages are the languages of known country names, in addition to each country's own.
var countryLanguages = []language.Tag{
	language.German, language.French, language.Italian, language.Spanish, language.Dutch, language.Portuguese,
	language.Polish, language.Czech, language.Danish, language.Swedish, language.Norwegian, language.Finnish,
}

// carLetters are the car letters (the United Nations' distinguishing signs) other than ISO 3166-1 codes. Two letters
// are always an ISO code, or unknown.
var carLetters = map[string]string{
	"A": "AT", "B": "BE", "D": "DE", "E": "ES", "F": "FR", "G": "GA", "H": "HU", "I": "IT", "J": "JP", "K": "KH",
	"L": "LU",
	"M": "MT", "N": "NO", "P": "PT", "Q": "QA", "S": "SE", "T": "TH", "V": "VA", "Z": "ZM",
	"CDN": "CA", "EAK": "KE", "EAT": "TZ", "EAU": "UG", "GBA": "GG", "GBG": "GG", "GBJ": "JE", "GBM": "IM", "GBZ": "GI",
	"HKJ": "JO",
	"KSA": "SA", "LAR": "LY", "MAL": "MY", "MGL": "MN", "RCH": "CL", "ROK": "KR", "SLO": "SI", "UAE": "AE", "WAG": "GM",
	"WAL": "SL", "WAN": "NG",
}

// shortCountryNames are common short and older names in these languages, missing from the Unicode tables.
var shortCountryNames = map[string]string{
	"BRD": "DE", "Bundesrepublik Deutschland": "DE", "Tschechei": "CZ", "Tschechische Republik": "CZ",
	"Weißrussland": "BY", "Weissrussland": "BY",
	"Großbritannien": "GB", "Grossbritannien": "GB", "Schottland": "GB", "Nordirland": "GB",
	"Vereinigte Staaten von Amerika": "US", "Amerika": "US",
	"Grande-Bretagne": "GB", "Angleterre": "GB", "Écosse": "GB", "Pays de Galles": "GB", "Irlande du Nord": "GB",
	"États-Unis d'Amérique": "US", "Hollande": "NL", "République tchèque": "CZ",
	"Gran Bretagna": "GB", "Inghilterra": "GB", "Scozia": "GB", "Galles": "GB", "Stati Uniti d'America": "US",
	"Olanda": "NL", "Repubblica Ceca": "CZ",
	"Gran Bretaña": "GB", "Inglaterra": "GB", "Escocia": "GB", "Gales": "GB", "Estados Unidos de América": "US",
	"EE. UU.": "US", "EEUU": "US",
	"Holanda": "NL", "República Checa": "CZ",
	"Groot-Brittannië": "GB", "Engeland": "GB", "Schotland": "GB", "Verenigde Staten van Amerika": "US",
	"Tsjechische Republiek": "CZ", "Wit-Rusland": "BY",
	"Grã-Bretanha": "GB", "RSA": "ZA", "PRC": "CN",
}

// severalCountries are names of more than one country.
var severalCountries = map[string]string{
	"Congo": "CD CG", "Kongo": "CD CG", "Korea": "KP KR", "Corea": "KP KR", "Corée": "KP KR", "Virgin Islands": "VG VI",
}

// otherCountryNames are common names missing from the Unicode tables.
var otherCountryNames = map[string]string{
	"America": "US", "United States of America": "US",
	"Britain": "GB", "Great Britain": "GB", "UK": "GB", "England": "GB", "Scotland": "GB", "Wales": "GB",
	"Northern Ireland": "GB",
	"Burma":            "MM", "Cabo Verde": "CV", "Czech Republic": "CZ", "Eire": "IE", "Republic of Ireland": "IE",
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
	addForeign(out, all, add)
	return out
})

// addForeign adds the country names of other languages. A known name keeps its meaning, because existing customers hold
// it. A name of several countries is entered with all of them, so it is reported and not guessed.
func addForeign(known map[string]string, all []language.Region, add func(name, code string)) {
	for _, names := range []map[string]string{severalCountries, carLetters, shortCountryNames} {
		for name, codes := range names {
			add(name, codes)
		}
	}
	found := map[string][]string{}
	for _, tag := range countryLanguages {
		names := display.Regions(tag)
		for _, r := range all {
			for _, name := range []string{plainName(names.Name(r)), plainName(umlauts.Replace(names.Name(r)))} {
				if len(name) > 2 && known[name] == "" && !slices.Contains(found[name], r.String()) {
					found[name] = append(found[name], r.String())
				}
			}
		}
	}
	for name, codes := range found {
		slices.Sort(codes)
		known[name] = strings.Join(codes, " ")
	}
}

// umlauts writes German names as on a keyboard without umlauts.
var umlauts = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "Ä", "Ae", "Ö", "Oe", "Ü", "Ue", "ß", "ss")

// isoRegions returns the countries of ISO 3166-1, and Kosovo: current two-letter regions with a number among the
// countries.
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

// ownName returns a country's name in its main language, and "" if unknown.
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
