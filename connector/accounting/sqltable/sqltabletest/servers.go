// Package sqltabletest starts PostgreSQL and MariaDB for tests of database sources: real servers, from
// installed programs, in a folder of their own, on a free port of 127.0.0.1. A TestMain stops them with Stop.
package sqltabletest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"payersync/internal/longtest"
)

// Postgres and MariaDB are the servers. Each starts with the first database that is asked for.
var (
	Postgres = &Server{
		need: longtest.Postgres, driver: "postgres", sqlDriver: "pgx", programs: []string{"initdb", "postgres", "timeout"},
		setUp: func(d *Server) []string {
			return []string{"initdb", "-D", d.data(), "-A", "scram-sha-256", "--pwfile", d.File("password"), "-U", Admin, "-E",
				"UTF8", "--locale=C.UTF-8", "--no-sync"}
		},
		run: func(d *Server) []string {
			return []string{"postgres", "-D", d.data(), "-p", strconv.Itoa(d.port), "-c", "listen_addresses=127.0.0.1", "-c",
				"unix_socket_directories=", "-c", "fsync=off",
				"-c", "ssl=on", "-c", "ssl_cert_file=" + d.File("server.pem"), "-c", "ssl_key_file=" + d.File("server.key")}
		},
		dsn: func(d *Server, database string) string {
			return fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s dbname=%s sslmode=disable", d.port, Admin, Password,
				database)
		},
		first: "postgres",
	}
	MariaDB = &Server{
		need: longtest.MariaDB, driver: "mysql", sqlDriver: "mysql",
		programs: []string{"mariadb-install-db", "mariadbd", "my_print_defaults", "timeout"},
		setUp: func(d *Server) []string {
			return []string{"mariadb-install-db", "--no-defaults", "--datadir=" + d.data(),
				"--auth-root-authentication-method=normal", "--skip-test-db"}
		},
		run: func(d *Server) []string {
			return []string{"mariadbd", "--no-defaults", "--datadir=" + d.data(), "--port=" + strconv.Itoa(d.port),
				"--bind-address=127.0.0.1",
				"--socket=" + d.File("socket"), "--pid-file=" + d.File("pid"), "--innodb-flush-log-at-trx-commit=0",
				"--init-file=" + d.File("init.sql"),
				"--ssl-cert=" + d.File("server.pem"), "--ssl-key=" + d.File("server.key")}
		},
		dsn: func(d *Server, database string) string {
			return fmt.Sprintf("%s:%s@tcp(127.0.0.1:%d)/%s?multiStatements=true", Admin, Password, d.port, database)
		},
		first: "",
	}
)

// Admin and Password are those of the user who may do everything.
const (
	Admin    = "bookkeeper"
	Password = "opens-every-test-database"

	lifetime = 10 * time.Minute // the maximum life of a server
)

// Server is one kind of server.
type Server struct {
	need                     string // what a test needs that asks for a database
	driver, sqlDriver, first string
	programs                 []string
	setUp, run               func(*Server) []string
	dsn                      func(d *Server, database string) string

	once      sync.Once
	missing   string
	err       error
	dir       string
	port      int
	cmd       *exec.Cmd
	databases atomic.Int64
}

// Stop stops the servers that were started.
func Stop() {
	Postgres.stop()
	MariaDB.stop()
}

// File is the path of a file of the server: password, server.pem or server.key.
func (d *Server) File(name string) string { return filepath.Join(d.dir, name) }

func (d *Server) data() string { return d.File("data") }

func (d *Server) stop() {
	if d.cmd != nil {
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
		_ = d.cmd.Wait()
	}
	if d.dir != "" {
		_ = os.RemoveAll(d.dir)
	}
}

// Database is an empty database of its own.
type Database struct {
	DB     *sql.DB // the superuser's connection
	Driver string  // as the configuration of a source names it
	Port   int
	Name   string
}

