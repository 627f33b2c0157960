package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// User is somebody who signs in to the pages with a password.
type User struct {
	Name       string
	Role       string
	Password   connector.Secret // its hash; blank until the invitation was used
	Generation int64            // counts what ends all logins: another password, another role
	MadeAt     time.Time
	PasswordAt time.Time // zero until there is one
}

func passwordPlace(name string) []byte { return place("users", "password", name) }

const userColumns = "name, role, password, generation, made_at, password_at"

// Users returns all users, by name.
func (l *Ledger) Users(ctx context.Context) ([]User, error) {
	type row struct {
		User
		box       []byte
		made, set sql.NullString
	}
	rows, err := list(ctx, l, "SELECT "+userColumns+" FROM users ORDER BY name", nil,
		func(r *row) []any { return []any{&r.Name, &r.Role, &r.box, &r.Generation, &r.made, &r.set} })
	out := make([]User, len(rows))
	for i, r := range rows {
		if err := l.openUser(&r.User, r.box, r.made, r.set); err != nil {
			return nil, err
		}
		out[i] = r.User
	}
	return out, err
}

// User returns the user of a name; nil where there is none.
func (l *Ledger) User(ctx context.Context, name string) (*User, error) {
	var box []byte
	var made, set sql.NullString
	u := &User{}
	err := l.queryRow(ctx, "SELECT "+userColumns+" FROM users WHERE name = ?", name).Scan(&u.Name, &u.Role, &box, &u.Generation, &made, &set)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a user: %w", err)
	}
	return u, l.openUser(u, box, made, set)
}

func (l *Ledger) openUser(u *User, box []byte, made, set sql.NullString) error {
	err := parseTimes(map[*time.Time]sql.NullString{&u.MadeAt: made, &u.PasswordAt: set})
	if err == nil && box != nil {
		var plain []byte
		plain, err = l.seal.open(box, passwordPlace(u.Name))
		u.Password = connector.NewSecret(string(plain))
	}
	if err != nil {
		return fmt.Errorf("read a user: %w", err)
	}
	return nil
}

// AddUser keeps a new user without a password, and reports false where there is one of that name.
func (tx *Tx) AddUser(name, role string) (bool, error) {
	n, err := tx.count("INSERT INTO users (name, role, generation, made_at) VALUES (?, ?, 1, ?) ON CONFLICT (name) DO NOTHING", name, role, stamp(tx.now))
	return n > 0, err
}

// SetPassword keeps the hash of a user's password, ends all logins of that person, and uses up
// every invitation. It reports false where there is no such user.
func (tx *Tx) SetPassword(name string, hash connector.Secret) (bool, error) {
	n, err := tx.count("UPDATE users SET password = ?, password_at = ?, generation = generation + 1 WHERE name = ?",
		tx.l.seal.box([]byte(hash.Expose()), passwordPlace(name)), stamp(tx.now), name)
	return n > 0, errors.Join(err, tx.DropInvitations(name))
}

// SetRole gives a user another role, and ends all logins of that person. It reports false where
// there is no such user.
func (tx *Tx) SetRole(name, role string) (bool, error) {
	n, err := tx.count("UPDATE users SET role = ?, generation = generation + 1 WHERE name = ?", role, name)
	return n > 0, err
}

// RemoveUser removes a user, whose logins and invitations end by it. It reports false where there
// is no such user.
func (tx *Tx) RemoveUser(name string) (bool, error) {
	n, err := tx.count("DELETE FROM users WHERE name = ?", name)
	return n > 0, errors.Join(err, tx.DropInvitations(name))
}

// DropInvitations ends the invitations of a user that were not used.
func (tx *Tx) DropInvitations(name string) error {
	return tx.exec("DELETE FROM login_links WHERE person = ? AND invites = 1", name)
}

// Generation returns how often the logins of a user were ended; 0 for somebody who is none.
func (tx *Tx) Generation(name string) (n int64, err error) {
	err = tx.row([]any{&n}, "SELECT coalesce(max(generation), 0) FROM users WHERE name = ?", name)
	return n, err
}

// LastAdmin reports whether a user is the only admin who has a password.
func (tx *Tx) LastAdmin(name string) (last bool, err error) {
	err = tx.row([]any{&last}, `SELECT EXISTS (SELECT 1 FROM users WHERE role = 'admin' AND password IS NOT NULL AND name = ?1)
		AND NOT EXISTS (SELECT 1 FROM users WHERE role = 'admin' AND password IS NOT NULL AND name <> ?1)`, name)
	return last, err
}
