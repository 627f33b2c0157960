package admin_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
	"payersync/state/statetest"
)

func newUsers(t *testing.T) admin.Users {
	t.Helper()
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	l, err := state.Open(t.Context(), state.Options{Path: path, KeyFile: path + ".key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return admin.Users{Ledger: l}
}

// welcome invites somebody and uses the invitation.
func welcome(t *testing.T, u admin.Users, name, role string) {
	t.Helper()
	path, err := u.Invite(t.Context(), name, role, nil, "tester")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Ledger.Do(t.Context(), func(tx *state.Tx) error {
		return u.UseInvitation(tx, strings.TrimPrefix(path, "/signin/invited/"), name, connector.NewSecret("h"))
	}); err != nil {
		t.Fatal(err)
	}
}

func TestTheLastAdminStaysUnlessSaidOtherwise(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	welcome(t, u, "ada", "admin")
	welcome(t, u, "bob", "admin")
	if err := u.SetRole(t.Context(), "bob", "operator", "ada", false); err != nil {
		t.Errorf("one of two admins: %v", err)
	}
	if err := u.SetRole(t.Context(), "ada", "viewer", "ada", false); !errors.Is(err, admin.ErrLastAdmin) {
		t.Errorf("the last admin's role: %v", err)
	}
	if err := u.Remove(t.Context(), "ada", "ada", false); !errors.Is(err, admin.ErrLastAdmin) {
		t.Errorf("removing the last admin: %v", err)
	}
	if err := u.Remove(t.Context(), "eve", "ada", false); !errors.Is(err, admin.ErrNoUser) {
		t.Errorf("removing nobody: %v", err)
	}
	if err := u.Remove(t.Context(), "ada", "tester", true); err != nil {
		t.Errorf("removing the last admin on purpose: %v", err)
	}
	lines, err := u.Ledger.Log(t.Context(), state.LogFilter{Limit: 20})
	if err != nil || len(lines) != 6 || lines[0].Action != "remove a user" || lines[1].Action != "change a role" ||
		lines[1].Subject != "bob to operator" {
		t.Errorf("the audit log is %+v, %v", lines, err)
	}
}

func TestAnotherInvitationEndsTheOneBeforeAndKeepsTheRole(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	first, err := u.Invite(t.Context(), " Ada ", "viewer", nil, "tester")
	second, again := u.Invite(t.Context(), "ada", "admin", nil, "tester")
	if err := errors.Join(err, again); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Invited(t.Context(), strings.TrimPrefix(first, "/signin/invited/")); !errors.Is(err,
		admin.ErrInvitation) {
		t.Errorf("the first invitation: %v", err)
	}
	user, err := u.Invited(t.Context(), strings.TrimPrefix(second, "/signin/invited/"))
	if err != nil || user.Name != "ada" || user.Role != "viewer" {
		t.Errorf("the second is for %+v, %v", user, err)
	}
	for _, name := range []string{"", " ", "-x", "a/b", "a\nb", "a\u202eb", "<script>", strings.Repeat("a", 65)} {
		if _, err := u.Invite(t.Context(), name, "viewer", nil, "tester"); !errors.Is(err, admin.ErrUserName) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}

func TestNamesOfOtherActorsAreNotForUsers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"root", "payersync", "schedule", " ROOT ", "Payersync"} {
		if _, err := admin.NewUserName(name); !errors.Is(err, admin.ErrReservedName) ||
			!errors.Is(err, admin.ErrUserName) {
			t.Errorf("the name %q: %v", name, err)
		}
		if _, err := (admin.Users{}).Invite(t.Context(), name, "viewer", nil, "tester"); !errors.Is(err,
			admin.ErrReservedName) {
			t.Errorf("inviting %q: %v", name, err)
		}
	}
	if name, err := admin.NewUserName("Root Beer"); name != "root beer" || err != nil {
		t.Errorf("a name that begins like one is %q, %v", name, err)
	}
	if name, err := admin.UserName("root"); name != "root" || err != nil { // who has the name since before can be removed
		t.Errorf("a user of before is %q, %v", name, err)
	}
}

func TestPasswordsAreKnownByTheirHashAlone(t *testing.T) {
	t.Parallel()
	p := admin.NewPasswords()
	const password = "correct horse battery"
	hash, err := p.Hash(t.Context(), password)
	other, again := p.Hash(t.Context(), password)
	if err := errors.Join(err, again); err != nil || hash == other || strings.Contains(hash.Expose(), "horse") ||
		!strings.HasPrefix(hash.Expose(), "argon2id$19456$2$1$") {
		t.Fatalf("the hashes are %q and %q, %v", hash.Expose(), other.Expose(), err)
	}
	for _, c := range []struct {
		password string
		hash     connector.Secret
		want     bool
	}{
		{password, hash, true}, {password, other, true}, {password + " ", hash, false}, {"", hash, false},
		{"Correct horse battery", hash, false},
		{password, connector.Secret{}, false}, {"", connector.Secret{}, false}, {strings.Repeat("x", 1<<20), hash, false},
	} {
		if got, err := p.Right(t.Context(), admin.CleanClient, c.password, c.hash); err != nil || got != c.want {
			t.Errorf("%.30q is right: %v, %v", c.password, got, err)
		}
	}
	for _, short := range []string{"", "elevenchars", strings.Repeat("ü", 11), strings.Repeat("x", 201)} {
		if _, err := p.Hash(t.Context(), short); !errors.Is(err, admin.ErrPasswordLength) {
			t.Errorf("%.30q is taken: %v", short, err)
		}
	}
	if _, err := p.Hash(t.Context(), strings.Repeat("ü", 12)); err != nil {
		t.Errorf("twelve characters are refused: %v", err)
	}
	for _, odd := range []string{"x", "argon2id$19456$2$1$", "argon2id$19456$2$1$!$!", "argon2id$8$1$1$AAAA$AAAA"} {
		if right, err := p.Right(t.Context(), admin.CleanClient, password, connector.NewSecret(odd)); right || err == nil {
			t.Errorf("the hash %q is %v, %v", odd, right, err)
		}
	}
}

// The time that a wrong password takes says nothing about whether there is such a user. Both are
// one hash; this test would fail by an order of magnitude were one of them saved.
func TestNobodyIsAsSlowAsSomebody(t *testing.T) {
	t.Parallel()
	p := admin.NewPasswords()
	hash, err := p.Hash(t.Context(), "correct horse battery")
	if err != nil {
		t.Fatal(err)
	}
	known, unknown := time.Hour, time.Hour
	for range 10 { // in turn: what else the machine does meets both
		for quickest, hash := range map[*time.Duration]connector.Secret{&known: hash, &unknown: {}} {
			begun := time.Now()
			if _, err := p.Right(t.Context(), admin.CleanClient, "a wrong password", hash); err != nil {
				t.Fatal(err)
			}
			*quickest = min(*quickest, time.Since(begun))
		}
	}
	if ratio := float64(known) / float64(unknown); ratio < 0.3 || ratio > 3 {
		t.Errorf("a known name takes %s and an unknown one %s", known, unknown)
	}
}

func TestFewHashesAreMadeAtOnceAndTheOthersWaitInALineThatEnds(t *testing.T) {
	t.Parallel()
	p := admin.NewPasswords()
	var busy, done atomic.Int64
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			_, err := p.Right(context.Background(), admin.Suspect, "a wrong password", connector.Secret{})
			switch {
			case errors.Is(err, admin.ErrHashing):
				busy.Add(1)
			case err == nil:
				done.Add(1)
			}
		})
	}
	all.Wait()
	if done.Load() < 18 || busy.Load()+done.Load() != 60 {
		t.Errorf("%d were looked at, and %d turned away", done.Load(), busy.Load())
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if right, err := p.Right(gone, admin.CleanClient, "x", connector.Secret{}); right || err != nil &&
		!errors.Is(err, admin.ErrHashing) {
		t.Errorf("who has gone: %v, %v", right, err)
	}
}

