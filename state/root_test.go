package state

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// somebody is an account that is not root's.
const somebody = 65534

// service is a ledger of a service account, in a folder of its own, and a file of root's outside of it.
type service struct {
	*desk
	t      testing.TB
	folder string
	secret string
}

// newService needs root, who alone may give files away; .ci/run is root.
func newService(t *testing.T) *service {
	t.Helper()
	onlyOnSQLite(t, "it gives the file away")
	if os.Geteuid() != 0 {
		t.Skip("only root may give a file away; run this test as root")
	}
	d := newDesk(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	s := &service{desk: d, t: t, folder: filepath.Dir(d.opts.Path), secret: filepath.Join(t.TempDir(), "shadow")}
	if err := os.WriteFile(s.secret, []byte("root's own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{s.folder, d.opts.Path} {
		if err := os.Chown(path, somebody, somebody); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// keepsItsOwner fails unless root's file, which was planted at path, is root's
// still.
func (s *service) keepsItsOwner(path string) {
	s.t.Helper()
	if _, err := os.Lstat(s.secret); err == nil {
		path = s.secret
	}
	if uid := owner(s.t, path); uid != 0 {
		s.t.Errorf("%s belongs to account %d now: root gave it away", filepath.Base(path), uid)
	}
}

func owner(t testing.TB, path string) uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// plants are the ways for a service account to put root's file at the place of root's next write.
var plants = map[string]func(secret, name string) error{
	"a symbolic link": os.Symlink,
	"a hard link":     os.Link,
	"the file itself": os.Rename,
}

// covers F112
func TestALockFileThatWasThereIsNeverGivenAway(t *testing.T) {
	t.Parallel()
	for what, plant := range plants {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			name := s.opts.Path + "-acme.lock"
			if err := plant(s.secret, name); err != nil {
				t.Fatal(err)
			}
			lock, err := s.another().TryLock("acme")
			t.Logf("TryLock: %v", err)
			if err == nil && what != "the file itself" {
				t.Error("the lock was taken on a file that is not its own")
			}
			s.keepsItsOwner(name)
			if err := lock.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

// covers F112
func TestTheLogBesideALedgerIsNeverGivenAway(t *testing.T) {
	t.Parallel()
	for what, plant := range plants {
		for _, ending := range []string{"-wal", "-shm", "-journal"} {
			t.Run(what+" as "+ending, func(t *testing.T) {
				t.Parallel()
				s := newService(t)
				name := s.opts.Path + ending
				if err := plant(s.secret, name); err != nil {
					t.Fatal(err)
				}
				l, err := Open(t.Context(), s.opts)
				if err == nil {
					t.Error("the ledger was opened beside it")
					_ = l.Close()
				}
				t.Logf("Open: %v", err)
				s.keepsItsOwner(name)
			})
		}
	}
}

// covers F112
func TestRootFollowsNoLinkThatTheServiceAccountMadeToAFolder(t *testing.T) {
	t.Parallel()
	s := newService(t)
	other := t.TempDir()
	link := filepath.Join(s.folder, "ledgers")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, somebody, somebody); err != nil {
		t.Fatal(err)
	}
	s.opts.Path = filepath.Join(link, "payersync.db")
	refused(t, s.opts, "symbolic link")
	if made, err := os.ReadDir(other); err != nil || len(made) > 0 {
		t.Errorf("%v was made behind the link (%v)", made, err)
	}
}

func TestAPipeInTheLocksPlaceStopsNobody(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "the lock is a file")
	d := newDesk(t)
	if err := syscall.Mkfifo(d.opts.Path+"-acme.lock", 0o600); err != nil {
		t.Fatal(err)
	}
	if lock, err := d.TryLock("acme"); err == nil {
		t.Errorf("got %v; want the pipe refused", lock)
	}
}

// covers F88
func TestRootRestoresALedgerForTheServiceAndFollowsNoLink(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.Ledger = s.another()
	backup := s.snapshot()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, ending := range []string{restoringEnding, beforeMiddle} {
		if err := os.Symlink(s.secret, s.opts.Path+ending); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Restore(t.Context(), s.restoring(backup)); err != nil {
		t.Fatal(err)
	}
	if got := owner(t, s.opts.Path); got != somebody {
		t.Errorf("the ledger belongs to account %d", got)
	}
	s.keepsItsOwner(s.secret)
	if got := readFile(t, s.secret); string(got) != "root's own\n" {
		t.Errorf("root's file says %q", got)
	}
}
