// Package longtest keeps `go test ./...` short. A long test starts a server or a browser, or takes
// minutes. It is skipped without PAYERSYNC_LONG=1. The script .ci/run sets this variable.
package longtest

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Variable is the environment variable. The value 1 turns the long tests on.
const Variable = "PAYERSYNC_LONG"

// Common needs of long tests.
const (
	Tryton    = "a Tryton server"
	Postgres  = "a PostgreSQL server"
	MariaDB   = "a MariaDB server"
	Browser   = "a browser"
	Processes = "many processes of payersync"
	Computing = "many seconds of computing"
	Waiting   = "many seconds of waiting"
	LargeFile = "a large file"
)

// Enabled reports whether the long tests run. It reads the environment inside the test: the cache of
// `go test` notices no earlier read, and would mix the results of short and long runs.
func Enabled() bool { return os.Getenv(Variable) == "1" }

// Story skips a long test in a short run and prints its need. It skips no benchmark, because
// benchmarks run by name only.
func Story(t testing.TB, need string) {
	t.Helper()
	if _, benchmark := t.(*testing.B); !benchmark && !Enabled() {
		t.Skipf("skipped: needs %s; set %s=1", need, Variable)
	}
}

// Number returns short in a short run and long otherwise.
func Number[T any](short, long T) T {
	if Enabled() {
		return long
	}
	return short
}

// Sample returns all items in a long run. In a short run it returns at most n of them, evenly spaced,
// with the first and the last.
func Sample[T any](items []T, n int) []T {
	if Enabled() || len(items) <= n {
		return items
	}
	var some []T
	for i := range n {
		some = append(some, items[i*(len(items)-1)/max(1, n-1)])
	}
	return some
}

// Int defines a flag for the size of a test. Without the flag, the size is short in a short run and
// long otherwise. The test itself calls the returned function, because Enabled reads the environment.
func Int(name string, short, long int, usage string) func() int {
	return size(flag.CommandLine, name, short, long, usage)
}

func size(flags *flag.FlagSet, name string, short, long int, usage string) func() int {
	given := flags.Int(name, -1, fmt.Sprintf("%s; -1 means %d, or %d with %s=1", usage, short, long, Variable))
	return func() int {
		if *given >= 0 {
			return *given
		}
		return Number(short, long)
	}
}
