package protocol

import (
	"math"

	"payersync/connector"
)

// Facts are all facts about one payer for one decision. Each field names its source. A missing field keeps
// its zero value, and no zero value ever allows a request.
//
// Numbers are tickets of the ledger: the higher ticket is the later event. 0 means never.
type Facts struct {
	// Key is the payer's key, as name=value: of its link or its open create (payers.key_name and key_value,
	// which both keep), or else of its record.
	Key string

	// Record is the accounting record as it was last read (source_records), and what
	// the mapping makes of it.
	Record Record

	// Rival is the strongest claim of any other payer, of any connection, to Key. A payer has a claim if it
	// has this key, and its record is included or unfit, or it is linked.
	Rival Rival

	// Link is the payer's customer (payers.billing_id), with its confirmed and answered values.
	Link Link

	// Look is the newest read of the linked customer, alone or in a list with the same details
	// (remote_customers, by its ticket). Without a link, it is a read of Holder made for this decision.
	Look Look

	// Holders counts the customers with Key in the index (remote_traits of kind key, and payers.billing_id).
	// Holder is the id if there is just one. If nobody holds Key and no create of the payer is open, Holder
	// is the customer a person chose for the payer (words). It is then Free while it exists, has no value
	// under the key's name, and is linked to nobody; Another otherwise.
	Holders Holders
	Holder  string

	// Index says how reliable the index is: the latest complete passes.
	Index Index

	// Alike reports whether unlinked customers without a record's key look like the record (match_candidates:
	// a score of 40 or more, or the same name or e-mail address), if a person must decide on them before a
	// create.
	Alike bool

	// AlikeLeft reports whether removed records of linked payers look like the record, so that it may be one
	// of them under a new number. AlikeTwice reports whether other, living records of the same connection do
	// (likenesses). Pairs rejected by a person do not count (words, apart).
	AlikeLeft, AlikeTwice bool

	// Attempts are this payer's requests not marked as ended: its creates with Key, whatever became of its
	// record since, and the updates and link requests of the linked customer.
	Attempts []Attempt

	// Others are the open creates with Key of other payers, whatever became of their records.
	Others []Attempt

	// Refusal is the newest definite refusal, unless a request succeeded later.
	Refusal Refusal

	// Worn is the ticket at which too many requests had no visible effect, so a person is asked: creates
	// never arrived, or updates never show. The limit is a setting. Requests for a signing link are never
	// given up.
	Worn int64

	// Approved is the newest intent that passed the guards or a person approved, and that no run has carried
	// out yet.
	Approved Intent

	// Mandate is the customer's direct debit mandate in the newest read (mandates), and the requests for it.
	Mandate Mandate

	// Words are a person's decisions about this payer.
	Words Words

	// Doubt marks the restore, or the correction of a clock ahead, before which the ledger may lack requests.
	Doubt Doubt
}

// Usability says how an accounting record can be used.
type Usability uint8

// The standings. Excluded is the zero value: a record without a plan claims nothing.
const (
	Excluded Usability = iota // the mapping or a person leaves it out, or no plan has looked at it
	Included                  // it is mapped, and the service would accept it
	Unfit                     // it cannot be read, mapped or sent as it is; it claims its key all the same
	Gone                      // archived, deleted or merged in its system
	NotShown                  // a whole reading of its system did not show it
)

// Record is a payer's accounting record: source_records, and what the mapping made
// of it.
type Record struct {
	Usability Usability
	Reason    connector.Reason // why it is unfit
	Key       string           // the key the mapping gives it, as name=value; "" when that is not known
	Hash      string           // of the rendered (wanted) customer
	Mandate   bool             // the mapping wants a mandate for it
	// a person has left it out, and the mapping makes something else of it by now; it stays left out
	Anew bool
}

// Rival is the claim of another payer to a key.
type Rival uint8

// The rivals, the weaker first.
const (
	NoRival Rival = iota
	// another payer is linked under this key to a customer not known to be Missing, with or without the key now
	RivalLink
	RivalRecord // another record, included or unfit, has the same key
)

