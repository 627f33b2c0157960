package propose

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// role is a column's possible meaning for a customer.
type role int

const (
	roleID role = iota
	roleCompany
	roleName
	roleMoreName
	roleFirst
	roleLast
	roleContact
	roleEmail
	rolePhone
	roleMobile
	roleStreet
	roleHouse
	roleMoreStreet
	rolePlace // postcode and town in one cell
	roleTown
	rolePostcode
	roleCountry
	roleLanguage
	roleStatus
	roleKind // the kind of contact: customer, prospect, supplier
	roleLeft // since when somebody is no customer any more
	rolePayment
	roleCustomer // yes for customers
	roleSupplier // yes for suppliers
	roles

	// Roles found in exports of known programs only.
	roleFilter // tells customers from others
	roleNone   // nothing is made of it
)

// headings are the headings of columns, in plain words, likeliest first, in English, German, French, Italian,
// Dutch and Spanish.
var headings = [roles][]string{
	roleID: {
		"customer number", "customer no", "customer id", "customer code", "customer ref", "account number", "account no",
		"account reference", "account ref", "account code", "client number", "client id", "client no", "contact id",
		"member number", "external id", "externe id",
		"kundennummer", "kunden nummer", "kundennr", "kunden nr", "kdnr", "kd nr", "kunden id", "debitorennummer",
		"debitoren nr", "debitorennr", "debitorenkonto", "debitor nr", "debitor", "mitgliedsnummer", "mitgliedsnr",
		"mitglieds nr", "mandantennummer",
		"numero client", "numero de client", "no client", "n client", "code client", "reference client", "num client",
		"compte client",
		"codice cliente", "cod cliente", "numero cliente", "n cliente", "id cliente",
		"klantnummer", "klant nr", "klantnr", "klantcode", "debiteurnummer", "debiteurnr", "debiteur nr", "debiteurennummer",
		"relatienummer", "relatiecode",
		"numero de cliente", "no cliente", "codigo cliente", "codigo de cliente", "cod cliente",
		"reference", "konto", "code", "codice", "codigo", "id", "ref", "number", "nummer", "numero", "nr", "no", "matchcode",
	},
	roleCompany: {
		"company name", "company", "organisation name", "organization name", "organisation", "organization", "business name",
		"business", "trading name",
		"name adressattyp unternehmen", "firmenname", "firmenbezeichnung", "firma 1", "firma", "unternehmen",
		"raison sociale", "societe", "denomination", "entreprise", "ragione sociale", "denominazione", "azienda",
		"intestatario", "bedrijfsnaam", "bedrijf", "razon social", "empresa",
	},
	roleName: {
		"customer name", "client name", "customer full name", "display name", "display name as", "full name", "account name",
		"name", "name 1", "customer", "client",
		"kundenname", "kunde", "bezeichnung", "nom complet", "nom du client", "nom client", "nom", "cliente", "nome cliente",
		"nominativo", "nome e cognome", "klantnaam", "naam", "klant", "relatie",
		"nombre completo", "nombre y apellidos", "nombre cliente", "nombre del cliente", "nombre", "nome",
		"nachname vorname", "name vorname", "vorname nachname", "vorname name", "last name first name",
		"first name last name", "nom prenom", "nom et prenom", "cognome nome", "cognome e nome", "achternaam voornaam",
		"apellidos nombre", "contact name",
	},
	roleMoreName: {"name 2", "firma 2", "namenszusatz", "name zusatz", "nom 2", "naam 2", "zusatz"},
	roleFirst: {"first name", "given name", "vorname adressattyp naturl person", "vorname", "prenom", "nome",
		"voornaam", "nombre de pila", "nombre", "forename", "first"},
	roleLast: {"last name", "surname", "family name", "name adressattyp naturl person", "nachname", "familienname",
		"zuname", "nom de famille", "cognome", "achternaam", "apellidos", "apellido", "name", "nom", "last"},
	roleContact: {
		"main contact name", "primary contact", "contact person", "contact name", "contact", "attention", "attn",
		"ansprechpartner", "kontaktperson", "kontakt", "interlocuteur", "personne de contact",
		"referente", "persona di riferimento", "contactpersoon", "contact persoon", "persona de contacto", "contacto",
	},
	roleEmail: {
		"email address", "email", "e mail", "main email", "mail", "e mail adresse", "email adresse", "mailadresse",
		"courriel", "adresse email", "adresse mail", "adresse e mail", "indirizzo email", "posta elettronica",
		"e mailadres", "emailadres", "correo electronico", "correo",
	},
	rolePhone: {
		"phone number", "phone", "telephone", "tel", "main contact phone", "telefon", "telefonnummer", "telefon 1",
		"rufnummer", "no de telephone", "numero de telephone", "telefono", "numero di telefono", "telefoon", "telefoonnummer",
		"telefono fijo",
	},
	roleMobile: {"mobile number", "mobile", "mobile phone", "cell", "cell phone", "mobil", "mobiltelefon",
		"mobilnummer", "handy", "portable", "gsm", "cellulare", "mobiel", "movil", "telefono movil"},
	roleStreet: {"address line 1", "address 1", "street address", "street", "address line", "address",
		"billing address", "rechnungsadresse", "rechnungsanschrift", "strasse und hausnummer", "strasse hausnummer",
		"strasse nr", "strasse", "anschrift", "rue", "voie", "adresse 1", "adresse", "via", "indirizzo", "straat",
		"straatnaam", "adres", "calle", "direccion", "domicilio", "po address line 1", "main address line 1",
		"billing address line 1", "addr 1 line 1", "addr line 1"},
	roleHouse: {"house number", "house no", "hausnummer", "hausnr", "haus nr", "huisnummer", "numero civico",
		"civico", "numero de rue", "numero de calle"},
	roleMoreStreet: {"address line 2", "address 2", "street 2", "adresszusatz", "adresszusatz 1", "adress zusatz",
		"adresse 2", "complement d adresse", "complement adresse", "complement", "indirizzo 2", "adres 2", "toevoeging",
		"direccion 2", "address line 3", "address 3", "street 3", "address line 4", "address 4", "adresszusatz 2",
		"adresse 3", "po address line 2", "po address line 3", "po address line 4"},
	rolePlace: {"plz ort", "plz und ort", "plz stadt", "plz wohnort", "postcode town", "postcode and town",
		"cp ville", "code postal ville", "code postal et ville", "cap citta", "cap localita", "postcode plaats",
		"postcode en plaats", "cp poblacion", "cp localidad"},
	roleTown: {"city", "town", "post town", "ort", "wohnort", "stadt", "ville", "commune", "localite", "citta",
		"comune", "localita", "plaats", "woonplaats", "stad", "ciudad", "poblacion", "localidad", "municipio"},
	rolePostcode: {"postcode", "post code", "postal code", "zip code", "zip", "plz", "postleitzahl", "code postal", "cp",
		"cap", "codice postale", "codigo postal", "billing code", "billing zip"},
	roleCountry: {"country", "country code", "land", "landercode", "landerkennzeichen", "landeskennzeichen", "lkz",
		"staat", "pays", "code pays", "paese", "nazione", "landcode", "pais"},
	roleLanguage: {"language", "sprache", "sprach id", "langue", "lingua", "taal", "idioma"},
	roleStatus: {"status", "customer status", "account status", "active", "is active", "inactive", "archived",
		"blocked", "on hold", "enabled", "disabled", "deleted", "suspended", "stopped", "closed", "do not use",
		"discontinued", "obsolete", "deaktiviert", "geloscht", "supprime", "eliminato", "verwijderd", "eliminado", "aktiv",
		"inaktiv", "gesperrt", "aktiver kunde", "kundenstatus", "zustand", "statut", "actif", "inactif", "etat", "bloque",
		"stato", "attivo", "inattivo", "bloccato", "actief", "inactief", "geblokkeerd", "estado", "activo", "inactivo",
		"bloqueado"},
	roleKind: {"customer type", "contact type", "type", "category", "group", "kategorie", "kundengruppe", "typ",
		"art", "gruppe", "kontaktart", "categorie", "type de contact", "categoria", "tipo", "soort", "relatietype", "grupo"},
	roleLeft: {"left on", "end date", "ended", "leaving date", "closed on", "inactive since", "austritt",
		"austrittsdatum", "austritt am", "gekundigt am", "gekundigt zum", "kundigung", "ende", "date de sortie",
		"date de fin", "data cessazione", "data fine", "einddatum", "uitschrijfdatum", "fecha de baja", "baja"},
	rolePayment: {
		"payment method", "payment type", "preferred payment method", "pay by", "direct debit", "sepa", "sepa mandate",
		"zahlungsart", "zahlungsweise", "zahlweise", "zahlart", "zahlungsmethode", "zahlungsform", "lastschrift",
		"sepa lastschrift", "bankeinzug", "einzug", "einzugsermachtigung",
		"mode de paiement", "mode de reglement", "moyen de paiement", "prelevement", "prelevement sepa",
		"modalita di pagamento", "metodo di pagamento", "tipo pagamento", "pagamento", "addebito diretto",
		"betaalwijze", "betaalmethode", "betalingswijze", "incasso", "automatische incasso", "forma de pago",
		"metodo de pago", "domiciliacion", "domiciliacion bancaria",
	},
	roleCustomer: {"is customer", "is a customer", "is client", "ist kunde", "est client", "e cliente", "es cliente",
		"is klant", "customer flag", "customer"},
	roleSupplier: {"is supplier", "is a supplier", "is vendor", "supplier", "vendor", "ist lieferant", "lieferant",
		"kreditor", "est fournisseur", "fournisseur", "fornitore", "leverancier", "proveedor"},
}

