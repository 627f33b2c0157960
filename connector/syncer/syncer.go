// Package syncer sends customers from a source, through the mapping, to the billing service. A run always has the same
// three stages:
//
//	pull   the source's records into the ledger, page by page
//	plan   one change per payer, with its diff; limits are checked on the whole
//	apply  freeze the exact bytes (commit) ─▶ send ─▶ confirm (commit)
//
// The first readings of a connection plan new records page by page, before they are stored (firstPass); the plan then
// looks only at the others. A dry run makes the same plan. A run first sends the requests frozen by an earlier run,
// with their frozen bytes, and only then plans newer values. Other packages read mandates (reconcile), schedule runs
// (worker), and retry requests within one call (transport).
package syncer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
	"payersync/connector/reconcile"
	"payersync/mapping"
	"payersync/state"
)

// Source is a run's interface to an accounting system.
type Source interface {
	// Customers yields the customers changed at or after since. A sequence without an error is a complete read.
	Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error]
}

// Billing is a run's interface to the billing service.
type Billing interface {
	reconcile.Billing
	// CreateBody returns the exact bytes of a create, the same for the same customer.
	CreateBody(want connector.Customer) (json.RawMessage, error)
	CreateCustomer(ctx context.Context, body []byte) (connector.RemoteCustomer, error)
	UpdateCustomer(ctx context.Context, id string, body []byte) error
	SearchCustomers(ctx context.Context, text string) ([]connector.RemoteCustomer, error)
	// MergeCustomer puts want into what was fetched and reports whether anything
	// of ours differs.
	MergeCustomer(fetched connector.RemoteCustomer, last *connector.Customer, want connector.Customer,
		own []string) (body json.RawMessage, changed bool, err error)
	// MergeDiff lists the changes of MergeCustomer, before and after.
	MergeDiff(fetched connector.RemoteCustomer, last *connector.Customer, want connector.Customer,
		own []string) ([]connector.FieldChange, error)
	// Drift lists the differences of a customer from want, with the paths of want. From is the customer's value.
	Drift(fetched connector.RemoteCustomer, last *connector.Customer, want connector.Customer,
		own []string) ([]connector.FieldChange, error)
	// ReleaseCustomer returns the update that reverts ours, and removes our keys from the customer.
	ReleaseCustomer(fetched connector.RemoteCustomer, writes []connector.Written,
		keys map[string]string) (connector.Release, error)
	// ForeignChanges lists the foreign paths with different values in two readings.
	ForeignChanges(before, after json.RawMessage, last *connector.Customer, want connector.Customer,
		own []string) ([]string, error)
	// Others lists the kinds of foreign members on a customer.
	Others(raw json.RawMessage, last *connector.Customer, want connector.Customer, own []string) ([]string, error)
	// UpdateWay says how updates are written, as text.
	UpdateWay() string
	// NotShown lists the paths with values different from want.
	NotShown(shown json.RawMessage, want connector.Customer, own []string) ([]string, error)
	RequestMandateLink(ctx context.Context, customerID string) (connector.Mandate, error)
}

// Connection is one configured source with its mapping.
type Connection struct {
	Name    string
	Source  Source
	Info    connector.SourceInfo
	Mapping *mapping.Mapping
	Profile Profile // that the source is read by; nil for none

	TwoWay TwoWay // what is sent where the service has an accounting connection of its own; "" for auto
	Native string // what the service calls the kind of the books in externalData; "" for books that it knows no kind of

	// how old the last reading of everything may be; 0 for any age; a snapshot is always read whole
	FullEvery time.Duration
}

// Settings are the operator's choices for all runs.
type Settings struct {
	Workers int // concurrent changes; the transport limits the requests in flight
	// the organisation that the configuration names for each connection, "" for none; nil where nothing is known
	Configured map[string]string
	Guards     Guards        // the limits of a plan without approval
	Adopt      Adoption      // the treatment of similar customers
	ProbeAfter time.Duration // how long this run's own list is valid before a create; default 15 min
	// how far a reading position is set back; default 5 min (accounting/README.md)
	Overlap time.Duration
	// asking for a link again gives the same mandate while it waits for a signature, so a lost link is fetched again
	SameMandate bool
	NotCarried  func(connector.Customer) []string // paths without a place in a new customer of the service; may be nil
	// how long requests in flight may finish after an interruption; default 20 s
	Grace       time.Duration
	LeaveWithin time.Duration // how long after its freeze in a group a request may leave; default 30 s
}

