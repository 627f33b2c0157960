package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/mapping/strict"
	"payersync/state"
)

// mappingRow is the mapping of a connection in a list.
type mappingRow struct {
	Connection, Path string
	InForce          state.MappingVersion
	Problem          string
}

// mappings lists the connections; of one alone it shows the mapping at once.
func (v *visit) mappings() error {
	m := v.pages.cfg.Mappings
	if m == nil {
		return noMapping
	}
	if len(m.Files) == 1 {
		http.Redirect(v.w, v.Request, mappingPath(m.Files[0].Connection), http.StatusSeeOther) //nolint:gosec // our own path, with escaped parts
		return nil
	}
	wrong, err := v.ledger().MappingProblems(v.Context())
	if err != nil {
		return err
	}
	var rows []mappingRow
	for _, f := range m.Files {
		row := mappingRow{Connection: f.Connection, Path: mappingPath(f.Connection)}
		if row.InForce, err = v.ledger().MappingInForce(v.Context(), f.Connection); err != nil &&
			!errors.Is(err, state.ErrNoMapping) {
			return err
		}
		if i := slices.IndexFunc(wrong, func(p state.MappingProblem) bool { return p.Connection == f.Connection }); i >= 0 {
			row.Problem = "The file has mistakes"
		}
		rows = append(rows, row)
	}
	return v.show("mappings", "Mapping", rows)
}

// mappingPath returns the address of a connection's mapping.
func mappingPath(connection string) string { return "/mapping/" + url.PathEscape(connection) }

var noMapping = problem{Status: http.StatusNotFound, Title: "There is no such mapping",
	Sentence: "No connection of this name is configured here.", Next: "The page Mapping lists the connections."}

// mappingPage is the mapping of a connection as its page shows it.
type mappingPage struct {
	Connection, Path, File string
	Text                   string
	Opened                 string // the version being edited
	Rows                   int
	Lines                  []gutterLine
	MayEdit, Raw           bool           // the user may edit; may see values of records
	AsText                 bool           // the text is shown, and not the table
	Table                  *fieldsTab     // nil where the text is shown
	Open                   string         // the path of the field with an open form
	Refused                mapping.Simple // what was chosen in it and cannot be written

	InForce    state.MappingVersion // zero before the first run
	Saved      state.Entry          // the author of the file's present text; zero if unknown
	Unused     bool                 // no run has gone by the file as it is
	MayRun     bool
	From       string // the version opened in place of the file
	Changed    bool   // the text is another than the file's
	Difference []admin.DiffLine
	Sharing    []string

	Status    int
	Wrong     []mistake
	WrongIn   int // how many mistakes a reader is not told of
	Problem   string
	Anchor    string // of the finding on the page
	Conflict  *mappingConflict
	Offered   string // why the file cannot be written; "" where it can, as far as is known
	Reason    string
	Fields    fieldsShown
	Preview   *forecast
	Whole     bool // the preview looked at all records
	Record    string
	RecordWhy string
	Rules     []admin.RuleChange
}

// gutterLine is the number of a line, and its mistake.
type gutterLine struct {
	N    int
	What string
}

// mistake is a mistake in a line of a mapping.
type mistake struct {
	strict.Problem
	N int // among the mistakes, from 1
}

// mappingConflict is another text saved in the meantime.
type mappingConflict struct {
	By    state.Entry // zero if unknown
	Text  string
	Hash  string
	Lines []admin.DiffLine
}

// fieldsShown are the fields of a source, unless they are being counted.
type fieldsShown struct {
	Busy    bool
	Fields  []admin.SourceField
	Records int
	Why     string
}

// Filled returns how full a field is, in words.
func (f fieldsShown) Filled(n int) string {
	switch {
	case f.Records == 0:
		return "no records yet"
	case n > 0 && n*100 < f.Records:
		return "under 1 % filled"
	}
	return fmt.Sprintf("%d %% filled", n*100/f.Records)
}