// Words in the headings of other addresses, and in those of the address for invoices.
var (
	others = []string{"shipping", "delivery", "liefer", "lieferung", "lieferadresse", "lieferanschrift", "livraison",
		"consegna", "spedizione", "levering", "bezorg", "verzend", "envio", "entrega", "sa", "second", "zweite", "cc", "bcc",
		"partner", "parent", "privat", "alternative", "abweichend", "pec"}
	invoices = []string{"billing", "invoice", "rechnung", "rechnungs", "buchhaltung", "accounts", "facturation", "facture",
		"fatturazione", "factuur", "facturacion", "main", "po", "rechnungsadresse", "rechnungsanschrift"}
)

// alone are words with a meaning only as the whole heading: a customer type is no customer.
var alone = []string{
	"name", "customer", "client", "kunde", "cliente", "klant", "relatie", "contact", "kontakt", "business", "mail",
	"reference", "konto", "code", "codice", "codigo",
	"id", "ref", "number", "nummer", "numero", "nr", "no", "matchcode", "address", "adresse", "adres", "rue", "via",
	"voie", "calle", "land", "staat", "cp", "cap", "zip", "portable",
	"active", "aktiv", "zusatz", "complement", "einzug", "civico", "nom", "nome", "nombre", "naam", "company",
	"organisation", "organization", "contacto", "attention", "ort", "code pays", "first", "last",
}

