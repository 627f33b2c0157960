package state

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// A letter's token holds the id of its mandate, encrypted with a key that outlives the sealing key.
// Nobody can read or forge it, and the ledger need not store it.
const (
	stopBlock = 64  // ids are filled up to this, so that the length of a token says nothing
	longToken = 128 // characters; longer is no token of ours
)

// stopCipher returns the cipher of tokens.
func (l *Ledger) stopCipher() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, l.letterKey, nil, "payersync letter stop", keyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive the key of stop tokens: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("set up the key of stop tokens: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// StopToken returns the opt-out token of a mandate's letters. It names nobody. It is "" for a
// ledger without its key, and for an id longer than any known one of the service.
func (l *Ledger) StopToken(mandateID string) string {
	if l.Sealed() || len(mandateID) > stopBlock-2 {
		return ""
	}
	aead, err := l.stopCipher()
	if err != nil { // it never is: the key is as long as it has to be
		return ""
	}
	plain := make([]byte, stopBlock)
	plain[0] = byte(len(mandateID)) //nolint:gosec // it is shorter than stopBlock
	copy(plain[1:], mandateID)
	for {
		token := base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, plain, nil)) //nolint:gosec // the cipher draws its nonce itself
		// which a command would take for a flag; one of 64 does
		if !strings.HasPrefix(token, "-") {
			return token
		}
	}
}

// mandateOfToken returns the mandate that a token is about; "" when it is none of ours.
func (l *Ledger) mandateOfToken(token string) (string, error) {
	aead, err := l.stopCipher()
	if err != nil || len(token) > longToken {
		return "", err
	}
	box, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return "", nil //nolint:nilerr // what is no token is nobody's
	}
	plain, err := aead.Open(nil, nil, box, nil)
	if err != nil || len(plain) != stopBlock || int(plain[0]) >= stopBlock {
		return "", nil //nolint:nilerr // what is no token is nobody's
	}
	return string(plain[1 : 1+int(plain[0])]), nil
}

// OptingOut is the result of a recipient's opt-out.
type OptingOut struct {
	Known bool // the token is one of ours
	News  bool // it was not said before
}

// optedOut are the payers and addresses with sent or planned letters about mandate ?1, and without
// an opt-out.
const optedOut = `FROM (
	  SELECT 'payer' AS scope, t.connection, t.source_id, '' AS recipient FROM letters t WHERE t.mandate_id = ?1
	  UNION SELECT 'payer', p.connection, p.source_id, '' FROM mandates m JOIN payers p ON p.billing_id = m.billing_id WHERE m.mandate_id = ?1
	  UNION SELECT 'address', '', '', t.recipient FROM letters t WHERE t.mandate_id = ?1 AND t.recipient <> 'forgotten') o
	WHERE NOT EXISTS (SELECT 1 FROM letter_stops s WHERE s.scope = o.scope AND s.connection = o.connection AND s.source_id = o.source_id
	  AND s.recipient = o.recipient AND s.why = 'opted_out' AND s.ended_at IS NULL AND s.until_on IS NULL)`

// byRecipient is the actor of a stop by a token.
const byRecipient = "the recipient"

// OptOut durably records that the recipient of a letter with this token wants no more letters. It
// stops letters to the payer and to the addresses of earlier letters about the mandate. So it also
// holds when the payer is forgotten or gets another number. Repeated opt-outs, and those without a
// letter of ours, write nothing.
func (l *Ledger) OptOut(ctx context.Context, token string) (out OptingOut, err error) {
	if l.Sealed() {
		return out, l.seal.away
	}
	mandate, err := l.mandateOfToken(token)
	if err != nil {
		return out, err
	}
	out.Known = mandate != ""
	var open int // asked for a token of nobody too, so that both take as long
	if err := l.queryRow(ctx, "SELECT count(*) "+optedOut, mandate).Scan(&open); err != nil {
		return out, fmt.Errorf("look who wants no more letters: %w", err)
	}
	if open == 0 {
		return out, nil
	}
	return out, l.Do(ctx, func(tx *Tx) error {
		n, err := tx.count(`INSERT INTO letter_stops (scope, connection, source_id, recipient, why, actor, since)
			SELECT o.scope, o.connection, o.source_id, o.recipient, 'opted_out', ?2, ?3 `+optedOut, mandate, byRecipient,
			stamp(tx.now))
		out.News = n > 0
		if err != nil {
			return fmt.Errorf("note who wants no more letters: %w", err)
		}
		return nil
	})
}
