package pages_test

import (
	"context"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/pages"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
)

// newMappings returns the mappings of the house: the shipped one, in a file of its own.
func (h *house) newMappings() *admin.Mappings {
	h.t.Helper()
	h.write(h.mappingFile(), string(must(fs.ReadFile(configs.FS, "quickstart/mapping.yaml"))(h.t)))
	kept := &admin.Tallies{}
	h.t.Cleanup(kept.Close)
	h.mappings = &admin.Mappings{
		Ledger: h.ledger, Syncer: &syncer.Syncer{Ledger: h.ledger, Reconciler: h.reader, Settings: h.syncer.Settings},
		Tally: kept, Read: os.ReadFile,
		Files: []admin.MappingFile{{Connection: sample, Path: h.mappingFile()}},
		Source: func(context.Context, string) (syncer.Connection, error) {
			conn := h.conn
			conn.Mapping = nil
			return conn, nil
		},
		Parse: mapping.Load,
	}
	return h.mappings
}

func (h *house) mappingFile() string { return filepath.Join(filepath.Dir(h.file), "mapping.yaml") }

func (h *house) write(path, text string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil { // its mode is what the test looks at
		h.t.Fatal(err)
	}
}

// text returns what the mapping file holds.
func (h *house) text() string { return string(must(os.ReadFile(h.mappingFile()))(h.t)) }

// reads makes the next run go by the mapping file as it is.
func (h *house) readsMapping() {
	h.t.Helper()
	h.conn.Mapping = must(mapping.Load("mapping.yaml", []byte(h.text()), h.conn.Info))(h.t)
}

var openedField = regexp.MustCompile(`name="opened" value="([0-9a-f]{64})"`)

// opened returns the version that the editor has open.
func opened(t testing.TB, page string) string {
	t.Helper()
	found := openedField.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no version is open:\n%s", page)
	}
	return found[1]
}

// inCapitals returns the sample mapping with a rule for names in capitals, and fitting examples.
func inCapitals(text string) string {
	for _, name := range []string{"The Proving Drawer", "Café Éclair"} {
		text = strings.Replace(text, "name: "+name, "name: "+strings.ToUpper(name), 1)
	}
	return strings.Replace(text, "name: trim(Name)", "name: upper(trim(Name))", 1)
}

const mappingPath = "/mapping/" + sample

// saves returns how often the audit log tells of a mapping that was saved.
func (h *house) saves() (n int) {
	h.t.Helper()
	for _, e := range must(h.ledger.Log(context.Background(), state.LogFilter{Limit: 100}))(h.t) {
		if e.Action == state.MappingSaved {
			n++
		}
	}
	return n
}

