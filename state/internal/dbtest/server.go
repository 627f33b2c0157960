package dbtest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// running is the server of this test binary.
type running struct {
	dir  string
	port int
	tied *os.File // the server ends, and its folder goes, when nobody has it open any more
}

// server starts the server with the first database that is asked for.
var server = sync.OnceValues(start)

// dsn is the address of a database for its owner role; the role makes the only difference.
func (s *running) dsn(database string) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=ledger dbname=%s sslmode=disable", s.port, database)
}

// manage runs a statement as the server's own role.
func (s *running) manage(statement string) error {
	return ExecuteAt(fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=disable", s.port),
		statement)
}

// serve sets the server up, reports when it answers, and stops it after any end of the test binary.
// It has an alphabet's order of texts and not that of bytes, as servers of others have.
const serve = `
PATH="$PATH:$3"
cd "$1" || exit 1
initdb -D data -A trust -U postgres -E UTF8 --locale=C.UTF-8 --locale-provider=icu --icu-locale=en --no-sync >log 2>&1 || { cat log; exit 1; }
timeout --kill-after=5 14400 postgres -D data -p "$2" -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
	-c fsync=off -c full_page_writes=off -c max_connections=400 -c shared_buffers=64MB -c autovacuum=off >>log 2>&1 &
server=$!
until pg_isready -q -h 127.0.0.1 -p "$2"; do
	kill -0 $server 2>/dev/null || { cat log; exit 1; }
	sleep 0.05
done
echo ready
cat >/dev/null
kill -INT $server
wait $server
cd / && rm -rf "$1"
`

// takenPorts is the number of ports that a start tries anew.
const takenPorts = 3

// start sets the server of this test binary up.
func start() (*running, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	run, err := begin(serve, port)
	for range takenPorts { // another test may have taken the port in between
		if err == nil || !strings.Contains(err.Error(), "Address already in use") {
			break
		}
		if port, err = freePort(); err == nil {
			run, err = begin(serve, port)
		}
	}
	if err != nil {
		return nil, err
	}
	s := &running{dir: run.dir, port: port, tied: run.tell}
	return s, s.manage("CREATE ROLE ledger LOGIN")
}

// script is one that runs: it ends, and its folder goes, when nobody has tell open any more.
type script struct {
	dir  string
	tell *os.File
	said *bufio.Scanner
}

// begin runs a script with a new folder, ports, and the folder of the server's programs, until it says
// "ready".
func begin(text string, ports ...int) (*script, error) {
	initdb, found := lookUp("initdb")
	if !found {
		return nil, fmt.Errorf("start a PostgreSQL for tests: %w", ErrMissing)
	}
	dir, err := os.MkdirTemp("", "payersync-dbtest-")
	if err != nil {
		return nil, err
	}
	args := []string{"-c", text, "serve", dir}
	for _, port := range ports {
		args = append(args, strconv.Itoa(port))
	}
	// it ends with the test binary
	cmd := exec.CommandContext(context.Background(), "sh", append(args, filepath.Dir(initdb))...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 { // a database server refuses to run as root
		uid, gid, err := nobody()
		if err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			return nil, err
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	input, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	said, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout = input, output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, _ = input.Close(), output.Close()
	s := &script{dir, tell, bufio.NewScanner(said)}
	return s, s.await("ready")
}

// await waits until the script says a word, and for no time: a test may have a clock of its own.
func (s *script) await(word string) error {
	text := ""
	for s.said.Scan() {
		if s.said.Text() == word {
			return nil
		}
		text += s.said.Text() + "\n"
	}
	return fmt.Errorf("PostgreSQL did not come to %q:\n%s", word, text)
}

// lookUp finds a program also where Debian keeps servers.
func lookUp(program string) (string, bool) {
	if path, err := exec.LookPath(program); err == nil {
		return path, true
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program); len(found) > 0 {
		return slices.Max(found), true
	}
	return "", false
}

func nobody() (uid, gid uint32, err error) {
	account, err := user.Lookup("nobody")
	if err != nil {
		return 0, 0, err
	}
	u, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return 0, 0, err
	}
	g, err := strconv.ParseUint(account.Gid, 10, 32)
	return uint32(u), uint32(g), err
}

func freePort() (int, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
