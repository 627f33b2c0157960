package show

import (
	"bytes"
	"strconv"
	"testing"
	"time"
)

type debt struct {
	Payer string    `json:"payer"`
	Days  int       `json:"days"`
	Since time.Time `json:"since"`

	note string
}

func debts() *Listing[debt] {
	return &Listing[debt]{Empty: "Nobody owes anything.", Narrow: []string{"Days"}, Columns: []Column[debt]{
		{Name: "payer", Title: "Payer", Cell: func(d debt) string { return d.Payer }},
		{Title: "Note", Cell: func(d debt) string { return d.note }, Sparse: true},
		Number("days", "Days", func(d debt) int { return d.Days }),
		{Name: "level", Title: "Level", Cell: func(d debt) string { return "level " + strconv.Itoa(d.Days/30) },
			Stored: func(d debt) string { return strconv.Itoa(d.Days / 30) }},
		Moment("since", "", func(d debt) time.Time { return d.Since }),
	}}
}

func TestOneDefinitionOfColumnsGivesATableAndCSV(t *testing.T) {
	t.Parallel()
	rows := []debt{{"=Ada", 61, time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), ""}, {"Bob\x1b[2J", 2, time.Time{}, ""}}
	noted := append(rows[:1:1], debt{"Bob", 2, time.Time{}, "calls back"})
	for _, tc := range []struct {
		name, output string
		rows         []debt
		out, said    string
	}{
		{"a table without a column that is blank in every row", "table", rows,
			" Payer    Days  Level   \n =Ada     61    level 2 \n Bob�[2J  2     level 0 \n", ""},
		{"a table with this column, as one row has a text", "table", noted,
			" Payer  Note        Days  Level   \n =Ada               61    level 2 \n Bob    calls back  2     level 0 \n", ""},
		{"CSV with stored values, and without formulas", "csv", rows,
			"payer,days,level,since\n'=Ada,61,2,2026-11-01T12:00:00Z\nBob�[2J,2,0,\n", ""},
		{"JSON with the members of the rows", "json", rows[:1], `{"payer":"=Ada","days":61,"since":"2026-11-01T12:00:00Z"}` +
			"\n", ""},
		{"a table without rows says so", "table", nil, "", "Nobody owes anything.\n"},
		{"CSV without rows has its header", "csv", nil, "payer,days,level,since\n", ""},
		{"JSON without rows is empty", "json", nil, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out, said bytes.Buffer
			if err := debts().On(&Console{Out: &out, ErrOut: &said, Output: tc.output}).Print(tc.rows); err != nil {
				t.Fatal(err)
			}
			if out.String() != tc.out || said.String() != tc.said {
				t.Errorf("printed %q and said %q, want %q and %q", out.String(), said.String(), tc.out, tc.said)
			}
		})
	}
}

func TestAPagedTableIsTheSameAsOneThatWaits(t *testing.T) {
	t.Parallel()
	var whole, paged bytes.Buffer
	a, b := debts().On(&Console{Out: &whole, Output: "table"}), debts().On(&Console{Out: &paged, Output: "table"})
	b.Paged = true
	for i := range 3 {
		rows := []debt{{Payer: "payer " + strconv.Itoa(i), Days: i}}
		if err := a.Write(rows); err != nil {
			t.Fatal(err)
		}
		if err := b.Write(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.End(); err != nil {
		t.Fatal(err)
	}
	if err := b.End(); err != nil {
		t.Fatal(err)
	}
	if whole.String() != paged.String() {
		t.Errorf("the paged table is\n%s, want\n%s", paged.String(), whole.String())
	}
}
