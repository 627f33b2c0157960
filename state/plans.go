package state

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
)

// Verdict is a plan's decision about a record.
type Verdict string

// The verdicts, as source_records.decision stores them.
const (
	Excluded Verdict = "excluded"
	Held     Verdict = "held"
	Included Verdict = "included"
)

// Decision is a plan's result for one record.
type Decision struct {
	SourceID    string
	ContentHash string
	Stands      string // Candidate.Stands, by which it was made; "" stores it whatever has been shown since
	Verdict     Verdict
	Key         connector.Key       // zero when the mapping gave none
	LinkState   connector.LinkState // "" leaves the payer's link as it is
	Topic       Topic               // of Reason
	Contested   bool                // another record has the key
	Left        bool                // the record is excluded or gone: what a person said of its leaving lapses otherwise
	Waits       bool                // for time or an answer: it is decided on again by the next plan, and till then the run is not complete
	Reason      connector.Reason    // why it is held, or what a person should know; "" for none
	Detail      string
	Also        connector.Reason // what is the matter with its customer, where Reason is about the record; "" for nothing
	OfMandate   connector.Reason // what a person should know of the customer's mandate; "" for nothing
	Awaited     string           // of OfMandate, in words: until when a request is waited for; "" where that is not known
	Label       *NewLabel        // the record's label; nil to keep the stored one
	Likeness    *Likeness        // the payer's traits; nil to keep the stored ones
	Customer    *NewChange       // the change of the customer; nil for none
	Link        bool             // a signing link is to be asked for
	Unasked     Unasked          // why none is asked for by the mapping's rule or a person's decision
	Facts       PlanFacts        // by which it was decided
}

// class returns the record's class. What is told of the mandate counts on top of it: see countRun.
func (d Decision) class() protocol.Status {
	told := d.Reason
	if d.Topic == TopicMandate {
		told = ""
	}
	return protocol.ClassOf(d.Verdict == Excluded, d.Customer != nil || d.Waits, told)
}

// Because returns the decision with its reason and, in plain words, its detail; a
// blank detail is the reason's own sentence.
func (d Decision) Because(reason connector.Reason, detail string) Decision {
	d.Reason, d.Detail = reason, detail
	return d
}

// NewChange is a change as planned.
type NewChange struct {
	Action    connector.Action
	Wanted    connector.Customer
	Hash      string                  // of Wanted; "" where it was not computed yet
	Diff      []connector.FieldChange // nil for a create of all of Wanted
	BillingID string                  // the customer to adopt or update; "" for a create
	Seen      bool                    // Diff shows what a read showed of the customer before
	Unlinks   bool                    // an update that takes the key off the customer and lets it go: Wanted is blank

	plain []byte // Wanted as JSON; nil until it is made
}