func TestAttackersDoNotFillTheLineOfTheOthers(t *testing.T) {
	t.Parallel()
	p := admin.NewPasswords()
	hash, err := p.Hash(t.Context(), "correct horse battery")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var turnedAway atomic.Int64
	var attackers sync.WaitGroup
	for range 60 {
		attackers.Go(func() {
			for ctx.Err() == nil {
				if _, err := p.Right(ctx, admin.Suspect, "a wrong password", connector.Secret{}); errors.Is(err,
					admin.ErrHashing) {
					turnedAway.Add(1)
					runtime.Gosched()
				}
			}
		})
	}
	for turnedAway.Load() == 0 {
		runtime.Gosched()
	}
	for what, from := range map[string]admin.Client{"a known device": admin.KnownDevice,
		"a clean client": admin.CleanClient} {
		for range 3 {
			if right, err := p.Right(t.Context(), from, "correct horse battery", hash); !right || err != nil {
				t.Errorf("%s is answered %v, %v", what, right, err)
			}
		}
	}
	stop()
	attackers.Wait()
}

func TestAnInvitationIsGoodForThreeDays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	synctest.Test(t, func(t *testing.T) {
		l, err := state.Open(t.Context(), state.Options{Path: path, KeyFile: path + ".key"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		u := admin.Users{Ledger: l}
		link, err := u.Invite(t.Context(), "ada", "viewer", nil, "tester")
		if err != nil {
			t.Fatal(err)
		}
		token := strings.TrimPrefix(link, "/signin/invited/")
		time.Sleep(3*24*time.Hour - time.Second)
		if _, err := u.Invited(t.Context(), token); err != nil {
			t.Errorf("a second before its end: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := u.Invited(t.Context(), token); !errors.Is(err, admin.ErrInvitation) {
			t.Errorf("at its end: %v", err)
		}
		err = l.Do(t.Context(), func(tx *state.Tx) error {
			return u.UseInvitation(tx, token, "ada",
				connector.NewSecret("h"))
		})
		if !errors.Is(err, admin.ErrInvitation) {
			t.Errorf("using it at its end: %v", err)
		}
	})
}

func TestWhoIsLimitedLooksAfterNobodySoTheLastWhoSeesAllStays(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	welcome(t, u, "ada", "admin")
	path, err := u.Invite(t.Context(), "bob", "admin", []string{"acme"}, "ada")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Ledger.Do(t.Context(), func(tx *state.Tx) error {
		return u.UseInvitation(tx, strings.TrimPrefix(path, "/signin/invited/"), "bob", connector.NewSecret("h"))
	}); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"a limit":      u.Limit(t.Context(), "ada", []string{"acme"}, "ada", false),
		"another role": u.SetRole(t.Context(), "ada", "viewer", "ada", false),
		"an end":       u.Remove(t.Context(), "ada", "ada", false),
	} {
		if !errors.Is(err, admin.ErrLastAdmin) {
			t.Errorf("%s of the last admin who sees all: %v", what, err)
		}
	}
	if err := u.Limit(t.Context(), "eve", []string{"acme"}, "ada", false); !errors.Is(err, admin.ErrNoUser) {
		t.Errorf("a limit of nobody: %v", err)
	}
	if err := u.Limit(t.Context(), "bob", nil, "ada", false); err != nil {
		t.Errorf("no limit: %v", err)
	}
	if err := u.Limit(t.Context(), "ada", []string{"acme", "beta"}, "ada", false); err != nil {
		t.Errorf("a limit beside an admin who sees all: %v", err)
	}
	if err := u.Limit(t.Context(), "bob", []string{"acme"}, "tester", true); err != nil {
		t.Errorf("a limit on purpose: %v", err)
	}
	if _, err := u.Invite(t.Context(), "bob", "viewer", nil, "tester"); err != nil {
		t.Fatal(err)
	}
	bob, err := u.Ledger.User(t.Context(), "bob")
	if err != nil || bob == nil || len(bob.Connections) != 1 || bob.Role != "admin" {
		t.Errorf("another invitation made of bob %+v, %v", bob, err)
	}
	lines, err := u.Ledger.Log(t.Context(), state.LogFilter{Limit: 4})
	if err != nil || len(lines) != 4 || lines[1].Subject != "bob to acme" || lines[2].Subject != "ada to acme beta" ||
		lines[3].Action != "let a user see all connections" {
		t.Errorf("the audit log is %+v, %v", lines, err)
	}
}
