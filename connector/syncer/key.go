package syncer

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/state"
)

// keyKnown holds the facts about the key of a payer without a customer, and the names for messages.
type keyKnown struct {
	facts   protocol.Facts
	key     connector.Key
	rival   string   // the record with the same key
	holders []string // customers with the key
	other   string   // the record linked to the customer with the key, or to a former one
	sender  string   // the record with a late create for the key
	over    int64    // ticket at which the newest create with the key expired; 0 before that
	sent    int64    // ticket of the newest sending of the payer's own create without an answer
	// when the newest create with the key can arrive no more; zero when none can arrive now
	until    time.Time
	open     bool                   // it may still arrive, or its outcome was not read yet
	alike    []state.MatchCandidate // the record's matches, the best first
	similar  state.SimilarPayers    // our payers that the record may be
	word     state.Accepted         // the customer a person chose for the record
	byWord   bool                   // that customer counts as one with the key
	rejected bool                   // a person rejected the holder
	unscoped bool                   // the holder carries the key without its scope
	// the differences between the customer with the key and the record, if they speak against it
	against []string
}

// gatherKey gathers the facts about the key of a payer without a customer. record is its record, known the other facts
// about the payer.
func (r *run) gatherKey(ctx context.Context, sourceID string, key connector.Key, record protocol.Record,
	known protocol.Facts, want connector.Customer) (keyKnown, error) {
	k := r.newKey(key, record, known)
	err := r.gather(ctx, sourceID, want, &k)
	return k, err
}

// gather adds the ledger's facts about other payers to those about a key.
func (r *run) gather(ctx context.Context, sourceID string, want connector.Customer, k *keyKnown) error {
	for _, gather := range []func(context.Context, string, *keyKnown) error{r.gatherRival, r.gatherSenders,
		r.gatherHolders, r.gatherPairDecision} {
		if err := gather(ctx, sourceID, k); err != nil {
			return err
		}
	}
	if err := r.gatherAlike(ctx, sourceID, want, k); err != nil {
		return err
	}
	k.facts.AsPlanned()
	return nil
}

// newKey is gatherKey for a record without matching facts. It notes the planned action, so the step can name it.
func (r *run) newKey(key connector.Key, record protocol.Record, known protocol.Facts) keyKnown {
	k := keyKnown{key: key, facts: protocol.Facts{
		Key: key.ID(), Record: record, Index: protocol.Index{Since: max(r.trustedSince.Load(), 1), Now: true},
		Words: known.Words, Refusal: known.Refusal, Worn: known.Worn,
	}}
	k.facts.AsPlanned()
	return k
}

func (r *run) gatherRival(ctx context.Context, sourceID string, k *keyKnown) (err error) {
	if k.rival, err = r.rival(ctx, k.key, sourceID); k.rival != "" {
		k.facts.Rival = protocol.RivalRecord
	}
	return err
}

// rival returns another record with the key, "" for none.
func (r *run) rival(ctx context.Context, key connector.Key, sourceID string) (string, error) {
	if r.claims == nil {
		return r.Ledger.KeyRival(ctx, key, r.conn.Name, sourceID)
	}
	return r.claimant(key), nil
}

// rivalOf is rival for the key of a payer with a customer. It uses the rival read with the candidate.
func (r *run) rivalOf(c state.Candidate) string {
	if r.claims == nil {
		return c.Rival
	}
	return r.claimant(c.Payer.Key)
}

// claimant returns a forecast's name for another record with the key. A forecast uses the future keys.
func (r *run) claimant(key connector.Key) string {
	if r.claims.of(key) > 1 {
		return "another"
	}
	return ""
}

func (r *run) gatherHolders(ctx context.Context, sourceID string, k *keyKnown) (err error) {
	if k.holders, err = r.Ledger.KeyHolders(ctx, k.key); err != nil {
		return err
	}
	if k.other, err = r.Ledger.KeyLinkedTo(ctx, k.key, r.conn.Name, sourceID); err != nil {
		return err
	}
	if k.other != "" && k.rival == "" {
		k.facts.Rival = protocol.RivalLink
	}
	if len(k.holders) == 0 && len(k.facts.Attempts) == 0 { // a create of ours writes the whole key
		if k.holders, err = r.Ledger.UnscopedHolders(ctx, k.key, r.conn.Name, sourceID); err != nil {
			return err
		}
		k.unscoped = len(k.holders) > 0
	}
	switch len(k.holders) {
	case 0:
		return nil
	case 1:
		k.facts.Holders, k.facts.Holder = protocol.Free, k.holders[0]
	default:
		k.facts.Holders = protocol.Several
		return nil
	}
	switch connection, linked, err := r.Ledger.LinkedTo(ctx, k.holders[0]); {
	case err != nil:
		return err
	case connection == r.conn.Name && linked == sourceID: // another process has linked it meanwhile
		k.facts.Holders = protocol.Own
	case linked != "":
		k.facts.Holders, k.other = protocol.Another, linked
	}
	if k.rejected, err = r.Ledger.Rejected(ctx, r.conn.Name, sourceID, k.holders[0]); k.rejected &&
		k.facts.Holders == protocol.Free {
		k.facts.Holders = protocol.Another // a person's word counts as somebody else's link
	}
	return err
}

