package credentials_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/credentials"
	"payersync/connector/credentials/credentialstest"
	"payersync/state"
	"slices"
)

// covers F21
func TestTokenIsRenewedBeforeItsEndAndOnlyThen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.consent()
	s := d.source()
	first := d.token(s)
	d.clock.move(28 * time.Minute)
	if got := d.token(s); got != first {
		t.Errorf("a token with two minutes to go was replaced by %s", got)
	}
	d.requests(0)
	d.clock.move(61 * time.Second)
	second := d.token(s)
	if second == first {
		t.Error("a token in its last minute was not renewed")
	}
	d.requests(1)
	if got := d.stored(); got.Generation != 2 || got.Access.Expose() != second || got.Failures != 0 {
		t.Errorf("the ledger holds generation %d with %s", got.Generation, got.Access.Expose())
	}
	if got, want := d.stored().ReconnectBy, d.clock.now().Add(60*24*time.Hour); !got.Equal(want) {
		t.Errorf("reconnect by %s, want %s", got, want)
	}
}

// covers F21
func TestExpiresInIsBelievedWhateverItSays(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		life     any
		requests int // of three calls within a second
	}{
		{"half an hour", 1800, 1},
		{"half an hour as text", "1800", 1},
		{"a second", 1, 3},
		{"none", 0, 3},
		{"negative", -5, 3},
		{"missing", nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.consent()
			d.clock.move(time.Hour)
			d.vendor.Life = tt.life
			s := d.source()
			for range 3 {
				d.token(s)
				d.clock.move(800 * time.Millisecond)
			}
			d.requests(tt.requests)
		})
	}
}

// covers F21
func TestRefusedTokenIsReplacedOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.consent()
	s := d.source()
	first := d.token(s)
	s.Refused(first)
	second := d.token(s)
	s.Refused(first) // another request that was on its way with the old one
	if third := d.token(s); second == first || third != second {
		t.Errorf("tokens %s, %s, %s", first, second, third)
	}
	d.requests(1)
}

// covers F22, S14
func TestManyCallersRenewOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.consent()
	d.clock.move(time.Hour)
	one, other := d.source(), credentials.New(d.open(), acme, d.provider()) // as two processes would
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() { d.token([]*credentials.Source{one, other}[i%2]) })
	}
	wg.Wait()
	d.requests(1)
}

func TestWithoutConsentTheErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := d.source().Token()
	var reconnect *credentials.ReconnectError
	if !errors.As(err, &reconnect) ||
		!slices.Equal(connector.StepsOf(err), []connector.Step{{Do: connector.DoConnect, Connection: "acme"}}) {
		t.Errorf("got %v", err)
	}
}

// covers F24, F29, L4
func TestInvalidGrantAsksForAPersonAfterOneMoreTryAndNeverLoops(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.consent()
	d.clock.move(time.Hour)
	d.vendor.Withdraw()
	s := d.source()
	for range 5 {
		_, err := s.TokenContext(t.Context())
		var reconnect *credentials.ReconnectError
		if !errors.As(err, &reconnect) || connector.FaultOf(err) != connector.FaultUnauthorized {
			t.Fatalf("got %v", err)
		}
		d.clock.move(time.Hour)
	}
	d.requests(2)
	d.consent()
	d.token(s)
}

func TestOneSpuriousInvalidGrantIsNotBelieved(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.consent()
	d.clock.move(time.Hour)
	d.vendor.Suffer(credentialstest.Trouble{Status: http.StatusBadRequest, Body: `{"error":"invalid_grant"}`})
	d.token(d.source())
	d.requests(2)
}

// The response was lost behind the server's back: what the ledger holds is the
// old token, and a consent given elsewhere has replaced it meanwhile.
//
// covers F23
func TestRefusedRefreshTokenIsLookedUpAgainBeforeItIsBelieved(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.consent()
	d.clock.move(time.Hour)
	d.vendor.Withdraw()
	d.full = func(bool) error { return nil }
	s := credentials.New(d.ledger, acme, d.between(func() { d.full = nil; d.consent() }))
	d.token(s)
	d.requests(1)
}

