package match

import (
	"fmt"
	"strings"
)

// families are the design cases of the scorer: first different-looking pairs of one payer, then similar pairs
// of two payers.
var families = []family{
	{"as it is", 24, func(m *maker) { m.pair(m.somebody(), nil) }},
	{"typo", 12, func(m *maker) { m.pair(m.somebody(), m.typo) }},
	{"two typos", 4, func(m *maker) { m.pair(m.somebody(), func(e *entity) { m.typo(e); m.typo(e) }) }},
	{"legal form spelt otherwise", 8, func(m *maker) { m.pair(m.company(), m.respell) }},
	{"legal form left out", 8, func(m *maker) { m.pair(m.company(), func(e *entity) { e.form = "" }) }},
	{"names swapped", 8, func(m *maker) { m.pair(m.person(), m.swap) }},
	{"letters folded", 8, func(m *maker) { m.pair(m.somebody(), m.fold) }},
	{"and", 6, func(m *maker) {
		e := m.company()
		e.firm = pick(m, lastNames) + " & " + pick(m, lastNames)
		m.pair(e, func(e *entity) {
			e.firm = strings.ReplaceAll(e.firm, "&", pick(m, []string{"and", "und", "og", "och", "en", "et", "+"}))
		})
	}},
	{"initial", 5, func(m *maker) { m.pair(m.person(), func(e *entity) { e.given = initial(e.given) }) }},
	{"moved", 10, func(m *maker) {
		m.pair(m.somebody(), func(e *entity) { e.place, e.street = pick(m, places), m.newStreet() })
	}},
	{"changed e-mail", 10, func(m *maker) { m.pair(m.somebody(), m.newMail) }},
	{"changed phone", 6, func(m *maker) { m.pair(m.somebody(), func(e *entity) { e.phone = m.newPhone() }) }},
	{"name and e-mail only", 10, func(m *maker) {
		e := m.somebody()
		m.record(e)
		e.phone, e.street, e.place, e.number = "", "", place{}, ""
		m.customer(e)
	}},
	{"name and postcode only", 5, func(m *maker) {
		e := m.somebody()
		m.record(e)
		e.phone, e.street, e.email, e.number = "", "", "", ""
		m.customer(e)
	}},
	{"several at once", 8, func(m *maker) {
		m.pair(m.somebody(), func(e *entity) {
			for range 2 {
				pick(m, []func(*entity){m.typo, m.respell, m.fold, m.newMail, m.newAddress})(e)
			}
		})
	}},
	{"nobody's like", 20, func(m *maker) { m.apart(m.somebody(), m.somebody()) }},
	{"entered twice", 4, func(m *maker) { e := m.somebody(); m.record(e); m.pair(e, nil) }},
	{"two customers of one", 4, func(m *maker) { e := m.somebody(); m.customer(m.poorer(e)); m.pair(e, m.typo) }},

	{"accountant's e-mail", 6, accountant},
	{"property manager", 4, manager},
	{"twins", 8, twins},
	{"father and son", 8, fatherAndSon},
	{"couple", 8, couple},
	{"branches", 8, branches},
	{"group of companies", 8, group},
	{"owner and company", 6, ownerAndCompany},
	{"namesakes", 12, namesakes},
	{"one initial for two", 5, oneInitial},
}

// An accountant's e-mail address stands with clients that have nothing to do with
// each other; some of them share the accountant's phone as well.
func accountant(m *maker) {
	office := m.company()
	phone := m.chance(30)
	var clients []entity
	for range 2 + m.rnd.IntN(5) {
		c := m.somebody()
		c.email = office.email
		if phone {
			c.phone = office.phone
		}
		clients = append(clients, c)
	}
	m.apart(clients[0], clients[1])
	m.anywhere(clients[2:]...)
}

// A property manager's houses share e-mail, phone and postal address, and differ in
// a word or a number.
func manager(m *maker) {
	office := m.company()
	street := strings.ReplaceAll(pick(m, streets), "_", " ")
	no := 2 + m.rnd.IntN(60)
	var houses []entity
	for i := range 2 + m.rnd.IntN(4) {
		h := office
		h.no, h.number, h.form = m.next(), "", ""
		h.firm = fmt.Sprintf("WEG %s %d", street, no+2*i)
		if m.chance(20) {
			h.firm = fmt.Sprintf("WEG %s %d", strings.ReplaceAll(pick(m, streets), "_", " "), no)
		}
		houses = append(houses, h)
	}
	m.either(houses[0], houses[1])
	m.anywhere(houses[2:]...)
}

