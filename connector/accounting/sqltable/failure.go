package sqltable

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"payersync/connector"
	"payersync/connector/accounting"
)

const op = "read the database"

// lookAtFile examines a SQLite file first, because SQLite reports only that it cannot be opened.
func (s *Source) lookAtFile() error {
	if s.dialect.server {
		return nil
	}
	info, err := s.config.Within.Stat(s.config.Path)
	why, next := "", ""
	switch {
	case errors.Is(err, connector.ErrLeadsOut), s.config.Within != "" && s.leadsBeside():
		why, next = "it, or what SQLite keeps beside it, leads out of the folder that it must lie in",
			"put the file itself there, and no symbolic link"
	case errors.Is(err, fs.ErrNotExist):
		why, next = "there is no such file", "put the database there or correct path in the configuration"
	case err != nil:
		why, next = "this user may not look at it", "allow it to be read by the user that payersync runs as"
	case !info.Mode().IsRegular():
		why, next = "it is not a plain file", "give the path of the SQLite file"
	case info.Size() == 0: // SQLite would read it as a database without tables
		why, next = "it is empty", "give the path of the database"
	default:
		return nil
	}
	return fmt.Errorf("cannot read %s: %s; %s", s.config.Path, why, next)
}

// leadsBeside reports whether a link stands at the place of one of SQLite's own files: SQLite would write
// through it.
func (s *Source) leadsBeside() bool {
	for _, ending := range []string{"-journal", "-wal", "-shm"} {
		if info, err := os.Lstat(s.config.Path + ending); err == nil && !info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// failure explains an error of the driver. It passes on texts of the database only if they contain names,
// never values.
func (s *Source) failure(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%s: %w", op, cause)
	}
	var postgres *pgconn.PgError
	var maria *mysql.MySQLError
	var lite *sqlite.Error
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &postgres):
		return postgresFailure(postgres)
	case errors.As(err, &maria):
		return mysqlFailure(maria)
	case errors.As(err, &lite):
		return s.sqliteFailure(lite)
	case errors.Is(err, connector.ErrAddress):
		return &connector.RemoteError{Op: op, Fault: connector.FaultUnavailable,
			Detail: fmt.Sprintf("%s was not asked: %v", s.place(), connector.ErrAddress)}
	case errors.As(err, &untrusted):
		return &connector.RemoteError{Op: op, Fault: connector.FaultUnavailable,
			Detail: fmt.Sprintf("the certificate of %s cannot be verified (%s); name its authority in ca_file, and the host as the certificate does", s.place(), untrusted.Err)}
	}
	return &connector.RemoteError{Op: op, Fault: connector.FaultUnavailable,
		Detail: fmt.Sprintf("there was no answer from %s; check host, port and tls, and that it runs", s.place())}
}

func (s *Source) place() string {
	if s.dialect.server {
		return fmt.Sprintf("%s port %d", s.config.Host, s.config.Port)
	}
	return s.config.Path
}

func postgresFailure(e *pgconn.PgError) error {
	switch class := e.Code[:min(2, len(e.Code))]; {
	case class == "28", e.Code == "3D000", e.Code == "42501":
		return &accounting.Disconnected{Reason: e.Message}
	case class == "42":
		return rejected(e.Message)
	case e.Code == "55P03":
		return unavailable("somebody else holds a lock on a table")
	case class == "08", class == "53", class == "57", class == "40":
		return unavailable("PostgreSQL's error " + e.Code)
	}
	return rejected("PostgreSQL's error " + e.Code)
}

// MySQL's error numbers. Those about names have texts safe to show.
var (
	mysqlAccess = []uint16{1044, 1045, 1049, 1129, 1130, 1142, 1143, 1698, 1820, 1862, 3118, 4151}
	mysqlNames  = []uint16{1046, 1051, 1052, 1054, 1060, 1064, 1109, 1146, 1305}
	mysqlBusy   = []uint16{1040, 1053, 1203, 1213, 1226, 1969, 3024}
	mysqlLocked = uint16(1205)
)