// hash identifies the effect of a change; equal hashes are the same change.
func (c *NewChange) hash(connection, sourceID string) string {
	parts := []string{string(c.Action), connection, sourceID, c.BillingID, c.wantedHash()}
	if c.Seen { // over something else than was shown before, it is another change
		for _, d := range c.Diff {
			parts = append(parts, d.Path, d.From, d.To)
		}
	}
	if c.Unlinks {
		parts = append(parts, "unlinks")
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// Fields returns the field changes, also those of a create of all that is wanted.
func (c *NewChange) Fields() []connector.FieldChange {
	if c.isWhole() {
		return connector.Diff(connector.Customer{}, c.Wanted)
	}
	return c.Diff
}

// isWhole reports whether the field changes follow from the wanted customer. They are not stored then.
func (c *NewChange) isWhole() bool { return c.Action == connector.ActionCreate && c.Diff == nil }

func (c *NewChange) wantedHash() string {
	if c.Hash == "" {
		return c.Wanted.Hash()
	}
	return c.Hash
}

// weigh counts the fields that the change would empty. It also reports whether the change alters a
// name or an e-mail address of an existing customer, or writes an organisation beside the key on
// the customer.
func (c *NewChange) weigh() (w Weight) {
	if c.Action == connector.ActionCreate {
		return w
	}
	bare := false
	for _, d := range c.Diff {
		if d.From != "" && d.To == "" && !c.Unlinks { // what is taken off was ours
			w.Blanks++
		}
		if d.From != "" && (d.Path == "name" || strings.HasSuffix(d.Path, ".email")) {
			w.Identity = 1
		}
		name, isPair := strings.CutPrefix(d.Path, "externalData.")
		bare = bare || isPair && connector.KeyIn(c.Wanted.ExternalData, name).Scope != ""
		if isPair && d.From == "" && connector.IsScope(c.Wanted.ExternalData, name) {
			w.Scopes = 1
		}
	}
	if bare { // the key itself is written too
		w.Scopes = 0
	}
	return w
}

// rests reports whether time or others may change the decision: the next plan looks again,
// though nothing is left to do.
func (d Decision) rests() bool {
	return d.Reason.RestsOnOthers() || d.OfMandate == connector.ReasonOutcomeUnknown
}

// SaveDecisions stores a plan's decisions about different records: the verdict, the payer, the attention
// entries, and the pending changes. A pending change that says the same as before stays the same row, with
// its approval. If a read has shown a different customer since the decision, or a person requested a retry,
// nothing is stored and the next plan decides again. Otherwise the decision would silently undo that.
func (tx *Tx) SaveDecisions(run int64, connection, mapping string, decisions ...Decision) error {
	if err := tx.holds(run); err != nil {
		return err
	}
	known, err := tx.beforehand(connection, decisions)
	if err != nil {
		return fmt.Errorf("look what is known of the records that were decided on: %w", err)
	}
	var labels []NewLabel
	var new additions
	decided := map[conclusion][]string{}
	for i, d := range decisions {
		if d.Stands != "" && d.Stands != known[i].stands {
			if _, err := tx.ReplanRecord(connection, d.SourceID); err != nil {
				return err
			}
			tx.touched(RecordID{connection, d.SourceID})
			continue
		}
		if d.Label != nil {
			labels = append(labels, *d.Label)
		}
		as := d.conclusion(known[i].content, known[i].wanted)
		decided[as] = append(decided[as], connector.Clean(d.SourceID))
		if err := tx.saveDecision(run, connection, d, known[i], &new); err != nil {
			return fmt.Errorf("save the decision on record %s: %w", d.SourceID, err)
		}
	}
	if err := tx.SaveLabels(connection, mapping, labels); err != nil {
		return err
	}
	if err := tx.conclude(connection, mapping, decided); err != nil {
		return err
	}
	return tx.add(run, connection, new)
}

// conclusion is what a decision leaves on its record. The records of a page have few different ones.
type conclusion struct {
	verdict                 Verdict
	waits, rests, contested bool
	class                   protocol.Status
	unasked                 Unasked
	facts                   PlanFacts
	content                 string // the hash of the content that was decided on; "" for the record's present one
}

// conclusion returns what the decision leaves on a record with this present content. newest is the wanted hash of its
// newest change.
func (d Decision) conclusion(content, newest string) conclusion {
	c := conclusion{verdict: d.Verdict, waits: d.Waits, rests: d.rests(), contested: d.Contested, class: d.class(), unasked: d.Unasked, facts: d.Facts}
	if d.Customer != nil || d.Facts.hash == newest {
		c.facts.hash = ""
	}
	if d.ContentHash != content {
		c.content = d.ContentHash
	}
	return c
}

// conclude notes on the records of a page what was decided, with one statement for all records with the same conclusion.
func (tx *Tx) conclude(connection, mapping string, decided map[conclusion][]string) error {
	for c, ids := range decided {
		page, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		if err := tx.exec(`UPDATE source_records SET planned_hash = CASE ?3 WHEN '' THEN '`+sameContent+`' ELSE ?3 END, planned_mapping = ?4, decision = ?5, replan = ?6, rests = ?7,
			contested = ?8, class = ?9, not_asked = ?10, not_asked_line = ?11, not_asked_condition = ?12, unfit = ?13, wanted_hash = ?14, plan_flags = ?15 WHERE connection = ?1 AND source_id IN (SELECT value FROM json_each(?2))`,
			connection, string(page), c.content, mappingTag(mapping), c.verdict, c.waits, c.rests, c.contested, c.class, c.unasked.Why, c.unasked.Line, c.unasked.Condition, c.facts.unfit, c.facts.hash, c.facts.flags); err != nil {
			return fmt.Errorf("note what was decided on records: %w", err)
		}
	}
	return nil
}

// additions are the rows that a page's decisions add; each statement takes several.
type additions struct {
	payers, changes []any
	findings        []findings

	plan int64 // that is to list the changes; 0 before there is one
}

func (tx *Tx) add(run int64, connection string, new additions) error {
	if err := tx.insertRows("INSERT INTO payers (connection, updated_at, payer_id, source_id, key_name, key_value, link_state, likeness) VALUES ", "(?1, ?2, ?, ?, ?, ?, ?, ?)", new.payers, "",
		connection, stamp(tx.now)); err != nil {
		return fmt.Errorf("save payers: %w", err)
	}
	if err := connector.Wrap(tx.insertRows(`INSERT INTO changes
		(plan_id, run_id, connection, updated_at, first_plan, state, change_id, source_id, lane, action, change_hash, wanted, wanted_hash, diff, blanks, identity, scopes, unlinks, billing_id) VALUES `,
		"(?1, ?2, ?3, ?4, ?1, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''))", new.changes, "", new.plan, run, connection, stamp(tx.now)), "save changes"); err != nil {
		return err
	}
	return tx.replaceFindings(new.findings...)
}

// before is the ledger's data of a record before a decision.
type before struct {
	content string // the hash of its content
	stands  string // as Candidate.Stands
	wanted  string // the wanted hash of its newest change; "" for none
	payer   bool   // it has one
	like    string // the likeness of its payer; "" for nothing, or no payer
	told    bool   // something of it needs attention
	open    map[string]openChange
}

// beforehand returns the known data of the records of decisions, in their order.
func (tx *Tx) beforehand(connection string, decisions []Decision) ([]before, error) {
	known, ids := make([]before, len(decisions)), make([]string, len(decisions))
	for i, d := range decisions {
		ids[i] = connector.Clean(d.SourceID)
	}
	page, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	err = tx.each(`SELECT j.key, r.content_hash, `+stands+`, coalesce(`+newestWanted+`, ''), p.source_id IS NOT NULL, coalesce(p.likeness, ''), EXISTS (SELECT 1 FROM attention a WHERE a.connection = ?1 AND a.source_id = j.value)
		FROM json_each(?2) j CROSS JOIN source_records r ON r.connection = ?1 AND r.source_id = j.value
		LEFT JOIN payers p ON p.connection = ?1 AND p.source_id = j.value`, []any{connection, string(page)}, func(scan func(...any) error) error {
		var at int
		var b before
		err := scan(&at, &b.content, &b.stands, &b.wanted, &b.payer, &b.like, &b.told)
		known[at] = b
		return err
	})
	if err != nil {
		return nil, err
	}
	return known, tx.each(`SELECT j.key, c.lane, c.change_id, c.state, c.change_hash FROM json_each(?2) j
		CROSS JOIN changes c ON c.connection = ?1 AND c.source_id = j.value AND `+openStates, []any{connection, string(page)}, func(scan func(...any) error) error {
		var at int
		var lane string
		var c openChange
		err := scan(&at, &lane, &c.id, &c.state, &c.hash)
		if known[at].open == nil {
			known[at].open = map[string]openChange{}
		}
		known[at].open[lane] = c
		return err
	})
}

// saveDecision stores a decision on a record with these known facts, without its label, its conclusion and
// new values.
func (tx *Tx) saveDecision(run int64, connection string, d Decision, known before, new *additions) error {
	if err := tx.savePayer(connection, d, known, new); err != nil {
		return err
	}
	if known.told || d.tells() {
		new.findings = append(new.findings, d.findings(connection))
	}
	return tx.replaceChanges(run, connection, d, known.open, new)
}

// findings returns those of the decision. They replace all that was told of its record.
func (d Decision) findings(connection string) findings {
	by := map[Topic]finding{TopicRecord: {}, TopicLink: {reason: d.Also}, TopicMandate: {d.OfMandate, d.Awaited}}
	if d.Reason != "" {
		by[d.Topic] = finding{d.Reason, d.Detail}
	}
	return findings{RecordID{connection, d.SourceID}, by}
}

// tells reports whether the decision has findings.
func (d Decision) tells() bool { return d.Reason != "" || d.Also != "" || d.OfMandate != "" }

// dropPlanned voids the pending changes of a payer's lanes: none of them was sent, and every plan
// makes them again. The plans that listed them show them as replaced.
func (tx *Tx) dropPlanned(connection, sourceID string, lanes ...string) error {
	for _, lane := range lanes {
		if err := tx.exec("UPDATE changes SET state = 'void', updated_at = ? WHERE connection = ? AND source_id = ? AND lane = ? AND state = 'pending'",
			stamp(tx.now), connection, sourceID, lane); err != nil {
			return fmt.Errorf("drop what was planned for record %s: %w", sourceID, err)
		}
	}
	return nil
}

// replaceChanges makes a decision's change the one pending change of each of its payer's lanes; the
// open ones are given.
func (tx *Tx) replaceChanges(run int64, connection string, d Decision, open map[string]openChange, new *additions) error {
	var link *NewChange
	if d.Link {
		link = &NewChange{Action: connector.ActionLink}
	}
	return errors.Join(
		tx.replaceChange(run, connection, d.SourceID, LaneCustomer, open[LaneCustomer], d.Customer, new),
		tx.replaceChange(run, connection, d.SourceID, LaneMandate, open[LaneMandate], link, new))
}

func (tx *Tx) replaceChange(run int64, connection, sourceID, lane string, open openChange, want *NewChange, new *additions) error {
	hash := ""
	if want != nil {
		hash = want.hash(connection, sourceID)
	}
	switch {
	case open.id == 0:
	case open.state != connector.ChangePending, open.hash == hash:
		return nil // sent changes come first, and equal ones stay
	default:
		if err := tx.exec("UPDATE changes SET state = 'void', updated_at = ? WHERE change_id = ?", stamp(tx.now), open.id); err != nil {
			return err
		}
	}
	if want == nil {
		return nil
	}
	return tx.newChange(run, connection, sourceID, lane, hash, want, new)
}

// nextChange returns the id of the next inserted change. It is needed before the insert, because
// the sealed values are bound to it.
func (tx *Tx) nextChange() (int64, error) {
	if tx.change == 0 {
		if err := tx.row([]any{&tx.change}, "SELECT coalesce(max(change_id), 0) FROM changes"); err != nil {
			return 0, err
		}
	}
	tx.change++
	return tx.change, nil
}

func (tx *Tx) newChange(run int64, connection, sourceID, lane, hash string, c *NewChange, new *additions) error {
	w := c.weigh()
	id, err := tx.nextChange()
	if err != nil {
		return err
	}
	var wanted, diff []byte
	var wantedHash string
	if lane == LaneCustomer {
		var err, diffErr error
		if wanted = c.plain; wanted == nil {
			wanted, err = json.Marshal(c.Wanted)
		}
		if !c.isWhole() {
			diff, diffErr = json.Marshal(c.Diff)
		}
		if err := errors.Join(err, diffErr); err != nil {
			return err
		}
		wantedHash = c.wantedHash()
	}
	if new.plan == 0 {
		if new.plan, err = tx.unfinishedPlan(run, connection); err != nil {
			return err
		}
	}
	new.changes = append(new.changes,
		id, sourceID, lane, string(c.Action), hash, tx.l.seal.box(wanted, changePlace("wanted", id)), wantedHash,
		tx.l.seal.box(diff, changePlace("diff", id)), w.Blanks, w.Identity, w.Scopes, c.Unlinks, c.BillingID)
	return nil
}

func changePlace(column string, id int64) []byte {
	return place("changes", column, strconv.FormatInt(id, 10))
}

// rivals is the condition that payer o claims the key of payer p by a record s of its own. The
// mapping includes s, whether or not it can be sent.
const rivals = `o.key_name = p.key_name AND o.key_value = p.key_value AND (o.connection <> p.connection OR o.source_id <> p.source_id)
	AND (s.decision = 'included' OR s.decision = 'held')`

// KeyRival returns the source id of another payer, of any connection, whose record has the key; ""
// for none.
func (l *Ledger) KeyRival(ctx context.Context, key connector.Key, connection, sourceID string) (string, error) {
	found, err := l.ids(ctx, `SELECT o.source_id FROM payers o JOIN source_records s ON s.connection = o.connection AND s.source_id = o.source_id
		WHERE o.key_name = ? AND o.key_value = ? AND (o.connection <> ? OR o.source_id <> ?) AND (s.decision = 'included' OR s.decision = 'held')
		ORDER BY o.source_id LIMIT 1`, key.Name, key.ScopedValue(), connection, sourceID)
	return strings.Join(found, ""), err
}

// WakeRivals makes the present plan look again at the records of a connection with new or former
// rivals for their key (fault F48), and returns their number. Those that a plan leaves out are
// left: see Candidates.
func (tx *Tx) WakeRivals(connection string, there bool) (int64, error) {
	n, err := tx.count(`UPDATE source_records SET replan = 1 WHERE connection = ?1 AND (unseen = 0 OR ?2 = 0) AND replan = 0
		AND (decision = 'included' OR decision = 'held') AND (contested = 1 OR source_id IN (
		  SELECT p.source_id FROM (SELECT key_name, key_value FROM payers GROUP BY key_name, key_value HAVING count(*) > 1) AS shared
		  CROSS JOIN payers p ON p.key_name = shared.key_name AND p.key_value = shared.key_value AND p.connection = ?1)) AND contested <> EXISTS (
		  SELECT 1 FROM payers p CROSS JOIN payers o JOIN source_records s ON s.connection = o.connection AND s.source_id = o.source_id AND `+rivals+`
		  WHERE p.connection = source_records.connection AND p.source_id = source_records.source_id)
		AND NOT EXISTS (SELECT 1 FROM changes c WHERE c.connection = source_records.connection AND c.source_id = source_records.source_id
		                AND c.lane = 'customer' AND (c.state = 'frozen' OR c.state = 'unknown'))`, connection, there)
	return n, connector.Wrap(err, "look for shared keys")
}

// PlanState is the state of a plan.
type PlanState string

// The plan states. A draft is within the limits and not applied yet. A rejected one is not sent, and needs no
// decision. A superseded one was replaced by a plan over newer facts.
const (
	PlanDraft      PlanState = "draft"
	PlanWaiting    PlanState = "waiting"
	PlanApproved   PlanState = "approved"
	PlanRejected   PlanState = "rejected"
	PlanApplied    PlanState = "applied"
	PlanSuperseded PlanState = "superseded"
)

// Plan is a run's intended work, in numbers. The numbers count every pending change; the Open
// numbers only those nobody has approved yet.
type Plan struct {
	ID         int64        `json:"id"`
	Connection string       `json:"connection"`
	RunID      int64        `json:"run_id"`
	Hash       string       `json:"hash"`
	Known      bool         `json:"-"` // an earlier run made the very same plan
	Mapping    string       `json:"-"` // version of the mapping that made it
	State      PlanState    `json:"state"`
	CreatedAt  time.Time    `json:"created_at"`
	Creates    int          `json:"creates"`
	Adopts     int          `json:"adopts"`
	Updates    int          `json:"updates"`
	Links      int          `json:"links"`
	Holds      int          `json:"holds"`
	Alike      int          `json:"alike"`                  // of the creates: they look like another payer of ours
	Missing    int          `json:"missing,omitempty"`      // records that approval lets go as gone from the source; such a plan changes nothing
	Lost       int          `json:"lost,omitempty"`         // payers dropped by an approval, as on hold or excluded; 0 if too few for a standstill
	Limits     string       `json:"limits"`                 // why it waits, in words: the limits it exceeds, or what its creates wait for; "" for nothing
	Stops      []CreateStop `json:"create_stops,omitempty"` // why creates of it wait until a person has decided
	Open       Weight       `json:"-"`
	Losses     Losses       `json:"-"`

	ApprovedBy string    `json:"-"` // who approved it last, or a part of it
	ApprovedAt time.Time `json:"-"`

	SentBy []int64 `json:"sent_by,omitempty"` // the runs that sent changes of it, in order

	RejectedBy string    `json:"rejected_by,omitempty"` // who rejected it last, also before it was superseded
	RejectedAt time.Time `json:"rejected_at,omitzero"`
	Rejection  string    `json:"rejection,omitempty"` // why, in that person's words
}

// Weight is the basis of the guards: the part of a plan without approval.
type Weight struct {
	Creates  int // new customers
	Changes  int // customers that exist and would be touched: adopted, updated, or asked for a mandate
	Blanks   int // emptied fields
	Identity int // customers with a changed name or e-mail address
	LeftOut  int // changes that wait for a word of their own, and count as nothing else
	Scopes   int // customers with a key without its organisation; the plan would add it
}

// WaitsForDecision reports whether nothing but a person's decision on all creates keeps the plan waiting: approving
// it sends none of them.
func (p Plan) WaitsForDecision() bool { return len(p.Stops) > 0 && p.Limits == StopsText(p.Stops) }

// Standstill reports whether nothing is concluded or sent before a person looks: the plan is
// made from far less than is known.
func (p Plan) Standstill() bool { return p.Missing > 0 || p.Lost > 0 }

// Empty reports whether the plan has nothing to do.
func (p Plan) Empty() bool { return p.Creates+p.Adopts+p.Updates+p.Links == 0 }

// isFinished is the condition that a plan was finished. Nobody sees an unfinished one: it has the number for the
// changes of a plan that is being made, so that FinishPlan need not write each of them again.
const isFinished = "hash <> ''"

// unfinishedPlan returns the number of a connection's unfinished plan, which is higher than those of its other plans.
func (tx *Tx) unfinishedPlan(run int64, connection string) (plan int64, err error) {
	if plan, err = tx.keptPlan(connection); plan > 0 || err != nil {
		return plan, err
	}
	p := Plan{Connection: connection, RunID: run, CreatedAt: tx.now}
	return p.ID, connector.Wrap(tx.insertPlan(&p, PlanDraft), "begin a plan")
}

// keptPlan is unfinishedPlan without beginning one; 0 for none.
func (tx *Tx) keptPlan(connection string) (plan int64, err error) {
	err = tx.row([]any{&plan}, "SELECT coalesce((SELECT CASE hash WHEN '' THEN plan_id ELSE 0 END FROM plans WHERE connection = ? ORDER BY plan_id DESC LIMIT 1), 0)", connection)
	return plan, err
}

// FinishPlan gathers the pending changes of a connection, those left by earlier runs included, into
// one plan of this run. An identical plan reuses the waiting or approved one. tooMany reports
// whether the plan stands still because of the payers it would lose.
func (tx *Tx) FinishPlan(run int64, connection, mapping string, tooMany func(Losses) bool) (Plan, error) {
	p := Plan{Connection: connection, RunID: run, Mapping: mapping, State: PlanDraft, CreatedAt: tx.now}
	err := tx.holds(run)
	if err != nil {
		return p, err
	}
	if err := tx.weighPlan(&p); err != nil {
		return p, fmt.Errorf("count the plan: %w", err)
	}
	if p.Hash, err = tx.hashPlan(p); err != nil {
		return p, fmt.Errorf("hash the plan: %w", err)
	}
	if p.Losses, err = tx.losses(connection); err != nil {
		return p, err
	}
	if tooMany(p.Losses) {
		p.Lost = p.Losses.Lost()
		p.Hash, err = tx.hashLost(connection, p.Hash)
	} else {
		err = tx.letStand(connection)
	}
	if err != nil {
		return p, err
	}
	was, err := tx.queryPlan("WHERE connection = ? AND hash = ? AND missing = 0 AND state IN ('waiting', 'approved') ORDER BY plan_id DESC LIMIT 1", connection, p.Hash)
	p.Known = was.ID != 0
	if p.ID, p.State = was.ID, cmp.Or(was.State, p.State); was.State == PlanRejected {
		p.RejectedBy, p.RejectedAt, p.Rejection = was.RejectedBy, was.RejectedAt, was.Rejection
	}
	if err == nil {
		err = tx.listChanges(&p)
	}
	if err != nil {
		return p, fmt.Errorf("save the plan: %w", err)
	}
	if p.Lost > 0 {
		if err := tx.noteLost(connection, p.ID); err != nil {
			return p, err
		}
	}
	return p, tx.exec(`UPDATE plans SET state = 'superseded' WHERE connection = ? AND plan_id <> ? AND missing = 0 AND state IN ('draft', 'waiting', 'approved')`,
		connection, p.ID)
}

// listChanges saves a plan that is not stored yet, and has it list all pending changes of its connection.
func (tx *Tx) listChanges(p *Plan) error {
	kept, err := tx.keptPlan(p.Connection)
	switch {
	case err != nil:
		return err
	case p.ID == 0 && kept > 0:
		p.ID = kept
		err = tx.exec("UPDATE plans SET run_id = ?, hash = ?, mapping_version = ?, created_at = ?, state = 'draft', creates = ?, adopts = ?, updates = ?, links = ?, holds = ?, alike = ?, lost = ? WHERE plan_id = ?",
			p.RunID, p.Hash, p.Mapping, stamp(p.CreatedAt), p.Creates, p.Adopts, p.Updates, p.Links, p.Holds, p.Alike, p.Lost, p.ID)
	case p.ID == 0:
		err = tx.insertPlan(p, PlanDraft)
	}
	if err != nil {
		return err
	}
	var moves bool
	if err := tx.row([]any{&moves}, "SELECT EXISTS (SELECT 1 FROM changes WHERE connection = ?1 AND state = 'pending' AND plan_id IS DISTINCT FROM ?2)", p.Connection, p.ID); err != nil || !moves {
		return err
	}
	if err := tx.approveEach(p.ID); err != nil {
		return err
	}
	_, err = tx.changePending(p.Connection, "approved = "+approvedAs("c")+", plan_id = ?1, first_plan = CASE WHEN (SELECT q.hash FROM plans q WHERE q.plan_id = c.plan_id) = '' THEN ?1 ELSE coalesce(c.first_plan, c.plan_id, ?1) END",
		"c.plan_id IS DISTINCT FROM ?1", p.ID)
	return err
}

// PlansNothing reports whether a plan of a connection would be empty and change no open question.
// No change waits, no earlier plan waits or is approved, and no payer is lost or back since.
func (l *Ledger) PlansNothing(ctx context.Context, connection string) (nothing bool, err error) {
	if err := l.queryRow(ctx, `SELECT NOT EXISTS (SELECT 1 FROM changes WHERE connection = ?1 AND lane IN ('customer', 'mandate') AND state = 'pending')
		AND NOT EXISTS (SELECT 1 FROM plans WHERE connection = ?1 AND missing = 0 AND state IN ('waiting', 'approved'))
		AND NOT EXISTS (SELECT 1 FROM source_records r WHERE r.connection = ?1 AND r.replan = 0 AND `+turned+`)`, connection).Scan(&nothing); err != nil {
		return false, fmt.Errorf("look whether there is anything to plan: %w", err)
	}
	return nothing, nil
}

// SaveEmptyPlan saves a plan without changes, confirmed by PlansNothing. Later changes are not part of it. It
// fails with ErrLeaseLost when the plan's run no longer holds its connection.
func (tx *Tx) SaveEmptyPlan(p *Plan, as PlanState) error {
	err := tx.holds(p.RunID)
	if err != nil {
		return err
	}
	p.Hash = hashOf(p.Mapping, nil)
	if err := tx.countHolds(p); err != nil {
		return err
	}
	if err := tx.insertPlan(p, as); err != nil {
		return fmt.Errorf("save the plan: %w", err)
	}
	return tx.exec("UPDATE plans SET state = 'superseded' WHERE connection = ? AND plan_id <> ? AND missing = 0 AND state = 'draft'", p.Connection, p.ID)
}

// insertPlan saves a plan, and numbers it.
func (tx *Tx) insertPlan(p *Plan, as PlanState) error {
	return tx.row([]any{&p.ID}, `INSERT INTO plans (connection, run_id, hash, mapping_version, created_at, state, creates, adopts, updates, links, holds, alike, lost)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING plan_id`,
		p.Connection, p.RunID, p.Hash, p.Mapping, stamp(p.CreatedAt), as, p.Creates, p.Adopts, p.Updates, p.Links, p.Holds, p.Alike, p.Lost)
}

// countHolds counts the records that wait for a person.
func (tx *Tx) countHolds(p *Plan) error {
	return connector.Wrap(tx.row([]any{&p.Holds}, "SELECT count(DISTINCT h.source_id) FROM attention h WHERE h.connection = ? AND "+keepsOnHold, p.Connection), "count the records that wait for a person")
}

// partOfPlan is the largest number of changes per statement, because SQLite keeps their old content
// in memory until the statement ends.
const partOfPlan = 4096

// changePending updates the pending changes of a connection under a condition, and returns their
// number. The change is c in both, and the placeholders of args have their numbers.
func (tx *Tx) changePending(connection, set, which string, args ...any) (changed int64, err error) {
	for _, lane := range []string{LaneCustomer, LaneMandate} {
		for last, n := int64(0), partOfPlan; n == partOfPlan; {
			after := last
			if err := tx.row([]any{&n, &last}, `SELECT count(*), coalesce(max(change_id), 0) FROM (
				SELECT change_id FROM changes WHERE connection = ? AND lane = ? AND state = 'pending' AND change_id > ? ORDER BY change_id LIMIT ?) AS part`,
				connection, lane, after, partOfPlan); err != nil {
				return 0, err
			}
			if n == 0 {
				break
			}
			some, err := tx.count("UPDATE changes AS c SET "+set+" WHERE "+which+" AND c.connection = ? AND c.lane = ? AND c.state = 'pending' AND c.change_id > ? AND c.change_id <= ?",
				append(slices.Clone(args), connection, lane, after, last)...)
			if err != nil {
				return 0, err
			}
			changed += some
		}
	}
	return changed, nil
}

// changePlan is changePending for the changes of a plan, which is the last of args.
func (tx *Tx) changePlan(plan int64, set, which string, args ...any) (changed int64, err error) {
	var connection string
	err = tx.row([]any{&connection}, "SELECT connection FROM plans WHERE plan_id = ?", plan)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return tx.changePending(connection, set, fmt.Sprintf("c.plan_id = ?%d AND %s", len(args)+1, which), append(args, plan)...)
}

// hashPlan hashes the counted pending changes of a plan in a fixed order, together with their
// mapping.
func (tx *Tx) hashPlan(p Plan) (string, error) {
	// Sorted here: SQLite would sort them in memory, too, and as texts.
	hashes := make([][sha256.Size]byte, 0, p.Creates+p.Adopts+p.Updates+p.Links)
	if err := tx.each("SELECT change_hash FROM changes WHERE connection = ? AND state = 'pending'", []any{p.Connection}, func(scan func(...any) error) error {
		var text sql.RawBytes
		var hash [sha256.Size]byte
		err := scan(&text)
		if err != nil || len(text) == 0 { // its record is being forgotten
			return err
		}
		if len(text) != hex.EncodedLen(len(hash)) {
			return fmt.Errorf("the hash of a change has %d digits", len(text))
		}
		_, err = hex.Decode(hash[:], text)
		hashes = append(hashes, hash)
		return err
	}); err != nil {
		return "", err
	}
	slices.SortFunc(hashes, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	return hashOf(p.Mapping, hashes), nil
}

// hashOf returns the hash of a plan of these changes, in order, that a mapping made.
func hashOf(mapping string, changes [][sha256.Size]byte) string {
	h := sha256.New()
	h.Write([]byte(mapping))
	for _, hash := range changes {
		h.Write(hex.AppendEncode(nil, hash[:]))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// isOpen is the condition that a pending change has no decision of a person and does not wait for
// one on all creates: the limits decide on it.
const isOpen = "NOT " + isApproved + " AND c.left_out = 0 AND NOT " + waitsForPerson

// touches is the condition that change c affects an existing customer. A link for a payer that this
// plan creates belongs to the create. So does the first update of a customer from an unanswered
// create.
const touches = `(c.action = 'adopt' OR EXISTS (
	SELECT 1 FROM payers p WHERE p.connection = c.connection AND p.source_id = c.source_id
	AND (c.action = 'link' AND p.billing_id IS NOT NULL OR c.action = 'update' AND NOT (p.applied IS NULL AND EXISTS (
	  SELECT 1 FROM changes m WHERE m.connection = c.connection AND m.source_id = c.source_id AND m.action = 'create' AND m.state = 'done' AND m.change_id > p.parted)))))`

func (tx *Tx) weighPlan(p *Plan) error {
	if err := tx.row([]any{&p.Creates, &p.Adopts, &p.Updates, &p.Links, &p.Open.Creates, &p.Open.Changes, &p.Open.Blanks, &p.Open.Identity, &p.Open.Scopes, &p.Open.LeftOut}, `
		SELECT count(*) FILTER (WHERE action = 'create'), count(*) FILTER (WHERE action = 'adopt'),
		       count(*) FILTER (WHERE action = 'update'), count(*) FILTER (WHERE action = 'link'),
		       count(*) FILTER (WHERE `+isOpen+` AND action = 'create'),
		       count(*) FILTER (WHERE `+isOpen+` AND `+touches+`),
		       coalesce(sum(CASE WHEN `+isOpen+` THEN blanks ELSE 0 END), 0),
		       count(*) FILTER (WHERE `+isOpen+` AND identity = 1), count(*) FILTER (WHERE `+isOpen+` AND scopes = 1),
		       count(*) FILTER (WHERE left_out = 1 AND NOT `+isApproved+`)
		FROM changes c WHERE connection = ? AND state = 'pending'`, p.Connection); err != nil {
		return err
	}
	var err error
	if p.Alike, err = tx.countAlike(p.Connection); err != nil {
		return err
	}
	return tx.countHolds(p)
}

// ApproveWithinLimits notes that a plan is within the limits. A later run sends its remaining
// changes without approval. Changes left out by a person keep waiting.
func (tx *Tx) ApproveWithinLimits(plan int64) error {
	_, err := tx.approve(plan, "c.left_out = 0 AND NOT "+waitsForPerson)
	return err
}

// Over says which limits a plan is above.
type Over struct{ Creates, Changes, Blanks, Identity, Scopes bool }

// within is the condition that pending change c counts towards no exceeded limit of its plan. ?1 to
// ?5 tell whether each kind is within its limit.
const within = isOpen + " AND NOT (CASE WHEN " + touches + ` THEN ?2 = 1 ELSE ?1 = 1 END)
	AND NOT (?3 = 1 AND c.blanks > 0) AND NOT (?4 = 1 AND c.identity = 1) AND NOT (?5 = 1 AND c.scopes = 1)`

func (o Over) args() []any {
	return []any{o.Creates, o.Changes, o.Blanks, o.Identity, o.Scopes}
}

// WithinCount returns how many changes of a plan that is above limits count to none of these.
func (tx *Tx) WithinCount(plan int64, o Over) (n int, err error) {
	return n, tx.row([]any{&n}, "SELECT count(*) FROM changes c WHERE c.plan_id = ?6 AND c.state = 'pending' AND "+within, append(o.args(), plan)...)
}

// ApproveWithin lets the changes go that WithinCount counts. The others wait for a person, or
// until they are within the limits.
func (tx *Tx) ApproveWithin(plan int64, o Over) error {
	_, err := tx.changePlan(plan, "approved = 1", within, o.args()...)
	return err
}

// Within explains why changes of a plan above the limits are still sent; "" for none.
func Within(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 change of a kind that is within its own limits is not on hold."
	}
	return fmt.Sprintf("%d changes of kinds that are within their own limits are not on hold.", n)
}

// SetPlanState moves a plan and records the limits it exceeds, in words.
func (tx *Tx) SetPlanState(plan int64, to PlanState, limits string) error {
	return tx.exec("UPDATE plans SET state = ?, limits = ? WHERE plan_id = ?", to, limits, plan)
}

// ErrPlanNotWaiting means that the plan to approve is not waiting any more.
var ErrPlanNotWaiting = errors.New("no such plan is waiting for approval")

// ErrPlanChanged means that a plan holds other changes by now than somebody chose from.
var ErrPlanChanged = errors.New("the plan has changed meanwhile")

// unrejected takes a person's no to a plan back.
const unrejected = "rejected_by = '', rejected_at = NULL, rejected_why = ''"

// Approve lets exactly the pending changes of a waiting or rejected plan pass the guards, and
// releases the payers that it would lose. Additions of a later plan must pass the guards again.
func (tx *Tx) Approve(plan int64, actor string) error {
	n, err := tx.count("UPDATE plans SET state = 'approved', approved_by = ?, approved_at = ?, "+unrejected+" WHERE plan_id = ? AND state IN ('waiting', 'draft')",
		actor, stamp(tx.now), plan)
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrPlanNotWaiting
	}
	freed, err := tx.approve(plan, "NOT "+waitsForPerson)
	if err != nil {
		return err
	}
	if err := tx.keepCreates(plan, freed); err != nil {
		return err
	}
	if err := tx.letGo(plan); err != nil {
		return err
	}
	return tx.auditPlan(plan, Entry{Actor: actor, Action: "approve plan"}, "")
}

// keepCreates leaves a plan waiting if its only unapproved changes are creates that need a person's decision.
// It fails with *CreatesWaitError if the plan had no others.
func (tx *Tx) keepCreates(plan, freed int64) error {
	p, err := tx.queryPlan("WHERE plan_id = ?", plan)
	if err != nil || p.Missing > 0 {
		return err
	}
	kept, err := tx.stoppedCreates(p.Connection)
	if err != nil || kept == 0 {
		return err
	}
	stops, err := tx.createStops(p.Connection)
	if err != nil {
		return err
	}
	if freed == 0 && p.Lost == 0 {
		return &CreatesWaitError{stops}
	}
	return errors.Join(tx.SetPlanState(plan, PlanWaiting, StopsText(stops)), tx.exec("UPDATE plans SET lost = 0 WHERE plan_id = ?", plan))
}

// ApproveOpen approves the pending changes of a plan. Changes left out by a person keep the plan waiting, for
// the reason in limits. It releases the payers lost by the plan, so the standstill ends.
func (tx *Tx) ApproveOpen(plan int64, actor, limits string) error {
	return errors.Join(tx.ApproveWithinLimits(plan), tx.SetPlanState(plan, PlanWaiting, limits),
		tx.letGo(plan), tx.exec("UPDATE plans SET lost = 0 WHERE plan_id = ?", plan),
		tx.auditPlan(plan, Entry{Actor: actor, Action: "approve part of plan"}, "all but the changes left out before"))
}

// ApproveSome lets some pending changes of a plan, by their ids, pass the guards. which describes
// them in words. The others wait for a word of their own, and the plan with them.
func (tx *Tx) ApproveSome(plan int64, changes []int64, actor, which string) error {
	n, err := tx.count("UPDATE plans SET state = 'waiting', approved_by = ?, approved_at = ?, "+unrejected+" WHERE plan_id = ? AND missing + lost = 0 AND state IN ('waiting', 'draft')",
		actor, stamp(tx.now), plan)
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrPlanNotWaiting
	}
	ids, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	const chosen = "c.change_id IN (SELECT CAST(value AS BIGINT) FROM json_each(?1))"
	if err := tx.noneWaits(plan, chosen, string(ids)); err != nil {
		return err
	}
	n, err = tx.changePlan(plan, "approved = 1", chosen, string(ids))
	if err != nil {
		return err
	}
	if n != int64(len(changes)) {
		return ErrPlanChanged
	}
	if n, err = tx.changePlan(plan, "left_out = 1", "NOT "+isApproved+" AND NOT "+waitsForPerson); err != nil {
		return err
	}
	if err := tx.leaveWaiting(plan, LeftOut(int(n))); err != nil {
		return err
	}
	return tx.auditPlan(plan, Entry{Actor: actor, Action: "approve part of plan"}, which)
}

// noneWaits fails with *CreatesWaitError if a matching change of a plan waits for a person's
// decision on all creates.
func (tx *Tx) noneWaits(plan int64, which string, ids string) error {
	var connection string
	var waits bool
	if err := tx.row([]any{&connection, &waits}, "SELECT p.connection, EXISTS (SELECT 1 FROM changes c WHERE c.plan_id = p.plan_id AND c.state = 'pending' AND "+which+" AND "+waitsForPerson+") FROM plans p WHERE p.plan_id = ?2",
		ids, plan); err != nil || !waits {
		return err
	}
	stops, err := tx.createStops(connection)
	if err != nil {
		return err
	}
	return &CreatesWaitError{stops}
}

// leaveWaiting stores why a partly approved plan waits; a plan that does not wait keeps no reason.
func (tx *Tx) leaveWaiting(plan int64, leftOut string) error {
	p, err := tx.queryPlan("WHERE plan_id = ?", plan)
	if err != nil {
		return err
	}
	why := leftOut
	kept, err := tx.stoppedCreates(p.Connection)
	if err != nil {
		return err
	}
	if kept > 0 {
		stops, err := tx.createStops(p.Connection)
		if err != nil {
			return err
		}
		why = strings.TrimSpace(why + " " + StopsText(stops))
	}
	to := PlanWaiting
	if why == "" { // it was the whole plan
		to = PlanApproved
	}
	return tx.SetPlanState(plan, to, why)
}

// LeftOut describes the changes that wait for a decision of their own; "" for none.
func LeftOut(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 change was left out of an approval or rejected, and waits to be approved by itself."
	}
	return fmt.Sprintf("%d changes were left out of an approval or rejected, and wait to be approved by themselves.", n)
}

// Reject ends a waiting plan. None of it is sent, including its approved changes, and an identical
// plan asks no approval again. It fails with ErrRunOpen while a run of its connection may be
// sending it.
func (tx *Tx) Reject(plan int64, actor, why string) error {
	var connection string
	err := tx.row([]any{&connection}, "SELECT connection FROM plans WHERE plan_id = ?", plan)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrPlanNotWaiting
	}
	if err != nil {
		return err
	}
	var sending bool
	if err := tx.row([]any{&sending}, "SELECT EXISTS (SELECT 1 FROM runs WHERE connection = ? AND finished_at IS NULL AND lease_until > ?)", connection, stamp(tx.now)); err != nil {
		return err
	}
	if sending {
		return &ErrRunOpen{Connection: connection}
	}
	n, err := tx.count(`UPDATE plans SET state = 'waiting', rejected_by = ?, rejected_at = ?, rejected_why = ?
		WHERE plan_id = ? AND missing = 0 AND (lost = 0 OR state = 'approved') AND rejected_at IS NULL AND state IN ('waiting', 'draft', 'approved')`, actor, stamp(tx.now), why, plan)
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrPlanNotWaiting
	}
	if err := tx.approveEach(plan); err != nil {
		return err
	}
	if _, err := tx.changePending(connection, "approved = 0, left_out = 1", "c.plan_id = ?1", plan); err != nil {
		return err
	}
	return tx.auditPlan(plan, Entry{Actor: actor, Action: "reject plan"}, why)
}

