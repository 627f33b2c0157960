//go:build unix

package credentials_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/connector/credentials"
	"payersync/state"
)

// The environment by which a test starts itself as another process.
const (
	childRole   = "PAYERSYNC_TEST_CREDENTIALS"
	childLedger = "PAYERSYNC_TEST_CREDENTIALS_LEDGER"
	childServer = "PAYERSYNC_TEST_CREDENTIALS_SERVER"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := child(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child is the other process. A reader asks for a new token for every input line, and prints it. A victim is
// killed after the answer with its new tokens and before it saves them.
func child(role string) error {
	ledger, err := state.Open(context.Background(),
		state.Options{Path: os.Getenv(childLedger), KeyFile: os.Getenv(childLedger) + ".key"})
	if err != nil {
		return err
	}
	defer func() { _ = ledger.Close() }()
	p := provider(os.Getenv(childServer), time.Now)
	if role == "victim" {
		base, client := p.HTTP.Transport, *p.HTTP
		client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			_, _ = base.RoundTrip(r)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		})
		p.HTTP = &client
	}
	source := credentials.New(ledger, acme, p)
	last := ""
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		source.Refused(last)
		got, err := source.Token()
		if err != nil {
			return err
		}
		last = got.AccessToken
		fmt.Println(last)
	}
	return nil
}

// process is a child with its streams.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	err *strings.Builder
}

func (d *desk) process(role string) *process {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+role, childLedger+"="+d.path, childServer+"="+d.http.URL)
	p := &process{cmd: cmd, err: &strings.Builder{}}
	cmd.Stderr = p.err
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		d.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = p.in.Close(); _ = cmd.Wait() })
	return p
}

// rounds is how often the processes meet: the number in the environment, or a
// small default, a quarter of it under the race detector.
func rounds(t *testing.T) int {
	text := os.Getenv("PAYERSYNC_TOKEN_ROUNDS")
	switch {
	case text == "" && underRace:
		return 5
	case text == "":
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("PAYERSYNC_TOKEN_ROUNDS=%q is not a positive number", text)
	}
	return n
}

// Each round both processes, at the same moment, need another token than the
// last, from a server that revokes everything when a refresh token comes twice.
//
// covers F22, F23, S14
func TestTwoProcessesRenewEachGenerationOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.clock.move(time.Since(d.clock.now())) // children live by the system's clock
	d.consent()
	both := []*process{d.process("reader"), d.process("reader")}
	n := rounds(t)
	for round := range n {
		for _, p := range both {
			if _, err := fmt.Fprintln(p.in, "go"); err != nil {
				t.Fatalf("round %d: %v\n%s", round, err, p.err)
			}
		}
		var got []string
		for _, p := range both {
			if !p.out.Scan() {
				t.Fatalf("round %d: a process ended: %s", round, p.err)
			}
			got = append(got, p.out.Text())
		}
		if got[0] != got[1] || !d.vendor.Accepts(got[0]) {
			t.Fatalf("round %d: the processes have the tokens %s", round, got)
		}
	}
	most, used := d.vendor.MostUsed()
	if d.vendor.Revoked() > 0 || most != 1 || used != n-1 || d.vendor.Requests() != n-1 {
		t.Errorf("%d rounds: %d families revoked, %d refresh tokens used, the most used %d times, %d requests",
			n, d.vendor.Revoked(), used, most, d.vendor.Requests())
	}
	t.Logf("%d rounds of two processes: %d renewals, no refresh token used twice", n, used)
}

// covers F24, L4
func TestKilledBetweenAnswerAndSaveRecoversOrAsksForAPersonAndNeverLoops(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		grace time.Duration
	}{{"vendor with a grace window", 30 * time.Minute}, {"vendor without", 0}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.vendor.Grace = tt.grace
			d.clock.move(time.Since(d.clock.now()) - time.Hour)
			d.consent() // its access token has ended by the system's clock
			d.clock.move(time.Hour)
			victim := d.process("victim")
			_, _ = fmt.Fprintln(victim.in, "go")
			if victim.out.Scan() {
				t.Fatalf("the victim survived with %s", victim.out.Text())
			}
			d.requests(1)

			d.clock.move(state.TokenLease + time.Second)
			s := d.source()
			for range 5 {
				_, err := s.TokenContext(t.Context())
				var reconnect *credentials.ReconnectError
				if recovered := err == nil; recovered != (tt.grace > 0) || !recovered && !errors.As(err, &reconnect) {
					t.Fatalf("got %v", err)
				}
			}
			if got := d.vendor.Requests(); got > 3 {
				t.Errorf("the token endpoint had %d requests", got)
			}
		})
	}
}
