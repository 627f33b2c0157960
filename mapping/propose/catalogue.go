package propose

import (
	"regexp"
	"sync"

	"payersync/connector"
)

// export describes one program's file of customers.
type export struct {
	program string   // with the list, as its users call it
	known   []string // the identifying headings: all must be present
	columns []meaning
	traps   []trap
}

// meaning is the content of an export's column. Headings are in plain words, as plainWords makes them. Of two
// columns with the same role the first is likelier.
type meaning struct {
	heading string
	role    role
	left    []string // rows with one of these values are no customers; "" is a blank cell
	kept    []string // only rows with one of these values are customers
	why     string   // why it is unused, if its role is roleNone
}

// trap is a warning about an export.
type trap struct {
	text   string
	column string         // "" where it matters in any case
	match  *regexp.Regexp // it matters to rows with a matching column
}

var (
	blankCell = regexp.MustCompile(`^$`)
	colon     = regexp.MustCompile(`.:.`)
)

// Meanings shared by several programs.
const (
	taxID     = "tax numbers are not sent"
	elsewhere = "it is of the address for deliveries"
)

// is gives columns a role. Inlined into the table below it would add 150 kB to the program.
//
//go:noinline
func is(r role, headings ...string) (out []meaning) {
	return connector.Map(headings, func(h string) meaning { return meaning{heading: h, role: r} })
}

// leftOut is a column that excludes rows with one of these values.
func leftOut(heading string, values ...string) []meaning {
	return []meaning{{heading: heading, role: roleFilter, left: values}}
}

// onlyKept is a column that includes only rows with one of these values.
func onlyKept(heading string, values ...string) []meaning {
	return []meaning{{heading: heading, role: roleFilter, kept: values}}
}

// filledOut is a column that excludes rows with any value in it.
func filledOut(headings ...string) (out []meaning) {
	return connector.Map(headings,
		func(h string) meaning { return meaning{heading: h, role: roleFilter, kept: []string{""}} })
}

//go:noinline
func unused(why string, headings ...string) (out []meaning) {
	return connector.Map(headings, func(h string) meaning { return meaning{heading: h, role: roleNone, why: why} })
}

