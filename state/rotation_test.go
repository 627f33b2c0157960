package state

import (
	"slices"
	"testing"
	"time"

	"payersync/connector"
)

// turn is one rotation of a test, as it went.
type turn struct {
	key    string        // delivery key
	secret string        // that the service named; "" for none
	end    string        // done, refused, or "" where nobody came to say
	wait   time.Duration // before the next thing happens
}

func (d *desk) turn(t *testing.T, r turn) {
	t.Helper()
	d.do(func(tx *Tx) error {
		id, err := tx.BeginRotation(connector.NewSecret(r.key), 24*time.Hour, "tester")
		if err != nil {
			return err
		}
		if r.secret != "" {
			if err := tx.KeepSecret(id, connector.NewSecret(r.secret)); err != nil {
				return err
			}
		}
		switch r.end {
		case "done":
			return tx.EndRotation(id)
		case "refused":
			return tx.RefuseRotation(id)
		}
		return nil
	})
	d.clock.move(r.wait)
}

func exposed(secrets []connector.Secret) (out []string) {
	for _, s := range secrets {
		out = append(out, s.Expose())
	}
	return out
}

// covers F41
func TestWhatStoodBeforeARotationCountsUntilTheOverlapIsOver(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		name          string
		turns         []turn
		secrets, keys []string
		unknown, open bool
		until         time.Duration // from now; 0 for never
	}{
		{"none", nil, nil, nil, false, false, 0},
		{"the first", []turn{{"k1", "s1", "done", time.Hour}}, []string{"s1"}, []string{"k1"}, false, false, 0},
		{"a second within the overlap", []turn{{"k1", "s1", "done", 90 * day}, {"k2", "s2", "done", day - time.Minute}},
			[]string{"s2", "s1"}, []string{"k2", "k1"}, false, false, time.Minute},
		{"a second when the overlap is over", []turn{{"k1", "s1", "done", 90 * day}, {"k2", "s2", "done", day}},
			[]string{"s2"}, []string{"k2"}, false, false, 0},
		{"two within the overlap",
			[]turn{{"k1", "s1", "done", 90 * day}, {"k2", "s2", "done", time.Hour}, {"k3", "s3", "done", 0}},
			[]string{"s3", "s2", "s1"}, []string{"k3", "k2", "k1"}, false, false, 23 * time.Hour},
		{"one that nobody finished, long ago", []turn{{"k1", "s1", "done", 90 * day}, {"k2", "s2", "", 90 * day}},
			[]string{"s2", "s1"}, []string{"k2", "k1"}, false, true, 0},
		{"one that nobody finished, and a later one",
			[]turn{{"k1", "s1", "done", 90 * day}, {"k2", "s2", "", day}, {"k3", "s3", "done", 2 * day}},
			[]string{"s3"}, []string{"k3"}, false, false, 0},
		{"one without an answer", []turn{{"k1", "s1", "done", 90 * day}, {"k2", "", "", 90 * day}}, []string{"s1"},
			[]string{"k2", "k1"}, true, true, 0},
		{"one that was refused", []turn{{"k1", "s1", "done", 90 * day}, {"k2", "", "refused", 90 * day}}, []string{"s1"},
			[]string{"k2", "k1"}, false, false, 0},
		{"one without an answer, and a later one at once", []turn{{"", "", "", time.Minute}, {"", "s2", "done", time.Minute}},
			[]string{"s2"}, nil, true, false, 0},
		{"one without an answer, and a later one an hour ago",
			[]turn{{"", "", "", time.Minute}, {"", "s2", "done", time.Hour}}, []string{"s2"}, nil, false, false, 0},
		{"one that named no secret", []turn{{"", "s1", "done", 90 * day}, {"", "", "done", 90 * day}}, []string{"s1"}, nil,
			false, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			for _, r := range c.turns {
				d.turn(t, r)
			}
			k, err := d.WebhookKeys(t.Context(), day)
			if err != nil || !slices.Equal(exposed(k.Secrets), c.secrets) || !slices.Equal(exposed(k.DeliveryKeys), c.keys) {
				t.Errorf("secrets %v, delivery keys %v (%v)", exposed(k.Secrets), exposed(k.DeliveryKeys), err)
			}
			if open, err := d.OpenRotation(t.Context()); k.Unknown != c.unknown || (open != Rotation{}) != c.open || err != nil {
				t.Errorf("an unknown secret %v, and open is %+v (%v)", k.Unknown, open, err)
			}
			if until := k.Until.Sub(d.Now()); until != c.until && !(c.until == 0 && k.Until.IsZero()) {
				t.Errorf("until %v, which is in %v", k.Until, until)
			}
		})
	}
}

// An expired secret does not stay for a thief of the ledger.
func TestTheNextRotationDropsWhatCountsNoMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, r := range []turn{{"k1", "s1", "done", time.Hour}, {"k2", "s2", "done", 25 * time.Hour},
		{"k3", "s3", "done", time.Hour}} {
		d.turn(t, r)
	}
	if n := one[int](t, d.Ledger,
		"SELECT count(*) FROM webhook_rotations WHERE secret IS NOT NULL AND delivery_key IS NOT NULL"); n != 2 {
		t.Errorf("%d rotations still have their keys", n)
	}
	if k, err := d.WebhookKeys(t.Context(), 24*time.Hour); err != nil ||
		!slices.Equal(exposed(k.Secrets), []string{"s3", "s2"}) {
		t.Errorf("secrets %v (%v)", exposed(k.Secrets), err)
	}
}

// A ledger that was put back does not know which secret the service has named since its copy was
// made: what fits none is asked for again, and not refused, until one is named anew.
//
// covers F41, F64
func TestALedgerThatWasPutBackDoesNotKnowTheSecret(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		named       turn
		doubt, then bool // that the secret is not known: when it was put back, and after a try that was refused
	}{
		{"the service names secrets", turn{"", "s1", "done", time.Hour}, true, true},
		{"it has never named one", turn{"", "", "done", time.Hour}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			unknown := func(when string, want bool) {
				t.Helper()
				k, err := d.WebhookKeys(t.Context(), 24*time.Hour)
				if at, err2 := d.SecretDoubted(t.Context()); k.Unknown != want || at.IsZero() == want || err != nil || err2 != nil {
					t.Errorf("%s: unknown is %v since %v, want %v (%v, %v)", when, k.Unknown, at, want, err, err2)
				}
			}
			d.turn(t, c.named)
			unknown("before", false)
			d.do(func(tx *Tx) error { return tx.MarkRestored() })
			unknown("put back", c.doubt)
			d.clock.move(time.Hour)
			d.turn(t, turn{"", "", "refused", time.Hour})
			unknown("refused", c.then)
			d.turn(t, turn{"", "s2", "done", time.Hour})
			unknown("named anew", false)
		})
	}
}

func TestOfTwoThatAskForASecretAtOnceOneIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first, err := d.TryRotation()
	if err != nil || first == nil {
		t.Fatalf("the first has %v, %v", first, err)
	}
	if second, err := d.TryRotation(); err != nil || second != nil {
		t.Errorf("the second has %v, %v", second, err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := d.TryRotation()
	if err != nil || again == nil {
		t.Errorf("afterwards there is %v, %v", again, err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}
