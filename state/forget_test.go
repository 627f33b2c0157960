package state

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/state/internal/dbtest"
)

// rows is every row of every table, by table and key, each column in hexadecimal.
func (d *desk) rows() map[string]string {
	d.t.Helper()
	out := map[string]string{}
	tables, err := list(d.t.Context(), d.Ledger,
		"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", nil,
		func(s *string) []any { return []any{s} })
	if err != nil {
		d.t.Fatal(err)
	}
	for _, table := range tables {
		columns := one[string](d.t, d.Ledger,
			"SELECT group_concat('coalesce(hex(' || name || '), ''NULL'')', ' || '' '' || ') FROM pragma_table_info(?)", table)
		key := one[string](d.t, d.Ledger,
			"SELECT coalesce(group_concat(name, ' || '' '' || '), 'rowid') FROM pragma_table_info(?) WHERE pk > 0", table)
		type row struct{ key, text string }
		found, err := list(d.t.Context(), d.Ledger, fmt.Sprintf("SELECT %s, %s FROM %s", key, columns, table), nil,
			func(r *row) []any { return []any{&r.key, &r.text} })
		if err != nil {
			d.t.Fatal(err)
		}
		for _, r := range found {
			out[table+" "+r.key] = r.text
		}
	}
	return out
}

// says reports whether a row contains one of these names. Sealed values and other hashes may contain them by
// chance, and do not count.
func (d *desk) says(row string, names ...string) bool {
	return slices.ContainsFunc(strings.Fields(row), func(value string) bool {
		text, err := hex.DecodeString(value)
		if err != nil || bytes.HasPrefix(text, d.seal.id[:]) {
			return false
		}
		return slices.ContainsFunc(names, func(name string) bool {
			return string(text) == name || bytes.Contains(text, []byte(name)) && !hashed.Match(text)
		})
	})
}

var hashed = regexp.MustCompile("^[0-9a-f]{16,}$")

// sealedOf is every sealed value in the rows that name one of these.
func (d *desk) sealedOf(names ...string) [][]byte {
	d.t.Helper()
	var out [][]byte
	for _, text := range d.rows() {
		if !d.says(text, names...) {
			continue
		}
		for _, value := range strings.Fields(text) {
			var b []byte
			if _, err := fmt.Sscanf(value, "%X", &b); err == nil && len(b) > 32 && bytes.HasPrefix(b, d.seal.id[:]) {
				out = append(out, b)
			}
		}
	}
	return out
}

// expectNowhere fails where the beginning of one of these boxes is in a file beside the ledger.
func (d *desk) expectNowhere(boxes [][]byte) {
	d.t.Helper()
	files, err := filepath.Glob(d.opts.Path + "*")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, file := range files {
		if file == d.opts.Path { // SQLite has it open: its pages are asked of it
			continue
		}
		content := readFile(d.t, file)
		for _, b := range boxes {
			if bytes.Contains(content, b[:boxHead]) {
				d.t.Errorf("%s holds a box that was erased", filepath.Base(file))
			}
		}
	}
	pages, err := list(d.t.Context(), d.Ledger, "SELECT data FROM sqlite_dbpage", nil,
		func(b *[]byte) []any { return []any{b} })
	if err != nil {
		d.t.Fatal(err)
	}
	for _, page := range pages {
		for _, b := range boxes {
			if bytes.Contains(page, b[4:boxHead]) {
				d.t.Error("a page of the ledger holds a box that was erased")
			}
		}
	}
}

// over lets everything that was sent have arrived.
func (d *desk) over() {
	d.t.Helper()
	d.clock.move(Arrival + 1)
	d.do(func(tx *Tx) error { _, err := tx.Ticket(); return err })
}

func (d *desk) forget(id string) {
	d.t.Helper()
	if dbtest.OnPostgres() { // where no lock proves that an open run is dead
		d.do(func(tx *Tx) error { return tx.EndLease(acme) })
	}
	left, err := d.Forget(d.t.Context(), RecordID{acme, id},
		Entry{Actor: "ada", Action: "forget payer", Subject: id, Reason: "ticket 88"})
	if err != nil {
		d.t.Fatal(err)
	}
	if left {
		d.t.Error("the files were not cleaned")
	}
}

