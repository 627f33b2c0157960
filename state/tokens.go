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

// TokenLease is how long one refresher may take before another may try. A
// refresher gives up sooner (fault F23).
const TokenLease = 90 * time.Second

// ErrNoToken means that nobody has given consent under this name.
var ErrNoToken = errors.New("there is no consent yet")

// ErrTokenMoved means that another process has saved a newer token set. It is never overwritten (invariant
// S14).
var ErrTokenMoved = errors.New("another process has renewed the token")

// Token is the consent that a person gave for a connection, with the newest
// token set of it.
type Token struct {
	Connection  string
	Generation  int64 // counts the token sets; the key of every change
	Access      connector.Secret
	Refresh     connector.Secret
	Previous    connector.Secret // the refresh token before, for servers that accept it a little longer
	ExpiresAt   time.Time        // of Access; zero when its life was not stated
	RefreshedAt time.Time
	ReconnectBy time.Time // when Refresh lapses unless it is used; zero when that is not known
	Tenant      string    // stable id of the organisation that was consented to; "" when the system has none
	TenantName  string
	Failures    int       // tries to renew that failed in a row
	RetryAt     time.Time // no try before; zero for at once
	Broken      string    // why a person must connect again; "" while it works
}

// sealedToken is the sealed part of a Token.
type sealedToken struct{ Access, Refresh, Previous string }

func (tx *Tx) sealToken(t Token) ([]byte, error) {
	plain, err := json.Marshal(sealedToken{t.Access.Expose(), t.Refresh.Expose(), t.Previous.Expose()})
	if err != nil {
		return nil, err
	}
	return tx.l.seal.box(plain, place("tokens", "token", t.Connection)), nil
}

// Token returns the consent for a connection; ErrNoToken when there is none.
func (l *Ledger) Token(ctx context.Context, connection string) (Token, error) {
	t := Token{Connection: connection}
	var box []byte
	var expires, refreshed, reconnect, retry sql.NullString
	err := l.queryRow(ctx, `SELECT token, generation, expires_at, refreshed_at, reconnect_by, tenant_id, tenant_name, failures, retry_at, broken
		FROM tokens WHERE connection = ?`, connection).
		Scan(&box, &t.Generation, &expires, &refreshed, &reconnect, &t.Tenant, &t.TenantName, &t.Failures, &retry, &t.Broken)
	if errors.Is(err, sql.ErrNoRows) {
		return t, ErrNoToken
	}
	if err != nil {
		return t, fmt.Errorf("read the token of %s: %w", connection, err)
	}
	if err := parseTimes(map[*time.Time]sql.NullString{
		&t.ExpiresAt: expires, &t.RefreshedAt: refreshed, &t.ReconnectBy: reconnect, &t.RetryAt: retry,
	}); err != nil {
		return t, err
	}
	plain, err := l.seal.open(box, place("tokens", "token", connection))
	if err != nil {
		return t, fmt.Errorf("the token of %s: %w", connection, err)
	}
	var s sealedToken
	if err := json.Unmarshal(plain, &s); err != nil {
		return t, fmt.Errorf("the token of %s: %w", connection, err)
	}
	t.Access, t.Refresh, t.Previous = connector.NewSecret(s.Access), connector.NewSecret(s.Refresh),
		connector.NewSecret(s.Previous)
	return t, nil
}

// ConnectToken keeps the token set of a new consent, in place of any before. A
// refresher that is at work on the one before has lost. It refuses with
// *ErrOtherEnvironment when the connection's records came from another
// organisation (fault F28).
func (tx *Tx) ConnectToken(t Token) error {
	if err := tx.checkTenant(t.Connection, t.Tenant); err != nil {
		return err
	}
	box, err := tx.sealToken(t)
	if err != nil {
		return err
	}
	if err := tx.DoubtOrganisation(t.Connection); err != nil { // it is what was consented to now
		return err
	}
	return tx.exec(`INSERT INTO tokens (connection, token, generation, expires_at, refreshed_at, reconnect_by, tenant_id, tenant_name)
		VALUES (?, ?, 1, ?, ?, ?, ?, ?)
		ON CONFLICT (connection) DO UPDATE SET token = excluded.token, generation = tokens.generation + 1, expires_at = excluded.expires_at,
		  refreshed_at = excluded.refreshed_at, reconnect_by = excluded.reconnect_by, tenant_id = excluded.tenant_id, tenant_name = excluded.tenant_name,
		  failures = 0, retry_at = NULL, broken = '', lease_holder = '', lease_until = NULL`,
		t.Connection, box, stamp(t.ExpiresAt), stamp(t.RefreshedAt), stamp(t.ReconnectBy), t.Tenant, t.TenantName)
}

