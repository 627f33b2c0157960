package billing

import (
	"encoding/json"
	"slices"

	"payersync/connector"
)

// listPlan holds the fate of each element of a list, and the additions.
type listPlan struct {
	fates []fate
	added []part
}

// fate is the fate of one element; the zero value leaves it alone.
type fate struct {
	want   *part // it is ours and is brought to this
	last   *part // our last written value, if any
	remove bool  // it was ours and is no longer wanted
}

func (f fate) foreign() bool { return f.want == nil && !f.remove }

func (p listPlan) apply(list []json.RawMessage, long bool) []json.RawMessage {
	var out []json.RawMessage
	for i, raw := range list {
		switch f := p.fates[i]; {
		case f.want != nil:
			out = append(out, f.want.update(raw, f.last, long))
		case !f.remove:
			out = append(out, raw)
		}
	}
	out = append(out, connector.Map(p.added, func(part part) json.RawMessage { return part.write(long) })...)
	return out
}

// planAddresses goes by place, because the service takes one address only: what
// is there is what a wanted address replaces. One is removed only while it is
// still recognisably what we wrote.
func planAddresses(list []json.RawMessage, last, want []part) listPlan {
	plan := listPlan{fates: make([]fate, len(list))}
	for i := range want {
		if i >= len(list) {
			plan.added = append(plan.added, want[i])
			continue
		}
		plan.fates[i] = fate{want: &want[i], last: at(last, i)}
	}
	for i := len(want); i < min(len(last), len(list)); i++ {
		plan.fates[i].remove = last[i].recognisable(list[i])
	}
	return plan
}

// recognisable reports whether an address still has our street or post code.
func (p part) recognisable(raw json.RawMessage) bool {
	o, err := parseObject(raw)
	return err == nil && slices.ContainsFunc(slices.Concat(p.short, p.long), func(f field) bool {
		return (f.about == "line1" || f.about == "postCode") && f.value != "" && scalar(o.get(f.key)) == f.value
	})
}

func at(parts []part, i int) *part {
	if i < len(parts) {
		return &parts[i]
	}
	return nil
}

// peoplePlan matches people with list elements.
type peoplePlan struct {
	listPlan
	views      []view
	known      []bool // the element is an object, so its view says something
	last, want []part
	succeeded  []bool // the last person's element was taken over by another
}

func planPeople(list []json.RawMessage, last, want []part) listPlan {
	p := peoplePlan{last: last, want: want, views: make([]view, len(list)), known: make([]bool, len(list))}
	p.fates, p.succeeded = make([]fate, len(list)), make([]bool, len(last))
	for i, raw := range list {
		p.views[i], p.known[i] = viewOf(raw)
	}
	found := make([]bool, len(want))
	for j := range want {
		found[j] = p.claim(p.find(want[j]), &want[j], p.written(want[j]))
	}
	before := p.predecessors(found)
	for _, finds := range []func(before part, k int, want part) int{p.identified, p.alike, p.inPlaceOf} {
		for j, k := range before {
			if !found[j] && k >= 0 && p.claim(finds(last[k], k, want[j]), &want[j], &last[k]) {
				found[j], p.succeeded[k] = true, true
			}
		}
	}
	for j := range want {
		if !found[j] {
			p.added = append(p.added, want[j])
		}
	}
	p.removeUnwanted()
	return p.listPlan
}

func (p *peoplePlan) claim(i int, want, last *part) bool {
	if i >= 0 {
		p.fates[i] = fate{want: want, last: last}
	}
	return i >= 0
}

// free reports whether an element can still be recognised as somebody.
func (p *peoplePlan) free(i int) bool { return p.known[i] && p.fates[i].foreign() }

// find returns the free element of a person; -1 for none. If several share an address, the same name comes first.
func (p *peoplePlan) find(who part) int {
	best := -1
	for i, v := range p.views {
		if !p.free(i) || !who.is(v) {
			continue
		}
		if sameLabel(v.label, who.label) {
			return i
		}
		if best < 0 {
			best = i
		}
	}
	return best
}

// written returns the person as we wrote them before, if we did.
func (p *peoplePlan) written(who part) *part {
	i := slices.IndexFunc(p.last, who.same)
	if i < 0 {
		return nil
	}
	return &p.last[i]
}

// predecessors returns the index in last, our earlier list, for each wanted person without an element in the service's
// list. It prefers the same person, then a removed person with the same name, then one at the same index. A new person
// gets -1.
func (p *peoplePlan) predecessors(found []bool) []int {
	out, taken := make([]int, len(p.want)), make([]bool, len(p.last))
	for j := range out {
		out[j] = -1
	}
	for k, who := range p.last {
		taken[k] = slices.ContainsFunc(p.want, who.same)
	}
	pair := func(fits func(j, k int) bool) {
		for j := range p.want {
			for k := range p.last {
				if !found[j] && out[j] < 0 && fits(j, k) {
					out[j], taken[k] = k, true
				}
			}
		}
	}
	pair(func(j, k int) bool { return p.want[j].same(p.last[k]) && !slices.Contains(out, k) })
	pair(func(j, k int) bool {
		return !taken[k] && p.want[j].label != "" && sameLabel(p.want[j].label, p.last[k].label)
	})
	pair(func(j, k int) bool { return !taken[k] && j == k })
	return out
}

// identified returns the element of a person written by us, by address or by the service's id; -1 for none.
func (p *peoplePlan) identified(before part, _ int, _ part) int {
	if i := p.find(before); i >= 0 || before.id == "" {
		return i
	}
	for i, v := range p.views {
		if v.id == before.id && p.mayBe(i, before) {
			return i
		}
	}
	return -1
}

// mayBe reports whether an element may be a person written by us: it is free, and matches no other person written by
// us.
func (p *peoplePlan) mayBe(i int, before part) bool {
	return p.free(i) && !slices.ContainsFunc(p.last, func(other part) bool {
		return !other.same(before) && (other.is(p.views[i]) || other.id != "" && other.id == p.views[i].id)
	})
}

// alike returns the only element with the name and phone of a person written by us, preferring the same index; -1 for
// none or several.
func (p *peoplePlan) alike(before part, k int, _ part) int {
	fits := func(i int) bool {
		v := p.views[i]
		return p.mayBe(i, before) && v.label != "" && sameLabel(v.label, before.label) &&
			connector.SameForm(v.phone, before.phone)
	}
	if k < len(p.views) && fits(k) {
		return k
	}
	only := -1
	for i := range p.views {
		if fits(i) {
			if only >= 0 {
				return -1
			}
			only = i
		}
	}
	return only
}

// inPlaceOf returns the index of the element at the place of a person written by us. The element must still have the
// person's name or phone number, or the wanted name; otherwise -1.
func (p *peoplePlan) inPlaceOf(before part, k int, want part) int {
	if k >= len(p.views) || !p.mayBe(k, before) {
		return -1
	}
	v := p.views[k]
	named := v.label != "" && (sameLabel(v.label, before.label) || sameLabel(v.label, want.label))
	if named || v.phone != "" && connector.SameForm(v.phone, before.phone) {
		return k
	}
	return -1
}

// removeUnwanted marks the elements of people written by us and no longer wanted. A person with another name stays: it
// may be a colleague's contact at the same e-mail address, after ours was removed.
func (p *peoplePlan) removeUnwanted() {
	for j, who := range p.last {
		if p.succeeded[j] || slices.ContainsFunc(p.want, who.same) {
			continue
		}
		if i := p.find(who); i >= 0 && who.looksLike(p.views[i]) {
			p.fates[i].remove = true
		}
	}
}
