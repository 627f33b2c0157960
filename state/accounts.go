package state

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payersync/connector"
)

// AccountState is the work mode of a Server's account.
type AccountState string

// The states of accounts.
const (
	AccountActive  AccountState = "active"
	AccountPaused  AccountState = "paused"  // nothing is done for it, and its webhooks are kept
	AccountLeaving AccountState = "leaving" // nothing is done for it any more
)

// AccountInfo is an account of a Server, without the content of its files.
type AccountInfo struct {
	ID                int64
	Name              string
	State             AccountState
	Version           int64 // counts its changes
	MadeAt, ChangedAt time.Time
	Author            string // who changed it last
	HookHash          string // of the token in the address that its webhooks come to, as HookHash returns it
	KeyID             string // of the key-encryption key that wraps its own; "" when it has none

	Settled   int64  // the version whose schedules and addresses are in force; 0 for none
	PagesHost string // that its pages answer to; "" for none
	StopPath  string // below which payers stop letters; "" for none
}

// Documents are the files of an account's configuration, by their names: paths with slashes, as
// below a folder.
type Documents struct {
	Version int64
	Files   map[string][]byte
}

// AccountChange makes an account, or gives one other files.
type AccountChange struct {
	Name  string
	Over  int64             // the version that it was made from; 0 for a new account
	Files map[string][]byte // all that there are then
	By    Entry             // the person and the reason; the change is recorded separately
}

// Why an account cannot be opened, or not be changed.
var (
	ErrNoAccount        = errors.New("the ledgers' database has none of that name")
	ErrChangedMeanwhile = errors.New("somebody else has changed it meanwhile")
	ErrBundle           = errors.New("these files cannot be kept")
	ErrNotAdopted       = errors.New("its ledger was carried there, and the server has no key for it yet")
	ErrOtherLedgersKey  = errors.New("its ledger was sealed with another key")
)

// The size limit of an account's files, so that nodes can read them quickly.
const (
	maxFiles  = 200
	maxBundle = 4 << 20 // bytes in all
)

// accountName is the pattern of account names: they are used in command lines, logs and metrics.
var accountName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// IsAccountName reports whether an account can be called so.
func IsAccountName(name string) bool { return accountName.MatchString(name) }

const accountColumns = "account_id, name, state, version, made_at, changed_at, author, hook_hash, key_id, settled, pages_host, stop_path"

func scanAccount(row pgx.Row) (a AccountInfo, err error) {
	var made, changed sql.NullString
	if err := row.Scan(&a.ID, &a.Name, &a.State, &a.Version, &made, &changed, &a.Author, &a.HookHash, &a.KeyID, &a.Settled,
		&a.PagesHost, &a.StopPath); err != nil {
		return a, err
	}
	if a.MadeAt, err = parseTime(made); err == nil {
		a.ChangedAt, err = parseTime(changed)
	}
	return a, err
}

// Accounts returns all accounts, by name.
func (s *Server) Accounts(ctx context.Context) ([]AccountInfo, error) {
	return s.accountRows(ctx, "SELECT "+accountColumns+" FROM accounts ORDER BY name")
}

// Account returns the account with a name, or fails with ErrNoAccount.
func (s *Server) Account(ctx context.Context, name string) (AccountInfo, error) {
	a, err := scanAccount(s.read.QueryRow(ctx, "SELECT "+accountColumns+" FROM accounts WHERE name = $1", name))
	return a, ofAccountRow(name, err)
}

// HookHash returns the hash of a webhook token. Sessions of all accounts can read the hash, and find no token by it.
func HookHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// HookToken returns the unguessable token in the address that an account's webhooks come to.
func (s *Server) HookToken(ctx context.Context, account AccountInfo) (token string, err error) {
	err = pgx.BeginTxFunc(ctx, s.read, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := intoAccount(ctx, tx, account.ID); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT token FROM account_hooks").Scan(&token)
	})
	return token, ofAccountRow(account.Name, err)
}