func all(parts ...[]meaning) (out []meaning) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// exports are the known files. Any other file is read by its headings and values alone.
var exports = sync.OnceValue(func() []export {
	return []export{
		{"Xero, contacts", []string{"contact name", "account number", "po address line 1"}, all(
			is(roleID, "account number"), is(roleCompany, "contact name"), is(roleFirst, "first name"),
			is(roleLast, "last name"), is(roleEmail, "email address"),
			is(rolePhone, "phone number"), is(roleMobile, "mobile number"), is(roleStreet, "po address line 1"),
			is(roleMoreStreet, "po address line 2", "po address line 3", "po address line 4"),
			is(roleTown, "po city"), is(rolePostcode, "po postal code"), is(roleCountry, "po country"),
			unused(elsewhere, "sa attention to", "sa address line 1", "sa address line 2", "sa address line 3",
				"sa address line 4", "sa city", "sa region", "sa postal code", "sa country"), unused(taxID, "tax number")), []trap{
			{text: "Xero's list of all contacts holds suppliers, too, and no column tells them apart: export Contacts, Customers."},
			{"Xero identifies a contact by its name where it has no account number: --source csv-xero takes both, and a renamed contact is another customer then.", "account number", blankCell},
		}},

		{"QuickBooks Online, customers", []string{"name", "company name", "street address", "open balance"}, all(
			is(roleName, "name"), is(roleCompany, "company name"), is(roleStreet, "street address"), is(roleTown, "city"),
			is(roleCountry, "country"), is(rolePostcode, "zip"), is(rolePhone, "phone"), is(roleEmail, "email")),
			quickBooksTraps("name", quickBooksOnline)},
		{"QuickBooks Online, Customer Contact List", []string{"customer", "phone numbers", "full name", "billing address"},
			all(
				is(roleName, "customer"), is(rolePhone, "phone numbers"), is(roleEmail, "email"), is(roleContact, "full name"),
				is(roleStreet, "billing address"), unused(elsewhere, "shipping address")),
			quickBooksTraps("customer", quickBooksOnline)},
		{"QuickBooks Desktop, Customer List", []string{"active status", "customer", "main phone"}, all(
			onlyKept("active status", "active"), is(roleID, "account no"), is(roleCompany, "company"), is(roleName, "customer"),
			is(roleFirst, "first name"), is(roleLast, "last name"), is(roleEmail, "main email"), is(rolePhone, "main phone"),
			is(roleMobile, "alt phone"),
			is(roleStreet, "bill to 2", "invoice to 2"),
			is(roleMoreStreet, "bill to 3", "bill to 4", "bill to 5", "invoice to 3", "invoice to 4", "invoice to 5"),
			unused("it repeats the name", "primary contact", "bill to 1", "invoice to 1"),
			unused(elsewhere, "ship to 1", "ship to 2", "ship to 3", "ship to 4", "ship to 5"),
			unused("it is of a job", "job status", "job type", "job description", "start date", "projected end", "end date")),
			append(quickBooksTraps("customer",
				trap{"QuickBooks Desktop fills the account number only where a person typed one: --id Customer takes the name, and a renamed customer is another one then.", "account no", blankCell}), trap{text: "QuickBooks Desktop writes town, state and postcode into one line: the address is sent as one line."})},

		{"Sage 50, customers by field", []string{"account ref", "name", "address 1"}, all(
			is(roleID, "account ref"), is(roleCompany, "name"), is(roleContact, "contact name"), is(rolePhone, "telephone"),
			is(roleMobile, "telephone 2"), is(roleEmail, "direct debits email", "e mail"),
			is(roleStreet, "address 1"), is(roleMoreStreet, "address 2"), is(roleTown, "address 3"),
			is(rolePostcode, "address 5"), is(roleCountry, "country code"), unused("it is the county", "address 4"),
			sageStatus()), sage50Traps},
		{"Sage 50, customer records", []string{"account reference", "account name", "street 1"}, all(
			is(roleID, "account reference"), is(roleCompany, "account name"), is(roleContact, "contact name"),
			is(rolePhone, "telephone", "telephone number"), is(roleMobile, "telephone 2"),
			is(roleEmail, "email", "e mail", "email 1"),
			is(roleStreet, "street 1"), is(roleMoreStreet, "street 2"), is(roleTown, "town"), is(rolePostcode, "postcode"),
			is(roleCountry, "country", "country code"), sageStatus()), sage50Traps},
		{"Sage 50, customer list", []string{"a c", "name", "credit limit"}, all(
			is(roleID, "a c"), is(roleCompany, "name"), is(roleContact, "contact", "contact name"), is(rolePhone, "telephone"),
			is(roleEmail, "email", "e mail"), sageStatus()), sage50Traps},
		{"Sage Accounting, contacts", []string{"reference", "main address line 1"}, all(
			is(roleID, "reference"), is(roleCompany, "company name", "business name"), is(roleContact, "main contact name"),
			is(rolePhone, "main contact phone"), is(roleMobile, "main contact mobile"), is(roleEmail, "main contact email"),
			is(roleStreet, "main address line 1"), is(roleMoreStreet, "main address line 2"),
			is(roleTown, "main address town", "main address city"),
			is(rolePostcode, "main address post code", "main address postal code", "main address postcode"),
			is(roleCountry, "main address country")), nil},

		{"MYOB AccountRight, cards", []string{"co last name", "card id", "card status"}, all(
			leftOut("card status", "y"), is(roleID, "record id", "card id"), is(roleLast, "co last name"),
			is(roleFirst, "first name"), is(roleContact, "contact name"), is(roleEmail, "email"), is(rolePhone, "phone 1"),
			is(roleMobile, "phone 2"),
			is(roleStreet, "addr 1 line 1"), is(roleMoreStreet, "line 2", "line 3", "line 4"), is(roleTown, "city"),
			is(rolePostcode, "postcode"), is(roleCountry, "country")), nil},

		{"Odoo, contacts", []string{"external id", "name", "customer rank"}, odoo(is(roleID, "external id")), odooTraps},
		{"Odoo, contacts by field", []string{"id", "name", "customer rank"}, odoo(is(roleID, "id")), odooTraps},
		{"Odoo 12 and before, contacts", []string{"id", "name", "is a customer", "is a vendor"},
			odoo(is(roleID, "id", "external id")), odooTraps},

		{"Zoho Books, customers", []string{"customer id", "display name", "billing code"}, zoho(is(roleID, "customer id")),
			nil},
		{"Zoho Books, contacts", []string{"contact id", "contact name", "billing code"}, zoho(is(roleID, "contact id")), nil},

		{"Wave, customers", []string{"customer name", "contact first name", "customer currency"}, all(
			is(roleID, "account number"), is(roleCompany, "customer name"), is(roleFirst, "contact first name"),
			is(roleLast, "contact last name"), is(roleEmail, "email"), is(rolePhone, "phone"), is(roleMobile, "mobile"),
			is(roleStreet, "address line 1"), is(roleMoreStreet, "address line 2"), is(roleTown, "city"),
			is(rolePostcode, "postal code zip code"), is(roleCountry, "country"),
			unused(elsewhere, "shipping address", "ship to contact", "ship to country", "ship to province state",
				"ship to address line 1", "ship to address line 2", "ship to city", "ship to postal code zip code",
				"ship to phone"), unused("it is another telephone number", "toll free")), []trap{
			{"Wave fills the account number only where a person typed one: --id customer_name takes the name, and a renamed customer is another one then.", "account number", blankCell},
		}},
		{"FreshBooks, clients", []string{"organization", "first name", "last name", "province state"}, all(
			is(roleCompany, "organization"), is(roleFirst, "first name"), is(roleLast, "last name"), is(roleEmail, "email"),
			is(rolePhone, "phone"),
			is(roleStreet, "address line 1"), is(roleMoreStreet, "address line 2"), is(roleTown, "city"),
			is(rolePostcode, "postal code"), is(roleCountry, "country")), []trap{
			{text: "FreshBooks exports no client number: --id Organization,Email takes both, and a client with another name or address is another one then."},
		}},

		{"DATEV, Debitoren/Kreditoren", []string{"konto", "name adressattyp unternehmen"}, all(
			is(roleID, "konto"), leftOut("diverse konto", "1"), unused("it says which of the names is filled", "adressattyp"),
			unused("it says what the address is for", "adressart")), []trap{
			{"DATEV writes suppliers into the same file: their accounts begin with 7, 8 or 9, and are excluded.", "konto",
				regexp.MustCompile(`^[789]`)},
		}},
		{"Lexware Office, contacts", []string{"kundennummer", "lieferantennummer", "firmenname"}, all(
			[]meaning{{heading: "kundennummer", role: roleID, left: []string{""}}},
			unused("it is the number of a supplier", "lieferantennummer"), is(roleCompany, "firmenname"),
			is(roleFirst, "vorname"), is(roleLast, "nachname")), []trap{
			{"Lexware Office writes suppliers into the same file: they have no Kundennummer, and are excluded.", "kundennummer",
				blankCell},
		}},
		{"Lexware, customers", []string{"kundennummer", "matchcode", "anrede"}, all(
			is(roleID, "kundennummer"), unused("it is a short name for searches", "matchcode"), is(roleCompany, "firma"),
			is(roleFirst, "vorname"), is(roleLast, "name", "nachname")), nil},
		{"sevdesk, contacts", []string{"kundennummer", "organisation", "adress kategorie"}, all(
			is(roleID, "kundennummer"), is(roleCompany, "organisation"), is(roleFirst, "vorname"), is(roleLast, "nachname"),
			is(roleMoreName, "namenszusatz"), onlyKept("kategorie", "kunde"),
			unused("it says what the address is for", "adress kategorie", "telefon kategorie", "e mail kategorie")), nil},
		{"bexio, contacts", []string{"kontakt nr", "kontaktart", "korrespondenzweg"}, all(
			is(roleID, "kontakt nr"), is(roleCompany, "firma"), is(roleMoreName, "firmennamen zusatz"), is(roleFirst, "vorname"),
			is(roleLast, "nachname"), is(roleStreet, "adresse", "strasse"), is(roleEmail, "e mail"), is(rolePhone, "telefon"),
			is(roleMobile, "mobile"),
			is(roleHouse, "haus nr"), is(roleMoreStreet, "adresszusatz"), is(rolePostcode, "plz"), is(roleTown, "ort"),
			is(roleCountry, "land"), filledOut("name der verknupften firma"),
			unused("it says whether a person or a company", "kontaktart", "kontaktart beschreibung")), []trap{
			{text: "bexio writes suppliers into the same file, and no column tells them apart but Kategorie, where you filled it."},
		}},

		{"ERPNext, customers", []string{"id", "customer name", "customer group", "territory"}, all(
			is(roleID, "id"), is(roleCompany, "customer name"), leftOut("disabled", "1"), leftOut("is frozen", "1"),
			is(roleEmail, "email id"), is(roleMobile, "mobile no"), is(roleStreet, "primary address"),
			unused("it says whether a person or a company", "customer type"),
			unused("it is how you sort customers", "customer group", "territory"),
			unused("it is the name of a record", "customer primary contact", "customer primary address")), nil},
		{"Dolibarr, third parties", []string{"name", "customer", "supplier", "customer code"}, all(
			is(roleID, "customer code", "id"), is(roleCompany, "name"), leftOut("status", "0"),
			leftOut("customer", "", "0", "2"), unused("it says who is a supplier", "supplier"), is(roleStreet, "address"),
			is(rolePostcode, "zip", "zip code"), is(roleTown, "town", "city"), is(roleCountry, "country", "country code"),
			is(rolePhone, "phone"), is(roleEmail, "email", "e mail")), dolibarrTraps},
		{"Dolibarr, tiers", []string{"nom", "client", "fournisseur", "code client"}, all(
			is(roleID, "code client", "id"), is(roleCompany, "nom"), leftOut("etat", "0"), leftOut("client", "", "0", "2"),
			unused("it says who is a supplier", "fournisseur")), dolibarrTraps},

		{"Shopify, customers", []string{"customer id", "default address company"}, all(
			is(roleID, "customer id"), is(roleCompany, "default address company"), is(roleStreet, "default address address 1"),
			is(roleMoreStreet, "default address address 2"), is(roleTown, "default address city"),
			is(rolePostcode, "default address zip"), is(roleCountry, "default address country code"),
			is(rolePhone, "default address phone"), is(roleMobile, "phone"), shop()), shopTraps},
		{"Shopify, customers without a number", []string{"accepts marketing", "province code", "total orders"}, all(
			is(roleCompany, "company"), is(roleStreet, "address 1"), is(roleMoreStreet, "address 2"), is(roleTown, "city"),
			is(rolePostcode, "zip"), is(roleCountry, "country code"), is(rolePhone, "phone"), shop()), append(shopTraps,
			trap{text: "This export has no customer number: export again, and Shopify writes Customer ID."})},
		{"PrestaShop, customers", []string{"id", "email address", "enabled", "last visit"},
			prestaShop(is(roleID, "id"), leftOut("enabled", "0", "no")), prestaTraps},
		{"PrestaShop, customers to import", []string{"customer id", "active", "default group id"},
			prestaShop(is(roleID, "customer id"), leftOut("active", "0")), prestaTraps},
		{"WooCommerce, customers", []string{"username", "sign up", "aov"}, all(
			is(roleID, "username"), is(roleName, "name"), is(roleEmail, "email"), is(roleTown, "city"),
			is(rolePostcode, "postal code"), is(roleCountry, "country region")), shopTraps},
		{"Stripe, customers", []string{"id", "description", "created utc", "delinquent"}, all(
			is(roleID, "id"), is(roleName, "name"), is(roleEmail, "email")), shopTraps},

		{"Business Central, customers", []string{"no", "name", "balance lcy"}, all(
			is(roleID, "no"), is(roleCompany, "name"), is(roleMoreName, "name 2"), leftOut("blocked", "all", "invoice"),
			is(roleContact, "contact", "contact name"), is(rolePhone, "phone no"), is(roleEmail, "email", "e mail")), nil},
		{"e-conomic, customers", []string{"kundenr", "navn", "postnr"}, all(
			is(roleID, "kundenr"), is(roleCompany, "navn"), is(roleStreet, "adresse"), is(rolePostcode, "postnr"),
			is(roleTown, "by"), is(roleCountry, "land"), is(roleEmail, "e mail", "email"), is(rolePhone, "telefon", "tlf nr"),
			is(roleContact, "kontaktperson", "attention"), leftOut("spærret", "ja", "1", "true"), unused(taxID, "cvr nr")), nil},
		{"Fortnox, customers", []string{"kundnr", "namn", "postnr"}, all(
			is(roleID, "kundnr"), is(roleCompany, "namn"), is(roleStreet, "adress 1", "adress"), is(roleMoreStreet, "adress 2"),
			is(rolePostcode, "postnr"), is(roleTown, "ort"), is(roleCountry, "land"), is(roleEmail, "e post faktura", "e post"),
			is(rolePhone, "telefon", "telefon 1"), leftOut("aktiv", "nej", "0", "false"),
			unused(taxID, "org nr", "organisationsnr")), nil},
		{"GnuCash, customers", []string{"id", "company", "addr 1", "shipname"}, all(
			is(roleID, "id"), is(roleCompany, "company"), is(roleContact, "name"), is(roleStreet, "addr 1"),
			is(roleMoreStreet, "addr 2", "addr 3", "addr 4"), is(rolePhone, "phone"), is(roleEmail, "email"),
			unused(elsewhere, "shipname", "shipaddr 1", "shipaddr 2", "shipaddr 3", "shipaddr 4", "shipphone", "shipfax",
				"shipmail")), nil},
	}
})

