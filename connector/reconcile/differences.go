package reconcile

import (
	"maps"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/state"
)

// KeepRead keeps what a read showed of a payer's customer otherwise than was sent, once an update has made sent
// what counts as applied.
func KeepRead(tx *state.Tx, p state.Payer, sent connector.Customer, c connector.RemoteCustomer) error {
	p.ReadDigest = "" // it belongs to the values applied before
	return tx.SetRead(p, differences(&sent, c))
}

// compareHeld compares our values with the customer's: those applied last, those of another update with an unknown time
// of effect, or neither. A list may be incomplete.
func compareHeld(k *state.Known, applied bool) *state.SubjectValues {
	if k.List != nil && !applied {
		return nil
	}
	held, values := &state.SubjectValues{Applied: applied}, k.Applied
	if values == nil {
		return held
	}
	if !applied {
		if i := slices.IndexFunc(k.Sent, func(c connector.Customer) bool { return holds(&c, *k.Customer) }); i >= 0 {
			values, held.Instead = &k.Sent[i], true
		}
	}
	shown := values.WithIDs(k.Customer.People)
	held.Differs, held.Values = differences(values, *k.Customer), &shown
	return held
}

// differences returns the sent fields with other values on the customer: the path, the value sent, and the value read.
// A value in the service's own form is equal. It ignores names of contacts, because the service may split them.
func differences(sent *connector.Customer, c connector.RemoteCustomer) []connector.FieldChange {
	if sent == nil || isExact(sent, c) {
		return nil
	}
	return connector.Diff(*sent, asRead(*sent, c))
}

// isExact reports whether a customer holds the sent values, including the country of addresses. Nearly every read does,
// and then no comparison is built.
func isExact(sent *connector.Customer, c connector.RemoteCustomer) bool {
	for _, a := range sent.Addresses {
		if !slices.ContainsFunc(c.Addresses,
			func(b connector.Address) bool { return sameAddress(a, b) && sameCountry(a, b) }) {
			return false
		}
	}
	return holds(&connector.Customer{Name: sent.Name, ExternalData: sent.ExternalData}, c) &&
		!slices.ContainsFunc(sent.People, func(p connector.Person) bool {
			return !shows(c.Emails, p.Email, strings.EqualFold) || !shows(c.Phones, p.Phone, connector.SameForm)
		})
}

func sameCountry(a, b connector.Address) bool { return connector.SameForm(a.Country, b.Country) }

// asRead returns the sent customer with the values as read.
func asRead(sent connector.Customer, c connector.RemoteCustomer) connector.Customer {
	read := sent
	if sent.Name != "" {
		read.Name = formOf(sent.Name, c.Name)
	}
	if len(c.ExternalData) > 0 { // a list may leave them out
		read.ExternalData = maps.Clone(sent.ExternalData)
		for name := range read.ExternalData {
			read.ExternalData[name] = c.ExternalData[name]
		}
	}
	read.Addresses = addressesAsRead(sent.Addresses, c.Addresses)
	read.People = slices.Clone(sent.People)
	emails, phones := make([]string, len(read.People)), make([]string, len(read.People))
	for i, p := range read.People {
		emails[i], phones[i] = p.Email, p.Phone
	}
	emails, phones = valuesAsRead(emails, c.Emails, strings.EqualFold), valuesAsRead(phones, c.Phones, connector.SameForm)
	for i := range read.People {
		read.People[i].Email, read.People[i].Phone = emails[i], phones[i]
	}
	return read
}

// formOf returns the sent value if the value read is another form of it, otherwise the value read.
func formOf(sent, read string) string {
	if connector.SameForm(sent, read) {
		return sent
	}
	return read
}

// addressesAsRead returns the customer's address for each sent address: the same one, or an unsent one in its place.
func addressesAsRead(sent, shown []connector.Address) []connector.Address {
	out, used := make([]connector.Address, len(sent)), make([]bool, len(shown))
	found := make([]bool, len(sent))
	for i, a := range sent {
		for j, b := range shown {
			if !used[j] && sameAddress(a, b) {
				out[i], used[j], found[i] = a, true, true
				out[i].Country = formOf(a.Country, b.Country)
				break
			}
		}
	}
	for i, a := range sent {
		if j := slices.Index(used, false); !found[i] && j >= 0 {
			b := shown[j]
			out[i], used[j] = connector.Address{Line1: formOf(a.Line1, b.Line1), City: formOf(a.City, b.City),
				PostCode: formOf(a.PostCode, b.PostCode), Country: formOf(a.Country, b.Country)}, true
		}
	}
	return out
}

// valuesAsRead is addressesAsRead for e-mail addresses or telephone numbers. A blank one was not sent.
func valuesAsRead(sent, shown []string, same func(a, b string) bool) []string {
	out, used := make([]string, len(sent)), make([]bool, len(shown))
	for i, s := range sent {
		for j, v := range shown {
			if s != "" && same(s, v) { // several contacts may share one
				out[i], used[j] = s, true
				break
			}
		}
	}
	for i, s := range sent {
		if j := slices.Index(used, false); s != "" && out[i] == "" && j >= 0 {
			out[i], used[j] = shown[j], true
		}
	}
	return out
}

// holds reports whether a customer shows all our values, in any form of the service. It ignores names of contacts,
// because the service may split them.
func holds(ours *connector.Customer, c connector.RemoteCustomer) bool {
	for _, person := range ours.People {
		if !shows(c.Emails, person.Email, strings.EqualFold) || !shows(c.Phones, person.Phone, connector.SameForm) {
			return false
		}
	}
	if !flagged(ours.People, c.People) {
		return false
	}
	for _, address := range ours.Addresses {
		if !slices.ContainsFunc(c.Addresses, func(a connector.Address) bool { return sameAddress(address, a) }) {
			return false
		}
	}
	for name, value := range ours.ExternalData {
		if len(c.ExternalData) > 0 && c.ExternalData[name] != value { // a list may leave them out
			return false
		}
	}
	return ours.Name == "" || connector.SameForm(ours.Name, c.Name) // blank: linked by a mapping without a rule for it
}

// flagged reports whether the contacts have our flags. It matches contacts by e-mail address. A flag not shown counts
// as equal.
func flagged(ours, shown []connector.Person) bool {
	differs := func(ours, shown string) bool { return ours != "" && shown != "" && ours != shown }
	for _, p := range ours {
		if p.Email != "" && slices.ContainsFunc(shown,
			func(s connector.Person) bool { return strings.EqualFold(s.Email, p.Email) }) &&
			!slices.ContainsFunc(shown, func(s connector.Person) bool {
				return strings.EqualFold(s.Email, p.Email) && !differs(p.Primary, s.Primary) &&
					!differs(p.Communication, s.Communication)
			}) {
			return false
		}
	}
	return true
}

// sameAddress compares the contents of both spellings of an address; one has no country.
func sameAddress(ours, theirs connector.Address) bool {
	return connector.SameForm(ours.Line1, theirs.Line1) && connector.SameForm(ours.City, theirs.City) &&
		connector.SameForm(ours.PostCode, theirs.PostCode)
}

func shows(list []string, text string, same func(a, b string) bool) bool {
	return text == "" || slices.ContainsFunc(list, func(shown string) bool { return same(shown, text) })
}
