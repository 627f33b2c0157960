package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
	"payersync/state/statetest"
)

// step is one possible event. A nested step may also happen during a request of a process.
type step struct {
	name   string
	weight float64
	nested bool
	do     func(*world) error
}

// stepKinds are all possible steps, with their average frequency. It is filled below because a sync, through
// its requests, leads back to it.
var stepKinds []step

func init() {
	stepKinds = []step{
		{"sync", 8, true, func(w *world) error { return w.syncOf(w.anyBooks(), w.anyProcess(), w.drawKind()) }},
		{"drain", 4, true, func(w *world) error { return w.drain(w.anyProcess()) }},
		{"sweep", 2, true, func(w *world) error { return w.sweep(w.anyProcess()) }},
		{"deliver", 4, true, (*world).deliver},
		{"drop webhook", 1, true, func(w *world) error { return w.onHook(sandbox.Queue.Drop) }},
		{"double webhook", 1, true, func(w *world) error { return w.onHook(sandbox.Queue.Duplicate) }},
		{"reorder webhooks", 1, true, (*world).reorderHooks},
		{"forge webhook", 0.5, false, (*world).forgeHook},
		{"add", 2, true, (*world).addRecord},
		{"edit", 3, true, (*world).editRecord},
		{"twin", 0.7, false, (*world).addTwin},
		{"archive", 0.4, false, (*world).archiveRecord},
		{"remove", 0.4, false, (*world).removeRecord},
		{"exclude", 0.4, false, (*world).excludeRecord},
		{"malform", 0.4, false, (*world).malformRecord},
		{"rekey", 0.4, false, (*world).rekeyRecord},
		{"break books", 0.4, false, (*world).breakBooks},
		{"edit mapping", 0.7, false, (*world).editMapping},
		{"foreign fields", 2, true, (*world).foreignFields},
		{"foreign name", 0.4, true, (*world).foreignName},
		{"foreign key gone", 0.3, true, (*world).foreignKeyGone},
		{"foreign key other", 0.3, false, (*world).foreignKeyOther},
		{"foreign double", 0.3, true, (*world).foreignDouble},
		{"foreign delete", 0.3, true, (*world).foreignDelete},
		{"foreign add", 1, true, (*world).foreignAdd},
		{"foreign remove", 1, true, (*world).foreignRemove},
		{"foreign alike", 0.3, false, (*world).foreignAlike},
		{"sign", 4, true, func(w *world) error { return w.onMandate((*sandbox.Sandbox).Sign) }},
		{"approve", 4, true, func(w *world) error { return w.onMandate((*sandbox.Sandbox).Approve) }},
		{"payer cancels", 1, true, func(w *world) error { return w.onMandate((*sandbox.Sandbox).PayerCancel) }},
		{"bank cancels", 0.5, true, func(w *world) error { return w.onMandate(bankCancel) }},
		{"overtake", 3, true, (*world).overtake},
		{"steal lock", 2, true, (*world).stealLock},
		{"operator link", 0.7, false, (*world).operatorLink},
		{"operator cancel", 0.4, false, (*world).operatorCancel},
		{"operator apart", 1, false, (*world).operatorApart},
		{"operator approve", 1, false, (*world).operatorApprove},
		{"wait", 4, true, func(w *world) error { return w.wait(time.Duration(w.minds.Int64N(int64(20 * time.Second)))) }},
		{"wait minutes", 4, false,
			func(w *world) error { return w.wait(time.Duration(w.minds.Int64N(int64(20 * time.Minute)))) }},
		{"wait hours", 1, false, func(w *world) error { return w.wait(time.Duration(w.minds.Int64N(int64(30 * time.Hour)))) }},
		{"skew", 0.5, false, (*world).skewClock},
		{"revoke", 0.5, false, (*world).revoke},
		{"disk", 0.5, false, (*world).fillDisk},
		{"backup", 0.7, false, (*world).takeBackup},
		{"restore", 0.7, false, (*world).restoreBackup},
	}
}

// next lets the scheduler pick and run one step.
func (w *world) next(n int) error {
	s := w.pickStep(func(step) bool { return true })
	roll, fuse := w.steps.Float64(), 1+w.steps.Int64N(60)
	if w.plan.skip[n] {
		return nil
	}
	w.logf("── %d %s", n, s.name)
	if err := errors.Join(w.standStill(n), w.befall(n)); err != nil {
		return fmt.Errorf("step %d: %w", n, err)
	}
	if err := w.amend(n); err != nil {
		return fmt.Errorf("step %d (%s): %w", n, w.plan.amends[n], err)
	}
	if roll < w.plan.crashes && !w.plan.without["crash"] {
		for _, p := range w.procs {
			p.fuse.Store(fuse)
		}
	}
	if d := w.plan.outages[n]; d > 0 {
		w.logf("nothing gets through for %v", d)
		w.outage = time.Now().Add(d)
	}
	w.arrive()
	err := s.do(w)
	for _, p := range w.procs {
		p.fuse.Store(0)
	}
	if err != nil {
		return fmt.Errorf("step %d (%s): %w", n, s.name, err)
	}
	return nil
}

