package connector

import (
	"regexp"
	"strings"
)

// accountCommand matches a command line of payersync up to the end of the command's name, if the command works on one
// account. Commands of all accounts, of nodes and of no ledger (accounts, nodes, serve, healthcheck, init, demo,
// sandbox, version, man, help, completion) take no account. TestHintsKnowEveryCommandOfAnAccount compares it with the
// command tree.
var accountCommand = regexp.MustCompile(`\bpayersync (?:` + strings.Join([]string{
	`approve`, `audit`, `backfill`, `check`, `connect`, `plan`, `report`, `status`, `sweep`, `sync`,
	`alerts (?:list|send|test)`,
	`attention (?:close|give-up|list|retry|show)`,
	`connections (?:move|separate)`,
	`environment (?:move|show|trust)`,
	`ledger (?:backup|copy|export|forget|rekey|restore|retain|unforget|verify)`,
	`mandates (?:cancel|export|handover|links|list|reinstate|request|sent|show)`,
	`mandates letters (?:again|approve|arrived|bounced|continue|list|pause|plan|preview|resume|send|show|stop|test)`,
	`mapping (?:check|coverage|diff|fields|history|preview|rollback|schema|show)`,
	`pages(?: (?:link|users (?:invite|limit|list|remove|role)))?`,
	`payers (?:adopt|ask|drift(?: (?:ignore|send|take))?|link|list|match(?: (?:accept|finish|import|reject))?|merge|rekey|show|undo|unlink)`,
	`plans (?:list|reject|show)`,
	`webhooks (?:close|list|replay|send-test|shapes|show|subscribe|subscription)`,
	`writeback (?:approve|plan|run|status|take)`,
}, "|") + `)\b`)

// NameAccount returns text with `--account NAME` in each command line that works on one account. People get the result
// on nodes, where a database has many accounts. Without an account it returns text unchanged. It never names an
// account twice.
func NameAccount(text, account string) string {
	if account == "" || !strings.Contains(text, "payersync ") {
		return text
	}
	var out strings.Builder
	at := 0
	for _, found := range accountCommand.FindAllStringIndex(text, -1) {
		out.WriteString(text[at:found[1]])
		at = found[1]
		if !namesAccount(text[at:]) {
			out.WriteString(" --account " + account)
		}
	}
	return out.String() + text[at:]
}

// namesAccount reports whether the rest of a command line names its account already, or needs none.
func namesAccount(rest string) bool {
	line := rest
	if end := strings.IndexAny(rest, "\n\"<"); end >= 0 { // the end of a line, of a JSON string, or of an element of a page
		line = rest[:end]
	}
	line, _, _ = strings.Cut(line, "payersync ")
	return strings.HasPrefix(line, "-") || strings.HasPrefix(line, " --help") || strings.Contains(line, " --account")
}
