package syncer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/connector/reconcile"
	"payersync/state"
)

const (
	applyPage     = 256  // changes read from the ledger at a time
	resumeMost    = 4096 // unanswered changes handled in one run
	maxAlike      = 5    // equal refusals in a row of valid requests, after which a walk stops
	maxSilence    = 5    // unanswered calls in a row that stop a walk
	quickReplays  = 5    // quick attempts of a create within state.Arrival
	maxReplays    = 10   // attempts of a create before a person is asked
	updateTries   = 3    // attempts of an update invisible in reads, before a finding
	verifySingles = 20   // customers verified one by one instead of by a list pass
)

// apply carries out the approved part of the plan: customers first, then a read to confirm new customers, then signing
// links. The plan may be older than this run, so apply first checks the index again.
func (r *run) apply(ctx context.Context) error {
	if err := r.believeIndex(ctx, r.plan.Creates); err != nil {
		return err
	}
	if err := r.sendAll(ctx); err != nil {
		return err
	}
	if err := r.walk(ctx, walk{stage: "links", lane: state.LaneMandate, pending: true, grouped: true, do: r.applyLink}); err != nil {
		return err
	}
	if err := r.heldBack(ctx); err != nil || r.plan.Limits != "" || r.opts.Only != "" { // the rest waits
		return err
	}
	if r.empty != "" {
		r.empty = state.PlanApplied
		return nil
	}
	return r.setPlan(ctx, *r.plan, state.PlanApplied)
}

// resume finishes frozen requests without a definite answer, with their frozen bytes. It also verifies created
// customers not yet read back. A few records without an answer do not hold up the others.
func (r *run) resume(ctx context.Context) error {
	if err := r.lookBeforeReplay(ctx); err != nil {
		return err
	}
	if err := r.walk(ctx, walk{stage: "send", lane: state.LaneCustomer, do: r.applyCustomer}); err != nil {
		return err
	}
	if err := r.verify(ctx); err != nil {
		return err
	}
	missing, err := r.Ledger.Missing(ctx, r.conn.Name, verifySingles)
	if err != nil {
		return err
	}
	if err := r.readBack(ctx, missing); err != nil { // a read may have lagged behind, or somebody put the customer back
		return err
	}
	if err := r.Ledger.NoteArrived(ctx); err != nil {
		return err
	}
	outlived, err := r.Ledger.Outlived(ctx, r.conn.Name, verifySingles)
	if err != nil {
		return err
	}
	if err := r.readBack(ctx, outlived); err != nil { // it shows the results of expired updates
		return err
	}
	return r.walk(ctx, walk{stage: "links", lane: state.LaneMandate, do: r.applyLink})
}

// lookBeforeReplay reads the list once when creates wait for an answer. A customer in the list is the answer and saves
// a second request. While the list is unreadable or incomplete, creates are left alone.
func (r *run) lookBeforeReplay(ctx context.Context) error {
	open, err := r.Ledger.OpenCreates(ctx, r.conn.Name)
	if r.looked = open == 0; err != nil || r.looked {
		return err
	}
	if err = r.without(r.prove(ctx)); err == nil {
		err = r.noteBelieved(ctx)
	}
	r.looked = err == nil && r.noProof == nil
	if connector.FaultOf(err) == connector.FaultUnavailable {
		return nil
	}
	return err
}

// walk describes which changes a pass handles and how.
type walk struct {
	stage   string // for progress
	lane    string
	pending bool // approved planned ones; otherwise those without an answer
	grouped bool // requests are frozen by the group
	do      func(context.Context, state.Change) error
}

