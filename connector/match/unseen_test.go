package match

import (
	"strings"
)

// unseen are families that were written after heldOut had been looked at, and run
// when everything else was done.
var unseen = []family{
	{"as it is", 20, func(m *maker) { m.pair(m.somebody(), nil) }},
	{"place in brackets", 6, func(m *maker) {
		m.pair(m.company(), func(e *entity) { e.form += " (" + e.place.city + ")" })
	}},
	{"saint", 5, func(m *maker) {
		e := m.company()
		e.firm = "Sankt " + pick(m, lastNames) + " " + pick(m, trades)
		m.pair(e, func(e *entity) { e.firm = strings.Replace(e.firm, "Sankt", "St.", 1) })
	}},
	{"other letters", 5, func(m *maker) {
		e := m.person()
		e.given, e.last = pick(m, []string{"Иван", "Ольга", "Γιώργος"}),
			pick(m, []string{"Петров", "Иванова", "Παπαδόπουλος"})
		e.email = "mail" + m.privateMail("i", "p")
		m.pair(e, nil)
	}},
	{"apostrophe", 5, func(m *maker) {
		e := m.person()
		e.last = "O'" + e.last
		m.pair(e, func(e *entity) { e.last = strings.Replace(e.last, "'", pick(m, []string{"’", "", " "}), 1) })
	}},
	{"care of", 5, func(m *maker) {
		m.pair(m.somebody(), func(e *entity) { e.street = "c/o " + pick(m, lastNames) + ", " + e.street })
	}},
	{"flat added to the street", 6, func(m *maker) {
		m.pair(m.person(), func(e *entity) { e.street = pick(m, []string{"Flat 2, ", "Unit 7, ", "2. OG, "}) + e.street })
	}},
	{"around the corner", 6, func(m *maker) { m.pair(m.somebody(), func(e *entity) { e.street = m.newStreet() }) }},
	{"department added", 5, func(m *maker) {
		m.pair(m.company(), func(e *entity) {
			e.form += ", " +
				pick(m, []string{"Buchhaltung", "Accounts Payable", "Filiale"})
		})
	}},
	{"in capitals without marks", 6, func(m *maker) {
		m.pair(m.somebody(), func(e *entity) { m.fold(e); e.firm, e.last = strings.ToUpper(e.firm), strings.ToUpper(e.last) })
	}},

	{"nobody's like", 20, func(m *maker) { m.apart(m.somebody(), m.somebody()) }},
	{"schools of one town", 6, func(m *maker) {
		a := m.company()
		a.form, a.number = "", ""
		b := a
		b.no = m.next()
		kind := pick(m, []string{"Grundschule", "Kindergarten", "Primary School"})
		a.firm, b.firm = kind+" "+pick(m, []string{"Nord", "West", "Mitte"}),
			kind+" "+pick(m, []string{"Süd", "Ost", "Hafen"})
		m.either(a, b)
	}},
	{"doctors of one practice", 6, func(m *maker) {
		a := m.person()
		b := a
		b.no, b.given, b.last = m.next(), pick(m, givenNames), pick(m, lastNames)
		a.given, b.given = "Praxis Dr. "+a.given, "Praxis Dr. "+b.given
		if a.name() != b.name() {
			m.either(a, b)
		}
	}},
	{"flatmates", 6, func(m *maker) {
		a, b := m.person(), m.person()
		b.place, b.street, b.phone = a.place, a.street, a.phone
		if a.name() != b.name() {
			m.either(a, b)
		}
	}},
	{"flats of one landlord", 6, func(m *maker) {
		a := m.person()
		b := a
		b.no = m.next()
		a.last, b.last = a.last+" Wohnung 1", b.last+" Wohnung "+pick(m, []string{"2", "3", "11"})
		m.either(a, b)
	}},
	{"kiosks of one mall", 6, func(m *maker) { // another door, and often another phone
		a := m.company()
		b := a
		b.no, b.street = m.next(), m.newStreet()
		if m.chance(50) {
			b.phone = m.newPhone()
		}
		m.either(a, b)
	}},
	{"offices of one city", 6, func(m *maker) {
		a := m.company()
		a.firm, a.form, a.number = "Stadt "+a.place.city, "", ""
		b := a
		b.no, b.street, b.phone = m.next(), m.newStreet(), m.newPhone()
		if m.chance(70) {
			b.email = pick(m, []string{"schulamt", "bauamt", "kultur"}) + a.email[strings.IndexByte(a.email, '@'):]
		}
		m.either(a, b)
	}},
	{"winding up", 5, func(m *maker) {
		a := m.company()
		b := a
		b.no, b.number = m.next(), m.newNumber(b.place.country)
		b.firm += pick(m, []string{" 2026", " neu", " Nachfolger"})
		m.either(a, b)
	}},
	{"mother and daughter", 6, func(m *maker) { // one given name and one e-mail address, and a second name for one
		a := m.person()
		b := a
		b.no = m.next()
		b.given += " " + pick(m, givenNames)
		m.either(a, b)
	}},
	{"family name only", 5, func(m *maker) {
		a := m.person()
		b := a
		b.no, b.phone, b.street = m.next(), m.newPhone(), m.newStreet()
		a.given, b.given = "Familie", "Familie"
		b.email = m.privateMail("familie", b.last)
		m.either(a, b)
	}},
}
