package office

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

// written returns how an expression names a field. Below a list the path shows
// where it is; list functions go there.
func written(f syncer.FieldProfile) string {
	return mapping.Written(f.Name) + strings.TrimPrefix(f.Path, f.Name)
}