func TestForgetErasesAllOfOnePayerAndNothingOfAnother(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's own catalogue")
	d := newDesk(t)
	d.fill(16)
	d.over()
	before := d.rows()
	own := []string{"c000", "b000", "m000", "evt-000"}
	boxes := d.sealedOf(own...)
	if len(boxes) < 8 {
		t.Fatalf("only %d sealed values of the payer", len(boxes))
	}
	d.forget("c000")
	d.expectNowhere(boxes)
	after := d.rows()
	for key, text := range before {
		table := strings.Fields(key)[0]
		if after[key] == text || table == "ledger" || table == "labels" && !d.says(text, "c000") &&
			strings.Contains(fmt.Sprint(after), text) {
			continue
		}
		if !d.says(text, own...) {
			t.Errorf("%s belongs to somebody else and has changed", key)
		}
		if table == "audit" || table == "mandate_history" || table == "attempts" {
			t.Errorf("%s of the payer has changed, and should stay", key)
		}
	}
	for _, text := range []string{canaryName, canaryEmail, canaryLink, canaryReason, canaryBank, canaryForeign} {
		held, err := d.SubjectData(t.Context(), RecordID{acme, "c000"})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprintf("%+v %s %+v", held, held.Record.Data, held.Payer), text) {
			t.Errorf("%q is still held", text)
		}
	}
	if err := errors.Join(openRest(t.Context(), d.Ledger), d.Integrity(t.Context())); err != nil {
		t.Error(err)
	}
	if status := one[string](t, d.Ledger, "SELECT status FROM mandates WHERE mandate_id = 'm000'"); status != "ACTIVE" {
		t.Errorf("the mandate is %s", status)
	}
}

func TestAPayerWithARequestThatMayArriveIsNotForgotten(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's own catalogue")
	d := newDesk(t)
	d.fill(8)
	before := d.rows()
	for _, id := range []string{"c000", "c004"} { // sent and answered a moment ago; sent and never answered
		if _, err := d.Forget(t.Context(), RecordID{acme, id}, Entry{}); !errors.Is(err, ErrUnderWay) {
			t.Errorf("%s: %v, want ErrUnderWay", id, err)
		}
	}
	if _, err := os.Lstat(d.opts.Path + tombstonesEnding); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a list of forgotten payers was made: %v", err)
	}
	after := d.rows()
	for key, text := range before {
		if strings.Fields(key)[0] != "ledger" && after[key] != text {
			t.Errorf("%s has changed", key)
		}
	}
	d.forget("c002") // planned and nothing more
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM changes WHERE source_id = 'c002' AND state = 'pending'"); n != 0 {
		t.Errorf("%d changes are still planned for it", n)
	}
}

// inPlaceOf puts an older copy of the ledger in its place and opens it.
func (d *desk) inPlaceOf(older []byte) *desk {
	d.t.Helper()
	for _, ending := range []string{"-wal", "-shm"} {
		_ = os.Remove(d.opts.Path + ending)
	}
	if err := os.WriteFile(d.opts.Path, older, 0o600); err != nil {
		d.t.Fatal(err)
	}
	return &desk{Ledger: d.another(), t: d.t, clock: d.clock, opts: d.opts}
}

