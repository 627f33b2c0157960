package accounting_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector/accounting"
	"payersync/connector/accounting/accountingtest"
)

// renewedElsewhere has no token before another process has renewed it.
type renewedElsewhere struct{}

func (renewedElsewhere) Token() (*oauth2.Token, error) {
	time.Sleep(time.Minute)
	return &oauth2.Token{AccessToken: "late"}, nil
}

func (renewedElsewhere) TokenContext(ctx context.Context) (*oauth2.Token, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// covers F67
func TestCallerThatGivesUpDoesNotWaitForAToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		caller := accounting.Caller{System: "Books", Token: renewedElsewhere{}, Send: http.DefaultTransport.RoundTrip,
			Limiter: &accountingtest.Limiter{}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = caller.Do(ctx, "read customers", req)
		if waited := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || waited > time.Second {
			t.Errorf("got %v after %s", err, waited)
		}
	})
}
