package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/pressly/goose/v3"
)

// ofVersion5 is a ledger as version 5 of the schema left it, with a mapping's text in
// the clear.
func ofVersion5(t *testing.T, text string) *desk {
	t.Helper()
	onlyOnSQLite(t, "older versions had a file only")
	c := newClock()
	d := &desk{t: t, clock: c, opts: newOptions(t, c)}
	if err := os.WriteFile(d.opts.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	raw(t, d.opts.Path, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	db := rawDB(t, d.opts.Path)
	scripts, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, scripts, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	seal, err := loadKey(d.opts.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do  string
		arg any
	}{
		{"UPDATE ledger SET key_check = ?", seal.box([]byte("payersync"), place("ledger", "key_check"))},
		{"INSERT INTO mapping_versions (hash, text, author, saved_at) VALUES ('m1', ?, 'ann', '2026-03-02T09:00:00.000Z')",
			text},
		{"INSERT INTO connections (name, source_kind, updated_at) VALUES (?, 'csv', '2026-03-02T09:00:00.000Z')", acme},
	} {
		if _, err := db.ExecContext(t.Context(), step.do, step.arg); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMappingTextsOfAnOlderLedgerAreSealedWhenItIsOpened(t *testing.T) {
	t.Parallel()
	const text = "examples: [{given: {Name: Henrietta Oldcastle}}]"
	d := ofVersion5(t, text)
	if !bytes.Contains(readFile(t, d.opts.Path), []byte("Oldcastle")) {
		t.Fatal("the text is not in the clear before")
	}
	l := d.another()
	got, err := l.mappings(t.Context(),
		"SELECT "+versionColumns+" FROM mapping_versions v LEFT JOIN runs r ON FALSE GROUP BY v.hash, v.author, v.saved_at, v.body")
	if err := errors.Join(err, l.Integrity(t.Context()), l.Close()); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Text != text {
		t.Errorf("got %+v, want the text as it was", got)
	}
	if bytes.Contains(readFile(t, d.opts.Path), []byte("Oldcastle")) {
		t.Error("the text is in the clear still")
	}
}

func TestAnOlderLedgerIsNotSealedWithAnotherKey(t *testing.T) {
	t.Parallel()
	d := ofVersion5(t, "version: 1")
	opts := d.opts
	opts.KeyFile += ".other"
	if err := CreateKey(opts.KeyFile); err != nil {
		t.Fatal(err)
	}
	refused(t, opts, "sealed with another key")
	if got := d.another().FoundGeneration(); got != FoundInStep {
		t.Errorf("the mark told %q of a ledger that never had one", got)
	}
}