// between is a provider that calls do between a request and its answer.
func (d *desk) between(do func()) credentials.Provider {
	p := d.provider()
	base := p.HTTP.Transport
	client := *p.HTTP
	client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		do()
		return resp, err
	})
	p.HTTP = &client
	return p
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// covers F26
func TestTroubleAtTheTokenEndpointIsNoRevocation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		trouble credentialstest.Trouble
		fault   connector.Fault
		wait    time.Duration
	}{
		{"an outage", credentialstest.Trouble{Status: 503, Body: `{"error":"invalid_grant"}`}, connector.FaultUnavailable,
			15 * time.Second},
		{"too many requests", credentialstest.Trouble{Status: 429, RetryAfter: "3600"}, connector.FaultThrottled, time.Hour},
		{"a web page", credentialstest.Trouble{Status: 200, Type: "text/html", Body: "<html>sign in here</html>"},
			connector.FaultUnavailable, 15 * time.Second},
		{"a web page that says no", credentialstest.Trouble{Status: 403, Type: "text/html", Body: "<html>blocked</html>"},
			connector.FaultUnavailable, 15 * time.Second},
		{"a broken connection", credentialstest.Trouble{}, connector.FaultUnavailable, 15 * time.Second},
		{"a client that was disabled, as plain text",
			credentialstest.Trouble{Status: 401, Type: "text/plain;charset=UTF-8",
				Body: `{"error":"invalid_client","error_description":"refresh-"}`}, connector.FaultUnauthorized, 15 * time.Second},
		{"a client that was disabled", credentialstest.Trouble{Status: 401, Body: `{"error":"invalid_client"}`},
			connector.FaultUnauthorized, 15 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.consent()
			d.clock.move(time.Hour)
			d.vendor.Suffer(tt.trouble)
			s := d.source()
			began := d.clock.now()
			_, err := s.TokenContext(t.Context())
			if connector.FaultOf(err) != tt.fault || !connector.RetryAt(err).Equal(began.Add(tt.wait)) {
				t.Errorf("got fault %q until %s: %v", connector.FaultOf(err), connector.RetryAt(err), err)
			}
			for _, word := range []string{"refresh-", "access-", "html", credentialstest.ClientSecret} {
				if strings.Contains(err.Error(), word) {
					t.Errorf("the error repeats %q: %v", word, err)
				}
			}
			if _, again := s.TokenContext(t.Context()); again == nil || again.Error() != err.Error() ||
				connector.FaultOf(again) != tt.fault {
				t.Errorf("while it cools down: %v, want the reason as before: %v", again, err)
			}
			// as another process
			if _, err := d.source().TokenContext(t.Context()); !connector.RetryAt(err).Equal(began.Add(tt.wait)) {
				t.Errorf("while it cools down, elsewhere: %v", err)
			}
			d.requests(1)
			d.clock.move(tt.wait)
			d.token(s)
		})
	}
}

// covers F36, L4
func TestClockThatWasSetBackHoldsNoRenewalUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.consent()
	d.clock.move(365 * 24 * time.Hour) // a clock that is a year ahead
	d.vendor.Suffer(credentialstest.Trouble{Status: 503})
	s := d.source()
	if _, err := s.TokenContext(t.Context()); err == nil {
		t.Fatal("there is a token without a renewal")
	}
	d.clock.move(-364 * 24 * time.Hour)
	d.token(s)
	d.clock.move(-300 * 24 * time.Hour)
	if err := s.KeepAlive(t.Context(), 7*24*time.Hour); err != nil {
		t.Error(err)
	}
	d.requests(3)
}

func TestCoolDownDoublesUpToItsBound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.consent()
	d.clock.move(time.Hour)
	s := d.source()
	var waits []time.Duration
	for range 9 {
		d.vendor.Suffer(credentialstest.Trouble{Status: 500})
		_, err := s.TokenContext(t.Context())
		wait := connector.RetryAt(err).Sub(d.clock.now())
		waits = append(waits, wait)
		d.clock.move(wait)
	}
	if want := "[15s 30s 1m0s 2m0s 4m0s 8m0s 15m0s 15m0s 15m0s]"; fmt.Sprint(waits) != want {
		t.Errorf("waits %v, want %s", waits, want)
	}
}

func TestTokenThatStillLivesIsUsedWhileItCannotBeRenewed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.consent()
	s := d.source()
	first := d.token(s)
	d.clock.move(29*time.Minute + 10*time.Second)
	d.vendor.Suffer(credentialstest.Trouble{Status: 503}, credentialstest.Trouble{Status: 503})
	for range 3 {
		if got := d.token(s); got != first {
			t.Errorf("got %s", got)
		}
	}
	d.clock.move(time.Minute)
	if _, err := s.TokenContext(t.Context()); err == nil {
		t.Error("a token that has ended was used")
	}
}

