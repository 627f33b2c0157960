package match

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"
	"github.com/nyaruka/phonenumbers"

	"payersync/connector"
)

// email writes an address as it is compared.
func email(s string) string { return strings.TrimSpace(Fold(s)) }

// publicHosts give addresses to anybody, so a shared host says nothing.
var publicHosts = strings.Fields(`gmail.com googlemail.com gmx.de gmx.net gmx.at gmx.ch web.de t-online.de freenet.de posteo.de mailbox.org outlook.com outlook.de
	hotmail.com hotmail.co.uk hotmail.de live.com live.no yahoo.com yahoo.co.uk yahoo.de icloud.com me.com aol.com proton.me protonmail.com online.no
	telia.com bluewin.ch btinternet.com orange.fr wanadoo.fr free.fr laposte.net ziggo.nl kpnmail.nl`)

// host returns the domain of an address with a domain of its own; "" for a public host.
func host(email string) string {
	at := strings.LastIndexByte(email, '@')
	if at < 0 || slices.Contains(publicHosts, email[at+1:]) {
		return ""
	}
	return email[at+1:]
}

// The longest text tried as a phone number, and how many digits at the end of two numbers must agree when one
// lacks its country code.
const (
	maxPhone    = 50
	phoneDigits = 7
)

// phone normalises a number for comparison: with its known country code and a plus, otherwise its digits
// without the zeros of a prefix.
func phone(s, region string) string {
	s = strings.TrimSpace(s)
	digits := strings.TrimLeft(strings.Map(digit, s), "0")
	if len(s) > maxPhone || len(digits) < phoneDigits || strings.Trim(s, "+0123456789 ().-/") != "" {
		return ""
	}
	if number, err := phonenumbers.Parse(s, region); err == nil {
		return phonenumbers.Format(number, phonenumbers.E164)
	}
	return digits
}

func digit(r rune) rune {
	if r >= '0' && r <= '9' {
		return r
	}
	return -1
}

// samePhone reports whether two numbers are one. One without a country code is
// compared with the end of the other.
func samePhone(a, b string) bool {
	if strings.HasPrefix(a, "+") == strings.HasPrefix(b, "+") {
		return a == b
	}
	a, b = strings.TrimPrefix(a, "+"), strings.TrimPrefix(b, "+")
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasSuffix(b, a)
}

// phoneEnd returns the part that two spellings of one number have in common.
func phoneEnd(phone string) string { return phone[len(phone)-phoneDigits:] }

// postcode normalises a postcode for comparison, without the country before it and the American box number
// behind it.
func postcode(s string) string {
	s = strings.ToUpper(strings.TrimSpace(s))
	if before, after, found := strings.Cut(s, "-"); found && len(before) <= 3 && strings.Map(digit, before) == "" {
		s = strings.TrimSpace(after)
	} else if found && len(before) == 5 && len(after) == 4 && strings.Map(digit, before+after) == before+after {
		s = before
	}
	return strings.Map(lettersAndDigits, s)
}

func lettersAndDigits(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsDigit(r) {
		return r
	}
	return -1
}

// streetWords are the often shortened words of an address.
var streetWords = strings.NewReplacer("strasse", "str", "straat", "str", "road", "rd", "street", "st", "avenue", "av",
	"lane", "ln", "gate", "gt", "vagen", "v", "veien", "v")

// street writes the first line of an address as it is compared, word for word.
func street(s string) string {
	words := strings.FieldsFunc(Fold(s), func(r rune) bool { return lettersAndDigits(r) < 0 })
	return streetWords.Replace(strings.Join(words, " "))
}

// AddressKey returns the same text for all spellings of a street, house number and postcode; "" for an
// address without one of them.
func AddressKey(a connector.Address) string {
	line, code := street(a.Line1), postcode(a.PostCode)
	if line == "" || code == "" {
		return ""
	}
	return line + "|" + code
}

// elsewhere reports whether two first lines of addresses, written for comparing,
// speak of two places: they have no house number in common, or another street.
func elsewhere(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	noDigit := func(r rune) bool { return digit(r) < 0 }
	numbersA, numbersB := strings.FieldsFunc(a, noDigit), strings.FieldsFunc(b, noDigit)
	if len(numbersA) > 0 && len(numbersB) > 0 &&
		!slices.ContainsFunc(numbersA, func(n string) bool { return slices.Contains(numbersB, n) }) {
		return true
	}
	a, b = strings.Join(strings.FieldsFunc(a, notLetter), ""), strings.Join(strings.FieldsFunc(b, notLetter), "")
	if strings.Contains(a, b) || strings.Contains(b, a) {
		return false
	}
	return 2*levenshtein.ComputeDistance(a, b) > max(len(a), len(b))
}

