package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

// plans lists the waiting plans, oldest first, and then the others, newest first.
func (v *visit) plans() error {
	waiting, err := v.ledger().WaitingPlans(v.Context())
	if err != nil {
		return err
	}
	only := v.filled("show") == "waiting"
	after, _ := strconv.ParseInt(v.filled("after"), 10, 64)
	var others []state.Plan
	if !only {
		if others, err = v.ledger().PlanPage(v.Context(), after, rowsShown+1); err != nil {
			return err
		}
	}
	next := ""
	if len(others) > rowsShown {
		others = others[:rowsShown]
		next = strconv.FormatInt(others[rowsShown-1].ID, 10)
	}
	return v.show("plans", "Plans", struct {
		Waiting, Others []state.Plan
		Only            bool // the waiting ones
		Pager           pager
	}{waiting, others, only, v.page(next)})
}

// planPage is one plan as its page shows it.
type planPage struct {
	admin.PlanProgress
	Takes    time.Duration
	Touches  []syncer.FieldCount
	Tiles    []tile
	Groups   []planGroup
	Listed   listedPart
	Losses   []lostRow
	LostMore int
	Stale    bool
	NotAsked []admin.NotAsked
	Movable  []leads // from connections whose payers the new customers may be

	MayJudge bool // the user may approve and reject
	MayRun   bool
}

// tile is a figure of a plan.
type tile struct{ Figure, Word string }

// tiles returns the figures of a plan.
func (p planPage) tiles() (out []tile) {
	for _, t := range []struct {
		n          int
		one, other string
	}{
		{p.Creates, "new customer", "new customers"}, {p.Adopts, "link", "links"}, {p.Updates, "update", "updates"},
		{p.Links, "signing link", "signing links"}, {p.Holds, "on hold", "on hold"},
		{p.Alike, "matches another payer", "match other payers"}, {p.Missing, "record removed", "records removed"},
		{p.Lost, "payer would be lost", "payers would be lost"},
	} {
		switch {
		case t.n == 1:
			out = append(out, tile{"1", t.one})
		case t.n > 1:
			out = append(out, tile{number(t.n), t.other})
		}
	}
	if p.Requests() > 0 && p.Takes > 0 {
		out = append(out, tile{admin.Roughly(p.Takes), "for " + number(p.Requests()) + " requests"})
	}
	return out
}

// planGroup are changes of one kind, some of them or all.
type planGroup struct {
	Kind        state.PlanGroup
	Title, Hint string
	Count       int
	Rows        []plannedRow
	More        string // leads to the next; "" on the last page
	First       string // leads to the first page; "" on it
	Alone       bool   // on the page
}

// foldedFrom is how many rows of a group are folded away, so that a whole plan fits a phone.
const foldedFrom = 11

const (
	firstRows   = 4  // of a large group stand open
	rowsOfGroup = 15 // are on the page of the whole plan, so that it stays below 30 kB
)

// Open reports whether the rows of the group are shown at once: those to look at first, new ones, a few, and a page of
// its own.
func (g planGroup) Open() bool {
	return g.Kind == state.GroupWatch || g.Count < foldedFrom || g.Alone ||
		slices.ContainsFunc(g.Rows, func(r plannedRow) bool { return r.New })
}

// Tables returns the rows as one table. A large group has two: the page shows the first and folds the second.
func (g planGroup) Tables() [][]plannedRow {
	if g.Alone || len(g.Rows) < foldedFrom || !g.Open() ||
		slices.ContainsFunc(g.Rows, func(r plannedRow) bool { return r.New }) {
		return [][]plannedRow{g.Rows}
	}
	return [][]plannedRow{g.Rows[:firstRows], g.Rows[firstRows:]}
}

// Bare reports whether a change has no earlier state.
func (g planGroup) Bare() bool { return g.Kind == state.GroupCreate }

// Names reports whether the payers' names say everything about the changes.
func (g planGroup) Names() bool { return g.Kind == state.GroupLink }

var groupTitles = map[state.PlanGroup][2]string{
	state.GroupWatch: {"Look at these first",
		"They empty a field, change a name or an e-mail address, remove a number, or create a customer that matches another payer."},
	state.GroupAdopt:  {"Customers to link", "They exist in the billing service, and get the keys of these payers."},
	state.GroupUpdate: {"Customers to update", ""},
	state.GroupCreate: {"New customers", ""},
	state.GroupLink:   {"Signing links to request", "Each request creates an unsigned mandate. It sends no letter."},
}