func TestAnOlderCopyForgetsAgainWhomItsListNames(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(8)
	d.over()
	backup := d.opts.Path + ".backup"
	raw(t, d.opts.Path, "VACUUM INTO '"+backup+"'")
	boxes := d.sealedOf("c000", "b000", "m000", "evt-000", "c004", "evt-004")
	d.forget("c000")
	older := readFile(t, backup)
	if err := errors.Join(os.Remove(backup), d.Close()); err != nil {
		t.Fatal(err)
	}
	l := d.inPlaceOf(older)
	if n := l.Heeded(); n != 1 {
		t.Errorf("%d payers were forgotten again, want 1", n)
	}
	if how, err := l.ForgottenAs(t.Context(), RecordID{acme, "c000"}); err != nil || how != ForgottenPayer {
		t.Errorf("the payer is %q, %v", how, err)
	}
	if how, err := l.ForgottenAs(t.Context(), RecordID{acme, "c001"}); err != nil || how != ForgottenNot {
		t.Errorf("its neighbour is %q, %v", how, err)
	}
	l.expectNowhere(slices.DeleteFunc(boxes, func(b []byte) bool { return l.livesOn(b) }))
	if again := l.another(); again.Heeded() != 0 {
		t.Error("it is told twice")
	}
	if err := l.Integrity(t.Context()); err != nil {
		t.Error(err)
	}

	// A copy from before, in the middle of a request: the request stays known.
	l.do(func(tx *Tx) error { return tx.erase(RecordID{acme, "c004"}, ForgottenPayer) })
	if n := one[int](t, l.Ledger, "SELECT count(*) FROM attempts WHERE source_id = 'c004' AND ended = ''"); n != 1 {
		t.Errorf("%d requests without an end, want 1", n)
	}
	if state := one[string](t, l.Ledger,
		"SELECT state FROM changes WHERE source_id = 'c004' AND lane = 'customer'"); state != "void" {
		t.Errorf("its change is %s", state)
	}
}