// walk passes each selected change to do, several at a time. It stops at the first error about the service as a whole,
// or when ctx ends: no new request is sent, and requests in flight are finished. If the service stops answering, a walk
// over planned changes returns an error. A walk over unanswered changes just ends.
func (r *run) walk(ctx context.Context, how walk) error {
	count := r.Ledger.UnansweredCount
	if how.pending {
		count = r.Ledger.ReleasedCount
	}
	total, err := count(ctx, r.conn.Name, how.lane)
	if err != nil || total == 0 {
		return err
	}
	inFlight, release := withGrace(ctx, r.Settings.Grace)
	defer release()
	sending, last := context.WithCancel(ctx)
	defer last()
	inFlight = connector.WithLastCall(inFlight, sending)
	if how.pending && r.opts.Only != "" {
		total = 0 // how many of these are the record's is not counted
	}
	w := &walker{run: r, walk: how, total: total, sending: sending, last: last}
	w.creates = keepAnswers(func(group []state.CreateAnswer) { w.saveCreates(ctx, group) })
	w.links = keepAnswers(func(group []linkAnswer) { w.saveLinks(ctx, group) })
	var group errgroup.Group
	group.SetLimit(r.Settings.Workers)
	start := func(do work) {
		group.Go(func() error {
			if err := connector.Guard(func() error { return do(inFlight) }); !errors.Is(err, errKept) {
				w.finish(err)
			}
			return nil
		})
	}
	if how.grouped {
		err = w.dispatchGroups(ctx, start)
	} else {
		err = w.dispatch(ctx, start)
	}
	_ = group.Wait() // workers report to the walker
	w.creates.close()
	w.links.close()
	return errors.Join(err, w.stop)
}

// withGrace returns a context with an end delayed by grace after the end of ctx. Requests in flight can still be
// answered.
func withGrace(ctx context.Context, grace time.Duration) (context.Context, func()) {
	inFlight, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(inFlight, func() { timer.Stop() })
	})
	return inFlight, func() {
		stop()
		cancel(nil)
	}
}

// walker hands out changes and remembers why to stop.
type walker struct {
	*run
	walk
	total   int
	sending context.Context // ended when nothing more leaves, nor is handed out
	last    func()          // ends it
	creates *answers[state.CreateAnswer]
	links   *answers[linkAnswer]
	mu      sync.Mutex
	done    int
	silent  int // calls without an answer since the last one with
	alike   []refusal
	stop    error // why the run cannot go on
}

// work carries out one change.
type work func(context.Context) error

func (w *walker) dispatch(ctx context.Context, start func(work)) error {
	for after := int64(0); ; {
		changes, err := w.page(ctx, after)
		if err != nil || len(changes) == 0 {
			return err
		}
		for _, c := range changes {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if w.sending.Err() != nil {
				return nil
			}
			if !w.leavesOut(c) {
				start(func(ctx context.Context) error { return w.do(ctx, c) })
			}
		}
		if !w.pending {
			return nil
		}
		after = changes[len(changes)-1].ID
	}
}

// leavesOut reports whether a change waits for the next run, because this one is for another record alone.
func (w *walker) leavesOut(c state.Change) bool {
	return w.pending && w.opts.Only != "" && c.Payer.SourceID != w.opts.Only
}

// page returns the next changes after change id after. Unanswered changes come in one page: they are ordered by their
// last attempt, so an id cannot page through them.
func (w *walker) page(ctx context.Context, after int64) ([]state.Change, error) {
	if w.pending {
		return w.Ledger.Released(ctx, w.conn.Name, w.lane, after, applyPage)
	}
	return w.Ledger.Changes(ctx, w.conn.Name, w.lane, false, after, resumeMost)
}

// finish takes a worker's result. A record's own fate is in the ledger by then; only problems of all records
// come here as an error.
func (w *walker) finish(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done++
	w.progress(w.stage, w.done, w.total)
	var refused refusal
	switch fault := connector.FaultOf(err); {
	case err == nil, errors.Is(err, state.ErrNotOpen): // a person has said otherwise meanwhile
		w.silent, w.alike = 0, nil
	case errors.As(err, &refused):
		w.silent = 0
		w.count(refused)
	case errors.Is(err, connector.ErrWrongWay) && w.stop == nil:
		w.last()
		w.stop = err
	case fault == connector.FaultUnavailable && w.sending.Err() != nil: // it never left
	case fault == connector.FaultUnknown, fault == connector.FaultUnavailable:
		if w.silent++; w.silent < maxSilence || w.sending.Err() != nil {
			return
		}
		w.last()
		if w.pending {
			w.stop = fmt.Errorf("gave up after %d calls without an answer: %w", w.silent, err)
		}
	case w.stop == nil:
		w.last()
		w.stop = err
	}
}

// refusal is a request refused with a status unrelated to its content: payment required, conflict, locked. Its record
// already counts as rejected.
type refusal struct {
	status   int
	sourceID string
	err      error
}

func (r refusal) Error() string { return r.err.Error() }