// plannedRow is a change of a plan.
type plannedRow struct {
	ID     int64
	Who    payerName
	Does   string
	Fields []fieldRow
	Notes  []string
	Said   chip // the decision on it; zero for none
	New    bool
}

// fieldRow is a field before and after.
type fieldRow struct {
	Path, Field, Now, After string
	Emptied, Warn           bool
}

// payerName is a payer as a list names it.
type payerName struct{ Connection, SourceID, Name string }

// lostRow is a payer lost if a stopped plan goes ahead.
type lostRow struct {
	Who payerName
	Why string
}

// planAsked returns the plan named by the address.
func (v *visit) planAsked() (admin.PlanProgress, error) {
	n, err := strconv.ParseInt(v.PathValue("n"), 10, 64)
	if err != nil {
		return admin.PlanProgress{}, noPlan
	}
	found, err := v.ledger().FindPlan(v.Context(), strconv.FormatInt(n, 10))
	switch {
	case errors.Is(err, state.ErrPlanNotWaiting), err == nil && found.ID != n:
		return admin.PlanProgress{}, noPlan
	case err != nil:
		return admin.PlanProgress{}, err
	}
	return admin.PlanOf(v.Context(), v.ledger(), found)
}

var noPlan = problem{Status: http.StatusNotFound, Title: "There is no such plan", Sentence: "No plan has this number.",
	Next: "The list of plans shows all plans with changes."}

func (v *visit) plan() error {
	p, err := v.planAsked()
	if err != nil {
		return err
	}
	page, err := v.planPage(p, 0)
	if err != nil {
		return err
	}
	return v.show("plan", fmt.Sprintf("Plan %d", p.ID), page)
}

// planPage gathers the content of a plan's page. Changes after seen are marked as new, unless seen is 0.
func (v *visit) planPage(p admin.PlanProgress, seen int64) (planPage, error) {
	page := planPage{
		PlanProgress: p, Takes: p.Takes(v.pages.cfg.Rate),
		MayJudge: v.User.Role.May(v.pages.cfg.Approvers), MayRun: v.pages.cfg.Starter != nil && v.User.Role.May(Operator),
	}
	ctx, ledger := v.Context(), v.ledger()
	var err error
	if p.State != state.PlanApplied && p.State != state.PlanSuperseded {
		if page.NotAsked, err = v.notAsked(p.Connection); err != nil {
			return page, err
		}
	}
	if page.Movable, err = v.movable(p); err != nil {
		return page, err
	}
	if page.Touches, err = admin.TouchedWords(ctx, ledger, p.Plan); err != nil {
		return page, err
	}
	page.Tiles = page.tiles()
	counts, err := admin.GroupCounts(ctx, ledger, p)
	if err != nil {
		return page, err
	}
	only := state.PlanGroup(v.URL.Query().Get("group"))
	after, _ := strconv.ParseInt(v.URL.Query().Get("after"), 10, 64)
	for _, kind := range state.PlanGroups {
		if counts[kind] == 0 || only != "" && only != kind {
			continue
		}
		g, err := v.planGroup(p.Plan, kind, only != "", after, seen)
		if err != nil {
			return page, err
		}
		g.Count = counts[kind]
		page.Groups = append(page.Groups, g)
	}
	if only == "" && p.Settled() > 0 {
		page.Listed, err = v.listedPart(p)
	}
	return page, errors.Join(err, v.addLosses(&page))
}

// movable leads to the moves to a plan's connection from those that are no longer configured.
func (v *visit) movable(p admin.PlanProgress) (out []leads, err error) {
	if p.Creates == 0 || !p.Approvable() || !v.User.Role.May(Operator) || v.pages.cfg.Moves == nil ||
		!v.pages.served["/connections/move"] {
		return nil, nil
	}
	names, err := v.ledger().ConnectionNames(v.Context())
	for _, name := range names {
		if v.reads(name) {
			continue
		}
		moved, err := v.ledger().MovedTo(v.Context(), name)
		if err != nil {
			return nil, err
		}
		if moved == nil {
			out = append(out, leads{movesPath(name, p.Connection), name})
		}
	}
	return out, err
}

