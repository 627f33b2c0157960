package state

import (
	"slices"
	"strings"
	"testing"
)

// A new sealed column must be in the list for its verification.
func TestEveryBlobOfTheSchemaIsKnownToBeSealed(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads SQLite's own catalogue")
	d := newDesk(t)
	var known []string
	for _, c := range sealedColumns {
		known = append(known, c.String())
	}
	slices.Sort(known)
	found := column(t, d.Ledger, `SELECT t.name || '.' || c.name FROM sqlite_master t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND c.type = 'BLOB' ORDER BY 1`)
	if found != strings.Join(known, " ") {
		t.Errorf("the schema has the blobs\n%s\nand known to be sealed are\n%s", found, strings.Join(known, " "))
	}
}

// covers F63
func TestVerifyFindsNothingInASoundLedgerAndOpensAllThatIsSealed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(8)
	var last CheckProgress
	found, err := d.Verify(t.Context(), func(at CheckProgress) { last = at })
	if err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	boxes := 0
	for _, c := range sealedColumns {
		boxes += one[int](t, d.Ledger, "SELECT count("+c.column+") FROM "+c.table)
	}
	if last.Check != CheckSealed || last.Done != boxes || last.Total != boxes || boxes < 30 {
		t.Errorf("it ended at %+v, and there are %d sealed values", last, boxes)
	}
}

// covers F63
func TestVerifyTellsEachDamageWithItsRowAndNothingPersonal(t *testing.T) {
	t.Parallel()
	const swap = "UPDATE changes SET diff = (SELECT o.diff FROM changes o WHERE o.change_id <> changes.change_id AND o.diff IS NOT NULL LIMIT 1) WHERE change_id = 1"
	for _, c := range []struct {
		what, statement string
		want            []Damage
	}{
		{
			"values of other rows", swap + "; UPDATE mandates SET link = x'0011' WHERE mandate_id = 'm000'",
			[]Damage{{CheckSealed, "changes.diff 1", "open a sealed value: it was altered or moved"},
				{CheckSealed, "mandates.link m000", "open a sealed value: it is cut short"}},
		},
		{
			"two altered acts", "CREATE TEMP TABLE laws AS SELECT * FROM sqlite_master WHERE name = 'audit_keeps'; DROP TRIGGER audit_keeps; UPDATE audit SET actor = 'eve' WHERE seq IN (1, 3); " +
				"PRAGMA writable_schema = ON; INSERT INTO sqlite_master SELECT * FROM laws",
			[]Damage{{CheckAudit, "", "the audit log was altered at entry 1"},
				{CheckAudit, "", "the audit log was altered at entry 3"}},
		},
		{
			"a mandate that moved by itself", "UPDATE mandates SET status = 'CANCELLED' WHERE mandate_id = 'm001'",
			[]Damage{{CheckMandates, "", "the status of mandate m001 is not the last one of its history"}},
		},
		{
			"a connection that is gone", "PRAGMA foreign_keys = OFF; DELETE FROM connections",
			[]Damage{{CheckReferences, "runs, row 1", "refers to a row of connections that is gone"}},
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			d := filled(t)
			d.t = t
			raw(t, d.opts.Path, strings.Split(c.statement, "; ")...)
			l := d.another()
			found, err := l.Verify(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !slices.Contains(found, want) {
					t.Errorf("%v is not among %v", want, found)
				}
			}
			if c.want[0].Check != CheckReferences && len(found) != len(c.want) {
				t.Errorf("found %v", found)
			}
			for _, f := range found {
				for _, personal := range []string{canaryName, canaryEmail, canaryLink, canaryStreet} {
					if strings.Contains(f.Error(), personal) {
						t.Errorf("%q tells a personal value", f)
					}
				}
			}
		})
	}
}
