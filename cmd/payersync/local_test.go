package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payersync/cmd/payersync/internal/show"
)

// The needs of a command besides its configuration and the ledger.
const (
	needsNothing = "nothing"
	needsKey     = "the sealing key" // it shows or notes what is sealed, or writes
	needsSecrets = "secrets"         // it asks another system
)

// needs says of every command how it is called and what it needs.
var needs = map[string]struct{ args, what string }{
	"payersync accounts apply":                   {"", ""}, // these have the configuration of a node
	"payersync accounts erase":                   {"", ""},
	"payersync accounts list":                    {"", ""},
	"payersync accounts pause":                   {"", ""},
	"payersync accounts pause --undo":            {"", ""},
	"payersync accounts key":                     {"", ""},
	"payersync accounts key --rewrap":            {"", ""},
	"payersync accounts list --show":             {"", ""},
	"payersync nodes forget":                     {"", ""},
	"payersync nodes list":                       {"", ""},
	"payersync alerts list":                      {"", needsNothing},
	"payersync alerts send":                      {"", needsSecrets},
	"payersync alerts test":                      {"", needsSecrets},
	"payersync plan approve":                     {"1", needsKey},
	"payersync audit":                            {"", needsNothing},
	"payersync attention close":                  {"A00002 --reason test", needsKey},
	"payersync attention close --give-up":        {"A00002 --reason test", needsKey},
	"payersync attention list":                   {"", needsNothing},
	"payersync attention retry":                  {"A00002", needsKey},
	"payersync attention show":                   {"A00002", needsKey},
	"payersync backfill":                         {"", needsSecrets},
	"payersync check":                            {"", needsSecrets},
	"payersync completion":                       {"", ""}, // it has no configuration
	"payersync pages":                            {"--listen 127.0.0.1:0", needsSecrets},
	"payersync pages link":                       {"", needsKey},
	"payersync pages users":                      {"", needsKey},
	"payersync pages users invite":               {"anna", needsKey},
	"payersync pages users limit":                {"anna --all", needsKey},
	"payersync pages users role":                 {"anna viewer", needsKey},
	"payersync pages users remove":               {"anna", needsKey},
	"payersync man":                              {"", ""}, // nor has this
	"payersync connect":                          {"billing", needsSecrets},
	"payersync connections move":                 {"quickstart other", needsKey},
	"payersync connections move --separate":      {"quickstart other --reason test", needsKey},
	"payersync demo":                             {"", ""}, // it has an installation of its own
	"payersync healthcheck":                      {"", needsNothing},
	"payersync init":                             {"", ""}, // it makes what is needed
	"payersync ledger copy":                      {"", ""}, // it names the one secret that it needs
	"payersync ledger export":                    {"A00001 --output json", needsKey},
	"payersync ledger forget":                    {"A00001 --mandate-stays --reason test --yes", needsKey},
	"payersync ledger rekey":                     {"--yes", needsKey},
	"payersync ledger retain":                    {"", needsKey},
	"payersync ledger forget --undo":             {"A00001 --reason test", needsKey},
	"payersync ledger backup":                    {"BACKUPS", needsKey},
	"payersync ledger restore":                   {"", ""}, // it reads a backup before anything else
	"payersync ledger verify":                    {"", needsKey},
	"payersync mandates cancel":                  {"A00001 --reason test", needsSecrets},
	"payersync mandates reinstate":               {"A00001 --reason test", needsSecrets},
	"payersync mandates list --export":           {"", needsNothing},
	"payersync mandates handover":                {"", needsKey},
	"payersync letters send --again":             {"1", needsKey},
	"payersync letters approve":                  {"--yes", needsKey},
	"payersync letters continue":                 {"--reason test", needsKey},
	"payersync letters list":                     {"", needsNothing},
	"payersync letters pause":                    {"", needsKey},
	"payersync letters plan":                     {"", needsKey},
	"payersync letters pause --undo":             {"", needsKey},
	"payersync letters send":                     {"", needsSecrets},
	"payersync letters show":                     {"1", needsKey},
	"payersync letters stop":                     {"A00001 --note test", needsKey},
	"payersync letters preview":                  {"", needsNothing},
	"payersync letters preview --test":           {"--to me@harbour.example", needsSecrets},
	"payersync letters bounced":                  {"ada@example.org", needsKey},
	"payersync mandates links":                   {"--lost", needsSecrets},
	"payersync mandates list":                    {"", needsNothing},
	"payersync mandates request":                 {"A00001", needsSecrets},
	"payersync mandates handover --sent":         {"A00001 --on 2026-03-02", needsKey},
	"payersync mandates show":                    {"MANDATE", needsKey},
	"payersync mapping check":                    {"", needsKey},
	"payersync mapping check --coverage":         {"", needsKey},
	"payersync mapping history --diff":           {"VERSION", needsKey},
	"payersync mapping fields":                   {"", needsKey},
	"payersync mapping history":                  {"", needsKey},
	"payersync mapping preview":                  {"", needsKey},
	"payersync mapping rollback":                 {"VERSION", needsKey},
	"payersync mapping fields --schema":          {"", needsNothing},
	"payersync mapping history --show":           {"VERSION", needsKey},
	"payersync environment move":                 {"--reason test --yes", needsSecrets},
	"payersync environment":                      {"", needsSecrets},
	"payersync environment move --trust":         {"--reason test", needsSecrets},
	"payersync payers drift":                     {"", needsSecrets},
	"payersync payers drift --ignore":            {"A00001 --part name --reason test --yes", needsSecrets},
	"payersync payers drift --send":              {"A00001 --reason test --yes", needsSecrets},
	"payersync payers drift --take":              {"A00001 --reason test --yes", needsSecrets},
	"payersync payers list":                      {"", needsNothing},
	"payersync payers match":                     {"", needsSecrets},
	"payersync payers match --finish":            {"--yes", needsKey},
	"payersync payers match --import":            {"REVIEW", needsSecrets},
	"payersync payers same":                      {"A00001 c1 --reason test --yes", needsSecrets},
	"payersync payers ask":                       {"A00002", needsKey},
	"payersync payers undo":                      {"1 --reason test --yes", needsSecrets},
	"payersync payers different":                 {"A00001 --reason test --yes", needsSecrets},
	"payersync payers same --reason test":        {"A00001", needsSecrets},
	"payersync payers same --into A00001":        {"A00002 --reason test --yes", needsSecrets},
	"payersync payers different --record A00002": {"A00001 --yes", needsKey},
	"payersync source":                           {"", ""}, // it reads no configuration
	"payersync source --check":                   {"", ""},
	"payersync source --new":                     {"", ""},
	"payersync todo":                             {"", needsNothing},
	"payersync payers moved":                     {"A00002 --from A00001 --reason test --yes", needsSecrets},
	"payersync payers show":                      {"A00001", needsKey},
	"payersync plan":                             {"", needsSecrets},
	"payersync plan list":                        {"", needsNothing},
	"payersync plan reject":                      {"1 --yes", needsKey},
	"payersync plan show":                        {"1", needsKey},
	"payersync report":                           {"", needsNothing},
	"payersync sandbox":                          {"", ""}, // it has no configuration
	"payersync serve":                            {"", needsSecrets},
	"payersync status":                           {"", needsNothing},
	"payersync sweep":                            {"", needsSecrets},
	"payersync sync":                             {"", needsSecrets},
	"payersync version":                          {"", needsNothing},
	"payersync webhooks close":                   {"D1 --reason test", needsKey},
	"payersync webhooks list":                    {"", needsNothing},
	"payersync webhooks replay":                  {"D1", needsSecrets},
	"payersync webhooks subscribe --test":        {"", needsSecrets},
	"payersync webhooks list --shapes":           {"", needsKey},
	"payersync webhooks show":                    {"D1", needsKey},
	"payersync webhooks subscribe":               {"", needsSecrets},
	"payersync webhooks subscribe --show":        {"", needsSecrets},
	"payersync writeback approve":                {"abc", needsKey},
	"payersync writeback plan":                   {"", needsSecrets},
	"payersync writeback run":                    {"", needsSecrets},
	"payersync writeback":                        {"", needsKey},
	"payersync writeback take":                   {"A00001 --reason test", needsKey},
}