// aside are headings of columns without use for a customer.
var aside = []struct {
	why   string
	words []string
}{
	{"bank details stay in your accounting system",
		[]string{"bank", "iban", "bic", "swift", "blz", "bankleitzahl", "bankverbindung", "bankname", "sort code",
			"kontoinhaber", "konto nr", "bankkonto", "rib", "bankrekening", "rekeningnummer", "cuenta bancaria",
			"account holder", "kontonummer", "kontonr", "kto nr", "ktonr", "iban nr", "bankbezeichnung", "titulaire du compte",
			"titolare del conto", "conto corrente", "intestatario conto", "rekeninghouder", "rekening nr",
			"titular de la cuenta", "numero de cuenta"}},
	{"it is a fax number", []string{"fax", "telefax", "faxnummer"}},
	{"tax numbers are not sent",
		[]string{"vat", "tax", "ust", "ustid", "ust id", "ust idnr", "u st id nr", "u st", "umsatzsteuer", "steuernummer",
			"steuer nr", "tva", "siret", "siren", "partita iva", "p iva", "codice fiscale", "btw", "kvk", "nif", "cif", "iva",
			"abn", "vat number"}},
	{"it is a web site", []string{"website", "web site", "web", "url", "www", "homepage", "site web", "sito web",
		"internet", "webseite", "pagina web"}},
}