var quickBooksOnline = trap{text: "QuickBooks Online exports no customer number: --id takes the name, which is unique there, and a renamed customer is another one then. A connection to QuickBooks itself knows them by number."}

func quickBooksTraps(name string, number trap) []trap {
	return []trap{
		number,
		{"Names with a colon are sub-customers and jobs of QuickBooks: the customer before the colon may be the one who pays.", name, colon},
	}
}

func sageStatus() []meaning {
	return all(leftOut("account on hold", "1", "yes", "y", "true"), leftOut("on hold", "1", "yes", "y", "true"),
		leftOut("inactive", "1", "yes", "y", "true"), leftOut("inactive flag", "1", "yes", "y", "true"),
		leftOut("record deleted", "1", "yes", "y", "true"))
}

var sage50Traps = []trap{{text: "--source csv-sage is for Sage Accounting, and reads no file of Sage 50."}}

// odoo returns the columns of Odoo's exports, by their labels or by their names.
func odoo(id []meaning) []meaning {
	return all(id, is(roleCompany, "name"), leftOut("customer rank", "", "0"), leftOut("is a customer", "false", "0", ""),
		unused("it says who is a supplier", "is a vendor", "supplier rank"), leftOut("active", "false", "0"),
		filledOut("parent id", "parent id id", "related company"),
		is(roleEmail, "email"), is(rolePhone, "phone"), is(roleMobile, "mobile"), is(roleStreet, "street"),
		is(roleMoreStreet, "street 2"), is(roleTown, "city"), is(rolePostcode, "zip"),
		is(roleCountry, "country", "country id", "country code"),
		is(roleLanguage, "language", "lang"), unused("it is how you sort contacts", "tags", "category id"),
		unused("it says whether a person or a company", "is company", "company type", "is a company"),
		unused(taxID, "vat", "tax id"))
}

