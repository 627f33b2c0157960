package main

import (
	"cmp"
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"

	"payersync/state"
)

const (
	readyEvery = time.Second      // how often the ledger is tried before serve is ready
	aliveEvery = 20 * time.Second // how often it is tried where the manager does not say
)

// manager is the service manager that started the process, as systemd; it is told how serve
// is. Where there is none, nobody is told.
type manager struct {
	log *logrus.Logger

	mu     sync.Mutex
	quiet  bool   // it could not be told, and that was logged
	config string // what is wrong with the configuration
	ledger string // what is wrong with the ledger
	told   string // the status that it was told last
}

// there reports whether there is a manager that wants to be told.
func (m *manager) there() bool {
	socket, _ := os.LookupEnv("NOTIFY_SOCKET")
	return socket != ""
}

// tell sends one message of the manager's protocol.
func (m *manager) tell(lines ...string) {
	_, err := daemon.SdNotify(false, strings.Join(lines, "\n"))
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && !m.quiet {
		m.log.WithError(err).Warn("the service manager cannot be told how payersync serve is")
	}
	m.quiet = err != nil
}

func (m *manager) ready() { m.tell(daemon.SdNotifyReady) }

// reloading says that a reload begins; ready ends it. The manager takes it for the answer to
// its own signal by the time.
func (m *manager) reloading() {
	m.tell(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
}

func (m *manager) stopping() { m.tell(daemon.SdNotifyStopping) }

// say tells what is wrong with the configuration, "" for nothing.
func (m *manager) say(config string) { m.status(func() { m.config = config }) }

// status changes what is known and tells the manager in words how serve is, when that is
// news. They name no connection and no value: the manager shows them to everybody.
func (m *manager) status(change func()) {
	m.mu.Lock()
	change()
	text := "at work"
	if m.config != "" {
		text = "at work by the configuration before: the file has a mistake, which payersync status shows"
	}
	text = cmp.Or(m.ledger, text)
	news := text != m.told
	m.told = text
	m.mu.Unlock()
	if news {
		m.tell("STATUS=" + text)
	}
}

// attend tells the manager that serve is ready, once the ledger can be written to, and then
// that it is alive, until ctx ends. Alive means that the ledger answers a commit, whatever it
// answers: on a full disk a restart would mend nothing and stop the webhooks' 503, while a
// writer that hangs comes back by nothing else.
func (svc *service) attend(ctx context.Context, ledger *state.Ledger) {
	if !svc.manager.there() {
		return
	}
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		svc.log.WithError(err).Warn("the service manager's watchdog is not understood")
	}
	every = cmp.Or(every/3, aliveEvery)
	for ready, alive := false, true; ; {
		err := ledger.Ping(ctx)
		if ctx.Err() != nil {
			return
		}
		svc.manager.status(func() {
			if svc.manager.ledger = ""; err != nil {
				svc.manager.ledger = "the ledger cannot be written to: webhooks are answered 503, and the log says more"
			}
		})
		if err == nil && !ready {
			ready = true
			svc.manager.ready()
		}
		was := alive
		if alive = !ready || svc.worker.Alive(); ready && alive {
			svc.manager.tell(daemon.SdNotifyWatchdog)
		}
		if was && !alive {
			svc.log.Error("the schedules stand still; the service manager is no longer told that payersync serve is alive")
		}
		wait := readyEvery
		if ready {
			wait = every
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
