package state

import "fmt"

// sealedColumn is a column whose values are sealed. Its keys are what the place of a box is
// made of, as text.
type sealedColumn struct {
	table, column string
	keys          []string
}

// sealedColumns are all that there are, in the newest schema. An earlier one lacks some.
var sealedColumns = []sealedColumn{
	{"ledger", "key_check", nil},
	{"ledger", "letter_key", nil},
	{"mapping_versions", "body", []string{"hash"}},
	{"source_records", "record", []string{"connection", "source_id"}},
	{"labels", "label", []string{"connection", "source_id"}},
	{"payers", "applied", []string{"connection", "source_id"}},
	{"payers", "accepted", []string{"connection", "source_id"}},
	{"payers", "read_values", []string{"connection", "source_id"}},
	{"changes", "wanted", []string{"change_id"}},
	{"changes", "diff", []string{"change_id"}},
	{"changes", "body", []string{"change_id"}},
	{"changes", "pre_image", []string{"change_id"}},
	{"mandates", "link", []string{"mandate_id"}},
	{"failure_reasons", "reason", []string{"seq"}},
	{"inbox", "body", []string{"delivery_key"}},
	{"tokens", "token", []string{"connection"}},
	{"webhook_rotations", "secret", []string{"rotation_id"}},
	{"webhook_rotations", "delivery_key", []string{"rotation_id"}},
	{"forget_keys", "key", []string{"key_id"}},
	{"alarm_messages", "body", []string{"message_id"}},
	{"letters", "body", []string{"message_id"}},
	{"financial_statuses", "status", []string{"billing_id"}},
	{"remote_profiles", "profile", []string{"billing_id"}},
	{"writebacks", "field", []string{"connection", "source_id"}},
	{"writebacks", "request", []string{"connection", "source_id"}},
	{"logins", "data", []string{"token_hash"}},
	{"users", "password", []string{"name"}},
}

// sealedOnServer are those of tables that only a server has.
var sealedOnServer = []sealedColumn{{"account_files", "body", []string{"name"}}}

// String names the column to people.
func (c sealedColumn) String() string { return c.table + "." + c.column }

// query selects every box of the column, behind the text of its keys.
func (c sealedColumn) query() string {
	keys := ""
	for _, k := range c.keys {
		keys += fmt.Sprintf("CAST(%s AS TEXT), ", k)
	}
	return fmt.Sprintf("SELECT %s%s FROM %s WHERE %[2]s IS NOT NULL", keys, c.column, c.table)
}

// place returns where a box of the column with these keys belongs.
func (c sealedColumn) place(keys []string) []byte { return place(c.table, c.column, keys...) }
