//go:build unix

package state

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"payersync/connector"
	"payersync/internal/longtest"
)

// The environment by which a test starts its own binary as another process.
const (
	childRole = "PAYERSYNC_STATE_CHILD"
	childPath = "PAYERSYNC_STATE_PATH"
	childKey  = "PAYERSYNC_STATE_KEY"
	childArg  = "PAYERSYNC_STATE_ARG"
)

// roles are what the test binary does as a child.
var roles = map[string]func(opts Options, arg string) error{
	"umask": umaskChild,
	"write": writeChild,
	"start": startChild,

	"halfway": halfwayChild,
	"restore": restoreChild,
}

func TestMain(m *testing.M) {
	role, asked := roles[os.Getenv(childRole)]
	if !asked {
		os.Exit(m.Run())
	}
	opts := Options{Path: os.Getenv(childPath), KeyFile: os.Getenv(childKey)}
	if err := role(opts, os.Getenv(childArg)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is the test binary in a role on a ledger's file, not started yet.
func child(t *testing.T, role string, opts Options, arg string) *exec.Cmd {
	t.Helper()
	onlyOnSQLite(t, "another process opens the file")
	return process(t, role, opts, arg)
}

// process is the test binary in a role, not started yet.
func process(t *testing.T, role string, opts Options, arg string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childRole+"="+role, childPath+"="+opts.Path, childKey+"="+opts.KeyFile,
		childArg+"="+arg)
	return cmd
}

// times returns how often a long test repeats itself: the number in the
// environment, or a small default, a tenth of it under the race detector.
func times(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" && underRace {
		return max(1, usual/10)
	}
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a positive number", name, text)
	}
	return n
}

// covers F96
func TestOpenMakesFilesForTheirOwnerAloneUnderAnyUmask(t *testing.T) {
	t.Parallel()
	for _, mask := range []string{"000", "022", "077"} {
		t.Run(mask, func(t *testing.T) {
			t.Parallel()
			if out, err := child(t, "umask", newOptions(t, newClock()), mask).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// umaskChild makes a key and a ledger under a umask and looks at every file it
// leaves.
func umaskChild(opts Options, mask string) error {
	bits, err := strconv.ParseInt(mask, 8, 32)
	if err != nil {
		return err
	}
	syscall.Umask(int(bits))
	opts.KeyFile += ".new"
	if err := CreateKey(opts.KeyFile); err != nil {
		return err
	}
	l, err := Open(context.Background(), opts)
	if err != nil {
		return err
	}
	if err := l.Ping(context.Background()); err != nil {
		return err
	}
	for _, file := range []string{opts.Path, opts.Path + "-wal", opts.Path + "-shm", opts.KeyFile} {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if got := info.Mode().Perm(); got != 0o600 {
			return fmt.Errorf("%s has mode %04o, want 0600", filepath.Base(file), got)
		}
	}
	return l.Close()
}

// killWriters is how many goroutines write when the process is killed.
const killWriters = 24

// writeChild stores deliveries, each with an audit entry that names it, and says
// each key on its output once it was acknowledged. It never ends by itself.
func writeChild(opts Options, round string) error {
	l, err := Open(context.Background(), opts)
	if err != nil {
		return err
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for w := range killWriters {
		wg.Go(func() {
			for n := 0; ; n++ {
				key := fmt.Sprintf("%s-%d-%d", round, w, n)
				if err := l.Do(context.Background(), func(tx *Tx) error { return storePair(tx, key) }); err != nil {
					return
				}
				out.Lock()
				_, err := fmt.Println(key)
				out.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.New("the writers stopped by themselves")
}

func storePair(tx *Tx, key string) error {
	if _, err := tx.Receive(Delivery{Key: key, Type: "dd-mandate", BillingID: "c1", Body: []byte(key),
		State: connector.InboxReceived}); err != nil {
		return err
	}
	return tx.Audit(Entry{Actor: "test", Action: "receive", Subject: key, Reason: "kill test"})
}

// A process killed at any moment loses no acknowledged write, and leaves none by half. PAYERSYNC_STATE_KILLS
// sets the number of kills.
//
// covers F39, F67, F68, S10, S16
func TestKilledProcessLosesNothingItAcknowledged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	const seed = 20260302
	random := rand.New(rand.NewPCG(seed, 0))
	acknowledged := map[string]bool{}
	for round := range times(t, "PAYERSYNC_STATE_KILLS", longtest.Number(1, 5)) {
		killWriter(t, d.opts, strconv.Itoa(round), 5+random.IntN(300), acknowledged)
		checkPairs(t, d, acknowledged)
	}
	t.Logf("seed %d: %d writes were acknowledged", seed, len(acknowledged))
}

// killWriter runs a writing process and kills it a moment after so many
// acknowledgements, while others are under way.
func killWriter(t *testing.T, opts Options, round string, after int, acknowledged map[string]bool) {
	t.Helper()
	cmd := child(t, "write", opts, round)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	for n := 0; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // the end; a line cut short was not acknowledged
		}
		acknowledged[strings.TrimSuffix(line, "\n")] = true
		if n == after {
			_ = cmd.Process.Kill()
		}
	}
	if err := cmd.Wait(); err == nil || said.Len() > 0 {
		t.Fatalf("the writing process ended with %v and said %q, want a kill", err, said.String())
	}
}

// checkPairs opens the ledger that a killed process left.
func checkPairs(t *testing.T, d *desk, acknowledged map[string]bool) {
	t.Helper()
	l, err := Open(t.Context(), d.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := l.Integrity(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := l.Inbox(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool, len(rows))
	for _, r := range rows {
		there[r.DeliveryKey] = true
	}
	for key := range acknowledged {
		if !there[key] {
			t.Fatalf("write %s was acknowledged and is not there", key)
		}
	}
	if alone := one[int](t, l, `SELECT (SELECT count(*) FROM inbox WHERE delivery_key NOT IN (SELECT subject FROM audit))
		+ (SELECT count(*) FROM audit WHERE subject NOT IN (SELECT delivery_key FROM inbox))`); alone != 0 {
		t.Fatalf("%d writes were kept in half", alone)
	}
}

// startChild opens a ledger, which makes it when it is new, and waits.
func startChild(opts Options, _ string) error {
	if _, err := Open(context.Background(), opts); err != nil {
		return err
	}
	fmt.Println("open")
	select {}
}

// A process that is killed while it makes a new ledger leaves one that the next
// process takes up.
//
// covers F70
func TestKilledFirstStartIsTakenUp(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	const seed = 20260303
	random := rand.New(rand.NewPCG(seed, 0))
	for range times(t, "PAYERSYNC_STATE_KILLS", longtest.Number(1, 5)) {
		opts := newOptions(t, newClock())
		cmd := child(t, "start", opts, "")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		fuse := time.AfterFunc(time.Duration(random.IntN(60_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		fuse.Stop()
		l, err := Open(t.Context(), opts)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := errors.Join(l.Integrity(t.Context()), l.Close()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
