package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// unchecked are the columns with undetectable changes: SQLite has no page checksums, and these are in no
// index, or of some rows only, under no CHECK, sealed or chained. In all other columns a flipped bit is
// reported.
var unchecked = []string{
	"ledger.ticket", "ledger.restored_at", "ledger.identity", "ledger.commits", "ledger.put_back_at",
	"ledger.billing_address",
	"ledger.billing_credentials", "ledger.config_problem", "ledger.config_problem_since", "ledger.restart_needed",
	"ledger.clock_back_at", "ledger.carried", "ledger.carried_at", "ledger.carried_place",
	"ledger.doubt", "ledger.doubt_of", "ledger.doubt_over", "ledger.indexed_to",
	"source_records.unfit", "source_records.wanted_hash", "source_records.plan_flags",
	"connections.source_kind", "connections.tenant_id", "connections.tenant_name", "connections.parked_until",
	"connections.updated_at",
	"connections.described", "connections.proved_at", "connections.proved_by", "connections.mapping_problem",
	"connections.mapping_problem_since", "connections.profile", "connections.profile_met",
	"connections.profile_edited_at",
	"mapping_versions.author", "mapping_versions.saved_at",
	"runs.holder", "runs.lease_until", "runs.started_at", "runs.finished_at", "runs.error", "runs.pulled",
	"runs.unchanged", "runs.excluded",
	"runs.created", "runs.adopted", "runs.updated", "runs.links_requested", "runs.held", "runs.failed", "runs.waiting",
	"runs.echoes", "runs.pages",
	"runs.passes", "runs.repeats", "runs.undone", "runs.retry_at",
	"cursors.value",
	"source_records.content_hash", "source_records.origin", "source_records.planned_hash",
	"source_records.planned_mapping",
	"source_records.updated_at", "source_records.source_time", "source_records.given_up", "source_records.given_up_of",
	"source_records.asking_word", "source_records.not_asked_line", "source_records.not_asked_condition",
	"source_records.contested",
	"source_records.missed", "source_records.rests", "source_records.retried_at", "source_records.same_as",
	"source_records.unreadable", "source_records.unseen",
	"payers.applied_hash", "payers.read_digest", "payers.mandate_id", "payers.updated_at", "payers.drained_at",
	"payers.likeness", "payers.let_be_of", "payers.let_be", "payers.stays_at",
	"payers.stays_word", "payers.answered_at", "payers.confirmed_at", "payers.moves_name", "payers.moves_value",
	"payers.parted", "payers.seen_at",
	"payers.shown_at", "payers.shows", "payers.stays_with", "payers.unlink_at", "payers.unlink_from",
	"attention.reason", "attention.detail", "attention.since",
	"plans.hash", "plans.mapping_version", "plans.created_at", "plans.creates", "plans.adopts", "plans.updates",
	"plans.links", "plans.holds",
	"plans.alike", "plans.limits", "plans.approved_by", "plans.approved_at", "plans.rejected_by", "plans.rejected_at",
	"plans.rejected_why",
	"plans.lost", "plans.missing", "plans.released", "plans.profile",
	"changes.change_hash", "changes.wanted_hash", "changes.blanks", "changes.identity", "changes.approved",
	"changes.left_out", "changes.billing_id",
	"changes.attempts", "changes.frozen_at", "changes.reason", "changes.detail", "changes.updated_at", "changes.ended_at",
	"changes.scopes",
	"changes.unlinks",
	"attempts.key_name", "attempts.key_value", "attempts.ticket", "attempts.sent_at", "attempts.over",
	"attempts.end_ticket", "attempts.billing_id",
	"attempts.connection", "attempts.source_id",
	"apart.said_at",
	"likenesses.hash", "likenesses.payer_id",
	"labels.mapping", "labels.digest",
	"tombstones.holds", "tombstones.marks", "tombstones.said_at", "tombstones.record",
	"passes.started_at", "passes.finished_at", "passes.ids", "passes.ids_hash", "passes.lacking", "passes.pass_id",
	"passes.ticket", "passes.unread",
	"remote_customers.key_values", "remote_customers.digest", "remote_customers.listed_at", "remote_customers.ticket",
	"remote_customers.known_pass", "remote_customers.read_at",
	"remote_profiles.digest", "remote_profiles.mandate_status", "connections.matched_to",
	"duplicate_customers.score", "duplicate_customers.reasons", "duplicate_customers.since",
	"mandates.status_since", "mandates.service_time", "mandates.first_seen_at", "mandates.last_seen_at",
	"mandates.link_at", "mandates.link_refused", "mandates.listed",
	"inbox.attempts", "inbox.detail", "inbox.next_attempt", "inbox.processed_at", "inbox.repeats", "inbox.mandate_id",
	"inbox.type_header", "inbox.received_at", "inbox.billing_id", "inbox.event_type",
	"inbox_counts.event_type", "inbox_counts.deliveries", "inbox_counts.first_at", "inbox_counts.last_at",
	"jobs.begun_at", "jobs.ended_at", "jobs.done_at", "jobs.parked_until", "jobs.problem",
	"subscription.known", "subscription.known_of", "subscription.expected", "subscription.shown", "subscription.shown_at",
	"subscription.detail",
	"subscription.problem_since",
	"two_way.found_at", "two_way.customers", "two_way.matching", "two_way.example", "two_way.in_force", "two_way.since",
	"two_way.echoes",
	"two_way.connection",
	"create_stops.connection", "create_stops.other", "create_stops.customers", "create_stops.records",
	"create_stops.since", "create_stops.finished_at", "create_stops.finished_by",
	"unclaimed_keys.connection", "unclaimed_keys.billing_id", "unclaimed_keys.key", "unclaimed_keys.ticket",
	"sign_in_attempts.wrong", "sign_in_attempts.wait_until",
	"put_off.at", "put_off.until", "put_off.word",
	"webhook_refusals.day", "webhook_refusals.requests", "webhook_refusals.first_at", "webhook_refusals.last_at",
	"two_way_echoes.at", "two_way_echoes.connection", "two_way_echoes.source_id",
	"webhook_rotations.begun_at", "webhook_rotations.begun_by", "webhook_rotations.secret_at", "webhook_rotations.done_at",
	"webhook_rotations.refused_at", "webhook_rotations.rotation_id",
	"financial_statuses.listed", "financial_statuses.seen_at",
	"round_trips.at", "round_trips.subject", "round_trips.survived", "round_trips.lost", "round_trips.address",
	"round_trips.sure",
	"round_trips.trip_id", "round_trips.way",
	"alarm_messages.attempts", "alarm_messages.digest", "alarm_messages.next_attempt", "alarm_messages.problem",
	"alarm_messages.refused",
	"alarm_messages.sent_at",
	"alarms.code", "alarms.connection", "alarms.noticed_at", "alarms.since", "alarms.subject", "alarms.text",
	"alarms.urgent", "alarms.way",
	"budgets.day_start", "budgets.day_used", "budgets.minute_start", "budgets.minute_used", "budgets.parked_until",
	"handovers.actor", "handovers.mandate_id", "handovers.noted_at", "handovers.sent_on",
	"letter_addresses.changed_at",
	"letter_approvals.actor", "letter_approvals.at", "letter_approvals.batch", "letter_approvals.letters",
	"letter_approvals.reason",
	"letter_approvals.whole",
	"letter_approved.mandate_id", "letter_approved.recipient", "letter_approved.step",
	"letter_desk.brake", "letter_desk.brake_since", "letter_desk.folder", "letter_desk.folder_at",
	"letter_desk.folder_node", "letter_desk.gone_on_at", "letter_desk.journal", "letter_desk.looked_at",
	"letter_desk.renewed_at",
	"letter_desk.restored", "letter_desk.waiting", "letter_desk.waits_since",
	"letter_journal.at", "letter_journal.message_id", "letter_journal.recipient",
	"letter_stops.actor", "letter_stops.connection", "letter_stops.ended_at", "letter_stops.note",
	"letter_stops.recipient", "letter_stops.since",
	"letter_stops.source_id", "letter_stops.stop_id", "letter_stops.until_on",
	"letters.answer", "letters.attempts", "letters.deferrals", "letters.digest", "letters.frozen_at", "letters.kind",
	"letters.language",
	"letters.looked_at", "letters.sending_at", "letters.setup", "letters.word",
	"tokens.broken", "tokens.expires_at", "tokens.failures", "tokens.generation", "tokens.lease_holder",
	"tokens.lease_until", "tokens.reconnect_by",
	"tokens.refreshed_at", "tokens.retry_at", "tokens.tenant_id", "tokens.tenant_name",
	"users.generation", "users.made_at", "users.password_at",
	"words.reason", "words.said_at", "words.ticket",
	"writeback_approvals.actor", "writeback_approvals.at", "writeback_approvals.batch", "writeback_approvals.payers",
	"writeback_approvals.reason",
	"writeback_runs.at", "writeback_runs.connection", "writeback_runs.problem", "writeback_runs.stuck",
	"writeback_runs.stuck_at",
	"writeback_runs.waiting", "writeback_runs.waits_at", "writeback_runs.written",
	"writebacks.applied_at", "writebacks.approved", "writebacks.attempts", "writebacks.day", "writebacks.day_writes",
	"writebacks.digest",
	"writebacks.echoes", "writebacks.foreign_at", "writebacks.frozen_at", "writebacks.known_at", "writebacks.problem",
	"writebacks.problem_at",
	"writebacks.refused", "writebacks.sent_at", "writebacks.setup", "writebacks.taken", "writebacks.write_id",
}

