package config

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/billing"
	"payersync/mapping/strict"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// environment is what the tests' configurations find in their environment.
func environment(name string) (string, bool) {
	value, ok := map[string]string{
		"BILLING_CLIENT_ID":     "client-1",
		"XERO_CLIENT_ID":        "client-2",
		"XERO_CLIENT_SECRET":    "hunter2-xero",
		"BILLING_CLIENT_SECRET": "hunter2-secret",
		"WEBHOOK_SECRET":        "hunter2-webhook-secret-of-32-bytes",
		"WRITEBACK_SECRET":      "hunter2-writeback-secret-of-32-bytes",
		"PAYERSYNC_OIDC_SECRET": "hunter2-oidc",
		"BLANK":                 " \n",
	}[name]
	return value, ok
}

func TestWrongConfigurationsAreExplained(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/config/wrong/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no wrong files found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(file, data, 0, environment) // whatever mode a checkout has
			var wrong *strict.Error
			if !errors.As(err, &wrong) {
				t.Fatalf("Load = %v, want a *strict.Error", err)
			}
			got := strings.ReplaceAll(wrong.Error(), filepath.Base(file), "payersync.yaml") + "\n"
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the explanation differs (-want +got):\n%s", diff)
			}
			for _, hidden := range []string{"hunter2", "12345678", "main.", "interface", "struct"} {
				if strings.Contains(got, hidden) {
					t.Errorf("the explanation shows %q:\n%s", hidden, got)
				}
			}
		})
	}
}

func TestAWholeConfigurationIsLoaded(t *testing.T) {
	t.Parallel()
	got, err := Load("testdata/config/whole.yaml", environment)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("testdata", "config")
	if want := filepath.Join(dir, "payersync.db"); got.Ledger.Path != want {
		t.Errorf("ledger.path = %s, want %s", got.Ledger.Path, want)
	}
	conn := got.Connections[0]
	if conn.Source.CSV.Path != filepath.Join(dir, "customers.csv") || conn.Mapping != filepath.Join(dir, "mapping.yaml") ||
		conn.Schedule != "*/15 * * * *" {
		t.Errorf("connection = %+v", conn)
	}
	if got.Billing.ClientSecret.Expose() != "hunter2-secret" ||
		got.Billing.Webhook.Signature.Secrets[0].Expose() != "hunter2-webhook-secret-of-32-bytes" {
		t.Error("the secrets were not resolved")
	}
	if diff := cmp.Diff(billing.Standard(), got.Billing.Dialect.Dialect); diff != "" {
		t.Errorf("dialect differs from the profile (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(billing.DefaultEventPaths(), got.Billing.Webhook.EventPaths); diff != "" {
		t.Errorf("event_paths differ from the defaults (-want +got):\n%s", diff)
	}
	if _, err := billing.NewVerifier(got.Billing.Webhook.Signature.Signature); err != nil {
		t.Errorf("NewVerifier: %v", err)
	}
}

// minimal is the least that a configuration holds.
const minimal = `billing:
  base_url: http://127.0.0.1:8090/api
  client_id: env:BILLING_CLIENT_ID
  client_secret: a literal
  redirect_url: http://localhost:8090/signed
connections:
  - {name: a, source: {kind: csv, path: /data/a.csv, preset: xero}, mapping: m.yaml}
`

func load(t *testing.T, yaml string) *Config {
	t.Helper()
	cfg, err := Parse("payersync.yaml", []byte(yaml), 0, environment)
	if err != nil {
		t.Fatalf("Parse:\n%v", err)
	}
	return cfg
}

func TestWhatIsLeftOutHasDefaults(t *testing.T) {
	t.Parallel()
	got := load(t, minimal)
	want := defaults()
	want.Billing, want.Connections, want.Files = got.Billing, got.Connections, got.Files
	if diff := cmp.Diff(want, *got, cmp.AllowUnexported(Secret{}, Source{}),
		cmp.Comparer(func(a, b Secret) bool { return a == b }),
		cmp.Comparer(func(a, b connector.Secret) bool { return a == b }),
		cmp.Comparer(func(a, b Network) bool { return a == b })); diff != "" {
		t.Errorf("the defaults differ (-want +got):\n%s", diff)
	}
	if b := got.Billing; b.Profile != "standard" || b.AuthURL != "/oauth2/token" || b.RatePerSecond != 5 ||
		b.MaxInFlight != 8 || b.Webhook != nil {
		t.Errorf("billing = %+v", b)
	}
	if time.Duration(got.Lookup.MaxAge) != 24*time.Hour || time.Duration(got.Lookup.Quarantine) != 15*time.Minute {
		t.Errorf("lookup = %+v", got.Lookup)
	}
	if got.Connections[0].Source.CSV.Path != "/data/a.csv" {
		t.Errorf("an absolute path became %s", got.Connections[0].Source.CSV.Path)
	}
}

func TestTheDialectOverridesItsProfileOneByOne(t *testing.T) {
	t.Parallel()
	got := load(t, strings.Replace(minimal, "billing:\n", `billing:
  profile: adfin
  dialect:
    api_auth: client_credentials
    list: {first_page: 1, size: 50}
    read_only: [timezone]
`, 1)).Billing.Dialect.Dialect
	want := billing.Adfin()
	want.APIAuth = "client_credentials"
	want.List.FirstPage, want.List.Size = "1", 50
	want.ReadOnly = []string{"timezone"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dialect differs (-want +got):\n%s", diff)
	}
}

func TestEventPathsOverrideTheirDefaultsOneByOne(t *testing.T) {
	t.Parallel()
	got := load(t, strings.Replace(minimal, "billing:\n", `billing:
  webhook:
    public_url: https://hooks.example.com/hook
    signature: {scheme: standard-webhooks, tolerance: 2m, secrets: ["whsec_aHVudGVyMi1zZWNyZXQtb2YtMzItYnl0ZXM="]}
    event_paths: {type: [kind]}
`, 1)).Billing.Webhook
	want := billing.DefaultEventPaths()
	want.Type = []string{"kind"}
	if diff := cmp.Diff(want, got.EventPaths); diff != "" {
		t.Errorf("event_paths differ (-want +got):\n%s", diff)
	}
	if got.Signature.Tolerance != 2*time.Minute || !slices.Equal(got.Events, []string{"dd-mandate", "customer"}) {
		t.Errorf("webhook = %+v", got)
	}
}

func TestLimitsAreNumbersOrPercentages(t *testing.T) {
	t.Parallel()
	tests := map[string]Limit{"20": {Count: 20}, "0": {}, "5%": {Percent: 5}, "'2.5 %'": {Percent: 2.5},
		"100%": {Percent: 100}}
	for text, want := range tests {
		if got := load(t, minimal+"guards: {max_changes: "+text+"}\n").Guards.MaxChanges; got != want {
			t.Errorf("%s = %+v, want %+v", text, got, want)
		}
	}
}

func TestSecretsComeFromFilesBesideTheConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "payersync.yaml")
	yaml := strings.Replace(minimal, "a literal", "file:secret.txt", 1)
	for file, text := range map[string]string{path: yaml, filepath.Join(dir, "secret.txt"): " from a file\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load(path, environment)
	if err != nil {
		t.Fatal(err)
	}
	if s := got.Billing.ClientSecret.Expose(); s != "from a file" {
		t.Errorf("client_secret = %q", s)
	}
	if diff := cmp.Diff([]string{path, filepath.Join(dir, "secret.txt")}, got.Files); diff != "" {
		t.Errorf("the files that it was read from (-want +got):\n%s", diff)
	}
}

