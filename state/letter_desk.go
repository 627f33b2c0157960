package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"payersync/connector"
)

// LetterStop keeps letters from some, or from all.
type LetterStop struct {
	ID        int64
	Scope     string // payer, address, connection or all
	RecordID         // the connection alone for a connection; zero for all and for an address
	Recipient string // keyed hash of an address
	Why       string // person, opted_out, bounced, pause or brake
	UntilOn   string // the first day on which it holds no more, as YYYY-MM-DD; "" for ever
	Note      string
	Actor     string
	Since     time.Time
}

// The scopes of a stop.
const (
	StopPayer      = "payer"
	StopAddress    = "address"
	StopConnection = "connection"
	StopAll        = "all"
)

// Why letters are stopped.
const (
	StopPerson   = "person"
	StopOptedOut = "opted_out"
	StopBounced  = "bounced"
	StopPause    = "pause"
	StopBrake    = "brake"
)

// AddLetterStop keeps a stop; the same one that holds already is not kept twice.
func (tx *Tx) AddLetterStop(s LetterStop) error {
	until := sql.NullString{String: s.UntilOn, Valid: s.UntilOn != ""}
	err := tx.exec(`INSERT INTO letter_stops (scope, connection, source_id, recipient, why, until_on, note, actor, since)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE NOT EXISTS (SELECT 1 FROM letter_stops
		  WHERE ended_at IS NULL AND scope = ?1 AND connection = ?2 AND source_id = ?3 AND recipient = ?4 AND why = ?5 AND until_on IS NOT DISTINCT FROM ?6)`,
		s.Scope, s.Connection, s.SourceID, s.Recipient, s.Why, until, s.Note, s.Actor, stamp(tx.now))
	return connector.Wrap(err, "stop letters")
}

// AddressWord is a permanent fact about an address: it wants no letters, or does not exist.
type AddressWord struct {
	Recipient string // keyed hash of the address
	Why       string // StopOptedOut or StopBounced
}

// AddressWords returns all decisions on addresses, including reverted ones.
func (l *Ledger) AddressWords(ctx context.Context) ([]AddressWord, error) {
	words, err := list(ctx, l,
		"SELECT DISTINCT recipient, why FROM letter_stops WHERE scope = 'address' AND (why = 'opted_out' OR why = 'bounced') ORDER BY recipient, why", nil,
		func(w *AddressWord) []any { return []any{&w.Recipient, &w.Why} })
	return words, connector.Wrap(err, "read what was said of addresses")
}

// EndLetterStop takes a stop back.
func (tx *Tx) EndLetterStop(id int64) error {
	return connector.Wrap(tx.exec("UPDATE letter_stops SET ended_at = ? WHERE stop_id = ? AND ended_at IS NULL",
		stamp(tx.now), id), "take a stop of letters back")
}

