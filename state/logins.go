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

	Connections []string // that the login is limited to; nil for one that sees all
}

func loginPlace(hash string) []byte { return place("logins", "data", hash) }

// Login returns what is kept with the login whose token has this hash, and until when it
// holds; nil where there is none. Whether it has expired is for the caller to say.
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
		tx.exec("INSERT INTO logins (token_hash, data, expires_at) VALUES (?, ?, ?)", hash, tx.l.seal.box(data, loginPlace(hash)), stamp(expires)))
}

// KeepLogin keeps other data with a login, and until when it holds. One that has ended
// meanwhile stays ended: a request that began before must not bring it back.
func (tx *Tx) KeepLogin(hash string, data []byte, expires time.Time) error {
	return tx.exec("UPDATE logins SET data = ?, expires_at = ? WHERE token_hash = ?", tx.l.seal.box(data, loginPlace(hash)), stamp(expires), hash)
}

// DropLogin ends a login.
func (tx *Tx) DropLogin(hash string) error {
	return tx.exec("DELETE FROM logins WHERE token_hash = ?", hash)
}

// AddLoginLink keeps a link that signs somebody in once, by the hash of its token, and drops
// those that have expired.
func (tx *Tx) AddLoginLink(hash string, link LoginLink) error {
	return errors.Join(
		tx.exec("DELETE FROM login_links WHERE expires_at <= ?", stamp(link.MadeAt)),
		tx.exec("INSERT INTO login_links (token_hash, person, role, made_at, expires_at, invites, connections) VALUES (?, ?, ?, ?, ?, ?, ?)",
			hash, link.Person, link.Role, stamp(link.MadeAt), stamp(link.ExpiresAt), link.Invites, limitsColumn(link.Connections)))
}

// LoginLink returns the link whose token has this hash; nil where there is none.
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

// UseLoginLink uses a link up at a time, and reports whether it was good until then: of two
// who use it at once, one does.
func (tx *Tx) UseLoginLink(hash string, at time.Time) (good bool, err error) {
	var n int
	err = tx.row([]any{&n}, "SELECT count(*) FROM login_links WHERE token_hash = ? AND used_at IS NULL AND expires_at > ?", hash, stamp(at))
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.exec("UPDATE login_links SET used_at = ? WHERE token_hash = ?", stamp(at), hash)
}
