package state

import (
	"context"
	"database/sql"
	"time"
)

// engine is the database of a ledger's rows. Both engines run the same statements and make the same
// decisions. An engine covers only the differences of the databases: connections, migrations, the start of a
// write batch, the search for damage, and snapshot reads. troubleOf explains its errors.
//
// Backups, restores, the mark and the list of forgotten payers exist only for SQLite files; other engines
// bring their own.
type engine interface {
	// prepare looks at what is there before anything of it is opened.
	prepare() error
	// open makes the writer and the readers, and begins to look for damage. The tables
	// may be older, or not there yet.
	open(ctx context.Context, l *Ledger) error
	// readied prepares a long-lived writing connection, and reads its settings back.
	readied(ctx context.Context, db executor) error
	// migrate brings the tables up to date.
	migrate(ctx context.Context, l *Ledger) error

	// where describes the ledger's place to people, without secrets of its address.
	where() string
	// isFile reports whether the ledger is a file of one machine. Then locks, the list of forgotten
	// payers, and a mark that reveals a restored older copy lie beside it.
	isFile() bool

	// tryLock takes the lock whose name ends so, and returns nil when somebody else holds it.
	tryLock(ctx context.Context, ending string) (*Lock, error)

	// begin begins the transaction of a batch. No other process writes until its end. An engine with a clock
	// of its own sets tx.now.
	begin(tx *Tx) error
	// pipelines reports whether statements may be sent together, where each way there and back counts.
	pipelines() bool
	// settle finds the result of a transaction whose commit lost its connection: nil for committed,
	// ErrConnectionLost for not, else ErrOutcomeUnknown.
	findOutcome(ctx context.Context, tx *Tx, lost error) error
	// endBatch is called when a batch has ended, and rest after a while without writes.
	endBatch(l *Ledger)
	freeCache(conn *sql.Conn)
	// close releases the engine's own resources. looked is when the file was last found sound, as
	// far as this process knows; zero if unknown.
	close(looked time.Time)

	// snapshot begins a transaction that sees the ledger as it is now until its end. The caller
	// closes the result, also with an error.
	snapshot(ctx context.Context) (*sql.DB, *sql.Tx, error)
	// integrity reports the damage found by the engine itself.
	integrity(ctx context.Context, v *verifier) error
	// references reports rows with references to missing rows.
	references(ctx context.Context, v *verifier) error
	// catalogue is the query that lists a ledger's tables. For each table it returns the name and,
	// separated by commas, its columns by name, its primary key in order, and the tables it refers
	// to.
	catalogue() string
	// patient lifts the time limits on a transaction's statements and pauses.
	patient(ctx context.Context, in executor) error
	// raise makes sure that new rows of a table get unused numbers.
	raise(tx *Tx) error
	// hasColumn reports whether a schema, which may be an older one, has a column.
	hasColumn(ctx context.Context, db books, table, column string) (bool, error)
}

// trouble is the consequence of an engine's error for the operation.
type trouble int

const (
	none     trouble = iota // no trouble of the engine's: the statement is wrong, or a law of the schema forbids it
	inUse                   // another process keeps what is needed
	tooSlow                 // a statement took longer than it may
	diskFull                // the disk is full or failing; the transaction may be gone
	givenUp                 // the transaction is gone
	readOnly                // nothing may be written
	corrupt                 // what is kept is damaged
	cutOff                  // there is no connection any more
)

// troubleOf classifies an error of any engine.
func troubleOf(err error) trouble {
	if t := sqliteTrouble(err); t != none {
		return t
	}
	return postgresTrouble(err)
}
