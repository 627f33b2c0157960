package admin

import (
	"slices"

	"payersync/connector/syncer"
)

// Preview returns a preview with its values as they may be shown.
func (p Privacy) Preview(v syncer.Preview) syncer.Preview {
	v.Blanked, v.Groups, v.Customers = slices.Clone(v.Blanked), slices.Clone(v.Groups), slices.Clone(v.Customers)
	for i := range v.Blanked {
		v.Blanked[i].From = p.Field(v.Blanked[i].Path, v.Blanked[i].From)
	}
	for i := range v.Groups {
		v.Groups[i].Example = p.Diff(v.Groups[i].Example)
	}
	for i := range v.Customers {
		v.Customers[i].Diff = p.Diff(v.Customers[i].Diff)
	}
	return v
}