// Link is a payer's customer (payers.billing_id), and the values sent to it.
type Link struct {
	Customer string // "" for none

	// Confirmed is the newest Look.Holds other than "": the hash of our values that a read last found there.
	// ConfirmedAt is the ticket of that read. "" means no read did: the customer was just created or linked.
	Confirmed   string
	ConfirmedAt int64

	// Answered is the hash of the newest update, or the create, with a successful answer. AnsweredAt is the
	// ticket of the answer.
	Answered   string
	AnsweredAt int64
	SentAt     int64 // the time that update left
}

// Shows is the result of a read of a customer.
type Shows uint8

// The results of a read.
const (
	Unseen Shows = iota // there was no read yet
	// not found, or without its key, but so new that the read may lag; only before any read has shown it
	NotYet
	Missing  // the customer does not exist
	Ours     // it has Key; or, for a Holder chosen by a person, nothing under that name yet
	OtherKey // it carries another value under the name of Key
	NoKey    // it has nothing under that name
)

// String describes the result of a read.
func (s Shows) String() string {
	switch s {
	case NotYet:
		return "did not show its key yet, and was made just before"
	case Missing:
		return "does not exist, by the newest read"
	case Ours:
		return "carries the record's key, by the newest read"
	case OtherKey:
		return "carries another key, by the newest read"
	case NoKey:
		return "carries no key of ours, by the newest read"
	}
	return "has not been read yet"
}

// Look is one read of one customer.
type Look struct {
	Seq   int64 // taken before the read began
	Shows Shows

	// Holds is the hash of what of ours the customer holds: of the wanted, the
	// confirmed, or of an attempt's customer, whichever a merge would not change. ""
	// when it holds none of these as it was sent.
	Holds string

	// Unmoved reports whether the customer is, to the byte, as it was read before the
	// newest update: the read may lag behind.
	Unmoved bool

	// Now reports whether the read was made for this very decision, with nothing sent
	// to the customer since.
	Now bool

	Since int64 // ticket of the first read with the value of Holds

	// Disputed reports whether what the read showed speaks against its being the
	// record's customer, though it carries Key. Package match has the rules.
	Disputed bool
}

// Holders counts the customers with a key in the index.
type Holders uint8

// The holders.
const (
	Nobody  Holders = iota
	Free            // one customer, and it is linked to no payer
	Own             // one customer, and it is linked to this payer
	Another         // one customer, and it is linked to another payer
	Several         // more than one customer
)

// Index says how reliable the index of the service's customers is. Package reconcile defines the proof of
// absence.
type Index struct {
	// Since is the ticket before the older of two lists in a row with the same proof; 0 when there is no such
	// pair, or it is too old.
	Since int64

	// Now reports whether this very run has listed the customers, or has searched for
	// this one, with success.
	Now bool
}

// Attempt is a request that left, or may have left, with an unknown end. A frozen create is one attempt
// however often its bytes are sent. Every sending of an update or a link request is an attempt of its own,
// because each has its own bytes or its own effect.
type Attempt struct {
	Seq int64 // of the newest sending; names the attempt
	// ticket at which its time was over: it can no longer arrive, and every later read shows its effect; 0 before that
	Over     int64
	Action   connector.Action // create, update or link
	Customer string           // that it goes to; "" for a create
	Hash     string           // of the rendered customer in its bytes
	// of the successful answer to an update; 0 for none. It is kept, because reads may lag behind it
	Answered int64
	// not to be repeated before its time is over: sent often enough, refused since, or to a service without a memory of
	// bytes
	Rest bool
}

// Refusal is a definite answer without success: the service refused, or returned another record's customer.
type Refusal struct {
	Reason connector.Reason // rejected or answer_mismatch; "" for none
	Hash   string           // of the sent customer
	Seq    int64            // of the answer
}

// Intent is an approved change of a plan.
type Intent struct {
	Action   connector.Action // create, adopt or update
	Customer string           // that is adopted or updated; "" for a create
	Hash     string           // of the wanted customer
	Unlinks  bool             // the update takes the key off the customer, and lets it go
}

