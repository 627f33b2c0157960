package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/connector/worker"
	"payersync/state"
	"payersync/state/backups"
)

func (a *app) ledgerCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "ledger",
		Short: "Care for the ledger: backups, verification, forgetting payers, a new key",
		Long: `The ledger is one file with everything that payersync knows, plans and did. These
commands maintain it: back it up during operation, restore it, verify it, forget a
payer or export the payer's data on request, erase old data, and change the sealing
key. None of them asks another system. A backup does not contain the sealing key:
store it elsewhere.`,
		Example: "  payersync ledger backup /mnt/backups\n  payersync ledger verify\n  payersync ledger export C0001 --file C0001.json\n  payersync ledger forget C0001 --reason 'ticket 88'",
	}
	return subcommands(c, a.ledgerBackupCmd(), a.ledgerRestoreCmd(), a.ledgerVerifyCmd(),
		also(a.ledgerForgetCmd(), "undo", a.ledgerUnforgetCmd()), a.ledgerExportCmd(), a.ledgerRekeyCmd(),
		a.ledgerRetainCmd(), a.ledgerCopyCmd())
}

// backupJob is a backup's name among the jobs of serve, whoever makes it.
const backupJob = "backup"

// backupReport is the output of `ledger backup --output json`.
type backupReport struct {
	backups.Backup
	KeyFile string `json:"key_file"` // not part of the backup
}

func (a *app) ledgerBackupCmd() *cobra.Command {
	var recipients []string
	var recipientsFile string
	keep := -1
	c := &cobra.Command{
		Use:   "backup [FILE|FOLDER]",
		Short: "Make a backup of the ledger while others write to it",
		Long: `Writes the ledger as of one moment to a file, readable only by you. It verifies the
file before it gives it its final name. In a folder (backup.folder, unless you name
another) the name gives the ledger and the time in UTC; --keep removes the oldest
ones. It never overwrites a file.

With recipients it encrypts the backup with age (https://age-encryption.org) as it
writes: no plain copy exists at any time. Without recipients, sealed data stays sealed
in the backup, but ids, keys, statuses and times are readable.

The backup does not contain the sealing key. Nobody can read sealed data without it:
keep a copy of the key, apart from the backups.`,
		Example: "  payersync ledger backup\n  payersync ledger backup /mnt/backups --keep 30\n  payersync ledger backup --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runLedgerBackup(cmd, args, recipients, recipientsFile, keep)
		},
	}
	c.Flags().IntVar(&keep, "keep", keep,
		"how many backups of this ledger are kept in the folder, 0 for all (default backup.keep)")
	c.Flags().Lookup("keep").DefValue = "" // the configuration's
	c.Flags().StringArrayVar(&recipients, "recipient", nil,
		"encrypt for this public `KEY` of age or ssh; may be given again (default backup.recipients)")
	c.Flags().StringVar(&recipientsFile, "recipients-file", "",
		"encrypt for the public keys in this `FILE`, one in a line")
	return c
}

func (a *app) runLedgerBackup(cmd *cobra.Command, args, recipients []string, recipientsFile string, keep int) error {
	readers, err := readRecipients(recipients, recipientsFile)
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("keep") && keep < 0 {
		return usage.Errorf("--keep is how many backups are kept; 0 keeps all")
	}
	return a.with(cmd.Context(), a.openLedger, func(s *session.Session) error {
		if err := ofFile(s.Config, "make a backup"); err != nil {
			return err
		}
		o, err := a.backupOptions(s)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			o.Target = args[0]
		}
		if info, err := os.Stat(o.Target); keep >= 0 && (err != nil || !info.IsDir()) {
			return usage.Errorf("--keep counts the backups in a folder, and %s is none", o.Target)
		}
		if o.Target == "" {
			return usage.Errorf("there is no place for a backup; name a folder or a file, or set backup.folder in the configuration")
		}
		if len(readers) > 0 {
			o.Recipients = readers
		}
		if keep >= 0 {
			o.Keep = keep
		}
		return a.backup(cmd.Context(), s, o)
	})
}

