package pages

import (
	"cmp"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
)

// side is a field of a customer on both sides.
type side struct {
	Label, Ours, Theirs string
	Differs             bool
	Mark                string // a person's or others' decision on it
}

// Note returns what a row says besides its two values; "" for a plain difference, which the colours and the sentence
// above the table show.
func (s side) Note() string {
	if s.Mark == "" && !s.Differs && s.Ours != "" && s.Ours != s.Theirs {
		return "Waiting to be sent"
	}
	return s.Mark
}

// sides compares the mapped record with the customer at the billing service, as visible to the visitor.
func (v *visit) sides(p admin.Payer) (out []side, changed bool) {
	foreign := ""
	for _, a := range p.Attention {
		if a.Reason == string(connector.ReasonForeignChange) {
			foreign, changed = a.Detail, true
		}
	}
	ours, theirs := map[string]string{}, map[string]string{}
	if p.Customer != nil {
		for _, d := range connector.Diff(connector.Customer{}, *p.Customer) {
			ours[d.Path] = d.To
		}
	}
	sent := map[string]string{} // the sent values that differ in the service
	for _, h := range p.Holds() {
		if theirs[h.Path] = h.Value; h.Otherwise {
			sent[h.Path] = h.Sent
		}
	}
	paths := map[string]bool{}
	for path := range ours {
		paths[path] = true
	}
	for path := range theirs {
		paths[path] = true
	}
	for path := range paths {
		s := side{Label: admin.FieldLabel(path), Ours: ours[path], Theirs: theirs[path], Differs: p.Customer != nil &&
			p.Applied != nil && ours[path] != theirs[path]}
		switch {
		case strings.HasSuffix(path, ".email"):
			s.Ours, s.Theirs = v.email(s.Ours), v.email(s.Theirs)
		case path != "name" && !v.User.Role.May(Operator):
			continue
		}
		part, _, _ := strings.Cut(path, "[")
		switch {
		case foreign != "" && strings.Contains(foreign, path):
			s.Mark = "Changed by others"
		case slices.Contains(p.Ignored, part):
			s.Mark = "Left to the billing service"
		case slices.ContainsFunc(p.Accepted, func(a string) bool { return path == a || strings.HasPrefix(path, a+".") }):
			s.Mark = "Changed by others; a person accepted it"
		case slices.Contains(p.NotSent, path):
			s.Mark = "On hold: the billing service has no field for it"
		}
		if words := v.sentWords(path, sent); words != "" && !slices.Contains(p.NotSent, path) {
			s.Mark = strings.TrimPrefix(s.Mark+". "+words, ". ")
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b side) int {
		return cmp.Or(admin.FieldOrder(a.Label)-admin.FieldOrder(b.Label), cmp.Compare(a.Label, b.Label))
	})
	return out, changed
}

// sentWords describes the value sent for a field if the billing service has another value; "" if they agree.
func (v *visit) sentWords(path string, sent map[string]string) string {
	value, otherwise := sent[path]
	switch {
	case !otherwise:
		return ""
	case value == "":
		return "We sent nothing"
	case strings.HasSuffix(path, ".email"):
		value = v.email(value)
	}
	return "We sent " + value
}