// refusedAlike returns a refusal for the walk to count, or nil if the error is about the record itself.
func refusedAlike(c state.Change, err error) error {
	var remote *connector.RemoteError
	if !errors.As(err, &remote) {
		return nil
	}
	switch remote.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return nil
	}
	return refusal{remote.Status, c.Payer.SourceID, err}
}

// RefusedError means the service refused several requests in a row with the same status, so no single record is the
// cause. The next run tries these records again.
type RefusedError struct {
	Status int // HTTP status
	Err    error
}

// Error says what was refused and what to do.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the billing service refused %d requests in a row alike (HTTP %d), so no more are sent; the next run tries them again: ask the billing service if it stays", maxAlike, e.Status)
}

// Unwrap returns the last refusal.
func (e *RefusedError) Unwrap() error { return e.Err }

// count counts refusals in a row, and stops the walk when they are alike: then
// their records are planned again.
func (w *walker) count(r refusal) {
	if len(w.alike) > 0 && w.alike[0].status != r.status {
		w.alike = nil
	}
	w.alike = append(w.alike, r)
	if len(w.alike) < maxAlike {
		return
	}
	w.last()
	err := w.Ledger.Do(context.Background(), func(tx *state.Tx) error {
		for _, one := range w.alike {
			if _, err := tx.RetryRecord(w.conn.Name, one.sourceID); err != nil {
				return err
			}
			tx.Touch(state.Payer{Connection: w.conn.Name, SourceID: one.sourceID}) // the run tells it once, for all of them
			if err := tx.ClearAttention(w.conn.Name, one.sourceID, state.TopicLink, connector.ReasonRejected); err != nil {
				return err
			}
		}
		return nil
	})
	w.stop = errors.Join(&RefusedError{Status: r.status, Err: r.err}, err)
}

// applyCustomer carries out one change of a customer.
func (r *run) applyCustomer(ctx context.Context, c state.Change) error {
	if c.State == connector.ChangePending && c.Payer.BillingID == "" && r.noProof != nil {
		return nil // it waits until the list proves something
	}
	if r.linkOnly && c.State == connector.ChangePending && !c.Unlinks && c.Action != connector.ActionAdopt {
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "") // planned before this was known
	}
	switch c.Action {
	case connector.ActionCreate:
		return r.create(ctx, c)
	case connector.ActionAdopt:
		return r.gated(ctx, c, r.adopt)
	default:
		return r.gated(ctx, c, r.update)
	}
}

// requestFailed stores the meaning of a failed call for its change. It returns the error when it concerns
// more than this record.
func (r *run) requestFailed(ctx context.Context, c state.Change, err error) error {
	if errors.Is(err, connector.ErrWrongWay) {
		return err // no record is at fault
	}
	switch connector.FaultOf(err) {
	case connector.FaultRejected:
		why := whyRefused(err)
		if proven, err := r.isProven(ctx); err != nil {
			return err
		} else if c.Action != connector.ActionCreate && !proven {
			why += " No update has come through yet: if it is so for every customer, compare billing.dialect.update, person_fields, address_fields and read_only with what the service documents."
		}
		if err := r.closeWith(ctx, c, connector.ChangeFailed, connector.ReasonRejected, why); err != nil {
			return err
		}
		return refusedAlike(c, err)
	case connector.FaultUnknown:
		return errors.Join(err, r.leaveUnknown(ctx, c, ""))
	}
	return err // nothing happened: the frozen bytes wait for the next run
}

// whyRefused says why the service refused, as far as it may be shown.
func whyRefused(err error) string {
	var remote *connector.RemoteError
	if !errors.As(err, &remote) {
		return ""
	}
	return fmt.Sprintf("The billing service refused the customer: %s (HTTP %d).", remote.Detail, remote.Status)
}

func (r *run) closeWith(ctx context.Context, c state.Change, to connector.ChangeState, reason connector.Reason, detail string) error {
	err := r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		return tx.CloseWith(r.id, c, to, reason, detail)
	})
	if err == nil && to == connector.ChangeFailed {
		r.tellFailed(c, reason)
	}
	return err
}

func (r *run) tellFailed(c state.Change, reason connector.Reason) {
	if r.opts.Failed != nil {
		r.opts.Failed(FailedChange{Run: r.id, SourceID: c.Payer.SourceID, Action: c.Does(), Reason: reason})
	}
}