// auditPlan records a person's act on a plan: its hash, and the words for it.
func (tx *Tx) auditPlan(plan int64, e Entry, words string) error {
	if err := tx.row([]any{&e.Reason}, "SELECT hash FROM plans WHERE plan_id = ?", plan); err != nil {
		return err
	}
	if e.Subject = fmt.Sprint(plan); words != "" {
		e.Reason += ": " + words
	}
	return tx.Audit(e)
}

// planColumns are those of a plan. A rejected plan stored as waiting waits for nobody.
const planColumns = `plan_id, connection, run_id, hash, mapping_version, CASE WHEN state = 'waiting' AND rejected_at IS NOT NULL THEN 'rejected' ELSE state END,
	created_at, creates, adopts, updates, links, holds, alike, missing, lost, limits, approved_by, approved_at, rejected_by, rejected_at, rejected_why, ` + sentBy

const finishedPlans = " FROM (SELECT * FROM plans WHERE " + isFinished + ") AS plans "

// WaitingPlans returns the plans that wait for approval, oldest first.
func (l *Ledger) WaitingPlans(ctx context.Context) ([]Plan, error) {
	return l.plans(ctx, "WHERE state = 'waiting' AND rejected_at IS NULL ORDER BY plan_id")
}

// RejectedPlans returns the plans that were rejected and still say what would be done,
// oldest first.
func (l *Ledger) RejectedPlans(ctx context.Context) ([]Plan, error) {
	return l.plans(ctx, "WHERE state = 'waiting' AND rejected_at IS NOT NULL ORDER BY plan_id")
}

