package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/syncer"
	"payersync/state"
)

// load reads the configuration of --config with all secrets, for requests to other systems. It refuses a
// paused account, for all commands.
func (a *app) load() (*config.Config, error) {
	cfg, err := a.loadToCheck()
	if err != nil || cfg.Node == nil {
		return cfg, err
	}
	return cfg, a.node.atWork()
}

// loadToCheck is load for payersync check, which also checks a paused account.
func (a *app) loadToCheck() (*config.Config, error) { return a.loadWith(a.getenv) }

// loadLocal reads the configuration for what stays on this machine: nobody looks at its
// secrets, so none has to be there.
func (a *app) loadLocal() (*config.Config, error) { return a.loadWith(nil) }

// loadWith chooses the configuration: the file's, or, for a node's file, that of the chosen account.
func (a *app) loadWith(getenv func(string) (string, bool)) (*config.Config, error) {
	if config.IsNode(a.config) {
		return a.node.load(getenv)
	}
	if a.account != "" {
		return nil, usage.Errorf("--account is for the configuration of a node, and %s is that of one account; omit it, or name another file with --config", a.config)
	}
	cfg, err := config.Load(a.config, getenv)
	if err != nil {
		return nil, usage.Mistake{Err: err}
	}
	return cfg, nil
}

// ledgerOptions are the options for opening a ledger. A long migration shows its progress.
func (a *app) ledgerOptions() state.Options {
	progress := show.NewProgress(a.ErrOut, a.now)
	return state.Options{Now: a.now, Server: a.node.connected(), Migrating: func(percent int) {
		if a.Quiet {
			return
		}
		if progress.Show(syncer.Progress{Stage: "migrate", Done: percent, Total: 100}); percent == 100 {
			progress.End()
		}
	}}
}

// openLedger opens the ledger alone, for commands without requests to other systems.
func (a *app) openLedger(ctx context.Context) (*session.Session, error) {
	cfg, err := a.loadLocal()
	if err != nil {
		return nil, err
	}
	return a.warnFound(session.Open(ctx, cfg, a.ledgerOptions()))
}

// openWithSecrets is openLedger for commands that use the configuration's secrets.
func (a *app) openWithSecrets(ctx context.Context) (*session.Session, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	return a.warnFound(session.Open(ctx, cfg, a.ledgerOptions()))
}

// openReport is openLedger for output without sealed values: it needs no key, and writes nothing.
func (a *app) openReport(ctx context.Context) (*session.Session, error) {
	cfg, err := a.loadLocal()
	if err != nil {
		return nil, err
	}
	return a.warnFound(a.openToLook(ctx, cfg))
}

// openToLook is openReport for a loaded configuration.
func (a *app) openToLook(ctx context.Context, cfg *config.Config) (*session.Session, error) {
	o := a.ledgerOptions()
	o.Keyless, o.Brief = true, true
	return session.Open(ctx, cfg, o)
}

// warnFound reports the findings about an opened ledger.
func (a *app) warnFound(s *session.Session, err error) (*session.Session, error) {
	if err == nil && s.FoundText() != "" {
		a.Print("Warning: %s", s.FoundText())
	}
	return s, err
}

// open opens the ledger and the client of the billing service, with a log for a watching person: warnings, or
// with --verbose everything.
func (a *app) open(ctx context.Context) (*session.Session, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	return a.openWhole(ctx, cfg, true)
}

// openWhole is open for a loaded configuration. With note it updates the ledger's facts about its billing
// account.
func (a *app) openWhole(ctx context.Context, cfg *config.Config, note bool) (*session.Session, error) {
	s, err := a.warnFound(session.Open(ctx, cfg, a.ledgerOptions()))
	if err != nil {
		return nil, err
	}
	if err := s.Ledger.WaitForIntegrity(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, s.OpenBilling(ctx, a.ErrOut, a.watched(), note)
}

// openAny is open for what has to do with the account itself at the billing service,
// whichever the ledger belongs to.
func (a *app) openAny(ctx context.Context) (*session.Session, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	s, err := a.warnFound(session.Open(ctx, cfg, a.ledgerOptions()))
	if err != nil {
		return nil, err
	}
	if err := s.Ledger.WaitForIntegrity(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, s.OpenAnyBilling(a.ErrOut, a.watched())
}

// watched returns the log level for a watching person.
func (a *app) watched() config.Log {
	how := config.Log{Level: "warning", Format: "text"}
	if a.verbose {
		how.Level = "debug"
	}
	return how
}

// with opens a command's resources, passes them to do, and closes them.
func (a *app) with(ctx context.Context, open func(context.Context) (*session.Session, error),
	do func(*session.Session) error) error {
	s, err := open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return errors.Join(do(s), damage(s))
}

// runs returns the run of a command that works with what open opens.
func (a *app) runs(open func(context.Context) (*session.Session, error),
	do func(context.Context, *session.Session, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.with(cmd.Context(), open, func(s *session.Session) error { return do(cmd.Context(), s, args) })
	}
}

// damage returns the damage found in a ledger meanwhile: earlier output may be wrong.
func damage(s *session.Session) error {
	_, err := s.Ledger.IntegrityKnown()
	return err
}