// LetterStops returns the active stops, in order of creation. One whose day has come holds no more:
// see [LetterStop.Holds].
func (l *Ledger) LetterStops(ctx context.Context) ([]LetterStop, error) {
	type row struct {
		LetterStop
		until, since sql.NullString
	}
	rows, err := list(ctx, l,
		"SELECT stop_id, scope, connection, source_id, recipient, why, until_on, note, actor, since FROM letter_stops WHERE ended_at IS NULL ORDER BY stop_id", nil, func(r *row) []any {
			return []any{&r.ID, &r.Scope, &r.Connection, &r.SourceID, &r.Recipient, &r.Why, &r.until, &r.Note, &r.Actor,
				&r.since}
		})
	if err != nil {
		return nil, fmt.Errorf("read who is not to be written to: %w", err)
	}
	out := make([]LetterStop, len(rows))
	for i, r := range rows {
		out[i], out[i].UntilOn = r.LetterStop, r.until.String
		if out[i].Since, err = parseTime(r.since); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Holds reports whether the stop holds on a day, written as YYYY-MM-DD.
func (s LetterStop) Holds(day string) bool { return s.UntilOn == "" || s.UntilOn > day }

// BouncedSince returns how many nonexistent addresses were found since a time, or since the last
// brake was released, if later.
func (l *Ledger) BouncedSince(ctx context.Context, since time.Time) (n int, err error) {
	err = l.queryRow(ctx, `SELECT count(*) FROM letter_stops WHERE why = 'bounced' AND since > ?1
		AND since > coalesce((SELECT max(ended_at) FROM letter_stops WHERE why = 'brake'), '')`, stamp(since)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the letters that came back: %w", err)
	}
	return n, nil
}

// ApprovedLetter is a letter approved by a person.
type ApprovedLetter struct {
	Setup     string
	MandateID string
	Step      int
	Recipient string
}

// ApproveLetters notes that a person has approved letters of a setup. If whole is set, the approval
// also covers later letters from the next day on. batch is the hash of the shown letters.
func (tx *Tx) ApproveLetters(setup, batch string, whole bool, letters []ApprovedLetter, by Entry) error {
	var id int64
	if err := tx.row([]any{&id},
		"INSERT INTO letter_approvals (setup, batch, whole, letters, actor, reason, at) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING approval_id",
		setup, batch, whole, len(letters), by.Actor, by.Reason, stamp(tx.now)); err != nil {
		return fmt.Errorf("approve letters: %w", err)
	}
	for _, t := range letters {
		if err := tx.exec("INSERT INTO letter_approved (approval_id, mandate_id, step, recipient) VALUES (?, ?, ?, ?)", id,
			t.MandateID, t.Step, t.Recipient); err != nil {
			return fmt.Errorf("approve letters: %w", err)
		}
	}
	return nil
}

// ApprovedSince reports whether somebody has let a batch go since a time.
func (tx *Tx) ApprovedSince(batch string, since time.Time) (bool, error) {
	var n int
	if err := tx.row([]any{&n}, "SELECT count(*) FROM letter_approvals WHERE batch = ? AND at >= ?", batch,
		stamp(since)); err != nil {
		return false, fmt.Errorf("find out who approved letters: %w", err)
	}
	return n > 0, nil
}

// LetterApprovals are people's approvals.
type LetterApprovals struct {
	Setups  map[string]time.Time         // when letters of a setup were first approved
	Letters map[ApprovedLetter]time.Time // when a letter was last approved
}

// LetterApprovals returns people's approvals.
func (l *Ledger) LetterApprovals(ctx context.Context) (out LetterApprovals, err error) {
	out = LetterApprovals{map[string]time.Time{}, map[ApprovedLetter]time.Time{}}
	type setup struct {
		setup string
		at    sql.NullString
	}
	if err := each(ctx, l, "SELECT setup, min(at) FROM letter_approvals WHERE whole = 1 GROUP BY setup", nil,
		func(r *setup) []any { return []any{&r.setup, &r.at} }, func(r setup) (err error) {
			out.Setups[r.setup], err = parseTime(r.at)
			return err
		}); err != nil {
		return out, err
	}
	type letter struct {
		ApprovedLetter
		at sql.NullString
	}
	err = each(ctx, l, `SELECT b.setup, a.mandate_id, a.step, a.recipient, max(b.at) FROM letter_approved a JOIN letter_approvals b ON b.approval_id = a.approval_id
		GROUP BY b.setup, a.mandate_id, a.step, a.recipient`, nil,
		func(r *letter) []any { return []any{&r.Setup, &r.MandateID, &r.Step, &r.Recipient, &r.at} },
		func(r letter) (err error) {
			out.Letters[r.ApprovedLetter], err = parseTime(r.at)
			return err
		})
	return out, err
}

// LetterAddress is the address at which a payer was last written to, or would have been.
type LetterAddress struct {
	RecordID
	Recipient string
	ChangedAt time.Time // when it came to be another one; zero for never
}

// LetterAddresses returns the addresses that were noted, by payer.
func (l *Ledger) LetterAddresses(ctx context.Context) (map[RecordID]LetterAddress, error) {
	type row struct {
		LetterAddress
		at sql.NullString
	}
	out := map[RecordID]LetterAddress{}
	err := each(ctx, l, "SELECT connection, source_id, recipient, changed_at FROM letter_addresses", nil,
		func(r *row) []any {
			return []any{&r.Connection, &r.SourceID, &r.Recipient, &r.at}
		}, func(r row) (err error) {
			r.ChangedAt, err = parseTime(r.at)
			out[r.RecordID] = r.LetterAddress
			return err
		})
	return out, err
}

// NoteLetterAddress notes the address at which a payer is written to from now on.
func (tx *Tx) NoteLetterAddress(id RecordID, recipient string) error {
	err := tx.exec(`INSERT INTO letter_addresses AS a (connection, source_id, recipient) VALUES (?1, ?2, ?3)
		ON CONFLICT (connection, source_id) DO UPDATE SET recipient = excluded.recipient, changed_at = ?4 WHERE a.recipient <> excluded.recipient`,
		id.Connection, id.SourceID, recipient, stamp(tx.now))
	return connector.Wrap(err, "note where a payer is written to")
}

// JournalLetter is a letter in the journal beside the ledger.
type JournalLetter struct {
	MessageID string
	Recipient string
	At        time.Time
}

// JournalLetters returns the letters known from the journal alone.
func (l *Ledger) JournalLetters(ctx context.Context) ([]JournalLetter, error) {
	return l.journalLetters(ctx, "")
}

func (l *Ledger) journalLetters(ctx context.Context, which string) ([]JournalLetter, error) {
	type row struct {
		JournalLetter
		at sql.NullString
	}
	rows, err := list(ctx, l, "SELECT message_id, recipient, at FROM letter_journal "+which+" ORDER BY at, message_id",
		nil, func(r *row) []any { return []any{&r.MessageID, &r.Recipient, &r.at} })
	if err != nil {
		return nil, err
	}
	out := make([]JournalLetter, len(rows))
	for i, r := range rows {
		out[i] = r.JournalLetter
		if out[i].At, err = parseTime(r.at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// journalOnlyLetters returns the letters known only from the journal, and not sent again since, by their
// message.
func (l *Ledger) journalOnlyLetters(ctx context.Context) (map[string]JournalLetter, error) {
	told, err := l.journalLetters(ctx,
		`WHERE NOT EXISTS (SELECT 1 FROM letters t WHERE t.message_id = letter_journal.message_id
		AND (t.state = 'sent' OR t.state = 'unclear' OR t.state = 'sending'))`)
	if err != nil || len(told) == 0 {
		return nil, err
	}
	return connector.By(told, func(t JournalLetter) string { return t.MessageID }), nil
}

// SaveJournalLetter stores a letter from the journal.
func (tx *Tx) SaveJournalLetter(t JournalLetter) error {
	return connector.Wrap(tx.exec("INSERT INTO letter_journal (message_id, recipient, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", t.MessageID, t.Recipient, stamp(t.At)), "note a letter of the journal")
}

// LetterDesk is where letters leave from.
type LetterDesk struct {
	Ledger     string    // the ledger's identity
	Journal    string    // the id of the journal; "" while there is none
	RestoredAt time.Time // when the ledger was last restored, or found to be put back; zero for never
	GoneOn     time.Time // the restore after which a person said to go on; zero for none
	GoneOnAt   time.Time // when a person last said to go on, after whatever; zero for never
	LookedAt   time.Time // when letters were last looked for, by a clock that could be right
	RenewedAt  time.Time // when old links were last fetched again; zero for never
	Waiting    int       // letters that waited for a person then
	WaitsSince time.Time
	Brake      string // why nothing left then; "" for nothing
	BrakeSince time.Time

	Folder     string    // the word that the folder of the journal must show; "" while no node wrote one
	FolderNode string    // the node that wrote it
	FolderAt   time.Time // when it did
}

// LetterDesk returns the facts about it.
func (l *Ledger) LetterDesk(ctx context.Context) (d LetterDesk, err error) {
	var restored, gone, goneAt, looked, renewed, waits, brake, folder sql.NullString
	if err := l.queryRow(ctx,
		`SELECT g.identity, d.journal, g.restored_at, d.restored, d.gone_on_at, d.looked_at, d.renewed_at, d.waiting, d.waits_since, d.brake, d.brake_since, d.folder, d.folder_node, d.folder_at FROM letter_desk d, ledger g`).
		Scan(&d.Ledger, &d.Journal, &restored, &gone, &goneAt, &looked, &renewed, &d.Waiting, &waits, &d.Brake, &brake,
			&d.Folder, &d.FolderNode, &folder); err != nil {
		return d, fmt.Errorf("read what is known of letters: %w", err)
	}
	return d, parseTimes(map[*time.Time]sql.NullString{&d.RestoredAt: restored, &d.GoneOn: gone, &d.GoneOnAt: goneAt,
		&d.LookedAt: looked, &d.RenewedAt: renewed, &d.WaitsSince: waits, &d.BrakeSince: brake, &d.FolderAt: folder})
}

// NoteLetterLook notes what a look for letters found: how many wait for a person, and why
// nothing leaves. clock is whether the clock could be right.
func (tx *Tx) NoteLetterLook(waiting int, brake string, clock bool) error {
	err := tx.exec(`UPDATE letter_desk SET looked_at = CASE WHEN ?1 = 1 THEN ?2 ELSE looked_at END,
		waits_since = CASE WHEN ?3 = 0 THEN NULL WHEN waiting = 0 THEN ?2 ELSE waits_since END, waiting = ?3,
		brake_since = CASE WHEN ?4 = '' THEN NULL WHEN brake = '' THEN ?2 ELSE brake_since END, brake = ?4`, clock,
		stamp(tx.now), waiting, brake)
	return connector.Wrap(err, "note what a look for letters found")
}

// NoteLettersWaiting notes how many letters wait for a person from now on, between two looks.
func (tx *Tx) NoteLettersWaiting(waiting int) error {
	err := tx.exec("UPDATE letter_desk SET waits_since = CASE WHEN ?1 = 0 THEN NULL WHEN waiting = 0 THEN ?2 ELSE waits_since END, waiting = ?1", waiting, stamp(tx.now))
	return connector.Wrap(err, "note how many letters wait")
}

// NoteLinksRenewed notes that old links are fetched again now.
func (tx *Tx) NoteLinksRenewed() error {
	return connector.Wrap(tx.exec("UPDATE letter_desk SET renewed_at = ?", stamp(tx.now)),
		"note that old signing links are fetched again")
}

// GoOnWithLetters notes a person's decision to continue, with this journal, after the known
// restore, by the present clock.
func (tx *Tx) GoOnWithLetters(journal string) error {
	return connector.Wrap(tx.exec("UPDATE letter_desk SET journal = ?1, restored = (SELECT restored_at FROM ledger), gone_on_at = ?2, looked_at = ?2", journal, stamp(tx.now)), "note that letters go on")
}

// SetLetterFolder stores the present word in the journal's folder, and the node that wrote it
// there.
func (tx *Tx) SetLetterFolder(word, node string) error {
	return connector.Wrap(tx.exec("UPDATE letter_desk SET folder = ?, folder_node = ?, folder_at = ?", word, node,
		stamp(tx.now)), "note the folder of the journal of letters")
}

// SetLetterJournal notes which journal was begun.
func (tx *Tx) SetLetterJournal(id string) error {
	return connector.Wrap(tx.exec("UPDATE letter_desk SET journal = ?", id), "note the journal of letters")
}

// LetterSources is the time of a connection's last complete reading, and its source.
type LetterSources struct {
	ReadAt  time.Time // zero for never
	Mapping string    // the mapping version of that run
	Source  string    // what the connection is bound to
	State   string    // active, disconnected or parked
	Problem string    // of its mapping file; "" for none
}

// LetterSources returns the connections.
func (l *Ledger) LetterSources(ctx context.Context) (map[string]LetterSources, error) {
	type row struct {
		LetterSources
		name string
		at   sql.NullString
	}
	out := map[string]LetterSources{}
	err := each(ctx, l, `SELECT c.name, c.state, c.source_kind || ' ' || c.tenant_id, n.finished_at, coalesce(n.mapping_version, ''), coalesce(c.mapping_problem, '') FROM connections c
		LEFT JOIN runs n ON n.run_id = (SELECT max(x.run_id) FROM runs x WHERE x.connection = c.name AND x.kind <> 'plan' AND x.finished_at IS NOT NULL AND x.read_kind <> '' AND x.outcome <> 'failed')`,
		nil, func(r *row) []any { return []any{&r.name, &r.State, &r.Source, &r.at, &r.Mapping, &r.Problem} },
		func(r row) (err error) {
			r.ReadAt, err = parseTime(r.at)
			out[r.name] = r.LetterSources
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read when the accounting system was last read: %w", err)
	}
	return out, nil
}