// dump is every value of every table, by table and column, in the rows' order.
func dump(ctx context.Context, l *Ledger) (map[string][]string, error) {
	tables, err := list(ctx, l,
		"SELECT lower(name) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'goose_%' ORDER BY name",
		nil, func(s *string) []any { return []any{s} })
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, table := range tables {
		columns, err := list(ctx, l, "SELECT lower(name) FROM pragma_table_info(?)", []any{table},
			func(s *string) []any { return []any{s} })
		if err != nil {
			return nil, err
		}
		key, err := list(ctx, l, "SELECT group_concat(name ORDER BY pk) FROM pragma_table_info(?) WHERE pk > 0", []any{table},
			func(s *string) []any { return []any{s} })
		if err != nil {
			return nil, err
		}
		for _, column := range columns {
			name := table + "." + column
			query := fmt.Sprintf("SELECT coalesce(hex(%s), 'NULL') || typeof(%[1]s) FROM %s ORDER BY %s", column, table, key[0])
			if out[name], err = list(ctx, l, query, nil, func(s *string) []any { return []any{s} }); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// readAll opens every sealed value.
func readAll(ctx context.Context, l *Ledger) error {
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	_, err := l.Candidates(ctx, acme, "another mapping", false, "", 1000)
	note(err)
	rows, err := l.Payers(ctx, Filter{})
	note(err)
	for _, r := range rows {
		_, err := l.Payer(ctx, r.Connection, r.SourceID)
		note(err)
		_, err = l.ReadinessOf(ctx, RecordID{r.Connection, r.SourceID})
		note(err)
	}
	for _, pending := range []bool{true, false} {
		for _, lane := range []string{LaneCustomer, LaneMandate} {
			_, err := l.Changes(ctx, acme, lane, pending, 0, 1000)
			note(err)
		}
	}
	inbox, err := l.Inbox(ctx, Filter{})
	note(err)
	for _, r := range inbox {
		_, err := l.DeliveryBody(ctx, r.DeliveryKey)
		note(err)
	}
	_, err = l.MappingVersions(ctx, acme)
	note(err)
	mandates, err := l.Mandates(ctx, Filter{})
	note(err)
	for _, r := range mandates {
		_, err := l.SigningLink(ctx, r.MandateID)
		note(err)
		_, err = l.FailureReasons(ctx, r.MandateID)
		note(err)
	}
	note(l.EachLabel(ctx, 0, func(LabelRow) error { return nil }))
	boxes := verifier{db: l.reader, below: l.below, seal: l.seal}
	note(boxes.run(ctx, []step{{CheckSealed, boxes.sealed}}))
	note(boxes.damage())
	note(openRest(ctx, l))
	return errors.Join(errs...)
}

// openRest opens what the reads above leave out: records with an open change,
// and what changes keep after they were closed.
func openRest(ctx context.Context, l *Ledger) error {
	type sealed struct {
		connection, sourceID, sum string
		id                        int64
		box                       []byte
	}
	var errs []error
	records, err := list(ctx, l, "SELECT connection, source_id, record FROM source_records", nil,
		func(s *sealed) []any { return []any{&s.connection, &s.sourceID, &s.box} })
	errs = append(errs, err)
	for _, s := range records {
		_, err := l.seal.open(s.box, place("source_records", "record", s.connection, s.sourceID))
		errs = append(errs, err)
	}
	for _, column := range []string{"wanted", "diff", "body", "pre_image"} {
		changes, err := list(ctx, l, "SELECT change_id, body_sha256, "+column+" FROM changes", nil,
			func(s *sealed) []any { return []any{&s.id, &s.sum, &s.box} })
		errs = append(errs, err)
		for _, s := range changes {
			plain, err := l.seal.open(s.box, changePlace(column, s.id))
			if column == "body" && s.sum != "" && sha(plain) != s.sum {
				err = errors.New("the frozen bytes do not match their checksum")
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// unlisted are those of the columns that are not known to be vouched for by nothing.
func unlisted(columns []string) (out []string) {
	for _, c := range columns {
		if !slices.Contains(unchecked, c) {
			out = append(out, c)
		}
	}
	return out
}

// fullest closes the ledger and returns the file of one with values in as many columns as possible: the
// product's own writes, a row by hand in every table still empty, and a value in every empty column. It omits
// values refused by the schema.
func (d *desk) fullest() (file []byte) {
	d.t.Helper()
	d.fill(8)
	type column struct{ table, name, kind string }
	columns, err := list(d.t.Context(), d.Ledger,
		`SELECT m.name, c.name, c.type FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'goose_%' AND c.type IN ('TEXT', 'INTEGER')`,
		nil, func(c *column) []any { return []any{&c.table, &c.name, &c.kind} })
	if err := errors.Join(err, d.Close()); err != nil {
		d.t.Fatal(err)
	}
	const at = "2026-03-02T09:00:00.000Z"
	box := func(table, column string, keys ...string) string {
		return fmt.Sprintf("x'%x'", d.seal.box([]byte("[]"), place(table, column, keys...)))
	}
	raw(d.t, d.opts.Path, "PRAGMA foreign_keys = ON",
		"INSERT INTO slots (scope, until) VALUES ('billing', '"+at+"'), ('source', '"+at+"')",
		"INSERT INTO budgets (scope) VALUES ('billing'), ('source')",
		"INSERT INTO tokens (connection, token, generation) VALUES ('acme', "+box("tokens", "token", acme)+", 3)",
		"INSERT INTO jobs (name, outcome) VALUES ('sweep', 'done'), ('watch', 'failed')",
		"INSERT INTO foreign_moves (path, change_id) SELECT 'note', max(change_id) FROM changes",
		"INSERT INTO words (connection, source_id, billing_id, word, ticket, said_at) VALUES ('acme', 'c000', 'b900', 'accept', 3, '"+at+"'), ('acme', 'c001', 'b901', 'spent', 4, '"+at+"')",
		"UPDATE payers SET likeness = '[8]' WHERE source_id = 'c000'",
		"INSERT INTO likenesses (hash, payer_id) SELECT 8, payer_id FROM payers WHERE source_id = 'c000'",
		"INSERT INTO apart (connection, source_id, other_id, said_at) VALUES ('acme', 'c000', 'c001', '"+at+"')",
		"INSERT INTO alarm_messages (message_id, way, made_at, digest, body) VALUES ('a1', 'mail', '"+at+"', 'd', "+box("alarm_messages", "body", "a1")+")",
		"INSERT INTO alarm_messages (message_id, way, made_at, digest, sent_at) VALUES ('a2', 'mail', '"+at+"', 'd', '"+at+"')",
		"INSERT INTO alarms (way, code, subject, connection, urgent, noticed_at, text, over_at, told, over_told) VALUES ('mail', 'run_failed', 'acme', 'acme', 1, '"+at+"', 'A run failed.', '"+at+"', 'a2', 'a2')",
		"INSERT INTO alarms (way, code, subject, connection, urgent, noticed_at, text) VALUES ('mail', 'run_failed', 'acme', 'acme', 0, '"+at+"', 'A run failed.')",
		"INSERT INTO forget_keys (key_id, key) VALUES ('k1', "+box("forget_keys", "key", "k1")+")",
		"INSERT INTO tombstones (record, key_id, holds, marks, said_at, scrubbed) VALUES ('r1', 'k1', 1, '[\"k\"]', '"+at+"', 1)",
		"INSERT INTO letters (mandate_id, step, kind, connection, source_id, recipient, setup, language, message_id, digest, looked_at, frozen_at, state, sending_at, ended_at, body) "+
			"VALUES ('m000', 0, 'invitation', 'acme', 'c000', 'r', 's', 'de', 'l1', 'd', '"+at+"', '"+at+"', 'sent', '"+at+"', '"+at+"', "+box("letters", "body", "l1")+")",
		"INSERT INTO handovers (mandate_id, sent_on, noted_at, actor) VALUES ('m000', '2026-03-02', '"+at+"', 'ada')",
		"INSERT INTO letter_stops (scope, connection, source_id, why, actor, since) VALUES ('payer', 'acme', 'c000', 'person', 'ada', '"+at+"')",
		"INSERT INTO letter_stops (scope, recipient, why, actor, since) VALUES ('address', 'r', 'bounced', 'ada', '"+at+"')",
		"INSERT INTO letter_approvals (setup, batch, whole, letters, actor, at) VALUES ('s', 'b', 1, 3, 'ada', '"+at+"')",
		"INSERT INTO letter_approved (approval_id, mandate_id, step, recipient) VALUES (1, 'm000', 0, 'r')",
		"INSERT INTO letter_addresses (connection, source_id, recipient) VALUES ('acme', 'c000', 'r')",
		"INSERT INTO letter_journal (message_id, recipient, at) VALUES ('l1', 'r', '"+at+"')",
		"INSERT INTO writebacks (connection, source_id, setup, field, wanted, request) VALUES ('acme', 'c000', 's', "+
			box("writebacks", "field", acme, "c000")+", 'active', "+box("writebacks", "request", acme, "c000")+")",
		"INSERT INTO writeback_approvals (connection, setup, batch, payers, actor, at) VALUES ('acme', 's', 'b', 3, 'ada', '"+at+"')",
		"INSERT INTO writeback_runs (connection, at, written, waiting, stuck) VALUES ('acme', '"+at+"', 3, 4, 5)",
		"INSERT INTO round_trips (address, way, made_by, at) VALUES ('https://billing.example', 'w', 'probe', '"+at+"')",
		"INSERT INTO put_off (connection, source_id, reason, at, until, word) VALUES ('acme', 'c000', 'rejected', '"+at+"', '"+at+"', 3)",
		"INSERT INTO webhook_refusals (day, reason, requests, first_at, last_at) VALUES ('2026-03-02', 'signature_failed', 3, '"+at+"', '"+at+"')",
		"INSERT INTO sign_in_attempts (counter, kind, wrong, wait_until, expires_at) VALUES ('h', 'stranger', 3, '"+at+"', '"+at+"')",
		"INSERT INTO two_way (connection) VALUES ('acme')",
		"INSERT INTO create_stops (connection, cause, since) VALUES ('acme', 'first_matching', '"+at+"')",
		"INSERT INTO unclaimed_keys (connection, billing_id, key, ticket) VALUES ('acme', 'b000', 'customerNo=K1', 1)",
		"INSERT INTO two_way_echoes (connection, source_id, at) VALUES ('acme', 'c000', '"+at+"')",
		"INSERT INTO webhook_rotations (begun_at, secret, secret_at, delivery_key, done_at) VALUES ('"+at+"', "+
			box("webhook_rotations", "secret", "1")+", '"+at+"', "+box("webhook_rotations", "delivery_key", "1")+", '"+at+"')",
		"INSERT INTO runs (connection, kind, trigger, mapping_version, holder, lease_until, started_at, finished_at, outcome, read_kind) "+
			"SELECT connection, kind, trigger, mapping_version, holder, lease_until, started_at, '"+at+"', 'complete', 'full' FROM runs",
		"UPDATE attempts SET ended = 'answered', over = 3, end_ticket = 4 WHERE attempt_id IN (SELECT min(attempt_id) FROM attempts GROUP BY action)",
		"UPDATE payers SET accepted = "+box("payers", "accepted", acme, "c000")+", read_values = "+box("payers",
			"read_values", acme, "c000")+", read_digest = 'd' WHERE source_id = 'c000'",
		"UPDATE source_records SET lost_by = (SELECT min(plan_id) FROM plans) WHERE source_id = 'c007'",
		"UPDATE source_records SET forgotten = 'other' WHERE source_id = 'c006'",
		"UPDATE source_records SET given_up = 3 WHERE source_id = 'c007'",
		"UPDATE payers SET let_be = 3, stays_at = 3 WHERE source_id = 'c007'",
		"UPDATE subscription SET problem = 'replaced'",
		"INSERT INTO users (name, role, password, generation, made_at, password_at) VALUES ('ada', 'admin', "+box("users",
			"password", "ada")+", 3, '"+at+"', '"+at+"')",
		"UPDATE ledger SET letter_key = "+box("ledger", "letter_key"),
		"INSERT INTO webhook_rotations (begun_at, refused_at) VALUES ('"+at+"', '"+at+"')",
	)
	db := rawDB(d.t, d.opts.Path)
	_, err = db.ExecContext(d.t.Context(), "PRAGMA foreign_keys = ON")
	for _, c := range columns {
		value := map[string]string{"TEXT": "'" + at + "'", "INTEGER": "3"}[c.kind]
		_, _ = db.ExecContext(d.t.Context(),
			fmt.Sprintf("UPDATE %s SET %s = %s WHERE NOT EXISTS (SELECT 1 FROM %[1]s WHERE %[2]s <> '')", c.table, c.name,
				value))
	}
	if err := errors.Join(err, db.Close()); err != nil {
		d.t.Fatal(err)
	}
	return readFile(d.t, d.opts.Path)
}
