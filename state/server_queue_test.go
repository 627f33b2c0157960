package state

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The queue's information on deliveries equals a drain's.
func TestAccountsWithDeliveriesThatAreDueAreKnownFromOutside(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 8)
	clock := newClock()
	opts.Now = clock.now
	for _, name := range []string{"acme", "beta"} {
		applied(t, s, AccountChange{Name: name, Files: bundle(name)})
	}
	with, without := &desk{Ledger: withItsKey(t, opts, "acme"), t: t, clock: clock},
		&desk{Ledger: withItsKey(t, opts, "beta"), t: t, clock: clock}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	const gap = 2 * time.Second
	accounts := []int64{with.AccountID(), without.AccountID()}
	if due, err := s.DueAccounts(t.Context(), gap); len(due) > 0 || err != nil {
		t.Errorf("before any came: %v, %v", due, err)
	}
	with.receive(delivery("k1", "b1"))
	if due, err := s.DueAccounts(t.Context(), gap); !slices.Equal(due, accounts[:1]) || err != nil {
		t.Errorf("due are %v of %v, %v", due, accounts, err)
	}
	pool, err := s.Pool(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for i, account := range accounts {
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			has, err := s.HasDeliveries(t.Context(), tx, account, gap)
			if has != (i == 0) {
				t.Errorf("account %d has deliveries: %t", account, has)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
