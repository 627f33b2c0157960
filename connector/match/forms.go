package match

import "strings"

// forms maps every spelling of a legal form, folded and without signs and spaces, to the form. Forms of two
// countries with the same spelling are one here: the country is compared by itself.
var forms = spellings(map[string]string{
	// Germany, Austria, Switzerland
	"gmbh":      "gmbh mbh gesellschaft_mit_beschränkter_haftung gesmbh",
	"ggmbh":     "ggmbh gemeinnützige_gmbh",
	"ug":        "ug ug_haftungsbeschränkt unternehmergesellschaft unternehmergesellschaft_haftungsbeschränkt",
	"ag":        "ag aktiengesellschaft",
	"kg":        "kg kommanditgesellschaft",
	"gmbhcokg":  "gmbh_co_kg gmbh_cie_kg gmbh_compagnie_kg",
	"agcokg":    "ag_co_kg",
	"ugcokg":    "ug_co_kg ug_haftungsbeschränkt_co_kg",
	"cokg":      "co_kg",
	"kgaa":      "kgaa",
	"gmbhcogaa": "gmbh_co_kgaa",
	"ohg":       "ohg offene_handelsgesellschaft",
	"gbr":       "gbr gesellschaft_bürgerlichen_rechts",
	"ek":        "ek ekfm ekfr eingetragener_kaufmann eingetragene_kauffrau",
	"eu":        "eu",
	"ev":        "ev eingetragener_verein",
	"eg":        "eg eingetragene_genossenschaft",
	"partg":     "partg partgmbb",
	"se":        "se",
	// Norway, Denmark, Sweden, Finland
	"as":  "as aksjeselskap aktieselskab",
	"asa": "asa allmennaksjeselskap",
	"aps": "aps anpartsselskab",
	"ans": "ans", "da": "delt_ansvar", "enk": "enk enkeltpersonforetak", "ivs": "ivs", "nuf": "nuf",
	"ab": "ab aktiebolag", "abpubl": "ab_publ", "hb": "hb handelsbolag", "ef": "ekonomisk_förening", "kb": "kommanditbolag",
	"oy": "oy osakeyhtiö oy_ab", "oyj": "oyj", "ky": "ky", "tmi": "tmi", "ry": "ry",
	// Britain, Ireland, America, Australia
	"ltd": "ltd limited co_ltd", "pvtltd": "pvt_ltd private_limited pty_ltd pty_limited", "llp": "llp limited_liability_partnership",
	"plc": "plc public_limited_company", "cic": "cic", "lp": "lp", "inc": "inc incorporated", "corp": "corp corporation",
	"llc": "llc", "co": "company",
	// The Netherlands, Belgium, France, Italy, Spain, Poland
	"bv": "bv besloten_vennootschap", "nv": "nv naamloze_vennootschap", "vof": "vof vennootschap_onder_firma", "cv": "cv",
	"stichting": "stichting", //nolint:misspell // a Dutch foundation
	"srl":       "srl", "sarl": "sarl", "sas": "sas", "sasu": "sasu", "eurl": "eurl", "sci": "sci", "snc": "snc", "sa": "sa société_anonyme",
	"spa": "spa", "sl": "sl slu sociedad_limitada", "lda": "lda", "spzoo": "sp_zoo", "sro": "sro", "kft": "kft", "ou": "oü",
})

// spellings turns a list of forms round.
func spellings(of map[string]string) map[string]string {
	out := map[string]string{}
	for form, list := range of {
		for _, spelling := range strings.Fields(list) {
			spelling = strings.ReplaceAll(spelling, "_", " ")
			for _, s := range []string{spelling, strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue").Replace(spelling)} {
				out[joined(words(s))] = form
			}
		}
	}
	return out
}
