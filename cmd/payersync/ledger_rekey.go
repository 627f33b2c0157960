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
		Long: `Seals everything in the ledger with a new key, which it makes, or takes from a file, and
puts in the place of ledger.key_file. The old key is kept beside it as KEY.old: backups
from before open with it alone. Keep it with them, apart from the ledger, or destroy both.

Stop payersync serve first; while it is at work, or a run is, nothing is done, and they
do not start meanwhile. Whatever it is interrupted by, the same command goes on. At the
end every value is opened with the new key, and none is left that the old one opens.

Names and e-mail addresses of the billing service's customers are known by keyed hashes
alone, which the next sweep makes anew: no new customer is created before that list has
been read twice.

After a backup from before was put back together with its own key, --new-key with the
newer key brings it to that.`,
		Example: "  payersync ledger rekey\n  payersync ledger rekey --new-key /run/keys/payersync.key --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.newSealingKey(cmd.Context(), newKey, yes)
		},
	}
	c.Flags().StringVar(&newKey, "new-key", "", "a `FILE` with the new key, as payersync init makes one; left out, one is made")
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
	a.Say("Everything sealed in %s would be sealed with a new key. Backups from before open with the old one alone, which is kept.", show.Visible(cfg.Ledger.Path))
	if yes, err = a.Confirms(ctx, yes, "cannot change the sealing key without a yes, so nothing was done", "Shall the ledger have a new key?"); err != nil {
		return err
	}
	if !yes {
		a.Say("Nothing was done.")
		return a.Result(r)
	}
	done, err := state.Rekey{NewKey: newKey, By: state.Entry{Actor: actor(), Action: "new sealing key"}}.Rekey(ctx, state.Options{Path: cfg.Ledger.Path, KeyFile: cfg.Ledger.KeyFile, Now: a.now})
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
		a.Say("A change of the key that was interrupted is done.")
	}
	a.Say("%s opened with the new key in %s, and nothing with the old one.", connector.Plural(done.Boxes, "value"), show.Visible(r.KeyFile))
	a.Say("The old key is in %s. Backups from before need it: move it to where it is kept for them, apart from the ledger, and copy the new key to where you keep that one. With the last of those backups destroy it.", show.Visible(r.OldKey))
	a.Say("The next sync learns anew what payers look like, and sweeps read the service's list, before anything new is created.")
	return a.Result(r)
}
