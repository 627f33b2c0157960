//go:build unix

package state

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a server of this test waits for a process in a transaction; the product's waits for ten seconds.
const patience = "4s"

// halfwayChild writes the half of a write of acme, says so, and writes the other half when it is told to.
func halfwayChild(opts Options, address string) (err error) {
	postgresSettings["idle_in_transaction_session_timeout"] = patience
	if opts.Server, err = OpenServer(context.Background(),
		ServerOptions{Address: address, Connections: 4, KeyEncryptionKey: kekOf(1)}); err != nil {
		return err
	}
	defer opts.Server.Close()
	opts.Account = acme
	l, err := Open(context.Background(), opts)
	if err != nil {
		return err
	}
	err = l.Do(context.Background(), func(tx *Tx) error {
		if err := note("the first half")(tx); err != nil {
			return err
		}
		fmt.Println("inside")
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return err
		}
		return note("the second half")(tx)
	})
	if !errors.Is(err, ErrConnectionLost) {
		return fmt.Errorf("the write, which lost its connection: %w", cmp.Or(err, errors.New("it was made")))
	}
	return l.Close()
}

// A process that stands still in a transaction keeps its account waiting for a time, and no other account at all. When it
// goes on it learns that its connection is lost, and nothing of its write is kept.
//
// covers F199
func TestAProcessPausedInATransactionKeepsItsAccountForATime(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 8)
	acmes, betas := ofAccountNamed(t, opts, acme), ofAccountNamed(t, opts, "beta")
	cmd := process(t, "halfway", opts, s.write.Config().ConnString())
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "inside\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	betas.do(note("meanwhile"))
	if n := one[int](t, betas.Ledger,
		"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"); n != 1 {
		t.Errorf("when another account had written, %d sessions stood still, want the one", n)
	}
	acmes.do(note("after it"))
	if waited := time.Since(stopped); waited > 15*time.Second {
		t.Errorf("its account waited for %s", waited)
	}
	_, err = fmt.Fprintln(input)
	if err := errors.Join(err, cmd.Process.Signal(syscall.SIGCONT)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
	if got := rowsOf(t, acmes.reader, "SELECT subject FROM audit WHERE action = 'note'"); len(got) != 1 ||
		got[0] != "after it" {
		t.Errorf("kept are %q", got)
	}
}