func mysqlFailure(e *mysql.MySQLError) error {
	switch {
	case slices.Contains(mysqlAccess, e.Number):
		return &accounting.Disconnected{Reason: e.Message}
	case slices.Contains(mysqlNames, e.Number):
		return rejected(e.Message)
	case e.Number == mysqlLocked:
		return unavailable("somebody else holds a lock on a table")
	case slices.Contains(mysqlBusy, e.Number):
		return unavailable(fmt.Sprintf("MySQL's error %d", e.Number))
	}
	return rejected(fmt.Sprintf("MySQL's error %d", e.Number))
}

// sqliteLimitAttached is SQLite's number of the limit of attached files.
const sqliteLimitAttached = 7

// SQLite's codes; their upper bytes only tell more.
const (
	sqliteError    = 1
	sqliteBusy     = 5
	sqliteLocked   = 6
	sqliteReadOnly = 8 // with nothing above it: a query tried to write
	sqliteIO       = 10
	sqliteCorrupt  = 11
	sqliteCantOpen = 14
	sqliteNotADB   = 26
)

func (s *Source) sqliteFailure(e *sqlite.Error) error {
	switch e.Code() & 0xff {
	case sqliteBusy, sqliteLocked:
		return unavailable("somebody else is writing to the file")
	case sqliteReadOnly:
		return s.sqliteReadOnlyFailure(e)
	case sqliteIO:
		return unavailable("the disk or network drive that the file is on has a failure")
	case sqliteCorrupt:
		return fmt.Errorf("cannot read %s: it is damaged or was copied in part; copy it again, or restore it from a backup",
			s.config.Path)
	case sqliteNotADB:
		return fmt.Errorf("cannot read %s: %s", s.config.Path, s.whatItIs())
	case sqliteCantOpen:
		return fmt.Errorf("cannot read %s: it cannot be opened; check that this user may read it and the folder it is in",
			s.config.Path)
	case sqliteError:
		return rejected(e.Error())
	}
	return rejected(fmt.Sprintf("SQLite's error %d", e.Code()))
}

// SQLite's kinds of sqliteReadOnly if a journal must be rolled back first, which is a write.
const (
	sqliteRecovery = 264
	sqliteRollback = 776
)

func (s *Source) sqliteReadOnlyFailure(e *sqlite.Error) error {
	switch e.Code() {
	case sqliteReadOnly:
		return rejected("it tries to write, and nothing may be written")
	case sqliteRecovery, sqliteRollback:
		return fmt.Errorf("cannot read %s: somebody stopped in the middle of saving it; open it once in its own program, which repairs it", s.config.Path)
	}
	return fmt.Errorf("cannot read %s: it is kept with a write-ahead log (SQLite's error %d), which readers take part in through files beside it; "+
		"let this user write into its folder, or end the log with PRAGMA journal_mode = DELETE", s.config.Path, e.Code())
}

// whatItIs identifies a file other than a SQLite database.
func (s *Source) whatItIs() string {
	file, err := s.config.Within.Open(s.config.Path)
	if err != nil {
		return "it is no SQLite database; give the path of one"
	}
	defer func() { _ = file.Close() }()
	start := make([]byte, 64)
	n, _ := file.Read(start) // unreadable content counts as empty
	switch start = start[:n]; {
	case bytes.HasPrefix(start, []byte("\x1f\x8b")), bytes.Contains(start, []byte("<?xml")):
		return "it is in GnuCash's XML format; open it in GnuCash and save it as SQLite with File, Save As"
	case strings.TrimSpace(string(start)) == "":
		return "it is empty; give the path of the database"
	}
	return "it is no SQLite database; give the path of one"
}

func rejected(why string) error {
	return &connector.RemoteError{Op: op, Fault: connector.FaultRejected, Detail: why +
		"; correct the query or the rows it meets"}
}

func unavailable(why string) error {
	return &connector.RemoteError{Op: op, Fault: connector.FaultUnavailable, Detail: why + "; the next run tries again"}
}
