package credentials

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// App provides an application's own access tokens, without a person's consent. It stores none: another is one
// request away. It is an oauth2.TokenSource, safe for concurrent use.
type App struct {
	config clientcredentials.Config
	http   *http.Client
	now    func() time.Time

	mu      sync.Mutex // locked during a fetch, so callers share one token
	live    *oauth2.Token
	renewAt time.Time // zero for when it is refused
}

// NewApp returns the tokens of an application with the client credentials of p. now is the clock for renewing
// tokens.
func NewApp(p Provider, now func() time.Time) *App {
	p = p.settled()
	return &App{
		config: clientcredentials.Config{
			ClientID: p.OAuth.ClientID, ClientSecret: p.OAuth.ClientSecret, TokenURL: p.OAuth.Endpoint.TokenURL,
			AuthStyle: p.OAuth.Endpoint.AuthStyle, Scopes: p.OAuth.Scopes,
		},
		http: p.HTTP, now: now,
	}
}

// Token returns a valid token. The error is a *connector.RemoteError.
func (a *App) Token() (*oauth2.Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live != nil && (a.renewAt.IsZero() || a.now().Before(a.renewAt)) {
		return a.live, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewWithin)
	defer cancel()
	got, err := a.config.Token(context.WithValue(ctx, oauth2.HTTPClient, a.http))
	if err != nil {
		fault := faultOf(err)
		fault.Op = "get an access token"
		return nil, fault
	}
	a.live, a.renewAt = got, time.Time{}
	if life, stated := seconds(got, "expires_in"); stated {
		a.renewAt = a.now().Add(life - min(earlyRenewal, life/4))
	}
	return got, nil
}

// Refused reports that the remote system refused an access token early: the next Token is another one (fault
// F21).
func (a *App) Refused(access string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live != nil && a.live.AccessToken == access {
		a.live = nil
	}
}
