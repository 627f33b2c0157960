package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/metrics"
	"payersync/connector/queue"
	"payersync/connector/reconcile"
	"payersync/connector/server"
	"payersync/connector/worker"
	"payersync/state"
)

const (
	rowsEvery  = 5 * time.Second // how often a node looks whether accounts have changed
	openAtOnce = 4               // accounts that a node opens at a time

	tellsAfter = 10 * time.Second // that the start waits for the database

	queueConnections = 6 // to the database, beside those of ledgers: each for a statement, and one that listens
)

// fleet is payersync serve at work for all accounts of a database, as one of its nodes. Every node
// does the same; which of them does a job decides the queue, and what becomes of it the account's
// ledger.
type fleet struct {
	*app
	node       *config.Node
	server     *state.Server
	queue      *queue.Queue
	log        *logrus.Logger
	manager    *manager
	metrics    *metrics.Fleet
	deliveries *deliveryLog
	strangers  http.Handler
	readyPage  readyPage
	addresses  []string // that it answers on; known before the queue runs

	mu      sync.RWMutex
	known   map[int64]state.AccountInfo // as the rows said last
	members map[int64]*member           // those that are open here
	nodes   []queue.Node                // as they were seen last; nil where they cannot be
	failed  map[int64]time.Time         // those whose rows could not be put in force, and when that was tried last

	closing   sync.WaitGroup // of accounts that leave
	takenBack map[int64]bool // accounts that leave, whose schedules are gone; of look alone
}

// member is an account that is open on this node.
type member struct {
	*service
	info   state.AccountInfo
	jobs   *accountJobs
	reload *reloader
	close  func()

	folders []*config.Unpacked // that its files were written into
}

// serveFleet serves all accounts of the node's database until ctx ends.
func (a *app) serveFleet(ctx context.Context, node *config.Node) (err error) {
	f := &fleet{app: a, node: node, metrics: metrics.NewFleet(version, commit()), known: map[int64]state.AccountInfo{}, members: map[int64]*member{}, failed: map[int64]time.Time{}, takenBack: map[int64]bool{}}
	if f.log, err = session.NewLog(a.ErrOut, node.Log.Level, node.Log.Format, node.Secrets()); err != nil {
		return err
	}
	f.removeLeft()
	if f.server, err = state.OpenServer(ctx, node.Options()); err != nil {
		return err
	}
	defer f.server.Close()
	byDatabase := *a
	byDatabase.now = f.server.Now
	f.app = &byDatabase
	f.readyPage.inspect, f.readyPage.now = f.ready, f.now
	f.manager, f.deliveries = &manager{log: f.log}, newDeliveryLog(f.log)
	if f.strangers, err = server.Strangers(node.Server.Proxies(), f.now, f.deliveries.report); err != nil {
		return err
	}
	if alone, err := f.server.Alone(ctx); err != nil {
		return err
	} else if alone {
		f.log.Warn("the database waits for no standby: a failover would lose the webhooks that were acknowledged last. Set synchronous_standby_names there")
	}
	closeQueue, err := f.openQueue(ctx)
	if err != nil {
		return err
	}
	defer closeQueue()
	f.metrics.Follow(f.numbers)
	defer f.closeAll()
	if err := f.look(ctx); err != nil {
		return err
	}
	listeners, err := f.listen(ctx)
	if err != nil {
		return err
	}
	f.log.WithField("accounts", len(f.members)).Info("payersync serves")
	working, ctx := errgroup.WithContext(ctx)
	working.Go(func() error { return listeners.serve(ctx, f.deliveries) })
	working.Go(func() error { return f.queue.Run(ctx) })
	working.Go(func() error { f.followRows(ctx); return nil })
	working.Go(func() error { f.attend(ctx); return nil })
	working.Go(func() error { f.watchNodes(ctx); return nil })
	context.AfterFunc(ctx, f.manager.stopping)
	err = working.Wait()
	f.log.Info("payersync stops")
	return err
}

// removeLeft removes the files of accounts that a node left here which was killed.
func (f *fleet) removeLeft() {
	n, err := config.RemoveLeft(f.runtime())
	if err != nil {
		f.log.WithError(forLog(err)).Warn("files of accounts that a process left here which was killed cannot be removed; remove them, secrets are among them")
	}
	if n > 0 {
		f.log.WithField("folders", n).Info("files of accounts were removed that a process left here which was killed")
	}
}