var odooTraps = []trap{{text: "Odoo counts as customers who had an invoice: a new customer has rank 0, and is excluded until then."}}

func zoho(id []meaning) []meaning {
	return all(id, is(roleName, "display name", "contact name"), is(roleCompany, "company name"),
		is(roleFirst, "first name"), is(roleLast, "last name"), is(roleEmail, "email id", "email"),
		is(rolePhone, "phone", "billing phone"), is(roleMobile, "mobile phone"),
		is(roleStreet, "billing address"), is(roleMoreStreet, "billing street 2"), is(roleTown, "billing city"),
		is(rolePostcode, "billing code"), is(roleCountry, "billing country"),
		onlyKept("status", "active"), onlyKept("contact type", "customer"),
		unused("it says whether a person or a company", "customer sub type"),
		unused("it is who gets letters at the address", "billing attention"))
}

var dolibarrTraps = []trap{{text: "Dolibarr writes 1 for customers, 2 for prospects and 3 for both: 0 and 2 are excluded."}}

func shop() []meaning {
	return all(is(roleFirst, "first name"), is(roleLast, "last name"), is(roleEmail, "email"))
}

var shopTraps = []trap{{text: "A shop's customers paid when they ordered: see that only those who owe you money are asked for a mandate."}}

func prestaShop(more ...[]meaning) []meaning {
	return all(append(more, is(roleFirst, "first name"), is(roleLast, "last name"), is(roleCompany, "company"),
		is(roleEmail, "email address", "email"), unused("it says how often somebody bought", "sales"))...)
}

var prestaTraps = append([]trap{{"PrestaShop comes with a sample customer, pub@prestashop.com: delete it.",
	"email address", regexp.MustCompile(`(?i)^pub@prestashop\.com$`)}}, shopTraps...)