// theMapping returns the mapping file named by the address.
func (v *visit) theMapping() (admin.MappingText, error) {
	if v.pages.cfg.Mappings == nil {
		return admin.MappingText{}, noMapping
	}
	now, known, err := v.pages.cfg.Mappings.Now(v.PathValue("connection"))
	switch {
	case !known:
		return now, noMapping
	case err != nil:
		return now, problem{Status: http.StatusConflict, Title: "The mapping cannot be read",
			Sentence: "payersync cannot find or open its file. The version of the last run stays in force.",
			Next:     "Ask the operator of payersync to check the installation.", Do: connector.DoCheck, err: err}
	}
	return now, nil
}

// mapping shows the mapping of a connection as a table of its fields.
func (v *visit) mapping() error { return v.openMapping(false) }

// openMapping shows the mapping of a connection: the file, or the text being counted. For an admin, the editor may hold
// an earlier version instead.
func (v *visit) openMapping(asText bool) error {
	now, err := v.theMapping()
	if err != nil {
		return err
	}
	p := v.newMappingPage(now)
	p.AsText = asText
	p.Record = v.filled("record")
	if version := v.filled("version"); version != "" && p.MayEdit {
		found, err := v.versionOf(version)
		if err != nil {
			return err
		}
		p.Text, p.From = found.Text, found.Hash
	}
	if hash := v.filled("text"); hash != "" && p.MayEdit {
		t, _, found, err := v.pages.cfg.Mappings.Tried(v.Context(), p.Connection, hash)
		switch {
		case err != nil:
			return err
		case !found:
			return noCount
		}
		p.Text = t.Text
	}
	return v.showMapping(p, now)
}

func (v *visit) newMappingPage(now admin.MappingText) *mappingPage {
	connection := v.PathValue("connection")
	return &mappingPage{
		Connection: connection, Path: mappingPath(connection), File: filepath.Base(now.Path), Text: now.Text,
		Opened: now.Hash, Status: http.StatusOK,
		MayEdit: v.User.Role.May(Admin), Raw: v.User.Role.May(Operator), Sharing: v.pages.cfg.Mappings.Sharing(connection),
		MayRun: v.pages.cfg.Starter != nil && v.User.Role.May(Operator),
	}
}

// showMapping fills the page with its text's data, and answers with it.
func (v *visit) showMapping(p *mappingPage, now admin.MappingText) error {
	ctx, m := v.Context(), v.pages.cfg.Mappings
	var err error
	if p.InForce, err = v.ledger().MappingInForce(ctx, p.Connection); err != nil && !errors.Is(err, state.ErrNoMapping) {
		return err
	}
	if p.Saved, err = v.ledger().MappingSavedBy(ctx, now.Hash); err != nil {
		return err
	}
	p.Unused = p.InForce.Hash != now.Hash
	p.Text = admin.LineEnds(p.Text, now.Text)
	p.Changed = p.Text != now.Text
	if p.Difference == nil {
		p.Difference = admin.DiffOf(now.Text, p.Text)
	}
	checked, err := m.Check(ctx, p.Connection, []byte(p.Text))
	if err != nil {
		return err
	}
	v.mark(p, checked.Mistakes)
	if p.AsText {
		err = v.addFields(p)
	} else {
		err = v.addFieldsTab(p, checked)
	}
	if err != nil {
		return err
	}
	if checked.Mapping != nil {
		if err := v.addPreview(p, checked, now); err != nil {
			return err
		}
	}
	if !p.Raw {
		p.Text = withoutExamples(p.Text)
	}
	title := "Mapping of " + p.Connection
	if len(p.Wrong) > 0 || p.Problem != "" {
		title = "Problem: " + cmp.Or(p.Problem, "the mapping has "+connector.Plural(len(p.Wrong), "mistake"))
		if p.Status == http.StatusOK && v.Method == http.MethodPost {
			p.Status = http.StatusUnprocessableEntity
		}
	}
	if p.Status != http.StatusOK {
		v.pages.cfg.Report(Event{Route: v.Pattern, User: v.User.Name, Status: p.Status})
	}
	v.pages.render(v.w, v, p.Status, "mapping", title, p)
	return nil
}

