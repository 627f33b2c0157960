package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
)

// drawnTroubles selects the troubles for seeds: "all", "none", or the kinds by name with commas between.
// Nothing else turns them on, except -troubles for one run.
const drawnTroubles = "none"

// troubles is drawnTroubles, or the command line's choice.
var troubles = drawnTroubles

// The kinds of trouble: a second model of the service's list, its readers, and the host. A fault affects one
// request; a trouble lasts.
const (
	listEmpty   = "list empty"
	listShort   = "list short"   // lists lack a random part
	pagesLost   = "pages lost"   // lists lack whole pages
	listKeyless = "list keyless" // lists show no externalData
	listBehind  = "list behind"  // lists are those of some time ago
	readsBehind = "reads behind" // reads by id too
	clockAhead  = "clock ahead"  // the connector's, while a process dies; later it is put right; the source is read whole
	copiedBack  = "copied back"  // the ledger's file is an older one, and nobody says so
	// another installation makes a customer for a record of ours right after the list was read
	lateLook = "late look"

	// The same as clockAhead over a source that reports changes since a time of that clock. It is not part of
	// all: edits are missed until a full read. A connection makes one by its full_every, but these worlds
	// never do.
	positionAhead = "position ahead"
)

var troubleKinds = []string{listEmpty, listShort, pagesLost, listKeyless, listBehind, readsBehind, clockAhead,
	copiedBack, lateLook}

// shortLag is how long a read by id may lag without any finding: a new customer is not found, and is not
// missing.
const shortLag = 2 * time.Minute

// trouble is one drawn by a seed.
type trouble struct {
	kind   string
	step   int           // it begins before this step
	after  int           // the number of requests before it begins
	until  int           // for a clock or a backup: it is corrected, or restored, before this step
	lasts  time.Duration // of a view
	view   sandbox.View
	ahead  time.Duration
	points int64 // a process's remaining points after its clock was set ahead
}

// spell is an active view.
type spell struct {
	kind  string
	view  sandbox.View
	after int // requests to pass before it begins
	lasts time.Duration
	until time.Time // zero while it has not begun
}

// named returns the kinds meant by a list of names, all or none.
func named(kinds string) []string {
	switch kinds {
	case "none", "":
		return nil
	case "all":
		return troubleKinds
	}
	out := strings.Split(kinds, ",")
	for _, kind := range out {
		if !slices.Contains(troubleKinds, kind) && kind != positionAhead {
			panic(fmt.Sprintf("trouble %q is not known: use all, none or some of %q", kind, troubleKinds))
		}
	}
	return out
}

// drawTroubles gives two seeds of three one to three troubles of these kinds. It has a random source of its
// own, so seeds without any keep their stories.
func (p *plan) drawTroubles(kinds []string) {
	p.strict = p.strict || len(kinds) > 0
	r := rand.New(rand.NewPCG(p.seed, 7))
	if len(kinds) == 0 || r.IntN(3) == 0 {
		return
	}
	for range 1 + r.IntN(3) {
		t := trouble{kind: pick(r, kinds...), step: r.IntN(p.steps), lasts: drawSpan(r), points: 1 + r.Int64N(60)}
		t.after = pick(r, 0, 0, r.IntN(30))
		t.until = t.step + 1 + r.IntN(8)
		t.view = drawView(r, t.kind)
		t.ahead = pick(r, drawSpan(r), time.Duration(1+r.IntN(40))*24*time.Hour)
		p.troubles = append(p.troubles, t)
		if t.kind == clockAhead || t.kind == positionAhead {
			p.snapshot = t.kind == clockAhead
		}
	}
}

// drawSpan draws minutes, hours or days.
func drawSpan(r *rand.Rand) time.Duration {
	return time.Minute + time.Duration(r.Int64N(int64(pick(r, 30*time.Minute, 12*time.Hour, 72*time.Hour))))
}

func drawView(r *rand.Rand, kind string) sandbox.View {
	share, lag := 0.1+0.8*r.Float64(), drawSpan(r)
	switch kind {
	case listEmpty:
		return sandbox.View{Missing: 1}
	case listShort:
		return sandbox.View{Missing: share}
	case pagesLost:
		return sandbox.View{LostPages: share}
	case listKeyless:
		return sandbox.View{NoKeys: true}
	case listBehind:
		return sandbox.View{ListLag: lag}
	case readsBehind: // reads of hours ago could prove nothing to anybody
		return sandbox.View{ListLag: lag, ReadLag: time.Duration(r.Int64N(int64(shortLag)))}
	}
	return sandbox.View{}
}