// StoredPlans returns every plan that was ever made, of one connection or of all, oldest
// first.
func (l *Ledger) StoredPlans(ctx context.Context, connection string) ([]Plan, error) {
	return l.plans(ctx, "WHERE connection = ?1 OR ?1 = '' ORDER BY plan_id", connection)
}

// PlanPage returns decided plans, the newest first, older than the plan before; 0 starts with the newest. It
// omits plans without changes.
func (l *Ledger) PlanPage(ctx context.Context, before int64, limit int) ([]Plan, error) {
	return l.plans(ctx, `WHERE (state <> 'waiting' OR rejected_at IS NOT NULL) AND creates + adopts + updates + links + missing + lost > 0
		AND (?1 = 0 OR plan_id < ?1) ORDER BY plan_id DESC LIMIT ?2`, before, limit)
}

// FindPlan returns the plan with this number, or whose hash begins with id (8
// characters at least); ErrPlanNotWaiting when there is none.
func (l *Ledger) FindPlan(ctx context.Context, id string) (Plan, error) {
	found, err := l.plans(ctx, "WHERE cast(plan_id AS TEXT) = ?1 OR (length(?1) >= 8 AND substr(hash, 1, length(?1)) = ?1) ORDER BY plan_id DESC LIMIT 1", id)
	if err != nil {
		return Plan{}, err
	}
	if len(found) == 0 {
		return Plan{}, ErrPlanNotWaiting
	}
	return found[0], nil
}

