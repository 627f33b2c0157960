package connector

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxAddresses is how many addresses the billing service accepts on one
// customer.
const MaxAddresses = 1

// Key is the externalData pair to identify a payer in the billing service. Its bytes are the identity: values with a
// different case or different spaces are two keys.
//
// If numbers are unique only within one organisation, Scope names the organisation. It is written in a separate pair
// beside the key and is part of the identity: equal numbers of two organisations are two keys.
type Key struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Scope string `json:"scope,omitempty"`
}

// scopeSuffix is the end of the scope pair's name.
const scopeSuffix = "Scope"

// ScopeName returns the name of the externalData pair with the scope of the key called name.
func ScopeName(name string) string { return name + scopeSuffix }

// KeyIn returns the key called name in externalData; its value is blank for none.
func KeyIn(externalData map[string]string, name string) Key {
	value, has := externalData[name]
	if !has {
		return Key{Name: name}
	}
	return Key{Name: name, Value: value, Scope: externalData[ScopeName(name)]}
}

// KeysIn returns every pair of externalData as a key, with its scope if it has one. Scope pairs are not keys.
func KeysIn(externalData map[string]string) []Key {
	var out []Key
	for name := range externalData {
		if !IsScope(externalData, name) {
			out = append(out, KeyIn(externalData, name))
		}
	}
	return out
}

// IsScope reports whether the pair called name is the scope of another pair of externalData.
func IsScope(externalData map[string]string, name string) bool {
	of, is := strings.CutSuffix(name, scopeSuffix)
	_, has := externalData[of]
	return is && has
}

// Pairs returns the externalData pairs of the key.
func (k Key) Pairs() map[string]string {
	out := map[string]string{k.Name: k.Value}
	if k.Scope != "" {
		out[ScopeName(k.Name)] = k.Scope
	}
	return out
}

// Unscoped returns the key without its scope: what it was called before it had one.
func (k Key) Unscoped() Key { return Key{Name: k.Name, Value: k.Value} }

// Gains reports whether other is this key with a scope added.
func (k Key) Gains(other Key) bool {
	return k.Scope == "" && other.Scope != "" && other.Unscoped() == k
}

// MayBe reports whether a customer with the carried key may belong to this key: the keys are equal, or the carried one
// has no scope yet.
func (k Key) MayBe(carried Key) bool { return carried == k || carried == k.Unscoped() }

// scopeMark separates a key's value from its scope in ID. No text to be sent can contain it.
const scopeMark = "\x1f"

// ID returns the key as a unique text: name=value, then U+001F and the scope.
func (k Key) ID() string { return k.Name + "=" + k.ScopedValue() }

// ScopedValue returns the value, then U+001F and the scope if there is one. ParseKey parses it.
func (k Key) ScopedValue() string {
	if k.Scope == "" {
		return k.Value
	}
	return k.Value + scopeMark + k.Scope
}

// ParseKey returns the key with a name and a scoped value.
func ParseKey(name, scopedValue string) Key {
	value, scope, _ := strings.Cut(scopedValue, scopeMark)
	return Key{Name: name, Value: value, Scope: scope}
}

// String returns the key for people: name=value, and its scope.
func (k Key) String() string {
	if k.Scope == "" {
		return k.Name + "=" + k.Value
	}
	return fmt.Sprintf("%s=%s of %s", k.Name, k.Value, k.Scope)
}

// Customer is a customer as a mapping renders it, before any dialect of the
// billing service is applied to its field names.
type Customer struct {
	Name         string            `json:"name"`
	People       []Person          `json:"people,omitempty"`
	Addresses    []Address         `json:"addresses,omitempty"`
	ExternalData map[string]string `json:"externalData,omitempty"` // holds the key pair too
}

// Person is one contact of a customer. Either Name or FirstName and LastName are given; the billing dialect derives one
// from the other. The flags are "true" or "false", and "" if the mapping does not give them: then they are not ours.
type Person struct {
	Name      string `json:"name,omitempty"`
	FirstName string `json:"firstName,omitempty"`
	LastName  string `json:"lastName,omitempty"`
	Email     string `json:"email,omitempty"`
	Phone     string `json:"phone,omitempty"`

	Primary       string `json:"primary,omitempty"`       // this is the customer's primary contact
	Communication string `json:"communication,omitempty"` // the service writes to this contact

	// ID is the service's own id of the contact, if a read has shown one. No mapping sets it, and hashes and
	// comparisons of customers ignore it.
	ID string `json:"id,omitempty"`
}