// ofAccountRow explains an error of a query for an account's row.
func ofAccountRow(name string, err error) error {
	switch {
	case err == nil, errors.Is(err, ErrChangedMeanwhile), errors.Is(err, ErrOtherLedgersKey),
		errors.Is(err, ErrKeyEncryptionKey), errors.Is(err, ErrConnectionLost):
		return err
	case errors.Is(err, ErrOutcomeUnknown):
		return connector.Advise(fmt.Errorf("cannot tell whether that was changed: %w. See what there is now", err),
			connector.Step{Do: connector.DoListAccounts})
	case errors.Is(err, pgx.ErrNoRows):
		return connector.Advise(fmt.Errorf("cannot open account %s: %w. See those that there are, or make it", name,
			ErrNoAccount), connector.Step{Do: connector.DoListAccounts}, connector.Step{Do: connector.DoApplyAccount})
	}
	return refusedServer(err)
}

// Documents returns the files of an account. It fails with ErrNoAccount or ErrKeyEncryptionKey.
func (s *Server) Documents(ctx context.Context, name string) (Documents, error) {
	d := Documents{Files: map[string][]byte{}}
	var (
		id        int64
		kept, box []byte
		of, file  string
		boxes     = map[string][]byte{}
	)
	both := &pgx.Batch{} // which is a transaction
	both.Queue("SELECT set_config('payersync.account', coalesce((SELECT account_id FROM accounts WHERE name = $1), 0)::text, true)", name)
	// One statement, so that the files are those of the version.
	both.Queue("SELECT a.account_id, a.wrapped_key, a.key_id, a.version, coalesce(f.name, ''), coalesce(f.body, '') FROM accounts a LEFT JOIN account_files f ON f.account = a.account_id WHERE a.name = $1", name).
		Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&id, &kept, &of, &d.Version, &file, &box},
				func() error { boxes[file] = box; return nil })
			return err
		})
	if err := s.read.SendBatch(ctx, both).Close(); err != nil {
		return d, ofAccountRow(name, err)
	}
	if id == 0 {
		return d, ofAccountRow(name, pgx.ErrNoRows)
	}
	key, err := s.wraps.Load().unwrap(id, name, of, kept)
	if err != nil && d.Version == 0 && of == "" { // it has a ledger and was never given a key
		err = connector.Advise(fmt.Errorf("%w: that of %s is missing: %w. Give it the one that the ledger had",
			ErrKeyEncryptionKey, name, ErrNotAdopted), connector.Step{Do: connector.DoGiveAccountKey})
	}
	var seal *sealer
	if err == nil {
		seal, err = newSealer(key)
	}
	for file, box := range boxes {
		if err == nil && file != "" {
			d.Files[file], err = seal.open(box, place("account_files", "body", file))
		}
	}
	return d, ofAccountRow(name, err)
}

// intoAccount lets a transaction see the rows of an account, until its end.
func intoAccount(ctx context.Context, tx pgx.Tx, account int64) error {
	_, err := tx.Exec(ctx, "SELECT set_config('payersync.account', $1, true)", strconv.FormatInt(account, 10))
	return err
}

// Apply makes an account with a key of its own, or gives one other files. It fails with ErrBundle, with
// ErrKeyEncryptionKey, and with ErrChangedMeanwhile unless the account still has the version that the change
// was made from. The account's audit log records it.
func (s *Server) Apply(ctx context.Context, c AccountChange) (AccountInfo, error) {
	if c.Over == 0 {
		return s.Adopt(ctx, c, newKey())
	}
	if err := checkBundle(c.Files); err != nil {
		return AccountInfo{}, err
	}
	return s.change(ctx, c.Name, c.Over, func(tx pgx.Tx, _ int64) (Entry, error) {
		seal, err := s.sealOf(ctx, tx, c.Name)
		if err != nil {
			return Entry{}, err
		}
		return c.entry("change configuration"), replaceFiles(ctx, tx, seal, c.Files)
	})
}

// Adopt is Apply for an account whose ledger already has a key: a moved ledger, or a new one. It
// fails with ErrOtherLedgersKey for another key.
func (s *Server) Adopt(ctx context.Context, c AccountChange, key []byte) (AccountInfo, error) {
	if err := CheckFiles(c.Name, c.Files); err != nil {
		return AccountInfo{}, err
	}
	wraps := s.wraps.Load()
	if wraps == nil {
		return AccountInfo{}, fmt.Errorf("%w: there is no key to wrap that of %s with. Name one in ledger.key_encryption_key",
			ErrKeyEncryptionKey, c.Name)
	}
	seal, err := newSealer(key)
	if err != nil {
		return AccountInfo{}, err
	}
	var made AccountInfo
	err = s.commit(ctx, func(tx pgx.Tx) error {
		id, err := s.adopted(ctx, tx, c, seal)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE accounts SET wrapped_key = $1, key_id = $2 WHERE account_id = $3",
			wraps.wrap(id, key), wraps.id, id); err != nil {
			return err
		}
		if err := replaceFiles(ctx, tx, seal, c.Files); err != nil {
			return err
		}
		made, err = finish(ctx, tx, id, c.entry("make account"))
		return err
	})
	return made, ofAccountRow(c.Name, err)
}

