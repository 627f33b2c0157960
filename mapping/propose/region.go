package propose

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"payersync/mapping"
)

// region finds the country of phone numbers without a country code, and writes the rule of the phone number.
func (p *proposing) region() {
	if p.phoneColumns == nil {
		return
	}
	region, why := p.homeCountry()
	value := "phone(" + p.phoneText() + ")"
	if p.country != nil && region != "" {
		value = fmt.Sprintf("phone(%s, default(country(%s), %q))", p.phoneText(), p.country.written(), region)
	}
	if region == "" {
		p.note("Nothing says which country's phone numbers these are: those without a country code stay as they are. Write region: and two letters into the mapping.")
		p.rule("customer.people[0].phone", value, "numbers with a country code only: no region is known", p.phoneColumns...)
		return
	}
	understood, all := p.understood(region)
	p.rule("region", region, why)
	p.rule("customer.people[0].phone", value, understoodWhy(understood, all), p.phoneColumns...)
}

// homeCountry is the country of most customers. If a column names the country, it is the country of the rows
// without one.
func (p *proposing) homeCountry() (code, why string) {
	votes, why := p.hints(), "the endings of the e-mail addresses and the forms of the postcodes say so"
	sure := p.country != nil && p.country.filled*100 >= p.country.rows*95
	if p.country != nil {
		why = fmt.Sprintf("where %q is blank, most e-mail addresses and postcodes say so", p.country.name)
	}
	byColumn := p.country != nil && (sure || len(votes) == 0)
	if byColumn {
		votes = p.country.countries()
	}
	codes := slices.DeleteFunc(ranked(votes), func(code string) bool {
		understood, all := p.understood(code)
		return understood*2 < all
	})
	switch {
	case len(codes) == 0:
		return "", ""
	case len(codes) > 1 && (votes[codes[0]] == votes[codes[1]] || !sure && votes[codes[0]] < 2*votes[codes[1]]):
		codes = codes[:min(3, len(codes))]
		code = codes[p.choose("region", "Which country's phone numbers are written without a country code?", false, codes...)]
	default:
		code = codes[0]
	}
	if byColumn {
		why = fmt.Sprintf("%s rows say so in %q", of(votes[code], p.country.rows), p.country.name)
		if votes[code]*2 > p.country.rows {
			why = fmt.Sprintf("most rows say so in %q", p.country.name)
		}
	}
	return code, why
}

// hints counts the countries by endings of e-mail addresses and forms of postcodes, in rows without a
// country.
func (p *proposing) hints() map[string]int {
	votes := map[string]int{}
	for _, row := range p.rows {
		if p.country != nil && p.country.value(row) != "" {
			continue
		}
		code := ""
		if len(p.emails) > 0 {
			code = ending(p.emails[0].value(row))
		}
		if code == "" && p.postcode != nil {
			code = countryOfPostcode(p.postcode.value(row))
		}
		if code != "" {
			votes[code]++
		}
	}
	return votes
}

// countries counts the countries in a column.
func (c *column) countries() map[string]int {
	votes := map[string]int{}
	for v, n := range c.times {
		if code, known := mapping.Country(v); known {
			votes[code] += n
		}
	}
	return votes
}

// ranked returns the candidates, most votes first.
func ranked(votes map[string]int) []string {
	return slices.SortedFunc(maps.Keys(votes), func(a, b string) int {
		return cmp.Or(votes[b]-votes[a], strings.Compare(a, b))
	})
}

// ending returns the country of an e-mail address's ending.
func ending(email string) string {
	end := strings.ToUpper(email[strings.LastIndexByte(email, '.')+1:])
	if end == "UK" {
		return "GB"
	}
	for _, code := range []string{"GB", "DE", "AT", "CH", "FR", "IT", "NL", "BE", "ES", "PT", "IE", "LU", "DK", "SE", "NO",
		"FI", "PL"} {
		if end == code {
			return code
		}
	}
	return ""
}

// postcodeForms are the forms of postcodes unique to one country.
var postcodeForms = map[string]*regexp.Regexp{
	"GB": regexp.MustCompile(`(?i)^[A-Z]{1,2}[0-9][A-Z0-9]? ?[0-9][A-Z]{2}$`),
	"CA": regexp.MustCompile(`(?i)^[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9]$`),
	"NL": regexp.MustCompile(`(?i)^[1-9][0-9]{3} ?[A-Z]{2}$`),
}

// countryOfPostcode returns the one country with postcodes of this form; "" if none or several have.
func countryOfPostcode(cell string) string {
	for code, form := range postcodeForms {
		if form.MatchString(cell) {
			return code
		}
	}
	return ""
}

// maxTried is how many phone numbers are tried.
const maxTried = 1000

// understood counts the phone numbers valid in a country, or with a country code.
func (p *proposing) understood(region string) (n, all int) {
	for _, row := range p.rows {
		if all == maxTried {
			break
		}
		for _, c := range p.phoneColumns {
			cell := c.value(row)
			if cell == "" {
				continue
			}
			at := region
			if p.country != nil {
				if code, known := mapping.Country(p.country.value(row)); known {
					at = code
				}
			}
			all++
			if _, known := mapping.Phone(cell, at); known {
				n++
			}
			break
		}
	}
	return n, all
}

func understoodWhy(n, all int) string {
	if n == all {
		return fmt.Sprintf("all %d numbers are understood", all)
	}
	return fmt.Sprintf("%s numbers are understood; the others are sent as they are", of(n, all))
}