func TestAMappingIsMendedTriedAndSaved(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	anna := h.enter("anna", pages.Admin)
	page := anna.get("/mapping", http.StatusOK)
	holds(t, page, "Mapping of", "is in force since", "Nothing would change for all", "Save")
	page = anna.get(mappingPath+"/text", http.StatusOK)
	holds(t, page, "Mapping of", "is in force since", `<li id="line-1">`, "% filled", "Nothing would change for all",
		"Save")
	was := h.text()
	bad := strings.Replace(was, "name: trim(Name)", "name: trim(Nmae)", 1)
	if bad == was {
		t.Fatal("the sample mapping has no such rule")
	}
	page = anna.post(mappingPath, http.StatusUnprocessableEntity, "text", bad, "opened", opened(t, page), "do", "check")
	holds(t, page, "<title>Problem: the mapping has 1 mistake", `href="#line-`, `class="wrong"`, "Nmae", "Write instead:",
		"trim(Nmae)")
	if n := strings.Index(page, `id="line-`); n < 0 || h.text() != was {
		t.Error("to check has changed the file")
	}
	page = anna.post(mappingPath, http.StatusUnprocessableEntity, "text", bad, "opened", opened(t, page), "do", "save",
		"reason", "spelling")
	holds(t, page, "A text with mistakes is not saved", "trim(Nmae)")
	page = anna.post(mappingPath, http.StatusOK, "text", bad, "opened", opened(t, page), "do", "cure 1")
	holds(t, page, "name: trim(Name)")
	if h.text() != was || h.saves() != 0 {
		t.Error("something was saved")
	}

	// As a browser sends it, and of a file that others may read.
	upper := inCapitals(was)
	sent := strings.ReplaceAll(upper, "\n", "\r\n")
	page = anna.post(mappingPath, http.StatusOK, "text", sent, "opened", opened(t, page), "do", "check", "record", "HB003")
	holds(t, page, "would change", "updated", "Difference to the file", "Rule by rule for", "upper(trim(Name))")
	page = anna.post(mappingPath, http.StatusUnprocessableEntity, "text", sent, "opened", opened(t, page), "do", "save")
	holds(t, page, "Problem: say why you save", `href="#reason"`, "upper(trim(Name))")
	page = anna.post(mappingPath, http.StatusOK, "text", sent, "opened", opened(t, page), "do", "save", "reason",
		"capitals")
	holds(t, page, "Saved as version", "Nothing was sent", "the next run goes by it", "capitals")
	if h.text() != upper {
		t.Errorf("the file is\n%q\nand not what was typed", h.text())
	}
	if mode := must(os.Stat(h.mappingFile()))(t).Mode().Perm(); mode != 0o640 {
		t.Errorf("the file has the mode %o", mode)
	}
	if left := must(filepath.Glob(filepath.Join(filepath.Dir(h.file), ".mapping*")))(t); len(left) > 0 {
		t.Errorf("%q is left behind", left)
	}
	lines := must(h.ledger.Log(context.Background(), state.LogFilter{Limit: 100}))(t)
	want := fmt.Sprintf("%s %.12s → %.12s", sample, admin.HashOfMapping([]byte(was)), admin.HashOfMapping([]byte(upper)))
	found := false
	for _, e := range lines {
		found = found || e.Actor == "anna" && e.Action == "save mapping" && e.Subject == want && e.Reason == "capitals"
	}
	if !found {
		t.Errorf("the audit log does not say who saved %s: %+v", want, lines)
	}

	// A run goes by it and waits, somebody approves, and the old text is put back.
	h.syncer.Settings.Guards = syncer.Guards{MaxCreates: 5, MaxChangesFloor: 1}
	h.readsMapping()
	h.run(false)
	holds(t, anna.get("/plans", http.StatusOK), "1 plan waits for a person")
	page = anna.get(mappingPath+"/versions", http.StatusOK)
	holds(t, page, "In force", "anna", "capitals", "Roll back…")
	old := admin.HashOfMapping([]byte(was))
	holds(t, anna.get(mappingPath+"/versions?a="+old, http.StatusOK), "+ <bdi>", "upper(trim(Name))</bdi></ins>", "</del>")
	page = anna.get(mappingPath+"?version="+old, http.StatusOK)
	holds(t, page, "It takes the place of the file when you save it", "name: trim(Name)")
	anna.post(mappingPath, http.StatusOK, "text", was, "opened", opened(t, page), "do", "save", "reason", "back")
	if h.text() != was {
		t.Error("it was not rolled back")
	}
}

func TestOnlyTheVersionThatWasOpenedIsReplaced(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	anna, bob := h.enter("anna", pages.Admin), h.enter("bob", pages.Admin)
	was := h.text()
	first := opened(t, bob.get(mappingPath, http.StatusOK))
	annas, bobs := was+"# anna\n", was+"# bob\n"
	anna.post(mappingPath, http.StatusOK, "text", annas, "opened", first, "do", "save", "reason", "one")
	page := bob.post(mappingPath, http.StatusConflict, "text", bobs, "opened", first, "do", "save", "reason", "two")
	holds(t, page, "<title>Problem: the file changed since you opened it", "<bdi>anna</bdi> saved", "# anna", "# bob",
		"Both texts are kept")
	if h.text() != annas {
		t.Error("what anna saved is gone")
	}
	bob.post(mappingPath, http.StatusOK, "text", bobs, "opened", opened(t, page), "do", "save", "reason", "two")
	if h.text() != bobs {
		t.Error("bob could not save after he had compared")
	}
}

