package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/billing"
	"payersync/connector/credentials"
	"payersync/connector/health"
	"payersync/connector/syncer"
	"payersync/connector/transport"
)

func (a *app) checkCmd() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "check",
		Short: "Preflight: configuration, mapping, credentials, ledger, the open points",
		Long: `Checks everything that a run needs: the configuration, the permissions of its secrets,
the place of the key, free disk space, and the ledger. It checks each source, its
mapping and the mapping's examples. Of the billing service it checks the credentials,
the list of customers, the clock, the webhook signature and the webhook subscription,
if the service shows it. If payersync sends letters, it asks the DNS for SPF, DKIM and
DMARC of the sender's domain. While payersync serve runs on this machine, it sends a
signed test delivery through the public address, and looks for it in this ledger. It
sends and changes nothing else. It makes every check, even after a failure, and says
how to correct each. A warning is no failure.

--probe examines the open points of the service's interface. For each setting of
billing.dialect it prints the finding, the method and the certainty, and then a block
to paste. It only reads. --allow-writes CUSTOMER also tries the writes, on a test
customer that you made in the service for this purpose. It replaces the customer by
itself, asks for a signing link twice, and cancels the resulting mandates. It shows
these steps first, and asks. The audit log keeps the results. A successful round trip
is the proof that updates wait for. The probe also compares this computer's clock with
the service's. Its JSON has a line for each setting, and a last one with the clock and
the lines of the block (paste).`,
		Example: "  payersync check && payersync plan\n  payersync check --probe\n  payersync check --probe --allow-writes 0f6b1c2e",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runCheck(cmd.Context(), f) },
	}
	c.Flags().BoolVar(&f.probe, "probe", false,
		"find out the open points of the service's interface, and print billing.dialect")
	c.Flags().StringVar(&f.customer, "allow-writes", "", "with --probe: also try the writes, on this `CUSTOMER`")
	c.Flags().BoolVar(&f.yes, "yes", false, "with --allow-writes: do not ask")
	return c
}

func (a *app) runCheck(ctx context.Context, f checkFlags) error {
	switch {
	case f.customer != "" && !f.probe:
		return usage.Errorf("--allow-writes belongs to a probe: payersync check --probe --allow-writes %s", f.customer)
	case f.customer == "" && f.yes:
		return usage.Errorf("--yes needs --allow-writes CUSTOMER, because only that asks: omit --yes, or name the test customer")
	case f.customer != "": // its proof is kept
		return a.with(ctx, a.open, func(s *session.Session) error { return a.probe(ctx, s, f) })
	}
	return a.openAndCheck(ctx, f)
}

