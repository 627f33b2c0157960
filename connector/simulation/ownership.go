package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// checkIntegrity checks S16.
func (w *world) checkIntegrity(p *process) {
	if err := p.ledger.Integrity(context.Background()); err != nil {
		w.violate("S16", "%v", err)
	}
}

// ours reports whether a contact is one of the mappings'.
func ours(person map[string]any) bool {
	email, _ := person["email"].(string)
	name, _ := person["name"].(string)
	return strings.HasSuffix(email, "@payer.test") || email == "" && strings.HasPrefix(name, "Payer ")
}

var ownMembers = []string{"name", "email", "phone"}

// foreignPart returns, in one spelling, all parts of a customer without a mapping rule.
func foreignPart(raw []byte) string {
	o := decode(raw)
	for _, name := range []string{"id", "name", "addresses", "timezone", "directDebitMandate"} {
		delete(o, name)
	}
	if external, _ := o["externalData"].(map[string]any); external != nil {
		delete(external, keyName)
		delete(external, "tier")
	}
	if external, _ := o["externalData"].(map[string]any); len(external) == 0 {
		delete(o, "externalData")
	}
	var people []string
	list, _ := o["people"].([]any)
	for _, one := range list {
		person, _ := one.(map[string]any)
		if ours(person) {
			for _, name := range ownMembers {
				delete(person, name)
			}
		}
		if len(person) > 0 {
			people = append(people, text(person))
		}
	}
	delete(o, "people")
	slices.Sort(people)
	return text(o) + strings.Join(people, " ")
}

// managedPart returns, in one spelling, the parts of a customer with a mapping rule.
func managedPart(raw []byte) string {
	o := decode(raw)
	external, _ := o["externalData"].(map[string]any)
	out := []any{o["name"], o["addresses"], external[keyName], external["tier"]}
	list, _ := o["people"].([]any)
	for _, one := range list {
		if person, _ := one.(map[string]any); ours(person) {
			for _, name := range ownMembers {
				out = append(out, person[name])
			}
		}
	}
	return text(out)
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
