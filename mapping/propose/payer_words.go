package propose

import (
	"slices"
	"strings"

	"payersync/connector"
)

// Words of a status: for present customers, and for former ones.
var (
	activeWords = []string{"active", "aktiv", "actif", "active ", "attivo", "attiva", "actief", "activo", "activa",
		"open", "live", "current", "ok", "enabled", "in use", "kunde", "customer", "client", "klant", "cliente", "debitor",
		"laufend"}
	inactiveWords = []string{"inactive", "inaktiv", "inactif", "inattivo", "inattiva", "inactief", "inactivo", "inactiva",
		"archived", "archiviert", "closed", "gesperrt", "geschlossen", "blocked", "bloque", "bloqué", "bloccato",
		"geblokkeerd", "bloqueado", "deleted", "gelöscht", "disabled", "dormant", "ehemalig", "former", "stopped", "on hold",
		"prospect", "lead", "interessent", "gekündigt", "passif", "left", "cancelled", "cessato", "parti", "supplier",
		"vendor", "lieferant", "fournisseur", "fornitore", "leverancier", "proveedor", "kreditor"}
)

// The words of flags, with the usual marks in tables.
var (
	yesFlags, noFlags = connector.FlagWords()
	yesWords          = append(yesFlags, "x", "✓")
	noWords           = append(noFlags, "-")
)

// Names of payment by direct debit, in plain words: phrases within a value, and words that count only as the
// whole value, as "SEPA" may be a transfer otherwise.
var (
	debitWords = []string{
		"direct debit", "direct debits", "directdebit", "dd mandate", "bacs dd", "sepa dd", "sdd", "autopay", "sepa mandate",
		"sepa mandat", "sepa mandaat",
		"lastschrift", "lastschriften", "basislastschrift", "firmenlastschrift", "sepalastschrift", "lastschrifteinzug",
		"lastschriftverfahren", "lastschriftmandat", "bankeinzug", "einzug", "einzugsermachtigung", "abbuchung",
		"prelevement", "prelevements", "addebito", "rid bancario", "incasso", "domiciliacion", "domiciliado", "domiciliada",
		"domiciliados", "adeudo",
	}
	debitAlone = []string{"dd", "sepa", "rid", "bacs", "ncc"}
	// otherWays are beginnings of words for other ways of payment.
	otherWays = []string{"uberweis", "ueberweis", "bankuberweis", "sepauberweis", "dauerauftrag", "transfer", "virement",
		"bonifico", "overboeking", "overschrijving", "standing", "card", "karte", "kreditkarte", "creditcard", "carta",
		"carte", "tarjeta"}
)

// isDebit reports whether a value of a way of payment is direct debit.
func isDebit(value string) bool {
	words := plainWords(value)
	return !isOtherWay(words) && (slices.Contains(debitAlone, words) || hasPhrase(words, debitWords))
}

// isOtherWay reports whether words speak of another way of payment, or of no direct debit.
func isOtherWay(words string) bool {
	return slices.ContainsFunc(strings.Fields(words), func(w string) bool {
		return slices.Contains(negations, w) ||
			slices.ContainsFunc(otherWays, func(o string) bool { return strings.HasPrefix(w, o) })
	})
}

// invertedHeadings are headings of columns with a yes for former customers.
var invertedHeadings = []string{"disabled", "deleted", "suspended", "stopped", "closed", "do not use", "discontinued",
	"obsolete", "deaktiviert", "geloscht", "supprime", "eliminato", "verwijderd", "eliminado", "inactive", "archived",
	"blocked", "on hold", "inaktiv", "gesperrt", "inactif", "bloque", "inattivo", "bloccato", "inactief", "geblokkeerd",
	"inactivo", "bloqueado"}

func isFlag(cell string) bool {
	cell = strings.ToLower(cell)
	return slices.Contains(yesWords, cell) || slices.Contains(noWords, cell)
}

// maxKinds is the largest number of values of a status or a way of payment.
const maxKinds = 12
