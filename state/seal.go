package state

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	stdhash "hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"payersync/connector"
	"payersync/state/files"
)

const keyBytes = 32

// maxKey is how much of a key file is read.
const maxKey = 4 << 10

// sealer seals personal bodies with AES-256-GCM. The associated data is the table and the row's
// key, so a sealed body cannot move to another row. A box is: 4 bytes key id, 12 bytes random
// nonce, ciphertext with its tag.
type sealer struct {
	id      [4]byte
	aead    cipher.AEAD
	mac     []byte
	marks   sync.Pool // of hashes with that key
	letters []byte    // from which the key of letters is made
	schema  []byte    // for fingerprints of schemas
	away    error     // the reason for a missing key, without which nothing is opened; nil if there is one
}

// keyAwayError means that a key file is not there for this user.
type keyAwayError struct{ *OpenError }

// Unwrap returns the error for people.
func (e *keyAwayError) Unwrap() error { return e.OpenError }

// CreateKey makes a key file with a new random key, mode 0600. It never
// replaces an existing file.
func CreateKey(path string) error { return saveKey(path, newKey()) }

func saveKey(path string, key []byte) error {
	folder, err := files.OpenFolder(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("make the key file: %w", err)
	}
	f, err := folder.Create(filepath.Base(path))
	if err != nil {
		return errors.Join(fmt.Errorf("make the key file: %w", err), folder.Close())
	}
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(key) + "\n")
	return errors.Join(err, f.Sync(), f.Close(), folder.Sync(), folder.Close())
}

// newKey returns a new random key.
func newKey() []byte {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	return key
}

func loadKey(path string) (*sealer, error) {
	key, err := ReadKey(path)
	if err != nil {
		return nil, err
	}
	return newSealer(key)
}

// ReadKey reads a key file that CreateKey made. It fails with an *OpenError, also when others may
// read it.
func ReadKey(path string) ([]byte, error) {
	refusal := func(why, next string) *OpenError {
		return &OpenError{Path: "key file " + path, Why: why, Next: next}
	}
	refuse := func(why, next string) ([]byte, error) { return nil, refusal(why, next) }
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the configuration names it; what is no key is refused, and not shown
	if errors.Is(err, fs.ErrNotExist) {
		away := refusal("it does not exist",
			"Put back the one this ledger was made with. For a new ledger, make one in a new folder and move it here.")
		away.steps = []connector.Step{{Do: connector.DoInit}}
		return nil, &keyAwayError{away}
	}
	if err != nil {
		return nil, &keyAwayError{refusal(plain(err), "Check the path and its permissions.")}
	}
	mode, err := files.Exposed(f)
	text, readErr := io.ReadAll(io.LimitReader(f, maxKey))
	if err := errors.Join(err, readErr, f.Close()); err != nil {
		return refuse(plain(err), "Check the path and its permissions.")
	}
	if mode != 0 {
		return refuse(fmt.Sprintf("other users of this machine may read it (mode %04o)", mode), "Run: chmod 600 "+path)
	}
	key, err := ParseKey(string(text))
	if err != nil {
		return refuse("it does not hold a key", "Put back the key file this ledger was made with.")
	}
	return key, nil
}

// ParseKey parses the content of a key file. Its error does not show it.
func ParseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("it is no key: that is %d random bytes in base64", keyBytes)
	}
	return key, nil
}

func newSealer(master []byte) (*sealer, error) {
	key, err := hkdf.Key(sha256.New, master, nil, "payersync seal", keyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive the sealing key: %w", err)
	}
	mac, err := hkdf.Key(sha256.New, master, nil, "payersync likeness", keyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive the key for the hashes of names and addresses: %w", err)
	}
	letters, err := hkdf.Key(sha256.New, master, nil, "payersync letters", keyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive the key of letters: %w", err)
	}
	schema, err := hkdf.Key(sha256.New, master, nil, "payersync schema", keyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive the key of schemas: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("set up the sealing key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("set up the sealing key: %w", err)
	}
	s := &sealer{aead: aead, mac: mac, letters: letters, schema: schema}
	sum := sha256.Sum256(key)
	copy(s.id[:], sum[:])
	return s, nil
}

// place names the row that a box belongs to.
func place(table, column string, key ...string) []byte {
	return []byte(strings.Join(append([]string{table, column}, key...), "\x00"))
}

// box seals plain for its place; nil stays nil, so that NULL stays NULL.
func (s *sealer) box(plain, place []byte) []byte {
	if plain == nil {
		return nil
	}
	return s.aead.Seal(s.id[:], nil, plain, place)
}

// open returns the content of a box sealed for the same place.
func (s *sealer) open(box, place []byte) ([]byte, error) {
	if len(box) == 0 { // of nothing, which a database may give as no bytes
		return nil, nil
	}
	if s.away != nil {
		return nil, s.away
	}
	if len(box) < len(s.id) {
		return nil, errors.New("open a sealed value: it is cut short")
	}
	if [4]byte(box[:4]) != s.id {
		return nil, errOtherKey
	}
	plain, err := s.aead.Open([]byte{}, nil, box[4:], place) // an empty value stays a value
	if err != nil {
		return nil, errors.New("open a sealed value: it was altered or moved")
	}
	return plain, nil
}

// errOtherKey means that a box was sealed with another key.
var errOtherKey = errors.New("open a sealed value: it was sealed with another key; put back the key file this ledger was made with")

// likeness returns a keyed hash of text for comparing without keeping it: case
// and spaces are folded away first.
func (s *sealer) likeness(text string) string { return hex.EncodeToString(s.mark(text)[:16]) }

// likeness64 returns the first bits of the same hash as a number.
func (s *sealer) likeness64(text string) int64 {
	return int64(binary.BigEndian.Uint64(s.mark(text))) //nolint:gosec // its bits are what counts
}

func (s *sealer) mark(text string) []byte { return s.sum([]byte(folded(text))) }

// sum returns the keyed hash of a text.
func (s *sealer) sum(text []byte) []byte {
	m, _ := s.marks.Get().(stdhash.Hash) // kept, because the key alone takes as long as the text
	if m == nil {
		m = hmac.New(sha256.New, s.mac)
	}
	defer s.marks.Put(m)
	m.Reset()
	m.Write(text)
	return m.Sum(nil)
}

// folded returns text as it is compared: without regard to case and spaces.
func folded(text string) string { return strings.Join(strings.Fields(strings.ToLower(text)), " ") }
