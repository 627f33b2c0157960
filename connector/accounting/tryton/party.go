package tryton

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"payersync/connector"
	"payersync/connector/accounting"
)

// columns of a party, as calls name them. Those of optional depend on the
// server's version and modules.
var (
	always = []string{
		"code", "name", "active", "replaced_by", "create_date", "write_date", "categories.name",
		"addresses.active", "addresses.party_name", "addresses.street", "addresses.postal_code", "addresses.city",
		"addresses.country.code", "addresses.subdivision.name",
		"contact_mechanisms.active", "contact_mechanisms.type", "contact_mechanisms.value", "contact_mechanisms.name",
		"identifiers.type", "identifiers.code", "tax_identifier.type", "tax_identifier.code",
	}
	optional = []struct {
		model, list string
		names       []string
	}{
		{"party.address", "addresses", []string{"name", "building_name", "invoice", "delivery"}},
		{"party.contact_mechanism", "contact_mechanisms", []string{"invoice"}},
		{"party.identifier", "identifiers", []string{"active"}},
	}
)

// columns returns the names of this server's fields of a party. It is asked once.
func (c *client) columns(ctx context.Context) ([]string, error) {
	c.mu.Lock()
	wanted := c.wanted
	c.mu.Unlock()
	if wanted != nil {
		return wanted, nil
	}
	wanted = always
	for _, o := range optional {
		var has map[string]json.RawMessage
		if err := c.call(ctx, "model."+o.model+".fields_get", &has, o.names, struct{}{}); err != nil {
			return nil, err
		}
		for _, name := range o.names {
			if _, ok := has[name]; ok {
				wanted = append(wanted[:len(wanted):len(wanted)], o.list+"."+name)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = wanted
	return wanted, nil
}

// party is a row of the server's answer. A key with a dot at its end holds the object of a reference.
type party struct {
	Code       *string      `json:"code"`
	Name       *string      `json:"name"`
	Active     flag         `json:"active"`
	ReplacedBy *json.Number `json:"replaced_by"`
	Created    *moment      `json:"create_date"`
	Written    *moment      `json:"write_date"`
	Tax        *identifier  `json:"tax_identifier."`
	Categories []category   `json:"categories."`
	Addresses  []address    `json:"addresses."`
	Mechanisms []mechanism  `json:"contact_mechanisms."`
	Identities []identifier `json:"identifiers."`
}

type category struct {
	Name *string `json:"name"`
}

type address struct {
	Active      flag    `json:"active"`
	Invoice     flag    `json:"invoice"`
	Delivery    flag    `json:"delivery"`
	PartyName   *string `json:"party_name"`
	Name        *string `json:"name"`
	Building    *string `json:"building_name"` // called name in later versions
	Street      *string `json:"street"`
	PostalCode  *string `json:"postal_code"`
	City        *string `json:"city"`
	Subdivision *struct {
		Name *string `json:"name"`
	} `json:"subdivision."`
	Country *struct {
		Code *string `json:"code"`
	} `json:"country."`
}

type mechanism struct {
	Active  flag    `json:"active"`
	Invoice flag    `json:"invoice"`
	Type    *string `json:"type"`
	Value   *string `json:"value"`
	Name    *string `json:"name"`
}

type identifier struct {
	Active flag    `json:"active"`
	Type   *string `json:"type"`
	Code   *string `json:"code"`
}

// flag is true or false, answered by some databases as 1 or 0, or nothing.
type flag struct{ value *bool }

// UnmarshalJSON reads true, false, 1, 0 and null.
func (f *flag) UnmarshalJSON(b []byte) error {
	yes, no := true, false
	switch string(b) {
	case "true", "1":
		f.value = &yes
	case "false", "0":
		f.value = &no
	case "null":
		f.value = nil
	default:
		return fmt.Errorf("%.20q is neither true nor false", b)
	}
	return nil
}

// off reports whether the flag says no; an absent one does not.
func (f flag) off() bool { return f.value != nil && !*f.value }

// moment is a time in UTC, written without zone.
type moment struct {
	Year, Month, Day, Hour, Minute, Second, Microsecond int
}

func (m *moment) time() time.Time {
	if m == nil {
		return time.Time{}
	}
	return accounting.EditTime(time.Date(m.Year, time.Month(m.Month), m.Day, m.Hour, m.Minute, m.Second,
		m.Microsecond*1000, time.UTC))
}

// wireTime returns a time as calls carry it.
func wireTime(t time.Time) map[string]any {
	t = t.UTC()
	return map[string]any{
		"__class__": "datetime", "year": t.Year(), "month": int(t.Month()), "day": t.Day(),
		"hour": t.Hour(), "minute": t.Minute(), "second": t.Second(), "microsecond": t.Nanosecond() / 1000,
	}
}

func idOf(row json.RawMessage) (int64, error) {
	var head struct {
		ID json.Number `json:"id"`
	}
	if err := json.Unmarshal(row, &head); err != nil {
		return 0, err
	}
	return head.ID.Int64()
}

// record turns a row into a record. An invalid row becomes a record with a problem.
func record(id int64, row json.RawMessage) connector.Record {
	out := connector.Record{
		SourceID: strconv.FormatInt(id, 10), State: connector.RecordUnknown,
		Data: json.RawMessage("{}"), Origin: fmt.Sprintf("party %d", id),
	}
	p, problem := read(row)
	if problem != "" {
		out.Problem = problem
		return out
	}
	out.State, out.MergedInto = p.state()
	out.UpdatedAt = p.Written.time()
	if p.Written == nil {
		out.UpdatedAt = p.Created.time()
	}
	data, err := json.Marshal(p.data(out.SourceID))
	if err != nil {
		out.Problem = "The party cannot be written as JSON."
		return out
	}
	if holdsNUL(data) {
		out.Problem = "The party holds a NUL character in one of its texts; remove it in Tryton."
		return out
	}
	out.Data = data
	return out
}

// holdsNUL reports whether a text of the JSON holds a NUL character, which letters and banks refuse. Two
// backslashes are an escaped one, and begin no escape.
func holdsNUL(data []byte) bool {
	return bytes.Contains(bytes.ReplaceAll(data, []byte(`\\`), nil), []byte(`\u0000`))
}

// read decodes a row; problem says why it cannot be used.
func read(row json.RawMessage) (p party, problem string) {
	var keys map[string]json.RawMessage
	if !utf8.Valid(row) || json.Unmarshal(row, &keys) != nil {
		return p, "The party holds characters that are no text."
	}
	for _, name := range always {
		list, _, nested := strings.Cut(name, ".")
		if nested {
			list += "."
		}
		if _, ok := keys[list]; !ok { // its user may not read it: a blank would be a lie
			return p, fmt.Sprintf("The server omitted %s of this party; check what the user may read.",
				strings.TrimSuffix(list, "."))
		}
	}
	if err := json.Unmarshal(row, &p); err != nil {
		return p, "A field of the party has another type than is known."
	}
	return p, ""
}

// state returns the state of the party. A merged party is inactive too.
func (p party) state() (s connector.RecordState, survivor string) {
	switch {
	case p.ReplacedBy != nil:
		return connector.RecordMerged, p.ReplacedBy.String()
	case p.Active.value == nil:
		return connector.RecordUnknown, ""
	case p.Active.off():
		return connector.RecordArchived, ""
	}
	return connector.RecordActive, ""
}