func (tx *Tx) checkTenant(connection, tenant string) error {
	var pinned string
	err := tx.row([]any{&pinned}, "SELECT tenant_id FROM connections WHERE name = ?", connection)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("read connection %s: %w", connection, err)
	case pinned != tenant:
		return &ErrOtherEnvironment{connection, "organisation", pinned, tenant}
	}
	return nil
}

// LeaseToken gives holder the sole right to renew this generation, for
// TokenLease, and reports false while another has it or when there is a newer
// generation.
func (tx *Tx) LeaseToken(connection string, generation int64, holder string) (bool, error) {
	n, err := tx.count(`UPDATE tokens SET lease_holder = ?1, lease_until = ?2
		WHERE connection = ?3 AND generation = ?4 AND broken = ''
		  AND (lease_holder IN ('', ?1) OR lease_until IS NULL OR lease_until <= ?5 OR lease_until > ?6)`,
		holder, stamp(tx.now.Add(TokenLease)), connection, generation, stamp(tx.now),
		stamp(tx.now.Add(TokenLease+clockSlack)))
	return n > 0, err
}

// RenewToken stores the token set after generation t.Generation and ends the lease; ErrTokenMoved
// if that generation is no longer the newest.
func (tx *Tx) RenewToken(t Token) error {
	box, err := tx.sealToken(t)
	if err != nil {
		return err
	}
	n, err := tx.count(`UPDATE tokens SET token = ?, generation = generation + 1, expires_at = ?, refreshed_at = ?, reconnect_by = ?,
		failures = 0, retry_at = NULL, broken = '', lease_holder = '', lease_until = NULL WHERE connection = ? AND generation = ?`,
		box, stamp(t.ExpiresAt), stamp(t.RefreshedAt), stamp(t.ReconnectBy), t.Connection, t.Generation)
	if err == nil && n == 0 {
		return ErrTokenMoved
	}
	return err
}

// DelayToken notes a try to renew that failed and may go well at retryAt, and
// ends the lease.
func (tx *Tx) DelayToken(connection string, generation int64, retryAt time.Time) error {
	return tx.exec(`UPDATE tokens SET failures = failures + 1, retry_at = ?, lease_holder = '', lease_until = NULL
		WHERE connection = ? AND generation = ?`, stamp(retryAt), connection, generation)
}

// BreakToken notes why a person must connect again. Nothing renews the token
// from then on.
func (tx *Tx) BreakToken(connection string, generation int64, why string) error {
	return tx.exec(`UPDATE tokens SET broken = ?, lease_holder = '', lease_until = NULL
		WHERE connection = ? AND generation = ?`, why, connection, generation)
}

// ConsentRow is a consent as people see it, without its tokens.
type ConsentRow struct {
	Connection  string    `json:"connection"`
	Tenant      string    `json:"tenant"`
	TenantName  string    `json:"tenant_name"`
	RefreshedAt time.Time `json:"refreshed_at"`
	ReconnectBy time.Time `json:"reconnect_by,omitzero"`
	Broken      string    `json:"broken"` // why a person must connect again; "" while it works
}

// Consents returns every consent, by name.
func (l *Ledger) Consents(ctx context.Context) ([]ConsentRow, error) {
	out, err := collect("read the consents", func(scan scanner) (c ConsentRow, err error) {
		var refreshed, reconnect sql.NullString
		if err := scan(&c.Connection, &c.Tenant, &c.TenantName, &refreshed, &reconnect, &c.Broken); err != nil {
			return c, fmt.Errorf("read a consent: %w", err)
		}
		err = parseTimes(map[*time.Time]sql.NullString{&c.RefreshedAt: refreshed, &c.ReconnectBy: reconnect})
		return c, err
	})(l.query(ctx, "SELECT connection, tenant_id, tenant_name, refreshed_at, reconnect_by, broken FROM tokens ORDER BY connection"))
	return append([]ConsentRow{}, out...), err
}
