package session

import (
	"fmt"
	"strings"
	"time"

	"payersync/connector"
	"payersync/state"
)

// tellOfRestore is the command to mark a ledger as restored.
const tellOfRestore = `sqlite3 %s "UPDATE ledger SET restored_at = strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ')"`

// FoundText describes the findings about the ledger at its opening; "" for none.
func (s *Session) FoundText() string {
	text := s.markText()
	if n := s.Ledger.Heeded(); n > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s %s forgotten earlier was in this copy of the ledger, and was forgotten again.", text, connector.Plural(n, "payer")))
	}
	return text
}

// markText describes the finding of the ledger's mark; "" for none.
func (s *Session) markText() string {
	path := s.Config.Ledger.Path
	cannotTell := fmt.Sprintf("so it cannot be told whether the ledger is an older copy. If it is one, say so before anything else: "+tellOfRestore, path)
	switch s.Ledger.FoundGeneration() {
	case state.FoundOlder:
		return fmt.Sprintf("The ledger %s is older than before: somebody restored a copy of it. payersync creates nothing until it has read the service's list anew, %s from now at the earliest. It looks up there the requests sent since the copy.", path, time.Duration(s.Config.Lookup.Quarantine))
	case state.FoundNoMark:
		return fmt.Sprintf("The file %s.mark was not there or could not be read, and was made anew, %s", path, cannotTell)
	case state.FoundForeign:
		return fmt.Sprintf("The file %s.mark was of another ledger, and was made anew, %s", path, cannotTell)
	}
	return ""
}
