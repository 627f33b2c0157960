package main

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"payersync/cmd/payersync/guides"
	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/health"
	"payersync/connector/pages"
	"payersync/connector/server"
	"payersync/connector/syncer"
	"payersync/connector/worker"
	"payersync/state"
)

func (a *app) pagesCmd() *cobra.Command {
	listen := "127.0.0.1:0"
	c := &cobra.Command{
		Use:   "pages",
		Short: "Show the pages in a browser on this machine, until Ctrl-C",
		Long: `Shows the data of payersync in a browser: who can be debited, open decisions, and each
payer in full. It prints an address that signs you in once. The pages are on this
machine alone, and run no schedules. They work with or without payersync serve, which
shows the same pages at server.admin.`,
		Example: "  payersync pages\n  payersync pages --listen 127.0.0.1:8070\n  payersync pages link --role viewer    # a link to the pages that serve shows",
		RunE: a.runs(a.open, func(ctx context.Context, s *session.Session,
			_ []string) error {
			return a.showPages(ctx, s, listen)
		}),
	}
	c.Flags().StringVar(&listen, "listen", listen, "`ADDRESS` on this machine; port 0 takes a free one")
	c.AddCommand(a.pagesLinkCmd(), a.pagesUsersCmd())
	return c
}

func (a *app) pagesLinkCmd() *cobra.Command {
	user := pages.User{Name: actor(), Role: pages.Admin}
	var role string
	var connections []string
	c := &cobra.Command{
		Use:   "link",
		Short: "Make a sign-in link to the pages, for one person and one use",
		Long: `Prints a link to the pages of payersync serve at server.admin. It signs one person in,
once, within ten minutes. A viewer reads; an operator also sees addresses and signing
links, and acts; an admin may do all. The audit log records actions under the given
name. With --connection the pages hide all other connections from that person; the
limits of a user apply to links to the pages, too.`,
		Example: "  payersync pages link\n  payersync pages link --user anna --role operator\n  payersync pages link --user carl --role viewer --connection acme",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runPagesLink(cmd.Context(), user, role, connections)
		},
	}
	c.Flags().StringVar(&user.Name, "user", user.Name, "`NAME` of the person, for the audit log")
	c.Flags().StringVar(&role, "role", string(user.Role), "viewer, operator or admin")
	c.Flags().StringArrayVar(&connections, "connection", nil, "limit the login to the connection `NAME`; may be repeated")
	return c
}

func (a *app) runPagesLink(ctx context.Context, user pages.User, role string, connections []string) error {
	if user.Role = pages.Role(role); !slices.Contains(pages.Roles, user.Role) {
		return usage.Errorf("there is no role %q; it is viewer, operator or admin", role)
	}
	if strings.TrimSpace(user.Name) == "" {
		return usage.Errorf("--user is blank; give the name of the acting person")
	}
	if _, err := admin.NewUserName(user.Name); errors.Is(err, admin.ErrReservedName) && user.Name != actor() {
		return usage.Errorf("no link to the pages was made: %w; give the name of the person", err)
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		address, err := adminAddress(s)
		if err != nil {
			return err
		}
		if user.Connections, err = limitsNamed(s, connections); err != nil {
			return err
		}
		if err := notUser(ctx, s, user); err != nil {
			return err
		}
		path, err := pages.NewLink(ctx, s.Ledger, user, actor())
		if err != nil {
			return err
		}
		as := string(user.Role)
		if user.Connections != nil {
			as += ", who sees " + strings.Join(user.Connections, ", ") + " alone"
		}
		a.Print("It signs %s in as %s, once, within ten minutes:", user.Name, as)
		fmt.Fprintln(a.Out, address+path)
		return nil
	})
}

// notUser fails if a link would limit a user: a user's limits are stored with the user.
func notUser(ctx context.Context, s *session.Session, to pages.User) error {
	if to.Connections == nil {
		return nil
	}
	user, err := s.Ledger.User(ctx, strings.ToLower(to.Name))
	if err == nil && user != nil {
		err = usage.Errorf("no link to the pages was made: %s is a user, and the limits of a user apply to every link; omit --connection, or change the limits with payersync pages users limit %[1]s", user.Name)
	}
	return err
}

// adminAddress returns the address of serve's pages for browsers.
func adminAddress(s *session.Session) (string, error) {
	address := s.Config.Server.AdminAddress()
	if address == "" {
		return "", usage.Errorf("payersync serve shows no pages, because server.admin is blank; set it, for example to 127.0.0.1:8070, or use payersync pages, which prints its own sign-in link")
	}
	return address, nil
}