func readRecipients(texts []string, file string) (out []backups.Recipient, err error) {
	for _, text := range texts {
		r, err := backups.ParseRecipient(text)
		if err != nil {
			return nil, usage.Errorf("--recipient: %w", err)
		}
		out = append(out, r)
	}
	if file == "" {
		return out, nil
	}
	data, err := os.ReadFile(file) //nolint:gosec // the operator names it; what is no public key is refused
	if err != nil {
		return nil, usage.Errorf("the file of recipients cannot be read: %w; name it with --recipients-file", err)
	}
	more, err := backups.ParseRecipients(data)
	if err != nil {
		return nil, usage.Errorf("%s cannot be used: %w", file, err)
	}
	return append(out, more...), nil
}

// ofFile refuses acts possible only for a ledger in a file.
func ofFile(cfg *config.Config, what string) error {
	if cfg.Node != nil {
		return fmt.Errorf("cannot %s: %w", what, state.ErrNoFile)
	}
	return nil
}

// backupOptions are those of the configuration.
func (a *app) backupOptions(s *session.Session) (backups.Config, error) {
	b := s.Config.Backup
	readers, err := b.Readers()
	target := b.Folder
	if target != "" {
		target += "/" // do not create a file in place of a missing folder: its disk may not be mounted
	}
	return backups.Config{Target: target, Keep: b.Keep, Recipients: readers, KeyFile: s.Config.Ledger.KeyFile,
		Now: a.now}, err
}

// backup makes a backup for a person.
func (a *app) backup(ctx context.Context, s *session.Session, o backups.Config) error {
	progress := show.NewProgress(a.ErrOut, a.now)
	o.Watch = func(at backups.Progress) {
		progress.Show(syncer.Progress{Stage: at.Stage, Done: at.Done, Total: at.Total})
	}
	res, err := backups.Make(ctx, s.Ledger, o)
	progress.End()
	if err == nil && (s.Config.Backup.Folder == "" || sameFolder(filepath.Dir(res.Path), s.Config.Backup.Folder)) {
		err = noteBackup(ctx, s)
	}
	if err != nil {
		return err
	}
	encrypted := "not encrypted as a whole"
	if res.Encrypted {
		encrypted = "encrypted for " + connector.Plural(len(o.Recipients), "key")
	}
	a.Print("Backed up to %s: %s, %s.", res.Path, humanize.IBytes(uint64(res.Bytes)), encrypted) //nolint:gosec // a file's size is not negative
	a.Print("It holds %s, and is whole.", res.Facts)
	if len(res.Removed) > 0 {
		a.Print("Removed %s of before, to keep %d.", connector.Plural(len(res.Removed), "backup"), o.Keep)
	}
	a.Print("The sealing key %s is not in it. Nobody can read sealed data without that key: keep a copy of it elsewhere.",
		s.Config.Ledger.KeyFile)
	if list := state.ForgottenList(s.Config.Ledger.Path); there(list) {
		a.Print("Nor is %s: without it an older copy brings payers back that were forgotten since. Keep a copy of it, too.",
			list)
	}
	for _, w := range res.Warnings {
		a.Print("Warning: %s", w)
	}
	return a.Result(backupReport{res, s.Config.Ledger.KeyFile})
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// noteBackup stores that a person made a backup in the folder of serve's, so it counts like them. The person
// saw a failure, and it does not count against the schedule.
func noteBackup(ctx context.Context, s *session.Session) error {
	return s.Ledger.Do(ctx, func(tx *state.Tx) error {
		return errors.Join(tx.BeginJob(backupJob), tx.EndJob(backupJob, state.JobEnd{Outcome: string(worker.Done)}))
	})
}

// backupNow makes the backup of a schedule.
func (a *app) backupNow(ctx context.Context, s *session.Session) error {
	o, err := a.backupOptions(s)
	if err != nil {
		return err
	}
	res, err := backups.Make(ctx, s.Ledger, o)
	if err != nil {
		return err
	}
	s.Log.WithFields(logrus.Fields{"file": res.Path, "bytes": res.Bytes, "encrypted": res.Encrypted, "payers": res.Payers,
		"removed": len(res.Removed)}).Info("backup made")
	for _, w := range res.Warnings {
		s.Log.Warn(w)
	}
	return nil
}

// openBackup opens a backup for reading.
func openBackup(path, identity string) (*backups.File, error) {
	var ids []backups.Identity
	if identity != "" {
		var err error
		if ids, err = backups.ReadIdentities(identity); err != nil {
			return nil, usage.Mistake{Err: err}
		}
	}
	return backups.OpenFile(path, ids)
}

// verifyReport is the output of `ledger verify --output json`.
type verifyReport struct {
	File      string `json:"file"`
	Encrypted bool   `json:"encrypted"`
	OK        bool   `json:"ok"`
	state.Facts
	Damage []state.Damage `json:"damage"`
}

func (a *app) ledgerVerifyCmd() *cobra.Command {
	var identity string
	c := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Verify the ledger, or a backup, and report all damage",
		Long: `Runs SQLite's integrity check, and looks for rows that refer to missing rows. It
follows the chains of the audit log and the mandate history, compares every mandate
with its history, and opens all sealed data. It names rows by their ids, and shows no
personal value. It changes nothing. It decrypts an encrypted backup in memory, never
onto a disk.

Exit status 1 means damage: keep the file as it is, and restore the last good backup.`,
		Example: "  payersync ledger verify\n  payersync ledger verify /mnt/backups/payersync-k3v7q2ab-20261123T033000Z.db.age --identity key.txt",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.with(cmd.Context(), a.openLedger,
					func(s *session.Session) error { return a.verifyLedger(cmd.Context(), s) })
			}
			return a.verifyBackup(cmd.Context(), args[0], identity)
		},
	}
	c.Flags().StringVar(&identity, "identity", "", "the secret key of age or ssh in this `FILE`, for an encrypted backup")
	return c
}