// Unflagged returns the person without its flags and its id.
func (p Person) Unflagged() Person {
	p.Primary, p.Communication, p.ID = "", "", ""
	return p
}

// WithIDs returns the customer with the service's own ids of its contacts, as read. It matches contacts by e-mail
// address, or by name if neither has an address.
func (c Customer) WithIDs(shown []Person) Customer {
	c.People = slices.Clone(c.People)
	for i := range c.People {
		p := &c.People[i]
		p.ID = ""
		for _, s := range shown {
			if s.ID != "" && strings.EqualFold(s.Email, p.Email) && (p.Email != "" || SameForm(s.fullName(), p.fullName())) &&
				!c.hasID(s.ID) {
				p.ID = s.ID
				break
			}
		}
	}
	return c
}

func (p Person) fullName() string {
	if p.Name != "" {
		return p.Name
	}
	return strings.TrimSpace(p.FirstName + " " + p.LastName)
}

func (c Customer) hasID(id string) bool {
	return slices.ContainsFunc(c.People, func(p Person) bool { return p.ID == id })
}

// WithoutIDs returns the customer without the service's ids of its contacts.
func (c Customer) WithoutIDs() Customer {
	if slices.ContainsFunc(c.People, func(p Person) bool { return p.ID != "" }) {
		c = c.WithIDs(nil)
	}
	return c
}

// Address is a customer's postal address.
type Address struct {
	Line1    string `json:"line1,omitempty"`
	City     string `json:"city,omitempty"`
	PostCode string `json:"postCode,omitempty"`
	Country  string `json:"country,omitempty"`
}

// Hash returns the SHA-256, in hex, of the customer's canonical JSON. Equal hashes mean there is nothing to send.
func (c Customer) Hash() string {
	b, _ := json.Marshal(c.WithoutIDs())
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Problem is a violation of a billing service rule by a mapped customer.
type Problem struct {
	Reason Reason
	Detail string // a sentence for an accountant, without personal values
}

// Problems returns every violation of the billing service's rules (billing/README.md#customers), and text unfit for the
// service. It applies the service's own rules before sending (fault F53).
func (c Customer) Problems() []Problem {
	var out []Problem
	add := func(r Reason, format string, args ...any) {
		out = append(out, Problem{r, fmt.Sprintf(format, args...)})
	}
	if strings.TrimSpace(c.Name) == "" {
		add(ReasonNameMissing, "The customer has no name.")
	}
	for i, p := range c.People {
		if p.Email != "" && !ValidEmail(p.Email) {
			add(ReasonEmailMalformed, "The e-mail address of contact %d is not well formed.", i+1)
		}
	}
	if n := len(c.Addresses); n > MaxAddresses {
		add(ReasonTooManyAddresses, "The customer has %d addresses, and the billing service accepts %d.", n, MaxAddresses)
	}
	if n := c.primaries(); n > 1 {
		add(ReasonTwoPrimary, "%d contacts are marked as primary.", n)
	}
	c.eachText(func(in fieldPath, text string) {
		if !cleanText(text) {
			add(ReasonIllegalText, "The field %s has characters that the billing service does not accept: control characters or broken text.", in)
		}
	})
	slices.SortStableFunc(out, func(a, b Problem) int { return strings.Compare(a.Detail, b.Detail) })
	return out
}

// primaries returns how many contacts are the primary one.
func (c Customer) primaries() (n int) {
	for _, p := range c.People {
		if p.Primary == "true" {
			n++
		}
	}
	return n
}

// texts returns every text of the customer by its path.
func (c Customer) texts() map[string]string {
	out := map[string]string{}
	c.eachText(func(in fieldPath, text string) { out[in.String()] = text })
	return out
}

// eachText calls do for every text of the customer.
func (c Customer) eachText(do func(in fieldPath, text string)) {
	c.eachField(func(in fieldPath, text *string) { do(in, *text) })
	for k, v := range c.ExternalData {
		do(fieldPath{name: "externalData." + k}, v)
	}
}

// fieldPath is the path of a field. Most looks at a field need no text of it.
type fieldPath struct {
	list string // "people" or "addresses"; "" outside a list
	at   int
	name string
}

// String returns the path as a text.
func (p fieldPath) String() string {
	if p.list == "" {
		return p.name
	}
	return p.list + "[" + strconv.Itoa(p.at) + "]." + p.name
}

// eachField calls do for the fields of the customer, without externalData.
func (c *Customer) eachField(do func(in fieldPath, text *string)) {
	do(fieldPath{name: "name"}, &c.Name)
	for i := range c.People {
		p := &c.People[i]
		for _, f := range [...]struct {
			name string
			text *string
		}{{"name", &p.Name}, {"firstName", &p.FirstName}, {"lastName", &p.LastName}, {"email", &p.Email}, {"phone", &p.Phone},
			{"primary", &p.Primary}, {"communication", &p.Communication}} {
			do(fieldPath{"people", i, f.name}, f.text)
		}
	}
	for i := range c.Addresses {
		a := &c.Addresses[i]
		for _, f := range [...]struct {
			name string
			text *string
		}{{"line1", &a.Line1}, {"city", &a.City}, {"postCode", &a.PostCode}, {"country", &a.Country}} {
			do(fieldPath{"addresses", i, f.name}, f.text)
		}
	}
}

func cleanText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// ValidEmail reports whether s is one well-formed e-mail address and nothing
// else: no display name, no list, no spaces, no invisible characters, a domain with a dot.
func ValidEmail(s string) bool {
	if strings.ContainsFunc(s, invisible) {
		return false
	}
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || a.Name != "" {
		return false
	}
	domain := s[strings.LastIndexByte(s, '@')+1:]
	dot := strings.IndexByte(domain, '.')
	return dot > 0 && !strings.HasSuffix(domain, ".")
}

// TrimEmail removes spaces, invisible characters and quotation marks from the edges of an address. It keeps the inner
// ones, so ValidEmail refuses the address.
func TrimEmail(s string) string {
	return strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || invisible(r) || strings.ContainsRune(quotationMarks, r)
	})
}

