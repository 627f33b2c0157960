package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A service at a link-local address could receive credentials, or give out those of this machine.
func TestLinkLocalAddressesAreRefusedWhereCredentialsAreSent(t *testing.T) {
	t.Parallel()
	const says = "must not be a link-local address or the metadata service of a cloud"
	billing := func(key, address string) string {
		return strings.Replace(minimal, "billing:\n", "billing:\n  "+key+": "+address+"\n", 1)
	}
	source := func(text string) string {
		return strings.Replace(minimal, "{kind: csv, path: /data/a.csv, preset: xero}", text, 1)
	}
	for name, tt := range map[string]struct{ file, key string }{
		"the billing service": {strings.Replace(minimal, "http://127.0.0.1:8090/api",
			"https://169.254.169.254/api", 1), "billing.base_url"},
		"it in plain http": {strings.Replace(minimal, "http://127.0.0.1:8090/api", "http://169.254.169.254/api",
			1), "billing.base_url"},
		"it as one number": {strings.Replace(minimal, "http://127.0.0.1:8090/api", "https://2852039166/api", 1),
			"billing.base_url"},
		"it in IPv6": {strings.Replace(minimal, "http://127.0.0.1:8090/api",
			"https://[fe80::1%25eth0]/api", 1), "billing.base_url"},
		"it as IPv4 in IPv6": {strings.Replace(minimal, "http://127.0.0.1:8090/api",
			"https://[::ffff:169.254.169.254]:8443/api", 1), "billing.base_url"},
		"it by a name": {strings.Replace(minimal, "http://127.0.0.1:8090/api",
			"https://metadata.google.internal/api", 1), "billing.base_url"},
		"its tokens": {billing("auth_url", "https://0xa9fea9fe/token"), "billing.auth_url"},
		"its consent": {billing("authorize_url", "https://0251.0376.0251.0376/consent"),
			"billing.authorize_url"},
		"tokens of an accounting system": {source("{kind: xero, client_id: a, client_secret: b, token_url: 'https://169.254.169.254/token'}"), "connections[0].source.token_url"},
		"a Tryton server":                {source("{kind: tryton, url: 'https://169.254.169.254', database: d, user: u, password: p}"), "connections[0].source.url"},
		"a database":                     {source("{kind: sql, driver: postgres, host: 169.254.169.254, database: d, user: u, password: p, table: t, id: [i]}"), "connections[0].source.host"},
		"a proxy":                        {minimal + "http: {proxy: 'http://me:hush@169.254.169.254:3128'}\n", "http.proxy"},
		"alerts by webhook": {minimal +
			"alerts: {ways: [{name: a, webhook: {url: 'https://169.254.169.254/x', secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}}]}\n", "alerts.ways[0].webhook.url"},
		"alerts by mail": {minimal +
			"alerts: {ways: [{name: a, email: {server: '169.254.169.254:587', to: a@b.example, from: a@b.example}}]}\n",
			"alerts.ways[0].email.server"},
		"reminders": {minimal +
			"letters: {sender: payersync, smtp: {host: 169.254.169.254, port: 587}}\n", "letters.smtp.host"},
	} {
		_, err := Parse("payersync.yaml", []byte(tt.file), 0, environment)
		if err == nil || !strings.Contains(err.Error(), tt.key+" "+says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: it says %v", name, err)
		}
	}
}

// The password of the database goes there, so its hosts are checked like all others.
func TestADatabaseOfNodesIsNotLinkLocal(t *testing.T) {
	t.Parallel()
	kekFile := filepath.Join(folder(t, map[string]string{"kek": kek}), "kek")
	for _, host := range []string{"169.254.169.254", "metadata.google.internal", "db1,169.254.1.1", "[fe80::1]:5432"} {
		for _, key := range []string{"postgres", "owner"} {
			address := map[string]string{"postgres": verified, "owner": verified}
			address[key] = "postgres://payersync:hush@" + host + "/payersync?sslmode=verify-full"
			file := fmt.Sprintf("ledger: {postgres: env:DATABASE, owner: env:OWNER, key_encryption_key: \"file:%s\"}\n", kekFile)
			_, err := parseNode("node.yaml", []byte(file), 0, func(name string) (string, bool) {
				return map[string]string{"DATABASE": address["postgres"], "OWNER": address["owner"]}[name], true
			})
			if err == nil || !strings.Contains(err.Error(), "ledger."+key+" must not be a link-local address") ||
				strings.Contains(err.Error(), "hush") {
				t.Errorf("ledger.%s at %s: it says %v", key, host, err)
			}
		}
	}
}

func TestLinkLocalHostsAreKnownInEverySpelling(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"169.254.169.254": true, "169.254.0.1": true, "169.254.169.254.": true,
		"2852039166": true, "0xa9fea9fe": true, "0XA9FEA9FE": true, "025177524776": true,
		"169.16689662": true, "169.254.43518": true, "0251.0376.0251.0376": true, "0xa9.0xfe.0xa9.0xfe": true,
		"0251.254.0xa9fe":                          true,
		"\uff11\uff16\uff19\uff0e254\u3002169.254": true, // full width
		"fe80::1": true, "fe80::1%eth0": true, "febf::1": true, "[fe80::1]": true, "::ffff:169.254.169.254": true,
		"::ffff:a9fe:a9fe": true,
		"::a9fe:a9fe":      true, "64:ff9b::a9fe:a9fe": true, "2002:a9fe:a9fe::1": true,
		"fd00:ec2::254": true, "100.100.100.200": true, "168.63.129.16": true,
		"metadata": true, "metadata.google.internal": true, "Metadata.Google.Internal.": true, "metadata.goog": true,
		"instance-data": true, "instance-data.ec2.internal": true,

		"api.example.com": false, "metadata.example.com": false, "127.0.0.1": false, "localhost": false, "::1": false,
		"10.0.0.1":        false,
		"169.253.255.255": false, "169.255.0.0": false, "fec0::1": false, "fe7f::1": false, "2130706433": false,
		"0x7f000001":                  false,
		"169.254.169.254.nip.example": false, "1.2.3.4.5": false, "169.254.65536": false, "08.1": false, "": false,
		"0xg": false,
	} {
		if got := isLinkLocal(host); got != want {
			t.Errorf("isLinkLocal(%q) is %v", host, got)
		}
	}
}
