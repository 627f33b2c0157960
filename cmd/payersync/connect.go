package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/accounting"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/accounting/xero"
	"payersync/connector/admin"
	"payersync/connector/credentials"
)

// localRedirect is the default redirect address of connect.
const localRedirect = "http://localhost:8484/callback"

func (a *app) connectCmd() *cobra.Command {
	var how consentFlags
	c := &cobra.Command{
		Use:   "connect NAME",
		Short: "Give consent for a connection; its tokens are kept sealed in the ledger",
		Long: `Prints an address, and waits up to 10 minutes for the answer. Open the address in a
browser. There you consent to payersync reading your accounting system, or using the
billing service in your name. NAME is a connection, or billing for the billing service
with dialect.api_auth authorization_code. Register the redirect address with your app
at the vendor, character by character. The default is` + localRedirect + `.

Without a browser on this machine, and for vendors that refuse localhost, use --paste
with a redirect address of your own. Open the printed address anywhere, and paste the
address of the page that your browser ends on.`,
		Example: "  payersync connect acme\n  payersync connect acme --paste --redirect https://app.example.com/connected",
		Args:    cobra.ExactArgs(1),
		RunE: a.runs(a.openAny, func(ctx context.Context, s *session.Session, args []string) error {
			return a.connect(ctx, s, args[0], how)
		}),
	}
	c.Flags().StringVar(&how.redirect, "redirect", localRedirect, "the registered redirect `ADDRESS`")
	c.Flags().BoolVar(&how.paste, "paste", false,
		"paste the address of the browser's last page, instead of waiting for it")
	c.Flags().StringVar(&how.tenant, "tenant", "", "`ID` of the organisation, if the consent covers several")
	return c
}

type consentFlags struct {
	redirect string
	paste    bool
	tenant   string
}

// consentable is a system that needs a person's consent.
type consentable struct {
	name     string
	provider credentials.Provider
	// reached returns the organisations of a consent; nil for a system without any.
	reached func(context.Context, credentials.Grant) ([]credentials.Tenant, error)
	tenant  string // the organisation that the configuration names; "" for none
}

func (a *app) connect(ctx context.Context, s *session.Session, name string, how consentFlags) error {
	what, err := consentableOf(s, name)
	if err != nil {
		return err
	}
	consent := credentials.Ask(what.provider, how.redirect, a.now)
	query, err := a.answer(ctx, consent, how)
	if err != nil {
		return err
	}
	grant, err := consent.Redeem(ctx, query)
	if err != nil {
		return err
	}
	proven := true
	if name == config.BillingConsent {
		if proven, err = s.SameAccountBy(ctx, oauth2.StaticTokenSource(grant.Token)); err != nil {
			return fmt.Errorf("the consent is not kept: %w", err)
		}
	}
	tenant, err := what.choose(ctx, grant, how.tenant)
	if err != nil {
		return err
	}
	if !proven { // known customers may be of another account: as after a restore
		if err := admin.DoubtCustomers(ctx, s.Ledger); err != nil {
			return err
		}
		a.Print("Nothing is created before the service's list has been read anew, and for %s more.",
			s.Config.LookupLimits().Quarantine)
	}
	by, err := credentials.Keep(ctx, s.Ledger,
		credentials.ConsentTarget{Name: name, Provider: what.provider, Tenant: tenant, Actor: actor()}, grant)
	if err != nil {
		return err
	}
	return a.showConsent(connected{Connection: name, Tenant: tenant.ID, TenantName: tenant.Name, ReconnectBy: by})
}

// answer prints the address of the consent page and returns what the browser
// brought back.
func (a *app) answer(ctx context.Context, consent *credentials.Consent, how consentFlags) (url.Values, error) {
	if how.paste {
		return a.pasted(ctx, consent)
	}
	listener, err := credentials.Listen(ctx, how.redirect)
	if err != nil {
		return nil, usage.Mistake{Err: err}
	}
	a.Print("Open this address in a browser and give consent; payersync waits here for the answer:\n\n  %s\n", consent.URL())
	return consent.Await(ctx, listener)
}

// pasted reads the browser's final address.
func (a *app) pasted(ctx context.Context, consent *credentials.Consent) (url.Values, error) {
	a.Print(`Open this address in a browser and give consent:

  %s

Then paste the whole address of the browser's last page, and press Enter:`, consent.URL())
	line, err := a.ReadLine(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && (!errors.Is(err, io.EOF) || line == "") {
		return nil, usage.Errorf("there was no address to read; paste it after payersync connect --paste has asked for it")
	}
	redirected, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		// the parser's error would repeat it, with the code
		return nil, &credentials.RedirectError{Why: "the pasted text is no address"}
	}
	return consent.Accept(redirected)
}