// Database makes an empty database. It skips the test in a short run. Where the server is
// not installed it skips it, too, but on CI it fails it.
func (d *Server) Database(t testing.TB) Database {
	t.Helper()
	longtest.Story(t, d.need)
	d.once.Do(d.start)
	switch {
	case d.missing != "" && os.Getenv("CI") == "true":
		t.Fatalf("%s; .ci/run installs it", d.missing)
	case d.missing != "":
		t.Skip(d.missing)
	case d.err != nil:
		t.Fatal(d.err)
	}
	name := "books" + strconv.FormatInt(d.databases.Add(1), 10)
	root := d.connect(t, d.first)
	if _, err := root.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return Database{d.connect(t, name), d.driver, d.port, name}
}

// Execute executes statements that must succeed.
func (d Database) Execute(t testing.TB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := d.DB.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// DSN is the driver's address of a database.
func (d *Server) DSN(database string) string { return d.dsn(d, database) }

func (d *Server) connect(t testing.TB, database string) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.sqlDriver, d.DSN(database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (d *Server) start() {
	for i, program := range d.programs {
		path, found := lookUp(program)
		if !found {
			d.missing = fmt.Sprintf("there is no %s on this machine", program)
			return
		}
		d.programs[i] = path
	}
	d.err = errors.Join(d.prepare(), d.serve())
}

// lookUp finds a program also where Debian keeps servers.
func lookUp(program string) (string, bool) {
	if path, err := exec.LookPath(program); err == nil {
		return path, true
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/", "/usr/sbin/"} {
		if found, _ := filepath.Glob(pattern + program); len(found) > 0 {
			return slices.Max(found), true
		}
	}
	return "", false
}

// command runs as nobody when the test runs as root: database servers refuse to.
func (d *Server) command(ctx context.Context, args []string) (*exec.Cmd, error) {
	args = slices.Clone(args)
	for _, path := range d.programs {
		if filepath.Base(path) == args[0] {
			args[0] = path
		}
	}
	seconds := strconv.Itoa(int(lifetime.Seconds()))
	cmd := exec.CommandContext(ctx, "timeout", append([]string{"--kill-after=5", seconds}, args...)...)
	cmd.Dir = d.dir
	uid, gid, err := nobody()
	if err == nil && os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return cmd, err
}

func nobody() (uid, gid int, err error) {
	account, err := user.Lookup("nobody")
	if err != nil {
		return 0, 0, err
	}
	uid, err = strconv.Atoi(account.Uid)
	if err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(account.Gid)
	return uid, gid, err
}

func (d *Server) prepare() (err error) {
	if d.dir, err = os.MkdirTemp("", "payersync-"+d.driver+"-"); err != nil {
		return err
	}
	if d.port, err = FreePort(); err != nil {
		return err
	}
	user := fmt.Sprintf("CREATE USER '%s'@'127.0.0.1' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO '%[1]s'@'127.0.0.1' WITH GRANT OPTION;\n", Admin, Password)
	certificate, key, err := selfSigned()
	if err != nil {
		return err
	}
	files := map[string]string{"password": Password + "\n", "init.sql": user, "server.pem": certificate, "server.key": key}
	for name, content := range files {
		if err := os.WriteFile(d.File(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 {
		uid, gid, err := nobody()
		for name := range files {
			err = errors.Join(err, os.Chown(d.File(name), uid, gid))
		}
		if err := errors.Join(err, os.Chown(d.dir, uid, gid)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd, err := d.command(ctx, d.setUp(d))
	if err != nil {
		return err
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("set up %s: %w\n%s", d.driver, err, said)
	}
	return nil
}

// serve starts the server and waits until it answers. It runs below timeout(1),
// so that it ends even when the test that owns it was killed.
func (d *Server) serve() error {
	if d.dir == "" {
		return nil // prepare told why
	}
	cmd, err := d.command(context.Background(), d.run(d))
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	d.cmd = cmd
	db, err := sql.Open(d.sqlDriver, d.DSN(d.first))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s did not answer in time: %w", d.driver, err)
		}
	}
}

// selfSigned makes a certificate for 127.0.0.1 that is its own authority.
func selfSigned() (certificate, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "books"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), err
}

// FreePort returns a port that nobody listens on.
func FreePort() (int, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