// openQueue makes the node's part of the queue, which is closed when all else is.
func (f *fleet) openQueue(ctx context.Context) (done func(), err error) {
	w := f.node.Nodes.Workers
	pool, err := f.server.Pool(ctx, queueConnections)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			pool.Close()
		}
	}()
	waits := time.AfterFunc(tellsAfter, func() {
		f.log.Warn("the node has not started yet: another one makes the queue's tables, or the database confirms nothing because the standby is away that its commits wait for. See that it is there and follows the primary")
	})
	err = queue.Migrate(ctx, pool)
	if waits.Stop(); err != nil {
		return nil, err
	}
	f.queue, err = queue.New(queue.Config{
		Pool: pool, Work: f.work, Drain: f.drain, Workers: queue.Workers{Hooks: w.Hooks, Runs: w.Runs, Care: w.Care}, Slice: time.Duration(f.node.Nodes.Slice), StopWithin: time.Duration(f.node.Nodes.StopWithin),
		Open: f.server.HasDeliveriesOf(f.active, reconcile.RepeatGap), // those of a paused account are kept until it goes on
		Due: func(ctx context.Context) ([]int64, error) {
			return f.server.WithDeliveries(ctx, f.accounts(), reconcile.RepeatGap)
		},
		Now: f.now, Presence: f.presence, Report: f.report, Log: func(text string) { f.log.Warn(text) },
	})
	return pool.Close, err
}

// errNotHere says that a job came to a node on which its account is not open.
var errNotHere = errors.New("the account is not open on this node, whose log says why; its next time is the next try")

func (f *fleet) member(account int64) (*member, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	m := f.members[account]
	if m == nil {
		return nil, errNotHere
	}
	return m, nil
}

// active reports whether anything is done for an account.
func (f *fleet) active(account int64) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.known[account].State == state.AccountActive
}

// knows reports whether the rows name an account.
func (f *fleet) knows(account int64) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	_, known := f.known[account]
	return known
}

// accounts returns the accounts that are open here and not paused.
func (f *fleet) accounts() (out []int64) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for id := range f.members {
		if f.known[id].State == state.AccountActive {
			out = append(out, id)
		}
	}
	return out
}

func (f *fleet) work(ctx context.Context, job queue.Job, trigger string) error {
	m, err := f.member(job.Account)
	if err != nil && f.active(job.Account) { // it may be open on another node, or here in a moment
		select {
		case <-time.After(rowsEvery):
			return queue.ErrMore
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	return m.jobs.run(ctx, job.Name, trigger)
}

func (f *fleet) drain(ctx context.Context, account int64) error {
	m, err := f.member(account)
	switch {
	case !f.active(account) && (err == nil || !f.knows(account)):
		return nil // it is paused, or has left
	case err != nil:
		return err
	}
	return m.jobs.drain(ctx, func(ctx context.Context) error { return drainInbox(ctx, m.inForce.Load().Session) })
}

// report keeps what became of a job where its account shows it.
func (f *fleet) report(account int64, e worker.Event) {
	m, err := f.member(account)
	if err != nil && e.Outcome == worker.Begun {
		return // another node may have it open, and begin anew
	}
	if err != nil {
		f.log.WithFields(logrus.Fields{"account": account, "job": e.Job, "outcome": e.Outcome}).Warn("a job of an account that is not open here")
		return
	}
	reportJob(m.inForce.Load().Session, e)
	m.alarms.heard(e)
}

// followRows follows what the rows of accounts say until ctx ends.
func (f *fleet) followRows(ctx context.Context) {
	tick := time.NewTicker(rowsEvery)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		wrong := ""
		if err := f.look(ctx); err != nil && ctx.Err() == nil {
			wrong = forLog(err).Error()
		}
		if wrong != told && wrong != "" {
			f.log.WithField("problem", wrong).Error("the node cannot learn whether accounts have changed; it goes on with those that it knows")
		}
		told = wrong
	}
}

// look opens accounts that are new, puts changed ones in force, and closes those that leave. One that
// cannot be opened keeps no other from its turn, and is tried again after a while and when it changes.
func (f *fleet) look(ctx context.Context) error {
	rows, err := f.server.Accounts(ctx)
	if err != nil {
		return err
	}
	opening, now := new(errgroup.Group), make(map[int64]state.AccountInfo, len(rows))
	opening.SetLimit(openAtOnce)
	for _, row := range rows {
		if row.State == state.AccountLeaving || row.KeyID == "" {
			continue
		}
		now[row.ID] = row
		if f.known[row.ID].Version != row.Version || f.again(row.ID) {
			opening.Go(func() error { f.take(ctx, row); return nil })
		}
	}
	_ = opening.Wait() // each account tells of itself
	f.mu.Lock()
	var left []*member
	for id, m := range f.members {
		if _, stays := now[id]; !stays {
			left = append(left, m)
			delete(f.members, id)
		}
	}
	f.known = now
	f.mu.Unlock()
	for _, m := range left {
		f.closing.Go(func() { // its requests in flight are waited for
			m.close()
			f.metrics.Leave(m.info.Name)
			f.log.WithField("account", m.info.Name).Info("the account was closed")
		})
	}
	return f.takeBack(ctx, rows)
}

// takeBack takes the schedules back of accounts that leave, whether or not they were open here.
func (f *fleet) takeBack(ctx context.Context, rows []state.AccountInfo) error {
	for _, row := range rows {
		if row.State != state.AccountLeaving || f.takenBack[row.ID] {
			continue
		}
		if err := f.queue.Every(ctx, row.ID, nil); err != nil {
			return err
		}
		f.takenBack[row.ID] = true
	}
	return nil
}

// again reports whether an account's row could not be put in force a while ago.
func (f *fleet) again(account int64) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	tried, failed := f.failed[account]
	return failed && f.now().Sub(tried) >= againAfter
}