// Commands that only read the ledger need no credentials of the service.
func TestLocalCommandsNeedNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "sync")
	mandate := w.mandateOf("A00001").ID
	version := hashOf([]byte(worldMapping))[:shortHash]
	w.edit("payersync.yaml", "client_id: sandbox", "client_id: env:NO_ID")
	w.edit("payersync.yaml", "env:BILLING_CLIENT_SECRET", "file:no-secret")
	w.remove("webhook.secret")
	w.write("review.csv", "record_id,customer_id,decision,check\n")
	backups := t.TempDir()

	a := &app{program: program{Console: &show.Console{}, getenv: os.LookupEnv}}
	for _, c := range commandsBelow(a.root()) {
		if _, known := needs[c.CommandPath()]; !known && !c.HasSubCommands() {
			t.Errorf("%s is not in the table of what commands need", c.CommandPath())
		}
	}
	for path, need := range needs {
		if need.what == "" { // it stands for itself
			continue
		}
		args := append(strings.Fields(path)[1:],
			strings.Fields(strings.NewReplacer("MANDATE", mandate, "VERSION", version, "REVIEW", w.path("review.csv"), "BACKUPS",
				backups).Replace(need.args))...)
		r := w.run(args...)
		missing := strings.Contains(r.errOut, "NO_ID is not set") && strings.Contains(r.errOut, "no-secret cannot be read")
		switch {
		case need.what == needsSecrets && (r.code != exitUsage || !missing):
			t.Errorf("%s without its secrets ended with %d:\n%s", path, r.code, r.errOut)
		case need.what != needsSecrets && (missing || strings.Contains(r.errOut, "webhook.secret")):
			t.Errorf("%s asks for secrets that it does not use:\n%s", path, r.errOut)
		}
	}
	if s := decode[statusReport](t, w.expect(exitDone, "status", "--output", "json")); s.Payers["linked"] != 3 {
		t.Errorf("status without secrets says %v", s.Payers)
	}
	w.expect(exitDone, "mapping", "preview")
	w.expect(exitDone, "payers", "show", "A00001")
}