// queryPlan returns one plan; the zero plan when there is none.
func (tx *Tx) queryPlan(where string, args ...any) (Plan, error) {
	rows, err := tx.query("SELECT "+planColumns+finishedPlans+where, args...)
	if err != nil {
		return Plan{}, err
	}
	found, err := scanPlans(rows)
	if err != nil || len(found) == 0 {
		return Plan{}, err
	}
	return found[0], nil
}

// Share is how much of a plan is still to be done, as the ledger has it now.
type Share struct {
	Pending  int    `json:"pending"`  // changes that were not sent
	Approved int    `json:"approved"` // of those: the next run sends them
	LeftOut  int    `json:"left_out"` // of those: left out of an approval, or rejected
	Reads    string `json:"-"`        // hash of what the plan says by now: see Tx.StillReads
	Newest   int64  `json:"-"`        // the change that was planned last; 0 for none
}

// ShareOf returns how much of a plan is still to be done.
func (l *Ledger) ShareOf(ctx context.Context, p Plan) (Share, error) {
	return shareOf(p, func(query string, args ...any) (*sql.Rows, error) { return l.query(ctx, query, args...) })
}

// StillReads fails with ErrPlanChanged unless a plan is the same as when its Share was taken. It
// has the same state and the same waiting changes, and nobody has decided otherwise about one of
// them. Only changes seen by a person are approved.
func (tx *Tx) StillReads(plan int64, reads string) error {
	p, err := tx.queryPlan("WHERE plan_id = ?", plan)
	if err != nil {
		return err
	}
	now, err := shareOf(p, tx.query)
	if err == nil && now.Reads != reads {
		err = ErrPlanChanged
	}
	return err
}