// covers F25
func TestTokenThatCannotBeStoredIsKeptAndSavedBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.consent()
	d.clock.move(time.Hour)
	full := errors.New("no space left on device")
	s := credentials.New(d.ledger, acme, d.between(sync.OnceFunc(func() { d.full = func(bool) error { return full } })))
	for range 3 {
		if _, err := s.TokenContext(t.Context()); !errors.Is(err, full) || !strings.Contains(err.Error(), "kept in memory") {
			t.Fatalf("got %v", err)
		}
		d.requests(1)
		d.clock.move(10 * time.Minute)
	}
	d.full = nil
	d.vendor.Life = nil
	d.token(s) // the stored one has ended by now and is renewed in order
	d.requests(2)
	if d.vendor.Revoked() > 0 {
		t.Error("a refresh token was used twice")
	}
}

// covers F24
func TestLostAnswerIsRecoveredWithinTheVendorsGrace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.vendor.Grace = 30 * time.Minute
	d.consent()
	d.clock.move(time.Hour)
	d.vendor.Suffer(credentialstest.Trouble{Status: http.StatusBadGateway, After: true})
	s := d.source()
	if _, err := s.TokenContext(t.Context()); err == nil {
		t.Fatal("a lost answer gave a token")
	}
	d.clock.move(time.Minute)
	d.token(s)
}

func TestPreviousTokenIsTheLastResortWithinItsGrace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		later time.Duration
		works bool
	}{{"within", 10 * time.Minute, true}, {"after", 31 * time.Minute, false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.vendor.Grace, d.vendor.Life = 30*time.Minute, 60
			d.consent()
			d.clock.move(time.Hour)
			p := d.provider()
			p.Grace = 30 * time.Minute
			s := credentials.New(d.ledger, acme, p)
			d.token(s)
			lost := d.stored() // a vendor that lost what it gave: the token is unknown to it
			lost.Refresh = connector.NewSecret("refresh-unknown")
			if err := d.ledger.Do(t.Context(), func(tx *state.Tx) error { return tx.RenewToken(lost) }); err != nil {
				t.Fatal(err)
			}
			d.clock.move(tt.later)
			if _, err := s.TokenContext(t.Context()); (err == nil) != tt.works {
				t.Errorf("got %v, want it to work: %t", err, tt.works)
			}
		})
	}
}

// covers F29
func TestKeepAliveRenewsWhatNobodyUsed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.vendor.Extra = map[string]any{"x_refresh_token_expires_in": 8640000}
	d.consent()
	s := d.source()
	for _, wait := range []time.Duration{time.Hour, 6 * 24 * time.Hour, 24 * time.Hour} {
		d.clock.move(wait)
		if err := s.KeepAlive(t.Context(), 7*24*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	d.requests(1)
	if got, want := d.stored().ReconnectBy, d.clock.now().Add(100*24*time.Hour); !got.Equal(want) {
		t.Errorf("reconnect by %s, want %s as the server said", got, want)
	}
}

// covers F29
func TestKeepAliveThatFailsSaysSoThoughTheAccessTokenServes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.vendor.Life = nil // an access token without a stated life
	d.consent()
	d.clock.move(time.Hour)
	s := d.source()
	d.token(s)
	d.clock.move(8 * 24 * time.Hour)
	d.vendor.Suffer(credentialstest.Trouble{Status: 503})
	for range 2 { // the second while it cools down
		if err := s.KeepAlive(t.Context(), 7*24*time.Hour); err == nil {
			t.Error("a keep-alive that failed ended well")
		}
	}
	d.clock.move(time.Hour)
	if err := s.KeepAlive(t.Context(), 7*24*time.Hour); err != nil {
		t.Error(err)
	}
}

func TestRefreshTokenThatDoesNotRotateIsKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.vendor.Static = true
	d.consent()
	before := d.stored().Refresh.Expose()
	for range 3 {
		d.clock.move(time.Hour)
		d.token(d.source())
	}
	if got := d.stored(); got.Refresh.Expose() != before || !got.Previous.IsZero() {
		t.Errorf("refresh token %s, before it %s", got.Refresh.Expose(), got.Previous.Expose())
	}
}

func TestCallerThatGivesUpDoesNotLoseTheRenewalUnderWay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.consent()
	d.clock.move(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	s := credentials.New(d.ledger, acme, d.between(cancel))
	if _, err := s.TokenContext(ctx); err != nil {
		t.Errorf("got %v", err)
	}
	if got := d.stored().Generation; got != 2 {
		t.Errorf("the ledger holds generation %d", got)
	}
	if _, err := s.TokenContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that had given up before: %v", err)
	}
}
