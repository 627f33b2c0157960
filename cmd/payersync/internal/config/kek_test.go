package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payersync/mapping/strict"
)

// aCiphertext is a key as the Transit engine of Vault prints it.
const aCiphertext = "vault:v3:cGF5ZXJzeW5jLXBheWVyc3luYy1wYXllcnN5bmM=\n"

const noVault = "ledger:\n  vault: {address: 'https://vault.example.com:8200', key: payersync, token: file:token}\n"

// covers F200
func TestAKeyThatVaultOpenedIsRefusedOnceWithTheWayOut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ kek, ledger, says string }{
		"a ciphertext": {aCiphertext, "ledger:\n",
			"node.yaml:3:23: ledger.key_encryption_key cannot be used: it is a ciphertext of Vault or OpenBao"},
		"with ledger.vault": {aCiphertext, noVault,
			"node.yaml:2:3: ledger.vault was removed; payersync no longer opens keys in Vault or OpenBao"},
		"after the rewrap": {kek, noVault,
			"node.yaml:2:3: ledger.vault was removed; payersync no longer opens keys in Vault or OpenBao"},
	} {
		file := strings.Replace(nodeFile, "ledger:\n", tt.ledger, 1)
		_, err := LoadNode(filepath.Join(folder(t, map[string]string{"node.yaml": file, "kek": tt.kek}), "node.yaml"),
			databaseAt(verified))
		if err == nil || !strings.Contains(err.Error(), tt.says) ||
			!strings.Contains(err.Error(), "With the version before, run payersync accounts rewrap --new-key FILE") ||
			strings.Contains(err.Error(), "cGF5") {
			t.Errorf("%s: %v", name, err)
		}
		if invalid, ok := err.(*strict.Error); !ok || len(invalid.Problems) != 1 { //nolint:errorlint // it is not wrapped
			t.Errorf("%s: %v is not one problem", name, err)
		}
	}
}

func TestAnotherKeyIsReadFromAFileBesideTheOneInForce(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"kek": kek, "sealed": aCiphertext, "neither": "open sesame", "open": kek})
	if err := os.Chmod(filepath.Join(dir, "open"), 0o644); err != nil {
		t.Fatal(err)
	}
	for file, says := range map[string]string{
		"kek": "", "sealed": "it is a ciphertext of Vault or OpenBao", "open": "Run: chmod 600 ",
		"none":    "there is no such file",
		"neither": "it is no key: that is 32 random bytes in base64; make one with: openssl",
	} {
		key, err := ReadKey(filepath.Join(dir, file))
		if says == "" && (err != nil || len(key) != 32) || says != "" &&
			(err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "sesame")) {
			t.Errorf("%s: %d bytes, %v", file, len(key), err)
		}
	}
}
