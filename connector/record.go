package connector

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Record is one customer as an accounting system states it.
type Record struct {
	SourceID   string          // the system's own id, compared byte by byte; never blank
	State      RecordState     // the record's state in its system
	MergedInto string          // source id of the survivor when State is RecordMerged
	UpdatedAt  time.Time       // the system's time of last edit; zero when it has none
	Data       json.RawMessage // one JSON object with the source's declared fields
	Origin     string          // where a person finds it, for example "customers.csv line 17"
	Problem    string          // why it cannot be used, a sentence without personal values; "" when usable
}

// Hash returns the SHA-256, in hex, of all parts of the record relevant to a plan: state, survivor, problem and data.
// It ignores Origin and UpdatedAt, so a row moved within its file counts as unchanged.
func (r Record) Hash() string {
	text := make([]byte, 0, 64+base64.StdEncoding.EncodedLen(len(r.Data)))
	for _, part := range [][]byte{[]byte(r.State), []byte(r.MergedInto), []byte(r.Problem), r.Data} {
		if part == nil { // as JSON writes bytes, without its cost
			text = append(text, "null\n"...)
			continue
		}
		text = append(base64.StdEncoding.AppendEncode(append(text, '"'), part), "\"\n"...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Without returns the record without the irrelevant parts. The result has the same form whether or not they were
// present.
func (r Record) Without(parts []WrittenPart) Record {
	var data map[string]json.RawMessage
	if len(parts) == 0 || json.Unmarshal(r.Data, &data) != nil || data == nil {
		return r
	}
	for _, p := range parts {
		rest := withoutElements(data[p.Field], p.Values)
		if rest == nil {
			delete(data, p.Field)
			continue
		}
		data[p.Field] = rest
	}
	r.Data, _ = json.Marshal(data) // of what was JSON
	return r
}

// withoutElements returns a list without the elements equal to, or containing, one of these texts; nil for an empty
// result, or to remove the whole.
func withoutElements(text json.RawMessage, values []string) json.RawMessage {
	var elements []json.RawMessage
	if len(values) == 0 || text == nil {
		return nil
	}
	if json.Unmarshal(text, &elements) != nil {
		return text
	}
	elements = slices.DeleteFunc(elements, func(element json.RawMessage) bool {
		var one string
		var several map[string]any
		if json.Unmarshal(element, &one) == nil {
			return slices.Contains(values, one)
		}
		_ = json.Unmarshal(element, &several) // what is neither holds nothing
		for _, v := range several {
			if word, is := v.(string); is && word != "" && slices.Contains(values, word) {
				return true
			}
		}
		return false
	})
	if len(elements) == 0 {
		return nil
	}
	out, err := json.Marshal(elements)
	if err != nil {
		return text
	}
	return out
}

// RecordState is the state of a record in its accounting system.
type RecordState string

// The record states. RecordUnknown is a status the adapter does not know; it is
// never treated as active (accounting/README.md#what-is-unknown-is-not-active).
const (
	RecordActive   RecordState = "active"
	RecordArchived RecordState = "archived"
	RecordDeleted  RecordState = "deleted"
	RecordMerged   RecordState = "merged"
	RecordUnknown  RecordState = "unknown"
)

// Page is one piece of a source's answer, in the order the source gave it.
type Page struct {
	Records []Record
	Proof   Proof // this page's part of the proof of the whole read
}

// Proof counts the steps of a read, to tell a complete one from a lucky one. The proof of a read is the sum over its
// pages.
type Proof struct {
	Pages   int `json:"pages"`   // fetched from the source
	Repeats int `json:"repeats"` // repeated records in a pass: edits during the read, or overlapping pages
	Passes  int `json:"passes"`  // begun passes; two or more if a source is read until two passes agree
}

// Plus returns the sum of two proofs.
func (p Proof) Plus(q Proof) Proof {
	return Proof{p.Pages + q.Pages, p.Repeats + q.Repeats, p.Passes + q.Passes}
}

// SourceInfo describes a source before it is read.
type SourceInfo struct {
	Kind         string  // "csv", "xero", …
	Tenant       string  // stable id of the organisation the source is bound to; "" when it has none
	TenantName   string  // its name, for people
	Organisation string  // what the configuration calls it; "" for Tenant
	Snapshot     bool    // each read is complete, without ids of removed records
	Partial      bool    // a full read omits some records, but a read of changes returns them
	Fields       []Field // the possible fields of Record.Data

	// Written are the fields we write back into the accounting system, and those that change with them. It is
	// taken out of a record when it is read, and no mapping may read it.
	Written []WrittenPart `json:",omitempty"`
}

// WrittenPart is a part of a record written by payersync.
type WrittenPart struct {
	Field string
	// of a list only the elements that are one of these, or hold one; none for the whole field
	Values []string `json:",omitempty"`
}

// Scope returns the part of the keys unique to the organisation; "" when nobody has named it.
func (i SourceInfo) Scope() string { return cmp.Or(i.Organisation, i.Tenant) }

// Field declares one field of a source's records. Mappings are checked against
// these declarations when they are loaded.
type Field struct {
	Name        string
	Type        FieldType
	Description string
	Example     string
	Fields      []Field // the fields of an object, or of each element of a list

	Exported []string `json:",omitempty"` // the headings of the field in the system's own CSV export
}

// ExportedValues returns the values of the fields that the system writes into its export, by a name of the field.
func ExportedValues(fields []Field, data json.RawMessage) map[string]string {
	if !exports(fields) {
		return nil
	}
	out := map[string]string{}
	exportedIn(out, "", fields, data)
	return out
}

func exports(fields []Field) bool {
	return slices.ContainsFunc(fields, func(f Field) bool { return len(f.Exported) > 0 || exports(f.Fields) })
}

func exportedIn(out map[string]string, at string, fields []Field, data json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return
	}
	for _, f := range fields {
		if f.Type == TypeObject {
			exportedIn(out, at+f.Name+".", f.Fields, members[f.Name])
		}
		if value := plainText(members[f.Name]); len(f.Exported) > 0 && value != "" {
			out[at+f.Name] = value
		}
	}
}

// plainText is a text or a number as text; "" for anything else.
func plainText(raw json.RawMessage) string {
	var text string
	var number json.Number
	if json.Unmarshal(raw, &text) != nil && json.Unmarshal(raw, &number) == nil {
		text = number.String()
	}
	return strings.TrimSpace(text)
}

// ImportedValues returns the same values of a record that was read from the export, by the same names. The case of
// headings, and spaces around them, do not matter.
func ImportedValues(fields []Field, data json.RawMessage) map[string]string {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return nil
	}
	byHeading := map[string]string{}
	for name, raw := range members {
		byHeading[plainHeading(name)] = plainText(raw)
	}
	out := map[string]string{}
	importedIn(out, "", fields, byHeading)
	return out
}

func importedIn(out map[string]string, at string, fields []Field, byHeading map[string]string) {
	for _, f := range fields {
		importedIn(out, at+f.Name+".", f.Fields, byHeading)
		for _, heading := range f.Exported {
			if value := byHeading[plainHeading(heading)]; value != "" {
				out[at+f.Name] = value
				break
			}
		}
	}
}

func plainHeading(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// FieldType is the type of a source field as a mapping sees it.
type FieldType string

// The field types. Ids are text even if a system prints digits: a float64 would lose them
// (accounting/README.md#ids-are-texts).
const (
	TypeText   FieldType = "text"
	TypeNumber FieldType = "number"
	TypeFlag   FieldType = "flag"
	TypeObject FieldType = "object"
	TypeList   FieldType = "list"
)
