package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"payersync/cmd/payersync/internal/config"
	"payersync/cmd/payersync/internal/session"
	"payersync/connector/metrics"
	"payersync/connector/queue"
	"payersync/connector/reconcile"
	"payersync/connector/server"
	"payersync/state"
)

const (
	rowsEvery  = 5 * time.Second // how often a node looks whether accounts have changed
	openAtOnce = 8               // accounts opened at a time by a node

	tellsAfter = 10 * time.Second // the start's wait for the database before a message

	queueConnections = 6 // to the database, besides the ledgers': one for each statement, and one that listens
)

// fleet is payersync serve on one node, for all accounts of a database. All nodes are equal: the queue
// assigns the jobs, and each account's ledger stores the results.
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
	addresses  []string // its listening addresses; known before the queue runs

	life    context.Context // of open accounts; it outlives the opening request or job
	begun   time.Time       // when the node began
	openers chan struct{}   // a slot for each account being opened

	mu      sync.RWMutex
	known   accountIndex        // as the rows said last
	members map[int64]*member   // accounts open here
	moving  map[int64]*moving   // accounts being opened or closed here
	nodes   []queue.Node        // as seen last; nil if unreadable
	failed  map[int64]time.Time // rows that could not be applied, with the time of the last try

	closing sync.WaitGroup // of accounts
	polled  time.Time      // up to when changes of rows were read; of look alone
	reread  time.Time      // when all rows were read; of look alone
}

// serveFleet serves all accounts of the node's database until ctx ends.
func (a *app) serveFleet(ctx context.Context, node *config.Node) (err error) {
	f := &fleet{app: a, node: node, metrics: metrics.NewFleet(version, commit()), known: newAccountIndex(),
		members: map[int64]*member{}, moving: map[int64]*moving{}, failed: map[int64]time.Time{},
		openers: make(chan struct{}, openAtOnce)}
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
	if f.server.OwnsTables() {
		f.log.Warn(ownsTables)
	}
	if alone, err := f.server.Alone(ctx); err != nil {
		return err
	} else if alone {
		f.log.Warn("the database waits for no standby: a failover would lose the last acknowledged webhooks. Set synchronous_standby_names there")
	}
	closeQueue, err := f.openQueue(ctx)
	if err != nil {
		return err
	}
	defer closeQueue()
	f.metrics.Follow(f.numbers)
	life, end := context.WithCancel(ctx)
	defer end()
	f.life, f.begun = life, f.now()
	defer f.closeAll()
	if err := f.refresh(ctx); err != nil {
		return err
	}
	listeners, err := f.listen(ctx)
	if err != nil {
		return err
	}
	f.log.WithField("accounts", f.known.size()).Info("payersync serves")
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

// removeLeft removes files of accounts left here by a killed node.
func (f *fleet) removeLeft() {
	n, err := config.RemoveLeft(f.runtime())
	if err != nil {
		f.log.WithError(forLog(err)).Warn("cannot remove files of accounts left by a killed process; remove them, because they contain secrets")
	}
	if n > 0 {
		f.log.WithField("folders", n).Info("removed files of accounts left by a killed process")
	}
}

// openQueue opens the node's part of the queue. It is closed last.
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
		f.log.Warn("the node has not started yet: another node creates the queue's tables, or the database waits for a standby that is away. Check that the standby runs and follows the primary")
	})
	err = f.server.Migrate(ctx, pool, queue.Schema, queue.Migrate, queue.Check)
	if waits.Stop(); err != nil {
		return nil, err
	}
	f.queue, err = queue.New(queue.Config{
		Pool: pool, Work: f.work, Drain: f.drain, Workers: queue.Workers{Hooks: w.Hooks, Runs: w.Runs, Care: w.Care},
		Slice: time.Duration(f.node.Nodes.Slice), StopWithin: time.Duration(f.node.Nodes.StopWithin),
		Open: f.server.HasDeliveriesOf(f.active, reconcile.RepeatGap), // those of a paused account are kept until it goes on
		Due: func(ctx context.Context) ([]int64, error) {
			return f.server.DueAccounts(ctx, reconcile.RepeatGap)
		},
		Now: f.now, Presence: f.presence, Report: f.report, Log: func(text string) { f.log.Warn(text) },
	})
	return pool.Close, err
}

// ownsTables warns that one role does both. It works.
const ownsTables = "the node's role owns the tables, so it could drop the policies that keep accounts apart. Give ledger.postgres a role of its own, and name the owner in ledger.owner; payersync help many-machines has the statements"

// attend reports readiness to the service manager, and then life, until ctx ends, as long as the database
// answers.
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
			f.manager.notify("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(readyEvery):
		}
	}
}
