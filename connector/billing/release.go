package billing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"payersync/connector"
)

// ReleaseCustomer returns the change to release a fetched customer. writes are our updates to revert, newest first.
// keys are our pairs of externalData to remove.
//
// It reverts each update part by part (the name, each contact and address, each pair): a value changed by the update
// and still present returns to its earlier value. Later edits by others stay, and are listed. Keys are removed, except
// keys older than the oldest of the updates.
func (c *Client) ReleaseCustomer(fetched connector.RemoteCustomer, writes []connector.Written,
	keys map[string]string) (connector.Release, error) {
	var out connector.Release
	now, err := decodeObject(fetched.Raw)
	if err != nil {
		return out, fmt.Errorf("release customer %s: %w", fetched.ID, err)
	}
	o := slices.Clone(now)
	back := takingBack{readOnly: c.dialect.ReadOnly}
	var oldest object
	for _, w := range writes {
		was, err := decodeObject(w.Before)
		if err != nil {
			return out, fmt.Errorf("release customer %s, as it was: %w", fetched.ID, err)
		}
		sent, err := decodeObject(w.Sent)
		if err != nil {
			return out, fmt.Errorf("release customer %s, as it was sent: %w", fetched.ID, err)
		}
		c.dialect.dropReadOnly(&was)
		for _, key := range []string{ownName, ownPeople, ownAddresses, "externalData"} {
			back.put(&o, key, key, was.get(key), sent.get(key))
		}
		oldest = was
	}
	had := pairsOf(oldest.get("externalData"))
	var gone []string
	for name, value := range pairsOf(o.get("externalData")) {
		if _, before := had[name]; !before && keys[name] == value {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		merged, err := c.dialect.mergePairs(o.get("externalData"), nil, gone)
		if err != nil {
			return out, fmt.Errorf("release customer %s: %w", fetched.ID, err)
		}
		o.set("externalData", merged)
	}
	slices.Sort(back.kept)
	out.Kept, out.Diff = slices.Compact(back.kept), connector.Diff(c.dialect.customerOf(now), c.dialect.customerOf(o))
	if canonical(o.bytes()) == canonical(now.bytes()) {
		return out, nil
	}
	out.Body = c.updateBody(o, fetched.ID)
	return out, nil
}

// customerOf reads the mappable fields of a customer, with the indexes of contacts and addresses.
func (d Dialect) customerOf(o object) connector.Customer {
	out := connector.Customer{Name: scalar(o.get(ownName)), ExternalData: pairsOf(o.get("externalData"))}
	for element := range elements(o.get(ownPeople)) {
		out.People = append(out.People, d.personOf(element.bytes()))
	}
	for element := range elements(o.get(ownAddresses)) {
		out.Addresses = append(out.Addresses, addressOf(element.bytes()))
	}
	return out
}

// takingBack reverts one update, and names the parts changed by others since.
type takingBack struct {
	readOnly []string // members computed by the service: people.id
	kept     []string
}

// put restores a member.
func (b *takingBack) put(o *object, key, path string, was, sent json.RawMessage) {
	now := o.get(key)
	switch back := b.value(path, now, was, sent); {
	case back == nil:
		o.remove(key)
	case canonical(back) != canonical(now):
		o.set(key, back)
	}
}

// value returns the reverted value: an update changed it from was to sent, and it is now the value in now; nil for
// none.
func (b *takingBack) value(path string, now, was, sent json.RawMessage) json.RawMessage {
	switch {
	case canonical(was) == canonical(sent), canonical(now) == canonical(was):
		return now
	case canonical(now) == canonical(sent):
		return was
	}
	if back, done := b.members(path, now, was, sent); done {
		return back
	}
	if back, done := b.list(path, now, was, sent); done {
		return back
	}
	if now != nil && sent != nil && shownIn(now, sent) {
		return was
	}
	b.kept = append(b.kept, path)
	return now
}

// members is value for objects, member by member.
func (b *takingBack) members(path string, now, was, sent json.RawMessage) (json.RawMessage, bool) {
	is, err := parseObject(now)
	wrote, errSent := parseObject(sent)
	before, errWas := parseObject(was)
	if err != nil || errSent != nil || errWas != nil && !isNull(was) {
		return nil, false
	}
	for _, key := range keysOf(before, wrote) {
		b.put(&is, key, path+"."+key, before.get(key), wrote.get(key))
	}
	if len(is) == 0 && isNull(was) {
		return was, true
	}
	return is.bytes(), true
}

// list is value for lists. Our updates keep the order of elements and append new ones. Elements of ours keep the
// additions of others.
func (b *takingBack) list(path string, now, was, sent json.RawMessage) (json.RawMessage, bool) {
	is, err := split(now, '[')
	wrote, errSent := split(sent, '[')
	before, errWas := parseArray(was)
	if err != nil || errSent != nil || errWas != nil {
		return nil, false
	}
	if len(is) < len(wrote) {
		b.kept = append(b.kept, path)
		return now, true
	}
	var out []json.RawMessage
	put := func(element json.RawMessage) {
		if element != nil {
			out = append(out, element)
		}
	}
	at := 0
	for i, element := range wrote {
		for removed := at; removed < len(before); removed++ { // elements removed by the update
			if sameElement(before[removed], element) {
				out, at = append(out, before[at:removed]...), removed
				break
			}
		}
		var old json.RawMessage
		if at < len(before) {
			old = before[at]
			at++
		}
		put(b.element(path+"["+strconv.Itoa(i)+"]", is[i], old, element))
	}
	out = append(out, before[at:]...)
	out = append(out, is[len(wrote):]...)
	if len(out) == 0 && isNull(was) {
		return was, true
	}
	return joinArray(out), true
}

// element is value for an element of a list. It removes an element added by the update, except the additions of others.
func (b *takingBack) element(path string, now, was, sent json.RawMessage) json.RawMessage {
	switch {
	case canonical(was) == canonical(sent), canonical(now) == canonical(was):
		return now
	case !shownIn(now, sent):
		b.kept = append(b.kept, path)
		return now
	case was != nil:
		return b.value(path, now, was, sent)
	}
	left, err := parseObject(now)
	if err != nil {
		return nil
	}
	wrote, _ := parseObject(sent)
	for _, m := range wrote {
		left.remove(m.key)
	}
	list, _, _ := strings.Cut(path, "[")
	if !slices.ContainsFunc(left,
		func(m member) bool { return m.key != "id" && !slices.Contains(b.readOnly, list+"."+m.key) }) {
		return nil
	}
	b.kept = append(b.kept, path)
	return left.bytes()
}

// sameElement reports whether two elements are the same one, changed or not.
func sameElement(a, b json.RawMessage) bool {
	if canonical(a) == canonical(b) {
		return true
	}
	was, err := parseObject(a)
	is, errIs := parseObject(b)
	if err != nil || errIs != nil {
		return false
	}
	for _, key := range []string{"id", "email"} {
		if text := was.text(key); text != "" && text == is.text(key) {
			return true
		}
	}
	return false
}

// shownIn reports whether a value contains the sent value, in any form, possibly with additions by the service.
func shownIn(now, sent json.RawMessage) bool {
	if canonical(now) == canonical(sent) {
		return true
	}
	if wrote, err := parseObject(sent); err == nil {
		is, err := parseObject(now)
		return err == nil && !slices.ContainsFunc(wrote, func(m member) bool { return !shownIn(is.get(m.key), m.value) })
	}
	if wrote, err := split(sent, '['); err == nil {
		is, err := split(now, '[')
		return err == nil && slices.EqualFunc(is, wrote, shownIn)
	}
	a, b := scalar(now), scalar(sent)
	return a != "" && b != "" && connector.SameForm(a, b)
}
