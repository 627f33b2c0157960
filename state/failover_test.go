package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payersync/state/internal/dbtest"
)

// aPair is an account's ledger on a server whose commits wait for a standby.
func aPair(t *testing.T) (*dbtest.StandbyPair, *desk) {
	t.Helper()
	if !dbtest.OnPostgres() {
		t.Skip("on PostgreSQL only: run with -engine postgres")
	}
	pair, err := dbtest.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pair.Close() })
	dsn, err := pair.New()
	if err != nil {
		t.Fatal(err)
	}
	opts := newOptions(t, newClock())
	if opts.Server, err = OpenServer(t.Context(), ServerOptions{Address: dsn, KeyEncryptionKey: kekOf(1)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opts.Server.Close)
	return pair, ofAccountNamed(t, opts, "acme")
}

// patiently polls until it is so.
func patiently(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A commit that no longer waits for a standby is done, says the server, and warns; a failover would lose it.
//
// covers F190
func TestACommitCountsWhenAStandbyHasIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		back bool
		want error
	}{
		{"the standby comes back", true, nil},
		{"the standby stays away", false, ErrOutcomeUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pair, d := aPair(t)
			must(t, pair.Away())
			short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := d.opts.Server.Ping(short); err == nil {
				t.Error("the database is said to take writes")
			}
			wrote := make(chan error, 1)
			go func() { wrote <- d.Do(t.Context(), note("without a standby")) }()
			const waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'"
			patiently(t, "the commit", func() bool { return len(rowsOf(t, d.reader, "SELECT 1 "+waiting)) > 0 })
			must(t, pair.Manage("SELECT pg_cancel_backend(pid) "+waiting))
			if tt.back {
				must(t, pair.Back())
			}
			if err := <-wrote; !errors.Is(err, tt.want) {
				t.Errorf("it ended with %v, want %v", err, tt.want)
			}
		})
	}
}

// What is changed of accounts is as durable as what is written to their ledgers, or it is said that nobody knows.
//
// covers F190
func TestAChangeOfAnAccountCountsWhenAStandbyHasIt(t *testing.T) {
	t.Parallel()
	by := Entry{Actor: "ada", Reason: "a test"}
	files := map[string][]byte{"account.yaml": []byte("a: 1\n")}
	changes := map[string]func(context.Context, *Server) error{
		"a new account": func(ctx context.Context, s *Server) error {
			return endOf(s.Apply(ctx, AccountChange{Name: "beta", Files: files, By: by}))
		},
		"other files": func(ctx context.Context, s *Server) error {
			return endOf(s.Apply(ctx, AccountChange{Name: "gamma", Over: 1, Files: files, By: by}))
		},
		"a pause": func(ctx context.Context,
			s *Server) error {
			return endOf(s.SetState(ctx, "acme", AccountPaused, by))
		},
		"another wrapping": func(ctx context.Context, s *Server) error { _, err := s.Rewrap(ctx, kekOf(2)); return err },
	}
	for _, back := range []bool{true, false} {
		t.Run(fmt.Sprint("the standby comes back: ", back), func(t *testing.T) {
			t.Parallel()
			pair, d := aPair(t)
			s := d.opts.Server
			must(t, endOf(s.Apply(t.Context(),
				AccountChange{Name: "gamma", Files: map[string][]byte{"account.yaml": []byte("a: 0\n")}, By: by})))
			must(t, pair.Away())
			const waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'commit'"
			type end struct {
				name string
				err  error
			}
			ended := make(chan end, len(changes))
			for _, name := range []string{"a new account", "other files", "a pause", "another wrapping"} {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { ended <- end{name, changes[name](ctx, s)} }()
				patiently(t, "the commit of "+name, func() bool { return len(rowsOf(t, d.reader, "SELECT 1 "+waiting)) > 0 })
				cancel() // whoever gives up learns what became of it all the same
				must(t, pair.Manage("SELECT pg_cancel_backend(pid) "+waiting))
				patiently(t, "the warning", func() bool { return len(rowsOf(t, d.reader, "SELECT 1 "+waiting)) == 0 })
			}
			if back {
				must(t, pair.Back())
			}
			for range changes {
				if e := <-ended; !back && !errors.Is(e.err, ErrOutcomeUnknown) || back && e.err != nil {
					t.Errorf("%s ended with %v", e.name, e.err)
				}
			}
		})
	}
}

// endOf leaves out what an account is now.
func endOf(_ AccountInfo, err error) error { return err }

// Whatever was said to be written is there when the server is lost and its standby takes its place; the same
// process goes on.
//
// covers F190
func TestNothingThatWasWrittenIsLostWithTheServer(t *testing.T) {
	t.Parallel()
	pair, d := aPair(t)
	if alone, err := d.opts.Server.Alone(t.Context()); err != nil || alone {
		t.Errorf("the server is said to be alone: %v, %v", alone, err)
	}
	var (
		mu      sync.Mutex
		written []string
		unknown atomic.Int64
		writers sync.WaitGroup
	)
	over := make(chan struct{})
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(written)
	}
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				subject := fmt.Sprintf("%d-%d", w, i)
				switch err := d.Do(t.Context(), note(subject)); {
				case err == nil:
					mu.Lock()
					written = append(written, subject)
					mu.Unlock()
				case errors.Is(err, ErrOutcomeUnknown):
					unknown.Add(1)
				case !Unwritable(err):
					t.Errorf("%s ended with %v", subject, err)
				}
			}
		})
	}
	patiently(t, "some writes", func() bool { return count() > 200 })
	must(t, pair.Lose())
	before := count()
	must(t, pair.Promote())
	promoted := time.Now()
	patiently(t, "writes after the failover", func() bool { return count() > before+200 })
	t.Logf("%d were written before and 200 within %v after the failover; of %d it is not known", before,
		time.Since(promoted).Round(time.Millisecond), unknown.Load())
	close(over)
	writers.Wait()
	there := map[string]int{}
	patiently(t, "a reading by a connection that is not of before", func() bool {
		subjects, err := d.ids(t.Context(), "SELECT subject FROM audit WHERE action = 'note'")
		for _, subject := range subjects {
			there[subject]++
		}
		return err == nil
	})
	for _, subject := range written {
		if there[subject] != 1 {
			t.Errorf("%s was said to be written and is there %d times", subject, there[subject])
		}
	}
}
