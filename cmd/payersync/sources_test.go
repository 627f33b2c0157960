package main

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	yaml "go.yaml.in/yaml/v4"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/show"
	"payersync/configs"
	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/syncer"
	"payersync/mapping"
)

// ofSource is a configuration with one source.
func ofSource(source string) string {
	return strings.Replace(minimalConfig, "{kind: csv, path: /data/a.csv, preset: xero}", source, 1)
}

func TestEachKindOfSourceIsRead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		source   string
		consents bool
		limits   connector.Limits
		password string
	}{
		{source: "{kind: csv, path: a.csv, id: [No]}"},
		{source: "{kind: xero, client_id: env:BILLING_CLIENT_ID, client_secret: s}", consents: true,
			limits: connector.Limits{PerMinute: 60, PerDay: 5000, Concurrent: 5}},
		{source: "{kind: xero, custom_connection: true, per_day: 1000, client_id: x, client_secret: s}",
			limits: connector.Limits{PerMinute: 60, PerDay: 1000, Concurrent: 5}},
		{source: "{kind: quickbooks, sandbox: true, client_id: x, client_secret: s}", consents: true,
			limits: connector.Limits{PerMinute: 500, PerDay: 15000, Concurrent: 10}},
		{source: `{kind: tryton, url: "https://tryton.example.com", database: d, user: u, password: env:BILLING_CLIENT_SECRET}`, password: sameSecret},
		{source: "{kind: sql, driver: postgres, database: d, user: u, password: env:BILLING_CLIENT_SECRET, table: customers, id: [id]}", password: sameSecret},
	}
	schema := compiled(t, config.Schema())
	for _, tt := range tests {
		t.Run(tt.source, func(t *testing.T) {
			t.Parallel()
			text := ofSource(tt.source)
			cfg, err := parsed(text)
			if err != nil {
				t.Fatal(err)
			}
			s := cfg.Connections[0].Source
			if s.Consents() != tt.consents || !cmp.Equal(s.Limits(), tt.limits) {
				t.Errorf("consents %t, limits %+v", s.Consents(), s.Limits())
			}
			if got := s.Tryton.Password.Expose() + s.SQL.Password.Expose(); got != tt.password {
				t.Errorf("the password is %q", got)
			}
			if s.Kind != config.KindCSV && time.Duration(s.FullEvery) != 7*24*time.Hour {
				t.Errorf("full_every is %s", time.Duration(s.FullEvery))
			}
			var content any
			if err := yaml.Unmarshal([]byte(text), &content); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(content); err != nil {
				t.Errorf("the schema refuses it: %v", err)
			}
		})
	}
}

// stated is a source that gives one customer in each state.
type stated []connector.RecordState

func (s stated) Describe(context.Context) (connector.SourceInfo, error) {
	fields := []connector.Field{{Name: "id", Type: connector.TypeText}}
	return connector.SourceInfo{Kind: "sql", Fields: fields}, nil
}

func (s stated) Customers(context.Context, time.Time) iter.Seq2[connector.Page, error] {
	var page connector.Page
	for i, state := range s {
		id := strconv.Itoa(i)
		page.Records = append(page.Records,
			connector.Record{SourceID: id, State: state, Data: json.RawMessage(`{"id":"` + id + `"}`)})
	}
	return func(yield func(connector.Page, error) bool) { yield(page, nil) }
}

func TestCheckCountsNobodyWhoIsNotActive(t *testing.T) {
	t.Parallel()
	s := stated{connector.RecordActive, connector.RecordArchived, connector.RecordUnknown, connector.RecordMerged,
		connector.RecordDeleted}
	info, err := s.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := mapping.Load("mapping.yaml",
		[]byte("version: 1\nsource: sql\nkey: {no: id}\ncustomer: {name: '\"Acme \" + id'}\n"), info)
	if err != nil {
		t.Fatal(err)
	}
	found := readWhole(t.Context(), billing.Standard(), config.Connection{Name: "acme"},
		syncer.Connection{Source: s, Mapping: m})
	if want := "5 records: 1 would be customers, 0 on hold, the rest is excluded"; found[0].Detail != want {
		t.Errorf("check says %s\nwant %s", found[0].Detail, want)
	}
}

func TestSecretsOfSourcesAreMasked(t *testing.T) {
	t.Parallel()
	cfg, err := parsed(ofSource("{kind: sql, driver: postgres, database: d, user: u, password: canary-password, table: customers, id: [id]}"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, s := range cfg.Secrets() {
		found = found || s.Expose() == "canary-password"
	}
	if !found {
		t.Error("the password is not among the secrets to mask")
	}
}

func TestInitWritesASetUpThatLoadsForEverySourceWithAMapping(t *testing.T) {
	t.Parallel()
	mappings, err := fs.Glob(configs.FS, "mappings/*.yaml")
	ofProfiles, err2 := fs.Glob(configs.FS, "sources/*/mapping.yaml")
	if n := len(mappings) + len(ofProfiles); err != nil || err2 != nil || n != len(sourceKinds()) {
		t.Errorf("init knows %d kinds of sources for %d mappings, %v", len(sourceKinds()), n, err)
	}
	for _, kind := range sourceKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			a := &app{program: program{Console: &show.Console{Out: io.Discard, Output: "table"}}}
			if err := a.initialise(t.Context(), initFlags{dir: dir, source: kind, ask: []string{askEverybody}}); err != nil {
				t.Fatal(err)
			}
			set := func(name string) (string, bool) { return "set", true }
			cfg, err := config.Load(filepath.Join(dir, configFile), set)
			if err != nil {
				t.Fatal(err)
			}
			production, err := config.Load(filepath.Join(dir, productionFile), set)
			if err != nil {
				t.Fatal(err)
			}
			if production.Ledger.Path == cfg.Ledger.Path || production.Billing.BaseURL == cfg.Billing.BaseURL ||
				production.Connections[0].Mapping != cfg.Connections[0].Mapping {
				t.Errorf("sandbox and production are not two set-ups with one mapping: %+v and %+v", cfg, production)
			}
			if kind != "" && !reflect.DeepEqual(production.Connections[0].Source, cfg.Connections[0].Source) {
				t.Errorf("the sources differ: %+v and %+v", cfg.Connections[0].Source, production.Connections[0].Source)
			}
			source := cfg.Connections[0].Source
			if prefix, _, _ := strings.Cut(kind, "-"); source.Kind != prefix && source.Kind != kind {
				t.Errorf("the source is of the kind %s", source.Kind)
			}
			if _, err := os.Stat(source.SQL.QueryFile); source.SQL.QueryFile != "" && err != nil {
				t.Errorf("the query is not there: %v", err)
			}
		})
	}
}