// choose determines the organisation of the consent, without guessing.
func (w consentable) choose(ctx context.Context, g credentials.Grant, asked string) (credentials.Tenant, error) {
	if w.reached == nil {
		return credentials.Tenant{}, nil
	}
	reached, err := w.reached(ctx, g)
	if err != nil {
		return credentials.Tenant{}, err
	}
	return credentials.Choose(reached, cmp.Or(asked, w.tenant))
}

// consentableOf finds the system of a name and the way to its consent.
func consentableOf(s *session.Session, name string) (consentable, error) {
	if name == config.BillingConsent {
		return billingConsentable(s)
	}
	found, err := s.Config.Named([]string{name})
	if err != nil {
		return consentable{}, err
	}
	source := found[0].Source
	if !source.Consents() {
		return consentable{}, usage.Errorf("the connection %s needs no consent: the configuration is enough to read a source of kind %s; payersync check tries it", name, source.Kind)
	}
	out := consentable{name: name, provider: source.Provider(), tenant: *source.Tenant()}
	out.provider.HTTP = s.TokenClient(name)
	out.reached = companyOf
	if source.ProfileOf() != nil {
		out.reached = func(ctx context.Context, g credentials.Grant) ([]credentials.Tenant, error) {
			return companiesOf(ctx, s, found[0], g)
		}
	}
	if source.Kind == config.KindXero {
		out.reached = func(ctx context.Context, g credentials.Grant) ([]credentials.Tenant, error) {
			return xeroOrganisations(ctx, s, found[0], g)
		}
	}
	return out, nil
}

func billingConsentable(s *session.Session) (consentable, error) {
	b := s.Config.Billing
	switch {
	case b.Dialect.APIAuth != config.AuthorizationCode:
		return consentable{}, usage.Errorf("the billing service needs no consent: billing.dialect.api_auth is %s",
			b.Dialect.APIAuth)
	case b.AuthorizeURL == "":
		return consentable{}, usage.Errorf("the page for the consent is not known; name it in billing.authorize_url")
	}
	return consentable{name: config.BillingConsent, provider: s.BillingProvider()}, nil
}

// companyOf reads the organisation from Intuit's redirect.
func companyOf(_ context.Context, g credentials.Grant) ([]credentials.Tenant, error) {
	id := g.Query.Get("realmId")
	if id == "" || strings.Trim(id, "0123456789") != "" {
		return nil, nil
	}
	return []credentials.Tenant{{ID: id}}, nil
}

// xeroOrganisations asks Xero for the organisations of a consent not stored yet.
func xeroOrganisations(ctx context.Context, s *session.Session, c config.Connection,
	g credentials.Grant) ([]credentials.Tenant, error) {
	source, err := xero.New(c.Source.Xero, xero.Deps{
		HTTP: s.SourceClient(c.Name), Token: oauth2.StaticTokenSource(g.Token), Now: s.Ledger.Now, Limiter: s.Budget(c, ""),
	})
	if err != nil {
		return nil, usage.Mistake{Err: err}
	}
	return tenantsOf(source.Organisations(ctx))
}

// companiesOf asks a system with a profile for the companies of a consent not stored yet.
func companiesOf(ctx context.Context, s *session.Session, c config.Connection,
	g credentials.Grant) ([]credentials.Tenant, error) {
	source, err := c.Source.Open(config.SourceDeps{HTTP: s.SourceClient(c.Name), Token: oauth2.StaticTokenSource(g.Token),
		Now: s.Ledger.Now, Limiter: s.Budget(c, "")})
	if err != nil {
		return nil, usage.Mistake{Err: err}
	}
	return tenantsOf(source.(*httpsource.Source).Organisations(ctx))
}

func tenantsOf(all []accounting.Organisation, err error) ([]credentials.Tenant, error) {
	var out []credentials.Tenant
	for _, o := range all {
		out = append(out, credentials.Tenant{ID: o.ID, Name: o.Name})
	}
	return out, err
}

// connected is the output of `connect --output json`.
type connected struct {
	Connection  string    `json:"connection"`
	Tenant      string    `json:"tenant"`
	TenantName  string    `json:"tenant_name"`
	ReconnectBy time.Time `json:"reconnect_by,omitzero"`
}

func (a *app) showConsent(c connected) error {
	if a.JSON() {
		return show.JSON(a.Out, c)
	}
	fmt.Fprintf(a.Out, "%s is connected", c.Connection)
	if c.Tenant != "" {
		fmt.Fprintf(a.Out, " to %s", strings.TrimSpace(show.Visible(c.TenantName)+" "+c.Tenant))
	}
	fmt.Fprintln(a.Out, ".")
	if !c.ReconnectBy.IsZero() {
		fmt.Fprintf(a.Out, "The consent is renewed while payersync serve runs. Unused, it lapses on %s.\n",
			c.ReconnectBy.Format(time.DateOnly))
	}
	fmt.Fprintln(a.Out, "Next: payersync check")
	return nil
}