func (a *app) verifyLedger(ctx context.Context, s *session.Session) error {
	path, _ := s.Ledger.Path()
	return a.verify(ctx, verifyReport{File: path}, s.Ledger)
}

func (a *app) verifyBackup(ctx context.Context, path, identity string) error {
	cfg, err := a.loadLocal()
	if err != nil {
		return err
	}
	if err := ofFile(cfg, "look through a backup"); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil { // SQLite must not be opened beside by any other way (fault F66)
		if own, err := os.Stat(cfg.Ledger.Path); err == nil && os.SameFile(info, own) {
			return a.with(ctx, a.openLedger, func(s *session.Session) error { return a.verifyLedger(ctx, s) })
		}
	}
	f, err := openBackup(path, identity)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	c, err := state.OpenCopy(ctx, path, f, f.Size, cfg.Ledger.KeyFile, false)
	if err != nil {
		return err
	}
	return errors.Join(a.verify(ctx, verifyReport{File: path, Encrypted: f.Encrypted}, c), c.Close())
}

// ledgerFile is a ledger or a copy of one.
type ledgerFile interface {
	Verify(ctx context.Context, watch func(state.CheckProgress)) ([]state.Damage, error)
	Facts(ctx context.Context) (state.Facts, error)
}

func (a *app) verify(ctx context.Context, r verifyReport, of ledgerFile) (err error) {
	if r.Damage, err = of.Verify(ctx, a.checkProgress()); err != nil {
		return err
	}
	if r.Facts, err = of.Facts(ctx); err != nil && len(r.Damage) == 0 {
		return err
	}
	r.OK = len(r.Damage) == 0
	if a.JSON() {
		if r.OK {
			r.Damage = []state.Damage{}
		}
		err = show.JSON(a.Out, r)
	} else {
		a.showVerified(r)
	}
	if err == nil && !r.OK {
		return exitError(exitFailed)
	}
	return err
}

func (a *app) showVerified(r verifyReport) {
	if r.OK {
		fmt.Fprintf(a.Out, "%s is whole: %s; both hash chains hold, and everything sealed opens.\n", r.File, r.Facts)
		return
	}
	fmt.Fprintf(a.Out, "%s is damaged:\n", r.File)
	rows := connector.Map(r.Damage, func(d state.Damage) []string { return []string{d.Check, d.Row, d.Problem} })
	show.Table(a.Out, []string{"Check", "Row", "Damage"}, rows)
	fmt.Fprintln(a.Out, "\nKeep the file as it is, and restore the last good backup: payersync ledger restore FILE")
}

// checkProgress shows how far a look through a ledger is.
func (a *app) checkProgress() func(state.CheckProgress) {
	progress := show.NewProgress(a.ErrOut, a.now)
	return func(at state.CheckProgress) {
		progress.Show(syncer.Progress{Stage: at.Check, Done: at.Done, Total: at.Total})
		if at.Total > 0 && at.Done == at.Total {
			progress.End()
		}
	}
}

// restoreReport is the output of `ledger restore --output json`.
type restoreReport struct {
	File   string `json:"file"`
	Path   string `json:"path"` // of the ledger
	DryRun bool   `json:"dry_run"`
	Done   bool   `json:"done"`
	state.Restored
}

