package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

func TestAnEditedProfileStopsItsOwnConnectionAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, name := range []string{acme, "brook"} {
		d.pin(name)
	}
	meet := func(connection, profile string, want bool) {
		t.Helper()
		d.do(func(tx *Tx) error {
			edited, err := tx.MeetProfile(connection, profile)
			if edited != want {
				t.Errorf("%s with the profile %q is edited: %t", connection, profile, edited)
			}
			return err
		})
		d.clock.move(time.Hour)
	}
	expect := func(want ...EditedProfile) {
		t.Helper()
		got, err := d.EditedProfiles(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append([]EditedProfile{}, want...), got); diff != "" {
			t.Errorf("edited profiles (-want +got):\n%s", diff)
		}
	}
	meet(acme, "", false)
	meet(acme, "first", false)
	meet("brook", "first", false)
	meet(acme, "first", false)
	expect()
	since := d.Now()
	meet(acme, "second", true)
	meet("brook", "first", false)
	meet(acme, "second", true)
	meet(acme, "third", true)
	expect(EditedProfile{Connection: acme, Since: since})
	meet(acme, "first", false)
	expect()
}

func TestAnotherProfileIsFollowedByAFullReading(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.pin(acme)
	for _, tt := range []struct{ profile, position string }{{"first", ""}, {"first", "noon"},
		{"second", ""}, {"first", ""}} {
		d.do(func(tx *Tx) error {
			_, err := tx.MeetProfile(acme, tt.profile)
			return err
		})
		if at, err := d.Cursor(t.Context(), acme, "customers"); err != nil || at != tt.position {
			t.Errorf("after the profile %s the reading goes on from %q, %v", tt.profile, at, err)
		}
		run := d.run(acme)
		d.do(func(tx *Tx) error { return tx.SetCursor(acme, "customers", "noon", run) })
		d.closeRun(run, connector.RunComplete)
	}
}
