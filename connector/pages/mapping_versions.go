package pages

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"payersync/connector/admin"
	"payersync/mapping"
	"payersync/state"
)

// quality shows values not understood by the mapping's rules, and records with the same name.
func (v *visit) quality() error {
	now, err := v.theMapping()
	if err != nil {
		return err
	}
	connection := v.PathValue("connection")
	content := struct {
		Connection, Path string
		Busy, Whole      bool
		NoMapping        bool
		Records          int
		admin.Quality
	}{Connection: connection, Path: mappingPath(connection), Whole: v.User.Role.May(Operator)}
	checked, err := v.pages.cfg.Mappings.Check(v.Context(), connection, []byte(now.Text))
	if err != nil {
		return err
	}
	if content.NoMapping = checked.Mapping == nil; content.NoMapping {
		return v.show("quality", "Data quality", content)
	}
	t, err := v.pages.cfg.Mappings.Quality(v.Context(), checked.Connection)
	if err == nil {
		err = t.Err
	}
	if err != nil {
		return err
	}
	found, counted := t.Result.(mapping.CoverageReport)
	content.Busy, content.Records = !counted, found.Records
	content.Quality = admin.Privacy{Whole: content.Whole}.Quality(found)
	return v.show("quality", "Data quality", content)
}

// versionOf returns the version of the connection's mapping with this prefix, among the versions used by its runs.
func (v *visit) versionOf(prefix string) (state.MappingVersion, error) {
	all, err := v.ledger().MappingVersions(v.Context(), v.PathValue("connection"))
	if err != nil {
		return state.MappingVersion{}, err
	}
	i := slices.IndexFunc(all,
		func(m state.MappingVersion) bool { return len(prefix) >= 6 && strings.HasPrefix(m.Hash, prefix) })
	if i < 0 {
		return state.MappingVersion{},
			problem{Status: http.StatusNotFound, Title: "There is no such version",
				Sentence: "No run of this connection has used a mapping of that version.", Next: "The page of versions lists them."}
	}
	return all[i], nil
}

// versionRow is a version of a mapping in a list.
type versionRow struct {
	state.MappingVersion
	Saved      state.Entry
	Now, InUse bool
}

// versions lists the versions of a mapping, and compares two of them.
func (v *visit) versions() error {
	now, err := v.theMapping()
	if err != nil {
		return err
	}
	ctx, connection := v.Context(), v.PathValue("connection")
	all, err := v.ledger().MappingVersions(ctx, connection)
	if err != nil {
		return err
	}
	inForce, err := v.ledger().MappingInForce(ctx, connection)
	if err != nil && !errors.Is(err, state.ErrNoMapping) {
		return err
	}
	if at := slices.IndexFunc(all, func(m state.MappingVersion) bool { return m.Hash == v.filled("after") }); at >= 0 {
		all = all[at+1:]
	}
	next := ""
	if len(all) > rowsShown {
		all = all[:rowsShown]
		next = all[rowsShown-1].Hash
	}
	content := struct {
		Connection, Path string
		File             string
		MayEdit          bool
		Rows             []versionRow
		Unused           bool
		Saved            state.Entry
		A, B             string
		Lines            []admin.DiffLine
		Compared         bool
		Pager            pager
	}{Connection: connection, Path: mappingPath(connection), File: now.Hash, MayEdit: v.User.Role.May(Admin),
		Pager: v.page(next), A: v.filled("a"), B: v.filled("b"), Unused: true}
	if content.Saved, err = v.ledger().MappingSavedBy(ctx, now.Hash); err != nil {
		return err
	}
	for _, m := range all {
		row := versionRow{MappingVersion: m, Now: m.Hash == now.Hash, InUse: m.Hash == inForce.Hash}
		content.Unused = content.Unused && !row.Now
		if row.Saved, err = v.ledger().MappingSavedBy(ctx, m.Hash); err != nil {
			return err
		}
		content.Rows = append(content.Rows, row)
	}
	if content.A != "" {
		if content.Lines, err = v.compared(now, content.A, content.B); err != nil {
			return err
		}
		content.Compared = true
	}
	return v.show("versions", "Versions of the mapping", content)
}

// compared returns the difference between two versions; "" and "file" are the file as it is.
func (v *visit) compared(now admin.MappingText, a, b string) ([]admin.DiffLine, error) {
	var texts [2]string
	for i, which := range []string{a, b} {
		texts[i] = now.Text
		if which != "" && which != "file" {
			found, err := v.versionOf(which)
			if err != nil {
				return nil, err
			}
			texts[i] = found.Text
		}
		if !v.User.Role.May(Operator) {
			texts[i] = withoutExamples(texts[i])
		}
	}
	return admin.DiffOf(texts[0], texts[1]), nil
}