// befall begins the troubles of a step, and ends those limited by steps.
func (w *world) befall(n int) error {
	for i, t := range w.plan.troubles {
		if w.plan.without[t.kind] {
			continue
		}
		var err error
		switch {
		case (t.kind == clockAhead || t.kind == positionAhead) && t.step == n:
			err = w.putClockAhead(t)
		case (t.kind == clockAhead || t.kind == positionAhead) && t.until == n:
			w.putClockRight()
		case t.kind == copiedBack && t.step == n && !w.full:
			err = w.takeBackup()
		case t.kind == copiedBack && t.until == n:
			err = w.copyBack()
		case t.step == n && t.view != (sandbox.View{}):
			err = w.foreshadow(fmt.Sprint("B", i))
			w.spells = append(w.spells, spell{kind: t.kind, view: t.view, after: t.after, lasts: t.lasts})
		case t.until == n && t.view != (sandbox.View{}):
			err = w.fulfil(fmt.Sprint("B", i))
		case t.kind == lateLook && t.step == n:
			err = w.addBesideUs()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.kind, err)
		}
	}
	return nil
}

// foreshadow lets the ledger see a customer, before lists become wrong, that others made for a record still
// to come; fulfil adds the record.
func (w *world) foreshadow(key string) error {
	w.oracle.taint(key, "doubled")
	if err := w.add(map[string]any{"name": "Payer " + key, "externalData": map[string]any{keyName: key}}); err != nil {
		return err
	}
	return w.sweep(w.anyProcess())
}

func (w *world) fulfil(key string) error {
	if len(w.books.records) >= 9 || w.oracle.taints[key] == nil {
		return nil
	}
	w.books.putPayer(key, key)
	return w.sync(w.anyProcess(), connector.RunSync)
}

// readers sets the service's present view: before every request.
func (w *world) readers(c call) {
	var now sandbox.View
	for i := range w.spells {
		s := &w.spells[i]
		if s.until.IsZero() {
			if s.after--; s.after >= 0 {
				continue
			}
			s.until = time.Now().Add(s.lasts)
			w.logf("%s for %v: %+v", s.kind, s.lasts, s.view)
			if c.op == "list" && c.page > 0 {
				w.reach("trouble: begins inside a list pass")
			}
		}
		if !time.Now().Before(s.until) {
			continue
		}
		now.Missing, now.LostPages = max(now.Missing, s.view.Missing), max(now.LostPages, s.view.LostPages)
		now.ListLag, now.ReadLag = max(now.ListLag, s.view.ListLag), max(now.ReadLag, s.view.ReadLag)
		now.NoKeys = now.NoKeys || s.view.NoKeys
		if c.op == "list" || s.kind == readsBehind && c.op == "get" {
			w.reach("trouble: " + s.kind)
		}
	}
	if now != w.view {
		w.logf("readers are shown %+v", now)
		w.view = now
		w.service.SetView(now)
	}
}

// lists reports whether lists show less than the truth just now.
func (w *world) listsLie() bool {
	v := w.view
	v.ReadLag = 0
	return v != (sandbox.View{})
}

// putClockAhead lets a process read a new record while its clock is ahead, and die meanwhile. It does not do
// so while a restored ledger waits: a jumping clock cannot measure that.
func (w *world) putClockAhead(t trouble) error {
	if time.Since(w.oracle.restoredTruly) < quarantine+2*maxSkew {
		return nil
	}
	p := w.anyProcess()
	w.skew, w.jumped = t.ahead, true
	w.logf("the clock is %v ahead", t.ahead)
	p.fuse.Store(t.points)
	deaths := w.deaths
	err := w.addRecord()
	if err == nil {
		err = w.sync(p, connector.RunSync)
	}
	p.fuse.Store(0)
	if w.deaths > deaths {
		w.reach("trouble: " + t.kind)
	}
	return err
}

func (w *world) putClockRight() {
	if w.skew <= maxSkew {
		return
	}
	w.skew = 0
	w.logf("the clock is right again")
	w.reach("trouble: the clock put right")
}

// copyBack puts an older ledger in place, like a person copying the file.
func (w *world) copyBack() error {
	if w.backup == nil || w.full {
		return nil
	}
	w.logf("the ledger is copied back")
	w.reach("trouble: " + copiedBack)
	for _, p := range w.procs {
		p.fuse.Store(0)
	}
	return w.restore()
}

// addBesideUs lets a process have read the list just now, and another installation
// make a customer for a record of ours right afterwards.
func (w *world) addBesideUs() error {
	p := w.anyProcess()
	if err := w.sweep(p); err != nil {
		return err
	}
	if err := w.sweep(p); err != nil {
		return err
	}
	if err := w.addRecord(); err != nil || len(w.books.records) == 0 {
		return err
	}
	f := w.books.fields(w.books.records[len(w.books.records)-1].SourceID)
	w.oracle.taint(f.No, "doubled")
	w.reach("trouble: " + lateLook)
	return w.add(map[string]any{"name": f.Name, "externalData": map[string]any{keyName: f.No}})
}
