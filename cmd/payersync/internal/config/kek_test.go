package config

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/vault/vaulttest"
)

// vaultKeys are those of ledger.vault for a server.
func vaultKeys(s *vaulttest.Server) string {
	return fmt.Sprintf("  vault: {address: %q, key: %s, mount: /%s/, namespace: %s/, token: file:token}\n", s.URL, vaulttest.Key, vaulttest.Mount, vaulttest.Namespace)
}

// nodeOf reads a node whose ledger has more keys, and these files beside it.
func nodeOf(t *testing.T, more string, files map[string]string) (*Node, error) {
	t.Helper()
	files["node.yaml"] = strings.Replace(nodeFile, "accounts:", more+"accounts:", 1)
	return LoadNode(filepath.Join(folder(t, files), "node.yaml"), databaseAt(verified))
}

func TestAKeyThatVaultOpensIsReadWhenItIsAskedFor(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	sealed := s.Wrapped(3, kek)
	n, err := nodeOf(t, vaultKeys(s), map[string]string{"kek": sealed + "\n", "token": vaulttest.Token + "\n"})
	if err != nil {
		t.Fatal(err)
	}
	o := n.Options()
	if asked := s.Asked(); asked != 0 {
		t.Errorf("%d requests for a configuration that was read", asked)
	}
	if key, err := o.KeyEncryptionKey(t.Context()); err != nil || string(key) != "0123456789abcdef0123456789abcdef" {
		t.Errorf("%d bytes, %v", len(key), err)
	}
	for _, secret := range []string{sealed, vaulttest.Token} {
		if !slices.ContainsFunc(n.Secrets(), func(s connector.Secret) bool { return s.Expose() == secret }) {
			t.Errorf("%d letters of a secret are not masked", len(secret))
		}
	}
}

func TestVaultsOwnAuthorityIsTrustedWhereItIsNamed(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	secured := httptest.NewUnstartedServer(s)
	secured.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of the refused handshake
	secured.StartTLS()
	defer secured.Close()
	s.URL = secured.URL
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw}))
	for file, says := range map[string]string{"": "ledger.vault.ca_file", "ca.pem": "", "none.pem": "cannot read ledger.vault.ca_file", "kek": "it holds no certificate"} {
		keys := vaultKeys(s)
		if file != "" {
			keys = strings.Replace(keys, "{", "{ca_file: "+file+", ", 1)
		}
		n, err := nodeOf(t, keys, map[string]string{"kek": s.Wrapped(1, kek), "token": vaulttest.Token, "ca.pem": authority})
		if err != nil {
			t.Fatal(err)
		}
		key, err := n.OpenKey(t.Context(), n.Ledger.KeyEncryptionKey.Secret)
		if says == "" && (err != nil || len(key) != 32) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("with %q: %d bytes, %v", file, len(key), err)
		}
	}
}

func TestWhatNoKeyComesFromIsExplained(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	sealed, keys := s.Wrapped(1, kek), vaultKeys(s)
	for name, tt := range map[string]struct{ kek, keys, says string }{
		"nobody who opens it": {sealed, "", "node.yaml:3:23: ledger.key_encryption_key cannot be used: it is a ciphertext of Vault, and nothing says who opens it; name its address, key and token in ledger.vault"},
		"a key in clear":      {kek, keys, "ledger.vault has nothing to open: ledger.key_encryption_key holds the key in clear; name a key that Vault has encrypted"},
		"half a ciphertext":   {sealed[:9] + "!", keys, "ledger.key_encryption_key cannot be used: it is no key"},
		"plain http":          {sealed, strings.Replace(keys, s.URL, "http://vault.example.com:8200", 1), "ledger.vault.address must begin with https://"},
		"a password":          {sealed, strings.Replace(keys, s.URL, "https://a:sesame@vault.example.com", 1), "ledger.vault.address must not hold a user name or password"},
		"no token":            {sealed, strings.Replace(keys, "file:token", "file:none", 1), "the file none cannot be read"},
		"a blank token":       {sealed, strings.Replace(keys, "file:token", "''", 1), "ledger.vault.token is blank"},
		"no key's name":       {sealed, strings.Replace(keys, "key: payersync", "key: ../sys/raw", 1), "ledger.vault.key is made of letters"},
		"no engine":           {sealed, strings.Replace(keys, "mount: /", "mount: /?", 1), "ledger.vault.mount is made of letters"},
		"no namespace":        {sealed, strings.Replace(keys, "namespace: ", "namespace: a%", 1), "ledger.vault.namespace is made of letters"},
		"an unknown key":      {sealed, strings.Replace(keys, "mount:", "engine:", 1), `unknown key "engine" in ledger.vault`},
	} {
		_, err := nodeOf(t, tt.keys, map[string]string{"kek": tt.kek, "token": vaulttest.Token})
		if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), sealed) || strings.Contains(err.Error(), vaulttest.Token) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := s.Asked(); n != 0 {
		t.Errorf("%d requests for configurations that are wrong", n)
	}
}

// The key of before may be in clear while the next is read, and the other way round.
func TestAnotherKeyIsReadFromAFileBesideTheOneInForce(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	dir := folder(t, map[string]string{
		"node.yaml": strings.Replace(nodeFile, "accounts:", vaultKeys(s)+"accounts:", 1), "kek": kek, "token": vaulttest.Token,
		"sealed": s.Wrapped(1, kek) + "\n", "clear": kek, "short": s.Wrapped(1, "QUJD"), "neither": "open sesame", "open": kek,
	})
	if err := os.Chmod(filepath.Join(dir, "open"), 0o644); err != nil {
		t.Fatal(err)
	}
	n, err := LoadNodeToRewrap(filepath.Join(dir, "node.yaml"), databaseAt(verified))
	if err != nil {
		t.Fatal(err)
	}
	for file, tt := range map[string]struct {
		byVault bool
		says    string
	}{
		"sealed": {true, ""}, "clear": {false, ""},
		"short":   {false, "what Vault at " + s.URL + " opened cannot be used: it is no key: that is 32 random bytes in base64. Name what vault write -f"},
		"neither": {false, "it is no key: that is 32 random bytes in base64; make one with: openssl"}, "open": {false, "Run: chmod 600 "}, "none": {false, "there is no such file"},
	} {
		key, byVault, err := n.ReadKey(t.Context(), filepath.Join(dir, file))
		if tt.says == "" && (err != nil || len(key) != 32 || byVault != tt.byVault) || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "sesame")) {
			t.Errorf("%s: %d bytes, by Vault %t, %v", file, len(key), byVault, err)
		}
	}
	n.Ledger.Vault = nil
	if _, _, err := n.ReadKey(t.Context(), filepath.Join(dir, "sealed")); err == nil || !strings.Contains(err.Error(), "name its address, key and token in ledger.vault") {
		t.Errorf("a ciphertext that nobody opens: %v", err)
	}
}
