package match

import "fmt"

// BulkLevel is the lowest score for accepting pairs without a look at each one. README.md says how often that
// is wrong.
const BulkLevel = 90

// Margin is how much better than any other a pair has to fit. With less, the other
// may be meant as well.
const Margin = 10

// rule is one reason for or against a pair.
type rule struct {
	code   string
	text   string // the text for a bookkeeper; %s is the sharers
	points int
	limit  int    // no score above it when the rule holds; 0 for none
	when   string // for the table
	least  int    // no score below it when the rule holds and no other contradicts it; 0 for none
}

// All rules, in the order of printing. Of the first, third, fourth, fifth and sixth paragraph at most one
// rule applies each.
var (
	nameSame    = rule{"name_same", "same name", 45, 0, "the names are equal, apart from case, signs, marks (Müller, Mueller, Muller), and the spelling of \"and\" and the legal form", 0}
	nameOrder   = rule{"name_order", "same name in another order", 45, 0, "the words are equal", 0}
	nameSpaces  = rule{"name_spaces", "same name, but for spaces", 45, 0, "the letters are equal", 0}
	nameInitial = rule{"name_initial", "one name has initials of the other", 28, 75, "a word on one side is the first letter of a word on the other", 0}
	nameTypo    = rule{"name_typo", "name equal but for a typo", 28, 75, "one or two words differ by an added, missing or wrong letter, or by two swapped letters", 0}
	nameLetter  = rule{code: "name_letter", text: "company name equal but for one letter more", points: 28, limit: 75, least: HoldLevel, when: fmt.Sprintf("two words or more with one additional letter on one side, and the same legal form; the score is %d at least, unless junior and senior, the country or the company number differ", HoldLevel)}
	namePart    = rule{"name_part", "one name is part of the other", 18, 70,
		"all words of one are in the other, and the other has more words", 0}
	nameContact = rule{"name_contact", "the customer has the name of the record's contact", 15, 65,
		"a person of the record has the customer's name", 0}
	nameSimilar = rule{"name_similar", "names are similar", 12, 59, "two thirds of the words are equal or nearly equal", 0}
	nameWord    = rule{"name_word", "names have only a word in common", 0, 55, "one word is equal", 0}
	nameDiffers = rule{"name_differs", "names differ", -20, 45, "none of the rules above applies", 0}

	nameThin = rule{"name_thin", "the name says little", 0, 78,
		"one word, or a word and initials, and no legal form: a whole family may have that name", 0}
	formMissing = rule{"form_missing", "name equal but for the legal form", -5, 78,
		"one side has a legal form: a trader and his company may have the same name", 0}
	formDiffers = rule{"form_differs", "different legal forms", -25, 59, "both sides have one", 0}
	generation  = rule{"generation", "one is marked junior or senior", -25, 59,
		"the other has no such mark, or the other mark", 0}
	numerals = rule{"numerals", "numbers in the names differ", -30, 50,
		"for example House 1 and House 2, Solar I and Solar II", 0}

	emailSame = rule{"email_same", "same e-mail", 35, 0,
		"both sides share an address, and no other record or customer has it", 0}
	emailShared = rule{"email_shared", "%s share this e-mail", 12, 0,
		"both sides share an address, and others have it too", 0}
	emailHost = rule{"email_host", "same e-mail domain, different address", 2, 0,
		"the domain is not a public mail provider", 0}
	emailDiffers = rule{"email_differs", "different e-mail", -5, 0, "both sides have one", 0}

	phoneSame = rule{"phone_same", "same phone", 20, 0,
		"both sides share a number, and no other record or customer has it", 0}
	phoneShared = rule{"phone_shared", "%s share this phone", 8, 0, "both sides share a number, and others have it too",
		0}
	phoneDiffers = rule{"phone_differs", "different phone", -12, 0, "both sides have one", 0}

	postcodeSame = rule{"postcode_same", "same postcode", 15, 0, "in any spelling", 0}
	streetSame   = rule{"street_same", "same postcode and street", 20, 0, "the first line of the address is equal too",
		0}
	streetDiffers = rule{"street_differs", "same postcode, another street or number", 10, 78,
		"it may be another branch, or a neighbour with the same name", 0}
	citySame        = rule{"city_same", "same city", 5, 0, "one side has no postcode", 0}
	postcodeDiffers = rule{"postcode_differs", "different postcode", -10, 75,
		"both sides have one: a move, or another branch", 0}
	countryDiffers = rule{"country_differs", "different country", -20, 59, "both sides have one", 0}

	numberSame = rule{"number_same", "same company number", 45, 0,
		"both sides share a company or VAT number, and no other record or customer has it", 0}
	numberShared = rule{"number_shared", "%s share this company number", 15, 0,
		"both sides share it, and others have it too: branches", 0}
	numberDiffers = rule{"number_differs", "different company numbers", -40, 40, "both sides have one of the same kind", 0}

	exportedSame = rule{"exported_same", "same number in the export", 60, 0,
		"a move between connections: the record's system writes this number into its export too, and nobody else has it", 0}

	unproven = rule{"unproven", "neither e-mail nor company number agrees", 0, 78,
		"a son may have his father's name, address and phone", 0}
	placeUnknown = rule{"place_unknown", "no postcode to compare", 0, 85,
		"one side has none: branches share all other values, the company number too", 0}
	phoneUnknown = rule{"phone_unknown", "no phone to compare", 0, 88,
		"one side has none, and no legal form rules out a person: father and son may share an e-mail address", 0}

	recordToo = rule{"another_record", "another record fits as well", 0, 59,
		fmt.Sprintf("its score is at most %d lower", Margin), 0}
	customerToo = rule{"another_customer", "another customer fits as well", 0, 59,
		fmt.Sprintf("its score is at most %d lower; it may be taken or free", Margin), 0}
)

// rules are all of them, as the table has them.
var rules = []*rule{
	&nameSame, &nameOrder, &nameSpaces, &nameInitial, &nameTypo, &nameLetter, &namePart, &nameContact, &nameSimilar,
	&nameWord, &nameDiffers,
	&nameThin, &formMissing, &formDiffers, &generation, &numerals,
	&emailSame, &emailShared, &emailHost, &emailDiffers,
	&phoneSame, &phoneShared, &phoneDiffers,
	&postcodeSame, &streetSame, &streetDiffers, &citySame, &postcodeDiffers, &countryDiffers,
	&numberSame, &numberShared, &numberDiffers, &exportedSame,
	&unproven, &placeUnknown, &phoneUnknown, &recordToo, &customerToo,
}

// contradicts reports whether the rule proves two companies different, however alike their names are.
func (r *rule) contradicts() bool {
	return r == &generation || r == &countryDiffers || r == &numberDiffers
}

// lifted reports whether the rule's limit does not count when the company number is
// the same and nobody else's.
func (r *rule) lifted() bool {
	return r == &nameTypo || r == &nameLetter || r == &nameThin || r == &formMissing || r == &unproven ||
		r == &phoneUnknown
}