func (r *run) leaveUnknown(ctx context.Context, c state.Change, detail string) error {
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.LeaveUnknown(r.id, c, detail) })
}

func (r *run) cause() string { return fmt.Sprintf("run %d", r.id) }

// adopt reads a customer with a payer's key and asks package protocol whether it belongs to the payer. If so, adopt
// links the two and updates the customer. A missing customer does not count as deleted: only complete lists prove
// deletion. A customer changed since the plan is planned again. A customer without the whole key is updated first: see
// adoptBare.
func (r *run) adopt(ctx context.Context, c state.Change) error {
	if c.Payer.BillingID != "" { // linked by an earlier try with an unanswered update
		return r.update(ctx, c)
	}
	shown, err := r.see(ctx, c.BillingID)
	if err != nil {
		return err
	}
	fetched, ticket := shown.customer, shown.ticket
	k, err := r.gatherKey(ctx, c.Payer.SourceID, c.Payer.Key, protocol.Record{Standing: protocol.Included, Key: c.Payer.Key.ID(), Hash: c.Wanted.Hash()}, protocol.Facts{}, c.Wanted)
	if err != nil {
		return err
	}
	if why := k.spentBy(shown); why != "" {
		return r.spend(ctx, c, why)
	}
	k.judge(shown, c.Wanted)
	next := protocol.Decide(k.facts)
	switch step := next.Customer; {
	case step.Do == protocol.Wait, step.Do == protocol.ReadList: // for time or for lists, and for no person: it is planned again
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	case step.Do != protocol.Adopt && step.Reason != "":
		reason := k.told(step.Reason)
		return r.hold(ctx, c, next.Link, reason, k.because(reason))
	case step.Do != protocol.Adopt || step.Customer != c.BillingID: // nobody carries it any more, or another does
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	}
	if r.linkOnly && (k.byWord || k.unscoped) {
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	}
	carries := connector.KeyIn(fetched.ExternalData, c.Payer.Key.Name) == c.Payer.Key
	if !r.linkOnly && (c.State == connector.ChangePending || !carries) { // a sent change that arrived ends as it began
		if as, err := r.adoptsAsShown(ctx, c, fetched); err != nil || !as {
			return errors.Join(err, r.closeWith(ctx, c, connector.ChangeVoid, "", ""))
		}
	}
	if !carries {
		return r.adoptBare(ctx, c, fetched)
	}
	seen, taken, err := r.take(ctx, c, fetched, ticket)
	if err != nil || !taken {
		return err
	}
	c.Payer.BillingID, c.Payer.Seen = c.BillingID, true
	if r.linkOnly {
		return r.linkAlone(ctx, c)
	}
	if seen.Stale { // a newer read was applied while the payer was nobody's: see its mandate too
		return r.update(ctx, c)
	}
	return r.mergeOrResume(ctx, c, fetched)
}

// adoptsAsShown is asShown for an adoption.
func (r *run) adoptsAsShown(ctx context.Context, c state.Change, fetched connector.RemoteCustomer) (bool, error) {
	p := c.Payer
	p.BillingID = c.BillingID
	base, err := r.base(ctx, p)
	if err != nil {
		return false, err
	}
	as, err := r.asShown(c, fetched, base, false)
	return as || err != nil, nil // an incomparable value cannot be merged; merge reports it
}

// take links a payer to a customer just read with its key, and reports whether it could. Otherwise it closes the
// change.
func (r *run) take(ctx context.Context, c state.Change, fetched connector.RemoteCustomer, ticket int64) (seen reconcile.Seen, taken bool, err error) {
	err = r.Ledger.Do(ctx, func(tx *state.Tx) error {
		if holders, err := tx.KeyCount(c.Payer.Key); err != nil || holders > 1 {
			return errors.Join(err, state.ErrKeyDoubled)
		}
		if err := tx.LinkPayer(c.Payer, c.BillingID, true); err != nil {
			return err
		}
		seen, err = reconcile.Observe(tx, reconcile.OfCustomer(fetched, ticket, connector.CauseAdopt, r.cause()))
		return err
	})
	switch {
	case errors.Is(err, state.ErrCustomerTaken):
		return seen, false, r.closeWith(ctx, c, connector.ChangeHeld, connector.ReasonOtherKey, "")
	case errors.Is(err, state.ErrKeyDoubled):
		return seen, false, r.hold(ctx, c, connector.LinkConflict, connector.ReasonKeyDoubled, "")
	}
	return seen, err == nil, err
}

