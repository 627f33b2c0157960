package connector

import (
	"regexp"
	"strings"
)

// accountCommand matches a command line of payersync up to the end of the command's name, if the command works on one
// account. Commands of all accounts, of nodes and of no ledger (accounts, nodes, serve, healthcheck, init, demo,
// sandbox, source, version, man, help, completion) take no account. TestHintsKnowEveryCommandOfAnAccount compares it
// with the command tree.
var accountCommand = regexp.MustCompile(`\bpayersync (?:` + strings.Join([]string{
	`audit`, `backfill`, `check`, `connect`, `report`, `status`, `sweep`, `sync`, `todo`,
	`alerts (?:list|send|test)`,
	`attention (?:close|list|retry|show)`,
	`connections move`,
	`environment(?: move)?`,
	`ledger (?:backup|copy|export|forget|rekey|restore|retain|verify)`,
	`letters (?:approve|arrived|bounced|continue|list|pause|plan|preview|send|show|stop)`,
	`mandates (?:cancel|handover|links|list|reinstate|request|show)`,
	`mapping (?:check|fields|history|preview|rollback)`,
	`pages(?: (?:link|users(?: (?:invite|limit|remove|role))?))?`,
	`payers (?:ask|different|drift|list|match|moved|same|show|undo)`,
	`plan(?: (?:approve|list|reject|show))?`,
	`webhooks (?:close|list|replay|show|subscribe)`,
	`writeback(?: (?:approve|plan|run|take))?`,
}, "|") + `)\b`)

// configCommand matches like accountCommand a command line of payersync that reads a configuration.
var configCommand = regexp.MustCompile(accountCommand.String() +
	`|\bpayersync (?:serve|healthcheck|accounts (?:apply|erase|key|list|pause)|nodes (?:forget|list))\b`)

// NameAccount returns text with `--account NAME` in each command line that works on one account. People get the result
// on nodes, where a database has many accounts. Without an account it returns text unchanged. It never names an
// account twice.
func NameAccount(text, account string) string {
	return addFlag(text, accountCommand, "--account", account)
}

// NameConfig returns text with `--config FILE` in each command line that reads a configuration. People get the result
// if they named the file themselves: the command lines then run as they stand. Without a file, and for one that no
// shell takes in single quotes, it returns text unchanged.
func NameConfig(text, file string) string {
	if strings.ContainsAny(file, "'\"\\<>&") || Clean(file) != file {
		return text
	}
	if file != "" && !plainArgument.MatchString(file) {
		file = "'" + file + "'"
	}
	return addFlag(text, configCommand, "--config", file)
}

// plainArgument matches an argument that a shell takes without quotes.
var plainArgument = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// addFlag adds a flag and its value to each command line in a text, behind the name of the command.
func addFlag(text string, command *regexp.Regexp, flag, value string) string {
	if value == "" || !strings.Contains(text, "payersync ") {
		return text
	}
	var out strings.Builder
	at := 0
	for _, found := range command.FindAllStringIndex(text, -1) {
		out.WriteString(text[at:found[1]])
		at = found[1]
		if !hasFlag(text[at:], flag) {
			out.WriteString(" " + flag + " " + value)
		}
	}
	return out.String() + text[at:]
}

// hasFlag reports whether the rest of a command line has a flag already, or needs none.
func hasFlag(rest, flag string) bool {
	line := rest
	// the end of a line, of a JSON string, or of an element of a page
	if end := strings.IndexAny(rest, "\n\"<"); end >= 0 {
		line = rest[:end]
	}
	line, _, _ = strings.Cut(line, "payersync ")
	return strings.HasPrefix(line, "-") || strings.HasPrefix(line, " --help") || strings.Contains(line, " "+flag)
}