func TestOfManyWhoSaveAtOnceOneDoes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	was := h.text()
	hash := admin.HashOfMapping([]byte(was))
	var wg sync.WaitGroup
	won := make(chan string, 8)
	for i := range 8 {
		wg.Go(func() {
			text := fmt.Sprintf("%s# %d\n", was, i)
			if _, err := h.mappings.Save(context.Background(), sample, hash, text,
				syncer.Operator{Name: fmt.Sprint(i), Reason: "race"}); err == nil {
				won <- text
			}
		})
	}
	wg.Wait()
	close(won)
	if len(won) != 1 {
		t.Fatalf("%d saved, want one", len(won))
	}
	if text := <-won; h.text() != text || h.saves() != 1 {
		t.Errorf("the file is another than the one that was saved, or %d lines tell of it", h.saves())
	}
}

func TestAMappingFileKeepsWhatItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(h *house)
		after  func(h *house)
	}{
		"behind a link": {
			func(h *house) {
				real := filepath.Join(h.t.TempDir(), "real.yaml")
				h.write(real, h.text())
				if err := os.Remove(h.mappingFile()); err != nil {
					h.t.Fatal(err)
				}
				if err := os.Symlink(real, h.mappingFile()); err != nil {
					h.t.Fatal(err)
				}
			},
			func(h *house) {
				if info := must(os.Lstat(h.mappingFile()))(h.t); info.Mode()&fs.ModeSymlink == 0 {
					h.t.Error("the link is gone")
				}
				if strings.Contains(h.text(), "\r") {
					h.t.Error("the browser's line ends are in the file")
				}
			},
		},
		"with the line ends of Windows": {
			func(h *house) { h.write(h.mappingFile(), strings.ReplaceAll(h.text(), "\n", "\r\n")) },
			func(h *house) {
				if n := strings.Count(h.text(), "\n"); n != strings.Count(h.text(), "\r\n") || n < 5 {
					h.t.Error("the line ends have changed")
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			c.before(h)
			anna := h.enter("anna", pages.Admin)
			page := anna.get(mappingPath, http.StatusOK)
			text := strings.ReplaceAll(strings.ReplaceAll(h.text(), "\r\n", "\n")+"# new\n", "\n", "\r\n")
			holds(t, anna.post(mappingPath, http.StatusOK, "text", text, "opened", opened(t, page), "do", "save", "reason",
				"why"), "Saved as version")
			if !strings.Contains(h.text(), "# new") {
				t.Error("it was not saved")
			}
			c.after(h)
			holds(t, anna.post(mappingPath, http.StatusOK, "text", text, "opened",
				opened(t, anna.get(mappingPath, http.StatusOK)), "do", "save", "reason", "why"), "has this text already")
		})
	}
}

func TestAFileThatCannotBeWrittenIsOfferedAsText(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if err := os.Chmod(h.mappingFile(), 0o444); err != nil { // read only is what is tried
		t.Fatal(err)
	}
	anna := h.enter("anna", pages.Admin)
	was := h.text()
	page := anna.get(mappingPath, http.StatusOK)
	page = anna.post(mappingPath, http.StatusConflict, "text", was+"# new\n", "opened", opened(t, page), "do", "save",
		"reason", "why")
	holds(t, page, "Problem: the file cannot be written from here", "Nothing was changed", "Difference to the file",
		"# new")
	if h.text() != was || h.saves() != 0 {
		t.Error("it was written, or said to be")
	}
}

