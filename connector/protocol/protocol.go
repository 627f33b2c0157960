package protocol

import (
	"slices"

	"payersync/connector"
)

// Do is the next step's action.
type Do string

// The possible steps. A run reads the list, and each customer, once for one decision. Open questions wait for
// the next run.
const (
	Nothing      Do = "nothing"
	Wait         Do = "wait"      // for time, for an answer, or for a plan to be approved
	Later        Do = "later"     // decide again at a known time; in step until then, as far as known
	ReadList     Do = "read list" // until the index is trusted; a search for the one customer may do if it is
	ReadCustomer Do = "read"      // the customer
	Tell         Do = "person"    // has to decide; nothing is sent
	Create       Do = "create"    // freeze the bytes, then send them
	Replay       Do = "replay"    // the frozen bytes
	Adopt        Do = "adopt"     // link the customer just read
	Update       Do = "update"    // merge into the read customer, freeze, send
	AskLink      Do = "ask"       // for a signing link
	// remove the key from the customer, restore its values, and unlink it when a read confirms that
	Unlink   Do = "unlink"
	Approval Do = "approval" // wait for the plan to be approved
)

// Sends reports whether the step changes the service.
func (d Do) Sends() bool {
	switch d {
	case Create, Replay, Update, AskLink, Unlink:
		return true
	}
	return false
}

// Step is the next step for a payer.
type Step struct {
	Line     string // the table's line it comes from
	Do       Do
	Reason   connector.Reason // what a person is told; "" for nothing
	Customer string           // the customer to read, link, update or search
	Attempt  int64            // ticket of the attempt to replay
}

// line is one line of a table: its step applies when all conditions of one set hold and none of another.
type line struct {
	name      string
	all, none conditions
	do        Do
	reason    connector.Reason
	needs     needs
}

// needs are the preconditions of a step.
type needs uint8

const (
	approval needs = 1 << iota // an approved plan
	list                       // a list, or a search, of this run
	look                       // a read of the customer, for this decision
)

// pick returns the first line that fits. There always is one.
func pick(table []line, c conditions) *line {
	for i := range table {
		if l := &table[i]; c&l.all == l.all && c&l.none == 0 {
			return l
		}
	}
	return &unforeseen
}

// unforeseen applies if no line fits: nothing is sent. A test shows that this never happens.
var unforeseen = line{name: "unforeseen", do: Wait}

// Outcome is everything that follows from the facts about one payer.
type Outcome struct {
	// Customer and Mandate are the next steps for the payer's customer, and for the customer's mandate.
	Customer, Mandate Step

	// Findings are what people are told, the most important first, at most one for each lane.
	Findings []Finding

	// Link says how the payer relates to its customer, in the words of the views.
	Link connector.LinkState

	// Class is the payer's progress. Counts and the exit status of a run are sums over classes.
	Class Status

	// Ended are the tickets of this and other payers' attempts that have ended by the facts. An answered
	// create or link request has ended before: no fact names it.
	Ended []int64

	holding conditions
}

// Decide returns what follows from the facts: the next steps, the findings, the class, and the finished
// attempts. It is the only place where any of these is computed, and it knows an outcome for any facts.
func Decide(f Facts) Outcome { return decide(&f) }

func decide(f *Facts) Outcome {
	c := f.conditions()
	o := Outcome{holding: c, Customer: f.customer(pick(customers, c)), Mandate: f.mandate(pick(mandates, c))}
	o.Findings, o.Link, o.Class, o.Ended = o.findings(f), o.link(f), o.class(), f.ended()
	return o
}

// ended returns the tickets of the attempts that have ended.
func (f *Facts) ended() (out []int64) {
	for _, attempts := range [...][]Attempt{f.Attempts, f.Others} {
		for _, a := range attempts {
			if !f.open(a) {
				out = append(out, a.Seq)
			}
		}
	}
	return out
}