// documents are beginnings of words for a document: an invoice, an order, an offer, a receipt, a contract, a
// mandate.
var documents = []string{
	"invoice", "order", "receipt", "contract", "mandate", "quote", "quotation", "transaction", "voucher", "subscription",
	"payment", "document", "ticket", "purchase", "delivery", "shipment",
	"rechnung", "auftrag", "bestel", "beleg", "vertrag", "mandat", "angebot", "quittung", "lieferschein", "gutschrift",
	"buchung", "vorgang", "bon", "transaktion", "zahlung", "dokument",
	"facture", "commande", "recu", "contrat", "devis", "avoir", "piece", "bordereau", "abonnement", "livraison",
	"fattura", "ordine", "ricevuta", "contratto", "preventivo", "documento", "bolla", "transazione",
	"factuur", "machtiging", "offerte", "pakbon", "boeking", "kwitantie",
	"factura", "pedido", "recibo", "contrato", "presupuesto", "albaran", "transaccion",
}

// changedWords are headings of a row's time of last edit, likeliest first.
var changedWords = []string{
	"updated at", "modified at", "changed at", "last modified at", "last modified", "last updated", "last update",
	"last change", "last changed", "modified", "updated", "changed", "write date", "modification date", "date modified",
	"date updated", "updated on", "modified on", "changed on", "tms", "mtime", "update time", "updated time",
	"geandert am", "geaendert am", "geandert", "geaendert", "anderungsdatum", "aenderungsdatum", "letzte anderung",
	"modifie le", "date modification", "date de modification", "modificato il", "data modifica", "gewijzigd op",
	"gewijzigd", "modificado", "fecha modificacion",
}

// Words in the names of tables: first those with customers, likeliest first, then those with details of
// customers.
var (
	customerTables = []string{
		"customers", "customer", "clients", "client", "kunden", "kunde", "kundenstamm", "debitoren", "debitor", "debtors",
		"debtor", "clienti", "cliente", "clientes", "klanten", "klant", "debiteuren", "debiteur",
		"societe", "societes", "mitglieder", "members", "member", "payers", "payer", "partners", "partner", "relaties",
		"contacts", "contact", "kontakte", "accounts", "companies", "company", "adressen", "addresses", "persons", "people",
	}
	besideTables = []string{
		"log", "logs", "history", "historie", "archive", "archiv", "old", "alt", "backup", "bak", "tmp", "temp", "test",
		"copy", "kopie", "audit", "session", "sessions", "group", "groups", "gruppe", "gruppen", "type", "types", "category",
		"categories", "tag", "tags", "rel", "map",
		"note", "notes", "item", "items", "line", "lines", "position", "positionen", "price", "prices", "stats", "user",
		"users", "employee", "employees", "supplier", "suppliers", "vendor", "vendors", "lieferant", "lieferanten",
		"fournisseurs", "bank", "banks", "import", "export", "staging", "lead", "leads",
	}
)

// ofDocument reports whether a heading is about a document, and not about its customer.
func (c *column) ofDocument() bool {
	return c.score(roleID) == 0 && slices.ContainsFunc(strings.Fields(c.words), func(w string) bool {
		return slices.ContainsFunc(documents, func(d string) bool { return strings.HasPrefix(w, d) })
	})
}

