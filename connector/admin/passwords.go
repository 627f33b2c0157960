package admin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"payersync/connector"
)

// The cost of a password hash: 19 MiB and two passes, about 26 ms.
const (
	hashMemory = 19 * 1024 // KiB
	hashPasses = 2
	hashLanes  = 1
	hashSize   = 32
)

// How long passwords are, in characters.
const (
	ShortestPassword = 12
	LongestPassword  = 200
)

// The errors of passwords.
var (
	// ErrPasswordLength means a password is too short, or too long.
	ErrPasswordLength = fmt.Errorf("a password has %d to %d characters", ShortestPassword, LongestPassword)
	// ErrHashing means too many passwords are waiting for a check.
	ErrHashing = errors.New("too many sign in at the moment")
)

// Passwords makes hashes of passwords, a few at a time: each takes memory, and attackers must not
// take all of it.
type Passwords struct {
	devices, strangers *hashQueue
}

// NewPasswords returns a maker of hashes.
func NewPasswords() *Passwords {
	return &Passwords{devices: &hashQueue{free: deviceHashes}, strangers: &hashQueue{free: strangerHashes}}
}

// Hash returns the hash of a new password, chosen by a person already signed in. It fails with ErrPasswordLength or
// ErrHashing.
func (p *Passwords) Hash(ctx context.Context, password string) (connector.Secret, error) {
	if n := utf8.RuneCountInString(password); n < ShortestPassword || n > LongestPassword {
		return connector.Secret{}, ErrPasswordLength
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	sum, err := p.sum(ctx, KnownDevice, password, salt)
	b64 := base64.RawStdEncoding.EncodeToString
	return connector.NewSecret(fmt.Sprintf("%s$%s$%s", hashKind, b64(salt), b64(sum))), err
}

// hashKind names the hash method and its parameters, for a later change of method.
var hashKind = fmt.Sprintf("argon2id$%d$%d$%d", hashMemory, hashPasses, hashLanes)

// Right reports whether a client's password matches a hash. Without a hash it takes the same time, so the duration does
// not reveal users. It fails with ErrHashing.
func (p *Passwords) Right(ctx context.Context, from Client, password string, hash connector.Secret) (bool, error) {
	salt, want := make([]byte, 16), make([]byte, hashSize)
	known := !hash.IsZero()
	if known {
		var readable bool
		if salt, want, readable = partsOf(hash.Expose()); !readable {
			return false, errors.New("the hash of a password cannot be read; invite that person anew")
		}
	}
	if utf8.RuneCountInString(password) > LongestPassword {
		password, known = "", false
	}
	sum, err := p.sum(ctx, from, password, salt)
	return subtle.ConstantTimeCompare(sum, want) == 1 && known && err == nil, err
}

// partsOf returns the salt and the sum of a hash as Hash has written it.
func partsOf(hash string) (salt, sum []byte, ok bool) {
	rest, ok := strings.CutPrefix(hash, hashKind+"$")
	first, second, both := strings.Cut(rest, "$")
	salt, err := base64.RawStdEncoding.DecodeString(first)
	sum, other := base64.RawStdEncoding.DecodeString(second)
	return salt, sum, ok && both && errors.Join(err, other) == nil
}

// sum makes the hash when it is this client's turn.
func (p *Passwords) sum(ctx context.Context, from Client, password string, salt []byte) ([]byte, error) {
	queue := p.strangers
	if from == KnownDevice {
		queue = p.devices
	}
	if err := queue.enter(ctx, from); err != nil {
		return nil, err
	}
	defer queue.leave()
	return argon2.IDKey([]byte(password), salt, hashPasses, hashMemory, hashLanes, hashSize), nil
}
