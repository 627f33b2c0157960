package state

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// covers F62
func TestALedgerIsServedByOneWhateverItsConnectionsDo(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "the locks are of files; on a server every node serves, and a run has its lease")
	d := newDesk(t)
	run, err := d.TryLock("serve")
	if err != nil || run == nil {
		t.Fatalf("got %v, %v; want the lock of the connection", run, err)
	}
	serving, err := d.TryServe()
	if err != nil || serving == nil {
		t.Fatalf("got %v, %v; want the ledger beside a run", serving, err)
	}
	if second, err := d.another().TryServe(); err != nil || second != nil {
		t.Errorf("got %v, %v; want no second one to serve", second, err)
	}
	for _, l := range []*Ledger{d.Ledger, d.another()} {
		if is, err := l.IsServed(t.Context()); err != nil || !is {
			t.Errorf("served: %v, %v; want true", is, err)
		}
	}
	if err := errors.Join(run.Release(), serving.Release()); err != nil {
		t.Error(err)
	}
	if is, err := d.IsServed(t.Context()); err != nil || is {
		t.Errorf("served: %v, %v; want false once the process is gone", is, err)
	}
	if again, err := d.TryServe(); err != nil || again == nil || again.Release() != nil {
		t.Errorf("got %v, %v; a look keeps nobody from serving", again, err)
	}
}

// covers F96
func TestALockFileThatRootMakesBelongsToTheLedgersOwner(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "the locks are of files; on a server every node serves, and a run has its lease")
	if os.Geteuid() != 0 {
		t.Skip("only root may give a file away; run this test as root")
	}
	d := newDesk(t)
	if err := os.Chown(d.opts.Path, somebody, somebody); err != nil {
		t.Fatal(err)
	}
	lock, err := d.TryLock("acme")
	if err != nil || lock == nil {
		t.Fatalf("got %v, %v; want the lock", lock, err)
	}
	info, err := os.Stat(d.opts.Path + "-acme.lock")
	if err := errors.Join(err, lock.Release()); err != nil {
		t.Fatal(err)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != somebody || info.Mode().Perm() != 0o600 {
		t.Errorf("the lock file belongs to %+v with mode %v, want the ledger's owner and 0600", info.Sys(), info.Mode())
	}
}

// A starting process inherits every open file of its parent.
func TestALockIsFreeOnceReleasedWhoeverElseHasItsFile(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it looks at the lock's file")
	d := newDesk(t)
	for name, try := range map[string]func() (*Lock, error){
		"a connection's": func() (*Lock, error) { return d.TryLock(acme) },
		"serve's":        d.TryServe,
	} {
		held, err := try()
		if err != nil || held == nil {
			t.Fatalf("%s: got %v, %v; want the lock", name, held, err)
		}
		inherited, err := syscall.Dup(int(held.file.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		if err := held.Release(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		again, err := try()
		if err != nil || again == nil {
			t.Errorf("%s: got %v, %v; want the lock that was released", name, again, err)
		}
		if err := errors.Join(again.Release(), syscall.Close(inherited)); err != nil {
			t.Error(err)
		}
	}
}

func TestTryLockIsHeldByOneAndFreedByRelease(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "the locks are of files; on a server every node serves, and a run has its lease")
	d := newDesk(t)
	other := d.another()
	held, err := d.TryLock("acme/north")
	if err != nil || held == nil {
		t.Fatalf("got %v, %v; want the lock", held, err)
	}
	if again, err := other.TryLock("acme/north"); err != nil || again != nil {
		t.Errorf("got %v, %v; want no lock while another holds it", again, err)
	}
	free, err := other.TryLock("globex")
	if err != nil || free == nil {
		t.Errorf("another connection: got %v, %v; want its lock", free, err)
	}
	if err := errors.Join(held.Release(), free.Release()); err != nil {
		t.Error(err)
	}
	if again, err := other.TryLock("acme/north"); err != nil || again == nil {
		t.Errorf("got %v, %v; want the lock that was released", again, err)
	} else if err := again.Release(); err != nil {
		t.Error(err)
	}
	var none *Lock
	if err := none.Release(); err != nil {
		t.Errorf("releasing no lock: %v", err)
	}
}