// Mandate is what is known of a customer's direct debit mandate: the newest row of
// mandates, and what was asked for.
type Mandate struct {
	Status connector.MandateStatus // "" when none was ever seen
	Seq    int64                   // of the first read or answer with the status
	Link   bool                    // its signing link is kept

	// Again says whether a repeated request for a waiting mandate returns the same mandate's link.
	Again Again

	Asked    int64 // of the newest request for a link
	Refused  int64 // of the refusal, with no other answer since; 0 for none
	Rest     bool  // a request left without an answer, and its pause is not over (NextTry); no run asks before
	Approved bool  // a plan within the guards, or approved, requests it
}

// Again is the effect of a repeated request for a mandate that waits for its signature.
type Again uint8

// The effects of a repeated request; the billing service documents none.
const (
	AgainUnknown Again = iota
	AgainSame          // it gives the same mandate with its link
	AgainNew           // it makes another mandate
)

// Words are the tickets of a person's decisions on a payer; 0 for never.
type Words struct {
	Create int64 // make the customer although others look like it
	Adopt  int64 // Holder is the record's customer, despite all differences
	Retry  int64 // refused or exhausted requests may be tried again
	Ask    int64 // request a mandate, whatever became of the one before
	Unlink int64 // the linked customer is not the record's
	// leave the mandate as it is; the decision lapses when the mandate, its status or its last link request changes
	LetBe int64
	// the record has left, and its customer with this very mandate may stay; it lapses when the record returns
	Leave int64
}

// Doubt marks the time from which the ledger knows all requests. Before a restore from a backup, or while its
// clock was ahead, requests may have left without a trace. A restore counts as one more attempt, known only
// by its time.
type Doubt struct {
	Since int64 // ticket of this note; lower tickets are from before; 0 for never
	Over  int64 // ticket at which the time of all earlier requests was over; 0 before that
}

// Wanted reports whether the payer's record lays claim to Key, fit to be sent or not.
func (f *Facts) Wanted() bool {
	claims := f.Record.Usability == Included || f.Record.Usability == Unfit
	return claims && (f.Record.Key == "" || f.Record.Key == f.Key)
}

// AsPlanned adds the change that a plan would let go to the facts: the limits decide on it later.
func (f *Facts) AsPlanned() {
	f.Approved = Intent{Action: connector.ActionCreate, Hash: f.Record.Hash}
	switch {
	case f.Link.Customer != "":
		f.Approved.Action, f.Approved.Customer, f.Approved.Unlinks = connector.ActionUpdate, f.Link.Customer,
			f.Words.Unlink != 0
	case f.Holders == Free:
		f.Approved.Action, f.Approved.Customer = connector.ActionAdopt, f.Holder
	}
	f.Mandate.Approved = true
}

// AsRead turns the facts into those of a plan. A run reads the linked customer right before it sends anything, and
// the read ends every request whose time is over.
func (f *Facts) AsRead() {
	f.Look.Now, f.Look.Seq = true, math.MaxInt64
	if f.Look.Shows == Unseen {
		f.Look.Shows = Ours
	}
}

// Open reports whether the attempt may still take effect, or no read has shown its outcome yet. seen is the
// ticket of the read that shows it: for a create, the proof of the index; otherwise the read of the customer.
func (a Attempt) Open(seen int64) bool { return a.Over == 0 || seen <= a.Over }

// open reports whether requests from before a restore may still take effect.
func (d Doubt) open(seen int64) bool { return d.Since != 0 && (d.Over == 0 || seen <= d.Over) }

// open reports whether the attempt is unfinished. An answered update has also ended once the answer of a
// later update is here.
func (f *Facts) open(a Attempt) bool {
	return a.Open(f.seen(a)) && (a.Answered == 0 || f.Link.SentAt <= a.Answered)
}

// seen returns the ticket of the read that shows the attempt's outcome.
func (f *Facts) seen(a Attempt) int64 {
	if a.Action == connector.ActionCreate {
		return f.Index.Since
	}
	return f.readAt()
}

// readAt returns the ticket of the look, when it shows anything at all.
func (f *Facts) readAt() int64 {
	if f.Look.Shows == Unseen || f.Look.Shows == NotYet {
		return 0
	}
	return f.Look.Seq
}