func (f *Facts) customer(l *line) Step {
	s := Step{Line: l.name, Do: l.do, Reason: l.reason, Customer: f.Link.Customer}
	if s.Customer == "" && (f.Holders == Free || f.Holders == Own) {
		s.Customer = f.Holder
	}
	switch {
	case s.Do == Tell && s.Reason == "" && l.all&unfit != 0:
		s.Reason = f.Record.Reason
	case s.Do == Tell && s.Reason == "":
		s.Reason = f.Refusal.Reason
	case s.Do == Replay:
		for _, a := range f.Attempts {
			if a.Action == connector.ActionCreate {
				s.Attempt = a.Seq
			}
		}
	}
	return f.ready(l, s, f.letGo(s))
}

func (f *Facts) mandate(l *line) Step {
	return f.ready(l, Step{Line: l.name, Do: l.do, Reason: l.reason, Customer: f.Link.Customer}, f.Mandate.Approved)
}

// letGo reports whether an approved plan contains the step. To link a customer includes the update to the
// wanted values.
func (f *Facts) letGo(s Step) bool {
	a := f.Approved
	if a.Hash != f.Record.Hash || a.Action != connector.ActionCreate && a.Customer != s.Customer {
		return false
	}
	switch s.Do {
	case Create:
		return a.Action == connector.ActionCreate
	case Adopt:
		return a.Action == connector.ActionAdopt
	case Update:
		return a.Action == connector.ActionUpdate && !a.Unlinks || a.Action == connector.ActionAdopt
	case Unlink:
		return a.Action == connector.ActionUpdate && a.Unlinks
	}
	return false
}

// ready puts a missing precondition before a step.
func (f *Facts) ready(l *line, s Step, approved bool) Step {
	switch {
	case l.needs&approval != 0 && !approved:
		s.Do = Approval
	case l.needs&list != 0 && !f.Index.Now:
		s.Do = ReadList
	case l.needs&look != 0 && !f.Look.Now:
		s.Do = ReadCustomer
	}
	return s
}

// Lane is the side of a payer that a reason is about.
type Lane string

// The lanes.
const (
	LaneRecord   Lane = "record"
	LaneCustomer Lane = "link"
	LaneMandate  Lane = "mandate"
)

// Finding is a message about a payer for a person.
type Finding struct {
	Lane   Lane
	Reason connector.Reason
}

// About returns the reason of the finding in a lane; "" for none.
func (o Outcome) About(lane Lane) connector.Reason {
	for _, n := range o.Findings {
		if n.Lane == lane {
			return n.Reason
		}
	}
	return ""
}

// findings returns the findings about the payer. A wait without a task for a person is a finding, too, if a
// request without an answer causes it. A problem of the linked customer and one of the record are both listed.
func (o *Outcome) findings(f *Facts) (out []Finding) {
	customer, mandate := o.Customer.Reason, o.Mandate.Reason
	if customer == "" && o.Customer.Do != Nothing && o.holding&(wanted|linked|holds) == wanted|linked &&
		f.sent(connector.ActionUpdate) {
		customer = connector.ReasonOutcomeUnknown
	}
	if customer != "" {
		out = append(out, Finding{LaneOf(customer), customer})
	}
	switch {
	case o.holding&(unfit|linked) == unfit && customer != f.Record.Reason: // while its create is waited for
		out = append(out, Finding{LaneRecord, f.Record.Reason})
	case o.holding&linked != 0 && customer != "" && LaneOf(customer) == LaneRecord:
		if beside := pick(customers, o.holding&^(left|gone|anew|unfit|rekeyed|rival)).reason; beside != "" &&
			o.holding&(missing|several|otherKey|noKey) != 0 {
			out = append(out, Finding{LaneCustomer, beside})
		}
	}
	if mandate != "" {
		out = append(out, Finding{LaneMandate, mandate})
	}
	return out
}

// sent reports whether an attempt of the kind is open.
func (f *Facts) sent(action connector.Action) bool {
	return slices.ContainsFunc(f.Attempts, func(a Attempt) bool { return a.Action == action && f.open(a) })
}

