package config

import (
	"errors"
	"fmt"
	"regexp"

	"payersync/connector"
	"payersync/mapping/strict"
	"payersync/state"
)

// vaultCiphertext matches the output of a Transit engine. Versions before this one let Vault open it.
var vaultCiphertext = regexp.MustCompile(`^vault:v[0-9]+:`)

// errVault explains a key-encryption key for earlier versions only.
var errVault = errors.New("it is a ciphertext of Vault or OpenBao, and this version of payersync no longer opens those. With the version before, run payersync accounts rewrap --new-key FILE, with a new key in FILE (openssl rand -base64 32). Then name FILE in ledger.key_encryption_key of every node")

// parseKEK returns the key-encryption key of a file or variable: 32 bytes in base64. The error gives the
// reason and the remedy.
func parseKEK(text connector.Secret) ([]byte, error) {
	if vaultCiphertext.MatchString(text.Expose()) {
		return nil, errVault
	}
	key, err := state.ParseKey(text.Expose())
	if err != nil {
		return nil, fmt.Errorf("%w; make one with: openssl rand -base64 32", err)
	}
	return key, nil
}

// ReadKey returns the key-encryption key in a file.
func ReadKey(path string) ([]byte, error) {
	text, err := ReadSecretFile("the key in ", path)
	if err != nil {
		return nil, err
	}
	key, err := parseKEK(text)
	return key, connector.Wrap(err, "cannot use the key in %s", path)
}

// keyEncryptionKey refuses a text other than a key-encryption key.
func (c *check) keyEncryptionKey(l *NodeLedger) {
	if _, err := parseKEK(l.KeyEncryptionKey.Secret); err != nil {
		c.report(strict.Path{"ledger", "key_encryption_key"}, "ledger.key_encryption_key cannot be used: %v", err)
	}
}
