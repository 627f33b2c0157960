package state

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// wrapping keeps the keys of accounts under one that is kept elsewhere than they are. A key wrapped
// for one account does not open for another.
type wrapping struct {
	id   string // the id of the wrapping key, for people with several
	aead cipher.AEAD
}

// ErrKeyEncryptionKey means that the key of an account does not open with the key-encryption key. Its text
// gives the reason and the next step.
var ErrKeyEncryptionKey = errors.New("cannot open the keys of accounts")

func newWrapping(key []byte) (*wrapping, error) {
	if len(key) != keyBytes {
		return nil, fmt.Errorf("%w: the key-encryption key has %d bytes and not %d. Make one with: openssl rand -base64 %[3]d", ErrKeyEncryptionKey, len(key), keyBytes)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("set up the key-encryption key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("set up the key-encryption key: %w", err)
	}
	sum := sha256.Sum256(key)
	return &wrapping{hex.EncodeToString(sum[:8]), aead}, nil
}

func placeOfKey(account int64) []byte {
	return place("accounts", "wrapped_key", strconv.FormatInt(account, 10))
}

// wrap returns the key of an account as it is kept.
func (w *wrapping) wrap(account int64, key []byte) []byte {
	return w.aead.Seal(nil, nil, key, placeOfKey(account)) //nolint:gosec // this cipher draws its nonces itself
}

// unwrap returns the key of an account of a name, which the key with an id wraps.
func (w *wrapping) unwrap(account int64, name, id string, kept []byte) ([]byte, error) {
	switch {
	case id == "":
		return nil, fmt.Errorf("%w: account %s has none. It was erased, or made by another program: nothing of it can be read", ErrKeyEncryptionKey, name)
	case w == nil:
		return nil, fmt.Errorf("%w: that of %s is wrapped with the key %s. Name its file in ledger.key_encryption_key",
			ErrKeyEncryptionKey, name, id)
	case w.id != id:
		return nil, fmt.Errorf("%w: that of %s is wrapped with the key %s, and ledger.key_encryption_key names %s. Name the file of the other, and start nodes again that run", ErrKeyEncryptionKey, name, id, w.id)
	}
	key, err := w.aead.Open(nil, nil, kept, placeOfKey(account))
	if err != nil {
		return nil, fmt.Errorf("%w: that of %s was altered or moved. Restore the database to before that",
			ErrKeyEncryptionKey, name)
	}
	return key, nil
}
