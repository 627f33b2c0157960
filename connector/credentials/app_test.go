package credentials_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/credentials"
	"payersync/connector/credentials/credentialstest"
)

// covers F21, F22
func TestAppSharesATokenUntilItEndsOrIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a := credentials.NewApp(d.provider(), d.clock.now)
	token := func() string {
		got, err := a.Token()
		if err != nil || !d.vendor.Accepts(got.AccessToken) {
			t.Fatalf("got %v, %v", got, err)
		}
		return got.AccessToken
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { token() })
	}
	wg.Wait()
	d.requests(1)
	first := token()
	d.clock.move(29*time.Minute + time.Second)
	second := token()
	a.Refused(first) // late news
	if token() != second || second == first {
		t.Errorf("tokens %s and %s", first, second)
	}
	a.Refused(second)
	if token() == second {
		t.Error("a refused token was given again")
	}
	d.requests(3)
}

// covers F26
func TestAppSaysWhatIsWrongWithoutRepeatingWhatItSent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := d.provider()
	p.OAuth.ClientSecret = "canary-secret"
	_, err := credentials.NewApp(p, d.clock.now).Token()
	if connector.FaultOf(err) != connector.FaultUnauthorized || strings.Contains(err.Error(), "canary") ||
		!strings.Contains(err.Error(), "client_id") {
		t.Errorf("got %v", err)
	}
	d.vendor.Suffer(credentialstest.Trouble{Status: 503, Body: "canary-secret"})
	if _, err := credentials.NewApp(d.provider(),
		d.clock.now).Token(); connector.FaultOf(err) != connector.FaultUnavailable ||
		strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}
