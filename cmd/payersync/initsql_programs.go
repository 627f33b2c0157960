package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/usage"
	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting/sqltable"
)

// knownProgram is a program with known tables: its mapping and its query are shipped.
type knownProgram struct {
	preset string   // as --preset names it
	name   string   // for people
	tables []string // those its query reads, and others that identify the program
	prefix string   // the beginning of its tables' names, if installations differ
}

var knownPrograms = []knownProgram{
	{preset: "odoo", name: "Odoo", tables: []string{"res_partner", "res_country", "ir_module_module"}},
	{preset: "dolibarr", name: "Dolibarr", tables: []string{"llx_societe", "llx_c_country", "llx_const"}, prefix: "llx_"},
	{preset: "erpnext", name: "ERPNext", tables: []string{"tabCustomer", "tabAddress", "tabContact", "tabDynamic Link"}},
	{preset: "gnucash", name: "GnuCash", tables: []string{"customers", "commodities", "versions", "gnclock"}},
	{preset: "ledgersmb", name: "LedgerSMB",
		tables: []string{"entity_credit_account", "eca_to_contact", "eca_to_location", "location"}},
}

func presetNames() (names []string) {
	return connector.Map(knownPrograms, func(p knownProgram) string { return p.preset })
}

// source is the kind of source of the program's mapping.
func (p knownProgram) source() string { return "sql-" + p.preset }

// found returns the prefix of the program's tables in a database, and its missing tables.
func (p knownProgram) found(tables []sqltable.Table) (prefix string, missing []string) {
	lacks := func(prefix string) (missing []string) {
		for _, name := range p.tables {
			name = prefix + strings.TrimPrefix(name, p.prefix)
			if !slices.ContainsFunc(tables, func(t sqltable.Table) bool { return strings.EqualFold(t.Name, name) }) {
				missing = append(missing, name)
			}
		}
		return missing
	}
	prefix, missing = p.prefix, lacks(p.prefix)
	if p.prefix == "" {
		return prefix, missing
	}
	first := strings.TrimPrefix(p.tables[0], p.prefix)
	for _, t := range tables {
		other, is := strings.CutSuffix(t.Name, first)
		if is && !strings.Contains(other, ".") && len(missing) > 0 && len(lacks(other)) == 0 {
			return other, nil
		}
	}
	return prefix, missing
}

// recognise finds the program of --preset, or the one with its tables here; nil for none. A table of --table
// is treated by itself.
func (s *sqlSetup) recognise() (*knownProgram, error) {
	if s.preset != "" && !slices.Contains(presetNames(), s.preset) {
		return nil, usage.Errorf("there is no --preset %q; it is one of %s", s.preset, strings.Join(presetNames(), ", "))
	}
	if s.preset == "" && s.tableName != "" {
		return nil, nil
	}
	for _, p := range knownPrograms {
		if s.preset != "" && s.preset != p.preset {
			continue
		}
		prefix, missing := p.found(s.tables)
		if len(missing) > 0 {
			if s.preset == p.preset {
				return nil, usage.Errorf("%s is no database of %s, or this user may not see its tables: %s is not there; leave --preset out, or name another database", s.label, p.name, missing[0])
			}
			continue
		}
		return &p, s.useProgram(p, prefix)
	}
	return nil, nil
}

// useProgram takes the shipped source, query and mapping of a program.
func (s *sqlSetup) useProgram(p knownProgram, prefix string) error {
	for i := range s.tables {
		t := s.tables[i]
		needed := slices.ContainsFunc(p.tables, func(name string) bool {
			return strings.EqualFold(t.Name, prefix+strings.TrimPrefix(name, p.prefix)) &&
				!slices.Contains([]string{"ir_module_module", "llx_const", "gnclock", "versions"}, name)
		})
		if needed && t.Unreadable != "" {
			return usage.Errorf("this is a database of %s, and its table %s cannot be read: %s; let the user read it", p.name,
				t.Name, t.Unreadable)
		}
	}
	first := firstSources[p.source()]
	var shipped config.Source
	if err := yaml.Unmarshal([]byte(first.block), &shipped); err != nil {
		return fmt.Errorf("read the shipped source of %s: %w", p.name, err)
	}
	query, err := configs.FS.ReadFile(path.Join("sql", first.query))
	if err != nil {
		return fmt.Errorf("read the shipped query of %s: %w", p.name, err)
	}
	s.mapping, err = configs.FS.ReadFile(path.Join("mappings", p.source()+".yaml"))
	if err != nil {
		return fmt.Errorf("read the shipped mapping of %s: %w", p.name, err)
	}
	text := string(query)
	if p.prefix != "" {
		text = strings.ReplaceAll(text, p.prefix, prefix)
	}
	if s.at.Driver == "postgres" {
		text = strings.ReplaceAll(text, "`", `"`)
	}
	s.shipped, s.source, s.query, s.queryFile = true, p.source(), text, first.query
	s.at.Preset, s.at.ID, s.at.Active, s.at.UpdatedAt = shipped.SQL.Preset, shipped.SQL.ID, shipped.SQL.Active,
		shipped.SQL.UpdatedAt
	return nil
}
