package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"payersync/connector/sandbox"
)

// Acts of others in the billing service.

func (w *world) anyCustomer() (sandbox.Customer, bool) {
	all := w.service.Customers()
	if len(all) == 0 {
		return sandbox.Customer{}, false
	}
	at := slices.IndexFunc(all, func(c sandbox.Customer) bool { return c.ID == w.focus })
	if at >= 0 && w.minds.IntN(2) == 0 {
		return all[at], true
	}
	return all[w.minds.IntN(len(all))], true
}

func (w *world) editCustomer(edit func(c sandbox.Customer, o map[string]any)) error {
	c, ok := w.anyCustomer()
	if !ok {
		return nil
	}
	return w.editOne(c, func(o map[string]any) { edit(c, o) })
}

func (w *world) editOne(c sandbox.Customer, edit func(o map[string]any)) error {
	o := decode(c.Raw)
	edit(o)
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := w.service.Edit(c.ID, raw); err != nil {
		return err
	}
	w.oracle.edited(c.ID)
	return nil
}

// foreignFields writes values without a mapping rule: unknown fields, contacts of others, members inside our
// contact, other externalData pairs.
func (w *world) foreignFields() error {
	w.added++
	return w.editCustomer(func(_ sandbox.Customer, o map[string]any) {
		o["notes"] = map[string]any{"n": json.Number(fmt.Sprintf("1234567890123456789%d", w.added)),
			"deep": []any{w.added, nil, true}}
		people, _ := o["people"].([]any)
		switch w.minds.IntN(3) {
		case 0:
			people = append(people, map[string]any{"name": "Desk", "email": fmt.Sprintf("desk%d@other.test", w.added),
				"x": json.Number("1.50")})
		case 1:
			if len(people) > 0 {
				people[0].(map[string]any)["title"] = fmt.Sprint("Dr ", w.added)
			}
		default:
			external, _ := o["externalData"].(map[string]any)
			if external == nil {
				external = map[string]any{}
			}
			external["other"] = fmt.Sprint("o", w.added)
			o["externalData"] = external
		}
		if people != nil {
			o["people"] = people
		}
	})
}

func (w *world) foreignName() error {
	w.added++
	return w.editCustomer(func(c sandbox.Customer, o map[string]any) {
		o["name"] = fmt.Sprint("Renamed ", w.added)
		w.oracle.taintCustomer(c.ID, "renamed")
	})
}

func (w *world) foreignKeyGone() error {
	return w.editCustomer(func(c sandbox.Customer, o map[string]any) {
		w.oracle.taintCustomer(c.ID, "key gone")
		if c.ExternalData[keyName] != "" {
			w.taken = append(w.taken, keyTaken{c.ID, o["externalData"]})
		}
		delete(o, "externalData")
	})
}

func (w *world) foreignKeyOther() error {
	w.added++
	return w.editCustomer(func(c sandbox.Customer, o map[string]any) {
		w.oracle.taintCustomer(c.ID, "key other")
		o["externalData"] = map[string]any{keyName: fmt.Sprint("X", w.added)}
	})
}

// add adds a customer for others, up to a limit: a list that grows faster than its reading has no end.
func (w *world) add(o map[string]any) error {
	if len(w.oracle.foreign) >= maxStrangers {
		return nil
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	id, err := w.service.Add(raw)
	if err == nil {
		w.oracle.addedBy(id, o)
	}
	return err
}

// foreignDouble copies a customer with its key, or creates one with the key of an unlinked record, like
// another installation.
func (w *world) foreignDouble() error {
	_, f, ok := w.anyRecord()
	if !ok {
		return nil
	}
	w.oracle.taint(f.No, "doubled")
	return w.add(map[string]any{"name": f.Name, "externalData": map[string]any{keyName: f.No}})
}

func (w *world) foreignDelete() error {
	c, ok := w.anyCustomer()
	if !ok {
		return nil
	}
	w.oracle.taintCustomer(c.ID, "deleted")
	return w.service.Delete(c.ID)
}

// foreignAdd and foreignRemove move the pages of the list, and nothing of ours.
func (w *world) foreignAdd() error {
	w.added++
	return w.add(map[string]any{"name": fmt.Sprint("Stranger ", w.added),
		"people": []any{map[string]any{"email": fmt.Sprintf("s%d@other.test", w.added)}}})
}

func (w *world) foreignRemove() error {
	for _, c := range w.service.Customers() {
		if w.oracle.foreign[c.ID] && w.oracle.keys[c.ID] == nil {
			return w.service.Delete(c.ID)
		}
	}
	return nil
}

// foreignAlike adds a customer without a key, similar to a record of ours.
func (w *world) foreignAlike() error {
	_, f, ok := w.anyRecord()
	if !ok {
		return nil
	}
	return w.add(map[string]any{"name": f.Name, "people": []any{map[string]any{"name": "Someone", "email": f.Email}}})
}

// Payers, banks and operators.

func bankCancel(s *sandbox.Sandbox, id string) error { return s.BankCancel(id, "DECEASED") }

func (w *world) onMandate(do func(*sandbox.Sandbox, string) error) error {
	c, ok := w.anyCustomer()
	if !ok || len(c.Mandates) == 0 {
		return nil
	}
	id := c.Mandates[len(c.Mandates)-1].ID
	err := do(w.service, id)
	if errors.Is(err, sandbox.ErrStatus) {
		return nil
	}
	w.logf("mandate %s moves", id)
	return err
}

// overtake moves a mandate on and lets another reader see it, while the request
// under way may carry older news.
func (w *world) overtake() error {
	c, ok := w.anyCustomer()
	if !ok || len(c.Mandates) == 0 {
		return nil
	}
	id := c.Mandates[len(c.Mandates)-1].ID
	for _, move := range []func(*sandbox.Sandbox, string) error{(*sandbox.Sandbox).Sign, (*sandbox.Sandbox).Approve,
		bankCancel} {
		if err := move(w.service, id); err == nil {
			break
		}
	}
	p := w.anyProcess()
	if w.minds.IntN(2) == 0 {
		return w.sweep(p)
	}
	if err := w.deliver(); err != nil {
		return err
	}
	return w.drain(p)
}
