package config

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"payersync/connector"
	"payersync/connector/transport"
	"payersync/connector/vault"
	"payersync/mapping/strict"
	"payersync/state"
)

// Vault says who opens a key-encryption key that no file of this machine holds in clear.
type Vault struct {
	Address   string `yaml:"address" jsonschema:"required" jsonschema_description:"Address of Vault or OpenBao, as in https://vault.example.com:8200."`
	Key       string `yaml:"key" jsonschema:"required" jsonschema_description:"The key of its Transit engine that ledger.key_encryption_key was made with."`
	Token     Secret `yaml:"token" jsonschema:"required" jsonschema_description:"A token whose policy allows update of transit/decrypt/KEY, and nothing else. env:NAME or file:PATH, which is read anew at each start."`
	Mount     string `yaml:"mount" jsonschema_description:"Where the Transit engine is mounted. Default transit."`
	Namespace string `yaml:"namespace" jsonschema_description:"The namespace of the engine, where there are some. Default none."`
	CAFile    string `yaml:"ca_file" jsonschema_description:"Certificates to verify the server with, where it is not one the system trusts."`
}

// OpenKey is where it is decided what key-encryption key a text stands for: 32 bytes in base64, or what Vault opens to such. Vault
// is asked each time. The error says why there is none, and what to do.
func (n *Node) OpenKey(ctx context.Context, text connector.Secret) ([]byte, error) {
	if !vault.IsCiphertext(text) {
		return keyInClear(text)
	}
	v := n.Ledger.Vault
	if v == nil {
		return nil, errors.New(noVault)
	}
	roots, err := v.roots()
	if err != nil {
		return nil, err
	}
	client := vault.NewClient(transport.Options{Proxy: n.HTTP.Address(), Roots: roots})
	defer client.Close()
	opened, err := vault.Transit{Address: v.Address, Mount: v.Mount, Key: v.Key, Namespace: v.Namespace, Token: v.Token.Secret, HTTP: client}.Decrypt(ctx, text)
	if err != nil {
		return nil, err
	}
	key, err := state.ParseKey(opened.Expose())
	if err != nil {
		return nil, fmt.Errorf("what Vault at %s opened cannot be used: %w. Name what vault write -f %s/datakey/wrapped/%s prints as ciphertext", v.Address, err, v.Mount, v.Key)
	}
	return key, nil
}

// keyInClear returns the key that a text is, or says how one is made.
func keyInClear(text connector.Secret) ([]byte, error) {
	key, err := state.ParseKey(text.Expose())
	if err != nil {
		return nil, fmt.Errorf("%w; make one with: openssl rand -base64 32, or with: vault write -f transit/datakey/wrapped/NAME, which prints it as ciphertext", err)
	}
	return key, nil
}

const noVault = "it is a ciphertext of Vault, and nothing says who opens it; name its address, key and token in ledger.vault"

// roots are the certificates of CAFile; nil for those of the system.
func (v *Vault) roots() (*x509.CertPool, error) {
	if v.CAFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(v.CAFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read ledger.vault.ca_file: %w; put the certificates there or correct its path", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("cannot use ledger.vault.ca_file: it holds no certificate; give the file of the certificate authority in PEM form")
	}
	return roots, nil
}

// ReadKey returns the key-encryption key in a file, and whether Vault opened it.
func (n *Node) ReadKey(ctx context.Context, path string) (key []byte, byVault bool, err error) {
	text, err := ReadSecretFile("the key in ", path)
	if err != nil {
		return nil, false, err
	}
	if key, err = n.OpenKey(ctx, text); err != nil {
		return nil, false, fmt.Errorf("cannot use the key in %s: %w", path, err)
	}
	return key, vault.IsCiphertext(text), nil
}

// keyEncryptionKey refuses what no key can come from, and a key in clear where it is to be kept by Vault, which
// is left alone while keys of accounts are about to be wrapped anew.
func (c *check) keyEncryptionKey(l *NodeLedger) {
	at := strict.Path{"ledger"}
	named := at.Key("key_encryption_key")
	if vault.IsCiphertext(l.KeyEncryptionKey.Secret) {
		if l.Vault == nil {
			c.report(named, "ledger.key_encryption_key cannot be used: %s", noVault)
		}
		return
	}
	if _, err := keyInClear(l.KeyEncryptionKey.Secret); err != nil {
		c.report(named, "ledger.key_encryption_key cannot be used: %v", err)
		return
	}
	if l.Vault != nil && !c.rewraps {
		c.report(at.Key("vault"), "ledger.vault has nothing to open: ledger.key_encryption_key holds the key in clear; name a key that Vault has encrypted and wrap those of accounts with it (payersync accounts rewrap --new-key FILE), or remove ledger.vault")
	}
}

// vault checks who opens keys, and resolves the token.
func (c *check) vault(v *Vault) {
	if v == nil {
		return
	}
	at := strict.Path{"ledger", "vault"}
	c.url(at.Key("address"), v.Address)
	c.resolve(at.Key("token"), &v.Token)
	if v.Mount == "" {
		v.Mount = "transit"
	}
	for key, text := range map[string]*string{"key": &v.Key, "mount": &v.Mount, "namespace": &v.Namespace} {
		*text = strings.Trim(*text, "/")
		if (*text != "" || key == "key") && !vault.IsPlace(*text) {
			c.report(at.Key(key), "%s is made of letters, digits, dots, dashes and underscores, with a / between; write it as Vault shows it", at.Key(key))
		}
	}
	if v.CAFile != "" {
		v.CAFile = c.path(v.CAFile)
	}
}
