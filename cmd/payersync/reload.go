package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"payersync/cmd/payersync/internal/config"
	"payersync/state"
)

const (
	// lookEvery is how often serve checks whether a file of the configuration changed. It checks rather than watches:
	// the files of secrets belong to it, wherever they are, and a watcher sees neither links swapped by Kubernetes nor
	// changes on a share.
	lookEvery = 5 * time.Second
	// readEvery is how often it reads files that look unchanged: a share may keep the time and size of a changed file.
	readEvery = time.Minute
	// againAfter is the pause before another try of a valid configuration that could not be used.
	againAfter = time.Minute
)

// reloader applies the configuration file while serve runs. A file with a mistake never replaces a good one.
type reloader struct {
	*service
	started *config.Config // the configuration at the start of serve, for settings fixed until it ends
	taken   *config.Config // the file's last valid content
	seen    look           // its content at the last check
	failed  look           // the last unusable content
	tried   time.Time      // when
	rest    rest           // while the files show no change

	noted state.Serving // the ledger's state
	told  string        // the logged mistake
}

// look is the configuration's content at one time.
type look struct {
	config *config.Config
	wrong  string // why it cannot be used; "" when config is right in itself
}

func (svc *service) newReloader(started *config.Config) *reloader {
	return &reloader{service: svc, started: started, taken: started}
}

// run follows the configuration until ctx ends: at once on a signal, and by itself when the file has changed
// and stayed the same from one look to the next, because its author may not be done.
func (r *reloader) run(ctx context.Context, asked <-chan os.Signal) {
	r.start(ctx)
	defer r.end(ctx)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			r.log.Info("told to read the configuration anew")
			r.manager.reloading()
			now := r.look()
			r.seen, r.rest = now, rest{}
			r.follow(ctx, now)
			r.manager.ready()
		case <-tick.C:
			r.check(ctx)
		}
	}
}

// check follows the configuration if its files changed since the last check.
func (r *reloader) check(ctx context.Context) {
	stamps := stampsOf(r.taken.Files)
	if r.rest.lasts(stamps, r.now()) {
		return
	}
	now := r.look()
	settled := reflect.DeepEqual(now, r.seen)
	r.seen, r.rest = now, rest{}
	if !settled || r.waits(now) {
		return
	}
	r.follow(ctx, now)
	if r.told == "" && reflect.DeepEqual(now.config, r.taken) {
		r.rest = rest{stamps, r.now()}
	}
}

// rest is the state of files whose content is in force, and when they were read.
type rest struct {
	stamps string
	since  time.Time
}

// lasts reports whether the files need not be read again.
func (r rest) lasts(stamps string, now time.Time) bool {
	return r.stamps != "" && r.stamps == stamps && now.Sub(r.since) < readEvery && !now.Before(r.since)
}

// stampsOf returns the state of files without reading them: times, sizes, modes, and the files behind links. It is ""
// if one of them cannot be found.
func stampsOf(paths []string) string {
	var b strings.Builder
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return ""
		}
		target, _ := filepath.EvalSymlinks(path)
		fmt.Fprintf(&b, "%q %d %d %s\n", target, info.ModTime().UnixNano(), info.Size(), info.Mode())
	}
	return b.String()
}

// start and end leave nothing of an earlier serve in the status: what is wrong with a
// configuration matters while another one is in force.
func (r *reloader) start(ctx context.Context) {
	if err := r.note(ctx, "", nil); err != nil && ctx.Err() == nil {
		r.log.WithError(err).Error("the ledger does not show that the configuration is in force")
	}
}

func (r *reloader) end(ctx context.Context) {
	if r.noted.Problem != "" || len(r.noted.Restart) > 0 {
		r.start(context.WithoutCancel(ctx))
	}
}

func (r *reloader) look() look {
	cfg, err := r.load()
	if err != nil {
		return look{wrong: forLog(err).Error()}
	}
	return look{config: cfg}
}

// waits reports whether this could not be used a moment ago.
func (r *reloader) waits(now look) bool {
	return now.config != nil && reflect.DeepEqual(now, r.failed) && r.now().Sub(r.tried) < againAfter
}

// follow puts in force what was seen, if it is another configuration than the one in force
// and can be used.
func (r *reloader) follow(ctx context.Context, now look) {
	wrong, restart := now.wrong, r.noted.Restart
	switch {
	case now.config == nil:
	case reflect.DeepEqual(now.config, r.taken):
	default:
		waiting, err := r.use(ctx, now.config)
		if ctx.Err() != nil {
			return // told to stop: the next start reads the file
		}
		if err != nil {
			wrong, r.failed, r.tried = forLog(err).Error(), now, r.now()
			break
		}
		r.taken, restart = now.config, waiting
	}
	r.reportMistakes(ctx, wrong, restart)
}

// use builds an installation from a configuration and puts it in force. Running work goes on with the earlier
// configuration. It returns the keys that wait for a restart.
func (r *reloader) use(ctx context.Context, file *config.Config) (restart []string, err error) {
	cfg := *file
	restart = cfg.KeepUntilRestart(r.started)
	before := r.inForce.Load()
	s, err := before.Reopen(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	next, err := r.install(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := r.worker.Replace(ctx, r.jobs(s)); err != nil {
		return nil, err
	}
	r.inForce.Store(next)
	if err := s.SetLog(); err != nil {
		return nil, err
	}
	r.log.WithField("connections",
		len(cfg.Connections)).Info("the configuration was read anew and is in force; runs at work end as they began")
	if len(restart) > 0 {
		r.log.WithField("settings",
			strings.Join(restart, ", ")).Warn("restart needed: these settings keep their value until payersync serve starts again")
	}
	r.worker.Nudge() // this configuration may understand deliveries the earlier one could not
	return restart, nil
}

// reportMistakes stores the mistakes of the configuration for the status, and then logs them once: so the status has
// them before the log.
func (r *reloader) reportMistakes(ctx context.Context, wrong string, restart []string) {
	if wrong != r.noted.Problem || !slices.Equal(restart, r.noted.Restart) {
		if err := r.note(ctx, wrong, restart); err != nil && ctx.Err() == nil {
			r.log.WithError(err).Error("the ledger does not show the outcome of the new configuration")
		}
	}
	entry := r.log.WithField("file", r.config)
	switch {
	case wrong == r.told:
	case wrong != "":
		entry.WithError(errors.New(wrong)).Error("the configuration cannot be used; the one before stays in force")
	default:
		entry.Info("the configuration is right again")
	}
	r.told = wrong
	r.manager.say(wrong)
}

// note stores the configuration's state for the status.
func (r *reloader) note(ctx context.Context, wrong string, restart []string) error {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	err := r.inForce.Load().Ledger.Do(ctx, func(tx *state.Tx) error { return tx.SetServing(wrong, restart) })
	if err == nil {
		r.noted = state.Serving{Problem: wrong, Restart: restart}
	}
	return err
}
