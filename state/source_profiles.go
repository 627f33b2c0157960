package state

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"time"

	"payersync/connector"
)

// MeetProfile notes the profile that a run reads a connection's source by, as a hash of its meaning; "" for a source
// without one. It reports whether the profile was edited: then only a person's approval of a plan made with it lets
// scheduled runs go on. The first profile of a connection is no edit. After another profile than at the last run, the
// next read is a full one, because the profile may read unchanged records in another way.
func (tx *Tx) MeetProfile(connection, profile string) (edited bool, err error) {
	if profile == "" {
		return false, nil
	}
	var accepted, met string
	if err := tx.row([]any{&accepted, &met}, "SELECT profile, profile_met FROM connections WHERE name = ?",
		connection); err != nil {
		return false, fmt.Errorf("read the profile of %s: %w", connection, err)
	}
	switch {
	case profile == met:
		return profile != accepted, nil
	case accepted == "":
		return false, tx.exec("UPDATE connections SET profile = ?1, profile_met = ?1 WHERE name = ?2", profile, connection)
	}
	edited = profile != accepted
	if err := tx.exec(`UPDATE connections SET profile_met = ?1,
		profile_edited_at = CASE WHEN profile = ?1 THEN NULL ELSE coalesce(profile_edited_at, ?2) END WHERE name = ?3`,
		profile, stamp(tx.now), connection); err != nil {
		return edited, fmt.Errorf("note the profile of %s: %w", connection, err)
	}
	return edited, tx.exec("DELETE FROM cursors WHERE connection = ?", connection)
}

// editedProfile returns the edited profile that the present run of a connection reads by; "" for one that is accepted.
func (tx *Tx) editedProfile(connection string) (profile string, err error) {
	return profile, tx.row([]any{&profile},
		"SELECT CASE WHEN profile_edited_at IS NULL THEN '' ELSE profile_met END FROM connections WHERE name = ?", connection)
}

// hashEdited extends a plan's hash by the edited profile that made it, so that its approval is one of the profile too.
func hashEdited(profile, hash string) string {
	sum := sha256.Sum256([]byte(profile + "\x00" + hash))
	return hex.EncodeToString(sum[:])
}

// acceptProfile accepts the edited profile that made a plan, with an entry in the audit log.
func (tx *Tx) acceptProfile(plan int64, actor string) error {
	var profile, connection string
	if err := tx.row([]any{&profile, &connection}, "SELECT profile, connection FROM plans WHERE plan_id = ?",
		plan); err != nil || profile == "" {
		return err
	}
	n, err := tx.count(`UPDATE connections SET profile = ?1,
		profile_edited_at = CASE WHEN profile_met = ?1 THEN NULL ELSE profile_edited_at END WHERE name = ?2 AND profile <> ?1`,
		profile, connection)
	if err != nil {
		return fmt.Errorf("accept the profile of %s: %w", connection, err)
	}
	if n == 0 {
		return nil
	}
	return tx.Audit(Entry{Actor: actor, Action: "accept profile", Subject: connection, Reason: profile})
}

// EditedProfile is an edited profile of a connection's source that nobody has accepted yet.
type EditedProfile struct {
	Connection string
	Since      time.Time // of the first run that met it
	Plan       int64     // made with it, and waits for approval; 0 for none
}

// EditedProfiles returns the edited profiles that nobody has accepted yet, by connection.
func (l *Ledger) EditedProfiles(ctx context.Context) ([]EditedProfile, error) {
	type row struct {
		EditedProfile
		since sql.NullString
	}
	rows, err := list(ctx, l, `SELECT c.name, c.profile_edited_at, coalesce((SELECT max(p.plan_id) FROM plans p
		  WHERE p.connection = c.name AND p.profile = c.profile_met AND p.state = 'waiting' AND p.rejected_at IS NULL), 0)
		FROM connections c WHERE c.profile_edited_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM connection_decisions d
		  WHERE d.old_connection = c.name AND d.decision = 'moved') ORDER BY c.name`, nil,
		func(r *row) []any { return []any{&r.Connection, &r.since, &r.Plan} })
	if err != nil {
		return nil, fmt.Errorf("look for edited profiles: %w", err)
	}
	out := make([]EditedProfile, len(rows))
	for i, r := range rows {
		out[i] = r.EditedProfile
		if out[i].Since, err = parseTime(r.since); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// WhyEdited says why a plan made with an edited profile waits.
const WhyEdited = "The profile of the accounting system was edited, so the whole plan waits."

// Steps returns the steps that let the scheduled runs of a connection with an edited profile go on.
func (e EditedProfile) Steps() []connector.Step {
	if e.Plan == 0 {
		return []connector.Step{{Do: connector.DoPlan, Connection: e.Connection}}
	}
	of := fmt.Sprint(e.Plan)
	return []connector.Step{{Do: connector.DoShowPlan, Of: of}, {Do: connector.DoApprovePlan, Of: of}}
}