// hold holds a change for a person, and says how its payer is linked. A blank detail is
// the reason's own sentence.
func (r *run) hold(ctx context.Context, c state.Change, link connector.LinkState, reason connector.Reason, detail string) error {
	return r.Ledger.Do(ctx, func(tx *state.Tx) error {
		err := tx.SetLinkState(c.Payer.Connection, c.Payer.SourceID, link)
		return errors.Join(err, tx.CloseWith(r.id, c, connector.ChangeHeld, reason, detail))
	})
}

// fetch reads one customer, with a ticket taken before.
func (r *run) fetch(ctx context.Context, id string) (connector.RemoteCustomer, int64, error) {
	ticket, err := r.Ledger.Ticket(ctx)
	if err != nil {
		return connector.RemoteCustomer{}, 0, err
	}
	c, err := r.Billing.Customer(ctx, id)
	if err != nil {
		return c, ticket, fmt.Errorf("read customer %s: %w", id, err)
	}
	return c, ticket, nil
}

// missing holds a change if its customer no longer exists. A change of a newly created customer waits.
func (r *run) missing(ctx context.Context, c state.Change, ticket int64) error {
	err := r.Ledger.Do(ctx, func(tx *state.Tx) error {
		if err := reconcile.Missing(tx, c.Payer, ticket); err != nil {
			return err
		}
		if c.Lane == state.LaneMandate { // planned again when the customer is back
			return tx.CloseWith(r.id, c, connector.ChangeVoid, "", "")
		}
		return tx.CloseWith(r.id, c, connector.ChangeHeld, connector.ReasonCustomerMissing, "")
	})
	if errors.Is(err, reconcile.ErrNotYet) {
		return nil // the change stays for a read without a lag
	}
	return err
}

// update reads the customer, asks package protocol what is next for it, merges and sends
// (connector/RULES.md#fetch-merge-send).
func (r *run) update(ctx context.Context, c state.Change) error {
	if c.Unlinks {
		return r.unlink(ctx, c)
	}
	fetched, err := r.observe(ctx, c, connector.CauseUpdate)
	if err != nil || fetched == nil {
		return err
	}
	if !c.Payer.Seen && len(fetched.ExternalData) == 0 {
		return nil // a new customer without its key yet: reported, and read again
	}
	f, err := r.gatherUpdate(ctx, c)
	if err != nil {
		return err
	}
	next := protocol.Decide(f)
	switch step := next.Customer; {
	case step.Do == protocol.Tell:
		return r.hold(ctx, c, next.Link, step.Reason, "")
	case f.Record.Standing != protocol.Included: // nobody asks for it any more
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
	case step.Do == protocol.Update, step.Do == protocol.Nothing, step.Do == protocol.Later:
		return r.mergeAsShown(ctx, c, *fetched, f.Look.Holds)
	}
	return nil // it cannot be read yet
}

// mergeAsShown calls merge if the update does to the customer exactly the planned changes; otherwise the record is
// planned again. An update already sent continues in resumeUpdate. holds is the hash of our values in the read.
func (r *run) mergeAsShown(ctx context.Context, c state.Change, fetched connector.RemoteCustomer, holds string) error {
	if c.State == connector.ChangePending {
		base, err := r.base(ctx, c.Payer)
		if err != nil {
			return err
		}
		if r.isEcho(c, fetched, base, holds) {
			if err := r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.NoteEcho(c.Payer) }); err != nil {
				return err
			}
		}
		if as, err := r.asShown(c, fetched, base, holds != "" && holds == c.Payer.AppliedHash); err == nil && !as { // an incomparable value cannot be merged; merge reports it
			return r.closeWith(ctx, c, connector.ChangeVoid, "", "")
		}
	}
	return r.mergeOrResume(ctx, c, fetched)
}

// mergeOrResume is merge, and resumeUpdate for what was sent already.
func (r *run) mergeOrResume(ctx context.Context, c state.Change, fetched connector.RemoteCustomer) error {
	if c.PreImage != nil && c.State != connector.ChangePending {
		return r.resumeUpdate(ctx, c, fetched)
	}
	return r.merge(ctx, c, fetched)
}