// serve compares two readings of its configuration to find out whether a file changed.
func TestAnEditOfAnOwnProfileIsAnEditOfTheConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, profile := filepath.Join(dir, "payersync.yaml"), filepath.Join(dir, "books.yaml")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shipped, err := configs.FS.ReadFile("sources/freeagent/profile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(profile, string(shipped))
	write(path, strings.Replace(minimal, "kind: csv, path: /data/a.csv, preset: xero",
		"kind: http, profile: books.yaml, client_id: x, client_secret: y", 1))
	load := func() *Config {
		t.Helper()
		c, err := Load(path, environment)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := load()
	if !reflect.DeepEqual(first, load()) {
		t.Error("the same files give another configuration")
	}
	if !slices.Contains(first.Files, profile) {
		t.Errorf("the configuration was read from %v", first.Files)
	}
	write(profile, strings.Replace(string(shipped), "size: 100", "size: 50", 1))
	if reflect.DeepEqual(first, load()) {
		t.Error("an edited profile gives the same configuration")
	}
}

// covers F111
func TestTheProxiesOfThisMachineAreTrustedUnlessOthersAreNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"{}": "[127.0.0.0/8 ::1/128]",
		`{trusted_proxies: [10.1.2.3, "fd00::1/8", "::ffff:10.0.0.1"], limits: {refused_per_client: 7}}`: "[10.1.2.3/32 fd00::/8 10.0.0.1/32]",
		"{trusted_proxies: []}": "[]",
	}
	for text, want := range tests {
		got := load(t, minimal+"server: "+text+"\n").Server
		if proxies := fmt.Sprint(got.Proxies()); proxies != want {
			t.Errorf("server: %s trusts %s, want %s", text, proxies, want)
		}
		if got.Webhooks != "127.0.0.1:8080" || got.Limits.Connections != 2048 {
			t.Errorf("server: %s lost the other defaults: %+v", text, got)
		}
	}
}

