package dbtest

import (
	"errors"
	"fmt"
	"time"
)

// Clock gives the database of the unopened ledger at path a clock that runs like the machine's,
// with the offset last passed to set. Every clock_timestamp() uses it.
func Clock(path string) (set func(off time.Duration) error, err error) {
	if !OnPostgres() {
		return nil, errors.New("a file has no clock of its own: run with -engine postgres")
	}
	if _, err := DSN(path); err != nil {
		return nil, err
	}
	s, err := server()
	if err != nil {
		return nil, err
	}
	databases.mu.Lock()
	name := databases.of[resolved(path)]
	databases.mu.Unlock()
	run := func(statement string) error {
		return ExecuteAt(fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=%s sslmode=disable", s.port, name),
			statement)
	}
	set = func(off time.Duration) error {
		return run(fmt.Sprintf("UPDATE public.clock SET off = '%d ms'", off.Milliseconds()))
	}
	return set, run(`SET allow_system_table_mods = on;
		CREATE TABLE public.clock AS SELECT interval '0' AS off; GRANT SELECT ON public.clock TO PUBLIC;
		ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO clock_of_the_machine;
		CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT clock_of_the_machine() + off FROM public.clock'`)
}
