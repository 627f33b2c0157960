package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector/health"
	"payersync/state/files"
)

// checkSecrets says no other user reads the secrets: a configuration or a secret's file with wrong
// permissions is refused before this.
func checkSecrets(cfg *config.Config) []finding {
	secrets := tell("secrets", "no other user of this machine may read the configuration's, or the key", nil)
	if key, ledger := filepath.Dir(cfg.Ledger.KeyFile), filepath.Dir(cfg.Ledger.Path); !sameFolder(key, ledger) {
		return []finding{secrets, tell("key", "apart from the ledger, in "+key, nil)}
	}
	return []finding{secrets, {
		Check: "key", OK: true, Warning: true,
		Detail: fmt.Sprintf("%s lies beside the ledger, so anybody with a copy of the folder can read everything",
			cfg.Ledger.KeyFile),
		Next: "keep the key in another folder, out of every backup of the ledger, and name it in ledger.key_file",
	}}
}

func sameFolder(a, b string) bool {
	one, oneErr := os.Stat(a)
	other, otherErr := os.Stat(b)
	return oneErr == nil && otherErr == nil && os.SameFile(one, other)
}

// checkRole describes the permissions of a node's role on the tables.
func (a *app) checkRole() finding {
	if a.node.server.OwnsTables() {
		return finding{Check: "role", OK: true, Warning: true, Detail: ownsTables,
			Next: "make a second role for nodes; nothing is kept from working until then"}
	}
	return tell("role", "that of ledger.postgres reads and writes rows, and cannot change tables or policies", nil)
}

// backupAge is the maximum age of the last backup, whatever the schedule.
const backupAge = 7 * 24 * time.Hour

// checkBackups says when the last backup was made, and whether the next can be.
func (a *app) checkBackups(ctx context.Context, s *session.Session) []finding {
	const check = "backup"
	last, err := lastDone(ctx, s, backupJob)
	if err != nil {
		return []finding{tell(check, "", err)}
	}
	made := finding{Check: check, OK: true, Detail: "the last was made on " + show.Time(last)}
	if last.IsZero() {
		made.Detail = "none was ever made"
	}
	folder := s.Config.Backup.Folder
	if made.Warning = a.now().Sub(last) > backupAge; made.Warning {
		made.Next = "payersync serve makes one by schedules.backup; payersync ledger backup makes one now"
	}
	if folder == "" || s.Config.Schedules.Backup == "" {
		if made.Warning {
			made.Next = "name a folder on another disk in backup.folder, for one each night while payersync serve runs; or make them with payersync ledger backup FOLDER"
		}
		return []finding{made}
	}
	late, err := health.Present(ctx, s.Ledger, a.expected(s), health.JobFailed, health.JobOverdue)
	if err != nil {
		return []finding{tell(check, "", err)}
	}
	if i := slices.IndexFunc(late, func(c health.Condition) bool { return c.Subject == backupJob }); i >= 0 {
		made.OK, made.Warning, made.Detail, made.Next = false, false, late[i].Sentence, late[i].Next
	}
	if err := mayMakeIn(folder); err != nil {
		return []finding{made, tell("backup.folder", "", fmt.Errorf("no backup can be made in %s: %w", folder, err))}
	}
	return []finding{made}
}

// mayMakeIn reports whether this user may make files in a folder.
func mayMakeIn(path string) error {
	folder, err := files.OpenFolder(path)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // nothing was written
	return unix.Access(folder.Path(), unix.W_OK|unix.X_OK)
}

// The necessary free space beside the ledger: for its log in the worst hour of a backfill, or it soon accepts
// no writes; and for a backup, which is a whole copy.
const leastFree = 64 << 20 // bytes

// checkSpace checks the free space in the ledger's folder.
func checkSpace(cfg *config.Config) finding {
	folder := filepath.Dir(cfg.Ledger.Path)
	var disk unix.Statfs_t
	if err := unix.Statfs(folder, &disk); err != nil {
		return tell("disk", "", fmt.Errorf("cannot find out the free space in %s: %w; check that the folder exists", folder,
			err))
	}
	size := uint64(0)
	if info, err := os.Stat(cfg.Ledger.Path); err == nil {
		size = uint64(info.Size()) //nolint:gosec // a file's size is not negative
	}
	return judgeSpace(folder, disk.Bavail*uint64(disk.Bsize), size) //nolint:gosec // nor is a block's
}

// judgeSpace says whether the free bytes are enough for a ledger of that size.
func judgeSpace(folder string, free, size uint64) finding {
	little := fmt.Sprintf("%s free in %s, for a ledger of %s", humanize.IBytes(free), folder, humanize.IBytes(size))
	switch {
	case free < leastFree:
		return finding{Check: "disk", Detail: little,
			Next: fmt.Sprintf("make room: below %s the ledger may soon take nothing more, and deliveries are then refused",
				humanize.IBytes(leastFree))}
	case free < leastFree+size:
		return finding{Check: "disk", OK: true, Warning: true, Detail: little,
			Next: "make room: there is not enough for a copy of the ledger, which a backup needs beside it"}
	}
	return tell("disk", "there is room for the ledger and a copy of it in "+folder, nil)
}

// whatToDo holds the next step after a failed check, if the failure itself does not say it.
var whatToDo = map[string]string{
	"backup":               "see payersync status, and make one by hand: payersync ledger backup",
	"backup.folder":        "make the folder, give it to the user of payersync, or name another in backup.folder",
	"ledger":               "stop payersync, keep the file as it is, see payersync ledger verify, and put the last backup back with payersync ledger restore",
	"source":               "look at the connection's source in the configuration, and whether this machine reaches it",
	"connection":           "correct the named line: a run uses no mapping with a mistake",
	"mapping":              "correct the named line, and see payersync mapping check",
	"billing service":      "look at billing in the configuration, and whether this machine reaches the service",
	"dialect":              "see the finding about the billing service above: without its answer this stays unknown",
	"webhook":              "look at billing.webhook in the configuration",
	"webhook subscription": "see whether it is meant; payersync webhooks subscribe subscribes again",
	"consents":             "see payersync status",
	"consent":              "give it anew with payersync connect",
}

// nextOf returns the next step after a failed check.
func nextOf(check string) string {
	kind, _, _ := strings.Cut(check, " ")
	return cmp.Or(whatToDo[check], whatToDo[kind])
}