// No later read of a forgotten payer's customer stores personal values.
func TestNothingPersonalIsKeptOfAForgottenPayersCustomer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(8)
	d.over()
	d.forget("c000")
	p, err := d.Payer(t.Context(), acme, "c000")
	if err != nil {
		t.Fatal(err)
	}
	run := one[int64](t, d.Ledger, "SELECT max(run_id) FROM runs")
	d.do(func(tx *Tx) error {
		m := connector.Mandate{ID: "m000", CustomerID: "b000", Status: connector.MandateCancelled, URL: canaryLink,
			FailureReason: connector.NewSecret(canaryReason)}
		_, mandate := tx.SaveMandate(m, connector.CauseWebhook, "evt")
		_, named := tx.Receive(Delivery{Key: "later", Type: "dd-mandate", BillingID: "b000", State: connector.InboxReceived,
			Body: []byte(canaryName)})
		_, byMandate := tx.Receive(Delivery{Key: "later still", Type: "dd-mandate", MandateID: "m000",
			State: connector.InboxReceived, Body: []byte(canaryName)})
		_, unknown := tx.Receive(Delivery{Key: "odd", Type: "?", State: connector.InboxQuarantined, Body: []byte(canaryName)})
		_, reread := tx.RereadDelivery(Delivery{Key: "odd", Type: "customer", BillingID: "b000",
			State: connector.InboxReceived})
		return errors.Join(tx.SaveFinancial("b000", canaryReason), mandate, named, byMandate, unknown, reread,
			tx.SetApplied(p, personalCustomer("c000")), tx.Accept(p, []connector.Accepted{{Path: "name"}}),
			tx.SavePage(run, acme, []connector.Record{personalRecord("c000")}))
	})
	list := d.beginPass()
	d.saveListed(connector.RemoteCustomer{ID: "b000", Name: canaryName, Emails: []string{canaryEmail},
		ExternalData: map[string]string{"acct": "c000"}}, list)
	d.saveListed(connector.RemoteCustomer{ID: "made by a late request", Name: canaryName, Emails: []string{canaryEmail},
		ExternalData: map[string]string{"acct": "c000"}}, list)
	for query, want := range map[string]int{
		"SELECT count(*) FROM mandates WHERE mandate_id = 'm000' AND status = 'CANCELLED' AND link IS NULL":                   1,
		"SELECT count(*) FROM failure_reasons WHERE mandate_id = 'm000'":                                                      0,
		"SELECT count(*) FROM financial_statuses WHERE billing_id = 'b000'":                                                   0,
		"SELECT count(*) FROM inbox WHERE delivery_key IN ('later', 'later still', 'odd') AND body = x''":                     3,
		"SELECT count(*) FROM payers WHERE source_id = 'c000' AND applied IS NULL AND accepted IS NULL AND applied_hash = ''": 1,
		"SELECT count(*) FROM remote_traits WHERE kind <> 'key' AND billing_id IN ('b000', 'made by a late request')":         0,
		"SELECT count(*) FROM remote_traits WHERE kind = 'key' AND billing_id IN ('b000', 'made by a late request')":          2,
	} {
		if n := one[int](t, d.Ledger, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
	if held, err := d.SubjectData(t.Context(), RecordID{acme, "c000"}); err != nil || string(held.Record.Data) != "{}" {
		t.Errorf("of the record is kept %s, %v", held.Record.Data, err)
	}
	if err := d.Integrity(t.Context()); err != nil {
		t.Error(err)
	}
}

// A process that dies between the list and the ledger has forgotten the payer all the same:
// the next one goes on.
func TestForgettingThatWasCutOffGoesOn(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's own catalogue")
	for _, done := range []bool{false, true} { // before the commit, and right after it
		d := newDesk(t)
		d.fill(8)
		d.over()
		boxes := d.sealedOf("c000", "b000", "m000", "evt-000")
		d.asked = func(committed bool) error {
			if _, err := os.Lstat(d.opts.Path + tombstonesEnding); err == nil && committed == done {
				return errors.New("power cut")
			}
			return nil
		}
		if _, err := d.Forget(t.Context(), RecordID{acme, "c000"}, Entry{Actor: "ada", Action: "forget payer"}); err == nil {
			t.Fatal("it was not cut off")
		}
		l := &desk{Ledger: d.another(), t: t, clock: d.clock, opts: d.opts}
		if how, err := l.ForgottenAs(t.Context(), RecordID{acme, "c000"}); err != nil || how != ForgottenPayer {
			t.Errorf("done %t: the payer is %q, %v", done, how, err)
		}
		l.expectNowhere(boxes)
		if n := one[int](t, l.Ledger, "SELECT count(*) FROM tombstones WHERE scrubbed = 0"); n != 0 {
			t.Errorf("done %t: the files are not said to be clean", done)
		}
	}
}

// livesOn reports whether a box is of a payer that was not forgotten.
func (d *desk) livesOn(box []byte) bool {
	for _, text := range d.rows() {
		if strings.Contains(text, fmt.Sprintf("%X", box)) {
			return true
		}
	}
	return false
}

func TestTheListOfForgottenPayersIsMadeAnewAndNeverTakenInPart(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "the list lies beside the file")
	d := newDesk(t)
	d.fill(8)
	d.over()
	d.forget("c000")
	d.forget("c002")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	list := d.opts.Path + tombstonesEnding
	whole := readFile(t, list)
	for _, canary := range append(canaries, "canary") {
		if bytes.Contains(bytes.ToLower(whole), bytes.ToLower([]byte(canary))) {
			t.Errorf("the list holds %q", canary)
		}
	}
	for _, word := range strings.FieldsFunc(string(whole),
		func(r rune) bool { return strings.ContainsRune(" ,:/\n", r) }) {
		if word == "c000" || word == "b000" { // within a hash it means nothing
			t.Errorf("the list holds %q", word)
		}
	}
	open := func() *Ledger {
		t.Helper()
		l, err := Open(t.Context(), d.opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	open()
	if made := readFile(t, list); len(bytes.Split(made, []byte("\n"))) != len(bytes.Split(whole, []byte("\n"))) {
		t.Errorf("it was made anew as\n%s\ninstead of\n%s", made, whole)
	}
	for what, text := range map[string][]byte{
		"cut short in its last line": whole[:len(whole)-5],
		"with half a line behind":    append(slices.Clone(whole), "forget 12"...),
	} {
		if err := os.WriteFile(list, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if open().Heeded() != 0 {
			t.Errorf("%s: somebody was forgotten anew", what)
		}
		if again := readFile(t, list); bytes.Count(again, []byte(" 2026-")) != 2 {
			t.Errorf("%s: it is now\n%s", what, again)
		}
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for what, text := range map[string][]byte{
		"a line altered":    bytes.Replace(whole, []byte("\nforget "), []byte("\nkeep "), 1),
		"its key lost":      slices.Concat(lines[0], lines[2], lines[3]),
		"something else":    []byte("something else\n"),
		"a line in between": slices.Concat(lines[0], lines[1], []byte("\n"), lines[2]),
	} {
		if err := os.WriteFile(list, text, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, d.opts, "list of forgotten payers")
		if now := readFile(t, list); !bytes.Equal(now, text) {
			t.Errorf("%s: the file was changed", what)
		}
	}
	if err := errors.Join(os.WriteFile(list, whole, 0o600), os.Chmod(list, 0o644)); err != nil {
		t.Fatal(err)
	}
	refused(t, d.opts, "chmod 600")
}

// A forgotten payer is recognised by id, or, under a new number, by its name and address.
func TestWhoWasForgottenIsKnownAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(4)
	d.over()
	d.forget("c000")
	const other = "beta"
	labels := map[string]connector.Label{
		"c000": {Number: "c000", Name: canaryName, Email: canaryEmail},
		"c001": {Number: "c001", Name: canaryName, Email: canaryEmail}, // was there beside it
		"n1":   {Number: "c000", Name: "Another", Email: "another@example.org"},
		"n2":   {Number: "77", Name: "  " + strings.ToUpper(canaryName), Email: canaryEmail},
		"n3":   {Number: "78", Name: "Another", Email: canaryEmail},
	}
	barred := func(connection string) map[string]Forgotten {
		t.Helper()
		var records []connector.Record
		for id := range labels {
			records = append(records, connector.Record{SourceID: id, State: connector.RecordActive})
		}
		got, err := d.Barred(t.Context(), connection, records,
			func(r connector.Record) connector.Label { return labels[r.SourceID] })
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	expect := func(connection string, want map[string]Forgotten) {
		t.Helper()
		if got := barred(connection); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", connection, got, want)
		}
	}
	expect(acme, map[string]Forgotten{"c000": ForgottenPayer, "n1": ForgottenAlike, "n2": ForgottenAlike})
	// other books: the person, not the number
	expect(other, map[string]Forgotten{"c000": ForgottenAlike, "c001": ForgottenAlike, "n2": ForgottenAlike})
	labels["c000"] = connector.Label{Number: "c000", Name: "Somebody Else", Email: "else@example.org"}
	expect(acme, map[string]Forgotten{"c000": ForgottenOther, "n1": ForgottenAlike, "n2": ForgottenAlike})

	run := one[int64](t, d.Ledger, "SELECT max(run_id) FROM runs")
	for id, how := range barred(acme) {
		d.do(func(tx *Tx) error { return tx.Bar(acme, id, how) })
	}
	d.do(func(tx *Tx) error { return tx.SavePage(run, acme, []connector.Record{personalRecord("n1")}) })
	if held, err := d.SubjectData(t.Context(), RecordID{acme, "n1"}); err != nil || string(held.Record.Data) != "{}" {
		t.Errorf("of n1 is kept %s, %v", held.Record.Data, err)
	}
	if err := d.Unforget(t.Context(), RecordID{acme, "n1"},
		Entry{Actor: "ada", Action: "unforget payer", Subject: "n1"}); err != nil {
		t.Fatal(err)
	}
	expect(acme, map[string]Forgotten{"c000": ForgottenOther, "n2": ForgottenAlike})
	if err := d.Unforget(t.Context(), RecordID{acme, "c000"},
		Entry{Actor: "ada", Action: "unforget payer", Subject: "c000"}); err != nil {
		t.Fatal(err)
	}
	expect(acme, map[string]Forgotten{"n2": ForgottenNot}) // nobody is like anybody forgotten any more
	if err := d.Unforget(t.Context(), RecordID{acme, "c000"}, Entry{}); !errors.Is(err, ErrNotForgotten) {
		t.Errorf("a second time: %v", err)
	}
}
