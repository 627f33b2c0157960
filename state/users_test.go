package state

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
)

func TestUsersAreKeptWithTheirPasswordsSealed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(func(tx *Tx) error {
		added, err := tx.AddUser("ada", "viewer")
		again, twice := tx.AddUser("ada", "admin")
		if !added || again {
			t.Errorf("adding says %v, and adding again %v", added, again)
		}
		return errors.Join(err, twice)
	})
	u, err := d.User(t.Context(), "ada")
	if err != nil || u == nil || u.Role != "viewer" || u.Generation != 1 || !u.Password.IsZero() ||
		!u.PasswordAt.IsZero() || u.MadeAt.IsZero() {
		t.Fatalf("the user is %+v, %v", u, err)
	}
	d.do(func(tx *Tx) error {
		_, err := tx.SetPassword("ada", connector.NewSecret("a hash that nobody may read"))
		_, role := tx.SetRole("ada", "admin")
		return errors.Join(err, role)
	})
	u, err = d.User(t.Context(), "ada")
	if err != nil || u.Password.Expose() != "a hash that nobody may read" || u.Role != "admin" || u.Generation != 3 ||
		u.PasswordAt.IsZero() {
		t.Errorf("the user is %+v, %v", u, err)
	}
	all, err := d.Users(t.Context())
	if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], *u) {
		t.Errorf("all users are %+v, %v", all, err)
	}
	if data := readFile(t, d.opts.Path+"-wal"); strings.Contains(string(data), "nobody may read") {
		t.Error("the hash stands in the file")
	}
	for what, do := range map[string]func(*Tx) (bool, error){
		"a password": func(tx *Tx) (bool, error) { return tx.SetPassword("bob", connector.NewSecret("x")) },
		"a role":     func(tx *Tx) (bool, error) { return tx.SetRole("bob", "viewer") },
		"a limit":    func(tx *Tx) (bool, error) { return tx.LimitUser("bob", []string{"acme"}) },
		"an end":     func(tx *Tx) (bool, error) { return tx.RemoveUser("bob") },
	} {
		d.do(func(tx *Tx) error {
			found, err := do(tx)
			if found {
				t.Errorf("somebody who is no user was given %s", what)
			}
			return err
		})
	}
	err = d.Do(t.Context(), func(tx *Tx) error { _, err := tx.SetRole("ada", "owner"); return err })
	if err == nil {
		t.Error("a role that there is not was taken")
	}
}

func TestInvitationsEndWithAPasswordAndWithTheUser(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*Tx) error{
		"a password":  func(tx *Tx) error { _, err := tx.SetPassword("ada", connector.NewSecret("h")); return err },
		"being gone":  func(tx *Tx) error { _, err := tx.RemoveUser("ada"); return err },
		"another one": func(tx *Tx) error { return tx.DropInvitations("ada") },
	} {
		d := newDesk(t)
		at := d.now()
		d.do(func(tx *Tx) error {
			_, err := tx.AddUser("ada", "admin")
			return errors.Join(err,
				tx.AddLoginLink("h1", LoginLink{Person: "ada", Role: "admin", MadeAt: at, ExpiresAt: at.Add(time.Hour),
					Invites: true}),
				tx.AddLoginLink("h2", LoginLink{Person: "ada", Role: "admin", MadeAt: at, ExpiresAt: at.Add(time.Hour)}))
		})
		if link, err := d.LoginLink(t.Context(), "h1"); err != nil || link == nil || !link.Invites {
			t.Errorf("the invitation is %+v, %v", link, err)
		}
		d.do(end)
		invitation, err := d.LoginLink(t.Context(), "h1")
		link, other := d.LoginLink(t.Context(), "h2")
		if err := errors.Join(err, other); err != nil || invitation != nil || link == nil || link.Invites {
			t.Errorf("after %s: the invitation is %+v, the link %+v, %v", what, invitation, link, err)
		}
	}
}