// The sealing key is stored apart from the ledger, and reports without sealed values do not need it.
func TestReportsNeedNoSealingKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(30))
	w.expect(exitApproval, "sync")
	if err := os.Rename(w.path("payersync.key"), filepath.Join(t.TempDir(), "apart")); err != nil {
		t.Fatal(err)
	}
	for path, need := range needs {
		args := append(strings.Fields(path)[1:], strings.Fields(need.args)...)
		switch need.what {
		case needsNothing:
			if r := w.run(args...); path != "payersync healthcheck" && r.code != exitDone {
				t.Errorf("%s without the key ended with %d:\n%s", path, r.code, r.errOut)
			}
		case needsKey:
			if r := w.run(args...); r.code == exitDone ||
				!strings.Contains(r.errOut, "payersync.key: it does not exist. Put back the one this ledger was made with") {
				t.Errorf("%s without the key ended with %d:\n%s", path, r.code, r.errOut)
			}
		}
	}
	for _, args := range [][]string{{"mandates", "list", "--links"}, {"check"}} {
		if r := w.run(args...); r.code == exitDone || !strings.Contains(r.errOut, "payersync.key: it does not exist") {
			t.Errorf("%v without the key ended with %d:\n%s", args, r.code, r.errOut)
		}
	}
	w.remove("payersync.db")
	if r := w.run("status"); r.code == exitDone || !strings.Contains(r.errOut, "payersync.key: it does not exist") {
		t.Errorf("without a ledger it ended with %d:\n%s", r.code, r.errOut)
	}
}