// again returns the effect of a repeated link request.
func (s Settings) again() protocol.Again {
	if s.SameMandate {
		return protocol.AgainSame
	}
	return protocol.AgainUnknown
}

// Adoption says what happens when a customer without our key looks like a new
// payer.
type Adoption string

// The adoption choices. AdoptPropose puts the payer on hold for a person's decision, AdoptExact uses the key
// alone.
const (
	AdoptPropose Adoption = "propose"
	AdoptExact   Adoption = "exact"
)

// Syncer runs connections. It is safe for concurrent use; the ledger allows one run of a connection at a time.
type Syncer struct {
	Ledger     *state.Ledger
	Billing    Billing
	Reconciler *reconcile.Reconciler
	Account    state.Account // Billing's account, proved to be the ledger's
	Settings   Settings
}

// RunOptions say how one run is meant.
type RunOptions struct {
	Kind     connector.RunKind
	Trigger  string                                      // manual, schedule or catch_up
	Actor    string                                      // the starting person or process, for the audit log
	Holder   string                                      // the process, for other holders of its lease
	Approve  func(state.Plan) (approved bool, err error) // asked about a plan above the limits; nil leaves it waiting
	Opened   func(run int64)                             // told the run's number before anything is done; nil for nobody
	Progress func(Progress)                              // told how far the run is; nil for nobody
	Decided  func(run int64, d state.Decision)           // receives the decision on each planned record; may be nil
	// called for each failed change, from several goroutines at once; may be nil
	Failed func(FailedChange)
	// the source id of the one record of which planned changes are sent; "" for all
	Only string
}

// FailedChange is a change with an error.
type FailedChange struct {
	Run      int64
	SourceID string // of the record
	Action   connector.Action
	Reason   connector.Reason
}

// Progress says how far a run is.
type Progress struct {
	Stage string // pull, list, customers, plan, send, verify, links
	Done  int
	Total int // 0 when it is not known
}

// Result is how a run ended.
type Result struct {
	RunID      int64                `json:"run_id"`
	Connection string               `json:"connection"`
	Kind       connector.RunKind    `json:"kind"`
	Outcome    connector.RunOutcome `json:"outcome"`
	Counts     state.Counts         `json:"counts"`
	// the connection's records with findings, in each run until they are settled
	Attention int             `json:"attention"`
	News      bool            `json:"news"` // it has findings that the run before had not
	Plan      *state.Plan     `json:"plan,omitempty"`
	Proof     connector.Proof `json:"proof,omitzero"` // of the read of the source; zero when it was not complete
	// when a throttled run, or one with waiting payers, may continue
	RetryAt time.Time `json:"retry_at,omitzero"`
	Note    string    `json:"note,omitempty"` // notes for a person on a finished run
	// the unfinished work of an incomplete run without an error, in words
	Left    string `json:"left,omitempty"`
	Problem string `json:"problem,omitempty"` // Err in words
	// why it is incomplete, in the words of log and status; "" for another outcome
	Reason string `json:"reason,omitempty"`
	Err    error  `json:"-"` // the cause of an early end; nil if it finished
}

// AwaitsApproval reports whether the run's plan waits for a person.
func (r Result) AwaitsApproval() bool {
	return r.Outcome == connector.RunAwaitingApproval || r.Kind == connector.RunPlan && r.Err == nil && r.Plan != nil &&
		r.Plan.State == state.PlanWaiting
}

// Run makes one run of a connection. The error is nil for every run opened and closed, including failed runs: see
// Result. It is *state.ErrRunOpen if another run holds the connection.
func (s *Syncer) Run(ctx context.Context, conn Connection, opts RunOptions) (Result, error) {
	r, lock, err := s.begin(ctx, conn, opts)
	if err != nil {
		return Result{Connection: conn.Name, Kind: opts.Kind}, err
	}
	defer func() { _ = lock.Release() }() // the system releases it at the latest with the process
	if opts.Opened != nil {
		opts.Opened(r.id)
	}
	ctx, stop := r.keepLease(connector.WithRun(ctx, r.id))
	defer stop()
	outcome, err := r.steps(reconcile.WithProgress(ctx, func(done, total int) { r.progress("customers", done, total) }))
	return r.close(ctx, outcome, err)
}

