package state

import (
	"slices"
	"testing"
	"time"

	"payersync/connector"
)

// onAccounts is a server with accounts that have files and a key, and their ledgers.
func onAccounts(t *testing.T, names ...string) (*Server, map[string]*desk) {
	t.Helper()
	s, opts := aServer(t, 8)
	of := map[string]*desk{}
	for _, name := range names {
		applied(t, s, AccountChange{Name: name, Files: bundle(name)})
		clock := newClock()
		opts.Now = clock.now
		of[name] = &desk{Ledger: withItsKey(t, opts, name), t: t, clock: clock, opts: opts}
	}
	return s, of
}

func accountNames(rows []AccountInfo) (out []string) {
	for _, row := range rows {
		out = append(out, row.Name)
	}
	slices.Sort(out)
	return out
}

func TestAClaimedAccountIsGivenToOneNodeUntilItIsChanged(t *testing.T) {
	t.Parallel()
	s, _ := onAccounts(t, "acme", "beta")
	claim := func() []string {
		t.Helper()
		rows, err := s.ClaimAccounts(t.Context(), 9, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return accountNames(rows)
	}
	if got := claim(); !slices.Equal(got, []string{"acme", "beta"}) {
		t.Errorf("new accounts: %v", got)
	}
	if got := claim(); got != nil {
		t.Errorf("claimed twice: %v", got)
	}
	applied(t, s, AccountChange{Name: "beta", Over: 1, Files: bundle("other")})
	if got := claim(); !slices.Equal(got, []string{"beta"}) {
		t.Errorf("after a change: %v", got)
	}
}

func TestChangedAndSettledAccountsAreTouched(t *testing.T) {
	t.Parallel()
	s, _ := onAccounts(t, "acme", "beta")
	all, err := s.TouchedAccounts(t.Context(), time.Time{})
	if err != nil || !slices.Equal(accountNames(all), []string{"acme", "beta"}) {
		t.Fatalf("%v, %v", all, err)
	}
	mid := s.Now().Add(time.Hour)
	if none, err := s.TouchedAccounts(t.Context(), mid); err != nil || len(none) > 0 {
		t.Errorf("later: %v, %v", none, err)
	}
	acme := all[0]
	acme.PagesHost, acme.StopPath = "acme.example.com", "/stop/"
	if err := s.SettleAccount(t.Context(), acme); err != nil {
		t.Fatal(err)
	}
	got, err := s.AccountByID(t.Context(), acme.ID)
	if err != nil || got.Settled != acme.Version || got.PagesHost != acme.PagesHost || got.StopPath != acme.StopPath {
		t.Errorf("%+v, %v", got, err)
	}
	if again := applied(t, s,
		AccountChange{Name: "acme", Over: 1, Files: bundle("other")}); again.Settled == again.Version {
		t.Error("an account that was changed counts as settled")
	}
}

// A node that was killed between two statements has not hidden a delivery: the row of the account changes with it.
func TestDueDeliveriesOfAllAccountsAreFoundByTheirAccountsRow(t *testing.T) {
	t.Parallel()
	s, of := onAccounts(t, "acme", "beta", "gamma")
	due := func() []int64 {
		t.Helper()
		out, err := s.DueAccounts(t.Context(), 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	acme := of["acme"]
	acme.receive(delivery("k1", "b1"))
	if got := due(); !slices.Equal(got, []int64{acme.AccountID()}) {
		t.Errorf("due are %v", got)
	}
	if _, err := s.SetState(t.Context(), "acme", AccountPaused, amy); err != nil {
		t.Fatal(err)
	}
	if got := due(); got != nil {
		t.Errorf("of a paused account: %v", got)
	}
	if _, err := s.SetState(t.Context(), "acme", AccountActive, amy); err != nil {
		t.Fatal(err)
	}
	open, err := acme.OpenDeliveries(t.Context(), 2*time.Second, 9)
	if err != nil || len(open) != 1 {
		t.Fatalf("%v, %v", open, err)
	}
	if err := acme.Do(t.Context(), func(tx *Tx) error {
		return tx.PostponeDeliveries(open[0], connector.InboxParked, s.Now().Sub(acme.Now())+30*time.Minute)
	}); err != nil {
		t.Fatal(err)
	}
	if got := due(); got != nil {
		t.Errorf("before its time: %v", got)
	}
	at := rowsOf(t, acme.reader, "SELECT coalesce(due_at, 'none') FROM accounts ORDER BY name")
	if at[0] <= stampText(s.Now()) || at[1] != "none" || at[2] != "none" {
		t.Errorf("due at %q", at)
	}
}

func TestASummaryIsStaleOnceItsLedgerWasWrittenToOrItsAccountChanged(t *testing.T) {
	t.Parallel()
	s, of := onAccounts(t, "acme", "beta")
	acme, beta := of["acme"].AccountID(), of["beta"].AccountID()
	stale := func(account int64) bool {
		t.Helper()
		all, err := s.Summaries(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		return all[account].Stale
	}
	look := func(account int64, needs bool) {
		t.Helper()
		if err := s.NoteSummary(t.Context(),
			AccountSummary{Account: account, LookedAt: s.Now(), NextLook: s.Now().Add(time.Hour), Needs: needs,
				Text: "{}"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"acme", "beta"} {
		info, err := s.Account(t.Context(), name)
		if err != nil || !stale(info.ID) {
			t.Errorf("%s was never looked at, and is not stale (%v)", name, err)
		}
		if err := s.SettleAccount(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		look(info.ID, name == "beta")
	}
	if stale(acme) || stale(beta) {
		t.Error("stale right after a look")
	}
	if some, err := s.Summaries(t.Context(), true); err != nil || len(some) != 1 || !some[beta].Needs {
		t.Errorf("those at which somebody should look: %v, %v", some, err)
	}
	if err := of["acme"].Do(t.Context(), note("bo")); err != nil {
		t.Fatal(err)
	}
	if err := of["acme"].Close(); err != nil { // what came within seconds after the first write is said here
		t.Fatal(err)
	}
	if !stale(acme) || stale(beta) {
		t.Errorf("after a write: %t, %t", stale(acme), stale(beta))
	}
	applied(t, s, AccountChange{Name: "beta", Over: 1, Files: bundle("other")})
	if !stale(beta) {
		t.Error("not stale after a change of its files")
	}
}
