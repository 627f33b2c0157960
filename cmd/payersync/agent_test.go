package main

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"payersync/cmd/payersync/internal/config"
	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/quickbooks"
	"payersync/connector/accounting/tryton"
	"payersync/connector/accounting/xero"
	"payersync/connector/billing"
	"payersync/connector/credentials"
	"payersync/connector/pages"
	"payersync/connector/transport"
	"payersync/connector/webhook"
)

// agents is a server that records the User-Agent of requests.
type agents struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newAgents(t *testing.T) *agents {
	a := &agents{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.seen = append(a.seen, r.Method+" "+r.URL.Path+": "+r.UserAgent())
		a.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"a","token_type":"bearer","expires_in":3600}`))
	}))
	t.Cleanup(a.Close)
	return a
}

// probed probes a source, so it sends its requests.
func probed(c *config.Config, kind string, s config.Source) {
	s.Kind = kind
	tokens := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "a"})
	source, err := s.Open(config.SourceDeps{HTTP: c.Client(transport.Options{Retries: -1}), Token: tokens,
		Limiter: &accountingtest.Limiter{}, Now: time.Now})
	if err != nil {
		panic(err)
	}
	source.(interface {
		Probe(ctx context.Context) []accounting.Probe
	}).Probe(context.Background())
}

// Every client sends to a server with senseless answers: only its User-Agent counts.
func TestEveryRequestCarriesTheVersionOfPayersync(t *testing.T) { //nolint:paralleltest // the version is that of the process
	transport.SetVersion("1.2.3")
	defer transport.SetVersion(version)
	cfg := &config.Config{}
	client := func() *transport.Client { return cfg.Client(transport.Options{Retries: -1}) }
	for name, send := range map[string]func(ctx context.Context, at string){
		"billing service and its tokens": func(ctx context.Context, at string) {
			c, err := billing.New(billing.Config{BaseURL: at + "/api", AuthURL: at + "/oauth2/token", ClientID: "id",
				ClientSecret: connector.NewSecret("secret"), RedirectURL: "https://app.example.com/", Dialect: billing.Standard(),
				HTTP: client(), Now: time.Now})
			if err != nil {
				panic(err)
			}
			_, _ = c.Customer(ctx, "3b241101-e2bb-4255-8caf-4136c566a962")
		},
		"Xero": func(_ context.Context, at string) {
			probed(cfg, config.KindXero, config.Source{Xero: xero.Config{BaseURL: at, CustomConnection: true}})
		},
		"QuickBooks": func(_ context.Context, at string) {
			probed(cfg, config.KindQuickBooks, config.Source{QuickBooks: quickbooks.Config{BaseURL: at, Company: "1"}})
		},
		"Tryton": func(_ context.Context, at string) {
			probed(cfg, config.KindTryton,
				config.Source{Tryton: tryton.Config{URL: at, Database: "d", User: "u", Password: connector.NewSecret("p")}})
		},
		"tokens of an app": func(_ context.Context, at string) {
			p := credentials.Provider{OAuth: oauth2.Config{ClientID: "id", ClientSecret: "secret",
				Endpoint: oauth2.Endpoint{TokenURL: at}}, HTTP: client().HTTPClient(transport.IfNoEffect)}
			_, _ = credentials.NewApp(p, time.Now).Token()
		},
		"OpenID provider": func(ctx context.Context, at string) {
			_, _ = (&pages.Provider{Issuer: at, HTTP: client().HTTPClient(transport.IfNoEffect)}).Discover(ctx)
		},
		"webhooks of alarms": func(ctx context.Context, at string) {
			_, _ = (&webhook.Receiver{URL: at, Secret: connector.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
				HTTP: client(), Now: time.Now}).Send(ctx, "1", []byte("{}"))
		},
		"through a proxy": func(ctx context.Context, at string) {
			proxy, _ := url.Parse(at)
			for _, target := range []string{"http://books.example/", "https://books.example/"} {
				req, _ := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
				_, _ = transport.New(transport.Options{Proxy: proxy, Retries: -1}).Do(req, transport.Never)
			}
		},
		"health check": func(ctx context.Context, at string) { _ = healthy(ctx, strings.TrimPrefix(at, "http://")) },
		"without a client": func(ctx context.Context, at string) {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
			if resp, err := (&http.Client{Transport: transport.WithUserAgent(nil)}).Do(req); err == nil {
				_ = resp.Body.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newAgents(t)
			send(t.Context(), server.URL)
			server.mu.Lock()
			defer server.mu.Unlock()
			if len(server.seen) == 0 {
				t.Error("nothing was sent")
			}
			for _, seen := range server.seen {
				if !strings.HasSuffix(seen, ": payersync/1.2.3") {
					t.Errorf("a request calls itself otherwise: %s", seen)
				}
			}
		})
	}
}

// A client from elsewhere would be Go-http-client: all use package transport.
func TestNoClientIsMadeThatDoesNotSayItsVersion(t *testing.T) {
	t.Parallel()
	allowed := []string{"connector/transport/", "connector/sandbox/", "connector/simulation/",
		"connector/billing/token.go"} // the last wraps the client that it was given
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.Contains(path, "test/") {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, "../../"))
		if slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(name, a) }) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, found := range clientsWithoutVersion(file) {
			t.Errorf("%s: %s", name, found)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// clientsWithoutVersion returns a file's clients without transport.WithUserAgent.
func clientsWithoutVersion(file *ast.File) (out []string) {
	of := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok {
			if p, ok := s.X.(*ast.Ident); ok {
				return p.Name + "." + s.Sel.Name
			}
		}
		return ""
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if slices.Contains([]string{"http.DefaultClient", "http.DefaultTransport", "http.Get", "http.Post", "http.PostForm",
				"http.Head"}, of(n)) {
				out = append(out, of(n))
			}
		case *ast.CompositeLit:
			named := slices.ContainsFunc(n.Elts, func(e ast.Expr) bool {
				pair, ok := e.(*ast.KeyValueExpr)
				if !ok {
					return false
				}
				call, ok := pair.Value.(*ast.CallExpr)
				return ok && of(call.Fun) == "transport.WithUserAgent"
			})
			if of(n.Type) == "http.Client" && !named {
				out = append(out, "an http.Client without transport.WithUserAgent")
			}
		}
		return true
	})
	return out
}