// quotationMarks surround an address, and are never its first or last character.
const quotationMarks = "\"'`´‘’‚‛“”„‟«»‹›"

// invisible reports whether people cannot see a character: a control or formatting
// character, or a space other than the usual one.
func invisible(r rune) bool {
	return r == utf8.RuneError || r != ' ' && !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r) ||
		slices.Contains(blankLetters, r)
}

// blankLetters count as letters or marks in Unicode, and show nothing.
var blankLetters = []rune{'\u034f', '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0', '\ufe0e', '\ufe0f'}

// FieldChange is one difference made by a change, by its path in the mapped customer. From and To may be personal: they
// are sealed at rest, and only the person requesting a plan sees them.
type FieldChange struct {
	Path string `json:"path"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Diff lists how want differs from have, sorted by path.
func Diff(have, want Customer) []FieldChange {
	old, now := have.texts(), want.texts()
	var out []FieldChange
	for path, to := range now {
		if from := old[path]; from != to {
			out = append(out, FieldChange{path, from, to})
		}
	}
	for path, from := range old {
		if _, kept := now[path]; !kept && from != "" {
			out = append(out, FieldChange{path, from, ""})
		}
	}
	slices.SortFunc(out, func(a, b FieldChange) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// RemoteCustomer is a customer as the billing service states it.
type RemoteCustomer struct {
	ID           string
	Name         string
	Emails       []string
	Phones       []string
	Addresses    []Address
	People       []Person          // contacts with an id; all of them if the dialect names flags
	ExternalData map[string]string // in any shape
	Mandate      *Mandate          // the latest mandate; nil when the customer has none
	// the financial status in the service's word; "" where it was not given, which says nothing
	Financial string
	Raw       json.RawMessage // the object as it came, for lossless merging
}

// Written is the effect of one update of ours on a customer: its JSON as read before, and the body sent.
type Written struct{ Before, Sent json.RawMessage }

// Release is the change to free a customer from its payer.
type Release struct {
	Body json.RawMessage // to be sent; nil when there is nothing to take back
	Diff []FieldChange   // the customer's present and wanted values, with its own places
	Kept []string        // paths changed by others since; they stay
}