func (v *visit) planGroup(p state.Plan, kind state.PlanGroup, alone bool, after, seen int64) (planGroup, error) {
	g := planGroup{Kind: kind, Alone: alone, Title: groupTitles[kind][0], Hint: groupTitles[kind][1]}
	most := rowsOfGroup
	if alone {
		most = wideRowsShown
	}
	var changes []state.Change
	var err error
	if seen > 0 { // the new ones of a group stand alone, if there are some
		if changes, err = v.ledger().PlanGroupChanges(v.Context(), p, kind, seen, most+1); len(changes) > 0 {
			after = seen
		}
	}
	if err == nil && len(changes) == 0 {
		changes, err = v.ledger().PlanGroupChanges(v.Context(), p, kind, after, most+1)
	}
	if err != nil {
		return g, err
	}
	here := fmt.Sprintf("/plans/%d?group=%s", p.ID, kind)
	if after > 0 {
		g.First = here
	}
	if len(changes) > most {
		changes = changes[:most]
		g.More = fmt.Sprintf("%s&after=%d", here, changes[most-1].ID)
	}
	ids := make([]state.RecordID, len(changes))
	for i, c := range changes {
		ids[i] = state.RecordID{Connection: c.Payer.Connection, SourceID: c.Payer.SourceID}
	}
	labels, err := v.ledger().LabelsOf(v.Context(), ids)
	if err != nil {
		return g, err
	}
	for i, c := range changes {
		row, err := v.plannedRow(c, labels[ids[i]].Name)
		if err != nil {
			return g, err
		}
		row.New = seen > 0 && c.ID > seen
		g.Rows = append(g.Rows, row)
	}
	return g, nil
}

func (v *visit) plannedRow(c state.Change, name string) (plannedRow, error) {
	row := plannedRow{ID: c.ID, Who: payerName{c.Payer.Connection, c.Payer.SourceID, name}, Does: does[c.Does()]}
	switch {
	case c.Approved:
		row.Said = chip{"✓", "Approved", good}
	case c.LeftOut:
		row.Said = chip{"◷", "Not approved yet", waits}
	}
	row.Fields = v.fieldRows(c.Action, c.Diff, c.Payer.Key.Name)
	for _, f := range row.Fields {
		if f.Field == "name" && c.Action == connector.ActionAdopt && f.Now != "" {
			row.Notes = append(row.Notes, fmt.Sprintf("Links %q.", f.Now))
		}
	}
	alike, err := admin.Alike(v.Context(), v.ledger(), c)
	row.Notes = append(row.Notes,
		connector.Map(alike[:min(3, len(alike))],
			func(k state.Lookalike) string { return "Has the " + admin.AlikeWords(c, k) + "." })...)
	return row, err
}

// fieldRows returns the fields of a change before and after, in reading order, as visible to the visitor. key is the
// name of the payer's key.
func (v *visit) fieldRows(does connector.Action, changes []connector.FieldChange, key string) (rows []fieldRow) {
	diff := admin.Privacy{Whole: true}.Diff(changes)
	if !v.User.Role.May(Operator) {
		diff = admin.ForViewers(changes, key)
	}
	for i, d := range diff {
		f := fieldRow{Path: d.Path, Field: admin.FieldWord(d.Path), Now: d.From, After: d.To}
		if does != connector.ActionCreate {
			f.Emptied = changes[i].From != "" && changes[i].To == ""
			f.Warn = f.Emptied || changes[i].From != "" && (f.Field == "name" || f.Field == "e-mail")
		}
		rows = append(rows, f)
	}
	slices.SortStableFunc(rows, func(a, b fieldRow) int { return cmp.Compare(place(a), place(b)) })
	if does == connector.ActionCreate {
		rows = joined(rows)
	}
	return rows
}

// fieldOrder are fields as people read them; the others come after these.
var fieldOrder = []string{"name", "contact", "e-mail", "phone", "line1", "city", "postCode", "country"}

// place returns the position of a field among a change's fields.
func place(f fieldRow) int {
	for i, word := range fieldOrder {
		if f.Field == word || f.Field == "address" && strings.HasSuffix(f.Path, "."+word) {
			return i
		}
	}
	return len(fieldOrder)
}

// joined makes one of neighbours with the same word: the lines of an address.
func joined(fields []fieldRow) (out []fieldRow) {
	for _, f := range fields {
		if n := len(out); n > 0 && out[n-1].Field == f.Field {
			if out[n-1].After != admin.NotShown {
				out[n-1].After += ", " + f.After
			}
			continue
		}
		out = append(out, f)
	}
	return out
}

// does describes a change.
var does = map[connector.Action]string{
	connector.ActionCreate: "new customer", connector.ActionAdopt: "link", connector.ActionUpdate: "update",
	connector.ActionLink: "request a signing link", connector.ActionUnlink: "unlink the customer",
}