// covers F80, S15
func TestAPrintedConfigurationShowsNoSecret(t *testing.T) {
	t.Parallel()
	cfg, err := Load("testdata/config/whole.yaml", environment)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", cfg, *cfg, *cfg), fmt.Sprintf("%+v", cfg.Billing),
		string(encoded)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a secret is printed: %s", text)
		}
	}
}

func TestAMissingConfigurationSaysWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := Load("no/payersync.yaml", environment)
	want := "the configuration cannot be read: there is no file no/payersync.yaml; make one with payersync init, or name yours with --config"
	if err == nil || err.Error() != want {
		t.Errorf("Load = %v, want %s", err, want)
	}
}

func TestTheShippedConfigurationsLoad(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../../../../configs/quickstart/payersync.yaml",
		"../../../../configs/quickstart/production.yaml", "../../../../configs/payersync.example.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		yaml := strings.NewReplacer(
			"file:billing_client_secret", "env:BILLING_CLIENT_SECRET",
			"file:smtp_password", "env:BILLING_CLIENT_SECRET",
			"file:alert_webhook_secret", "env:WEBHOOK_SECRET",
			"file:webhook_secret", "env:WEBHOOK_SECRET").Replace(string(data))
		if _, err := Parse(file, []byte(yaml), 0, environment); err != nil {
			t.Errorf("%s:\n%v", file, err)
		}
	}
}

func TestTheSchemaOffersOnlyValuesThatTheDialectAllows(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties struct {
			Billing struct {
				Properties struct {
					Dialect struct {
						Properties map[string]struct{ Enum []string }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for key, property := range schema.Properties.Billing.Properties.Dialect.Properties {
		for _, value := range property.Enum {
			checked++
			yaml := strings.Replace(minimal, "billing:\n",
				fmt.Sprintf("billing:\n  api_token: a literal\n  dialect: {%s: %s}\n", key, value), 1)
			if _, err := Parse("payersync.yaml", []byte(yaml), 0, environment); err != nil {
				t.Errorf("%s: %s:\n%v", key, value, err)
			}
		}
	}
	if checked < 20 {
		t.Errorf("the schema offers only %d values", checked)
	}
}

func TestASecretThatCannotBeReadIsReportedTogetherWithUnknownKeys(t *testing.T) {
	t.Parallel()
	yaml := strings.Replace(minimal, "  client_secret: a literal\n",
		"  rate_per_sekond: 3\n  client_secret: file:no/secret\n", 1)
	_, err := Parse("payersync.yaml", []byte(yaml), 0, environment)
	for _, told := range []string{"rate_per_sekond", "the file no/secret cannot be read"} {
		if err == nil || !strings.Contains(err.Error(), told) {
			t.Errorf("%q is not reported:\n%v", told, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "is missing") {
		t.Errorf("it reports what may follow from the key alone:\n%v", err)
	}
}

func FuzzParseConfig(f *testing.F) {
	files, err := filepath.Glob("testdata/config/wrong/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "testdata/config/whole.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := Parse("payersync.yaml", data, 0, environment)
		var wrong *strict.Error
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("Parse = %T, want a *strict.Error", err)
		}
	})
}

func TestBackupsNeedAFolderAndRecipientsThatCanRead(t *testing.T) {
	t.Parallel()
	const secret = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"
	for text, want := range map[string]string{
		"schedules: {backup: \"30 3 * * *\"}\n":               "schedules.backup has no folder to put a backup into; name one in backup.folder",
		"backup: {folder: b, recipients: [nobody]}\n":         `backup.recipients[0]: "nobody" is no public key`,
		"backup: {folder: b, recipients: [" + secret + "]}\n": "this is a secret key; name the public one",
		"backup: {keep: -1}\n":                                "backup.keep",
	} {
		_, err := Parse("payersync.yaml", []byte(minimal+text), 0, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	cfg, err := Parse("/etc/payersync/payersync.yaml", []byte(minimal+"backup: {folder: backups}\n"), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Backup.Folder != "/etc/payersync/backups" || cfg.Schedules.Backup == "" || cfg.Backup.Keep != 14 {
		t.Errorf("it is %+v with the schedule %q", cfg.Backup, cfg.Schedules.Backup)
	}
}
