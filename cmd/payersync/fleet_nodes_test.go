package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// relay stands between nodes and their database, and can stand still.
type relay struct {
	address string
	mu      sync.Mutex
	stands  chan struct{} // closed when it goes on; nil while it does
}

// through puts a relay before the cluster's database.
func (c *cluster) through() *relay {
	c.t.Helper()
	to, err := pgx.ParseConfig(c.read("database"))
	if err != nil {
		c.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = listener.Close() })
	r := &relay{address: listener.Addr().String()}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			way, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
			if err != nil {
				_ = from.Close()
				continue
			}
			go r.carry(way, from)
			go r.carry(from, way)
		}
	}()
	c.write("database", fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", to.User, r.address, to.Database))
	return r
}

func (r *relay) carry(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		r.mu.Lock()
		stands := r.stands
		r.mu.Unlock()
		if stands != nil {
			<-stands
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// stand lets nothing through until what it returns is called.
func (r *relay) stand() (goOn func()) {
	stands := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stands = stands
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stands = nil
		close(stands)
	}
}

func (c *cluster) read(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// exec runs a statement on the cluster's database, as an operator could.
func (c *cluster) exec(statement string, args ...any) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.read("database"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(c.t.Context(), statement, args...); err != nil {
		c.t.Fatal(err)
	}
}

// page returns what a node answers on a page of its health.
func (c *cluster) page(node int, path string) (status int, body string) {
	c.t.Helper()
	resp, err := client.Get("http://" + c.hooks[node] + path)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// spoil keeps an account from being opened, or lets it be opened again.
func (c *cluster) spoil(name string, spoilt bool) {
	c.t.Helper()
	c.exec("UPDATE main.accounts SET wrapped_key = set_byte(wrapped_key, 0, 255 - get_byte(wrapped_key, 0)) WHERE name = $1", name)
	if !spoilt {
		c.exec("UPDATE main.accounts SET version = version + 1 WHERE name = $1", name)
	}
}

// Whoever asks a node whether it is ready is answered soon, also while its database hangs, and learns no
// account's name.
func TestANodeSaysWhetherItIsReadyAlsoWhileItsDatabaseHangs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, map[string]int{"acme": 1, "beta": 1})
	c.apply()
	c.spoil("beta", true)
	r := c.through()
	p := c.serve(0)
	degraded := `{"state":"degraded","degraded":["accounts_not_open"],"accounts":{"open":1,"not_open":1}}`
	eventually(t, "readiness", func() bool {
		status, body := c.page(0, "/readyz")
		return status == http.StatusOK && strings.TrimSpace(body) == degraded
	})
	goOn := r.stand()
	eventually(t, "a no", func() bool {
		began := time.Now()
		status, body := c.page(0, "/readyz")
		if took := time.Since(began); took > 3*answersWithin || strings.Contains(body, "acme") {
			t.Errorf("it answers after %v: %s", took, body)
		}
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"state":"failing","reason":"the ledgers' database does not answer`)
	})
	if status, _ := c.page(0, "/healthz"); status != http.StatusOK {
		t.Errorf("the process is alive, and it answers %d", status)
	}
	goOn()
	eventually(t, "readiness again", func() bool { status, _ := c.page(0, "/readyz"); return status == http.StatusOK })
	p.signal(syscall.SIGTERM)
	p.wait()
}
