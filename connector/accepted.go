package connector

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Accepted is a difference between a record and its customer accepted by a person. While the mapping gives Ours for the
// field, the customer may hold Theirs. A removed contact or address, people[0], is accepted whole. An ignored part
// (name, people or addresses) is left entirely to the billing service. The values may be personal.
type Accepted struct {
	Path    string `json:"path"`
	Ours    string `json:"ours,omitempty"`
	Theirs  string `json:"theirs,omitempty"`
	Ignored bool   `json:"ignored,omitempty"`
}

// Holds reports whether the difference is still accepted. A change of our value ends it.
func (a Accepted) Holds(c Customer) bool { return a.Ignored || c.At(a.Path) == a.Ours }

// At returns the text at a path, or the contact or address at it as JSON; "" for none.
func (c Customer) At(path string) string {
	for i, p := range c.People {
		if path == fmt.Sprintf("people[%d]", i) {
			p.ID = ""
			b, _ := json.Marshal(p)
			return string(b)
		}
	}
	for i, a := range c.Addresses {
		if path == fmt.Sprintf("addresses[%d]", i) {
			b, _ := json.Marshal(a)
			return string(b)
		}
	}
	return c.texts()[path]
}

// With returns the customer with the accepted values in place of ours. It omits people and addresses without any value
// left.
func (c Customer) With(accepted []Accepted) Customer {
	if len(accepted) == 0 {
		return c
	}
	out := c.with(accepted)
	out.People = slices.DeleteFunc(out.People, func(p Person) bool { return p.Unflagged() == Person{} })
	out.Addresses = slices.DeleteFunc(out.Addresses, func(p Address) bool { return p == Address{} })
	maps.DeleteFunc(out.ExternalData, func(name, value string) bool { return value == "" && c.ExternalData[name] != "" })
	if len(out.People) == 0 {
		out.People = nil
	}
	if len(out.Addresses) == 0 {
		out.Addresses = nil
	}
	return out
}

// PathBefore returns the path in With's result for a path in the customer. The two differ if contacts or addresses
// before it are omitted.
func (c Customer) PathBefore(path string, accepted []Accepted) string {
	list, rest, element := strings.Cut(path, "[")
	number, field, _ := strings.Cut(rest, "]")
	at, err := strconv.Atoi(number)
	if !element || err != nil {
		return path
	}
	out := c.with(accepted)
	blank := func(i int) bool { return i < len(out.People) && out.People[i].Unflagged() == Person{} }
	if list == "addresses" {
		blank = func(i int) bool { return i < len(out.Addresses) && out.Addresses[i] == Address{} }
	}
	place := 0
	for ; blank(place) || at > 0; place++ {
		if !blank(place) {
			at--
		}
	}
	return fmt.Sprintf("%s[%d]%s", list, place, field)
}

// with is With, and leaves nothing out.
func (c Customer) with(accepted []Accepted) Customer {
	out := Customer{Name: c.Name, People: slices.Clone(c.People), Addresses: slices.Clone(c.Addresses),
		ExternalData: maps.Clone(c.ExternalData)}
	for _, a := range accepted {
		switch {
		case a.Ignored:
			out.drop(a.Path)
		case a.Holds(c):
			out.eachField(func(in fieldPath, text *string) {
				if path := in.String(); path == a.Path {
					*text = a.Theirs
				} else if strings.HasPrefix(path, a.Path+".") {
					*text = ""
				}
			})
			if _, ours := c.ExternalData[external(a.Path)]; ours {
				out.ExternalData[external(a.Path)] = a.Theirs
			}
		}
	}
	return out
}

// drop empties a part: a blank one is not ours.
func (c *Customer) drop(part string) {
	switch part {
	case "name":
		c.Name = ""
	case "people":
		c.People = nil
	case "addresses":
		c.Addresses = nil
	}
}

// external returns the name of an externalData pair by its path; "" for another path.
func external(path string) string {
	name, _ := strings.CutPrefix(path, "externalData.")
	if name == path {
		return ""
	}
	return name
}