// gatherUpdate gathers the facts about a payer after its customer was read for an approved update. The plan has already
// decided on values confirmed or overwritten at that time.
func (r *run) gatherUpdate(ctx context.Context, c state.Change) (protocol.Facts, error) {
	f, err := r.gatherLinked(ctx, c)
	f.Record.Hash = c.Wanted.Hash()
	f.Approved = protocol.Intent{Action: connector.ActionUpdate, Customer: c.Payer.BillingID, Hash: f.Record.Hash}
	f.Link.Confirmed, f.Link.Answered = "", ""
	return f, err
}

// gatherLinked gathers the facts about a payer, including its current record, after its customer was read for a change.
func (r *run) gatherLinked(ctx context.Context, c state.Change) (protocol.Facts, error) {
	stored, err := r.Ledger.StoredRecord(ctx, c.Payer.Connection, c.Payer.SourceID, r.conn.Mapping.Version())
	if err != nil {
		return protocol.Facts{}, err
	}
	return r.factsOf(ctx, stored)
}

// factsOf is gatherLinked for a record read before.
func (r *run) factsOf(ctx context.Context, stored state.StoredRecord) (protocol.Facts, error) {
	m, err := r.render(stored.Candidate)
	if err != nil {
		return protocol.Facts{}, err
	}
	f := stored.Facts
	f.Record, f.Look.Now = m.of(*stored.Payer), true
	_, err = r.contest(ctx, &f, stored.Candidate, m)
	return f, err
}

// observe fetches the change's customer and lets reconcile see it. It returns
// nil, with the change closed, when the customer does not exist any more.
func (r *run) observe(ctx context.Context, c state.Change, cause connector.Cause) (*connector.RemoteCustomer, error) {
	fetched, ticket, err := r.fetch(ctx, c.Payer.BillingID)
	if connector.FaultOf(err) == connector.FaultNotFound {
		return nil, r.missing(ctx, c, ticket)
	}
	if err != nil {
		return nil, err
	}
	return &fetched, r.Ledger.Do(ctx, func(tx *state.Tx) error {
		_, err := reconcile.Observe(tx, reconcile.OfCustomer(fetched, ticket, cause, r.cause()))
		return err
	})
}

// merge puts what is wanted into what was fetched and sends it, unless nothing
// of ours differs.
func (r *run) merge(ctx context.Context, c state.Change, fetched connector.RemoteCustomer) error {
	base, err := r.base(ctx, c.Payer)
	if err != nil {
		return err
	}
	c.Payer.Applied = base
	body, changed, err := r.Billing.MergeCustomer(fetched, base, c.Wanted, r.conn.Mapping.Own())
	if err != nil {
		return r.closeWith(ctx, c, connector.ChangeFailed, connector.ReasonRejected, "The customer in the billing service has a form that cannot be updated safely.")
	}
	if !changed {
		return r.closeShown(ctx, c, fetched)
	}
	if bytes.Equal(c.PreImage, fetched.Raw) && c.Body != nil {
		body = c.Body // nothing changed since the attempt with the lost answer
	}
	kinds, err := r.Billing.Others(fetched.Raw, base, c.Wanted, r.conn.Mapping.Own())
	if err != nil {
		return err
	}
	release, may, err := r.mayUpdate(ctx, c, kinds)
	if err != nil || !may {
		return err
	}
	defer release()
	var left state.Attempt
	err = r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		left, err = tx.FreezeUpdate(r.id, c, body, fetched.Raw)
		return err
	})
	switch {
	case errors.Is(err, state.ErrKeyDoubled):
		return r.hold(ctx, c, connector.LinkConflict, connector.ReasonKeyDoubled, "")
	case errors.Is(err, state.ErrKeyFound), errors.Is(err, state.ErrKeyTaken):
		return r.closeWith(ctx, c, connector.ChangeVoid, "", "") // planned again, over the new facts
	case err != nil:
		return err
	}
	err = r.Billing.UpdateCustomer(ctx, c.Payer.BillingID, body)
	if ending := r.end(ctx, c, left, err); ending != nil {
		return errors.Join(err, ending)
	}
	if err == nil || connector.FaultOf(err) == connector.FaultNotFound { // a read finds the customer, if any
		return r.confirmUpdate(ctx, c, fetched)
	}
	if connector.FaultOf(err) != connector.FaultUnknown {
		r.cameBack()
	}
	return r.requestFailed(ctx, c, err)
}

