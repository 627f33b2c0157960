package state

import (
	"errors"
	"fmt"
	"testing"
)

// What one account waits for, a mail server that hangs for instance, keeps no other from its locks, however few the
// connections are.
//
// covers F193
func TestLocksOfManyAccountsAreHeldAtATime(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 2)
	elsewhere := opts
	var err error
	if elsewhere.Server, err = OpenServer(t.Context(),
		ServerOptions{Address: s.write.Config().ConnString(), Connections: 2, KeyEncryptionKey: kekOf(1),
			clock: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(elsewhere.Server.Close)
	var held []*Lock
	for i := range 12 {
		d := ofAccountNamed(t, opts, fmt.Sprintf("account-%d", i))
		for _, ending := range []string{MessageLetter.lock(), MessageAlarm.lock()} {
			k, err := d.below.tryLock(t.Context(), ending)
			if err != nil || k == nil {
				t.Fatalf("account %d, %s: %v, %v", i, ending, k, err)
			}
			held = append(held, k)
		}
	}
	here, there := ofAccountNamed(t, opts, "account-0"), ofAccountNamed(t, elsewhere, "account-0")
	free := func(d *desk) bool {
		t.Helper()
		k, err := d.below.tryLock(t.Context(), MessageLetter.lock())
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Release(); err != nil {
			t.Error(err)
		}
		return k != nil
	}
	if free(here) || free(there) {
		t.Error("a lock that is held was given to a second")
	}
	rawDB(t, opts.Path).QueryRowContext(t.Context(), "SELECT pg_terminate_backend(?, 5000)",
		s.locks.conn.Conn().PgConn().PID())
	if !free(there) {
		t.Error("the lock outlived its session")
	}
	if free(here) {
		t.Error("who holds it here was not asked to let go first")
	}
	for _, k := range held {
		if err := k.Release(); !errors.Is(err, ErrConnectionLost) {
			t.Errorf("got %v, want that it is told that the lock was lost", err)
		}
	}
	if !free(here) || !free(there) || s.locks.conn != nil {
		t.Error("the lock is held after it was let go, or a session for none")
	}
}