// take puts in force what an account's row and files say by now.
func (f *fleet) take(ctx context.Context, row state.AccountInfo) {
	entry := f.log.WithFields(logrus.Fields{"account": row.Name, "version": row.Version})
	m, _ := f.member(row.ID)
	if m != nil {
		err := f.retake(ctx, m, row)
		f.mu.Lock()
		defer f.mu.Unlock()
		if delete(f.failed, row.ID); err != nil {
			f.failed[row.ID] = f.now()
			entry.WithError(forLog(err)).Error("what the account's row says is not in force on this node yet; it is tried again")
		}
		return
	}
	m, err := f.open(ctx, row)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.failed[row.ID] = f.now()
		if ctx.Err() == nil {
			entry.WithError(forLog(err)).Error("the account cannot be opened; nothing is done for it on this node until that succeeds")
		}
		return
	}
	f.members[row.ID] = m
	delete(f.failed, row.ID)
	entry.Debug("the account is open")
}

// retake gives an account that is open another configuration, or another state. A configuration with a mistake is told
// of by the account itself, and waits for another.
func (f *fleet) retake(ctx context.Context, m *member, row state.AccountInfo) error {
	if err := m.jobs.Pause(ctx, row.State != state.AccountActive); err != nil {
		return err
	}
	f.mu.Lock()
	m.info = row
	f.mu.Unlock()
	cfg, err := f.load(ctx, m, row.Name)
	var mistake usage.Error
	switch {
	case errors.As(err, &mistake):
		m.reload.follow(ctx, look{wrong: forLog(err).Error()})
		return nil
	case err != nil:
		return err
	}
	m.reload.follow(ctx, look{config: cfg})
	if m.reload.taken != cfg {
		m.drop()
		if m.reload.failed.config == cfg {
			return errors.New("the configuration could not be put in force")
		}
	}
	return nil
}

