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
	aliveEvery = 20 * time.Second // the default time between pings
)

// manager is the service manager of the process, such as systemd; serve reports its state to it. Without one,
// nothing is reported.
type manager struct {
	log *logrus.Logger

	mu     sync.Mutex
	quiet  bool   // a failed message was logged
	config string // the mistake in the configuration
	ledger string // the problem of the ledger
	told   string // the last status sent
}

// there reports whether there is a manager.
func (m *manager) there() bool {
	socket, _ := os.LookupEnv("NOTIFY_SOCKET")
	return socket != ""
}

// notify sends one message of the manager's protocol.
func (m *manager) notify(lines ...string) {
	_, err := daemon.SdNotify(false, strings.Join(lines, "\n"))
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && !m.quiet {
		m.log.WithError(err).Warn("the service manager cannot be told how payersync serve is")
	}
	m.quiet = err != nil
}

func (m *manager) ready() { m.notify(daemon.SdNotifyReady) }

// reloading reports the begin of a reload; ready ends it. The time tells the manager that this answers its
// own signal.
func (m *manager) reloading() {
	m.notify(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
}

func (m *manager) stopping() { m.notify(daemon.SdNotifyStopping) }

// say reports the mistake in the configuration, "" for none.
func (m *manager) say(config string) { m.status(func() { m.config = config }) }

// status applies a change and reports serve's state in words, if that is news. The words name no connection
// and no value: the manager shows them to everybody.
func (m *manager) status(change func()) {
	m.mu.Lock()
	change()
	text := "at work"
	if m.config != "" {
		text = "running with the configuration before: the file has a mistake, which payersync status shows"
	}
	text = cmp.Or(m.ledger, text)
	news := text != m.told
	m.told = text
	m.mu.Unlock()
	if news {
		m.notify("STATUS=" + text)
	}
}

// attend reports readiness to the manager, once the ledger accepts writes, and then life, until ctx ends.
// Alive means that the ledger answers a commit, with whatever result: on a full disk a restart would help
// nothing and stop the webhooks' 503, while only a restart helps against a hanging writer.
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
			svc.manager.notify(daemon.SdNotifyWatchdog)
		}
		if was && !alive {
			svc.log.Error("the schedules have stopped; payersync serve no longer reports to the service manager that it is alive")
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
