package state

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

var secretText = cmp.Transformer("exposed", func(s connector.Secret) string { return s.Expose() })

func (d *desk) consent() Token {
	return Token{
		Connection: acme, Access: connector.NewSecret("access-1"), Refresh: connector.NewSecret("refresh-1"),
		ExpiresAt: d.Now().Add(time.Hour), RefreshedAt: d.Now(), ReconnectBy: d.Now().Add(60 * day), Tenant: "t1",
		TenantName: "Acme Ltd",
	}
}

func (d *desk) token() Token {
	d.t.Helper()
	got, err := d.Token(d.t.Context(), acme)
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

func (d *desk) lease(generation int64, holder string) (got bool) {
	d.t.Helper()
	d.do(func(tx *Tx) (err error) {
		got, err = tx.LeaseToken(acme, generation, holder)
		return err
	})
	return got
}

func TestTokenIsKeptSealedAndReadBackWhole(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it reads the files")
	d := newDesk(t)
	if _, err := d.Token(t.Context(), acme); !errors.Is(err, ErrNoToken) {
		t.Errorf("before the consent: %v", err)
	}
	want := d.consent()
	d.do(func(tx *Tx) error { return tx.ConnectToken(want) })
	want.Generation = 1
	if diff := cmp.Diff(want, d.token(), secretText); diff != "" {
		t.Errorf("token (-want +got):\n%s", diff)
	}
	for _, file := range []string{d.opts.Path, d.opts.Path + "-wal"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("access-1")) || bytes.Contains(text, []byte("refresh-1")) {
			t.Errorf("%s holds a token in the clear", file)
		}
	}
}

// covers F23, S14, L4
func TestOneRefresherAtATimeAndOnlyForTheNewestGeneration(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(func(tx *Tx) error { return tx.ConnectToken(d.consent()) })
	steps := []struct {
		name       string
		wait       time.Duration
		generation int64
		holder     string
		want       bool
	}{
		{"the first", 0, 1, "a", true},
		{"another", 0, 1, "b", false},
		{"the first again", 0, 1, "a", true},
		{"an older generation", 0, 0, "a", false},
		{"another, after the first fell silent", TokenLease, 1, "b", true},
		{"the first, back from the dead", 0, 1, "a", false},
		{"another, stamped a moment before the lease it waited for", -time.Second, 1, "c", false},
		{"after the clock was set back", -48 * time.Hour, 1, "c", true},
	}
	for _, s := range steps {
		d.clock.move(s.wait)
		if got := d.lease(s.generation, s.holder); got != s.want {
			t.Errorf("%s: got %t, want %t", s.name, got, s.want)
		}
	}
}

// covers S14
func TestNewerTokenIsNeverOverwrittenByAnOlderOne(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(func(tx *Tx) error { return tx.ConnectToken(d.consent()) })
	late := d.token()
	winner := late
	winner.Refresh, winner.Previous = connector.NewSecret("refresh-2"), late.Refresh
	d.do(func(tx *Tx) error { return tx.RenewToken(winner) })
	late.Refresh = connector.NewSecret("refresh-2b")
	if err := d.Do(t.Context(), func(tx *Tx) error { return tx.RenewToken(late) }); !errors.Is(err, ErrTokenMoved) {
		t.Errorf("saving a token of an older generation: %v", err)
	}
	if got := d.token(); got.Refresh.Expose() != "refresh-2" || got.Generation != 2 {
		t.Errorf("generation %d holds %q", got.Generation, got.Refresh.Expose())
	}
}

// covers F26, F29
func TestDelayAndBreakEndTheLeaseAndAConsentMendsBoth(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(func(tx *Tx) error { return tx.ConnectToken(d.consent()) })
	d.lease(1, "a")
	at := d.Now().Add(time.Minute)
	d.do(func(tx *Tx) error { return tx.DelayToken(acme, 1, at) })
	if got := d.token(); got.Failures != 1 || !got.RetryAt.Equal(at) || !d.lease(1, "b") {
		t.Errorf("after a failure: %d failures, next try %s", got.Failures, got.RetryAt)
	}
	d.do(func(tx *Tx) error { return tx.BreakToken(acme, 1, "consent was withdrawn") })
	if d.lease(1, "b") {
		t.Error("a broken token was leased")
	}
	rows, err := d.Consents(t.Context())
	if err != nil || len(rows) != 1 || rows[0].Broken == "" || rows[0].TenantName != "Acme Ltd" {
		t.Errorf("consents %+v, %v", rows, err)
	}
	d.do(func(tx *Tx) error { return tx.ConnectToken(d.consent()) })
	if got := d.token(); got.Broken != "" || got.Failures != 0 || !got.RetryAt.IsZero() || got.Generation != 2 {
		t.Errorf("after a new consent: %+v", got)
	}
}