func (a *app) ledgerRestoreCmd() *cobra.Command {
	var identity, reason string
	var another, dryRun, yes bool
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup in the ledger's place",
		Long: `First verifies the backup: it must be whole, open with the sealing key, and belong to
this ledger and to no newer payersync. Then it puts the backup in the ledger's place
in one step. The old files stay beside it, unchanged, under a name that the command
prints. If the command is interrupted, either nothing has happened, or the next
command finishes the restore.

It refuses while payersync serve, a run, or any other program has the ledger open.
From then on the ledger counts as restored. payersync creates nothing until it has
read the service's list anew, and for some more time (lookup.quarantine), because
later requests are missing from the backup. The audit log keeps your name and the
reason.`,
		Example: "  payersync ledger restore /mnt/backups/payersync-k3v7q2ab-20261123T033000Z.db --dry-run\n" +
			"  payersync ledger restore backup.db.age --identity key.txt --reason 'the disk failed'",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.loadLocal()
			if err == nil {
				err = ofFile(cfg, "restore a backup")
			}
			if err != nil {
				return err
			}
			f, err := openBackup(args[0], identity)
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			return a.restore(cmd.Context(), time.Duration(cfg.Lookup.Quarantine), state.Restoring{
				Path: cfg.Ledger.Path, KeyFile: cfg.Ledger.KeyFile, Name: args[0], From: f, Size: f.Size, Another: another,
				DryRun: dryRun, Actor: actor(), Reason: reason, Now: a.now, Watch: a.checkProgress(),
			}, yes)
		},
	}
	c.Flags().StringVar(&identity, "identity", "", "the secret key of age or ssh in this `FILE`, for an encrypted backup")
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&another, "another", false, "the backup may be of another ledger than the present one")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "verify the backup, show the effects, and change nothing")
	c.Flags().BoolVar(&yes, "yes", false, "restore it without a question")
	return c
}

func (a *app) restore(ctx context.Context, quarantine time.Duration, r state.Restoring, yes bool) error {
	report := restoreReport{File: r.Name, Path: r.Path, DryRun: r.DryRun}
	look := r
	look.DryRun = true
	var err error
	report.Restored, err = state.Restore(ctx, look)
	if errors.Is(err, state.ErrUnfinished) && !r.DryRun {
		report.Restored, err = state.Restore(ctx, r)
	}
	if err != nil {
		return explainRestore(err)
	}
	if report.Finished {
		report.Done = true
		a.Print("The command finished an interrupted restore, and did nothing else. The old files are kept in %s.",
			strings.Join(report.Kept, ", "))
		return a.Result(report)
	}
	a.Print("%s is whole and holds %s.", r.Name, report.Facts)
	if report.Lost > 0 {
		a.Print("The present ledger has newer writes, until %s: they would be lost.",
			connector.Plural(int(report.Lost), "time"))
	}
	if r.DryRun {
		a.Print("Nothing was changed.")
		return a.Result(report)
	}
	if ok, err := a.Confirms(ctx, yes, "The ledger was not restored",
		fmt.Sprintf("Put it in the place of %s?", r.Path)); err != nil {
		return err
	} else if !ok {
		a.Print("Nothing was changed.")
		return a.Result(report)
	}
	if report.Restored, err = state.Restore(ctx, r); err != nil {
		return explainRestore(err)
	}
	report.Done = true
	a.Print("Restored %s. payersync creates nothing until it has read the service's list anew, and for %s more. payersync sweep looks up the requests sent since the backup.", r.Path, quarantine)
	if len(report.Kept) > 0 {
		a.Print("The old files are kept in %s; remove them when nobody needs them any more.", strings.Join(report.Kept, ", "))
	}
	if err := a.opens(ctx); err != nil { // brings it to the newest schema, too
		return fmt.Errorf("the backup is in its place and cannot be used: %w", err)
	}
	return a.Result(report)
}

// opens reports whether the ledger can be written to.
func (a *app) opens(ctx context.Context) error {
	return a.with(ctx, a.openLedger, func(s *session.Session) error { return s.Ledger.Ping(ctx) })
}

// explainRestore adds the next step after a refused restore.
func explainRestore(err error) error {
	next := ""
	switch {
	case errors.Is(err, state.ErrAnotherLedger):
		next = "; check that it is the right file, and add --another if so"
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("cannot restore the ledger: %w%s", err, next)
}
