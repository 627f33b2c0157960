package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"payersync/connector"
)

// lateness is how long after its start a rotation's request may still reach the service. A later finished
// rotation proves nothing about such requests.
const lateness = time.Hour

// WebhookKeys are the possible signing secrets and delivery keys, as far as this ledger knows them.
// The configured secret is accepted beside it.
type WebhookKeys struct {
	Secrets      []connector.Secret // that deliveries may be signed with, the newest first
	SecretAt     time.Time          // when the newest of them was kept; zero for none
	DeliveryKeys []connector.Secret // that deliveries may carry, the newest first
	Until        time.Time          // when one of them is accepted no more; zero while all are
	Unknown      bool               // the service may sign with a secret whose answer never came here
}

// Rotation is a try to have webhooks signed with another secret.
type Rotation struct {
	ID      int64
	BegunAt time.Time
	BegunBy string
}

// rotation is a row of webhook_rotations.
type rotation struct {
	Rotation
	secret, key                   connector.Secret
	secretAt, doneAt, refusedAt   time.Time
	secretBox, keyBox             []byte
	begun, secretAs, done, refuse sql.NullString
}

// over reports whether no request to the service is open any more, with any result.
func (r rotation) over() bool { return !r.doneAt.IsZero() || !r.refusedAt.IsZero() }

func rotationSecretPlace(id int64) []byte {
	return place("webhook_rotations", "secret", strconv.FormatInt(id, 10))
}

func deliveryKeyPlace(id int64) []byte {
	return place("webhook_rotations", "delivery_key", strconv.FormatInt(id, 10))
}

// TryRotation takes the lock of the one process that requests a secret from the service. With two
// processes, the answer to the earlier request could come last. It returns nil when another process
// on this machine holds it.
func (l *Ledger) TryRotation() (*Lock, error) {
	k, err := l.below.tryLock(context.Background(), rotationLock)
	return k, connector.Wrap(err, "lock the ledger for a rotation of the webhook secret")
}

// BeginRotation records that a request for a secret follows, with its delivery key (zero for none),
// and returns the rotation's id. The key of an earlier rotation is dropped when it expires, overlap
// after the end of a later one.
func (tx *Tx) BeginRotation(key connector.Secret, overlap time.Duration, by string) (id int64, err error) {
	if err := tx.dropKeys(overlap); err != nil {
		return 0, err
	}
	if err := tx.row([]any{&id}, "SELECT coalesce(max(rotation_id), 0) + 1 FROM webhook_rotations"); err != nil {
		return 0, fmt.Errorf("begin a rotation of the webhook secret: %w", err)
	}
	tx.leads = true
	var box []byte
	if !key.IsZero() {
		box = tx.l.seal.box([]byte(key.Expose()), deliveryKeyPlace(id))
	}
	return id, tx.exec("INSERT INTO webhook_rotations (rotation_id, begun_at, begun_by, delivery_key) VALUES (?, ?, ?, ?)",
		id, stamp(tx.now), by, box)
}

// dropKeys forgets the secrets and delivery keys that nothing is accepted by any more.
func (tx *Tx) dropKeys(overlap time.Duration) error {
	all, err := tx.l.rotations(tx.query(rotationRows))
	if err != nil {
		return err
	}
	secret, _ := oldest(all, rotation.hasSecret, tx.now, overlap)
	key, _ := oldest(all, rotation.hasKey, tx.now, overlap)
	return errors.Join(
		tx.exec("UPDATE webhook_rotations SET secret = NULL WHERE secret IS NOT NULL AND rotation_id < ?", secret),
		tx.exec("UPDATE webhook_rotations SET delivery_key = NULL WHERE delivery_key IS NOT NULL AND rotation_id < ?", key))
}

// KeepSecret keeps the secret that the service named in a rotation. It is to be durable
// before anything else is asked: the service may sign with it already (fault F41).
func (tx *Tx) KeepSecret(id int64, secret connector.Secret) error {
	return tx.exec("UPDATE webhook_rotations SET secret = ?, secret_at = ? WHERE rotation_id = ?",
		tx.l.seal.box([]byte(secret.Expose()), rotationSecretPlace(id)), stamp(tx.now), id)
}

// EndRotation notes that the service has adopted a rotation completely. Older secrets are accepted
// for the overlap, and then no more.
func (tx *Tx) EndRotation(id int64) error {
	return tx.exec("UPDATE webhook_rotations SET done_at = ? WHERE rotation_id = ?", stamp(tx.now), id)
}

// RefuseRotation notes that the service refused before it named a secret, so it still signs with
// the old one.
func (tx *Tx) RefuseRotation(id int64) error {
	return tx.exec("UPDATE webhook_rotations SET refused_at = ? WHERE rotation_id = ? AND secret_at IS NULL",
		stamp(tx.now), id)
}