// closeShown closes an update with nothing left to send. If an earlier try sent it and no other value changed, the
// update verifies the write format. If other values changed meanwhile, it verifies nothing.
func (r *run) closeShown(ctx context.Context, c state.Change, fetched connector.RemoteCustomer) error {
	var trip *state.RoundTrip
	if c.Body != nil && c.PreImage != nil {
		var err error
		if trip, err = r.tripOf(ctx, c, connector.RemoteCustomer{Raw: c.PreImage}, fetched, nil); err != nil {
			return err
		}
		if trip != nil && len(trip.Lost) > 0 {
			trip = nil
		}
	}
	c.Wanted = c.Wanted.WithIDs(fetched.People)
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		return errors.Join(tx.CloseDone(r.id, c), reconcile.KeepRead(tx, c.Payer, c.Wanted, fetched), r.saveTrip(tx, trip))
	})
}

// confirmUpdate reads the customer after an update. Our values must be as wanted, in any format of the service, and no
// other value may have changed. Until then the outcome counts as unknown. The read is sent even during a drain, because
// it finishes a request in flight.
func (r *run) confirmUpdate(ctx context.Context, c state.Change, before connector.RemoteCustomer) error {
	if c.OnBare() {
		return r.confirmBare(ctx, c, before)
	}
	after, err := r.observe(connector.WithLastCall(ctx, context.WithoutCancel(ctx)), c, connector.CauseUpdate)
	if err != nil {
		return errors.Join(err, r.leaveUnknown(ctx, c, ""))
	}
	if after == nil {
		return nil
	}
	return r.compare(ctx, c, before, *after)
}

// compare closes an update by a later read.
func (r *run) compare(ctx context.Context, c state.Change, before, after connector.RemoteCustomer) error {
	own := r.conn.Mapping.Own()
	_, differs, err := r.Billing.MergeCustomer(after, &c.Wanted, c.Wanted, own)
	if err != nil || differs {
		return r.notShown(ctx, c, before, after)
	}
	paths, err := r.Billing.ForeignChanges(before.Raw, after.Raw, c.Payer.Applied, c.Wanted, own)
	if err != nil {
		return r.closeOverwritten(ctx, c, after, nil, "")
	}
	trip, err := r.tripOf(ctx, c, before, after, nil)
	if err != nil {
		return err
	}
	c.Wanted = c.Wanted.WithIDs(after.People)
	return r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		if err := r.saveTrip(tx, trip); err != nil { // before this update counts as a change
			return err
		}
		err := tx.CloseConfirmed(r.id, c, withoutIndexes(paths), fmt.Sprintf("While the customer was being updated, fields that are not ours changed: %s. "+
			"Fields that the service itself changes with every update belong under billing.dialect.read_only.", JoinPaths(paths)))
		return errors.Join(err, reconcile.KeepRead(tx, c.Payer, c.Wanted, after))
	})
}

// notShown closes an update if a read does not show the sent values. If the read shows the customer unchanged, it may
// lag behind, so notShown first schedules another read.
func (r *run) notShown(ctx context.Context, c state.Change, before, after connector.RemoteCustomer) error {
	if c.Attempts+1 < updateTries && bytes.Equal(before.Raw, after.Raw) {
		return r.leaveUnknown(ctx, c, "The billing service took the update and does not show it yet. It is looked at again.")
	}
	paths, err := r.Billing.NotShown(after.Raw, c.Wanted, r.conn.Mapping.Own())
	if err != nil || len(paths) == 0 {
		return r.closeOverwritten(ctx, c, after, nil, "The billing service does not show what was just sent.")
	}
	trip, err := r.tripOf(ctx, c, before, after, paths)
	if err != nil {
		return err
	}
	return r.closeOverwritten(ctx, c, after, trip, fmt.Sprintf("The billing service does not show what was just sent: %s.%s", JoinPaths(paths), spelledBy(paths)))
}

