//go:build unix

package state

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"payersync/connector"
)

// unchecked are the columns whose values nothing vouches for: SQLite has no page
// checksums, and these are in no index, under no CHECK, sealed or chained. The
// rest of the ledger is covered: a flipped bit in it is reported.
var unchecked = []string{
	"ledger.ticket", "ledger.restored_at", "ledger.identity", "ledger.commits", "ledger.put_back_at", "ledger.billing_address", "ledger.billing_credentials",
	"ledger.config_problem", "ledger.config_problem_since", "ledger.restart_needed",
	"connections.source_kind", "connections.tenant_id", "connections.tenant_name", "connections.parked_until", "connections.updated_at", "connections.described",
	"mapping_versions.author", "mapping_versions.saved_at",
	"runs.mapping_version", "runs.holder", "runs.lease_until", "runs.started_at", "runs.finished_at", "runs.error",
	"runs.pulled", "runs.unchanged", "runs.excluded", "runs.created", "runs.adopted", "runs.updated", "runs.links_requested", "runs.held", "runs.failed", "runs.waiting", "runs.echoes",
	"cursors.value",
	"source_records.content_hash", "source_records.origin", "source_records.planned_hash", "source_records.planned_mapping", "source_records.updated_at", "source_records.source_time",
	"payers.applied_hash", "payers.mandate_id", "payers.updated_at", "payers.drained_at", "payers.likeness",
	"attention.reason", "attention.detail", "attention.since",
	"plans.hash", "plans.mapping_version", "plans.created_at", "plans.creates", "plans.adopts", "plans.updates", "plans.links", "plans.holds", "plans.alike", "plans.limits",
	"plans.approved_by", "plans.approved_at", "plans.rejected_by", "plans.rejected_at", "plans.rejected_why",
	"changes.change_hash", "changes.wanted_hash", "changes.blanks", "changes.identity", "changes.approved", "changes.left_out", "changes.billing_id",
	"changes.attempts", "changes.frozen_at", "changes.reason", "changes.detail", "changes.updated_at",
	"attempts.key_name", "attempts.key_value", "attempts.ticket", "attempts.sent_at", "attempts.over", "attempts.end_ticket", // in an index while a create is open
	"apart.said_at", "labels.number", "labels.mapping", "labels.digest",
	"tombstones.marks", "tombstones.said_at",
	"passes.started_at", "passes.finished_at", "passes.ids", "passes.ids_hash",
	"remote_customers.key_values", "remote_customers.digest", "remote_customers.listed_at", "remote_customers.ticket",
	"mandates.status_since", "mandates.service_time", "mandates.first_seen_at", "mandates.last_seen_at", "mandates.link_at",
	"inbox.received_at", "inbox.event_type", "inbox.attempts", "inbox.detail", "inbox.next_attempt", "inbox.processed_at", "inbox.repeats", "inbox.mandate_id", "inbox.type_header",
	"jobs.begun_at", "jobs.ended_at", "jobs.done_at", "jobs.parked_until", "jobs.problem",
	"source_records.given_up_of", "payers.let_be_of", "payers.let_be", "payers.stays_word", "subscription.known", "subscription.known_of",
	"two_way.found_at", "two_way.customers", "two_way.matching", "two_way.example", "two_way.in_force", "two_way.since", "two_way.echoes", "two_way_echoes.at",
	"webhook_rotations.begun_at", "webhook_rotations.begun_by", "webhook_rotations.secret_at", "webhook_rotations.done_at", "webhook_rotations.refused_at",
	"financial_statuses.seen_at",
	"round_trips.at", "round_trips.subject", "round_trips.survived", "round_trips.lost",
	"subscription.expected", "subscription.shown", "subscription.shown_at", "subscription.detail", "subscription.problem_since",
}