// openAndCheck runs the checks with the ledger, or with a temporary one if there is none yet.
func (a *app) openAndCheck(ctx context.Context, f checkFlags) (err error) {
	cfg, err := a.loadToCheck()
	if err != nil {
		return err
	}
	if cfg.Node != nil {
		return a.with(ctx, a.openChecked, func(s *session.Session) error {
			if f.probe {
				return a.probe(ctx, s, f)
			}
			return a.check(ctx, s, []finding{a.checkRole(),
				tell("key", "that of the account opens with the key-encryption key", nil),
				tell("ledger", "both hash chains hold", s.Ledger.Integrity(ctx))})
		})
	}
	machine := append(checkSecrets(cfg), checkSpace(cfg))
	path, exists := cfg.Ledger.Path, true
	if _, none := os.Lstat(path); errors.Is(none, fs.ErrNotExist) {
		exists = false
		dir, making := os.MkdirTemp("", "payersync-check-")
		if making != nil {
			return fmt.Errorf("the check needs a temporary folder: %w; set TMPDIR to a writable one", making)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		cfg.Ledger.Path = filepath.Join(dir, filepath.Base(path))
	}
	s, err := a.openWhole(ctx, cfg, false)
	if err != nil {
		return err
	}
	defer s.Close()
	if f.probe {
		return a.probe(ctx, s, f)
	}
	if !exists {
		return a.check(ctx, s, append(machine, tell("ledger", "there is none yet; the first run makes "+path, mayMake(path))))
	}
	ledger := tell("ledger", "whole, both hash chains hold", s.Ledger.Integrity(ctx))
	return a.check(ctx, s, slices.Concat(machine, []finding{ledger}, a.checkBackups(ctx, s)))
}

// openChecked is open for checks, without changes to the ledger.
func (a *app) openChecked(ctx context.Context) (*session.Session, error) {
	cfg, err := a.loadToCheck()
	if err != nil {
		return nil, err
	}
	return a.openWhole(ctx, cfg, false)
}

// mayMake reports obstacles to creating a file in a run.
func mayMake(path string) error {
	if err := mayMakeIn(filepath.Dir(path)); err != nil {
		return fmt.Errorf("the folder does not exist, and payersync cannot make it: %w; give its parent folder to the user of payersync, or name another place in ledger.path", err)
	}
	return nil
}

// finding is one line of the preflight.
type finding struct {
	Check   string `json:"check"`
	OK      bool   `json:"ok"`
	Warning bool   `json:"warning"` // nothing is kept from working yet
	Detail  string `json:"detail"`
	Next    string `json:"next"` // the next step, unless all is well
}

func (a *app) check(ctx context.Context, s *session.Session, machine []finding) error {
	configured := fmt.Sprintf("%s, %s", a.config, connector.Plural(len(s.Config.Connections), "connection"))
	report := checkReport{app: a}
	report.add(tell("configuration", configured, nil))
	report.add(machine...)
	for _, c := range s.Config.Connections {
		report.add(checkConnection(ctx, s, c)...)
		report.add(checkTwoWay(ctx, s, c)...)
		report.add(checkWriteback(ctx, s, c)...)
	}
	report.add(checkConsents(ctx, s)...)
	report.add(a.checkAlerts(ctx, s)...)
	report.add(a.checkLetters(ctx, s.Config)...)
	report.add(a.checkLetterFolder(ctx, s)...)
	report.add(checkPages(ctx, s)...)
	report.add(inPatience(ctx, "billing service",
		func(ctx context.Context) []finding { return []finding{checkBilling(ctx, s)} })...)
	report.add(inPatience(ctx, "dialect", func(ctx context.Context) []finding { return checkDialect(ctx, s) })...)
	report.add(checkClock(s)...)
	report.add(a.checkWebhook(ctx, s)...)
	report.add(inPatience(ctx, "webhook subscription",
		func(ctx context.Context) []finding { return checkSubscription(ctx, s) })...)
	if report.err == nil && report.failed {
		return exitError(exitFailed)
	}
	return report.err
}

// checkReport prints findings as they come: a hanging check follows the last of them.
type checkReport struct {
	*app
	failed bool
	err    error // of printing
}

func (r *checkReport) add(findings ...finding) {
	for _, f := range findings {
		r.failed = r.failed || !f.OK
		if !f.OK && f.Next == "" {
			f.Next = nextOf(f.Check)
		}
		if r.JSON() {
			r.err = errors.Join(r.err, show.JSON(r.Out, f))
			continue
		}
		mark := r.Toned(show.Good, "ok  ")
		switch {
		case !f.OK:
			mark = r.Toned(show.Bad, "FAIL")
		case f.Warning:
			mark = r.Toned(show.Alert, "warn")
		}
		r.Hanging(fmt.Sprintf("%s  %-22s ", mark, f.Check), f.Detail)
		if f.Next != "" {
			r.Hanging(fmt.Sprintf("%-28s ", ""), "To do: "+f.Next)
		}
	}
}

func tell(check, detail string, err error) finding {
	if err != nil {
		return finding{Check: check, Detail: errorText(err)}
	}
	return finding{Check: check, OK: true, Detail: detail}
}

// checkConnection probes a source, reads it whole and maps it, without keeping
// anything.
func checkConnection(ctx context.Context, s *session.Session, c config.Connection) []finding {
	probed, well := probeSource(ctx, s, c)
	if !well {
		return probed
	}
	conn, err := s.Source(ctx, c)
	if err == nil {
		conn.Mapping, err = session.LoadMapping(c.Mapping, conn.Info, s.Config.Billing.Dialect.Dialect)
	}
	if err != nil {
		return append(probed, tell("connection "+c.Name, "", err))
	}
	return append(probed, readWhole(ctx, s.Config.Billing.Dialect.Dialect, c, conn)...)
}

// checkTwoWay says whether a connection links only, as the newest plan found or as it is
// configured.
func checkTwoWay(ctx context.Context, s *session.Session, c config.Connection) []finding {
	name := "two_way " + c.Name
	found, err := health.Present(ctx, s.Ledger, health.Expected{
		Has: func(of string) bool { return of == c.Name }, TwoWay: s.Config.FindsTwoWay,
	}, health.TwoWay)
	switch {
	case err != nil:
		return []finding{tell(name, "", err)}
	case len(found) > 0:
		return []finding{{Check: name, OK: true, Warning: true, Detail: found[0].Sentence, Next: found[0].Next}}
	case c.TwoWay == string(syncer.TwoWayLinkOnly):
		return []finding{tell(name, "links customers and neither creates nor changes any, as configured", nil)}
	}
	return nil
}

// probe tests a source, if it supports that, and reports whether all of it is well.
func probeSource(ctx context.Context, s *session.Session, c config.Connection) (findings []finding, well bool) {
	source, err := s.OpenSource(ctx, c)
	if err != nil {
		return []finding{tell("source "+c.Name, "", err)}, false
	}
	p, ok := source.(prober)
	if !ok {
		return nil, true
	}
	well = true
	for _, found := range p.Probe(ctx) {
		findings = append(findings,
			finding{Check: "source " + c.Name, OK: found.OK, Detail: found.Name + ": " + found.Detail})
		well = well && found.OK
	}
	return findings, well
}

func readWhole(ctx context.Context, dialect billing.Dialect, c config.Connection, conn syncer.Connection) []finding {
	records, included, refused, cut := 0, 0, 0, 0
	var why error // the first record the mapping failed for
	for page, err := range conn.Source.Customers(ctx, time.Time{}) {
		if err != nil {
			return []finding{tell("source "+c.Name, "", err)}
		}
		for _, r := range page.Records {
			records++
			if r.Problem != "" {
				refused++
				continue
			}
			if r.State != connector.RecordActive { // the mapping is not asked about it
				continue
			}
			res, err := conn.Mapping.Apply(r)
			switch {
			case err != nil:
				why = cmp.Or(why, err)
				refused++
			case res.Included && len(res.Customer.Problems()) > 0:
				refused++
			case res.Included:
				included++
				if len(dialect.NotCarried(res.Customer)) > 0 {
					cut++
				}
			}
		}
	}
	detail := fmt.Sprintf("%s: %d would be customers, %d on hold, the rest is excluded",
		connector.Plural(records, "record"), included, refused)
	var nobody error
	if included == 0 && why != nil {
		nobody = fmt.Errorf("none of %s can be sent; the first waits because: %w", connector.Plural(records, "record"), why)
	}
	held := "its examples hold"
	if cut > 0 {
		held += "; " + notCarried(cut)
	}
	mapped := tell("mapping "+c.Name, held, conn.Mapping.CheckExamples())
	if key := conn.Mapping.KeyName(); mapped.OK && dialect.ExternalData == "object" && !billing.IsConnectorType(key) {
		mapped.Warning = true
		mapped.Detail += fmt.Sprintf("; with dialect.external_data: object the key is sent as the connector type %s, and services with that shape are known to accept XERO and QUICKBOOKS", key)
		mapped.Next = "ask the provider whether it takes " + key +
			"; if not, set billing.dialect.external_data: map, or name the key after the accounting system it comes from"
	}
	return []finding{tell("source "+c.Name, detail, nobody), mapped}
}

// notCarried reports the number of customers with values that the dialect cannot write.
func notCarried(customers int) string {
	return fmt.Sprintf("the country of %s is not sent, because the short spelling of addresses has none: "+
		"if the service takes the long one, set billing.dialect.address_fields: long",
		connector.Plural(customers, "customer"))
}

// checkConsents says until when each consent holds, and warns when half of its
// time has passed unused (fault F29).
func checkConsents(ctx context.Context, s *session.Session) []finding {
	consents, err := s.ConsentRows(ctx)
	if err != nil {
		return []finding{tell("consents", "", err)}
	}
	var out []finding
	for _, c := range consents {
		detail := consentText(c)
		found, bad := health.Consent(c, s.Ledger.Now())
		if bad {
			detail = conditionText(found)
		}
		out = append(out, finding{Check: "consent " + c.Connection, OK: !bad, Detail: detail})
	}
	return out
}

// checkPatience is how long a check waits for the billing service. A run waits longer, and tries
// again.
const checkPatience = 20 * time.Second

// inPatience runs a check against the billing service, and gives up without an answer.
func inPatience(ctx context.Context, name string, check func(context.Context) []finding) []finding {
	ctx, done := context.WithTimeout(ctx, checkPatience)
	defer done()
	found := check(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return []finding{tell(name, "",
			fmt.Errorf("the service took the connection or the request and gave no whole answer within %s; "+
				"check billing.base_url, a proxy in between, and whether the service is up", checkPatience))}
	}
	return found
}

// checkBilling asks for a token and one page of customers.
func checkBilling(ctx context.Context, s *session.Session) finding {
	for page, err := range s.Billing.Customers(ctx) {
		if err != nil {
			f := tell("billing service", "", explainFault(err))
			if errors.As(err, new(*credentials.ReconnectError)) {
				f.Next = "payersync connect billing"
			}
			return f
		}
		return tell("billing service",
			fmt.Sprintf("credentials accepted, the first page lists %s", connector.Plural(len(page), "customer")), nil)
	}
	return tell("billing service", "credentials accepted, there are no customers yet", nil)
}

// maxSkew is the largest harmless difference of two clocks: webhooks carry the time of the service.
const maxSkew = time.Minute

// checkClock compares this computer's clock with the billing service's, if an answer gave its time.
func checkClock(s *session.Session) []finding {
	ahead, known := s.HTTP.Skew()
	switch {
	case !known:
		return nil
	case ahead.Abs() <= maxSkew:
		return []finding{tell("clock", "agrees with the billing service's", nil)}
	}
	way := "behind"
	if ahead < 0 {
		way = "ahead of"
	}
	return []finding{tell("clock", "",
		fmt.Errorf("this computer's clock is %s %s that of the billing service, and it may refuse webhooks for their time; set the clock, or let the network set it (timedatectl set-ntp true)", ahead.Abs(), way))}
}

// explainFault adds the next step to a fault a person can correct.
func explainFault(err error) error {
	if connector.FaultOf(err) == connector.FaultUnavailable {
		if failed := (*transport.Error)(nil); errors.As(err, &failed) && failed.Reason == transport.ReasonProxy {
			return fmt.Errorf("%w; check http.proxy, its password, and whether the proxy lets the billing service's host through", err)
		}
		return fmt.Errorf("%w; check billing.base_url and the network", err)
	}
	return err
}

// prober is a source with a test for `payersync check`.
type prober interface {
	Probe(ctx context.Context) []accounting.Probe
}