// spelledBy names the settings for the field spelling of paths.
func spelledBy(paths []string) string {
	var settings []string
	for _, path := range paths {
		if s := spelling(path); s != "" && !slices.Contains(settings, s) {
			settings = append(settings, s)
		}
	}
	if len(settings) == 0 {
		return ""
	}
	return fmt.Sprintf(" If it is so for every customer, compare %s with the service's spelling.", strings.Join(settings, " and "))
}

// spelling names the setting for the service's spelling of a field; "" for none.
func spelling(path string) string {
	for _, at := range []struct{ prefix, setting string }{
		{"people", "billing.dialect.person_fields"}, {"addresses", "billing.dialect.address_fields"}, {"externalData", "billing.dialect.external_data"},
	} {
		if strings.HasPrefix(path, at.prefix) {
			return at.setting
		}
	}
	return ""
}

// withoutIndexes returns the paths without list indexes, so the same field of two customers has one path.
func withoutIndexes(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = listIndex.ReplaceAllString(p, "[]")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var listIndex = regexp.MustCompile(`\[[0-9]+\]`)

// closeOverwritten closes an answered update after somebody else changed the customer at once: the read shows after.
// The sent values are the last known values of ours on the customer. trip is the verification of the write format; nil
// for none.
func (r *run) closeOverwritten(ctx context.Context, c state.Change, after connector.RemoteCustomer, trip *state.RoundTrip, detail string) error {
	err := r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
		p := c.Payer
		p.AppliedHash, p.Shows = c.Wanted.Hash(), c.Wanted.Hash()
		return errors.Join(r.saveTrip(tx, trip), tx.SetApplied(p, c.Wanted), tx.SetShown(p, false), reconcile.KeepRead(tx, p, c.Wanted, after), tx.CloseWith(r.id, c, connector.ChangeFailed, connector.ReasonForeignChange, detail))
	})
	if err == nil {
		r.tellFailed(c, connector.ReasonForeignChange)
	}
	return err
}

// JoinPaths names a few paths and how many more there are.
func JoinPaths(paths []string) string {
	const show = 5
	text := ""
	for i, p := range paths {
		if i == show {
			return fmt.Sprintf("%s and %d more", text, len(paths)-show)
		}
		if i > 0 {
			text += ", "
		}
		text += p
	}
	return text
}

// verify reads back customers after an answered create (fault F08): the service may have answered from memory. It reads
// a few customers, or fewer than the pages of the list, one by one. Otherwise it reads the list, then the rest one by one.
func (r *run) verify(ctx context.Context) error {
	n, err := r.Ledger.UnverifiedCount(ctx, r.conn.Name)
	if err != nil || n == 0 {
		return err
	}
	r.progress("verify", 0, n)
	x, err := r.Ledger.Index(ctx, r.Reconciler.Lookup.Quarantine)
	if err != nil {
		return err
	}
	if n > max(verifySingles, x.Customers/listPage) {
		if _, err := r.Reconciler.Pass(ctx); err != nil {
			return err
		}
	}
	rest, err := r.Ledger.Unverified(ctx, r.conn.Name, n)
	if err != nil {
		return err
	}
	if err := r.readBack(ctx, rest); err != nil {
		return err
	}
	r.progress("verify", n, n)
	return nil
}

// readBack reads the customers of payers one by one. It reports unreadable customers; the next run reads them again.
func (r *run) readBack(ctx context.Context, payers []state.Payer) error {
	failed := 0
	for i, p := range payers {
		r.progress("verify", i, len(payers))
		_, err := r.Reconciler.Check(ctx, p.BillingID, connector.CauseAdopt, r.cause())
		switch {
		case err == nil:
			failed = 0
			continue
		case errors.Is(err, reconcile.ErrNotYet):
		case connector.FaultOf(err) != connector.FaultUnavailable:
			return err
		default:
			if failed++; failed >= maxSilence {
				return err
			}
		}
		if err := r.Ledger.Do(ctx, func(tx *state.Tx) error { return unread(tx, p) }); err != nil {
			return err
		}
	}
	return nil
}

// unread reports an unreadable new customer, unless another process has read it meanwhile.
func unread(tx *state.Tx, p state.Payer) error {
	now, err := tx.PayerByBillingID(p.BillingID)
	if err != nil || now.Seen {
		return err
	}
	return tx.SetAttention(p.Connection, p.SourceID, state.TopicLink, connector.ReasonOutcomeUnknown, "The new customer could not be read back yet. It is looked at again.")
}