func (w *world) pickStep(fits func(step) bool) step {
	total := 0.0
	for _, s := range stepKinds {
		if fits(s) {
			total += w.plan.weights[s.name]
		}
	}
	roll := w.steps.Float64() * total
	for _, s := range stepKinds {
		if !fits(s) {
			continue
		}
		if roll -= w.plan.weights[s.name]; roll < 0 {
			return s
		}
	}
	return stepKinds[0]
}

// disturb lets something else happen while a request is under way: another
// process, a person, a payer, or time.
func (w *world) disturb(c call) {
	roll := w.wires.Float64()
	odds := w.weather.disturb
	if c.op == "list" {
		odds = max(odds, w.weather.drift)
	}
	if roll >= odds || w.nested || w.healed || w.plan.without["disturb"] {
		return
	}
	asked := w.operator
	w.nested, w.operator = true, false
	defer func() { w.nested, w.operator = false, asked }()
	// A process lets no other request of its own leave while it fetches a token.
	c.p.fetching, w.focus = c.op == "token", c.id
	// Reads by the process's other goroutines meanwhile do not count for the caller.
	read := maps.Clone(w.oracle.gets[c.p])
	defer func() {
		c.p.fetching, w.focus = false, ""
		w.oracle.gets[c.p] = read
	}()
	for range 1 + w.wires.IntN(4) {
		w.meanwhile(c, c.op == "list" && roll >= w.weather.disturb)
	}
}

// meanwhile runs one step inside a call; drift narrows it to what moves the list.
func (w *world) meanwhile(c call, drift bool) {
	s := w.pickStep(func(s step) bool { return s.nested && (!drift || strings.HasPrefix(s.name, "foreign")) })
	w.epoch++
	w.logf("   meanwhile %s", s.name)
	w.reach("meanwhile " + s.name)
	if err := s.do(w); err != nil {
		w.violate("harness", "step %s inside %s: %v", s.name, c, err)
	}
}

func (w *world) anyProcess() *process { return w.procs[w.minds.IntN(len(w.procs))] }

func (w *world) drawKind() connector.RunKind {
	return pick(w.minds, connector.RunSync, connector.RunSync, connector.RunSync, connector.RunSync, connector.RunBackfill,
		connector.RunPlan)
}

// as runs f on a process and restarts the process if it died. A process busy in the outer step unwinds first.
func (w *world) as(p *process, f func() error) error {
	if p.dead.Load() || p.fetching {
		return nil
	}
	p.busy++
	err := f()
	p.busy--
	if p.busy > 0 || !p.dead.Load() {
		return err
	}
	p.fuse.Store(0)
	if err := p.restart(); err != nil {
		return err
	}
	w.checkIntegrity(p)
	return nil
}

// anyBooks draws one of several connections.
func (w *world) anyBooks() *books {
	all := w.allBooks()
	if len(all) == 1 {
		return all[0]
	}
	return all[w.minds.IntN(len(all))]
}

// sync makes one run of the first connection.
func (w *world) sync(p *process, kind connector.RunKind) error { return w.syncOf(w.books, p, kind) }

// syncOf makes one run of a connection.
func (w *world) syncOf(b *books, p *process, kind connector.RunKind) error {
	return w.as(p, func() error {
		r := w.oracle.runBegins(p, b)
		release, err := w.hold(b)
		if err != nil {
			return err
		}
		defer release()
		res, err := p.syncer.Run(context.WithValue(context.Background(), runKey{}, r), w.connection(b), syncer.RunOptions{
			Kind: kind, Trigger: "manual", Actor: "operator", Holder: p.name, Approve: r.approve,
		})
		var open *state.ErrRunOpen
		if errors.As(err, &open) {
			w.reach("another run holds the connection")
		}
		if errors.Is(err, state.ErrLeaseLost) || errors.Is(res.Err, state.ErrLeaseLost) {
			w.reach("lease lost")
		}
		w.logf("%s run %s%s: %s %+v err %t", p.name, kind, b.label(), res.Outcome, res.Counts, err != nil || res.Err != nil)
		if err == nil && res.Err == nil && !p.dead.Load() {
			w.oracle.learns(p)
		}
		if err == nil && !p.dead.Load() {
			w.oracle.runEnded(p, r, kind, res)
		}
		return nil
	})
}

