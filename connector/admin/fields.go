package admin

import (
	"slices"
	"strings"

	"payersync/connector/syncer"
	"payersync/mapping"
)

// SourceField is a field of a source, how full it is, and values of it as they may be shown.
type SourceField struct {
	syncer.FieldProfile
	Written string `json:"written"` // how an expression names it
}

// SourceFields returns the fields of a source. Common values are shown whole: they sort people
// and tell of nobody.
func (p Privacy) SourceFields(profiles []syncer.FieldProfile) []SourceField {
	out := make([]SourceField, len(profiles))
	for i, f := range profiles {
		f.Examples = slices.Clone(f.Examples)
		for j, e := range f.Examples {
			shown := p
			shown.Whole = p.Whole || e.Common
			f.Examples[j].Value = shown.Field(f.Path, e.Value)
		}
		out[i] = SourceField{f, written(f)}
	}
	return out
}

// written returns the field's name in an expression. For a field inside a list, the path shows its place, for list
// functions.
func written(f syncer.FieldProfile) string {
	return mapping.Written(f.Name) + strings.TrimPrefix(f.Path, f.Name)
}
