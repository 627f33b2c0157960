package syncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"payersync/connector"
	"payersync/state"
)

// forecast is a preview under construction. It keeps no personal values: records shown in detail are decided a second
// time.
type forecast struct {
	*run
	limit    int
	first    int // examined records; 0 for all
	all      []foreseen
	groups   map[string]*changeGroup
	outcomes map[outcome]*outcome
}

// foreseen is the decision on one record.
type foreseen struct {
	sourceID string
	key      uint64 // of claims, against a second payer with the same; 0 for none
	*outcome
}

// outcome is the common part of the decisions on many records, stored once.
type outcome struct {
	was, now state.Verdict
	action   connector.Action // of its customer's change; "" for none
	reason   connector.Reason
	group    *changeGroup // set for existing customers with changes
	weight   state.Weight
	link     bool
	unasked  state.UnaskedCount // why its payer, without a mandate, is not asked for one
	linked   bool
	rekeyed  bool
	inFlight bool
	counts   bool
	waits    bool
}

type changeGroup struct {
	ChangeGroup
	order int
}

// errEnough ends the reading of records before their last.
var errEnough = errors.New("enough records were read")

// foresee decides on every stored record. The next page is read while one is
// decided on.
func (f *forecast) foresee(ctx context.Context) error {
	pages := make(chan []state.StoredRecord)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(pages)
		left := f.first
		err := f.EachStored(ctx, f.conn, func(page []state.StoredRecord) error {
			if f.first > 0 {
				if left == 0 {
					return errEnough
				}
				page = page[:min(left, len(page))]
				left -= len(page)
			}
			select {
			case pages <- page:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
	group.Go(func() error {
		for page := range pages {
			decisions, err := f.decidePage(ctx, page)
			if err != nil {
				return err
			}
			if err := f.lookElsewhere(ctx, page, decisions); err != nil {
				return err
			}
			for i, d := range decisions {
				f.all = append(f.all, f.entry(page[i], d))
			}
			f.progress("preview", len(f.all), 0)
		}
		return nil
	})
	return group.Wait()
}

// decidePage decides on the records of a page side by side: no decision looks at
// what another has said.
func (f *forecast) decidePage(ctx context.Context, page []state.StoredRecord) ([]state.Decision, error) {
	decisions := make([]state.Decision, len(page))
	group, ctx := errgroup.WithContext(ctx)
	part := (len(page) + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
	for from := 0; from < len(page); from += part {
		group.Go(func() error {
			for i := from; i < min(from+part, len(page)); i++ {
				if err := connector.Guard(func() (err error) {
					decisions[i], err = f.foreseeOne(ctx, page[i])
					return err
				}); err != nil {
					return fmt.Errorf("record %s: %w", page[i].Record.SourceID, err)
				}
			}
			return nil
		})
	}
	return decisions, group.Wait()
}

// foreseeOne returns the decision of the next plan. Records up to date are not planned again, and records with a
// request in flight not before its answer.
func (f *forecast) foreseeOne(ctx context.Context, r state.StoredRecord) (state.Decision, error) {
	if r.InFlight {
		return state.Decision{SourceID: r.Record.SourceID, Verdict: r.Verdict}, nil
	}
	m, err := f.render(r.Candidate)
	if err != nil {
		return state.Decision{}, err
	}
	d, err := f.decide(ctx, subject{Candidate: r.Candidate, made: m})
	if r.UpToDate {
		d.Customer, d.Link = nil, false
	}
	return d, err
}

func (f *forecast) entry(r state.StoredRecord, d state.Decision) foreseen {
	o := outcome{
		was: r.Verdict, now: d.Verdict, reason: d.Reason, weight: r.Weigh(d),
		link: r.AsksForLink(d), unasked: r.UnaskedBy(d, f.conn.Mapping.Version()), inFlight: r.InFlight, counts: r.Counts,
		waits: d.Waits,
	}
	if p := r.Payer; p != nil {
		o.linked = p.BillingID != ""
		o.rekeyed = d.Key.Value != "" && d.Key != p.Key && !p.MovesTo(d.Key)
	}
	if d.Customer != nil {
		o.action = d.Customer.Action
		if o.action == connector.ActionUpdate {
			o.group = f.groupOf(d.Customer.Diff)
		}
	}
	if f.outcomes[o] == nil {
		f.outcomes[o] = &o
	}
	return foreseen{d.SourceID, f.claims.hash(countingKey(r, d)), f.outcomes[o]}
}

// countingKey returns the payer's key in the ledger after the decision is saved; zero for a record not counted.
func countingKey(r state.StoredRecord, d state.Decision) connector.Key {
	p := r.Payer
	switch {
	case d.Verdict != state.Included && d.Verdict != state.Held:
		return connector.Key{}
	case p != nil && (p.BillingID != "" || r.InFlight || d.Key.Value == ""):
		return p.Key
	}
	return d.Key
}

// groupOf returns the group of customers with the same changes.
func (f *forecast) groupOf(diff []connector.FieldChange) *changeGroup {
	changes := make([]FieldManner, len(diff))
	var name strings.Builder
	for i, d := range diff {
		changes[i] = FieldManner{d.Path, mannerOf(d)}
		fmt.Fprintf(&name, "%s\x00%s\x00", d.Path, changes[i].Manner)
	}
	g := f.groups[name.String()]
	if g == nil {
		g = &changeGroup{ChangeGroup{Changes: changes}, len(f.groups)}
		f.groups[name.String()] = g
	}
	return g
}

func (g *changeGroup) empties() bool {
	return slices.ContainsFunc(g.Changes, func(c FieldManner) bool { return c.Manner == MannerEmptied })
}

func mannerOf(d connector.FieldChange) Manner {
	spaceless := func(s string) string { return strings.Join(strings.Fields(s), "") }
	switch {
	case d.From == "":
		return MannerFilled
	case d.To == "":
		return MannerEmptied
	case strings.EqualFold(d.From, d.To):
		return MannerCase
	case spaceless(d.From) == spaceless(d.To):
		return MannerSpaces
	}
	return MannerChanged
}

// lookElsewhere finds the other owners of a page's keys, or of its payers' future keys.
func (f *forecast) lookElsewhere(ctx context.Context, page []state.StoredRecord, decisions []state.Decision) error {
	keys := map[connector.Key]int{}
	for i, d := range decisions {
		if key := countingKey(page[i], d); key.Value != "" {
			keys[key] = 0
		}
		if p := page[i].Payer; p != nil && p.MovesTo(d.Key) {
			keys[d.Key] = 0
		}
	}
	if err := f.Ledger.KeysElsewhere(ctx, f.conn.Name, f.conn.Info.Snapshot, keys); err != nil {
		return err
	}
	for key, n := range keys {
		if n > 0 {
			f.claims.elsewhere[f.claims.hash(key)] = n
		}
	}
	return nil
}

// meetRivals decides again on records with a shared key, now that all keys are known. A plan does the same.
func (f *forecast) meetRivals(ctx context.Context) error {
	for hash, n := range f.claims.elsewhere {
		f.claims.add(hash, n)
	}
	for _, e := range f.all {
		f.claims.add(e.key, 1)
	}
	for i, e := range f.all {
		if e.inFlight || f.claims.by[e.key] < 2 {
			continue
		}
		r, err := f.Ledger.StoredRecord(ctx, f.conn.Name, e.sourceID, f.conn.Mapping.Version())
		if err != nil {
			return err
		}
		d, err := f.foreseeOne(ctx, r)
		if err != nil {
			return fmt.Errorf("record %s: %w", e.sourceID, err)
		}
		f.all[i] = f.entry(r, d)
	}
	return nil
}

// add adds the decisions up.
func (f *forecast) add(ctx context.Context) (Preview, error) {
	p := Preview{Connection: f.conn.Name, Mapping: f.conn.Mapping.Version(), Records: len(f.all), Failures: []Failure{}}
	for _, named := range []*Named{&p.Included, &p.Dropped, &p.Mended, &p.KeyChanges} {
		named.SourceIDs = []string{}
	}
	failures, unasked := map[connector.Reason]*Failure{}, map[state.UnaskedCount]int{}
	for i := range f.all {
		e := &f.all[i]
		p.count(e)
		if e.unasked.Why != "" {
			unasked[e.unasked]++
		}
		f.compare(&p, e)
		if e.reason != "" && !e.inFlight {
			f.addFailure(failures, e)
		}
	}
	var err error
	if p.Linked, err = f.Ledger.LinkedCount(ctx, f.conn.Name); err != nil {
		return p, err
	}
	p.Limits = f.Settings.Guards.stops(f.losses(), p.Weight, p.Linked)
	if p.Stops, err = f.stopsOf(ctx, state.Plan{Creates: p.Creates}); err != nil {
		return p, err
	}
	p.Fields, p.Groups, p.NotAsked = f.fieldCounts(), f.largestGroups(), f.unaskedCounts(unasked)
	for _, failure := range slices.SortedFunc(maps.Values(failures), func(a, b *Failure) int {
		return cmp.Or(cmp.Compare(b.New, a.New), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	}) {
		p.Failures = append(p.Failures, *failure)
	}
	return p, nil
}

// unaskedCounts returns how many payers are not asked for a mandate, by the reasons, most first.
func (f *forecast) unaskedCounts(of map[state.UnaskedCount]int) (out []state.UnaskedCount) {
	for c, n := range of {
		c.Connection, c.Payers = f.conn.Name, n
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b state.UnaskedCount) int {
		return cmp.Or(cmp.Compare(b.Payers, a.Payers), cmp.Compare(a.Why, b.Why), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Condition, b.Condition), cmp.Compare(a.Mapping, b.Mapping))
	})
	return out
}

// losses counts like FinishPlan after the decisions are saved.
func (f *forecast) losses() (l state.Losses) {
	for _, e := range f.all {
		if e.counts {
			l.Of++
		}
		switch {
		case e.now == state.Included:
			l.Remain++
		case !e.counts || e.waits:
		case e.now == state.Held:
			l.Held++
		case e.now == state.Excluded:
			l.LeftOut++
		}
	}
	return l
}

// count sorts a record into one class.
func (p *Preview) count(e *foreseen) {
	p.Weight = p.Weight.Plus(e.weight)
	if e.link {
		p.Links++
	}
	switch {
	case e.inFlight:
		p.InFlight++
	case e.action == connector.ActionCreate:
		p.Creates++
	case e.action == connector.ActionAdopt:
		p.Adopts++
	case e.action == connector.ActionUpdate:
		p.Updates++
	case e.now == state.Excluded && e.reason == "":
		p.Excluded++
	case e.reason != "":
		p.Held++
	default:
		p.Unchanged++
	}
}

// compare records the decision's change of the earlier state.
func (f *forecast) compare(p *Preview, e *foreseen) {
	was := e.was == state.Included || e.was == state.Held
	switch {
	case e.inFlight:
	case !was && e.now == state.Included:
		f.name(&p.Included, e)
	case was && e.now == state.Excluded:
		f.name(&p.Dropped, e)
	case e.was == state.Held && e.now == state.Included:
		f.name(&p.Mended, e)
	}
	if e.rekeyed {
		f.name(&p.KeyChanges, e)
	}
	if e.group != nil {
		e.group.Count++
		e.group.SourceIDs = f.append(e.group.SourceIDs, e.sourceID)
	}
}

func (f *forecast) name(n *Named, e *foreseen) {
	n.Count++
	if e.linked {
		n.Linked++
	}
	n.SourceIDs = f.append(n.SourceIDs, e.sourceID)
}

// append adds an id while there is room for it.
func (f *forecast) append(ids []string, id string) []string {
	if f.limit > 0 && len(ids) >= f.limit {
		return ids
	}
	return append(ids, id)
}

// addFailure counts a record on hold. The first new one replaces the names of old ones.
func (f *forecast) addFailure(all map[connector.Reason]*Failure, e *foreseen) {
	failure := all[e.reason]
	if failure == nil {
		failure = &Failure{Reason: e.reason}
		all[e.reason] = failure
	}
	failure.Count++
	isNew := e.now != state.Included && e.was != e.now
	if isNew {
		if failure.New == 0 {
			failure.SourceIDs = nil
		}
		failure.New++
	}
	if isNew || failure.New == 0 {
		failure.SourceIDs = f.append(failure.SourceIDs, e.sourceID)
	}
}

func (f *forecast) fieldCounts() []FieldCount {
	counts := map[string]*FieldCount{}
	for _, g := range f.groups {
		for _, c := range g.Changes {
			field := counts[c.Path]
			if field == nil {
				field = &FieldCount{Path: c.Path}
				counts[c.Path] = field
			}
			field.Changed += g.Count
			if c.Manner == MannerEmptied {
				field.Emptied += g.Count
			}
		}
	}
	out := []FieldCount{}
	for _, field := range counts {
		if field.Changed > 0 {
			out = append(out, *field)
		}
	}
	slices.SortFunc(out, func(a, b FieldCount) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(a.Path, b.Path))
	})
	return out
}

func (f *forecast) largestGroups() []ChangeGroup {
	all := slices.SortedFunc(maps.Values(f.groups), func(a, b *changeGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.order, b.order))
	})
	out := []ChangeGroup{}
	for _, g := range all {
		if g.Count > 0 && (f.limit <= 0 || len(out) < f.limit) {
			out = append(out, g.ChangeGroup)
		}
	}
	return out
}

