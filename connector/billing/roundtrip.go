package billing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"payersync/connector"
)

// UpdateWay says how updates are written: what of the dialect decides whether what others
// have put into a customer survives one. Another value of any of these is another way.
func (d Dialect) UpdateWay() string {
	return fmt.Sprintf("update=%s person_fields=%s person_primary=%s person_communication=%s address_fields=%s external_data=%s read_only=%s",
		d.Update, d.PersonFields, d.PersonPrimary, d.PersonComms, d.AddressFields, d.ExternalData,
		strings.Join(slices.Sorted(slices.Values(d.ReadOnly)), ","))
}

// UpdateWay returns the UpdateWay of the client's dialect.
func (c *Client) UpdateWay() string { return c.dialect.UpdateWay() }

// Others returns the kinds of foreign members on a customer, sorted: a member's name, people[] for a foreign contact,
// people[].NAME for a foreign member in one of ours, externalData for a foreign pair. It omits read-only and empty
// members. last, want and own are those of the merge.
func (c *Client) Others(raw json.RawMessage, last *connector.Customer, want connector.Customer, own []string) ([]string,
	error) {
	m := merge{dialect: c.dialect, want: want, own: own}
	if last != nil {
		m.last = *last
	}
	o, err := decodeObject(raw)
	if err != nil {
		return nil, fmt.Errorf("look what others have put into the customer: %w", err)
	}
	c.dialect.dropReadOnly(&o)
	var kinds []string
	for _, member := range o {
		switch key := member.key; {
		case key == "id", key == ownName && m.owns(key), blankJSON(member.value):
		case key == "externalData":
			if len(m.foreignPairs(member.value, nil)) > 0 {
				kinds = append(kinds, key)
			}
		case (key == ownPeople || key == ownAddresses) && m.owns(key):
			kinds = append(kinds, m.othersIn(key, member.value)...)
		default:
			kinds = append(kinds, key)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), nil
}

// othersIn is Others for a shared list.
func (m *merge) othersIn(key string, raw json.RawMessage) (kinds []string) {
	list, err := parseArray(raw)
	if err != nil {
		return []string{key}
	}
	for i, f := range m.plan(key, list).fates {
		if f.foreign() {
			kinds = append(kinds, key+"[]")
		}
		element, err := parseObject(list[i])
		if f.want == nil || err != nil {
			continue
		}
		for _, member := range element {
			if !f.want.owned(member.key) && !blankJSON(member.value) {
				kinds = append(kinds, key+"[]."+member.key)
			}
		}
	}
	return kinds
}

// blankJSON reports whether a value is empty, with nothing to lose.
func blankJSON(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", `""`, "{}", "[]"}, string(compact(raw)))
}

// standStill returns is, the value of a named member, with the stamps of an update reset to their values in was.
// Services write stamps at every update. A stamp is a later time, or a revision one higher than before. A number
// without a revision name may be an edit: the ledger determines whether it changes with every update.
func standStill(name string, was, is json.RawMessage) json.RawMessage {
	before, errBefore := parseObject(was)
	after, errAfter := parseObject(is)
	if errBefore == nil && errAfter == nil {
		for i, m := range after {
			after[i].value = standStill(m.key, before.get(m.key), m.value)
		}
		return after.bytes()
	}
	listed, errBefore := split(was, '[')
	list, errAfter := split(is, '[')
	if errBefore == nil && errAfter == nil && len(listed) == len(list) {
		for i := range list {
			list[i] = standStill(name, listed[i], list[i])
		}
		return joinArray(list)
	}
	if isRevision(name) && grewByOne(was, is) || movedOn(was, is) {
		return was
	}
	return is
}

// revisionWords are the words for an update counter in a member's name.
var revisionWords = []string{"version", "ver", "revision", "rev", "generation", "gen", "sequence", "seq", "etag",
	"modifications", "modcount", "updates", "changes", "edits"}

// isRevision reports whether a member counts updates, by the words of its name.
func isRevision(name string) bool {
	var words []string
	for i, r := range name {
		if i == 0 || unicode.IsUpper(r) || !unicode.IsLetter(r) {
			words = append(words, "")
		}
		if unicode.IsLetter(r) {
			words[len(words)-1] += string(unicode.ToLower(r))
		}
	}
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(revisionWords, word) })
}

func grewByOne(was, is json.RawMessage) bool {
	before, errBefore := strconv.ParseInt(string(was), 10, 64)
	after, errAfter := strconv.ParseInt(string(is), 10, 64)
	return errBefore == nil && errAfter == nil && after == before+1
}

func movedOn(was, is json.RawMessage) bool {
	before, after := scalar(was), scalar(is)
	if min(len(before), len(after)) < len("1700000000") || was[0] == '"' && !strings.Contains(before, "-") {
		return false // a short number is no time, nor is a text of digits: it may be a phone
	}
	then, errThen := ParseTime(before)
	now, errNow := ParseTime(after)
	return errThen == nil && errNow == nil && now.After(then)
}