func TestTwoConnectionsWithOneMappingAreToldOfBoth(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	link := filepath.Join(t.TempDir(), "same.yaml")
	if err := os.Symlink(h.mappingFile(), link); err != nil {
		t.Fatal(err)
	}
	h.mappings.Files = append(h.mappings.Files, admin.MappingFile{Connection: "harbour", Path: link})
	anna := h.enter("anna", pages.Admin)
	holds(t, anna.get("/mapping", http.StatusOK), sample, "harbour")
	page := anna.get(mappingPath, http.StatusOK)
	holds(t, page, "a change is made for all of them", "harbour")
	page = anna.post(mappingPath, http.StatusOK, "text", h.text()+"# new\n", "opened", opened(t, page), "do", "save",
		"reason", "why")
	holds(t, page, "It is the mapping of harbour, too.")

	// A text that fits one of them alone is not saved.
	h.mappings.Source = func(_ context.Context, connection string) (syncer.Connection, error) {
		conn := h.conn
		if conn.Mapping = nil; connection == "harbour" {
			conn.Info.Fields = []connector.Field{{Name: "Other", Type: connector.TypeText}}
		}
		return conn, nil
	}
	before := h.text()
	page = anna.post(mappingPath, http.StatusUnprocessableEntity, "text", before+"# newer\n", "opened",
		opened(t, anna.get(mappingPath, http.StatusOK)), "do", "save", "reason", "why")
	holds(t, page, "read for harbour")
	if h.text() != before {
		t.Error("it was saved")
	}
}

func TestAllRecordsAreCountedInTheBackground(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.syncer.Settings.Guards = syncer.Guards{MaxCreates: 5, MaxChangesFloor: 1}
	h.mappings.Syncer.Settings = h.syncer.Settings
	anna := h.enter("anna", pages.Admin)
	text := inCapitals(h.text())
	page := anna.post(mappingPath, http.StatusOK, "text", text, "opened", admin.HashOfMapping([]byte(h.text())), "do",
		"count")
	hash := admin.HashOfMapping([]byte(text))
	for range 100 {
		if !strings.Contains(page, "data-again") {
			break
		}
		page = anna.get(mappingPath+"/preview/"+hash, http.StatusOK)
	}
	holds(t, page, "A run would wait for approval:", "not saved", "would change")
	holds(t, anna.get(mappingPath+"/text?text="+hash, http.StatusOK), "upper(trim(Name))", "changed and not saved")
	anna.post(mappingPath+"/preview/"+hash, http.StatusOK, "do", "cancel")
	h.run(true) // the books are read again
	page = anna.get(mappingPath+"/preview/"+hash, http.StatusOK)
	holds(t, page, "A run has read the accounting system since this count", "Count again")
	anna.post(mappingPath+"/preview/"+hash, http.StatusOK, "do", "again")
	anna.get(mappingPath+"/preview/"+strings.Repeat("0", 64), http.StatusNotFound)
}

func TestWhoMayNotEditAMappingChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	was := h.text()
	for _, role := range []pages.Role{pages.Viewer, pages.Operator} {
		eve := h.enter("eve", role)
		for _, do := range []string{"check", "count", "save"} {
			eve.post(mappingPath, http.StatusForbidden, "text", was+"# eve\n", "opened", admin.HashOfMapping([]byte(was)), "do",
				do, "reason", "mine")
		}
		eve.post(mappingPath+"/preview/"+strings.Repeat("0", 64), http.StatusForbidden, "do", "cancel")
		page := eve.get(mappingPath, http.StatusOK) + eve.get(mappingPath+"/text", http.StatusOK)
		for _, not := range []string{"<textarea", "<select", "Save</button>", `name="opened"`} {
			if strings.Contains(page, not) {
				t.Errorf("the %s is shown %s", role, not)
			}
		}
		eve.get(mappingPath+"?version="+admin.HashOfMapping([]byte(was)), http.StatusOK)
	}
	if h.text() != was || h.saves() != 0 {
		t.Error("it was saved, or said to be")
	}
	for _, name := range []string{"..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "mapping.yaml", "%00", "..%5c" + sample} {
		for _, tail := range []string{"", "/text", "/quality", "/versions"} {
			if status, _ := h.enter("anna", pages.Admin).send(http.MethodGet, "/mapping/"+name+tail,
				nil); status != http.StatusNotFound {
				t.Errorf("/mapping/%s%s is answered %d", name, tail, status)
			}
		}
	}
}