// Twins share everything but the given name, which is nearly the same.
func twins(m *maker) {
	alike := pick(m, [][2]string{{"Anna", "Anne"}, {"Hanna", "Hannah"}, {"Jan", "Jens"}, {"Jan", "Jana"},
		{"Erik", "Erika"}, {"Martin", "Martina"},
		{"Daniel", "Daniela"}, {"Emil", "Emilie"}, {"Ola", "Ole"}, {"Kari", "Karin"}, {"Lasse", "Lars"}, {"Marie", "Maria"},
		{"Joan", "John"}, {"Sanne", "Susanne"}})
	a := m.person()
	a.given = alike[0]
	b := a
	b.no, b.given = m.next(), alike[1]
	if m.chance(50) {
		b.email = m.privateMail(b.given, b.last)
	}
	if m.chance(30) {
		b.phone = m.newPhone()
	}
	m.either(a, b)
}

// Father and son have one name and one address. Mostly a word tells them apart, or
// their e-mail addresses; once in two hundred times nothing does.
func fatherAndSon(m *maker) {
	father := m.person()
	son := father
	son.no = m.next()
	switch m.rnd.IntN(20) {
	default:
		son.email = m.privateMail(son.given, son.last)
	case 0, 1, 2:
		son.last += pick(m, []string{" jun.", " Jr", " junior", " d.J."})
	case 3, 4:
		father.last, son.last = father.last+" sen.", son.last+" jun."
	case 5, 6:
		father.last += pick(m, []string{" sen.", " Sr", " senior", " d.Ä."})
	case 7, 8:
		son.phone = m.newPhone()
	}
	if m.chance(40) {
		son.phone = m.newPhone()
	}
	if m.rnd.IntN(200) == 0 {
		no := son.no
		son = father
		son.no = no
	}
	m.either(father, son)
}

// A couple shares nearly everything but the given name.
func couple(m *maker) {
	a := m.person()
	b := a
	b.no = m.next()
	b.given = pick(m, givenNames)
	if b.given == a.given {
		b.given += "-Lou"
	}
	if m.chance(40) {
		b.email = m.privateMail(b.given, b.last)
	}
	if m.chance(20) { // and one of them is written with an initial that may fit both
		b.given = a.given[:1] + "ob"
		m.record(entity{no: a.no, person: true, given: initial(a.given), last: a.last, email: a.email, phone: a.phone,
			street: a.street, place: a.place})
		m.customer(b)
		return
	}
	m.either(a, b)
}

// Branches have one name, one company number and often one e-mail address; where
// they are tells them apart.
func branches(m *maker) {
	head := m.company()
	branch := head
	branch.no = m.next()
	for branch.place == head.place {
		branch.place = pick(m, places)
	}
	branch.street = m.newStreet()
	if m.chance(70) {
		branch.phone = m.newPhone()
	}
	if m.chance(30) {
		branch.email = mailWord(branch.place.city) + head.email[strings.IndexByte(head.email, '@'):]
	}
	if m.chance(40) {
		branch.firm += " " + branch.place.city
	}
	m.either(head, branch)
}

// Companies of a group have one address and one phone, and differ in a word or in
// the legal form.
func group(m *maker) {
	parent := m.company()
	sister := parent
	sister.no, sister.number = m.next(), m.newNumber(parent.place.country)
	switch m.rnd.IntN(5) {
	case 0:
		for sister.form == parent.form || sister.form == "Limited" || sister.form == "Ltd" {
			sister.form = pick(m, []string{"AG", "KG", "ASA", "AB", "LLP", "SAS", "B.V."})
		}
	case 1:
		sister.firm += " " + pick(m,
			[]string{"Holding", "Verwaltungs", "International", "Services", "Beteiligungs", "Invest"})
	case 2:
		parent.firm, sister.firm = parent.firm+" 1", sister.firm+" 2"
	case 3:
		parent.firm, sister.firm = parent.firm+" I", sister.firm+" II"
	case 4:
		sister.firm = strings.Fields(parent.firm)[0] + " " + pick(m, trades) + "haus"
	}
	if m.chance(25) {
		sister.email = "info@" + m.newDomain(sister.firm)
	}
	if m.chance(30) {
		parent.number, sister.number = "", ""
	}
	m.either(parent, sister)
}

// A trader and his company have one name, but for the legal form.
func ownerAndCompany(m *maker) {
	owner := m.person()
	firm := owner
	firm.no, firm.person, firm.firm = m.next(), false, owner.name()
	firm.form = pick(m, tradeForms[owner.place.country])
	firm.number = m.newNumber(owner.place.country)
	if m.chance(30) {
		firm.email = "info@" + m.newDomain(owner.last)
	}
	m.either(owner, firm)
}

// Brother and sister are written with the same initial, or with their last name
// alone, and share the rest.
func oneInitial(m *maker) {
	a := m.person()
	b := a
	b.no = m.next()
	a.given = initial(a.given)
	if m.chance(30) {
		a.given = ""
	}
	b.given = a.given
	if m.chance(50) {
		b.email = m.privateMail("b", b.last)
	}
	m.either(a, b)
}