// adopted returns the number of an account that waits for its key. The key must be its ledger's or
// a new ledger's.
func (s *Server) adopted(ctx context.Context, tx pgx.Tx, c AccountChange, seal *sealer) (id int64, err error) {
	err = tx.QueryRow(ctx, "SELECT account_id FROM accounts WHERE name = $1 AND version = 0 AND key_id = '' FOR NO KEY UPDATE", c.Name).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return makeAccount(ctx, tx, c.Name, c.By.Actor)
	}
	if err == nil {
		err = intoAccount(ctx, tx, id)
	}
	var box []byte
	if err == nil {
		err = tx.QueryRow(ctx, "SELECT key_check FROM ledger").Scan(&box)
	}
	if err != nil {
		return 0, err
	}
	if box != nil {
		if _, err := seal.open(box, place("ledger", "key_check")); err != nil {
			return 0, fmt.Errorf("cannot add account %s: %w. Give the key file that the ledger had before it was carried",
				c.Name, ErrOtherLedgersKey)
		}
	}
	return id, nil
}

// SetState sets an account's work mode. It fails with ErrNoAccount.
func (s *Server) SetState(ctx context.Context, name string, to AccountState, by Entry) (AccountInfo, error) {
	return s.change(ctx, name, 0, func(tx pgx.Tx, id int64) (Entry, error) {
		_, err := tx.Exec(ctx, "UPDATE accounts SET state = $1 WHERE account_id = $2", to, id)
		return Entry{Actor: by.Actor, Action: "set account " + string(to), Subject: name, Reason: by.Reason}, err
	})
}

// Erase deletes an account's key and files, so nobody can read sealed data again, here or in a copy
// of the rows. An earlier backup still has the key. Its name stays taken. It fails with
// ErrNoAccount.
func (s *Server) Erase(ctx context.Context, name string, by Entry) (AccountInfo, error) {
	return s.change(ctx, name, 0, func(tx pgx.Tx, id int64) (Entry, error) {
		_, err := tx.Exec(ctx, "UPDATE accounts SET state = 'leaving', wrapped_key = NULL, key_id = '' WHERE account_id = $1",
			id)
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM account_files")
		}
		return Entry{Actor: by.Actor, Action: "erase account", Subject: name, Reason: by.Reason}, err
	})
}

// entry is a change's line in the audit log.
func (c AccountChange) entry(action string) Entry {
	names := strings.Join(slices.Sorted(maps.Keys(c.Files)), ", ")
	return Entry{Actor: c.By.Actor, Action: action, Subject: c.Name + ": " + names, Reason: c.By.Reason}
}

// change changes an account that there is, over a version (any for 0), as its only writer.
func (s *Server) change(ctx context.Context, name string, over int64,
	do func(tx pgx.Tx, id int64) (Entry, error)) (AccountInfo, error) {
	var changed AccountInfo
	err := s.commit(ctx, func(tx pgx.Tx) error {
		var id, version int64
		if err := tx.QueryRow(ctx, "SELECT account_id FROM accounts WHERE name = $1", name).Scan(&id); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)",
			(&postgres{account: id}).lock(writersLock)); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT version FROM accounts WHERE account_id = $1 FOR NO KEY UPDATE",
			id).Scan(&version); err != nil {
			return err
		}
		if over != 0 && over != version {
			return applyAgain(fmt.Errorf("cannot change account %s: %w", name, ErrChangedMeanwhile))
		}
		if err := intoAccount(ctx, tx, id); err != nil {
			return err
		}
		e, err := do(tx, id)
		if err != nil {
			return err
		}
		changed, err = finish(ctx, tx, id, e)
		return err
	})
	return changed, ofAccountRow(name, err)
}

// applyAgain adds to an error that the account is to be applied again.
func applyAgain(err error) error {
	return connector.Advise(fmt.Errorf("%w. Apply it again, and look at what that shows", err),
		connector.Step{Do: connector.DoApplyAccount})
}

