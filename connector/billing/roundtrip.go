package billing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"payersync/connector"
)

// UpdateWay says how updates are written: what of the dialect decides whether what others
// have put into a customer survives one. Another value of any of these is another way.
func (d Dialect) UpdateWay() string {
	return fmt.Sprintf("update=%s person_fields=%s person_primary=%s person_communication=%s address_fields=%s external_data=%s read_only=%s",
		d.Update, d.PersonFields, d.PersonPrimary, d.PersonComms, d.AddressFields, d.ExternalData, strings.Join(slices.Sorted(slices.Values(d.ReadOnly)), ","))
}

// UpdateWay is that of the client's dialect.
func (c *Client) UpdateWay() string { return c.dialect.UpdateWay() }

// Others returns the kinds of members that a customer holds and that are not ours, sorted:
// a member's name, people[] for a contact of others, people[].NAME for what they have put
// into one of ours, externalData for a pair of theirs. What the dialect calls read-only is
// not among them, nor what holds nothing. last, want and own are those of the merge.
func (c *Client) Others(raw json.RawMessage, last *connector.Customer, want connector.Customer, own []string) ([]string, error) {
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

// othersIn is Others for a list that we share with others.
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

// blankJSON reports whether a value holds nothing that could be lost.
func blankJSON(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", `""`, "{}", "[]"}, string(compact(raw)))
}

// standStill returns is with the stamps of an update reset to their values in was. A stamp is a
// time that became later, or a number that grew by one. Services write both at every update.
func standStill(was, is json.RawMessage) json.RawMessage {
	before, errBefore := parseObject(was)
	after, errAfter := parseObject(is)
	if errBefore == nil && errAfter == nil {
		for i, m := range after {
			after[i].value = standStill(before.get(m.key), m.value)
		}
		return after.bytes()
	}
	listed, errBefore := split(was, '[')
	list, errAfter := split(is, '[')
	if errBefore == nil && errAfter == nil && len(listed) == len(list) {
		for i := range list {
			list[i] = standStill(listed[i], list[i])
		}
		return joinArray(list)
	}
	if movedOn(was, is) {
		return was
	}
	return is
}

func movedOn(was, is json.RawMessage) bool {
	if before, err := strconv.ParseInt(string(was), 10, 64); err == nil {
		if after, err := strconv.ParseInt(string(is), 10, 64); err == nil && after == before+1 {
			return true
		}
	}
	before, after := scalar(was), scalar(is)
	if min(len(before), len(after)) < len("1700000000") || was[0] == '"' && !strings.Contains(before, "-") {
		return false // a short number is no time, nor is a text of digits, which may be a phone
	}
	then, errThen := ParseTime(before)
	now, errNow := ParseTime(after)
	return errThen == nil && errNow == nil && now.After(then)
}
