// Package trytontest runs a real Tryton server for tests: Debian's packages tryton-server and
// tryton-modules-party, on a SQLite database in a folder of its own, on a free port of 127.0.0.1. A test
// changes parties by JSON-RPC, like Tryton's own client. It may put a Front before the server to lose
// sessions, delay answers or lie.
//
// Package tryton and its tests decide what to read there.
package trytontest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"payersync/internal/longtest"
)

// User and Password are the administrator of every database.
const (
	User     = "admin"
	Password = "opens-every-test-database"
)

const (
	setUp    = 3 * time.Minute  // the limit for setting up the first database
	lifetime = 10 * time.Minute // the maximum life of a server
	startUp  = time.Minute
)

// Server is one Tryton server, shared by the tests of a package. It starts with
// the first database that is asked for. Stop it in TestMain.
type Server struct {
	once      sync.Once
	missing   string // why there is no server on this machine
	err       error
	dir       string
	url       string
	cmd       *exec.Cmd
	databases atomic.Int64
}

// Stop ends the server, if it was started, and removes its databases.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// Database makes a database without parties. It skips the test in a short run. Where
// Tryton is not installed it skips it, too, but on CI it fails it.
func (s *Server) Database(t testing.TB) *Database {
	t.Helper()
	longtest.Story(t, longtest.Tryton)
	s.once.Do(s.start)
	switch {
	case s.missing != "" && os.Getenv("CI") == "true":
		t.Fatalf("%s; .ci/run installs it", s.missing)
	case s.missing != "":
		t.Skipf("%s: install tryton-server and tryton-modules-party to run this test", s.missing)
	case s.err != nil:
		t.Fatal(s.err)
	}
	name := "books" + strconv.FormatInt(s.databases.Add(1), 10)
	template, err := os.ReadFile(s.file("template"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.file(name), template, 0o600); err != nil {
		t.Fatal(err)
	}
	return &Database{t: t, URL: s.url, Name: name}
}

func (s *Server) file(database string) string { return filepath.Join(s.dir, database+".sqlite") }

func (s *Server) start() {
	for _, program := range []string{"trytond", "trytond-admin", "timeout"} {
		if _, err := exec.LookPath(program); err != nil {
			s.missing = fmt.Sprintf("there is no %s on this machine", program)
			return
		}
	}
	s.err = errors.Join(s.prepare(), s.serve())
}

// prepare makes the database that all others are copies of.
func (s *Server) prepare() (err error) {
	if s.dir, err = os.MkdirTemp("", "payersync-tryton-"); err != nil {
		return err
	}
	address, err := freePort()
	if err != nil {
		return err
	}
	s.url = "http://" + address
	config := fmt.Sprintf("[database]\nuri = sqlite://\npath = %s\n[web]\nlisten = %s\n[password]\nlength = 1\n", s.dir,
		address)
	for name, content := range map[string]string{"trytond.conf": config, "password": Password + "\n",
		"template.sqlite": ""} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), setUp)
	defer cancel()
	admin := s.command(ctx, "trytond-admin", "-d", "template", "-u", "ir", "res", "country", "party", "--email",
		"admin@books.example", "-l", "en")
	admin.Env = append(os.Environ(), "TRYTONPASSFILE="+filepath.Join(s.dir, "password"))
	if said, err := admin.CombinedOutput(); err != nil {
		return fmt.Errorf("make a Tryton database: %w\n%s", err, said)
	}
	return nil
}

func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, program, append([]string{"-c", filepath.Join(s.dir, "trytond.conf")}, args...)...)
}

// serve starts the server and waits for its first answer. It runs below timeout(1), so it ends even after its
// test was killed.
func (s *Server) serve() error {
	seconds := strconv.Itoa(int(lifetime.Seconds()))
	s.cmd = exec.CommandContext(context.Background(), "timeout", "--kill-after=5", seconds, "trytond", "-c",
		filepath.Join(s.dir, "trytond.conf"))
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("start trytond: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startUp)
	defer cancel()
	ready, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/", nil)
	if err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.DefaultClient.Do(ready)
		if err == nil {
			return resp.Body.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("trytond did not answer within %s: %w", startUp, err)
		}
	}
}

// freePort returns an address that nobody listens on.
func freePort() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