// run is one run under way.
type run struct {
	*Syncer
	conn         Connection
	opts         RunOptions
	id           int64
	started      time.Time
	opened       time.Time // by this machine's clock: before the run was
	lease        *connector.Lease
	met          *connector.IDs // ids of the source; nil after a complete reading, for all in the ledger
	plan         *state.Plan
	listed       time.Time       // the begin of this run's newest list pass that is proof; zero for none
	trustedSince atomic.Int64    // the ticket since which the index is trusted; 0 for not at all
	edited       bool            // nobody has accepted the profile of the source yet
	probe        bool            // the index is old: search for a customer once more before it is created
	linkOnly     bool            // customers are linked, and neither created nor changed
	cuts         atomic.Bool     // a planned create lacks values the service has no place for
	noProof      error           // why a missing key proves nothing, so nothing new is planned
	unread       error           // why the source was not read to its end
	undecided    bool            // the rest of the source is undecidable
	note         string          // for Result.Note
	doubtEnds    time.Time       // the last time for requests lost by a restore to arrive; zero for no restore
	proof        connector.Proof // for Result.Proof; zero until the source was read to its end

	first  *firstPass            // plans new records while the source is read
	saved  bool                  // the source had news for the ledger
	allMet bool                  // a full reading has shown every record of the ledger
	notes  func(*state.Tx) error // writes about the reading, see finishPull; nil for none
	empty  state.PlanState       // what the plan of nothing is that is saved when the run is closed; "" for none

	claims *claims // a forecast: the number of records by key; nil to use the ledger

	gate gate // holds updates back until a round trip is proven

	looked      bool           // the list was read since creates without an answer were sent
	progressing sync.Mutex     // held while the progress is reported
	trusting    sync.Mutex     // held while the list is read until it is believed
	mu          sync.Mutex     // guards made and waits
	waits       time.Time      // the earliest time to continue with a waiting payer; zero if none waits for a time
	made        *connector.IDs // source ids of payers with a customer created by this run
}

// letGo is the maximum time for a process to hold the connection's lock without an open run, after closing its run or
// before opening one.
const letGo = 5 * time.Second

// errNoRun means another process holds the connection's lock without a run.
var errNoRun = errors.New("the lock is held without a run")

// begin takes the connection's lock and opens a run. While another process holds the lock without a run, begin waits
// and opens none: the next process with the lock would take it for a dead process's run.
func (s *Syncer) begin(ctx context.Context, conn Connection, opts RunOptions) (*run, *state.Lock, error) {
	patience, cancel := context.WithTimeout(ctx, letGo)
	defer cancel()
	for {
		lock, err := s.Ledger.TryLock(conn.Name)
		if err != nil {
			return nil, nil, err
		}
		r, err := s.open(ctx, conn, opts, lock)
		if err == nil {
			return r, lock, nil
		}
		if err := errors.Join(err, lock.Release()); !errors.Is(err, errNoRun) {
			return nil, nil, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-patience.Done():
			return nil, nil, cmp.Or(ctx.Err(), error(&state.ErrRunOpen{Connection: conn.Name}))
		}
	}
}

// open opens a run. If the connection's lock proves it, a run still open in the ledger belongs to a dead process.
// Otherwise its lease decides. Without the lock and without such a run, open returns errNoRun.
func (s *Syncer) open(ctx context.Context, conn Connection, opts RunOptions, lock *state.Lock) (*run, error) {
	r := &run{Syncer: s, conn: conn, opts: opts, started: s.Ledger.Now(), opened: connector.OfThisMachine(),
		made: connector.NewIDs(), met: connector.NewIDs(), first: &firstPass{closed: true}}
	return r, s.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		if err := tx.TakeAccount(s.Account, opts.Actor); err != nil {
			return err
		}
		if err := tx.PinConnection(state.Connection{Name: conn.Name, Info: conn.Info}); err != nil {
			return err
		}
		if r.edited, err = tx.MeetProfile(conn.Name, meaningOf(conn.Profile)); err != nil {
			return err
		}
		if err := tx.SaveMapping(conn.Mapping.Version(), string(conn.Mapping.Text()), opts.Actor); err != nil {
			return err
		}
		if err := claim(tx, conn.Name, lock); err != nil {
			return err
		}
		if ahead, err := tx.NoteClock(); err != nil {
			return err
		} else if ahead {
			r.addNote("This computer's clock had been ahead: times of the last run lay in the future. They count as noted just now, so new customers wait for a while.")
		}
		r.id, err = tx.OpenRun(state.NewRun{
			Connection: conn.Name, Kind: opts.Kind, Trigger: opts.Trigger, Mapping: conn.Mapping.Version(), Holder: opts.Holder,
		})
		return err
	})
}

