package connector

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/mail"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxAddresses is how many addresses the billing service accepts on one
// customer.
const MaxAddresses = 1

// Key is the externalData pair that identifies a payer in the billing service.
// Its bytes are the identity: values that differ in case or spaces are two keys.
//
// Where numbers are unique within one organisation only, Scope names the organisation. It is
// written in a pair of its own beside the key, and is part of the identity: equal numbers of
// two organisations are two keys.
type Key struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Scope string `json:"scope,omitempty"`
}

// scopeSuffix ends the name of the pair that names a key's organisation.
const scopeSuffix = "Scope"

// ScopeName returns the name of the externalData pair that holds the scope of a key called
// name.
func ScopeName(name string) string { return name + scopeSuffix }

// KeyIn returns the key called name that externalData carries; its value is blank when there
// is none.
func KeyIn(externalData map[string]string, name string) Key {
	value, has := externalData[name]
	if !has {
		return Key{Name: name}
	}
	return Key{Name: name, Value: value, Scope: externalData[ScopeName(name)]}
}

// KeysIn returns every pair of externalData as a key, with its scope where it has one; a pair
// that is the scope of another is none.
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

// Pairs returns the externalData pairs that carry the key.
func (k Key) Pairs() map[string]string {
	out := map[string]string{k.Name: k.Value}
	if k.Scope != "" {
		out[ScopeName(k.Name)] = k.Scope
	}
	return out
}

// Unscoped returns the key without its scope: what it was called before it had one.
func (k Key) Unscoped() Key { return Key{Name: k.Name, Value: k.Value} }

// Gains reports whether other is the key with the scope that it does not have yet.
func (k Key) Gains(other Key) bool {
	return k.Scope == "" && other.Scope != "" && other.Unscoped() == k
}

// MayBe reports whether a customer that carries a key may be this key's: it is the same, or
// has no scope yet.
func (k Key) MayBe(carried Key) bool { return carried == k || carried == k.Unscoped() }

// scopeMark stands between a key's value and its scope in ID. No text that is sent can hold
// it.
const scopeMark = "\x1f"

// ID returns the key as one text that no other key has: name=value, and behind U+001F its
// scope.
func (k Key) ID() string { return k.Name + "=" + k.ScopedValue() }

// ScopedValue returns the value, and behind U+001F the scope where there is one: ParseKey
// takes it apart.
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

// Person is one contact of a customer. Either Name or FirstName and LastName
// are given; the billing dialect derives the one it writes from the other. The flags are
// "true" or "false", and "" where a mapping says nothing of them: then they are not ours.
type Person struct {
	Name      string `json:"name,omitempty"`
	FirstName string `json:"firstName,omitempty"`
	LastName  string `json:"lastName,omitempty"`
	Email     string `json:"email,omitempty"`
	Phone     string `json:"phone,omitempty"`

	Primary       string `json:"primary,omitempty"`       // this is the customer's primary contact
	Communication string `json:"communication,omitempty"` // the service writes to this contact

	// ID is the service's own id of the contact, where a read has shown one. No mapping makes
	// it, and no hash or comparison of customers counts it.
	ID string `json:"id,omitempty"`
}

// Unflagged returns the person without its flags and its id.
func (p Person) Unflagged() Person {
	p.Primary, p.Communication, p.ID = "", "", ""
	return p
}

// WithIDs returns the customer with the service's own ids of its contacts, as a read has shown
// them. A contact is known by its e-mail address, or by its name where neither has an address.
func (c Customer) WithIDs(shown []Person) Customer {
	c.People = slices.Clone(c.People)
	for i := range c.People {
		p := &c.People[i]
		p.ID = ""
		for _, s := range shown {
			if s.ID != "" && strings.EqualFold(s.Email, p.Email) && (p.Email != "" || SameForm(s.fullName(), p.fullName())) && !c.hasID(s.ID) {
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

// Hash returns the SHA-256, in hex, of the customer's canonical JSON. Equal
// hashes mean that nothing needs to be sent.
func (c Customer) Hash() string {
	b, _ := json.Marshal(c.WithoutIDs())
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Problem is one rule of the billing service that a rendered customer breaks.
type Problem struct {
	Reason Reason
	Detail string // a sentence for an accountant, without personal values
}

// Problems returns every rule of the billing service that the customer
// breaks (billing/README.md#customers), and text the service should never see: they are caught before
// sending, with the rule the service itself applies (fault F53).
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
		add(ReasonTooManyAddresses, "The customer has %d addresses, the billing service takes %d.", n, MaxAddresses)
	}
	if n := c.primaries(); n > 1 {
		add(ReasonTwoPrimary, "%d contacts are said to be the primary one.", n)
	}
	for path, text := range c.texts() {
		if !cleanText(text) {
			add(ReasonIllegalText, "The field %s holds characters that cannot be sent (control characters or broken text).", path)
		}
	}
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
	for path, field := range c.fields() {
		out[path] = *field
	}
	for k, v := range c.ExternalData {
		out["externalData."+k] = v
	}
	return out
}

// fields returns the fields of the customer by their paths, without externalData.
func (c *Customer) fields() map[string]*string {
	out := map[string]*string{"name": &c.Name}
	for i := range c.People {
		p, at := &c.People[i], fmt.Sprintf("people[%d].", i)
		maps.Copy(out, map[string]*string{
			at + "name": &p.Name, at + "firstName": &p.FirstName, at + "lastName": &p.LastName,
			at + "email": &p.Email, at + "phone": &p.Phone, at + "primary": &p.Primary, at + "communication": &p.Communication,
		})
	}
	for i := range c.Addresses {
		a, at := &c.Addresses[i], fmt.Sprintf("addresses[%d].", i)
		maps.Copy(out, map[string]*string{
			at + "line1": &a.Line1, at + "city": &a.City, at + "postCode": &a.PostCode, at + "country": &a.Country,
		})
	}
	return out
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

// TrimEmail removes spaces, invisible characters and quotation marks from the edges of an
// address. What is inside stays, so that ValidEmail refuses it.
func TrimEmail(s string) string {
	return strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || invisible(r) || strings.ContainsRune(quotationMarks, r)
	})
}

// quotationMarks stand around an address, never at an edge of it.
const quotationMarks = "\"'`´‘’‚‛“”„‟«»‹›"

// invisible reports whether people cannot see a character: a control or formatting
// character, or a space other than the usual one.
func invisible(r rune) bool {
	return r == utf8.RuneError || r != ' ' && !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r) || slices.Contains(blankLetters, r)
}

// blankLetters count as letters or marks in Unicode, and show nothing.
var blankLetters = []rune{'\u034f', '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0', '\ufe0e', '\ufe0f'}

// FieldChange is one difference that a change would make, by its path in the
// rendered customer. From and To may be personal: they are sealed at rest and
// shown only to the person who asks for a plan.
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
	People       []Person          // the contacts that have an id; all of them where the dialect names flags
	ExternalData map[string]string // whatever shape it came in
	Mandate      *Mandate          // the latest mandate; nil when the customer has none
	Financial    string            // the financial status in the service's word; "" where it was not given, which says nothing
	Raw          json.RawMessage   // the object as it came, for lossless merging
}

// Written is what one update of ours did to a customer: its JSON as it was read before, and
// the body that was sent.
type Written struct{ Before, Sent json.RawMessage }

// Release is what lets a customer go that is no payer's any more.
type Release struct {
	Body json.RawMessage // to be sent; nil when there is nothing to take back
	Diff []FieldChange   // what the customer shows now against what it would show, with its own places
	Kept []string        // paths that somebody else has changed since, and that stay as they are
}