// makeAccount creates an account and the first rows of its ledger. It fails with ErrChangedMeanwhile if the
// account exists, or somebody else creates it now.
func makeAccount(ctx context.Context, tx pgx.Tx, name, author string) (id int64, err error) {
	token := rand.Text()
	err = tx.QueryRow(ctx, `INSERT INTO accounts (name, made_at, changed_at, author, hook_hash) SELECT $1, now, now, $2, $3 FROM `+serverNow+`
		ON CONFLICT (name) DO NOTHING RETURNING account_id`, name, author, HookHash(token)).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, applyAgain(fmt.Errorf("cannot make account %s: %w", name, ErrChangedMeanwhile))
	}
	if err != nil {
		return 0, err
	}
	if err := intoAccount(ctx, tx, id); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO account_hooks (token) VALUES ($1)", token); err != nil {
		return 0, err
	}
	for _, table := range []string{"ledger", "subscription", "letter_desk"} { // of one row each
		if _, err := tx.Exec(ctx, "INSERT INTO "+table+" (only_row) VALUES (1)"); err != nil {
			return 0, err
		}
	}
	return id, nil
}

// serverNow is a row of the time, as the ledger writes it.
const serverNow = `(SELECT to_char(clock_timestamp(), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS now) t`

// ensure returns the number of an account without a key here, and creates a missing one.
func (s *Server) ensure(ctx context.Context, name string) (id int64, err error) {
	err = s.commit(ctx, func(tx pgx.Tx) (err error) {
		id, err = makeAccount(ctx, tx, name, "payersync")
		return err
	})
	if errors.Is(err, ErrChangedMeanwhile) {
		a, err := s.Account(ctx, name)
		return a.ID, err
	}
	return id, ofAccountRow(name, err)
}

// finish counts a change of an account and notes it in the account's audit log.
func finish(ctx context.Context, tx pgx.Tx, id int64, e Entry) (AccountInfo, error) {
	a, err := scanAccount(tx.QueryRow(ctx,
		"UPDATE accounts SET version = version + 1, changed_at = now, touched_at = now, look_at = '', author = $1 FROM "+serverNow+" WHERE account_id = $2 RETURNING "+accountColumns, e.Actor, id))
	if err != nil {
		return a, err
	}
	var head string
	if err := tx.QueryRow(ctx, auditHead).Scan(&head); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return a, err
	}
	values, err := linked(head, stamp(a.ChangedAt), e.Actor, e.Action, e.Subject, e.Reason)
	if err != nil {
		return a, err
	}
	_, err = tx.Exec(ctx, postgresSQL(insertAudit), values...)
	return a, err
}

// CheckFiles refuses with ErrBundle the same files as Apply, before any change.
func CheckFiles(name string, files map[string][]byte) error {
	if !IsAccountName(name) {
		return fmt.Errorf("%w: %q is no name of an account. Use small letters, digits, dashes and underscores, 63 at most",
			ErrBundle, name)
	}
	return checkBundle(files)
}

// checkBundle refuses files that no folder could hold, and more than an account needs.
func checkBundle(files map[string][]byte) error {
	total := 0
	for name, body := range files {
		if !fs.ValidPath(name) || name == "." ||
			strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
			return fmt.Errorf("%w: %q is no path of a file. Give it a name of letters, digits, dots, dashes and underscores",
				ErrBundle, name)
		}
		for dir := range maps.Keys(files) {
			if strings.HasPrefix(name, dir+"/") {
				return fmt.Errorf("%w: %s is a file and a folder. Rename one", ErrBundle, dir)
			}
		}
		total += len(body)
	}
	if len(files) > maxFiles || total > maxBundle {
		return fmt.Errorf("%w: they are %d of %d bytes in all, and an account has at most %d of %d bytes. Take out what its configuration does not name", ErrBundle, len(files), total, maxFiles, maxBundle)
	}
	return nil
}

// replaceFiles puts files in the place of those that an account has.
func replaceFiles(ctx context.Context, tx pgx.Tx, seal *sealer, files map[string][]byte) error {
	if _, err := tx.Exec(ctx, "DELETE FROM account_files"); err != nil {
		return err
	}
	for name, body := range files {
		if body == nil {
			body = []byte{}
		}
		if _, err := tx.Exec(ctx, "INSERT INTO account_files (name, body) VALUES ($1, $2)", name,
			seal.box(body, place("account_files", "body", name))); err != nil {
			return err
		}
	}
	return nil
}
