package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/state"
)

func (a *app) ledgerRekeyCmd() *cobra.Command {
	var newKey string
	yes := false
	c := &cobra.Command{
		Use:   "rekey [--new-key FILE]",
		Short: "Give the ledger a new sealing key",
		Long: `Seals the whole ledger with a new key. It makes the key, or takes it from a file, and
puts it in the place of ledger.key_file. The old key stays beside it as KEY.old: older
backups open only with that key. Keep it with them, apart from the ledger, or destroy
both.

Stop payersync serve first: the command refuses while serve or a run works, and they
do not start meanwhile. After an interruption, the same command goes on. At the end
every value opens with the new key, and none with the old one.

The ledger knows names and e-mail addresses of the billing service's customers only by
keyed hashes. The next sweep makes these anew. payersync creates no new customer until
it has read that list twice.

If you restored an older backup with its own key, bring it to the newer key with
--new-key.`,
		Example: "  payersync ledger rekey\n  payersync ledger rekey --new-key /run/keys/payersync.key --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.newSealingKey(cmd.Context(), newKey, yes)
		},
	}
	c.Flags().StringVar(&newKey, "new-key", "",
		"a `FILE` with the new key, as payersync init makes one; the default is to make one")
	c.Flags().BoolVar(&yes, "yes", false, "ask no question")
	return c
}

// newKeyReport is the output of `ledger rekey --output json`.
type newKeyReport struct {
	Sealed  int    `json:"sealed_values"`
	Resumed bool   `json:"resumed"`
	KeyFile string `json:"key_file"`
	OldKey  string `json:"old_key_file"`
	Rekeyed bool   `json:"rekeyed"`
}

func (a *app) newSealingKey(ctx context.Context, newKey string, yes bool) error {
	cfg, err := a.loadLocal()
	if err == nil {
		err = ofFile(cfg, "change the sealing key")
	}
	if err != nil {
		return err
	}
	r := newKeyReport{KeyFile: cfg.Ledger.KeyFile}
	a.Print("Everything sealed in %s would be sealed with a new key. Older backups open only with the old one, which is kept.", show.Visible(cfg.Ledger.Path))
	if yes, err = a.Confirms(ctx, yes, "cannot change the sealing key without a yes, so nothing was done",
		"Shall the ledger have a new key?"); err != nil {
		return err
	}
	if !yes {
		a.Print("Nothing was done.")
		return a.Result(r)
	}
	done, err := state.Rekey{NewKey: newKey, By: state.Entry{Actor: actor(), Action: "new sealing key"}}.Rekey(ctx,
		state.Options{Path: cfg.Ledger.Path, KeyFile: cfg.Ledger.KeyFile, Now: a.now})
	switch {
	case errors.Is(err, state.ErrServed):
		return fmt.Errorf("cannot change the sealing key: %w; stop it, and say it again", err)
	case errors.Is(err, state.ErrRunning):
		return fmt.Errorf("cannot change the sealing key: %w; say it again when it has ended", err)
	case err != nil:
		return fmt.Errorf("cannot finish the change of the sealing key: %w", err)
	}
	r.Sealed, r.Resumed, r.OldKey, r.Rekeyed = done.Boxes, done.Resumed, done.OldKey, true
	if done.Resumed {
		a.Print("An interrupted change of the key is finished.")
	}
	a.Print("%s opened with the new key in %s, and nothing with the old one.", connector.Plural(done.Boxes, "value"),
		show.Visible(r.KeyFile))
	a.Print("The old key is in %s. Older backups need it: move it to their keys, apart from the ledger, and copy the new key there too. Destroy the old key with the last of those backups.", show.Visible(r.OldKey))
	a.Print("The next sync learns anew what payers look like, and sweeps read the service's list, before anything new is created.")
	return a.Result(r)
}
