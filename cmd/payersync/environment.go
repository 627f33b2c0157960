package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/admin"
	"payersync/connector/reconcile"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) environmentCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "environment",
		Short: "Show or move the ledger's account of the billing service",
		Long: `Each ledger is tied to one account of the billing service. payersync refuses to use it
with another account. You can rotate credentials freely: it recognises the account by
its customers. If the service's address changes, use move.`,
		Example: "  payersync environment\n  payersync environment move --reason 'the service has a new address'",
	}
	return shows(subcommands(c, also(a.environmentMoveCmd(), "trust", a.environmentTrustCmd())), a.environmentShowCmd())
}

// environmentReport is the output of `environment --output json`.
type environmentReport struct {
	Ledger        state.Account `json:"ledger"` // blank before the first run
	Configuration state.Account `json:"configuration"`
	Same          bool          `json:"same"`
	Evidence      string        `json:"evidence"` // the service's evidence about the ledger's customers
}

func (a *app) environmentShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the ledger's account and the configured one, and whether they are the same",
		Long: `Shows the address and a short hash of the credentials of the ledger's last use, and
the same of the configuration. It also says whether the service has customers of the
ledger. The command changes nothing.`,
		Example: "  payersync environment",
		RunE: a.runs(a.openAny, func(ctx context.Context, s *session.Session, _ []string) error {
			r, found, err := environmentOf(ctx, s)
			if err != nil {
				return err
			}
			return a.showEnvironment(r, found)
		}),
	}
}

// environmentOf looks at both accounts. The facts come from the service.
func environmentOf(ctx context.Context, s *session.Session) (environmentReport, reconcile.Evidence, error) {
	have, err := s.Ledger.Account(ctx)
	if err != nil {
		return environmentReport{}, reconcile.Evidence{}, err
	}
	r := environmentReport{Ledger: have, Configuration: s.Config.Account()}
	found, err := s.Reconciler.Evidence(ctx)
	if err != nil {
		return r, found, fmt.Errorf("cannot look for the ledger's customers: %w", explainFault(err))
	}
	r.Same, r.Evidence = r.Ledger.Same(r.Configuration), found.String()
	return r, found, nil
}

func (a *app) showEnvironment(r environmentReport, found reconcile.Evidence) error {
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	belongs := "It belongs to no account yet: the first run decides."
	if r.Ledger != (state.Account{}) {
		belongs = fmt.Sprintf("It belongs to the billing service at %s.", r.Ledger)
	}
	a.Hanging("Ledger         ", belongs)
	named := "The same address and credentials are configured."
	if !r.Same {
		named = fmt.Sprintf("The billing service at %s is configured.", r.Configuration)
	}
	a.Hanging("Configuration  ", named)
	a.Hanging("Customers      ", show.Sentence(found.String()))
	return nil
}

func (a *app) environmentMoveCmd() *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use:   "move --reason TEXT",
		Short: "Say that the configured address is the ledger's account, under another name",
		Long: `Binds the ledger to the account in the configuration. The command refuses if the
service shows none of the ledger's customers: another account needs a ledger of its
own. Afterwards payersync creates nothing until it has read the service's list anew,
and for some more time (lookup.quarantine), as after a restored backup. The audit log
keeps your name and the reason. Nothing is sent.`,
		Example: "  payersync environment move --reason 'the service moved to eu.example.com'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason == "" {
				return usage.Errorf("moving the ledger takes a reason: --reason 'the service has a new address'")
			}
			return a.with(cmd.Context(), a.openAny, func(s *session.Session) error {
				return a.moveEnvironment(cmd.Context(), s, reason, yes)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&yes, "yes", false, "move it without a question")
	return c
}

func (a *app) moveEnvironment(ctx context.Context, s *session.Session, reason string, yes bool) error {
	r, found, err := environmentOf(ctx, s)
	if err != nil {
		return err
	}
	switch {
	case r.Same:
		a.Print("Nothing to do: the ledger belongs to the billing service at %s already.", r.Ledger)
		return a.Result(r)
	case found.Customer == "" && found.Looked > 0:
		return fmt.Errorf("cannot move the ledger to the billing service at %s: %s; give that account a ledger of its own (ledger.path), or correct billing.base_url",
			r.Configuration, found)
	}
	a.Print("The ledger belongs to %s. At %s, %s.", r.Ledger, r.Configuration, found)
	if ok, err := a.Confirms(ctx, yes, "The ledger was not moved", "Move it?"); err != nil {
		return err
	} else if !ok {
		a.Print("Nothing was moved.")
		return a.Result(r)
	}
	if err := admin.MoveAccount(ctx, s.Ledger, r.Configuration, syncer.Operator{Name: actor(), Reason: reason}); err != nil {
		return err
	}
	a.Print("Moved. Nothing is created before the service's list has been read anew, and for %s more.",
		s.Config.LookupLimits().Quarantine)
	r.Ledger, r.Same = r.Configuration, true
	return a.Result(r)
}

// trustReport is the output of `environment move --trust --output json`.
type trustReport struct {
	Way  string   `json:"way"`  // the settings of the update format
	Lost []string `json:"lost"` // paths damaged by updates; none unless updates are stopped
}

func (a *app) environmentTrustCmd() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "trust --reason TEXT",
		Short: "Say that what updates have changed is right, so that they go on",
		Long: `An update replaces a customer as a whole. If a customer does not show the expected
values afterwards, payersync sends no more updates. If no setting causes this, this
command lets updates go on in the present format. Other values of update,
person_fields, address_fields, external_data or read_only under billing.dialect need
no command: the next update proves them anew. The audit log keeps your name and the
reason. Nothing is sent.`,
		Example: "  payersync environment move --trust --reason 'the service computes the tag with every update'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason == "" {
				return usage.Errorf("trusting updates takes a reason: --reason 'the service computes the tag with every update'")
			}
			return a.with(cmd.Context(), a.openAny,
				func(s *session.Session) error { return a.trustUpdates(cmd.Context(), s, reason) })
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}

func (a *app) trustUpdates(ctx context.Context, s *session.Session, reason string) error {
	way := state.UpdateFormat{Address: s.Config.Account().Address, Spelling: s.Billing.UpdateWay()}
	known, err := s.Ledger.RoundTrip(ctx, way)
	if err != nil {
		return err
	}
	r := trustReport{way.Spelling, slices.Concat([]string{}, state.Paths(known.Disproved()))}
	if len(r.Lost) == 0 {
		a.Print("Nothing to do: updates are not stopped.")
		return a.Result(r)
	}
	if err := admin.TrustUpdates(ctx, s.Ledger, way, syncer.Operator{Name: actor(), Reason: reason}); err != nil {
		return err
	}
	a.Print("Noted. The next run sends updates again, as %s.", way.Spelling)
	return a.Result(r)
}
