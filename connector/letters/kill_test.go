package letters_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/letters"
	post "payersync/connector/mail"
	"payersync/connector/outbox"
	"payersync/internal/longtest"
	"payersync/state"
	"payersync/state/statetest"
)

var kills = longtest.Int("kills", 2, 12, "how often a process is killed while it sends letters")

// killed configures a child of this test: the path of the ledger, the address of the mail server, the time,
// and the point of its death or nothing.
const killed = "PAYERSYNC_TEST_LETTERS"

func TestMain(m *testing.M) {
	if how := os.Getenv(killed); how != "" {
		if err := sendAndDie(strings.Split(how, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// always is a billing service that shows what the ledger knows: the child has none.
type always struct{ ledger *state.Ledger }

func (a always) Read(ctx context.Context, billingID string, _ connector.Cause, _ string) (*connector.RemoteCustomer,
	error) {
	var c *connector.RemoteCustomer
	err := a.ledger.EachReadiness(ctx, "", func(s state.ReadinessFacts) error {
		if s.BillingID == billingID {
			c = &connector.RemoteCustomer{ID: billingID, Emails: []string{s.Label.Email}, ExternalData: s.Key.Pairs(),
				Mandate: &connector.Mandate{ID: s.Mandate.ID, Status: s.Mandate.Status}}
		}
		return nil
	})
	return c, err
}

// sendAndDie sends letters as a process of its own does.
func sendAndDie(how []string) error {
	path, server, at := how[0], how[1], how[3]
	now, err := time.Parse(time.RFC3339, how[2])
	if err != nil {
		return err
	}
	if len(how) > 4 { // a node among several
		statetest.UseServer(path, how[6])
	}
	l, err := state.Open(context.Background(),
		state.Options{Path: path, KeyFile: path + ".key", Now: func() time.Time { return now }})
	if err != nil {
		return err
	}
	d := &letters.Desk{
		Ledger: l, Reader: always{l}, Settings: letterSettings(path, &post.Server{Addr: server, TLS: post.NoTLS}),
		Wait: func(context.Context, time.Duration) error { return nil },
		Step: func(p letters.Point) error {
			if string(p) == at {
				select {} // until it is killed
			}
			return nil
		},
	}
	if len(how) > 4 {
		d.Settings.Node, d.Settings.Journal = how[4], how[5]
	}
	_, err = d.Run(context.Background())
	return errors.Join(err, l.Close())
}

// Processes are killed while they send, at every step and at any moment: the mail server never
// has a letter twice, and one that it may not have is shown.
//
// covers F137
func TestAKilledProcessSendsNothingTwice(t *testing.T) {
	t.Parallel()
	const payers = 6
	points := []letters.Point{letters.Looked, letters.Frozen, outbox.Begun, outbox.Ready, outbox.Posted, outbox.Ended, ""}
	random := rand.New(rand.NewPCG(1, uint64(kills())))
	for n := range kills() {
		at := points[n%len(points)]
		t.Run(fmt.Sprintf("%d %s", n, at), func(t *testing.T) {
			w := newWorld(t)
			w.payers(payers)
			w.send()
			w.approve()
			if err := w.ledger.Close(); err != nil {
				t.Fatal(err)
			}
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(),
				killed+"="+strings.Join([]string{w.path, w.box.Address, w.clock().Format(time.RFC3339), string(at)}, "|"))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			wait := time.Duration(100+random.IntN(300)) * time.Millisecond
			if at == "" {
				wait /= 2
			}
			timer := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait() // killed, or done where the time was too long
			timer.Stop()
			w.open()
			w.send()
			w.days(1)
			w.noDoubles()
			came := len(w.box.Received())
			unclear := 0
			for i := range payers {
				for _, l := range w.letter(fmt.Sprintf("c%03d", i)) {
					if l.State == state.MessageUnclear {
						unclear++
					} else if l.State != state.MessageSent {
						t.Errorf("a letter is %s: %s", l.State, l.Answer)
					}
				}
			}
			t.Logf("%d came, %d are unclear", came, unclear)
			if came > payers || came+unclear < payers || unclear > 1 {
				t.Errorf("%d letters came of %d, and %d are unclear", came, payers, unclear)
			}
		})
	}
}