// behindPages is the background work of the pages, whatever configuration is in force.
type behindPages struct {
	lists      *admin.Lists // its names stay in memory
	standings  *admin.ReadinessCounts
	letters    *admin.Letters    // of the configuration in force
	writebacks *admin.Writebacks // of it, too
	fetcher    *admin.Fetcher
	ahead      *admin.Ahead   // customers read for comparison
	board      *admin.Board   // the records similar to existing customers
	starter    *admin.Starter // of requested runs
	nudge      func()         // told when a delivery waits to be read
	tallies    *admin.Tallies // of mappings over all records
	door       *pages.Door
}

// newBehindPages returns the background work of pages: a worker executes people's requests, with the session
// in force.
func newBehindPages(ledger *state.Ledger, inForce func() *session.Session, by func() runner) *behindPages {
	return &behindPages{
		lists: &admin.Lists{Ledger: ledger}, standings: &admin.ReadinessCounts{Ledger: ledger}, fetcher: &admin.Fetcher{},
		ahead: &admin.Ahead{}, board: &admin.Board{}, door: pages.NewDoor(ledger),
		starter: newStarter(ledger, inForce, by), nudge: func() { by().Nudge() },
		tallies: &admin.Tallies{},
	}
}

// close ends running work, before the ledger is closed.
func (b *behindPages) close() {
	b.tallies.Close()
	b.lists.Close()
	b.fetcher.Close()
	b.ahead.Close()
	b.board.Close()
	b.standings.Close()
	b.letters.Close()
	b.writebacks.Close()
	b.door.Close()
}

// settingsOf returns the visible settings: those that affect payers, and no secret.
func settingsOf(c *config.Config) []pages.Setting {
	g := c.Guards
	settings := []pages.Setting{
		{Group: "Billing service", Name: "Address", Value: c.Billing.BaseURL},
		{Group: "Billing service", Name: "Profile", Value: c.Billing.Profile},
		{Group: "Billing service", Name: "Requests a second, at most", Value: fmt.Sprint(c.Billing.RatePerSecond)},
		{Group: "Limits above which a plan waits", Name: "New customers in a run", Value: fmt.Sprint(g.MaxCreates)},
		{Group: "Limits above which a plan waits", Name: "Changes in a run",
			Value: fmt.Sprintf("%v, and %d in any case", g.MaxChanges, g.MaxChangesFloor)},
		{Group: "Limits above which a plan waits", Name: "Payers that would be excluded", Value: fmt.Sprint(g.MaxHolds)},
		{Group: "Limits above which a plan waits", Name: "Payers removed in the accounting system",
			Value: fmt.Sprint(g.MaxMissing)},
		{Group: "Matches", Name: "The first run waits for matching",
			Value: map[bool]string{true: "yes", false: "no"}[g.FirstMatching]},
		{Group: "Matches", Name: "Customers that match", Value: c.Adoption},
		{Group: "Letters", Name: "Sent by", Value: c.Letters.Sender},
	}
	if c.Node != nil {
		settings = append(settings,
			pages.Setting{Group: "The node that shows this page", Name: "Name", Value: nodeName(c.Node.Server)},
			pages.Setting{Group: "The node that shows this page", Name: "Version", Value: version})
	}
	return settings
}

