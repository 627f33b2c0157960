package usage

// Removed is a former key of a configuration, or a former flag of a command.
type Removed struct {
	Name    string // connections[].source.old of a key, where [] is each element of a list; "status --old" of a flag
	Instead string // what to do or to use instead: a sentence without a full stop
}

// RemovedKeys are the removed keys of nodes, accounts and single ledgers.
var RemovedKeys = []Removed{
	{"alerts.digest", "payersync sends an alarm at once when a problem begins and when it ends. Remove alerts.digest, and set alerts.ways[].min_severity: critical for ways that send only urgent alarms"},
	{"alerts.settle", "the end of a condition is told as soon as it is over. Remove alerts.settle; the rules in configs/prometheus can wait (for, keep_firing_for)"},
	{"alerts.ways[].tells", "write min_severity: critical in the place of tells: urgent, and remove tells: all and tells: digest"},
	{"alerts.ways[].codes", "a way is told of every condition of its min_severity. Remove codes, and route by alertname with the rules in configs/prometheus"},
	{"alerts.ways[].connections",
		"a way is told of every connection. Remove connections, and route by the label connection with the rules in configs/prometheus"},
	{"ledger.replica", "every command reads the database in ledger.postgres. Remove the key; analysts read the views (v_*) on a standby by its own address"},
	{"ledger.vault", "payersync no longer opens keys in Vault or OpenBao. With the version before, run payersync accounts rewrap --new-key FILE, with a new key in FILE (openssl rand -base64 32). Then name FILE in ledger.key_encryption_key of every node, and remove ledger.vault"},
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
