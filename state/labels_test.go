package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// label names records, by id and name.
func (d *desk) label(connection, version string, labels ...NewLabel) {
	d.t.Helper()
	d.do(func(tx *Tx) error { return tx.SaveLabels(connection, version, labels) })
}

func called(id, name string) NewLabel {
	return NewLabel{SourceID: id, Label: connector.Label{Number: id, Name: name}}
}

// labels returns what was made after a number, as "number connection/id name".
func labels(t *testing.T, l *Ledger, after int64) (out []string) {
	t.Helper()
	if err := l.EachLabel(context.Background(), after, func(r LabelRow) error {
		out = append(out, fmt.Sprintf("%d %s/%s %s", r.Made, r.Connection, r.SourceID, r.Name))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func wantLabels(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A reader of the labels up to a number gets only the newer ones.
func TestALabelGetsANewNumberWhenItSaysSomethingElse(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, connection := range []string{acme, "beta"} {
		run := d.run(connection)
		d.save(run, connection, record("c1", "Ada"), record("c2", "Grace"))
		d.closeRun(run, connector.RunComplete)
	}
	d.label(acme, "m1", called("c1", "Ada"), called("c2", "Grace"))
	d.label("beta", "m1", called("c1", "Bertha")) // the same id in other books
	wantLabels(t, "at first", labels(t, d.Ledger, 0), "1 acme/c1 Ada", "2 acme/c2 Grace", "3 beta/c1 Bertha")

	d.label(acme, "m1", called("c1", "Ada"), called("c2", "Grace Hopper"))
	d.label("beta", "m1", called("c1", "Bert"))
	wantLabels(t, "after two were renamed", labels(t, d.Ledger, 3), "5 acme/c2 Grace Hopper", "6 beta/c1 Bert")
	d.label("beta", "m1", called("c1", "Bertha")) // the newest of all
	wantLabels(t, "after one was renamed back", labels(t, d.Ledger, 6), "7 beta/c1 Bertha")
	wantLabels(t, "in all", labels(t, d.Ledger, 0), "1 acme/c1 Ada", "5 acme/c2 Grace Hopper", "7 beta/c1 Bertha")

	d.label(acme, "m2", called("c1", "Ada"))
	wantLabels(t, "after another mapping said the same", labels(t, d.Ledger, 7))
	d.label(acme, "m2", NewLabel{SourceID: "c1", Keep: true})
	wantLabels(t, "after the record said no more who it was", labels(t, d.Ledger, 0), "1 acme/c1 Ada",
		"5 acme/c2 Grace Hopper", "7 beta/c1 Bertha")

	got, err := d.LabelsOf(t.Context(), []RecordID{{acme, "c1"}, {"beta", "c1"}, {"beta", "c2"}, {"", ""}})
	want := map[RecordID]connector.Label{{acme, "c1"}: called("c1", "Ada").Label,
		{"beta", "c1"}: called("c1", "Bertha").Label}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("the labels of some (-want +got):\n%s%v", diff, err)
	}
}

// An unchanged row is read over and over; it is not written again for it.
func TestALabelThatSaysTheSameIsNotWritten(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.save(run, acme, record("c1", "Ada"))
	d.label(acme, "m1", called("c1", "Ada"))
	row := func() string {
		return one[string](t, d.Ledger, "SELECT number || mapping || digest || hex(label) FROM labels")
	}
	before := row()
	d.label(acme, "m1", called("c1", "Ada"))
	d.label(acme, "m1", called("c1", "Ada"))
	if row() != before {
		t.Error("the row was written again")
	}
}

func TestLabelsAreMadeOfWhatIsNewOrWasMadeOtherwise(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	same, changed, bare := record("c1", "Ada"), record("c2", "Grace"), record("c3", "Emmy")
	odd := record("c\x014 \"\u202e", "Odd")
	d.save(run, acme, same, changed, bare, odd)
	d.label(acme, "m1", called("c1", "Ada"), called("c2", "Grace"), called(odd.SourceID, "Odd"))
	unlabelled := func(version string) (out []string) {
		found, err := d.PageChanges(t.Context(), acme, version,
			[]connector.Record{same, record("c2", "Hopper"), bare, record("c5", "New")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found.Unlabelled {
			out = append(out, r.SourceID)
		}
		return out
	}
	wantLabels(t, "with the same mapping", unlabelled("m1"), "c2", "c3", "c5")
	wantLabels(t, "with another mapping", unlabelled("m2"), "c1", "c2", "c3", "c5")
	got, err := d.LabelsOf(t.Context(), []RecordID{{acme, "c1"}})
	if err != nil || len(got) != 1 {
		t.Errorf("found %v, %v", got, err)
	}
	for _, c := range d.candidates(acme, "m2") {
		want := map[string]string{"c1": "m1", "c2": "m1", "c3": "", odd.SourceID: "m1"}[c.Record.SourceID]
		if c.LabelledBy != want {
			t.Errorf("%q was labelled by %q, want %q", c.Record.SourceID, c.LabelledBy, want)
		}
	}
}

// A label that cannot be kept takes its record along, and nothing of its text is told.
func TestALabelIsSavedWithItsRecordOrNeither(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	err := d.Do(t.Context(), func(tx *Tx) error {
		return errors.Join(tx.SavePage(run, acme, []connector.Record{record("c1", canaryName)}),
			tx.SaveLabels(acme, "m1", []NewLabel{called("c2", canaryName)}))
	})
	if err == nil || strings.Contains(err.Error(), canaryName) {
		t.Errorf("the label of no record: %v", err)
	}
	if n := one[int](t, d.Ledger, "SELECT (SELECT count(*) FROM source_records) + (SELECT count(*) FROM labels)"); n != 0 {
		t.Errorf("%d rows stayed", n)
	}
}

// Digests tell a change, and not which two records have the same name.
func TestEqualLabelsOfTwoRecordsHaveDifferentDigests(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.save(run, acme, record("c1", "Ada"), record("c2", "Ada"))
	ada := connector.Label{Name: "Ada"}
	d.label(acme, "m1", NewLabel{SourceID: "c1", Label: ada}, NewLabel{SourceID: "c2", Label: ada})
	found, err := d.ids(t.Context(), "SELECT digest FROM labels")
	slices.Sort(found)
	if err != nil || len(slices.Compact(found)) != 2 {
		t.Errorf("the digests are %v, %v", found, err)
	}
}

func TestWithoutTheKeyThereAreNoLabels(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.save(run, acme, record("c1", "Ada"))
	d.label(acme, "m1", called("c1", "Ada"))
	o := d.opts
	o.KeyFile, o.Keyless = o.KeyFile+".away", true
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	found, err := l.LabelsOf(t.Context(), []RecordID{{acme, "c1"}})
	if !l.Sealed() || len(found) != 0 || err != nil || labels(t, l, 0) != nil {
		t.Errorf("found %v, %v", found, err)
	}
}

// Labels contain more from one version of payersync to the next.
func TestLabelsOfAnEarlierFormAreMadeAnew(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := record("c1", canaryName)
	d.save(d.run(acme), acme, r)
	d.label(acme, "m1", called("c1", canaryName))
	if found, err := d.PageChanges(t.Context(), acme, "m1", []connector.Record{r}, nil); err != nil ||
		len(found.Unlabelled) != 0 {
		t.Errorf("a label of today is made anew: %v, %v", found, err)
	}
	d.do(func(tx *Tx) error { return tx.exec("UPDATE labels SET mapping = 'm1'") })
	if found, err := d.PageChanges(t.Context(), acme, "m1", []connector.Record{r}, nil); err != nil ||
		len(found.Unlabelled) != 1 {
		t.Errorf("a label of before is kept: %v, %v", found, err)
	}
}

// A label reads the same whether its texts had to be escaped or not.
func TestALabelIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	texts := []string{"", "Ada", `Ada "the" Crumb`, `C:\bakery`, "Crumb & Crust", "a<b>", "line\nline", "日本", "\u2028",
		`","name":"x`, "}", "{", ":", `\`, "\x00"}
	for i, a := range texts {
		for j, b := range texts {
			want := connector.Label{Number: a, Name: b, Email: texts[(i+j)%len(texts)], Contact: texts[(i+1)%len(texts)],
				Language: texts[(j+1)%len(texts)]}
			plain, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			if got := plainLabel(string(plain)); got != nil && *got != want {
				t.Errorf("%s is read as %+v", plain, *got)
			}
		}
	}
	for text, want := range map[string]*connector.Label{
		`{"number":"1","name":"Ada","language":"en"}`: {Number: "1", Name: "Ada", Language: "en"},
		`{}`: nil, ``: nil, `{"name":"Ada"`: nil, `{"name":"Ada`: nil, `{"name":null}`: nil, `{"fax":"1"}`: nil,
		`{"name":"Ada" }`: nil, `{"name":"A\u0026B"}`: nil,
	} {
		if diff := cmp.Diff(want, plainLabel(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