// pagesOf returns the pages of a session, with the shared background work.
func (a *app) pagesOf(s *session.Session, behind *behindPages, adjust func(*pages.Config)) (*pages.Pages, error) {
	names := connector.Map(s.Config.Connections, func(c config.Connection) string { return c.Name })
	writebacks := writebacksOf(s)
	letters, err := lettersOf(s)
	if err != nil {
		return nil, err
	}
	deliveries := deliveriesOf(s)
	if s.Config.Billing.Webhook != nil {
		deliveries.Try = func(ctx context.Context) (admin.Tested, error) { return a.tryPublicAddress(ctx, s) }
		deliveries.Subscribe = subscribeOnPages(s)
	}
	cfg := pages.Config{
		Ledger: s.Ledger, Lists: behind.lists, Connections: names,
		Expected: func() health.Expected { return a.expected(s) }, Deliveries: deliveries, Nudge: behind.nudge,
		Attention: a.attentionOf(s), Mappings: a.mappingsOf(s, behind.tallies),
		Matches: &admin.Matches{Ledger: s.Ledger, Syncer: s.Syncer, Connections: names, Ahead: behind.ahead,
			Board: behind.board, Stored: func(ctx context.Context, connection string) (syncer.Connection, error) {
				return a.storedAs(ctx, s, connection)
			}},
		Writebacks: writebacks,
		Moves:      a.movesOf(s),
		Mandates:   mandatesOf(s), Explain: func(ctx context.Context, connection string) (admin.Explainer, error) {
			m, err := a.mappingOf(ctx, s, connection)
			return admin.Explainer{Mapping: m, NotSent: s.Config.Billing.Dialect.NotCarried}, err
		},
		Jobs: func(ctx context.Context) (jobs []pages.JobTimes, err error) {
			rows, err := a.jobRows(ctx, s)
			if err != nil {
				return nil, err
			}
			served, err := s.Ledger.IsServed(ctx)
			for _, r := range rows {
				if !served {
					r.NextAt = time.Time{}
				}
				jobs = append(jobs, pages.JobTimes{JobRow: r.JobRow, Schedule: r.Schedule, NextAt: r.NextAt, Idle: !served})
			}
			return jobs, err
		},
		Settings:  func() []pages.Setting { return settingsOf(s.Config) },
		Approvers: pages.Role(s.Config.Pages.Approve), FourEyes: s.Config.Pages.FourEyes, Door: behind.door, Design: a.design,
		Starter: behind.starter, Rate: s.Config.Billing.RatePerSecond,
		Valid: s.Config.Billing.LinkValid.Length(), Standings: behind.standings, Fetcher: behind.fetcher, Letters: letters,
		Guides: guidesForPages(), Systems: systems(),
		Report: func(e pages.Event) {
			entry := s.Log.WithFields(logrus.Fields{"page": e.Route, "user": e.User, "status": e.Status})
			if e.Err != nil {
				entry.WithError(forLog(e.Err)).Error("a page could not be made")
			} else {
				entry.Debug("a page was refused")
			}
		},
	}
	adjust(&cfg)
	shown, err := pages.New(cfg)
	if err != nil {
		return nil, err
	}
	behind.letters.Close()
	behind.writebacks.Close()
	behind.letters, behind.writebacks = letters, writebacks
	return shown, nil
}

// showPages serves the pages of a session by themselves until ctx ends.
func (a *app) showPages(ctx context.Context, s *session.Session, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !connector.IsLoopback(host) {
		return usage.Errorf("--listen %s is no address of this machine alone; give one such as 127.0.0.1:8070", address)
	}
	asked, err := worker.New(worker.Config{
		Drain: func(ctx context.Context) error { return drainInbox(ctx, s) }, DrainEvery: 24 * time.Hour, Now: a.now,
		Report: func(e worker.JobEvent) {
			if e.Err != nil {
				s.Log.WithFields(logrus.Fields{"job": e.Job, "outcome": e.Outcome}).WithError(forLog(e.Err)).Error("job failed")
			}
		},
	})
	if err != nil {
		return err
	}
	behind := newBehindPages(s.Ledger, func() *session.Session { return s }, func() runner { return asked })
	defer behind.close()
	shown, err := a.pagesOf(s, behind, func(*pages.Config) {})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("the pages cannot be shown: %w; give another address with --listen", err)
	}
	path, err := pages.NewLink(ctx, s.Ledger, pages.User{Name: actor(), Role: pages.Admin}, actor())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	a.Print("The pages are shown until Ctrl-C. This link signs you in, once, within ten minutes:")
	fmt.Fprintln(a.Out, "http://"+listener.Addr().String()+path)
	ctx, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- asked.Run(ctx) }()
	err = server.Serve(ctx, listener, server.NewHTTPServer(shown))
	stop() // requested work ends with the pages
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, <-worked)
}

// newStarter returns the starter of runs requested on the pages: a worker executes them, with the session in
// force.
func newStarter(ledger *state.Ledger, inForce func() *session.Session, by func() runner) *admin.Starter {
	return &admin.Starter{
		Ledger: ledger,
		Go: func(connection string, work func(context.Context) error) error {
			err := by().Now(syncJob(connection), work)
			if errors.Is(err, worker.ErrBusy) {
				return &admin.RunAtWork{Connection: connection}
			}
			return err
		},
		Queue: func(ctx context.Context, connection, person string) (bool, error) {
			if jobs, shared := by().(*accountJobs); shared {
				return jobs.queueRun(ctx, connection, person)
			}
			return false, nil
		},
		Requests: func(ctx context.Context) ([]admin.RunRequest, error) {
			if jobs, shared := by().(*accountJobs); shared {
				return jobs.requests(ctx)
			}
			return nil, nil
		},
		Run: func(ctx context.Context, connection, person string, opened func(int64), progress func(syncer.Progress)) error {
			s := inForce()
			c, err := s.Config.One(connection)
			if err != nil {
				return err
			}
			return syncFor(ctx, s, c, person, opened, progress)
		},
	}
}

func guidesForPages() (shown []pages.Guide) {
	for _, g := range guides.All() {
		shown = append(shown, pages.Guide{Name: g.Name, Title: g.Title, Readers: g.Readers, HTML: template.HTML(g.HTML)}) //nolint:gosec // compiled in
	}
	return shown
}
