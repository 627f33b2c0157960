package vault_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/transport"
	"payersync/connector/vault"
	"payersync/connector/vault/vaulttest"
)

const key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// hasty is a source of waits of some nanoseconds.
type hasty struct{}

func (hasty) Uint64() uint64 { return 1 << 40 }

func transitAt(t *testing.T, address string, o transport.Options) vault.Transit {
	t.Helper()
	o.Rand = rand.New(hasty{})
	client := vault.NewClient(o)
	t.Cleanup(client.Close)
	return vault.Transit{Address: address, Mount: vaulttest.Mount, Key: vaulttest.Key, Namespace: vaulttest.Namespace, Token: connector.NewSecret(vaulttest.Token), HTTP: client}
}

func TestWhatVaultHasEncryptedItOpens(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	for _, address := range []string{s.URL, s.URL + "/"} {
		for _, version := range []int{1, 12} {
			sealed := connector.NewSecret(s.Wrapped(version, key))
			if !vault.IsCiphertext(sealed) {
				t.Errorf("version %d is not known as a ciphertext", version)
			}
			opened, err := transitAt(t, address, transport.Options{}).Decrypt(t.Context(), sealed)
			if err != nil || opened.Expose() != key {
				t.Errorf("%s, version %d: %v", address, version, err)
			}
		}
	}
	if n := s.Asked(); n != 4 {
		t.Errorf("%d requests for four keys", n)
	}
}

// What Vault answers repeats what it was sent.
func TestWhoDoesNotOpenAKeySaysWhyAndShowsNothing(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	sealed := s.Wrapped(2, key)
	s.Disallow(2)
	wide := func(change func(*vault.Transit)) func(*vault.Transit) {
		return func(v *vault.Transit) { v.Token = connector.NewSecret(vaulttest.WideToken); change(v) }
	}
	away := httptest.NewServer(nil)
	away.Close()
	for name, tt := range map[string]struct {
		change     func(*vault.Transit)
		ciphertext string
		requests   int
		says       string
	}{
		"nobody there":         {func(v *vault.Transit) { v.Address = away.URL }, sealed, 0, "cannot be asked: no connection to the server could be made (tried 4 times)"},
		"plain http":           {func(v *vault.Transit) { v.Address = "http://vault.example.com:8200" }, sealed, 0, "plain http is for loopback addresses only; use https. Correct ledger.vault.address"},
		"another token":        {func(v *vault.Transit) { v.Token = connector.NewSecret("hvs.another") }, sealed, 1, "it does not know the token, which has run out or was revoked, or is another server's (HTTP 403). Put one into ledger.vault.token"},
		"another namespace":    {func(v *vault.Transit) { v.Namespace = "" }, sealed, 1, "HTTP 403"},
		"a key mistyped":       {func(v *vault.Transit) { v.Key = "payersnyc" }, sealed, 1, "the token may not use that key, or is not valid (HTTP 403). Correct ledger.vault.key and ledger.vault.mount, or put a token into ledger.vault.token whose policy allows update of team/transit/decrypt/payersnyc"},
		"an engine mistyped":   {func(v *vault.Transit) { v.Mount = "transit" }, sealed, 1, "the token may not use that key, or is not valid (HTTP 403). Correct ledger.vault.key and ledger.vault.mount"},
		"another engine":       {wide(func(v *vault.Transit) { v.Mount = "transit" }), sealed, 1, "has no Transit engine at transit (HTTP 404)"},
		"a path of Vault's":    {wide(func(v *vault.Transit) { v.Address += "/v1" }), sealed, 1, "(HTTP 404). Correct ledger.vault.mount, ledger.vault.namespace and ledger.vault.address"},
		"another key's name":   {wide(func(v *vault.Transit) { v.Key = "other" }), sealed, 1, "it has no key other at team/transit (HTTP 400). Correct ledger.vault.key"},
		"a disallowed version": {func(*vault.Transit) {}, s.Wrapped(1, key), 1, "is disallowed (HTTP 400). Lower min_decryption_version of team/transit/keys/payersync, or name what team/transit/rewrap/payersync made"},
		"a key put back":       {func(*vault.Transit) {}, s.Wrapped(13, key), 1, "lacks the version that ledger.key_encryption_key was made with (HTTP 400). Correct ledger.vault.key"},
		"another's":            {func(*vault.Transit) {}, "vault:v2:" + strings.Repeat("QUJD", 20), 1, "does not open what ledger.key_encryption_key names"},
		"no ciphertext":        {func(*vault.Transit) {}, key, 1, "HTTP 400"},
	} {
		s.Asked()
		v := transitAt(t, s.URL, transport.Options{})
		tt.change(&v)
		_, err := v.Decrypt(t.Context(), connector.NewSecret(tt.ciphertext))
		if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), "Vault at http") {
			t.Errorf("%s: %v", name, err)
		}
		showsNothing(t, err, tt.ciphertext, v.Token.Expose())
		if n := s.Asked(); n != tt.requests {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

func TestAPortWithoutTLSIsToldApartFromACertificate(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	sealed := connector.NewSecret(s.Wrapped(1, key))
	_, err := transitAt(t, strings.Replace(s.URL, "http://", "https://", 1), transport.Options{}).Decrypt(t.Context(), sealed)
	if err == nil || !strings.Contains(err.Error(), "That port speaks no TLS: name the one that does in ledger.vault.address, or write http there") {
		t.Errorf("no TLS: %v", err)
	}
	withTLS := httptest.NewUnstartedServer(s)
	withTLS.StartTLS()
	defer withTLS.Close()
	if _, err := transitAt(t, withTLS.URL, transport.Options{}).Decrypt(t.Context(), sealed); err == nil || !strings.Contains(err.Error(), "Name the authority of its certificate in ledger.vault.ca_file") {
		t.Errorf("a certificate of nobody: %v", err)
	}
}

func TestWhatPassesIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	sealed := connector.NewSecret(s.Wrapped(1, key))
	s.Seal(true)
	_, err := transitAt(t, s.URL, transport.Options{}).Decrypt(t.Context(), sealed)
	if err == nil || !strings.Contains(err.Error(), "it is sealed or not ready (HTTP 503). Unseal it (vault operator unseal)") {
		t.Errorf("sealed: %v", err)
	}
	if n := s.Asked(); n != 4 {
		t.Errorf("a server that is sealed was asked %d times", n)
	}
	unsealed := 0
	v := transitAt(t, s.URL, transport.Options{Observe: func(transport.Attempt) {
		if unsealed++; unsealed == 2 {
			s.Seal(false)
		}
	}})
	if opened, err := v.Decrypt(t.Context(), sealed); err != nil || opened.Expose() != key {
		t.Errorf("unsealed meanwhile: %v", err)
	}
	if n := s.Asked(); n != 3 {
		t.Errorf("a server that was unsealed meanwhile was asked %d times", n)
	}
}