func shareOf(p Plan, query func(string, ...any) (*sql.Rows, error)) (s Share, err error) {
	rows, err := query("SELECT c.change_id, c.change_hash, "+approvedAs("c")+`, c.left_out FROM changes c
		WHERE c.connection = ? AND `+p.inChanges()+` = ? AND c.state = 'pending' ORDER BY c.change_id`, p.Connection, p.ID)
	if err != nil {
		return s, fmt.Errorf("read the changes of plan %d: %w", p.ID, err)
	}
	defer rows.Close()
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %s\n", p.ID, p.Hash, p.State)
	for rows.Next() {
		var id int64
		var hash string
		var approved, leftOut bool
		if err := rows.Scan(&id, &hash, &approved, &leftOut); err != nil {
			return s, err
		}
		s.Pending++
		s.Newest = id
		switch {
		case approved:
			s.Approved++
		case leftOut:
			s.LeftOut++
		}
		fmt.Fprintf(h, "%d %s %t %t\n", id, hash, approved, leftOut)
	}
	s.Reads = hex.EncodeToString(h.Sum(nil))
	return s, rows.Err()
}

func (l *Ledger) plans(ctx context.Context, where string, args ...any) ([]Plan, error) {
	rows, err := l.query(ctx, "SELECT "+planColumns+finishedPlans+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read the plans: %w", err)
	}
	plans, err := scanPlans(rows)
	if err != nil || !slices.ContainsFunc(plans, Plan.isStopped) {
		return plans, err
	}
	stops, err := l.CreateStops(ctx, "")
	for i, p := range plans {
		for _, s := range stops {
			if p.isStopped() && s.Connection == p.Connection {
				plans[i].Stops = append(plans[i].Stops, s)
			}
		}
	}
	return plans, err
}

