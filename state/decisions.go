package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
	// for time or an answer: it is decided on again by the next plan, and till then the run is not complete
	Waits     bool
	Reason    connector.Reason // why it is held, or what a person should know; "" for none
	Detail    string
	Also      connector.Reason // what is the matter with its customer, where Reason is about the record; "" for nothing
	OfMandate connector.Reason // what a person should know of the customer's mandate; "" for nothing
	Awaited   string           // of OfMandate, in words: until when a request is waited for; "" where that is not known
	Label     *NewLabel        // the record's label; nil to keep the stored one
	Likeness  *Likeness        // the payer's traits; nil to keep the stored ones
	Customer  *NewChange       // the change of the customer; nil for none
	Link      bool             // a signing link is to be asked for
	Unasked   Unasked          // why none is asked for by the mapping's rule or a person's decision
	Facts     PlanFacts        // by which it was decided
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
	known, err := tx.knownBefore(connection, decisions)
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
	c := conclusion{verdict: d.Verdict, waits: d.Waits, rests: d.rests(), contested: d.Contested, class: d.class(),
		unasked: d.Unasked, facts: d.Facts}
	if d.Customer != nil || d.Facts.hash == newest {
		c.facts.hash = ""
	}
	if d.ContentHash != content {
		c.content = d.ContentHash
	}
	return c
}

// conclude notes on the records of a page what was decided, with one statement for all records with the same
// conclusion.
func (tx *Tx) conclude(connection, mapping string, decided map[conclusion][]string) error {
	for c, ids := range decided {
		page, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		if err := tx.exec(`UPDATE source_records SET planned_hash = CASE ?3 WHEN '' THEN '`+sameContent+`' ELSE ?3 END, planned_mapping = ?4, decision = ?5, replan = ?6, rests = ?7,
			contested = ?8, class = ?9, not_asked = ?10, not_asked_line = ?11, not_asked_condition = ?12, unfit = ?13, wanted_hash = ?14, plan_flags = ?15 WHERE connection = ?1 AND source_id IN (SELECT value FROM json_each(?2))`,
			connection, string(page), c.content, mappingTag(mapping), c.verdict, c.waits, c.rests, c.contested, c.class,
			c.unasked.Why, c.unasked.Line, c.unasked.Condition, c.facts.unfit, c.facts.hash, c.facts.flags); err != nil {
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
		"(?1, ?2, ?3, ?4, ?1, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''))", new.changes, "", new.plan, run,
		connection, stamp(tx.now)), "save changes"); err != nil {
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

// knownBefore returns the known data of the records of decisions, in their order.
func (tx *Tx) knownBefore(connection string, decisions []Decision) ([]before, error) {
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
		LEFT JOIN payers p ON p.connection = ?1 AND p.source_id = j.value`, []any{connection, string(page)},
		func(scan func(...any) error) error {
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
		CROSS JOIN changes c ON c.connection = ?1 AND c.source_id = j.value AND `+openStates, []any{connection, string(page)},
		func(scan func(...any) error) error {
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
func (tx *Tx) replaceChanges(run int64, connection string, d Decision, open map[string]openChange,
	new *additions) error {
	var link *NewChange
	if d.Link {
		link = &NewChange{Action: connector.ActionLink}
	}
	return errors.Join(
		tx.replaceChange(run, connection, d.SourceID, LaneCustomer, open[LaneCustomer], d.Customer, new),
		tx.replaceChange(run, connection, d.SourceID, LaneMandate, open[LaneMandate], link, new))
}

func (tx *Tx) replaceChange(run int64, connection, sourceID, lane string, open openChange, want *NewChange,
	new *additions) error {
	hash := ""
	if want != nil {
		hash = want.hash(connection, sourceID)
	}
	switch {
	case open.id == 0:
	case open.state != connector.ChangePending, open.hash == hash:
		return nil // sent changes come first, and equal ones stay
	default:
		if err := tx.exec("UPDATE changes SET state = 'void', updated_at = ? WHERE change_id = ?", stamp(tx.now),
			open.id); err != nil {
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