// addExamples adds the values: examples of groups and failures, the first emptied fields, and the first changed
// customers, or the requested customer.
func (f *forecast) addExamples(ctx context.Context, p *Preview, sourceID string) error {
	for i := range p.Groups {
		c, err := f.customer(ctx, p.Groups[i].SourceIDs[0])
		if err != nil {
			return err
		}
		p.Groups[i].Example = c.Diff
	}
	for i := range p.Failures {
		failure := &p.Failures[i]
		c, err := f.customer(ctx, failure.SourceIDs[0])
		if err != nil {
			return err
		}
		if failure.Detail = c.Detail; c.Reason != failure.Reason || c.Detail == "" {
			failure.Detail = failure.Reason.Sentence()
		}
	}
	if err := f.addBlanked(ctx, p); err != nil {
		return err
	}
	return f.addCustomers(ctx, p, sourceID)
}

func (f *forecast) addBlanked(ctx context.Context, p *Preview) error {
	p.Blanked = []BlankedField{}
	for _, e := range f.all {
		if e.group == nil || !e.group.empties() || f.full(len(p.Blanked)) {
			continue
		}
		c, err := f.customer(ctx, e.sourceID)
		if err != nil {
			return err
		}
		for _, d := range c.Diff {
			if d.From != "" && d.To == "" && !f.full(len(p.Blanked)) {
				p.Blanked = append(p.Blanked, BlankedField{e.sourceID, d.Path, d.From})
			}
		}
	}
	return nil
}

func (f *forecast) full(n int) bool { return f.limit > 0 && n >= f.limit }