// isStopped reports whether creates of the plan may wait for a person's decision.
func (p Plan) isStopped() bool { return p.State == PlanWaiting && p.Creates > 0 }

func scanPlans(rows *sql.Rows) ([]Plan, error) {
	defer rows.Close()
	out := []Plan{}
	for rows.Next() {
		var p Plan
		var at, approved, rejected sql.NullString
		var sent string
		if err := rows.Scan(&p.ID, &p.Connection, &p.RunID, &p.Hash, &p.Mapping, &p.State, &at, &p.Creates, &p.Adopts, &p.Updates, &p.Links, &p.Holds, &p.Alike, &p.Missing, &p.Lost, &p.Limits,
			&p.ApprovedBy, &approved, &p.RejectedBy, &rejected, &p.Rejection, &sent); err != nil {
			return nil, fmt.Errorf("read the plans: %w", err)
		}
		var made, yes, no, runs error
		p.CreatedAt, made = parseTime(at)
		p.ApprovedAt, yes = parseTime(approved)
		p.RejectedAt, no = parseTime(rejected)
		p.SentBy, runs = openRuns(sent)
		if err := errors.Join(made, yes, no, runs); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

// LinkedCount returns how many payers of the connection are linked: the base of
// the percentage guards.
func (l *Ledger) LinkedCount(ctx context.Context, connection string) (int, error) {
	return single[int](l.queryRow(ctx, "SELECT count(*) FROM payers p WHERE p.connection = ? AND p.billing_id IS NOT NULL AND NOT "+isMissing, connection))
}