func TestAnAnswerIsBelievedWithinBoundsAlone(t *testing.T) {
	t.Parallel()
	elsewhere := vaulttest.New(t)
	sealed := elsewhere.Wrapped(1, key)
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		says   string
	}{
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}, "sends to another server, which is not followed (HTTP 307)"},
		"too much": {func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, strings.Repeat(" ", 1<<20)) }, "the answer is larger than allowed"},
		"a page": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, "<p>"+r.Header.Get("X-Vault-Token"))
		}, "is not Vault's Transit: its answer holds no plaintext"},
		"another engine": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "is not Vault's Transit: its answer holds no plaintext. Correct ledger.vault.address and ledger.vault.mount"},
		"TLS without https": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Client sent an HTTP request to an HTTPS server.", http.StatusBadRequest)
		}, "what answers is not Vault's interface (HTTP 400). Correct ledger.vault.address; a port that speaks TLS is asked with https"},
		"no plaintext":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"data": {}}`) }, "its answer holds no plaintext"},
		"another shape":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"data": {"plaintext": 7}}`) }, "its answer holds no plaintext"},
		"a long wait":      {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "600"); w.WriteHeader(429) }, "it is asked too often (HTTP 429)"},
		"an error of ours": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "it failed (HTTP 418). Look into its log"},
	} {
		server := httptest.NewServer(http.HandlerFunc(tt.answer))
		_, err := transitAt(t, server.URL, transport.Options{}).Decrypt(t.Context(), connector.NewSecret(sealed))
		server.Close()
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
		showsNothing(t, err, sealed, vaulttest.Token)
	}
	if n := elsewhere.Asked(); n != 0 {
		t.Errorf("a redirect led %d requests elsewhere", n)
	}
}

func TestWhoeverStopsWaitsForNoKey(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := transitAt(t, s.URL, transport.Options{}).Decrypt(ctx, connector.NewSecret(s.Wrapped(1, key))); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

func TestWhatLooksLikeACiphertextOrAPlaceOfOne(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"vault:v1:QUJD": true, "vault:v12:QUI=": true, "vault:v0:QUJD": false, "vault:v1:": false, "vault:v1:QUJD\nx": false, "QUJD": false, "": false, key: false, "azure:v1:QUJD": false,
	} {
		if vault.IsCiphertext(connector.NewSecret(text)) != want {
			t.Errorf("%q as a ciphertext: %t", text, !want)
		}
	}
	for text, want := range map[string]bool{
		"transit": true, "team/transit": true, "a.b-c_d": true, "": false, "../sys": false, "a/../b": false, "/a": false, "a//b": false, "a?b": false, "a b": false, "a%2fb": false,
	} {
		if vault.IsPlace(text) != want {
			t.Errorf("%q as a place: %t", text, !want)
		}
	}
}

func showsNothing(t *testing.T, err error, secrets ...string) {
	t.Helper()
	for _, secret := range append(secrets, key) {
		if strings.Contains(fmt.Sprintf("%v %+v", err, err), secret) {
			t.Errorf("%d letters of a secret are shown", len(secret))
		}
	}
}
