package backups

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"

	"payersync/state/files"
)

// Recipient is who may read a backup.
type Recipient = age.Recipient

// Identity is the secret key of a Recipient.
type Identity = age.Identity

// ParseRecipient reads who may open a backup: a public key of age, or of ssh
// (ssh-ed25519 or ssh-rsa).
func ParseRecipient(text string) (Recipient, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "ssh-") {
		r, err := agessh.ParseRecipient(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no public key of ssh that a backup can be encrypted for: %w", text, err)
		}
		return r, nil
	}
	if strings.HasPrefix(text, "AGE-") {
		// and never repeat it
		return nil, errors.New("this is a secret key; name the public one, which begins with age1 (age-keygen -y shows it)")
	}
	found, err := age.ParseRecipients(strings.NewReader(text))
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("%q is no public key of age, such as age1…, nor of ssh", text)
	}
	return found[0], nil
}

// ParseRecipients reads a file of recipients: one in a line, blank lines and those that
// begin with # aside.
func ParseRecipients(data []byte) (out []Recipient, err error) {
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		r, err := ParseRecipient(line)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		return nil, errors.New("it names nobody")
	}
	return out, nil
}

// maxIdentity is how much of a file of secret keys is read.
const maxIdentity = 1 << 20

// ReadIdentities reads the secret keys of a file: of age, or one of ssh without a
// passphrase.
func ReadIdentities(path string) ([]Identity, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names it; what it holds is never shown
	if err != nil {
		return nil, fmt.Errorf("the secret key cannot be read: %w; name its file with --identity", err)
	}
	mode, exposedErr := files.Exposed(f)
	data, err := io.ReadAll(io.LimitReader(f, maxIdentity))
	if err := errors.Join(exposedErr, err, f.Close()); err != nil {
		return nil, fmt.Errorf("the secret key cannot be read: %w; look at the file", err)
	}
	if mode != 0 {
		return nil, fmt.Errorf("other users of this machine may read the secret key %s (mode %04o); run chmod 600 %[1]s",
			path, mode)
	}
	if bytes.HasPrefix(data, []byte("-----BEGIN")) {
		id, err := agessh.ParseIdentity(data)
		if err != nil {
			return nil, fmt.Errorf("%s is no secret key of ssh that can be used here: %w; one with a passphrase cannot be, so use one of age", path, err)
		}
		return []Identity{id}, nil
	}
	ids, err := age.ParseIdentities(bytes.NewReader(data))
	if err != nil { // which may repeat a line of the file
		return nil, fmt.Errorf("%s holds no secret key of age, nor one of ssh; name the file that age-keygen has written",
			path)
	}
	return ids, nil
}

// File is a backup that is opened for reading: its bytes as they were before they were
// encrypted.
type File struct {
	io.ReaderAt
	Size      int64
	Encrypted bool
	Name      string
	file      *os.File
}

// ErrEncrypted means that a backup is encrypted and no secret key was named.
var ErrEncrypted = errors.New("it is encrypted; name the secret key with --identity FILE")

// ageIntro begins every file that age has encrypted.
const ageIntro = "age-encryption.org/v1\n"

// OpenFile opens a backup. An encrypted one is decrypted as it is read, and never written
// anywhere in clear.
func OpenFile(path string, identities []Identity) (*File, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names it; it is only read
	if err != nil {
		return nil, fmt.Errorf("the backup cannot be read: %w; look at the path and its permissions", err)
	}
	b, err := openFile(f, identities)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the backup %s cannot be used: %w", path, err), f.Close())
	}
	return b, nil
}

func openFile(f *os.File, identities []Identity) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no ordinary file; name the file itself")
	}
	// SQLite would treat the content of a log beside it as the newest commits.
	if log, err := os.Lstat(f.Name() + "-wal"); err == nil && log.Size() > 0 {
		return nil, fmt.Errorf("commits that belong to it lie in %s-wal, so it is no backup but a ledger that was not closed; make a whole copy with sqlite3 and VACUUM INTO", f.Name())
	}
	b := &File{ReaderAt: f, Size: info.Size(), Name: f.Name(), file: f}
	intro := make([]byte, len(ageIntro))
	if _, err := f.ReadAt(intro, 0); err != nil || string(intro) != ageIntro {
		return b, nil // the reader determines its real kind
	}
	if len(identities) == 0 {
		return nil, ErrEncrypted
	}
	b.Encrypted = true
	if b.ReaderAt, b.Size, err = age.DecryptReaderAt(f, b.Size, identities...); err != nil {
		var other *age.NoIdentityMatchError
		if errors.As(err, &other) {
			return nil, errors.New("it was encrypted for somebody else; name another secret key with --identity")
		}
		return nil, fmt.Errorf("it is damaged: %w; use another backup", err)
	}
	return b, nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
