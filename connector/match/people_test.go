package match

import (
	"fmt"
	"strings"
)

var (
	givenNames = strings.Fields(`Anna Anne Hanna Hannah Maria Marie Peter Petra Jan Jana Jens Jörg Jürgen Hans Hannes Michael Michaela Martin Martina
		Thomas Stefan Stephan Daniel Daniela Lars Lasse Ola Ole Kari Karin Ingrid Astrid Bjørn Åse Øystein Søren Erik Erika Emil Emilie John Joan Jack James
		Robert William Sarah Sara Emma Ella Oliver Olivia Pieter Femke Sanne Daan Luc Lucie Jean Jeanne François Chloé Zoë Ömer Ayşe Łukasz Agnieszka`)
	lastNames = strings.Fields(`Müller Möller Meyer Meier Maier Schmidt Schmitt Schulz Schulze Weiß Groß Strauß Bauer Baur Köhler Koch König Jäger Krüger
		Vogel Vogt Hansen Hanssen Olsen Ohlsen Johansen Johannsen Ødegård Bråten Bjørnstad Sæther Lindström Lindqvist Åkesson Öberg Söderberg Jensen Jenssen
		Smith Smyth Brown Browne Taylor Clark Clarke Reid Reed Wright Janssen Jansen Visser Bakker Lefèvre Dubois Durand Yılmaz Kowalski Nowak Horváth`)
	firmWords = strings.Fields(`Nordwind Südstern Alster Elster Hafen Wald Berg Tal Sonnen Licht Blau Grün Fjord Fjell Vest Øst Havn Bygg Kyst Saltmarsh Quayside
		Harbour Mill Oak Ash Crown Bridge Riverside Hilltop Polder Duin Zee Molen Lumière Soleil Rivage Delta Omega Alpha Vega Orion Atlas Zenit Kompass Anker`)
	trades = strings.Fields(`Logistik Bau Tiefbau Hochbau Elektro Sanitär Dach Garten Handel Druck Verlag Software Beratung Immobilien Transport Bäckerei
		Metzgerei Bygg Rør Elektriker Regnskap Eiendom Fisk Bakery Plumbing Roofing Motors Joinery Dental Lettings Bakkerij Schilders Boulangerie Conseil`)
	tradeForms = map[string][]string{
		"DE": {"GmbH", "AG", "KG", "GmbH & Co. KG", "e.K.", "UG (haftungsbeschränkt)", "OHG"},
		"NO": {"AS", "ASA", "ENK", "ANS"}, "SE": {"AB", "HB"},
		"GB": {"Ltd", "Limited", "LLP", "PLC"}, "NL": {"B.V.", "V.O.F.", "N.V."}, "FR": {"SARL", "SAS", "SA"},
	}
	streets = strings.Fields(`Hauptstraße Bahnhofstraße Lindenstraße Lindenallee Gartenweg Schulstraße Storgata Kirkeveien Havnegata Kungsgatan Marktplatz
		Kerkstraat Dorpsstraat Station_Road Church_Road Mill_Lane High_Street Rue_de_la_Gare Avenue_Foch`)
	places = []place{
		{"10115", "Berlin", "DE"}, {"20095", "Hamburg", "DE"}, {"20097", "Hamburg", "DE"}, {"01067", "Dresden", "DE"},
		{"80331", "München", "DE"},
		{"50667", "Köln", "DE"}, {"28195", "Bremen", "DE"}, {"0150", "Oslo", "NO"}, {"5003", "Bergen", "NO"},
		{"9008", "Tromsø", "NO"},
		{"111 29", "Stockholm", "SE"}, {"411 05", "Göteborg", "SE"}, {"YO21 3CK", "Whitby", "GB"}, {"LS1 4AP", "Leeds", "GB"},
		{"SW1A 1AA", "London", "GB"},
		{"1012 AB", "Amsterdam", "NL"}, {"3011 AD", "Rotterdam", "NL"}, {"75001", "Paris", "FR"}, {"69001", "Lyon", "FR"},
	}
	mailHosts = strings.Fields("gmail.com gmx.de web.de online.no outlook.com t-online.de hotmail.co.uk orange.fr")
	mailRoles = strings.Fields("info kontakt office post mail buchhaltung accounts")
)

func (m *maker) next() int { m.count++; return m.count }

// person and company make somebody new, with everything known.
func (m *maker) person() entity {
	e := entity{no: m.next(), person: true, given: pick(m, givenNames), last: pick(m, lastNames)}
	m.settle(&e)
	e.email = m.privateMail(e.given, e.last)
	return e
}

func (m *maker) company() entity {
	e := entity{no: m.next(), firm: pick(m, firmWords) + " " + pick(m, trades)}
	switch m.rnd.IntN(6) {
	case 0:
		e.firm = pick(m, lastNames) + " " + pick(m, trades)
	case 1:
		e.firm = pick(m, lastNames) + " & " + pick(m, lastNames)
	case 2:
		e.firm = pick(m, firmWords) + strings.ToLower(pick(m, firmWords)) + " " + pick(m, trades)
	}
	m.settle(&e)
	e.form = pick(m, tradeForms[e.place.country])
	e.email = pick(m, mailRoles) + "@" + m.newDomain(e.firm)
	e.number = m.newNumber(e.place.country)
	return e
}

func (m *maker) somebody() entity {
	if m.chance(45) {
		return m.person()
	}
	return m.company()
}

func (m *maker) settle(e *entity) {
	e.place = pick(m, places)
	e.street = m.newStreet()
	e.phone = m.newPhone()
}

// newStreet, newPhone, newDomain and newNumber make what nobody else has.
func (m *maker) newStreet() string {
	return fmt.Sprintf("%s %d", strings.ReplaceAll(pick(m, streets), "_", " "), 1+m.rnd.IntN(180))
}

func (m *maker) newPhone() string {
	return fmt.Sprintf("%d%07d", 30+m.rnd.IntN(60), m.rnd.IntN(10_000_000))[:8]
}

func (m *maker) newDomain(firm string) string {
	m.domain++
	return fmt.Sprintf("%s%d.example", mailWord(strings.Fields(firm)[0]), m.domain)
}

func (m *maker) newNumber(country string) string {
	return fmt.Sprintf("%s%09d", country, 100_000_000+m.rnd.IntN(900_000_000))
}

func (m *maker) privateMail(given, last string) string {
	m.domain++
	host := pick(m, mailHosts)
	switch m.rnd.IntN(4) {
	case 0:
		return fmt.Sprintf("%s.%s%d@%s", mailWord(given), mailWord(last), m.domain, host)
	case 1:
		return fmt.Sprintf("%s%s%d@%s", mailWord(given)[:1], mailWord(last), m.domain, host)
	case 2:
		return fmt.Sprintf("%s%d@%s", mailWord(last), m.domain, host)
	}
	return fmt.Sprintf("%s%d@%s", mailWord(given), m.domain, host)
}

// mailWord writes a word as mail addresses have it.
func mailWord(s string) string {
	s = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ß", "ss", "ø", "o", "å", "a", "æ", "ae", "Ø", "o", "Å", "a",
		"Ö", "o", "Ü", "u",
		"é", "e", "è", "e", "ç", "c", "ë", "e", "ş", "s", "Ł", "l", "ł", "l", "ı", "i", "á", "a", "&", "und").Replace(s)
	return strings.ToLower(s)
}
