package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// LoginLink is a link that signs somebody in to the pages once.
type LoginLink struct {
	Person    string
	Role      string
	MadeAt    time.Time
	ExpiresAt time.Time
	UsedAt    time.Time // zero while it was not used
	Invites   bool      // to choose a password, rather than signing in as it stands here

	Connections []string // the login's limits; nil for none
}

func loginPlace(hash string) []byte { return place("logins", "data", hash) }

// Login returns the stored data of the login with this token hash, and its expiry; nil if there is
// none. Whether it has expired is for the caller to say.
func (l *Ledger) Login(ctx context.Context, hash string) (data []byte, expires time.Time, err error) {
	var box []byte
	var until sql.NullString
	err = l.queryRow(ctx, "SELECT data, expires_at FROM logins WHERE token_hash = ?", hash).Scan(&box, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, time.Time{}, nil
	}
	if err == nil {
		expires, err = parseTime(until)
	}
	if err == nil {
		data, err = l.seal.open(box, loginPlace(hash))
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read a login: %w", err)
	}
	return data, expires, nil
}

// AddLogin keeps a new login with its data until it expires, and drops the logins that have
// expired. expires uses the same clock as now.
func (tx *Tx) AddLogin(hash string, data []byte, expires, now time.Time) error {
	return errors.Join(
		tx.exec("DELETE FROM logins WHERE expires_at <= ?", stamp(now)),
		tx.exec("INSERT INTO logins (token_hash, data, expires_at) VALUES (?, ?, ?)", hash,
			tx.l.seal.box(data, loginPlace(hash)), stamp(expires)))
}

// KeepLogin keeps other data with a login, and until when it holds. A login that ended meanwhile
// stays ended, even if an earlier request tries to save it.
func (tx *Tx) KeepLogin(hash string, data []byte, expires time.Time) error {
	return tx.exec("UPDATE logins SET data = ?, expires_at = ? WHERE token_hash = ?",
		tx.l.seal.box(data, loginPlace(hash)), stamp(expires), hash)
}

// DropLogin ends a login.
func (tx *Tx) DropLogin(hash string) error {
	return tx.exec("DELETE FROM logins WHERE token_hash = ?", hash)
}

// AddLoginLink stores a one-time sign-in link by the hash of its token, and drops expired links.
func (tx *Tx) AddLoginLink(hash string, link LoginLink) error {
	return errors.Join(
		tx.exec("DELETE FROM login_links WHERE expires_at <= ?", stamp(link.MadeAt)),
		tx.exec("INSERT INTO login_links (token_hash, person, role, made_at, expires_at, invites, connections) VALUES (?, ?, ?, ?, ?, ?, ?)",
			hash, link.Person, link.Role, stamp(link.MadeAt), stamp(link.ExpiresAt), link.Invites,
			limitsColumn(link.Connections)))
}

// LoginLink returns the link with this token hash; nil if there is none.
func (l *Ledger) LoginLink(ctx context.Context, hash string) (*LoginLink, error) {
	return loginLink(l.queryRow(ctx, loginLinkQuery, hash))
}

const loginLinkQuery = "SELECT person, role, made_at, expires_at, used_at, invites, connections FROM login_links WHERE token_hash = ?"

func loginLink(found row) (*LoginLink, error) {
	var made, expires, used, limited sql.NullString
	out := &LoginLink{}
	err := found.Scan(&out.Person, &out.Role, &made, &expires, &used, &out.Invites, &limited)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = parseTimes(map[*time.Time]sql.NullString{&out.MadeAt: made, &out.ExpiresAt: expires, &out.UsedAt: used})
	}
	if err == nil {
		out.Connections, err = limitsOf(limited)
	}
	if err != nil {
		return nil, fmt.Errorf("read a sign-in link: %w", err)
	}
	return out, nil
}

// UseLoginLink uses up a link at a time, and reports whether it was valid; of two concurrent uses,
// one succeeds.
func (tx *Tx) UseLoginLink(hash string, at time.Time) (good bool, err error) {
	var n int
	err = tx.row([]any{&n}, "SELECT count(*) FROM login_links WHERE token_hash = ? AND used_at IS NULL AND expires_at > ?",
		hash, stamp(at))
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.exec("UPDATE login_links SET used_at = ? WHERE token_hash = ?", stamp(at), hash)
}