// mark places the mistakes at their lines. A mistake in an example quotes it, and an example may be a real record.
// Users without access to records see only the number of mistakes.
func (v *visit) mark(p *mappingPage, wrong []strict.Problem) {
	lines := strings.Count(p.Text, "\n") + 1
	p.Rows = min(lines+1, 4000)
	what := map[int]string{}
	if p.Raw {
		for i, w := range wrong {
			p.Wrong = append(p.Wrong, mistake{w, i + 1})
			what[w.Line] = cmp.Or(what[w.Line], w.Message)
		}
	} else {
		p.WrongIn = len(wrong)
	}
	for n := 1; n <= min(lines, 4000); n++ {
		p.Lines = append(p.Lines, gutterLine{n, what[n]})
	}
}

// withoutExamples removes the examples from a text, because they may be real records.
func withoutExamples(text string) string {
	var out []string
	inside := false
	for _, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "-") &&
			!strings.HasPrefix(line, "#") {
			if inside = strings.HasPrefix(line, "examples"); inside {
				out = append(out, "examples: # shown to the roles operator and admin")
			}
		}
		if !inside {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// addFields adds the fields of the source, with the values visible to the visitor.
func (v *visit) addFields(p *mappingPage) error {
	t, err := v.pages.cfg.Mappings.Profiles(v.Context(), p.Connection)
	if err != nil {
		return err
	}
	profiles, counted := t.Result.([]syncer.FieldProfile)
	switch {
	case t.Err != nil:
		return t.Err
	case !counted:
		p.Fields.Busy = true
		return nil
	}
	p.Fields.Fields = admin.Privacy{Whole: p.Raw}.SourceFields(profiles)
	if len(profiles) > 0 {
		p.Fields.Records = profiles[0].Records
	}
	return nil
}

// editMapping checks, counts or saves the typed text.
func (v *visit) editMapping() error {
	now, err := v.theMapping()
	if err != nil {
		return err
	}
	if !v.PostForm.Has("text") {
		return problem{Status: http.StatusBadRequest, Title: "Nothing was changed", Sentence: "The form has no text.",
			Next: "Open the mapping, and use one of its buttons."}
	}
	p := v.newMappingPage(now)
	p.Text, p.Record, p.Reason = admin.LineEnds(v.PostFormValue("text"), now.Text), v.filled("record"), v.filled("reason")
	if opened := v.filled("opened"); opened != "" {
		p.Opened = opened
	}
	p.AsText = v.PostFormValue("tab") != "fields"
	if !p.AsText {
		if err := v.applyFields(p); err != nil {
			return err
		}
	}
	do, which, _ := strings.Cut(v.filled("do"), " ")
	if p.Problem != "" {
		return v.showMapping(p, now)
	}
	switch do {
	case "text", "fields":
		p.AsText = do == "text"
	case "open":
		p.Open = which
	case "cure":
		if p.Text, err = v.cured(p, which); err != nil {
			return err
		}
	case "count":
		if done, err := v.count(p); done || err != nil {
			return err
		}
	case "save":
		if done, err := v.saveMapping(p); done || err != nil {
			return err
		}
	}
	return v.showMapping(p, now)
}

// cured returns the text with a mistake's line replaced by its correction.
func (v *visit) cured(p *mappingPage, which string) (string, error) {
	checked, err := v.pages.cfg.Mappings.Check(v.Context(), p.Connection, []byte(p.Text))
	if err != nil {
		return "", err
	}
	n, _ := strconv.Atoi(which)
	if n < 1 || n > len(checked.Mistakes) {
		return p.Text, nil
	}
	w, lines := checked.Mistakes[n-1], strings.Split(strings.ReplaceAll(p.Text, "\r\n", "\n"), "\n")
	if w.Instead != "" && w.Line >= 1 && w.Line <= len(lines) {
		lines[w.Line-1] = w.Instead
	}
	return strings.Join(lines, "\n"), nil
}

// count starts to try the text on all records; done means a redirect was sent.
func (v *visit) count(p *mappingPage) (done bool, err error) {
	checked, err := v.pages.cfg.Mappings.Check(v.Context(), p.Connection, []byte(p.Text))
	if err != nil || checked.Mapping == nil {
		return false, err
	}
	if _, err := v.pages.cfg.Mappings.All(v.Context(), checked.Connection); err != nil {
		return false, err
	}
	http.Redirect(v.w, v.Request, p.Path+"/preview/"+checked.Mapping.Version(), http.StatusSeeOther) //nolint:gosec // our own path, with escaped parts
	return true, nil
}

// saveMapping saves the text over the opened version; done means it was saved.
func (v *visit) saveMapping(p *mappingPage) (done bool, err error) {
	if p.Reason == "" {
		p.Problem, p.Anchor, p.Status = "say why you save", "reason", http.StatusUnprocessableEntity
		return false, nil
	}
	by, err := v.operator()
	if err != nil {
		return false, err
	}
	hash, err := v.pages.cfg.Mappings.Save(v.Context(), p.Connection, p.Opened, p.Text, by)
	var unwritable *admin.MappingUnwritable
	switch {
	case err == nil:
		note := fmt.Sprintf("Saved as version %.8s. Nothing was sent: the next run uses it, and waits for approval if it would change more than the limits allow.", hash)
		if len(p.Sharing) > 0 {
			note += " It is the mapping of " + strings.Join(p.Sharing, ", ") + ", too."
		}
		return true, v.done(note, p.address())
	case errors.Is(err, admin.ErrMappingSame):
		return true, v.done("The file has this text already. Nothing was changed.", p.address())
	case errors.Is(err, admin.ErrMappingMoved):
		return false, v.meet(p)
	case errors.Is(err, admin.ErrMappingOthers):
		p.Status, p.Problem, p.Anchor = http.StatusForbidden, "nothing was saved, because "+err.Error(), "offered"
		p.Offered = "A user who sees all connections can save it: give them this text, or the difference below."
		return false, nil
	case errors.Is(err, admin.ErrMappingWrong):
		p.Status = http.StatusUnprocessableEntity
		p.Problem, p.Anchor = "nothing was saved, because "+err.Error(), "text"
		return false, nil
	case errors.As(err, &unwritable):
		p.Status, p.Problem, p.Anchor = http.StatusConflict, "the file cannot be written from here", "offered"
		p.Offered = "It is read-only, part of an image, or kept elsewhere, for example in git. Give this text or the difference below to the person who maintains it."
		v.pages.cfg.Report(Event{Route: v.Pattern, User: v.User.Name, Status: p.Status, Err: unwritable.Err})
		return false, nil
	}
	return false, err
}

// address returns the address of the shown tab.
func (p *mappingPage) address() string {
	if p.AsText {
		return p.Path + "/text"
	}
	return p.Path
}

// meet shows a text saved in the meantime beside the typed text. Saving again overwrites it.
func (v *visit) meet(p *mappingPage) error {
	theirs, err := v.theMapping()
	if err != nil {
		return err
	}
	c := &mappingConflict{Text: theirs.Text, Hash: theirs.Hash, Lines: admin.DiffOf(theirs.Text, p.Text)}
	if c.By, err = v.ledger().MappingSavedBy(v.Context(), theirs.Hash); err != nil {
		return err
	}
	p.Conflict, p.Opened = c, theirs.Hash
	p.Status, p.Problem, p.Anchor = http.StatusConflict, "the file changed since you opened it", "conflict"
	return nil
}