// gatherSenders gathers the open creates with the key: the payer's own and those of other payers.
func (r *run) gatherSenders(ctx context.Context, sourceID string, k *keyKnown) error {
	creates, err := r.Ledger.CreatesUnderWay(ctx, k.key)
	if err != nil {
		return err
	}
	for _, c := range creates {
		own := c.Connection == r.conn.Name && c.SourceID == sourceID
		if own {
			k.sent = c.Ticket
		}
		a := protocol.Attempt{Seq: c.Ticket, Over: c.Over, Action: connector.ActionCreate}
		if !a.Open(k.facts.Index.Since) {
			continue
		}
		if until := c.SentAt.Add(state.Arrival); c.Over == 0 && until.After(k.until) {
			k.until = until
		}
		k.over = max(k.over, c.Over)
		if own {
			k.facts.Attempts, k.open = append(k.facts.Attempts, a), true
			continue
		}
		k.facts.Others = append(k.facts.Others, a)
		k.sender = cmp.Or(k.sender, c.SourceID)
	}
	return nil
}

// gatherPairDecision gathers a person's decision about the record's customer. The decision overrides the objections
// to a customer with the key. While no customer carries the key and no create of the payer is open, the chosen
// customer counts as the holder: an unlinked customer while available, and afterwards another payer's.
func (r *run) gatherPairDecision(ctx context.Context, sourceID string, k *keyKnown) (err error) {
	k.word, err = r.Ledger.Accepted(ctx, r.conn.Name, sourceID, k.key)
	switch {
	case err != nil || k.word.BillingID == "":
		return err
	case k.facts.Holder == k.word.BillingID && k.word.Spent != connector.ReasonUnlinked:
	case k.facts.Holder != k.word.BillingID && (len(k.holders) > 0 || len(k.facts.Attempts) > 0):
		return nil
	case k.word.Why() != "":
		k.byWord, k.facts.Holders = true, protocol.Another
		return nil
	default:
		k.byWord, k.facts.Holders, k.facts.Holder = true, protocol.Free, k.word.BillingID
	}
	k.facts.Words.Adopt = k.word.At
	return nil
}

// reasonFor returns the reason to report for a step's reason. If the chosen customer is unavailable, it reports the
// cause. If a person has ruled out the customer with the key, it reports the key as disputed.
func (k keyKnown) reasonFor(reason connector.Reason) connector.Reason {
	if k.rejected && reason == connector.ReasonOtherKey && k.other == "" {
		return connector.ReasonKeyDisputed
	}
	if k.byWord && reason == connector.ReasonOtherKey && k.word.Why() != "" {
		return k.word.Why()
	}
	return reason
}

func (r *run) gatherAlike(ctx context.Context, sourceID string, want connector.Customer, k *keyKnown) (err error) {
	if r.Settings.Adopt == AdoptExact || len(k.holders) > 0 || k.word.BillingID != "" {
		return nil
	}
	k.alike, err = r.candidates(ctx, sourceID, want, k.key.Name)
	k.facts.Alike = len(k.alike) > 0
	if err != nil {
		return err
	}
	k.similar, err = r.Ledger.SimilarPayers(ctx, r.conn.Name, sourceID, r.likenessOf(want))
	k.facts.AlikeLeft, k.facts.AlikeTwice = len(k.similar.Left) > 0, len(k.similar.Twice) > 0
	return err
}

// because describes a reason with the names involved; "" to use the reason's own sentence.
func (k keyKnown) because(reason connector.Reason) string {
	switch {
	case k.byWord && k.word.Why() != "" && reason == k.word.Why():
		return acceptedGone(k.word.BillingID, reason)
	case reason == connector.ReasonKeyShared && k.rival != "":
		return fmt.Sprintf("The key %s is also used by record %s. Neither is sent.", k.key.Name, k.rival)
	case reason == connector.ReasonKeyDoubled:
		return fmt.Sprintf("The customers %s in the billing service carry the same key. Nothing is sent for this record.",
			strings.Join(k.holders, " and "))
	case reason == connector.ReasonOtherKey && k.facts.Holder != "":
		return fmt.Sprintf("The customer %s with this key is linked to record %s.", k.facts.Holder, k.other)
	case reason == connector.ReasonOtherKey:
		return fmt.Sprintf("Record %s is linked to a customer that had this key.", k.other)
	case reason == connector.ReasonKeyUnderWay:
		return fmt.Sprintf("A request for record %s with the same key may still arrive. Nothing is sent before that is over.",
			k.sender)
	case reason == connector.ReasonKeyDisputed && k.rejected:
		return fmt.Sprintf("The customer %s carries this record's key, and a person said that it is not the record's. Take the key off it in the billing service, or say that it is after all.", k.facts.Holder)
	case reason == connector.ReasonKeyDisputed && len(k.against) == 0:
		return fmt.Sprintf("The customer %s carries this record's number without an organisation, and shows nothing else of the record, so payersync did not link it.", k.facts.Holder)
	case reason == connector.ReasonKeyDisputed && k.unscoped:
		return fmt.Sprintf("The customer %s carries this record's number without an organisation and differs in %s, so payersync did not link it. If it is another company's, say so, and the record gets a customer of its own.", k.facts.Holder, inWords(k.against))
	case reason == connector.ReasonKeyDisputed:
		return fmt.Sprintf("The customer %s carries this record's key and looks like somebody else. It differs in %s, so payersync did not link it.", k.facts.Holder, inWords(k.against))
	case reason == connector.ReasonLikeness:
		return alikeDetail(k.alike)
	case reason == connector.ReasonRenumbered:
		return renumbered(k.similar.Left)
	case reason == connector.ReasonEnteredTwice:
		return enteredTwice(k.similar.Twice)
	}
	return ""
}