// plainWords returns a heading as small words without marks: "Kd.-Nr." is "kd nr", and
// "POAddressLine1" is "po address line 1".
func plainWords(heading string) string {
	var out strings.Builder
	letters := []rune(norm.NFKD.String(strings.NewReplacer("ß", "ss", "Adressatentyp", "Adressattyp").Replace(heading)))
	letters = slices.DeleteFunc(letters, func(r rune) bool { return unicode.Is(unicode.Mn, r) })
	for i, r := range letters {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			out.WriteByte(' ')
			continue
		case i > 0 && begins(letters, i):
			out.WriteByte(' ')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// Bank reports whether a heading stands for bank details.
func Bank(heading string) bool { return hasPhrase(plainWords(heading), aside[0].words) }

// begins reports whether a word begins within joined letters.
func begins(letters []rune, i int) bool {
	before, r := letters[i-1], letters[i]
	switch {
	case unicode.IsDigit(r):
		return unicode.IsLetter(before)
	case !unicode.IsUpper(r):
		return false
	case unicode.IsLower(before):
		return true
	}
	return unicode.IsUpper(before) && i+1 < len(letters) && unicode.IsLower(letters[i+1])
}

// negations reverse the words behind them: "Niet actief".
var negations = []string{"not", "no", "non", "nicht", "kein", "keine", "keinen", "niet", "geen", "pas", "sin", "senza",
	"sans", "without", "ohne", "inte", "ikke"}

// affirmed is the heading without its negations, and whether there was one.
func (c *column) affirmed() (words string, negated bool) {
	var kept []string
	for _, w := range strings.Fields(c.words) {
		if slices.Contains(negations, w) {
			negated = !negated
			continue
		}
		kept = append(kept, w)
	}
	return strings.Join(kept, " "), negated
}

// aroundStatus are words without influence on the meaning of a status.
var aroundStatus = []string{"is", "ist", "est", "e", "es", "still", "noch", "longer", "mehr", "meer", "customer",
	"client", "kunde", "cliente", "klant", "account", "konto", "compte", "conto", "cuenta", "contact", "kontakt"}

// ofStatus reports whether a heading is a word for a status, negated or not, and nothing more.
func (c *column) ofStatus() bool {
	words, _ := c.affirmed()
	kept := slices.DeleteFunc(strings.Fields(words), func(w string) bool { return slices.Contains(aroundStatus, w) })
	return slices.Contains(headings[roleStatus], words) || slices.Contains(headings[roleStatus], strings.Join(kept, " "))
}

// score is how much the heading speaks for a role; 0 is not at all.
func (c *column) score(r role) int {
	if c.meant != nil {
		if c.meant.role == r {
			return 2000 - c.rank
		}
		return 0
	}
	best := 0
	core := c.core()
	for i, phrase := range headings[r] {
		like := 0
		switch {
		case c.words == phrase, squeezed(c.words) == squeezed(phrase):
			like = 1000
		case r != roleID && core != c.words && core == phrase:
			like = 850
		case slices.Contains(alone, phrase):
		case strings.HasPrefix(c.words, phrase+" "), strings.HasSuffix(c.words, " "+phrase):
			like = 500 + 40*strings.Count(phrase, " ")
		case strings.Contains(" "+c.words+" ", " "+phrase+" "):
			like = 400 + 40*strings.Count(phrase, " ")
		}
		if like > 0 {
			best = max(best, like-i)
		}
	}
	if r == roleStatus && best == 0 && c.ofStatus() {
		best = 800
	}
	if best == 0 {
		return 0
	}
	switch {
	case c.secondary() && r != roleMoreName && r != roleMoreStreet:
		best -= 350
	case slices.ContainsFunc(strings.Fields(c.words), func(w string) bool { return slices.Contains(invoices, w) }):
		best += 100
	}
	return max(best, 1)
}

// core is the heading without the leading words that tell several of its kind apart.
func (c *column) core() string {
	words := strings.Fields(c.words)
	for len(words) > 1 && (slices.Contains(others, words[0]) || slices.Contains(invoices, words[0])) {
		words = words[1:]
	}
	return strings.Join(words, " ")
}

// secondary reports whether the heading implies a primary column elsewhere.
func (c *column) secondary() bool {
	return c.meant == nil && slices.ContainsFunc(strings.Fields(c.words), func(w string) bool {
		return slices.Contains(others, w) || len(w) == 1 && w >= "2" && w <= "9"
	})
}

func squeezed(words string) string { return strings.ReplaceAll(words, " ", "") }

// has reports whether the heading holds one of the phrases.
func (c *column) has(phrases []string) bool { return hasPhrase(c.words, phrases) }

// hasPhrase reports whether plain words hold one of the phrases, as whole words.
func hasPhrase(words string, phrases []string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(" "+words+" ", " "+p+" ") })
}
