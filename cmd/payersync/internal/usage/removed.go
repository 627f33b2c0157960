package usage

// Removed is a former key of a configuration, or a former flag of a command.
type Removed struct {
	Name    string // connections[].source.old of a key, where [] is each element of a list; "status --old" of a flag
	Instead string // what to do or to use instead: a sentence without a full stop
}

// RemovedKeys are the removed keys of nodes, accounts and single ledgers.
var RemovedKeys = []Removed{
	{"alerts.digest", "each condition is told at once when it begins and when it is over. Remove alerts.digest, and give alerts.ways[].min_severity: critical to ways that are told of urgent conditions alone"},
	{"alerts.settle", "the end of a condition is told as soon as it is over. Remove alerts.settle; the rules in configs/prometheus can wait (for, keep_firing_for)"},
	{"alerts.ways[].tells", "write min_severity: critical in the place of tells: urgent, and remove tells: all and tells: digest"},
	{"alerts.ways[].codes", "a way is told of every condition of its min_severity. Remove codes, and route by alertname with the rules in configs/prometheus"},
	{"alerts.ways[].connections", "a way is told of every connection. Remove connections, and route by the label connection with the rules in configs/prometheus"},
	{"ledger.replica", "every command reads the database in ledger.postgres. Remove the key; analysts read the views (v_*) on a standby by its own address"},
	{"ledger.vault", "payersync no longer opens keys in Vault or OpenBao. Run payersync accounts rewrap --new-key FILE with the version before, where FILE holds a new key (openssl rand -base64 32); then name FILE in ledger.key_encryption_key of every node, and remove ledger.vault"},
}

// RemovedFlags are the removed flags.
var RemovedFlags []Removed

// RemovedFlag returns the entry of a flag of a command, without its dashes, among removed flags.
func RemovedFlag(among []Removed, command, flag string) (r Removed, found bool) {
	for _, r := range among {
		if r.Name == command+" --"+flag {
			return r, true
		}
	}
	return Removed{}, false
}