func notLetter(r rune) bool { return !unicode.IsLetter(r) }

// country returns the two letters of a country; "" when something else is given.
func country(s string) string {
	switch s = strings.ToUpper(strings.TrimSpace(s)); {
	case s == "UK":
		return "GB"
	case len(s) == 2:
		return s
	}
	return ""
}

// shortestNumber is how long a company number is at least. German register numbers
// are shorter, and say nothing without their court.
const shortestNumber = 7

// number writes a company or VAT number as it is compared: NO 987 654 321 MVA is
// 987654321, and SE556012345601 is the company 5560123456. It returns "" for what is
// no such number.
func number(s string) string {
	s = strings.Map(lettersAndDigits, strings.ToUpper(Fold(s)))
	for _, court := range []string{"HRB", "HRA", "VR", "GNR"} {
		if strings.HasPrefix(s, court) {
			return ""
		}
	}
	for _, suffix := range []string{"MVA", "MWST", "TVA", "IVA"} {
		s = strings.TrimSuffix(s, suffix)
	}
	of := ""
	// SC123456 is a company of Scotland
	british := len(s) == 8 && slices.Contains([]string{"SC", "NI", "OC", "SO", "NC"}, s[:2])
	if len(s) > 3 && !british && unicode.IsLetter(rune(s[0])) && unicode.IsLetter(rune(s[1])) {
		of, s = s[:2], strings.TrimPrefix(s[2:], "E") // CHE-123.456.789
	}
	switch {
	case of == "SE" && len(s) == 12 && strings.HasSuffix(s, "01"):
		s = s[:10]
	case of == "FR" && len(s) == 11:
		s = s[2:]
	}
	if digits := strings.Map(digit, s); len(s) < shortestNumber || len(digits) < shortestNumber-1 {
		return ""
	}
	return strings.TrimLeft(s, "0")
}

// entry is a record or a customer, ready to be compared.
type entry struct {
	id       string
	name     name
	letters  string // the name, if it has no words
	contacts []name // people of a record under another name
	emails   []string
	phones   []string
	places   []spot
	numbers  []string
	exported []string
}

// spot is an address, ready to be compared.
type spot struct {
	postcode string
	street   string // the first line, word for word
	line     string // the same without spaces
	city     string
	country  string
}

func entryOf(id, full string, emails, phones []string, addresses []connector.Address, numbers []string,
	region string) entry {
	e := entry{id: id, name: newName(full)}
	if len(e.name.words) == 0 {
		e.letters = strings.ToLower(strings.Join(strings.Fields(full), " "))
	}
	for _, s := range emails {
		e.emails = addNew(e.emails, email(s))
	}
	for _, a := range addresses {
		if c := country(a.Country); c != "" {
			region = c
		}
		p := spot{postcode: postcode(a.PostCode), street: street(a.Line1), city: strings.Map(lettersAndDigits, Fold(a.City)),
			country: country(a.Country)}
		p.line = strings.ReplaceAll(p.street, " ", "")
		if p != (spot{}) {
			e.places = append(e.places, p)
		}
	}
	for _, s := range phones {
		e.phones = addNew(e.phones, phone(s, region))
	}
	for _, s := range numbers {
		e.numbers = addNew(e.numbers, number(s))
	}
	return e
}

func addNew(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func entryOfRecord(r Record, region string) entry {
	var emails, phones []string
	for _, p := range r.Want.People {
		emails, phones = append(emails, p.Email), append(phones, p.Phone)
	}
	e := entryOf(r.ID, r.Want.Name, emails, phones, r.Want.Addresses,
		slices.Concat(r.Numbers, Numbers(r.Want.ExternalData)), region)
	e.exported = r.Exported
	for _, p := range r.Want.People {
		if n := newName(strings.TrimSpace(cmp.Or(p.Name, p.FirstName+" "+p.LastName))); len(n.words) > 1 &&
			n.together != e.name.together {
			e.contacts = append(e.contacts, n)
		}
	}
	return e
}

func entryOfCustomer(c Customer, region string) entry {
	e := entryOf(c.ID, c.Name, c.Emails, c.Phones, c.Addresses, slices.Concat(c.Numbers, Numbers(c.ExternalData)),
		region)
	e.exported = c.Exported
	return e
}