// WebhookKeys returns the present signing secrets and delivery keys. Older secrets are accepted
// until overlap after the end of a rotation.
func (l *Ledger) WebhookKeys(ctx context.Context, overlap time.Duration) (k WebhookKeys, err error) {
	all, err := l.rotations(l.query(ctx, rotationRows))
	if err != nil {
		return k, err
	}
	now := l.Now()
	fromSecret, secretsUntil := oldest(all, rotation.hasSecret, now, overlap)
	fromKey, keysUntil := oldest(all, rotation.hasKey, now, overlap)
	for _, r := range slices.Backward(all) {
		if r.hasSecret() && r.ID >= fromSecret {
			k.Secrets = append(k.Secrets, r.secret)
			if k.SecretAt.IsZero() {
				k.SecretAt = r.secretAt
			}
		}
		if r.hasKey() && r.ID >= fromKey {
			k.DeliveryKeys = append(k.DeliveryKeys, r.key)
		}
	}
	k.Until = earlier(secretsUntil, keysUntil)
	if k.Unknown = unknownSecret(all, now); k.Unknown {
		return k, nil
	}
	restored, err := l.SecretDoubted(ctx)
	k.Unknown = !restored.IsZero()
	return k, err
}

// SecretDoubted returns the time of the restore if the service may have named a secret after the
// copy was made. The service must have named secrets before, and no finished rotation may have
// begun after the restore. Zero otherwise. It reads nothing that is sealed.
func (l *Ledger) SecretDoubted(ctx context.Context) (restored time.Time, err error) {
	var at sql.NullString
	err = l.queryRow(ctx, `SELECT restored_at FROM ledger WHERE EXISTS (SELECT 1 FROM webhook_rotations WHERE secret_at IS NOT NULL)
		AND restored_at > coalesce((SELECT max(begun_at) FROM webhook_rotations WHERE done_at IS NOT NULL), '')`).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return restored, nil
	}
	if err == nil {
		restored, err = parseTime(at)
	}
	if err != nil {
		return restored, fmt.Errorf("look whether the webhook secret is known: %w", err)
	}
	return restored, nil
}

// OpenRotation returns the newest rotation, while it has come to no end; zero otherwise. It reads
// nothing that is sealed.
func (l *Ledger) OpenRotation(ctx context.Context) (r Rotation, err error) {
	var begun sql.NullString
	err = l.queryRow(ctx, `SELECT rotation_id, begun_at, begun_by FROM webhook_rotations
		WHERE rotation_id = (SELECT max(rotation_id) FROM webhook_rotations) AND done_at IS NULL AND refused_at IS NULL`).Scan(&r.ID, &begun, &r.BegunBy)
	if errors.Is(err, sql.ErrNoRows) {
		return Rotation{}, nil
	}
	if err == nil {
		r.BegunAt, err = parseTime(begun)
	}
	return r, err
}

func (r rotation) hasSecret() bool { return !r.secret.IsZero() }
func (r rotation) hasKey() bool    { return !r.key.IsZero() }

// oldest returns the oldest rotation with a valid key: the newest one old enough that earlier keys are
// invalid, or 0 for all. It also returns when the next rotation gets that old, or zero for never.
func oldest(all []rotation, has func(rotation) bool, now time.Time, overlap time.Duration) (id int64, until time.Time) {
	before := false // there is one that still counts, though a later one was done
	for _, r := range all {
		if !has(r) {
			continue
		}
		switch end := r.doneAt.Add(overlap); {
		case r.doneAt.IsZero():
		case !end.After(now):
			id, until = r.ID, time.Time{}
		case before:
			until = earlier(until, end)
		}
		before = true
	}
	return id, until
}

// earlier returns the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// unknownSecret reports whether the service may sign with an unknown secret: a request for one had
// neither an answer nor a refusal. A later finished rotation settles this once the request can no
// longer arrive.
func unknownSecret(all []rotation, now time.Time) bool {
	done := false
	for _, r := range slices.Backward(all) {
		if unanswered := r.secretAt.IsZero() && !r.over(); unanswered && (!done || now.Sub(r.BegunAt) < lateness) {
			return true
		}
		done = done || !r.doneAt.IsZero()
	}
	return false
}

const rotationRows = "SELECT rotation_id, begun_at, begun_by, secret, secret_at, delivery_key, done_at, refused_at FROM webhook_rotations ORDER BY rotation_id"

// rotations returns all rotations, the oldest first.
func (l *Ledger) rotations(rows *sql.Rows, err error) ([]rotation, error) {
	const what = "read the rotations of the webhook secret"
	return collect(what, func(scan scanner) (r rotation, err error) {
		if err := scan(&r.ID, &r.begun, &r.BegunBy, &r.secretBox, &r.secretAs, &r.keyBox, &r.done, &r.refuse); err != nil {
			return r, readError(what, err)
		}
		err = r.read(l)
		return r, readError(fmt.Sprintf("read rotation %d of the webhook secret", r.ID), err)
	})(rows, err)
}

// read opens the sealed values and parses the times.
func (r *rotation) read(l *Ledger) error {
	open := func(box, at []byte, to *connector.Secret) error {
		if box == nil {
			return nil
		}
		plain, err := l.seal.open(box, at)
		*to = connector.NewSecret(string(plain))
		return err
	}
	return errors.Join(
		parseTimes(map[*time.Time]sql.NullString{&r.BegunAt: r.begun, &r.secretAt: r.secretAs, &r.doneAt: r.done,
			&r.refusedAt: r.refuse}),
		open(r.secretBox, rotationSecretPlace(r.ID), &r.secret),
		open(r.keyBox, deliveryKeyPlace(r.ID), &r.key))
}