func TestAViewerSeesNobodysValues(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.write(h.mappingFile(), inCapitals(h.text()))
	for role, sees := range map[pages.Role]bool{pages.Viewer: false, pages.Operator: true, pages.Admin: true} {
		who := h.enter("vera the "+string(role), role)
		page := who.get(mappingPath+"/text?record=HB003", http.StatusOK) + who.get(mappingPath+"/quality", http.StatusOK)
		if strings.Contains(page, "Rule by rule for <bdi>HB003") != sees {
			t.Errorf("the %s is shown a record: %t", role, !sees)
		}
		shown := who.get(mappingPath, http.StatusOK) + who.get(mappingPath+"/text", http.StatusOK)
		if strings.Contains(shown, "accounts@") && !sees {
			t.Errorf("the %s is shown an e-mail address:\n%s", role, shown)
		}
	}
	noted := 0
	for _, e := range must(h.ledger.Log(context.Background(), state.LogFilter{Limit: 100}))(t) {
		if e.Action == "show record" {
			noted++
		}
	}
	if noted != 2 {
		t.Errorf("%d opened records are in the audit log, want 2", noted)
	}
}

func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.mappings.Source = func(context.Context, string) (syncer.Connection, error) {
		conn := h.conn
		conn.Mapping = nil
		for _, name := range []string{"<script>alert(1)</script>", "=1+1", "\u202eeman", strings.Repeat("x", 255)} {
			conn.Info.Fields = append(conn.Info.Fields[:len(conn.Info.Fields):len(conn.Info.Fields)],
				connector.Field{Name: name, Type: connector.TypeText, Example: "<b>x</b>"})
		}
		return conn, nil
	}
	anna := h.enter("anna", pages.Admin)
	for _, text := range []string{"</textarea><script>alert(1)</script>", "\u202e name: =1+1", strings.Repeat("x", 5000),
		"\x00", "", "- \n- <img src=x onerror=alert(1)>", "{{.}}", "key: &a [*a, *a]"} {
		page := anna.post(mappingPath, http.StatusUnprocessableEntity, "text", text, "opened",
			admin.HashOfMapping([]byte(h.text())), "do", "check")
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img src=x") ||
			strings.Contains(page, "<b>x</b>") {
			t.Errorf("%q becomes a part of the page", text)
		}
		if typed := strings.ReplaceAll(text, "\x00", "\ufffd"); !strings.Contains(page, html.EscapeString(typed)) &&
			!strings.Contains(page, typed) {
			t.Logf("%q is escaped otherwise", text)
		}
	}
	anna.post(mappingPath, http.StatusRequestEntityTooLarge, "text", strings.Repeat("x", 1<<20), "opened", "0", "do",
		"save", "reason", "large")
	anna.post(mappingPath, http.StatusBadRequest, "do", "save", "reason", "no text")
	if h.saves() != 0 {
		t.Error("something was saved")
	}
}

func TestAMappingWithoutRecordsOrFileIsTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	anna := h.enter("anna", pages.Admin)
	holds(t, anna.get(mappingPath, http.StatusOK), "No run has gone by it yet", "No record is stored yet")
	holds(t, anna.get(mappingPath+"/quality", http.StatusOK), "No record is stored yet")
	holds(t, anna.get(mappingPath+"/versions", http.StatusOK), "No run has gone by a mapping")
	anna.get(mappingPath+"?version=nonsense", http.StatusNotFound)
	if err := os.Remove(h.mappingFile()); err != nil {
		t.Fatal(err)
	}
	holds(t, anna.get(mappingPath, http.StatusConflict), "The mapping cannot be read",
		"to check the installation. <code>payersync check</code>")
}

func TestTheDataQualityPageSaysWhichValuesKeepPayersBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	anna := h.enter("anna", pages.Operator)
	page := h.settled(anna, mappingPath+"/quality", "Puts payers on hold")
	_, held, _ := strings.Cut(page, "Puts payers on hold")
	held, _, _ = strings.Cut(held, "</table>")
	holds(t, held, "Payers with these values are on hold", "customer.people[0].email")
	for harmless := page; strings.Contains(harmless, "None of this puts a payer on hold"); {
		_, harmless, _ = strings.Cut(harmless, "None of this puts a payer on hold")
		if strings.Contains(harmless[:strings.Index(harmless, "</table>")], "].email") {
			t.Errorf("mistyped addresses keep payers back, and the page says that they do not:\n%s", harmless)
		}
	}
}
