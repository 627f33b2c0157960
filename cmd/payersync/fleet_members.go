package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector/queue"
	"payersync/connector/worker"
	"payersync/state"
)

const (
	idleAfter  = time.Minute      // how long an account stays open without work
	pagesAfter = 15 * time.Minute // and after somebody looked at its pages: previews and lists stay in memory for them
	openAgain  = 5 * time.Second  // the pause before another try to open an account
	lookWithin = time.Minute      // the limit of the last check before an account closes
)

// member is an account open on this node.
type member struct {
	*service
	jobs   *accountJobs
	reload *reloader
	close  func()

	folders []*config.Unpacked // the folders of its files

	// These are the fleet's to lock.
	info  state.AccountInfo
	users int       // its running requests and jobs
	used  time.Time // when the last of them ended
	shown time.Time // when pages were last asked for; zero for never
	dirty bool      // it had work since the last check of its conditions
}

// moving is an account being opened or closed. done is closed at the end.
type moving struct {
	done chan struct{}
	err  error // why it could not be opened
}

// errNotHere means a job's account cannot be opened on this node.
var errNotHere = errors.New("this node cannot open the account, and its log has the reason; its next time is the next try")

// use returns an account, opens it if necessary, and keeps it open until release.
func (f *fleet) use(ctx context.Context, account int64) (*member, error) {
	row, served := f.row(ctx, account)
	for {
		f.mu.Lock()
		if m := f.members[account]; m != nil {
			m.users++
			f.mu.Unlock()
			return m, nil
		}
		on := f.moving[account]
		if on == nil {
			if failed, has := f.failed[account]; !served || f.life == nil || f.life.Err() != nil || has &&
				f.now().Sub(failed) < openAgain {
				f.mu.Unlock()
				return nil, errNotHere
			}
			on = &moving{done: make(chan struct{})}
			f.moving[account] = on
			f.closing.Go(func() { f.bringIn(on, row) })
		}
		f.mu.Unlock()
		select {
		case <-on.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if on.err != nil {
			return nil, errNotHere
		}
	}
}

// bringIn opens an account for all waiting callers.
func (f *fleet) bringIn(on *moving, row state.AccountInfo) {
	f.openers <- struct{}{}
	m, err := f.open(f.life, row)
	<-f.openers
	f.mu.Lock()
	defer f.mu.Unlock()
	defer close(on.done)
	delete(f.moving, row.ID)
	if on.err = err; err != nil {
		_, told := f.failed[row.ID]
		f.failed[row.ID] = f.now()
		if f.life.Err() == nil && !told {
			f.entry(row).WithError(forLog(err)).Error("cannot open the account; this node does nothing for it until that succeeds")
		}
		return
	}
	m.used = f.now()
	f.members[row.ID] = m
	if f.life.Err() != nil { // closeAll may have passed already
		f.out(m)
	}
	delete(f.failed, row.ID)
	f.entry(row).Debug("the account is open")
}

// release ends a use. worked means it may have changed something.
func (f *fleet) release(m *member, worked bool) {
	f.mu.Lock()
	m.users--
	m.used, m.dirty = f.now(), m.dirty || worked
	over := len(f.members) > f.limit()
	f.mu.Unlock()
	if over {
		f.trim()
	}
}

// limit is how many accounts this node keeps open, unless more have work at once.
func (f *fleet) limit() int { return f.node.Nodes.OpenAccounts }

// trim closes accounts without work: those idle for a while, and the longest unused if too many are open. It
// checks their conditions first, if there may be news.
func (f *fleet) trim() {
	f.mu.Lock()
	defer f.mu.Unlock()
	var idle []*member
	for _, m := range f.members {
		if m.users == 0 && !m.busy() {
			idle = append(idle, m)
		}
	}
	slices.SortFunc(idle, func(a, b *member) int { return a.used.Compare(b.used) })
	over, now := len(f.members)-f.limit(), f.now()
	for i, m := range idle {
		switch rests := now.Sub(m.used) >= idleAfter && now.Sub(m.shown) >= pagesAfter; {
		case i >= over && !rests:
		case m.dirty:
			m.users++
			f.closing.Go(func() {
				ctx, cancel := context.WithTimeout(f.life, lookWithin)
				defer cancel()
				m.alarms.check(ctx)
				f.mu.Lock()
				m.users--
				f.mu.Unlock()
				f.trim()
			})
		default:
			f.out(m)
		}
	}
}

// busy reports whether an account has work besides jobs and requests.
func (m *member) busy() bool {
	return m.jobs.asked.Load() > 0 || m.behind.fetcher.Lot().AtWork()
}

// out closes an account, beside the caller. f.mu is held.
func (f *fleet) out(m *member) {
	on := &moving{done: make(chan struct{})}
	delete(f.members, m.info.ID)
	f.moving[m.info.ID] = on
	name := m.info.Name
	f.closing.Go(func() { // its requests in flight are waited for
		m.close()
		f.mu.Lock()
		delete(f.moving, m.info.ID)
		f.mu.Unlock()
		close(on.done)
		f.log.WithField("account", name).Debug("the account was closed")
	})
}

func (f *fleet) work(ctx context.Context, job queue.Job, trigger string) error {
	m, err := f.use(ctx, job.Account)
	if err != nil && f.active(job.Account) { // another node may be able to open it, or this one in a moment
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
	defer f.release(m, true)
	return m.jobs.run(ctx, job.Name, trigger)
}

func (f *fleet) drain(ctx context.Context, account int64) error {
	if row, served := f.row(ctx, account); !served || row.State != state.AccountActive {
		return nil // it is paused, or has left
	}
	m, err := f.use(ctx, account)
	if err != nil {
		return err
	}
	defer f.release(m, true)
	return m.jobs.drain(ctx, func(ctx context.Context) error { return drainInbox(ctx, m.inForce.Load().Session) })
}

// report stores the outcome of a job in its account's ledger. It does not store ticks skipped during a run.
func (f *fleet) report(account int64, e worker.JobEvent) {
	if e.Outcome == worker.Skipped || e.Job == worker.DrainName && e.Outcome == worker.Begun {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
	defer cancel()
	m, err := f.use(ctx, account)
	if err != nil {
		if e.Outcome != worker.Begun { // another node may be able to open it, and begin anew
			f.log.WithField("account", account).WithField("job", e.Job).WithField("outcome",
				e.Outcome).Warn("a job of an account that cannot be opened here")
		}
		return
	}
	defer f.release(m, e.Job != worker.DrainName)
	reportJob(m.inForce.Load().Session, e)
	m.alarms.noteJob(e)
}

// retake gives an open account another configuration or state. The account itself reports a configuration
// with a mistake, and waits for another.
func (f *fleet) retake(ctx context.Context, m *member, row state.AccountInfo) error {
	if err := m.jobs.Pause(ctx, row.State != state.AccountActive); err != nil {
		return err
	}
	f.mu.Lock()
	m.info = row
	f.mu.Unlock()
	cfg, err := f.load(ctx, m, row.Name)
	var mistake usage.Mistake
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
	return f.reschedule(ctx, m)
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
	s, err := session.Open(ctx, cfg, state.Options{Server: f.server, Committing: f.metrics.Accounts().Committing})
	if err != nil {
		return nil, err
	}
	s.Metrics = f.metrics.Accounts()
	if err := s.OpenBilling(ctx, f.ErrOut, f.node.Log, true); err != nil { // it closes the session on failure
		return nil, err
	}
	life, end := context.WithCancel(ctx)
	m.jobs = &accountJobs{
		queue: f.queue, account: row.ID, ledger: s.Ledger, nudges: make(chan struct{}, 1),
		paused: row.State != state.AccountActive,
		lost: func(err error) {
			s.Log.WithError(err).Warn("the queue did not store a waiting delivery; the next tick finds it")
		},
		life: life,
	}
	m.service, err = f.newService(ctx, s, newDeliveryLog(s.Log), func(svc *service) (_ runner, err error) {
		m.jobs.people, err = worker.New(worker.Config{Drain: func(context.Context) error { return nil },
			DrainEvery: 24 * time.Hour, Now: f.now, Report: func(e worker.JobEvent) {
				if e.Job != worker.DrainName {
					reportJob(svc.inForce.Load().Session, e)
					svc.alarms.noteJob(e)
				}
			}})
		return m.jobs, err
	})
	if err != nil {
		end()
		s.Close()
		return nil, err
	}
	m.jobs.Schedule(f.jobs(s))
	m.alarms.from, m.alarms.skip = f.begun, func() bool { return !f.mayBeNews(m) }
	m.alarms.begin = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		m.dirty = false
	}
	m.alarms.keep = func(ctx context.Context, l alarmLook) { f.keepLook(ctx, m, l) }
	m.reload = m.newReloader(cfg)
	m.start(life, end)
	return m, nil
}

// lookAgain is the time between checks of a quiet account: some conditions begin by time alone.
const lookAgain = time.Hour

// keepLook stores an account's conditions for all nodes, status and metrics.
func (f *fleet) keepLook(ctx context.Context, m *member, l alarmLook) {
	f.mu.RLock()
	info := m.info
	f.mu.RUnlock()
	r := newAccountStatus(info)
	if info.State == state.AccountActive {
		r.Conditions = append(r.Conditions, l.found...)
	}
	for i := range r.Conditions {
		r.Conditions[i].Detail = "" // it may quote a record, and this is not sealed
	}
	next := f.now().Add(lookAgain)
	if !l.next.IsZero() && l.next.Before(next) {
		next = l.next
	}
	err := r.read(ctx, m.inForce.Load().Ledger)
	if err == nil {
		err = f.server.NoteSummary(ctx,
			state.AccountSummary{Account: info.ID, LookedAt: l.began, NextLook: next, Needs: r.needsSomebody(), Text: r.text()})
	}
	if err != nil && ctx.Err() == nil {
		f.entry(info).WithError(forLog(err)).Warn("the result of an account's check was not stored; status checks itself")
	}
}

// mayBeNews reports whether an account had work since the last check of its conditions.
func (f *fleet) mayBeNews(m *member) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return m.dirty || m.users > 0
}

// load reads an account's configuration from the files in its row. It writes them into a folder of this
// process's own. Running work may still read the earlier files.
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
		return nil, usage.Mistake{Err: err}
	}
	for len(m.folders) > keptFolders {
		_ = m.folders[0].Remove() // as in forget
		m.folders = m.folders[1:]
	}
	return cfg, nil
}

// keptFolders is the number of kept versions of an account's files, the newest included: running work uses
// the version it began with.
const keptFolders = 4

// drop removes the newest files, if they are not in force.
func (m *member) drop() {
	last := len(m.folders) - 1
	_ = m.folders[last].Remove() // as in forget
	m.folders = m.folders[:last]
}

// forget removes the files written for an account.
func (m *member) forget() {
	for _, folder := range m.folders {
		_ = folder.Remove() // leftovers are in memory, out of anybody's reach
	}
}

// start starts the work besides jobs and requests, until m.close.
func (m *member) start(ctx context.Context, end context.CancelFunc) {
	going := m.follow(ctx)
	going.Go(func() { _ = m.jobs.Run(ctx) }) // it fails only for missed jobs of its own, and has none
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
		f.out(m)
	}
	f.mu.Unlock()
	f.closing.Wait()
}
