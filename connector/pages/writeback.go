package pages

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/writeback"
	"payersync/state"
)

// writesPage is the content of a connection's write-back page.
type writesPage struct {
	admin.Writes
	Connection string
	Path       string
	Waiting    int
	Choices    []part
	Rows       []writesRow
	Pager      pager
	Operator   bool // sees the values of the fields
	May        bool // approve
	Approvers  Role
	Stale      bool // the visitor tried to approve an earlier list
}

// writesRow is a payer with the value of its field before and after.
type writesRow struct {
	admin.WriteRow
	Path       string
	Does       chip
	Now, After string // of the field, if it was read
	Act        *offer // to let payersync write again; nil where it does
}

// doings are the chips of the tasks of write-back.
var doings = map[writeback.Doing]chip{
	writeback.Due:     {"◷", "With the next run", bank},
	writeback.Waits:   {"◷", "Waits for approval", waits},
	writeback.Later:   {"◷", "With a later run", bank},
	writeback.Look:    {"?", "Is read first", bank},
	writeback.Unclear: {"?", "Outcome unknown, is read first", waits},
	writeback.Limit:   {"✕", "Changed too often today", stopped},
	writeback.Theirs:  {"✕", "Changed by somebody else", stopped},
	writeback.Refused: {"✕", "Refused", stopped},
	writeback.Unknown: {"✕", "Unknown status", stopped},
}

// writesPath is the page of a connection's write-back.
func writesPath(connection string, which admin.WritesShown) string {
	path := "/mandates/writeback/" + url.PathEscape(connection)
	if which != admin.AllWrites {
		path += "?show=" + string(which)
	}
	return path
}

// writes shows what payersync would write to the accounting system.
func (v *visit) writes() error {
	page, err := v.writesPage(admin.WritesShown(v.filled("show")))
	switch {
	case errors.Is(err, admin.ErrCounting):
		return v.show("counting", "Counting", v.with())
	case err != nil:
		return err
	}
	return v.show("writeback", "Write-back of "+page.Connection, page)
}

func (v *visit) writesPage(which admin.WritesShown) (*writesPage, error) {
	connection := v.PathValue("connection")
	if v.pages.cfg.Writebacks == nil || !slices.Contains(v.pages.cfg.Connections, connection) {
		return nil, notFound
	}
	page := &writesPage{Connection: connection, Path: writesPath(connection, which),
		Operator: v.User.Role.May(Operator), May: v.User.Role.May(v.pages.cfg.Approvers),
		Approvers: v.pages.cfg.Approvers}
	var err error
	page.Writes, err = v.pages.cfg.Writebacks.Plan(v.Context(), connection, admin.WritesQuery{Which: which,
		After: v.filled("after"), Most: rowsShown, Read: page.Operator})
	if err != nil {
		return nil, notWritten(err)
	}
	if page.Unread != nil {
		v.pages.cfg.Report(Event{Route: v.Pattern, User: v.User.Name, Status: http.StatusOK, Err: page.Unread})
	}
	page.Waiting = page.Count(writeback.Waits)
	counts := map[admin.WritesShown]int{admin.AllWrites: page.Items(), admin.WaitingWrites: page.Waiting,
		admin.StuckWrites: page.Stuck()}
	for _, c := range []struct {
		which admin.WritesShown
		label string
	}{{admin.AllWrites, "All"}, {admin.WaitingWrites, "Wait for approval"}, {admin.StuckWrites, "Need attention"}} {
		page.Choices = append(page.Choices,
			part{choice{c.label, writesPath(connection, c.which), c.which == which}, counts[c.which]})
	}
	take := deedFor(connector.ActTakeField)
	page.Rows = connector.Map(page.Writes.Rows, func(r admin.WriteRow) writesRow {
		row := writesRow{WriteRow: r, Path: payerPath(r.RecordID), Does: doings[r.Doing]}
		if s := (shownPayer{Field: &r.Item}); r.Doing.Stuck() && take.may(s) && v.can(*take) && v.pages.cfg.Attention != nil {
			o := take.button(s, row.Path+"/"+take.name)
			row.Act = &o
		}
		if r.Holds != nil {
			row.Now = *r.Holds
		}
		if r.Becomes != nil {
			row.After = *r.Becomes
		}
		return row
	})
	page.Pager = v.page(page.After).of(len(page.Rows), counts[which])
	return page, nil
}

// fieldOf returns a payer's field in the accounting system, if a person should look at it; nil also if the write-back
// cannot be opened.
func (v *visit) fieldOf(id state.RecordID) (*writeback.Item, error) {
	if v.pages.cfg.Writebacks == nil {
		return nil, nil
	}
	field, err := v.pages.cfg.Writebacks.FieldOf(v.Context(), id)
	if errors.Is(err, admin.ErrNoWriteback) || errors.Is(err, admin.ErrNotOpened) {
		err = nil
	}
	return field, err
}

// approveWrites approves exactly the writes shown to the visitor.
func (v *visit) approveWrites() error {
	if !v.User.Role.May(v.pages.cfg.Approvers) {
		return forbidden(v.pages.cfg.Approvers)
	}
	connection := v.PathValue("connection")
	if v.pages.cfg.Writebacks == nil || !slices.Contains(v.pages.cfg.Connections, connection) {
		return notFound
	}
	why, err := v.why()
	if err != nil {
		return err
	}
	n, err := v.pages.cfg.Writebacks.Approve(v.Context(), connection, v.filled("shown"), v.User.Name, why)
	switch {
	case errors.Is(err, admin.ErrNothingWaits), errors.Is(err, admin.ErrWritesChanged):
		page, err := v.writesPage(admin.WaitingWrites)
		if err != nil {
			return err
		}
		page.Stale = true
		return v.showAs(http.StatusConflict, "writeback", "The writes changed", page)
	case err != nil:
		return notWritten(err)
	}
	v.changed()
	return v.done(connector.Plural(n, "write")+
		" approved. Nothing was written yet: the next run of the write-back writes.", writesPath(connection, admin.AllWrites))
}

// notWritten says why the writes of a connection cannot be shown.
func notWritten(err error) error {
	switch {
	case errors.Is(err, admin.ErrNoWriteback):
		return notFound
	case errors.Is(err, admin.ErrNotOpened):
		return problem{Status: http.StatusServiceUnavailable, Title: "The write-back cannot be opened", err: err,
			Sentence: "Nothing was changed. The log of payersync says why.",
			Next:     "Ask the operator of payersync to check the installation.", Do: connector.DoCheck}
	}
	return err
}
