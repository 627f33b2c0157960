package billing

import (
	"slices"

	"payersync/connector"
)

// carried returns a customer as far as this dialect's spelling of new elements has members
// for it.
func (d Dialect) carried(c connector.Customer) connector.Customer {
	if d.AddressFields == "long" {
		return c
	}
	c.Addresses = slices.Clone(c.Addresses)
	for i := range c.Addresses {
		c.Addresses[i].Country = ""
	}
	return c
}

// NotCarried returns the paths of a customer this dialect cannot write into a new one, sorted: the short spelling of
// addresses has no country. An existing element in the other spelling is still updated.
func (d Dialect) NotCarried(c connector.Customer) (paths []string) {
	return connector.Map(connector.Diff(d.carried(c), c), func(lost connector.FieldChange) string { return lost.Path })
}
