package httpsource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// reader turns the rows of one read into records. It is not safe for concurrent use.
type reader struct {
	*Source
	env    map[string]any                          // the variables of rules for a record
	joined map[string]map[string][]json.RawMessage // the rows of further lists, by field and record
}

func (s *Source) reader(tenant string) *reader {
	env := copyOf(s.set)
	env["tenant"] = tenant
	return &reader{Source: s, env: env}
}

// record turns a row into a record. An unreadable one has a Problem, and stops no other.
func (r *reader) record(raw json.RawMessage) connector.Record {
	p := r.profile
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return r.spoilt(unnamed(raw), "The "+p.file.Record.Noun+" is not an object.")
	}
	if err := r.fillEnv(raw, members); err != nil {
		return r.spoilt(unnamed(raw), "The "+p.file.Record.Noun+" holds a value that is no JSON.")
	}
	text, err := r.id()
	if err != nil || strings.TrimSpace(text) == "" {
		return r.spoilt(unnamed(raw), "The "+p.file.Record.Noun+" came without an id.")
	}
	if err := r.withJoined(members, text); err != nil {
		return r.spoilt(text, "The "+p.file.Record.Noun+" holds a value that is no JSON.")
	}
	data, problem := accounting.DeclaredMembers(r.withoutEmpty(members), p.fields)
	if problem != "" {
		return r.spoilt(text, problem)
	}
	out := connector.Record{SourceID: text, Data: data, Origin: p.Title() + " " + p.file.Record.Noun + " " + text}
	if p.updated != nil {
		if v, err := p.updated.run(r.env); err == nil {
			out.UpdatedAt = r.time(v)
		}
	}
	if out.State, out.MergedInto, problem = r.state(); problem == "" {
		problem = r.problem()
	}
	if problem != "" {
		return r.spoilt(text, problem)
	}
	return out
}

// id is the id of the record in env.
func (r *reader) id() (string, error) {
	id, err := r.profile.id.run(r.env)
	return wordsOf(id), err
}

// idOf returns the id of a row.
func (r *reader) idOf(raw json.RawMessage) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return "", err
	}
	if err := r.fillEnv(raw, members); err != nil {
		return "", err
	}
	return r.id()
}

// fillEnv sets the variables that rules of a record read.
func (r *reader) fillEnv(raw json.RawMessage, members map[string]json.RawMessage) (err error) {
	for _, name := range r.profile.recordNames {
		switch member, there := members[name]; {
		case name == "record":
			r.env[name], err = valueOf(raw)
		case name == "set", name == "tenant", strings.Contains(name, "."):
		case !there || r.isEmpty(name, member):
			r.env[name] = nil
		default:
			r.env[name], err = valueOf(member)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isEmpty reports whether a value is what the system writes for nothing. A flag is never empty.
func (r *reader) isEmpty(field string, value json.RawMessage) bool {
	empty := r.profile.file.Record.Empty
	return empty != "" && string(value) == empty && r.profile.kinds[field] != connector.TypeFlag
}

func (r *reader) withoutEmpty(members map[string]json.RawMessage) map[string]json.RawMessage {
	if r.profile.file.Record.Empty == "" {
		return members
	}
	for name, value := range members {
		if r.isEmpty(name, value) {
			members[name] = json.RawMessage("null")
		}
	}
	return members
}

// state returns the state of a record, and the survivor of a merge. A status that no rule knows is unknown.
func (r *reader) state() (state connector.RecordState, survivor, problem string) {
	p := r.profile
	for i, rule := range p.states {
		yes, err := rule.is(r.env)
		if err != nil {
			return connector.RecordUnknown, "", fmt.Sprintf("The state of the %s cannot be told.", p.file.Record.Noun)
		}
		if !yes {
			continue
		}
		if p.survivors[i] != nil {
			into, err := p.survivors[i].run(r.env)
			if survivor = wordsOf(into); err != nil || survivor == "" {
				return connector.RecordUnknown, "",
					fmt.Sprintf("The %s was merged, and the other one is not named.", p.file.Record.Noun)
			}
		}
		return connector.RecordState(p.file.Record.States[i].Is), survivor, ""
	}
	return connector.RecordUnknown, "", ""
}

func (r *reader) problem() string {
	for i, rule := range r.profile.problems {
		yes, err := rule.is(r.env)
		if err != nil {
			return fmt.Sprintf("The %s cannot be judged: a value is not as expected.", r.profile.file.Record.Noun)
		}
		if yes {
			return r.profile.file.Record.Problems[i].Say
		}
	}
	return ""
}

func (r *reader) spoilt(id, problem string) connector.Record {
	return connector.Record{SourceID: id, State: connector.RecordActive, Data: json.RawMessage("{}"),
		Origin: r.profile.Title() + " " + r.profile.file.Record.Noun + " " + id, Problem: problem}
}

// unnamed returns the id of a record without one: the same for the same bytes, and unlike any id of a system.
func unnamed(raw json.RawMessage) string {
	sum := sha256.Sum256(bytes.TrimSpace(raw))
	return withoutID + hex.EncodeToString(sum[:8])
}

// withoutID begins the ids of records without one.
const withoutID = "without id "

// isUnnamed reports whether a record has an id of unnamed.
func isUnnamed(r connector.Record) bool {
	return r.Problem != "" && strings.HasPrefix(r.SourceID, withoutID)
}

// wordsOf returns a text or a whole number as text; "" for anything else.
func wordsOf(v any) string {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v)
	case int:
		return strconv.Itoa(v)
	}
	return ""
}

var msDate = regexp.MustCompile(`^/Date\((-?\d{1,15})(?:[+-]\d{4})?\)/$`)

// time reads a time of last edit in one of the profile's forms. It returns the zero time for anything else: the time
// decides nothing.
func (r *reader) time(v any) time.Time {
	for _, form := range r.profile.file.Record.Times {
		if t := readTime(form, v, r.zone); !t.IsZero() {
			return accounting.EditTime(t)
		}
	}
	return time.Time{}
}

func readTime(form string, v any, zone *time.Location) time.Time {
	words, number := wordsOf(v), int64(0)
	if n, err := strconv.ParseInt(words, 10, 64); err == nil {
		number = n
	}
	switch form {
	case "ms-date":
		if m := msDate.FindStringSubmatch(words); m != nil {
			ms, _ := strconv.ParseInt(m[1], 10, 64)
			t := time.UnixMilli(ms).UTC()
			// some systems write their local time so
			return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone)
		}
	case "unix", "unix-ms":
		if number <= 0 {
			return time.Time{}
		}
		if form == "unix" {
			return time.Unix(number, 0)
		}
		return time.UnixMilli(number)
	default:
		if t, err := time.ParseInLocation(form, words, zone); err == nil {
			return t
		}
	}
	return time.Time{}
}
