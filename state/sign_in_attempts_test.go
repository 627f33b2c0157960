package state

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCountersOfWrongPasswordsAreKeptUntilTheyExpire(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	waits := SignInAttempts{Counter: "a", Wrong: 7, WaitUntil: now.Add(time.Minute), ExpiresAt: now.Add(time.Hour)}
	few := SignInAttempts{Counter: "b", Wrong: 1, ExpiresAt: now.Add(time.Hour)}
	old := SignInAttempts{Counter: "c", Wrong: 3, ExpiresAt: now.Add(time.Minute)}
	read := func(at time.Time, limit int) []SignInAttempts {
		t.Helper()
		got, err := d.SignInAttempts(t.Context(), at, limit)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	d.do(func(tx *Tx) error {
		return errors.Join(tx.KeepSignInAttempts([]SignInAttempts{few, waits, old}), tx.TrimSignInAttempts(now, 10))
	})
	of, err := d.SignInAttemptsOf(t.Context(), []string{"c", "b", "nobody's"}, now.Add(time.Minute))
	if diff := cmp.Diff([]SignInAttempts{few}, of); diff != "" || err != nil {
		t.Errorf("of two counters, one expired, there are (-want +got), %v:\n%s", err, diff)
	}
	d.do(func(tx *Tx) error {
		of, err := tx.SignInAttemptsOf([]string{"a"}, now)
		if diff := cmp.Diff([]SignInAttempts{waits}, of); diff != "" {
			t.Errorf("within a write the counter is (-want +got):\n%s", diff)
		}
		return err
	})
	if diff := cmp.Diff([]SignInAttempts{waits, old, few}, read(now, 10)); diff != "" {
		t.Errorf("the counters are (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]SignInAttempts{waits}, read(now, 1)); diff != "" {
		t.Errorf("with a limit of one the counters are (-want +got):\n%s", diff)
	}
	few.Wrong, waits.Wrong = 2, 0
	d.do(func(tx *Tx) error {
		return errors.Join(tx.KeepSignInAttempts([]SignInAttempts{few, waits}),
			tx.TrimSignInAttempts(now.Add(time.Minute), 10))
	})
	if diff := cmp.Diff([]SignInAttempts{few}, read(now, 10)); diff != "" {
		t.Errorf("after one was dropped and one has expired the counters are (-want +got):\n%s", diff)
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM sign_in_attempts"); n != 1 {
		t.Errorf("the table has %d rows", n)
	}
	waits.Wrong, old.Wrong, old.ExpiresAt = 7, 5, now.Add(time.Hour)
	d.do(func(tx *Tx) error {
		return errors.Join(tx.KeepSignInAttempts([]SignInAttempts{old, waits}), tx.TrimSignInAttempts(now, 2))
	})
	if diff := cmp.Diff([]SignInAttempts{waits, old}, read(now, 10)); diff != "" {
		t.Errorf("of three counters the two with the most are (-want +got):\n%s", diff)
	}
}

func TestADeviceHasSoManyAttemptsInAll(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	expires := time.Date(2026, 9, 2, 9, 0, 0, 0, time.UTC)
	take := func() (ok bool) {
		t.Helper()
		d.do(func(tx *Tx) (err error) { ok, err = tx.TakeDeviceAttempt("d", 2, expires); return err })
		return ok
	}
	giveBack := func() { d.do(func(tx *Tx) error { return tx.ReturnDeviceAttempt("d") }) }
	for i, want := range []bool{true, true, false} {
		if got := take(); got != want {
			t.Errorf("attempt %d of a device with two: %v, want %v", i+1, got, want)
		}
	}
	giveBack()
	if !take() || take() {
		t.Error("an attempt that was returned is not there again, or there are two")
	}
	giveBack()
	giveBack()
	giveBack()
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM sign_in_attempts"); n != 0 {
		t.Errorf("a device without wrong passwords has %d rows", n)
	}
	if got, err := d.SignInAttempts(t.Context(), expires.AddDate(-1, 0, 0), 10); len(got) != 0 || err != nil {
		t.Errorf("devices are among the strangers: %v, %v", got, err)
	}
}