// open opens an account on this node.
func (f *fleet) open(ctx context.Context, row state.AccountInfo) (_ *member, err error) {
	m := &member{info: row}
	defer func() {
		if err != nil {
			m.forget()
		}
	}()
	cfg, err := f.load(ctx, m, row.Name)
	if err != nil {
		return nil, err
	}
	counted := f.metrics.Account(row.Name)
	s, err := session.Open(ctx, cfg, state.Options{Server: f.server, Committing: counted.Committing})
	if err != nil {
		return nil, err
	}
	s.Metrics = counted
	if err := s.OpenBilling(ctx, f.ErrOut, f.node.Log, true); err != nil { // which closes the session
		return nil, err
	}
	life, end := context.WithCancel(ctx)
	m.jobs = &accountJobs{
		queue: f.queue, account: row.ID, ledger: s.Ledger, nudges: make(chan struct{}, 1), paused: row.State != state.AccountActive,
		lost: func(err error) {
			s.Log.WithError(err).Warn("the queue did not keep that a delivery waits; the next tick finds it")
		},
		life: life,
	}
	m.service, err = f.newService(ctx, s, newDeliveryLog(s.Log), func(svc *service) (_ runner, err error) {
		m.jobs.people, err = worker.New(worker.Config{Drain: func(context.Context) error { return nil }, DrainEvery: 24 * time.Hour, Now: f.now, Report: func(e worker.Event) {
			if e.Job != worker.DrainName {
				reportJob(svc.inForce.Load().Session, e)
				svc.alarms.heard(e)
			}
		}})
		return m.jobs, err
	})
	if err == nil {
		err = m.jobs.Replace(ctx, f.jobs(s))
	}
	if err != nil {
		if m.service != nil {
			m.behind.close()
		}
		end()
		s.Close()
		return nil, err
	}
	m.reload = m.newReloader(cfg)
	m.begin(life, end)
	return m, nil
}

// load reads an account's configuration of the files that its row has, which it writes where only this process
// looks for them. What is at work may still read those of before.
func (f *fleet) load(ctx context.Context, m *member, name string) (*config.Config, error) {
	files, err := f.server.Documents(ctx, name)
	if err != nil {
		return nil, err
	}
	folder, err := config.Unpack(f.runtime(), name, files.Files)
	if err != nil {
		return nil, err
	}
	m.folders = append(m.folders, folder)
	cfg, err := config.LoadAccount(folder.Path, f.node, name, f.getenv)
	if err != nil {
		m.drop()
		return nil, usage.Error{Err: err}
	}
	for len(m.folders) > keptFolders {
		_ = m.folders[0].Remove() // as in forget
		m.folders = m.folders[1:]
	}
	return cfg, nil
}

// keptFolders are how many versions of an account's files stay, with the one that is tried: what is at work began with
// one of them.
const keptFolders = 4

// drop removes the newest files, which are not in force.
func (m *member) drop() {
	last := len(m.folders) - 1
	_ = m.folders[last].Remove() // as in forget
	m.folders = m.folders[:last]
}

// forget removes the files that were written for an account.
func (m *member) forget() {
	for _, folder := range m.folders {
		_ = folder.Remove() // what stays of it lies in memory, and in nobody's reach
	}
}

// begin starts what goes on beside jobs and requests, until m.close.
func (m *member) begin(ctx context.Context, end context.CancelFunc) {
	s := m.inForce.Load().Session
	counter := s.Ledger.NewCounter()
	s.Metrics.Follow(func(ctx context.Context) (metrics.Facts, error) { return m.metricsFacts(ctx, counter) })
	going := m.follow(ctx)
	going.Go(func() { _ = m.jobs.Run(ctx) }) // it fails where jobs of its own were missed, and has none
	m.close = sync.OnceFunc(func() {
		m.jobs.close(end)
		going.Wait()
		m.counted()
		m.behind.close()
		m.inForce.Load().Close()
		m.forget()
	})
}

// closeAll closes every account, once no job is at work.
func (f *fleet) closeAll() {
	f.mu.Lock()
	for _, m := range f.members {
		f.closing.Go(m.close)
	}
	clear(f.members)
	f.mu.Unlock()
	f.closing.Wait()
}

// attend tells the service manager that the node is ready, and then that it is alive, until ctx ends:
// while the database answers it.
func (f *fleet) attend(ctx context.Context) {
	if !f.manager.there() {
		return
	}
	for ready := false; ; {
		asked, cancel := context.WithTimeout(ctx, aliveEvery)
		alive := f.queue.Alive() && f.server.Ping(asked) == nil
		cancel()
		if alive && !ready {
			ready = true
			f.manager.ready()
		}
		f.manager.status(func() {
			if f.manager.ledger = ""; !alive {
				f.manager.ledger = "the ledgers' database does not answer: webhooks are answered 503, and the log says more"
			}
		})
		if alive {
			f.manager.tell("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(readyEvery):
		}
	}
}
