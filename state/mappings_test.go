package state

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// runWith makes a whole run of acme with a mapping version.
func (d *desk) runWith(hash string, kind connector.RunKind) {
	d.t.Helper()
	d.pin(acme)
	d.do(func(tx *Tx) error {
		if err := tx.SaveMapping(hash, "version: 1 # "+hash, "ann"); err != nil {
			return err
		}
		id, err := tx.OpenRun(NewRun{Connection: acme, Kind: kind, Trigger: "manual", Mapping: hash, Holder: "test"})
		if err != nil {
			return err
		}
		_, _, err = tx.CloseRun(id, acme, connector.RunComplete, "", connector.NewIDs())
		return err
	})
	d.clock.move(time.Hour)
}

func TestMappingVersionsAreListedByTheirLastUse(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	begin := d.Now()
	d.runWith("aaaaaa11", connector.RunSync)
	d.runWith("aaaaaa22", connector.RunSync)
	d.runWith("aaaaaa11", connector.RunBackfill)
	d.runWith("bbbbbb33", connector.RunPlan)
	got, err := d.MappingVersions(t.Context(), acme)
	if err != nil {
		t.Fatal(err)
	}
	want := []MappingVersion{
		{Hash: "bbbbbb33", Author: "ann", SavedAt: begin.Add(3 * time.Hour), LastUsed: begin.Add(3 * time.Hour), Runs: 1,
			Text: "version: 1 # bbbbbb33"},
		{Hash: "aaaaaa11", Author: "ann", SavedAt: begin, LastUsed: begin.Add(2 * time.Hour), Runs: 2,
			Text: "version: 1 # aaaaaa11"},
		{Hash: "aaaaaa22", Author: "ann", SavedAt: begin.Add(time.Hour), LastUsed: begin.Add(time.Hour), Runs: 1,
			Text: "version: 1 # aaaaaa22"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if v, err := d.MappingInForce(t.Context(), acme); err != nil || v.Hash != "aaaaaa11" {
		t.Errorf("in force is %s (%v), want the version of the last run that was no mere plan", v.Hash, err)
	}
	if _, err := d.MappingInForce(t.Context(), "brook"); !errors.Is(err, ErrNoMapping) {
		t.Errorf("in force without a run: %v", err)
	}
}

func TestAMappingVersionIsFoundByTheBeginningOfItsHash(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.runWith("aaaaaa11", connector.RunSync)
	d.runWith("aaaaaa22", connector.RunSync)
	for _, c := range []struct {
		prefix, hash string
		err          error
	}{
		{"aaaaaa1", "aaaaaa11", nil}, {"aaaaaa22", "aaaaaa22", nil}, {"aaaaaa", "", ErrManyMappings},
		{"aaaaa", "", ErrNoMapping}, {"", "", ErrNoMapping}, {"aaaaaa3", "", ErrNoMapping}, {"aaaaaa11x", "", ErrNoMapping},
		{"%%%%%%", "", ErrNoMapping},
	} {
		v, err := d.FindMapping(t.Context(), c.prefix)
		if v.Hash != c.hash || !errors.Is(err, c.err) {
			t.Errorf("%q finds %q (%v), want %q (%v)", c.prefix, v.Hash, err, c.hash, c.err)
		}
	}
}

func TestAMappingProblemKeepsItsTimeAndIsNewsOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.pin(acme)
	set := func(problem string) (news bool) {
		t.Helper()
		d.do(func(tx *Tx) (err error) {
			news, err = tx.SetMappingProblem(acme, problem)
			return err
		})
		d.clock.move(time.Hour)
		return news
	}
	begin := d.Now()
	for i, step := range []struct {
		problem string
		news    bool
	}{{"", false}, {"line 1", true}, {"line 1", false}, {"line 2", true}} {
		if got := set(step.problem); got != step.news {
			t.Errorf("step %d: news is %t, want %t", i, got, step.news)
		}
	}
	want := []MappingProblem{{Connection: acme, Problem: "line 2", Since: begin.Add(time.Hour)}}
	if got, err := d.MappingProblems(context.Background()); err != nil || !cmp.Equal(want, got) {
		t.Errorf("problems are %+v (%v), want %+v", got, err, want)
	}
	if !set("") {
		t.Error("that it is mended is no news")
	}
	if got, err := d.MappingProblems(context.Background()); err != nil || len(got) != 0 {
		t.Errorf("problems are still %+v (%v)", got, err)
	}
}