// claim ends the connection's lease if the lock proves its holder dead. Without a lock and an open run it returns
// errNoRun.
func claim(tx *state.Tx, connection string, lock *state.Lock) error {
	if lock.Proves() {
		return tx.EndLease(connection)
	}
	if lock != nil {
		return nil
	}
	open, err := tx.HasOpenRun(connection)
	if err == nil && !open {
		return errNoRun
	}
	return err
}

// holds fails with state.ErrLeaseLost when another may have taken the run's lease over by now.
func (r *run) holds() error {
	if r.lease.Over() {
		return state.ErrLeaseLost
	}
	return nil
}

// keepLease renews the run's lease until stop is called. On loss of the lease, the returned context ends with
// state.ErrLeaseLost as its cause. A fence also blocks each request after the end of the lease, even for a process
// paused between a write and its request.
func (r *run) keepLease(ctx context.Context) (context.Context, func()) {
	r.lease = connector.NewLease(state.Lease, r.opened)
	ctx, cancel := context.WithCancelCause(connector.WithFence(ctx, r.holds))
	finished, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(state.Lease / 4)
		defer tick.Stop()
		for {
			select {
			case <-finished:
				return
			case <-tick.C:
			}
			before := connector.OfThisMachine()
			err := r.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error { return tx.RenewLease(r.id) })
			if errors.Is(err, state.ErrLeaseLost) {
				cancel(err)
				return
			}
			if err == nil {
				r.lease.Renew(before)
			}
		}
	}()
	return ctx, func() {
		close(finished)
		<-stopped
		cancel(nil)
	}
}

// steps walks the stages. It returns how the run ended when no error says
// otherwise.
func (r *run) steps(ctx context.Context) (connector.RunOutcome, error) {
	if err := r.takeStock(ctx); err != nil {
		return "", err
	}
	plan, err := r.makePlan(ctx)
	if err != nil {
		return "", fmt.Errorf("plan: %w", err)
	}
	r.plan = &plan
	if err := r.reportMovedConnections(ctx); err != nil {
		return "", err
	}
	if r.opts.Kind == connector.RunPlan {
		return r.ended(), r.noProof
	}
	switch {
	case plan.State == state.PlanRejected:
		return connector.RunIncomplete, nil
	case r.edited: // also earlier approvals wait
		return connector.RunAwaitingApproval, nil
	case plan.Limits == "":
		return r.ended(), errors.Join(r.apply(ctx), r.noProof)
	}
	if some, err := r.released(ctx); err != nil || !some {
		return connector.RunAwaitingApproval, err
	}
	return connector.RunAwaitingApproval, errors.Join(r.apply(ctx), r.noProof)
}

// takeStock reads the source and finishes what an earlier run began. Neither
// waits for the other's remote system to be well, and both must be done before
// anything new is planned.
func (r *run) takeStock(ctx context.Context) error {
	if err := r.loadDoubt(ctx); err != nil {
		return err
	}
	pulled := r.mayRead(ctx)
	if pulled == nil {
		if pulled = r.pull(ctx); pulled != nil {
			r.unread = pulled
			pulled = fmt.Errorf("read the accounting system: %w", pulled)
		}
	}
	if r.opts.Kind == connector.RunPlan {
		return pulled
	}
	if err := r.resume(ctx); err != nil {
		return errors.Join(pulled, fmt.Errorf("finish what an earlier run began: %w", err))
	}
	return pulled
}

// waitsUntil notes the end of a payer's wait.
func (r *run) waitsUntil(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !at.IsZero() && (r.waits.IsZero() || at.Before(r.waits)) {
		r.waits = at
	}
}

// addNote adds a sentence to the run's report.
func (r *run) addNote(sentence string) { r.note = strings.TrimSpace(r.note + " " + sentence) }

func (r *run) progress(stage string, done, total int) {
	if r.opts.Progress == nil {
		return
	}
	r.progressing.Lock() // a list may be read while changes are sent
	defer r.progressing.Unlock()
	r.opts.Progress(Progress{stage, done, total})
}
