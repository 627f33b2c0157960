package sqltable

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite" // and the driver "sqlite"
)

// patience is the longest wait for a server, and for a locked table.
const patience = 10 * time.Second

// dialect holds the differences between the databases.
type dialect struct {
	server  bool // it is reached over the network and lets others write while we read
	port    int
	connect func(Config) (*sql.DB, error)
	prepare func(ctx context.Context, conn *sql.Conn, patience time.Duration) error // a new connection
	quote   string                                                                  // goes around a name
	bind    string                                                                  // stands for the only argument
	// compares a column with the bound; %[1]s is the column, %[2]s the bound
	since   string
	options sql.TxOptions
	types   func(declared string) kind
}

var dialects = map[string]dialect{
	"sqlite": {
		connect: connectSQLite, prepare: oneFile, quote: `"`, bind: "?", types: sqliteKind,
		// Times are text or nothing here. A row without a valid time is read.
		since: "(julianday(%[1]s) IS NULL OR julianday(%[1]s) >= julianday(%[2]s))",
	},
	"postgres": {
		server: true, port: 5432, connect: connectPostgres, prepare: waitForLocks("SET lock_timeout = '%ds'"), quote: `"`,
		bind: "$1", types: serverKind,
		since:   "(%[1]s IS NULL OR %[1]s >= %[2]s)",
		options: sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead},
	},
	"mysql": {
		server: true, port: 3306, connect: connectMySQL, prepare: waitForLocks("SET SESSION lock_wait_timeout = %d"),
		quote: "`", bind: "?", types: serverKind,
		since:   "(%[1]s IS NULL OR %[1]s >= %[2]s)",
		options: sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead},
	},
}

// name quotes the parts of a name.
func (d dialect) name(parts ...string) string {
	quoted := make([]string, len(parts))
	for i, part := range parts {
		quoted[i] = d.quote + strings.ReplaceAll(part, d.quote, d.quote+d.quote) + d.quote
	}
	return strings.Join(quoted, ".")
}

// connectSQLite opens a file for reading only, unless it is a ColumnWriter's; it waits for other writers.
func connectSQLite(c Config) (*sql.DB, error) {
	path, err := c.Within.Resolve(c.Path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, err
	}
	options := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)", "query_only(1)", "trusted_schema(0)"}}
	if c.Writes {
		options = url.Values{"mode": {"rw"}, "_txlock": {"immediate"}, "_pragma": {"busy_timeout(5000)", "trusted_schema(0)"}}
	}
	return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+options.Encode())
}

// oneFile keeps a query from attaching other files: it could make and change them,
// since only the configured one is opened for reading alone.
func oneFile(_ context.Context, conn *sql.Conn, _ time.Duration) error {
	_, err := sqlite.Limit(conn, sqliteLimitAttached, 0)
	return err
}

// waitForLocks returns a function to set a server's longest wait for a locked table, in whole seconds;
// servers wait for hours and more by themselves.
func waitForLocks(statement string) func(context.Context, *sql.Conn, time.Duration) error {
	return func(ctx context.Context, conn *sql.Conn, patience time.Duration) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf(statement, int(patience.Seconds())))
		return err
	}
}

// connectPostgres sets everything that the driver would otherwise take from its environment.
func connectPostgres(c Config) (*sql.DB, error) {
	config, err := pgx.ParseConfig("host=localhost port=5432 user=- database=- sslmode=disable sslrootcert='' sslnegotiation=postgres " +
		"connect_timeout=10 channel_binding=prefer require_auth='' min_protocol_version=3.0 max_protocol_version=3.0")
	if err != nil {
		return nil, err
	}
	if config.TLSConfig, err = c.encryption(); err != nil {
		return nil, err
	}
	config.Host, config.Port, config.Fallbacks = c.Host, uint16(c.Port), nil //nolint:gosec // checked to be a port
	config.Database, config.User, config.Password = c.Database, c.User, c.Password.Expose()
	config.ConnectTimeout, config.ValidateConnect = patience, nil
	if c.Reach.PublicOnly {
		config.DialFunc = c.Reach.Dialer(patience).DialContext
	}
	config.RuntimeParams = map[string]string{"application_name": "payersync", "timezone": "UTC"}
	return stdlib.OpenDB(*config), nil
}

func connectMySQL(c Config) (*sql.DB, error) {
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	if strings.HasPrefix(c.Host, "/") {
		config.Net, config.Addr = "unix", c.Host
	}
	var err error
	if config.TLS, err = c.encryption(); err != nil {
		return nil, err
	}
	config.DBName, config.User, config.Passwd = c.Database, c.User, c.Password.Expose()
	config.Timeout, config.ParseTime, config.Loc = patience, true, time.UTC
	if c.Reach.PublicOnly {
		config.DialFunc = c.Reach.Dialer(patience).DialContext
	}
	config.Params = map[string]string{"time_zone": "'+00:00'"}
	config.Logger = &mysql.NopLogger{}
	config.ClientFoundRows = c.Writes // an unchanged row counts as touched
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// encryption returns how to speak TLS, nil for not at all.
func (c Config) encryption() (*tls.Config, error) {
	if c.TLS == "off" {
		return nil, nil
	}
	out := &tls.Config{ServerName: c.Host, MinVersion: tls.VersionTLS12}
	if c.CAFile == "" {
		return out, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read ca_file: %w; put the certificates there or correct its path", err)
	}
	out.RootCAs = x509.NewCertPool()
	if !out.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("cannot use ca_file: it holds no certificate; give the file of the certificate authority in PEM form")
	}
	return out, nil
}
