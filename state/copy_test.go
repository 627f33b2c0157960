package state

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// snapshot returns the ledger as a file of its own.
func (d *desk) snapshot() []byte {
	d.t.Helper()
	onlyOnSQLite(d.t, "a copy is a file")
	s, err := d.Snapshot(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := errors.Join(s.WriteTo(context.Background(), &out, nil), s.Close()); err != nil {
		d.t.Fatal(err)
	}
	return out.Bytes()
}

func (d *desk) openCopy(data []byte) (*Copy, error) {
	return OpenCopy(context.Background(), "backup.db", bytes.NewReader(data), int64(len(data)), d.opts.KeyFile, false)
}

// A snapshot is of the moment it was taken in, whatever is written while it is copied, and
// a ledger whose newest commits are in the log alone is whole in it.
//
// covers F65
func TestASnapshotIsWholeAndOfOneMoment(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a copy is a file")
	d := newDesk(t)
	d.fill(8)
	want, err := dump(t.Context(), d.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	facts, err := s.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.tickets(50)
	var out bytes.Buffer
	var told, total int64
	if err := s.WriteTo(t.Context(), &out, func(done, size int64) { told, total = done, size; d.tickets(1) }); err != nil {
		t.Fatal(err)
	}
	found, err := s.Verify(t.Context(), nil)
	if err := errors.Join(err, s.Close()); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if told != int64(out.Len()) || total != told {
		t.Errorf("told of %d of %d bytes, there are %d", told, total, out.Len())
	}

	opts := d.opts
	opts.Path += ".copy"
	writeFile(t, opts.Path, out.Bytes())
	if how, wrong := judge(t, opts, want); how != "intact" {
		t.Errorf("the copy is %s, %v differ", how, wrong)
	}
	c, err := d.openCopy(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	found, err = c.Verify(t.Context(), nil)
	got, factsErr := c.Facts(t.Context())
	if err := errors.Join(err, factsErr, c.Close()); err != nil || len(found) > 0 || got != facts || got.Payers != 8 ||
		got.Ledger == "" {
		t.Errorf("the copy tells %+v, %v, %v; want %+v", got, found, err, facts)
	}
}

// covers F63, F65, F69
func TestACopyThatIsNoUseIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(4)
	sound := d.snapshot()
	change := func(statement string) []byte {
		path := d.opts.Path + ".changed"
		writeFile(t, path, sound)
		raw(t, path, statement)
		return readFile(t, path)
	}
	newer := change("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9000, 1)")
	foreign := change("PRAGMA application_id = 7")
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "no ledger"},
		{"a text", []byte(strings.Repeat("This is no database. ", 500)), "no ledger"},
		{"another program's", foreign, "no ledger of payersync"},
		{"a newer one", newer, "its schema is version 9000"},
		{"the first page alone", sound[:4096], "damaged"},
	} {
		c2, err := d.openCopy(c.data)
		var refusal *OpenError
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "backup.db") {
			t.Errorf("%s: %v, want a refusal that says %q", c.name, err, c.want)
		}
		if c2 != nil {
			_ = c2.Close()
		}
	}
	d.opts.KeyFile += ".other"
	if err := CreateKey(d.opts.KeyFile); err != nil {
		t.Fatal(err)
	}
	if _, err := d.openCopy(sound); err == nil || !strings.Contains(err.Error(), "sealed with another key") {
		t.Errorf("another key opens it: %v", err)
	}
}

// covers F63
func TestDamageInACopyIsFound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(8)
	sound := d.snapshot()
	for _, spoil := range []func([]byte) []byte{
		func(b []byte) []byte { return b[:len(b)-4096] },
		func(b []byte) []byte { copy(b[len(b)-4096:], bytes.Repeat([]byte{0xA5}, 4096)); return b },
		func(b []byte) []byte { return b[:len(b)/2] },
	} {
		c, err := d.openCopy(spoil(slices.Clone(sound)))
		if err != nil {
			continue // which finds it, too
		}
		found, err := c.Verify(t.Context(), nil)
		if err := errors.Join(err, c.Close()); err != nil || len(found) == 0 {
			t.Errorf("found %v, %v", found, err)
		}
	}
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