// LaneOf says whether a reason is about the record or about its customer.
func LaneOf(r connector.Reason) Lane {
	switch r {
	case connector.ReasonLikeness, connector.ReasonRenumbered, connector.ReasonEnteredTwice, connector.ReasonKeyDoubled,
		connector.ReasonKeyRemoved, connector.ReasonOtherKey, connector.ReasonKeyDisputed, connector.ReasonUnlinked,
		connector.ReasonAnswerMismatch,
		connector.ReasonKeyUnsettled, connector.ReasonKeyUnderWay, connector.ReasonCustomerMissing, connector.ReasonRejected,
		connector.ReasonOutcomeUnknown, connector.ReasonNoAnswer, connector.ReasonForeignChange:
		return LaneCustomer
	}
	return LaneRecord
}

// Status is a payer's progress, for counts and for the word complete: a run is complete when no payer is
// Working.
type Status string

// The statuses. If a payer's customer and mandate differ, the earlier in this list counts.
const (
	Working  Status = "working"  // there is something to send, to read or to wait for
	Unpassed Status = "approval" // it waits for a plan to be approved
	Failed   Status = "failed"   // the service refused
	Held     Status = "held"     // it waits for a person
	InStep   Status = "in step"  // nothing is to be done
	Out      Status = "out"      // the record makes no claim
)

// class returns the payer's progress.
func (o *Outcome) class() Status {
	return Worse(o.Progress(), o.Mandate.class(o.holding&left != 0))
}

// Progress returns the class of the record and its customer alone. The counts of a run add the findings about mandates.
func (o *Outcome) Progress() Status { return o.Customer.class(o.holding&left != 0) }

func (s *Step) class(gone bool) Status {
	switch s.Do {
	case Nothing, Later:
		return ClassOf(gone, false, "")
	case Tell:
		return ClassOf(gone, false, s.Reason)
	case Approval:
		return Unpassed
	}
	return ClassOf(gone, true, s.Reason)
}

// ClassOf returns a payer's class. Its record makes no claim if left is true. A run has something to send, to
// read or to wait for if works is true. The finding's reason is told, "" for none.
func ClassOf(left, works bool, told connector.Reason) Status {
	switch {
	case works:
		return Working
	case told != "":
		return StatusOf(told)
	case left:
		return Out
	}
	return InStep
}

// link returns how the payer relates to its customer. It is an output: nothing is decided by it.
func (o *Outcome) link(f *Facts) connector.LinkState {
	switch c := o.holding; {
	case c&linked == 0:
		return o.unlinked()
	case f.Look.Shows == Missing:
		return connector.LinkMissing
	case f.Look.Shows == Unseen || f.Look.Shows == NotYet:
		return connector.LinkCreating
	case f.Look.Shows != Ours || c&several != 0:
		return connector.LinkConflict
	}
	return connector.LinkLinked
}

// unlinked is the link of a payer without a customer. It follows from the next step: the customers of others are a
// conflict only if the payer needs a person for them.
func (o *Outcome) unlinked() connector.LinkState {
	switch {
	case o.holding&creating != 0:
		return connector.LinkCreating
	case o.Customer.Reason == connector.ReasonKeyDoubled || o.Customer.Reason == connector.ReasonOtherKey:
		return connector.LinkConflict
	case o.Customer.Do == Tell:
		return connector.LinkHeld
	}
	return connector.LinkNew
}

// StatusOf returns a payer's status from its finding's reason: one that ends by itself is worked on, and
// everything else waits for a person.
func StatusOf(r connector.Reason) Status {
	switch {
	case r.Who() == connector.WhoNobody:
		return Working
	case r == connector.ReasonRejected, r == connector.ReasonLinkRefused, r == connector.ReasonAnswerMismatch:
		return Failed
	}
	return Held
}

// Worse returns the status with the higher priority.
func Worse(a, b Status) Status {
	if rank(a) < rank(b) {
		return a
	}
	return b
}

// rank is the order of the statuses.
func rank(s Status) int { return slices.Index(ranks[:], s) }

var ranks = [...]Status{Working, Unpassed, Failed, Held, InStep, Out}
