package billing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"payersync/connector"
)

// ReleaseCustomer says what lets a fetched customer go: writes are updates of ours that are
// taken back, the newest first, and keys are the pairs of externalData that mark it as ours.
//
// Each update is taken back part by part (the name, each contact and address, each pair):
// what it changed and the customer still shows comes to be what it was before. What
// somebody else has changed since stays, and is named. Keys are taken off, but for those
// that the customer had before the oldest of the updates.
func (c *Client) ReleaseCustomer(fetched connector.RemoteCustomer, writes []connector.Written, keys map[string]string) (connector.Release, error) {
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

// customerOf reads what a mapping may own of a customer, with the places that contacts and
// addresses have there.
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

// takingBack takes one update back, and names what somebody else has changed since.
type takingBack struct {
	readOnly []string // members that the service computes: people.id
	kept     []string
}

// put brings a member to what it was.
func (b *takingBack) put(o *object, key, path string, was, sent json.RawMessage) {
	now := o.get(key)
	switch back := b.value(path, now, was, sent); {
	case back == nil:
		o.remove(key)
	case canonical(back) != canonical(now):
		o.set(key, back)
	}
}

// value returns what a value that was changed from was to sent, and is now something, comes
// to be; nil for nothing at all.
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

// list is value for lists. Our updates keep the order of elements, and add new ones at the
// end. What somebody has added to an element of ours stays.
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
		for removed := at; removed < len(before); removed++ { // those that the update took out
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

// element is value for an element of a list; one that the update added is taken out, but for
// what somebody has added to it.
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
	if !slices.ContainsFunc(left, func(m member) bool { return m.key != "id" && !slices.Contains(b.readOnly, list+"."+m.key) }) {
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

// shownIn reports whether a value shows what was sent, in whatever form, beside what the
// service has added.
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