// Namesakes have one name and nothing to do with each other, but may live in one
// place.
func namesakes(m *maker) {
	a := m.somebody()
	b := a
	b.no, b.phone, b.street, b.number = m.next(), m.newPhone(), m.newStreet(), ""
	if m.chance(60) {
		b.place = pick(m, places)
	}
	if b.person {
		b.email = m.privateMail(b.given, b.last)
	} else {
		b.email = pick(m, mailRoles) + "@" + m.newDomain(b.firm)
		b.number = m.newNumber(b.place.country)
	}
	if m.chance(30) {
		a.email = ""
	}
	m.either(a, b)
}

// typo makes one slip of the fingers in the name.
func (m *maker) typo(e *entity) {
	at := &e.last
	if !e.person {
		at = &e.firm
	} else if m.chance(50) {
		at = &e.given
	}
	*at = m.slip(*at)
}

func (m *maker) slip(s string) string {
	letters := []rune(s)
	if len(letters) < 3 {
		return s
	}
	i := 1 + m.rnd.IntN(len(letters)-2)
	switch m.rnd.IntN(4) {
	case 0: // one left out
		return string(letters[:i]) + string(letters[i+1:])
	case 1: // one doubled
		return string(letters[:i]) + string(letters[i-1:])
	case 2: // two the wrong way round
		letters[i], letters[i+1] = letters[i+1], letters[i]
	default:
		letters[i] = rune('a' + m.rnd.IntN(26))
	}
	return string(letters)
}

var respelt = map[string][]string{
	"GmbH": {"G.m.b.H.", "Gesellschaft mit beschränkter Haftung", "GMBH"}, "AG": {"A.G.", "Aktiengesellschaft"},
	"KG":                      {"K.G.", "Kommanditgesellschaft"},
	"GmbH & Co. KG":           {"GmbH und Co KG", "GmbH & Co.KG", "GmbH+Co. KG"},
	"UG (haftungsbeschränkt)": {"UG", "UG haftungsbeschraenkt"},
	"e.K.":                    {"eK", "e. K."}, "OHG": {"oHG", "O.H.G."}, "AS": {"A/S", "A.S.", "Aksjeselskap"},
	"ASA": {"A.S.A."},
	"ENK": {"Enk.", "enkeltpersonforetak"}, "ANS": {"A.N.S."},
	"AB": {"A.B.", "Aktiebolag"}, "HB": {"H.B.", "Handelsbolag"}, "Ltd": {"Limited", "Ltd.", "LTD"},
	"Limited": {"Ltd", "Ltd.", "LIMITED"},
	"LLP":     {"L.L.P."}, "PLC": {"plc", "P.L.C.", "Public Limited Company"}, "B.V.": {"BV", "b.v."},
	"V.O.F.": {"VOF", "v.o.f."}, "N.V.": {"NV"},
	"SARL": {"S.A.R.L.", "Sàrl", "S.à r.l."}, "SAS": {"S.A.S."}, "SA": {"S.A."},
}

func (m *maker) respell(e *entity) {
	if !e.person && len(respelt[e.form]) > 0 {
		e.form = pick(m, respelt[e.form])
	}
}

func (m *maker) swap(e *entity) {
	if m.chance(50) {
		e.given, e.last = e.last+",", e.given
		return
	}
	e.given, e.last = e.last, e.given
}

func (m *maker) fold(e *entity) {
	fold := pick(m, []func(string) string{
		strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ß", "ss", "ø", "oe", "å", "aa", "æ", "ae", "Ø", "Oe", "Å", "Aa",
			"Ö", "Oe", "Ü", "Ue").Replace,
		strings.NewReplacer("ä", "a", "ö", "o", "ü", "u", "ß", "ss", "ø", "o", "å", "a", "æ", "ae", "Ø", "O", "Å", "A", "Ö",
			"O", "Ü", "U",
			"é", "e", "è", "e", "ç", "c", "ë", "e", "ş", "s", "Ł", "L", "ł", "l", "ı", "i", "á", "a").Replace,
		strings.NewReplacer("ä", "a\u0308", "ö", "o\u0308", "ü", "u\u0308", "å", "a\u030a", "é", "e\u0301").Replace,
	})
	e.given, e.last, e.firm = fold(e.given), fold(e.last), fold(e.firm)
}

func (m *maker) newMail(e *entity) {
	if e.person {
		e.email = m.privateMail(e.given, e.last)
		return
	}
	e.email = pick(m, mailRoles) + "@" + m.newDomain(e.firm)
}

func (m *maker) newAddress(e *entity) { e.place, e.street = pick(m, places), m.newStreet() }

func initial(name string) string { return string([]rune(name)[:1]) + "." }