// dump is every value of every table, by table and column, in the rows' order.
func dump(ctx context.Context, l *Ledger) (map[string][]string, error) {
	tables, err := list(ctx, l, "SELECT lower(name) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'goose_%' ORDER BY name",
		nil, func(s *string) []any { return []any{s} })
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, table := range tables {
		columns, err := list(ctx, l, "SELECT lower(name) FROM pragma_table_info(?)", []any{table}, func(s *string) []any { return []any{s} })
		if err != nil {
			return nil, err
		}
		key, err := list(ctx, l, "SELECT group_concat(name ORDER BY pk) FROM pragma_table_info(?) WHERE pk > 0", []any{table}, func(s *string) []any { return []any{s} })
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
	_, err := l.Candidates(ctx, acme, "another mapping", 0, "", 1000)
	note(err)
	rows, err := l.Payers(ctx, Filter{})
	note(err)
	for _, r := range rows {
		_, err := l.Payer(ctx, r.Connection, r.SourceID)
		note(err)
		_, err = l.StandingOf(ctx, RecordID{r.Connection, r.SourceID})
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

// A ledger with one flipped bit is refused, reported by the integrity check,
// refuses to open the value, or holds what it held. PAYERSYNC_STATE_FLIPS sets
// the number of bits.
//
// covers F63
func TestAFlippedBitIsNeverAWrongAnswer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(24)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	sound := readFile(t, d.opts.Path)
	l := d.another()
	want, err := dump(t.Context(), l)
	if err := errors.Join(err, readAll(t.Context(), l), l.Integrity(t.Context()), l.Close()); err != nil {
		t.Fatalf("the sound ledger: %v", err)
	}

	const seed = 20261123
	random := rand.New(rand.NewPCG(seed, 0))
	found := map[string]int{}
	flips := times(t, "PAYERSYNC_STATE_FLIPS", 80)
	lacks := func() bool { return flips >= 80 && (found["refused"] == 0 || found["reported"] == 0) }
	for n := 0; n < flips || n < 5*flips && lacks(); n++ { // how much of the file is empty depends on the schema
		at, bit := random.IntN(len(sound)), random.IntN(8)
		if random.IntN(8) == 0 {
			at = random.IntN(200) // the header and the schema's root deserve more than their share
		}
		broken := slices.Clone(sound)
		broken[at] ^= 1 << bit
		opts := d.opts
		opts.Path = filepath.Join(t.TempDir(), "payersync.db")
		if err := os.WriteFile(opts.Path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		how, wrong := judge(t, opts, want)
		found[how]++
		if len(wrong) > 0 {
			t.Errorf("seed %d: byte %d, bit %d: %v differ and nothing says so", seed, at, bit, wrong)
		}
	}
	t.Logf("seed %d: %v", seed, found)
	if lacks() {
		t.Errorf("no flip was refused, or none was reported by the integrity check: %v", found)
	}
}

// judge opens a damaged ledger and says how the damage showed, and which
// columns differ although nothing shows it.
func judge(t *testing.T, opts Options, want map[string][]string) (how string, wrong []string) {
	t.Helper()
	l, err := Open(t.Context(), opts)
	if err != nil {
		return "refused", nil
	}
	defer func() { _ = l.Close() }()
	if l.Sound(t.Context()) != nil {
		if err := l.Ping(t.Context()); err == nil {
			t.Error("a damaged ledger was written to")
		}
		return "refused", nil
	}
	if err := l.Integrity(t.Context()); err != nil {
		return "reported", nil
	}
	got, err := dump(t.Context(), l)
	if err != nil || readAll(t.Context(), l) != nil {
		return "unreadable", nil
	}
	how = "intact"
	for name := range want {
		if slices.Equal(want[name], got[name]) {
			continue
		}
		how = "in an unchecked column"
		if !slices.Contains(unchecked, name) {
			wrong = append(wrong, name)
		}
	}
	return how, wrong
}

// covers F63
func TestATruncatedLedgerIsNeverTakenForAWholeOne(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(8)
	want, err := dump(t.Context(), d.Ledger)
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	sound := readFile(t, d.opts.Path)
	for _, keep := range []int{1, 99, 100, 511, 512, 4095, 4096, len(sound) / 2, len(sound) - 4096} {
		if err := os.WriteFile(d.opts.Path, sound[:keep], 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, d.opts, "backup")
	}
	for _, lost := range []int{1, 40, 400} { // less than a page: the rest of the page reads as zeros
		if err := os.WriteFile(d.opts.Path, sound[:len(sound)-lost], 0o600); err != nil {
			t.Fatal(err)
		}
		if how, wrong := judge(t, d.opts, want); len(wrong) > 0 {
			t.Errorf("%d bytes are lost: %s, %v differ and nothing says so", lost, how, wrong)
		}
	}
}

// A copy made by SQLite itself is a ledger, with everything in it.
//
// covers F65
func TestABackupByVacuumIntoOpensAndIsWhole(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(8)
	want, err := dump(t.Context(), d.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	opts := d.opts
	opts.Path += ".backup"
	raw(t, d.opts.Path, "VACUUM INTO '"+opts.Path+"'")
	chmod(t, opts.Path, 0o600)
	if how, wrong := judge(t, opts, want); how != "intact" {
		t.Errorf("the backup is %s, %v differ", how, wrong)
	}
}

// A power cut leaves the write-ahead log cut at any byte, or its end filled with
// something else. What was committed before the cut is there, and nothing is
// there in half. PAYERSYNC_STATE_CUTS sets the number of cuts.
//
// covers F68, S10, S16
func TestATornWriteAheadLogKeepsWholeCommits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const writes = 30
	var lengths []int // of the log after each commit
	for i := range writes {
		d.do(func(tx *Tx) error { return storePair(tx, fmt.Sprintf("k%02d", i)) })
		lengths = append(lengths, len(readFile(t, d.opts.Path+"-wal")))
	}
	db, wal := readFile(t, d.opts.Path), readFile(t, d.opts.Path+"-wal")

	const seed = 20261123
	random := rand.New(rand.NewPCG(seed, 0))
	for range times(t, "PAYERSYNC_STATE_CUTS", 25) {
		cut := random.IntN(len(wal) + 1)
		torn := slices.Clone(wal[:cut])
		if random.IntN(2) == 0 { // the file had grown, the data had not arrived
			torn = append(torn, make([]byte, len(wal)-cut)...)
		}
		committed := 0
		for committed < writes && lengths[committed] <= cut {
			committed++
		}
		opts := d.opts
		opts.Path = filepath.Join(t.TempDir(), "payersync.db")
		if err := errors.Join(os.WriteFile(opts.Path, db, 0o600), os.WriteFile(opts.Path+"-wal", torn, 0o600)); err != nil {
			t.Fatal(err)
		}
		checkTorn(t, opts, committed, fmt.Sprintf("seed %d, cut at byte %d", seed, cut))
	}
}

func checkTorn(t *testing.T, opts Options, committed int, where string) {
	t.Helper()
	l, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	defer func() { _ = l.Close() }()
	if err := l.Integrity(t.Context()); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	rows, err := l.Inbox(t.Context(), Filter{State: string(connector.InboxReceived)})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != committed || one[int](t, l, "SELECT count(*) FROM audit") != committed {
		t.Errorf("%s: %d deliveries and %d entries, want %d whole commits", where, len(rows), one[int](t, l, "SELECT count(*) FROM audit"), committed)
	}
}