func (w *world) drain(p *process) error {
	if p.draining {
		return nil
	}
	p.draining = true
	defer func() { p.draining = false }()
	return w.as(p, func() error {
		drain := p.syncer.Reconciler.Drain
		if w.plan.variant.drain != nil {
			drain = w.plan.variant.drain(p)
		}
		res, err := drain(context.Background())
		w.logf("%s drain: %+v err %t", p.name, res, err != nil)
		if res.Superseded > 0 {
			w.reach("older read superseded")
		}
		if res.Parked > 0 {
			w.reach("webhook parked")
		}
		return nil
	})
}

func (w *world) sweep(p *process) error {
	if w.plan.variant.sweepless {
		return nil
	}
	return w.as(p, func() error {
		res, err := p.syncer.Reconciler.Sweep(context.Background())
		w.logf("%s sweep: %+v err %t", p.name, res, err != nil)
		if err == nil && !p.dead.Load() {
			w.oracle.learns(p)
		}
		if res.Repaired > 0 {
			w.reach("sweep repaired a status")
		}
		return nil
	})
}

func (w *world) deliver() error {
	if w.plan.deaf {
		w.reach("webhooks that all are lost")
		for w.service.Pending() > 0 {
			w.service.Deliveries().Drop(0)
		}
		return nil
	}
	return w.as(w.procs[0], func() error {
		n, err := w.service.Deliver(context.Background())
		w.logf("%d webhooks delivered", n)
		return err
	})
}

func (w *world) onHook(do func(sandbox.Queue, int)) error {
	q := w.service.Deliveries()
	if n := len(q.List()); n > 0 {
		do(q, w.minds.IntN(n))
	}
	return nil
}

func (w *world) reorderHooks() error {
	q := w.service.Deliveries()
	if n := len(q.List()); n > 1 {
		q.Swap(w.minds.IntN(n), w.minds.IntN(n))
	}
	return nil
}

// forgeHook sends a delivery with a forged signature.
func (w *world) forgeHook() error {
	customers := w.service.Customers()
	if len(customers) == 0 {
		return nil
	}
	body := fmt.Appendf(nil, `{"eventId":"forged-%d","type":"dd-mandate","customerId":%q,"status":"ACTIVE"}`,
		w.minds.Uint64(), customers[0].ID)
	h := http.Header{"Content-Type": {"application/json"}}
	if w.minds.IntN(2) == 0 {
		h.Set("X-Signature", strings.Repeat("ab", 32))
	}
	w.oracle.forged(h, body)
	return nil
}

// The hosts.

// wait lets time pass; what is under way meanwhile arrives when it is due.
func (w *world) wait(d time.Duration) error {
	end := time.Now().Add(d)
	for _, l := range slices.Clone(w.late) {
		if l.due.Before(end) {
			w.sleep(max(0, time.Until(l.due)))
			w.arrive()
		}
	}
	w.sleep(time.Until(end))
	w.arrive()
	return nil
}

// skewClock sets the connector's clock anew: forward or a little back.
func (w *world) skewClock() error {
	before := w.skew
	w.skew = time.Duration(w.minds.Int64N(int64(2*maxSkew))) - maxSkew
	if w.skew < before {
		w.reach("clock set back")
	}
	return nil
}

// stealLock lets another process run although one holds the connection, as on a second machine or a file
// system with broken locks (faults F61, F62). On a server, the running one's lease has ended.
func (w *world) stealLock() error {
	if len(w.procs) < 2 || w.procs[0].busy+w.procs[1].busy == 0 {
		return nil
	}
	if err := os.Remove(w.path + "-" + connection + ".lock"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	delete(w.held, connection)
	if err := statetest.LetRunGo(w.path, connection); err != nil {
		return err
	}
	idle := w.procs[0]
	if idle.busy > 0 {
		idle = w.procs[1]
	}
	return w.sync(idle, connector.RunSync)
}

func (w *world) revoke() error {
	w.service.RevokeTokens()
	return nil
}

func (w *world) fillDisk() error {
	w.full = !w.full
	return nil
}

func (w *world) restoreBackup() error {
	if w.backup == nil || w.full {
		return nil
	}
	w.reach("restore of an older ledger")
	for _, c := range w.late {
		if c.c.op == "create" {
			w.reach("restore with a create under way")
		}
	}
	for _, p := range w.procs {
		p.fuse.Store(0)
	}
	return w.restore()
}

func decode(raw []byte) map[string]any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var o map[string]any
	_ = dec.Decode(&o) // nil for anything but an object
	return o
}

func textOf(raw []byte, name string) string {
	s, _ := decode(raw)[name].(string)
	return s
}

// keyOf returns the value of our key in a customer's JSON.
func keyOf(raw []byte) string {
	external, _ := decode(raw)["externalData"].(map[string]any)
	s, _ := external[keyName].(string)
	return s
}
