package config

import (
	"slices"
	"strings"
	"testing"

	"payersync/connector"
)

func TestTheProxyIsReadAndItsPasswordIsASecret(t *testing.T) {
	t.Parallel()
	if c := load(t, minimal); c.HTTP.Address() != nil {
		t.Error("there is a proxy that nobody named")
	}
	if c := load(t, minimal+"http: {proxy: \"\"}\n"); c.HTTP.Address() != nil {
		t.Error("a blank proxy is one")
	}
	plain := load(t, minimal+"http: {proxy: \"http://proxy.test:3128\"}\n")
	if u := plain.HTTP.Address(); u == nil || u.Host != "proxy.test:3128" || len(plain.HTTP.secrets()) != 0 {
		t.Errorf("got %v", u)
	}
	secret := load(t, minimal+"http: {proxy: \"http://me:hush@proxy.test:3128\"}\n")
	if !slices.Contains(secret.Secrets(), connector.NewSecret("hush")) {
		t.Error("its password is not among the secrets")
	}
	for yaml, want := range map[string]string{
		"ftp://me:hush@proxy.test": "http.proxy: it is no address of a proxy",
		"env:NO_SUCH_PROXY":        "NO_SUCH_PROXY is not set",
	} {
		_, err := Parse("payersync.yaml", []byte(minimal+"http: {proxy: \""+yaml+"\"}\n"), 0, environment)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("of %s it says %v", yaml, err)
		}
	}
	_, err := Parse("payersync.yaml", []byte(minimal+"http: {proxy: \"http://me:hush@proxy.test:3128\"}\n"), 0o644,
		environment)
	if err == nil || !strings.Contains(err.Error(), "http.proxy is a secret") {
		t.Errorf("others may read it: %v", err)
	}
}

func TestAChoiceThatMayBeWrittenInTwoWaysIsListedOnce(t *testing.T) {
	t.Parallel()
	_, err := Parse("payersync.yaml",
		[]byte(strings.Replace(minimal, "billing:\n", "billing:\n  dialect: {list: {first_page: later}}\n", 1)), 0,
		environment)
	if err == nil || !strings.Contains(err.Error(), "auto, 0, 1") || strings.Contains(err.Error(), "0, 1, 0, 1") {
		t.Errorf("it says %v", err)
	}
}
