package state

import (
	"context"
	"database/sql"
	"encoding/json"
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

	Connections []string // the user's limits; nil for none
}

func passwordPlace(name string) []byte { return place("users", "password", name) }

const userColumns = "name, role, password, generation, made_at, password_at, connections"

// userRow is a user as the table has it.
type userRow struct {
	User
	box                []byte
	made, set, limited sql.NullString
}

func (r *userRow) dest() []any {
	return []any{&r.Name, &r.Role, &r.box, &r.Generation, &r.made, &r.set, &r.limited}
}

// Users returns all users, by name.
func (l *Ledger) Users(ctx context.Context) ([]User, error) {
	rows, err := list(ctx, l, "SELECT "+userColumns+" FROM users ORDER BY name", nil, (*userRow).dest)
	out := make([]User, len(rows))
	for i, r := range rows {
		if out[i], err = l.openUser(r); err != nil {
			return nil, err
		}
	}
	return out, err
}

// User returns the user of a name; nil where there is none.
func (l *Ledger) User(ctx context.Context, name string) (*User, error) {
	var r userRow
	err := l.queryRow(ctx, "SELECT "+userColumns+" FROM users WHERE name = ?", name).Scan(r.dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a user: %w", err)
	}
	u, err := l.openUser(r)
	return &u, err
}

func (l *Ledger) openUser(r userRow) (User, error) {
	err := parseTimes(map[*time.Time]sql.NullString{&r.MadeAt: r.made, &r.PasswordAt: r.set})
	if err == nil {
		r.Connections, err = limitsOf(r.limited)
	}
	if err == nil && r.box != nil {
		var plain []byte
		plain, err = l.seal.open(r.box, passwordPlace(r.Name))
		r.Password = connector.NewSecret(string(plain))
	}
	if err != nil {
		return User{}, fmt.Errorf("read a user: %w", err)
	}
	return r.User, nil
}

// AddUser stores a new user without a password, and reports false if the name exists.
func (tx *Tx) AddUser(name, role string) (bool, error) {
	n, err := tx.count("INSERT INTO users (name, role, generation, made_at) VALUES (?, ?, 1, ?) ON CONFLICT (name) DO NOTHING", name, role, stamp(tx.now))
	return n > 0, err
}

// SetPassword stores a user's password hash, ends all logins of the user, and uses up every
// invitation. It reports false where there is no such user.
func (tx *Tx) SetPassword(name string, hash connector.Secret) (bool, error) {
	n, err := tx.count("UPDATE users SET password = ?, password_at = ?, generation = generation + 1 WHERE name = ?",
		tx.l.seal.box([]byte(hash.Expose()), passwordPlace(name)), stamp(tx.now), name)
	return n > 0, errors.Join(err, tx.DropInvitations(name))
}

// SetRole gives a user another role, and ends all logins of that person. It reports false if there is no such
// user.
func (tx *Tx) SetRole(name, role string) (bool, error) {
	n, err := tx.count("UPDATE users SET role = ?, generation = generation + 1 WHERE name = ?", role, name)
	return n > 0, err
}

// LimitUser limits a user to connections (none means all), and ends all logins of the user. It
// reports false where there is no such user.
func (tx *Tx) LimitUser(name string, connections []string) (bool, error) {
	n, err := tx.count("UPDATE users SET connections = ?, generation = generation + 1 WHERE name = ?",
		limitsColumn(connections), name)
	return n > 0, err
}

// limitsColumn returns the column with a user's connections.
func limitsColumn(connections []string) sql.NullString {
	if len(connections) == 0 {
		return sql.NullString{}
	}
	text, _ := json.Marshal(connections) // of texts never fails
	return sql.NullString{String: string(text), Valid: true}
}

func limitsOf(column sql.NullString) (connections []string, err error) {
	if column.Valid {
		err = json.Unmarshal([]byte(column.String), &connections)
	}
	return connections, err
}

// RemoveUser removes a user, with all logins and invitations. It reports false if there is no such user.
func (tx *Tx) RemoveUser(name string) (bool, error) {
	n, err := tx.count("DELETE FROM users WHERE name = ?", name)
	return n > 0, errors.Join(err, tx.DropInvitations(name))
}

// DropInvitations ends the invitations of a user that were not used.
func (tx *Tx) DropInvitations(name string) error {
	return tx.exec("DELETE FROM login_links WHERE person = ? AND invites = 1", name)
}

// Generation returns how often the logins of a user were ended; 0 for somebody who is none.
func (tx *Tx) Generation(name string) (int64, error) {
	return txSingle[int64](tx, "SELECT coalesce(max(generation), 0) FROM users WHERE name = ?", name)
}

// LastAdmin reports whether a user is the only unlimited admin with a password.
func (tx *Tx) LastAdmin(name string) (last bool, err error) {
	const looksAfter = "SELECT 1 FROM users WHERE role = 'admin' AND password IS NOT NULL AND connections IS NULL AND name "
	err = tx.row([]any{&last}, "SELECT EXISTS ("+looksAfter+"= ?1) AND NOT EXISTS ("+looksAfter+"<> ?1)", name)
	return last, err
}