func TestALinkKeepsWhatItLimitsTo(t *testing.T) {
	t.Parallel()
	for _, limits := range [][]string{nil, {"acme"}, {"acme", "o'hara \"ltd\""}} {
		d := newDesk(t)
		d.do(func(tx *Tx) error {
			return tx.AddLoginLink("h",
				LoginLink{Person: "carl", Role: "viewer", MadeAt: d.now(), ExpiresAt: d.now().Add(time.Hour), Connections: limits})
		})
		link, err := d.LoginLink(t.Context(), "h")
		if err != nil || (link.Connections == nil) != (limits == nil) || !slices.Equal(link.Connections, limits) {
			t.Errorf("of %q is kept %+v, %v", limits, link, err)
		}
	}
}

// A reader's limits hide the connection of a saved mapping, but not its author.
func TestWhoSavedAMappingIsKnownWhateverConnectionItWasSavedFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const hash = "0123456789abcdef"
	for actor, subject := range map[string]string{"ann": "acme none → 0123456789ab", "bob": "other none → 0123456789ab",
		"eve": "acme none → ba9876543210"} {
		d.do(func(tx *Tx) error { return tx.Audit(Entry{Actor: actor, Action: MappingSaved, Subject: subject}) })
	}
	for name, l := range map[string]*Ledger{"the whole ledger": d.Ledger, "acme": d.LimitedTo([]string{"acme"}),
		"nothing": d.LimitedTo(nil)} {
		savers, err := l.MappingSavers(t.Context(), hash)
		slices.Sort(savers)
		if err != nil || !slices.Equal(savers, []string{"ann", "bob"}) {
			t.Errorf("%s names %q, %v", name, savers, err)
		}
	}
}

func TestTheLastAdminIsTheLastWhoCanSignIn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	last := func(tx *Tx, name string, want bool) error {
		got, err := tx.LastAdmin(name)
		if got != want {
			t.Errorf("that %s is the last admin is %v", name, got)
		}
		return err
	}
	d.do(func(tx *Tx) error {
		var errs []error
		for name, role := range map[string]string{"ada": "admin", "bob": "admin", "eve": "operator", "invited": "admin"} {
			_, err := tx.AddUser(name, role)
			errs = append(errs, err)
			if name != "invited" {
				_, err = tx.SetPassword(name, connector.NewSecret("h"))
				errs = append(errs, err)
			}
		}
		g, none := tx.Generation("nobody")
		if g != 0 {
			t.Errorf("nobody has generation %d", g)
		}
		return errors.Join(append(errs, none, last(tx, "ada", false), last(tx, "bob", false))...)
	})
	d.do(func(tx *Tx) error {
		_, err := tx.RemoveUser("bob")
		return errors.Join(err, last(tx, "ada", true), last(tx, "eve", false), last(tx, "invited", false),
			last(tx, "nobody", false))
	})
}

func TestAUserIsLimitedToConnectionsAndByItsLoginsEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	limit := func(connections ...string) User {
		t.Helper()
		d.do(func(tx *Tx) error { _, err := tx.LimitUser("ada", connections); return err })
		u, err := d.User(t.Context(), "ada")
		if err != nil || u == nil {
			t.Fatal(u, err)
		}
		return *u
	}
	d.do(func(tx *Tx) error { _, err := tx.AddUser("ada", "admin"); return err })
	if u := limit("acme", "o'hara"); u.Generation != 2 || !slices.Equal(u.Connections, []string{"acme", "o'hara"}) {
		t.Errorf("the limited user is %+v", u)
	}
	if u := limit(); u.Generation != 3 || u.Connections != nil {
		t.Errorf("the user without limits is %+v", u)
	}
	d.do(func(tx *Tx) error {
		_, err := tx.SetPassword("ada", connector.NewSecret("a hash"))
		last, wrong := tx.LastAdmin("ada")
		_, limited := tx.LimitUser("ada", []string{"acme"})
		after, still := tx.LastAdmin("ada")
		if !last || after {
			t.Errorf("the only admin is the last one: %v; once limited: %v", last, after)
		}
		return errors.Join(err, wrong, limited, still)
	})
}
