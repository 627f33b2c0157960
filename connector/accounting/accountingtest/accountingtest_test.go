package accountingtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

const fakePage = 4

// fake is an accounting system in memory. Its flaw breaks one promise of its
// source.
type fake struct {
	flaw      string
	snapshot  bool
	customers []connector.Record
	now       time.Time
	spoilt    map[string]bool
	broken    bool
	held      int
	added     int
	reads     int
	release   chan struct{} // ends the goroutines that the flaw "goroutine" leaks
	after     func()        // called behind every page
	trouble   string        // what the system suffers from now
}

func (f *fake) Describe(context.Context) (connector.SourceInfo, error) {
	f.reads++
	info := connector.SourceInfo{Kind: "fake", Snapshot: f.snapshot, Fields: []connector.Field{
		{Name: "name", Type: connector.TypeText},
		{Name: "active", Type: connector.TypeFlag},
		{Name: "limit", Type: connector.TypeNumber},
		{Name: "address", Type: connector.TypeObject, Fields: []connector.Field{{Name: "city", Type: connector.TypeText}}},
		{Name: "phones", Type: connector.TypeList, Fields: []connector.Field{{Name: "number", Type: connector.TypeText}}},
		{Name: "tags", Type: connector.TypeList},
	}}
	switch f.flaw {
	case "description fails":
		return info, errors.New("no description")
	case "description changes":
		info.Fields[0].Description = fmt.Sprint("read ", f.reads)
	case "kind blank":
		info.Kind = ""
	case "field twice":
		info.Fields[1].Name = "Name"
	case "field type unknown":
		info.Fields[1].Type = "boolean"
	case "object without fields":
		info.Fields[3].Fields = nil
	case "field undeclared":
		info.Fields = info.Fields[1:]
	case "number as flag":
		info.Fields[2].Type = connector.TypeFlag
	case "object as list":
		info.Fields[3].Type = connector.TypeList
	case "list of texts as list of objects":
		info.Fields[5].Fields = info.Fields[4].Fields
	}
	return info, nil
}

func (f *fake) Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		f.held++
		if f.flaw != "file held" {
			defer func() { f.held-- }()
		}
		if f.flaw == "goroutine" {
			go func() { <-f.release }()
		}
		f.reads++
		f.pages(ctx, since, yield)
	}
}

func (f *fake) pages(ctx context.Context, since time.Time, yield func(connector.Page, error) bool) {
	last := ""
	for given := 0; ; given++ {
		records := f.page(since, given, last)
		if len(records) == 0 {
			return
		}
		last = records[len(records)-1].SourceID
		if given > 0 && f.troubled(yield) {
			return
		}
		if f.broken && given > 0 && f.flaw != "failure hidden" {
			more := yield(connector.Page{}, errors.New("the system failed"))
			if f.flaw != "goes on after error" || !more {
				return
			}
		}
		if f.broken && f.flaw == "failure hidden" && given > 0 {
			return
		}
		if err := ctx.Err(); err != nil {
			switch f.flaw {
			case "context ignored":
			case "context noticed late":
				time.Sleep(time.Hour)
				yield(connector.Page{}, err)
				return
			case "context forgotten":
				yield(connector.Page{}, errors.New("stopped"))
				return
			case "context hidden":
				return
			default:
				yield(connector.Page{}, err)
				return
			}
		}
		if !yield(connector.Page{Records: records}, nil) {
			return
		}
		if f.after != nil {
			f.after()
		}
	}
}

// page returns the system's present page: the records behind the last id. The flaws of naive readers use the
// position, or the time of last edit.
func (f *fake) page(since time.Time, n int, last string) []connector.Record {
	all := f.answer(since)
	from := n * fakePage
	switch f.flaw {
	case "order of edits":
		slices.SortStableFunc(all, func(a, b connector.Record) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	case "pages by position", "id twice", "id blank", "record given twice":
	default:
		from = len(all)
		if at := slices.IndexFunc(all, func(r connector.Record) bool { return r.SourceID > last }); at >= 0 {
			from = at
		}
	}
	return all[min(from, len(all)):min(from+fakePage, len(all))]
}

// troubled ends a read as the system's trouble demands and reports whether it
// did.
func (f *fake) troubled(yield func(connector.Page, error) bool) bool {
	switch {
	case f.trouble == "", f.trouble == "token expired" && f.flaw != "token not renewed":
		return false
	case f.trouble == "limit reached" && f.flaw == "trouble hidden":
		return true
	case f.trouble == "limit reached" && f.flaw == "trouble survived by half":
		f.customers = f.customers[1:]
		return false
	}
	var ending error = &accounting.Parked{Until: f.now.Add(time.Hour)}
	if f.flaw == "trouble of another kind" {
		ending = &accounting.Disconnected{Reason: f.trouble}
	}
	more := yield(connector.Page{}, ending)
	return f.flaw != "goes on after trouble" || !more
}

func (f *fake) suffer(trouble string) func() func() {
	return func() func() {
		f.trouble = trouble
		return func() { f.trouble = "" }
	}
}

// answer returns the records of a read, with the flaw's fault in them.
func (f *fake) answer(since time.Time) []connector.Record {
	var out []connector.Record
	for i, r := range f.customers {
		old := !f.snapshot && r.UpdatedAt.Before(since) || f.flaw == "since obeyed" && f.now.Before(since)
		switch {
		case old, f.flaw == "record missing" && i == 3, f.flaw == "edit missed" && strings.Contains(string(r.Data), "edited"),
			f.flaw == "addition missed" && i == 5, f.flaw == "change unseen" && r.State != connector.RecordActive,
			f.flaw == "erased left out" && string(r.Data) == "{}":
			continue
		}
		out = append(out, f.flawed(i, r))
		if f.flaw == "id twice" && i == 2 || f.flaw == "record given twice" && i == 2 {
			out = append(out, r)
		}
	}
	return out
}

func (f *fake) flawed(i int, r connector.Record) connector.Record {
	if f.spoilt[r.SourceID] {
		switch f.flaw {
		case "bad record hidden":
		case "bad record loses its neighbour":
			f.broken = true
		default:
			r.Problem, r.Data = "The record cannot be read.", json.RawMessage("{}")
		}
	}
	if len(f.spoilt) > 0 && f.flaw == "bad record spreads" {
		r.Problem = "The record cannot be read."
	}
	switch {
	case f.flaw == "id blank" && i == 1:
		r.SourceID = " "
	case f.flaw == "state unknown" && i == 1:
		r.State = "inactive"
	case f.flaw == "archived as active":
		r.State = connector.RecordActive
	case f.flaw == "survivor forgotten":
		r.MergedInto = ""
	case f.flaw == "data differs between reads":
		r.Data = json.RawMessage(fmt.Sprintf(`{"name":"read %d"}`, f.reads))
	case f.flaw == "data is a list" && i == 1:
		r.Data = json.RawMessage(`[]`)
	case f.flaw == "field twice in data" && i == 1:
		r.Data = json.RawMessage(`{"name":"a","name":"b"}`)
	case f.flaw == "text behind data" && i == 1:
		r.Data = json.RawMessage(`{"name":"a"} {}`)
	case f.flaw == "invented record" && f.broken && i == 1:
		r.SourceID = "nobody"
	}
	return r
}

func (f *fake) add() string {
	id := fmt.Sprintf("c%03d", f.added)
	f.added++
	data := fmt.Sprintf(`{"name":"Customer %s","active":true,"limit":1e3,"address":{"city":"Whitby"},"phones":[{"number":"1"}],"tags":["a",null]}`, id)
	f.customers = append(f.customers,
		connector.Record{SourceID: id, State: connector.RecordActive, UpdatedAt: f.now, Data: json.RawMessage(data)})
	return id
}

func (f *fake) at(id string, change func(r *connector.Record)) {
	f.now = f.now.Add(time.Minute)
	i := slices.IndexFunc(f.customers, func(r connector.Record) bool { return r.SourceID == id })
	change(&f.customers[i])
	f.customers[i].UpdatedAt = f.now
}

func (f *fake) edit(id string) {
	f.at(id, func(r *connector.Record) {
		r.Data = json.RawMessage(fmt.Sprintf(`{"name":"edited at %d"}`, f.now.Unix()))
	})
}

func (f *fake) state(id string, s connector.RecordState) {
	f.at(id, func(r *connector.Record) { r.State = s })
}

func (f *fake) truth() []connector.Record {
	return slices.DeleteFunc(slices.Clone(f.customers), func(r connector.Record) bool { return f.spoilt[r.SourceID] })
}

func (f *fake) company(n int) Company {
	f.now = time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)
	f.spoilt = map[string]bool{}
	for range n {
		f.add()
	}
	c := Company{
		Source: f, Truth: f.truth, Add: f.add, Edit: f.edit,
		Spoil: func(id string) { f.spoilt[id] = true },
		Break: func() func() { f.broken = true; return func() { f.broken = false } },
		Held:  func() int { return f.held },
		Now:   func() time.Time { return f.now },
	}
	if f.snapshot {
		return c
	}
	c.Archive = func(id string) { f.state(id, connector.RecordArchived) }
	c.Delete = func(id string) { f.state(id, connector.RecordDeleted) }
	c.Merge = func(loser, survivor string) {
		f.at(loser, func(r *connector.Record) { r.State, r.MergedInto = connector.RecordMerged, survivor })
	}
	c.Serve = func(after func()) { f.after = after }
	c.Leave = func(id string) {
		f.customers = slices.DeleteFunc(f.customers, func(r connector.Record) bool { return r.SourceID == id })
	}
	c.Tie = func([]string) {
		for i := range f.customers {
			f.customers[i].UpdatedAt = f.now
		}
	}
	c.Erase = func(id string) { f.at(id, func(r *connector.Record) { r.Data = json.RawMessage("{}") }) }
	c.Pass = func(d time.Duration) { f.now = f.now.Add(d) }
	c.Troubles = []Trouble{
		{Name: "token expired", Begin: f.suffer("token expired"), Ends: Complete},
		{Name: "limit reached", Begin: f.suffer("limit reached"), Ends: Parked},
	}
	return c
}

const fakeMany = 5*fakePage + 1

func TestSoundSnapshotSourcePasses(t *testing.T) {
	Run(t, Harness{Many: fakeMany, Open: func(_ testing.TB, n int) Company { return (&fake{snapshot: true}).company(n) }})
}

func TestSoundIncrementalSourcePasses(t *testing.T) {
	Run(t, Harness{Many: fakeMany, Open: func(_ testing.TB, n int) Company { return (&fake{}).company(n) }})
}

// TestEveryCheckFailsForASourceThatBreaksItsPromise proves that the suite can
// fail: each check has flaws of its own, and none passes them.
func TestEveryCheckFailsForASourceThatBreaksItsPromise(t *testing.T) {
	const both, snapshot, incremental = "both", "snapshot", "incremental"
	flaws := []struct{ check, flaw, kind string }{
		{"description is stable and well formed", "description fails", both},
		{"description is stable and well formed", "description changes", both},
		{"description is stable and well formed", "kind blank", both},
		{"description is stable and well formed", "field twice", both},
		{"description is stable and well formed", "field type unknown", both},
		{"description is stable and well formed", "object without fields", both},
		{"data holds declared fields of declared types", "field undeclared", both},
		{"data holds declared fields of declared types", "number as flag", both},
		{"data holds declared fields of declared types", "object as list", both},
		{"data holds declared fields of declared types", "list of texts as list of objects", both},
		{"data holds declared fields of declared types", "data is a list", both},
		{"data holds declared fields of declared types", "field twice in data", both},
		{"data holds declared fields of declared types", "text behind data", both},
		{"ids identify", "id blank", both},
		{"ids identify", "id twice", snapshot},
		{"complete read equals the truth", "record missing", both},
		{"complete read equals the truth", "state unknown", both},
		{"snapshot ignores since", "since obeyed", snapshot},
		{"edit is seen by the next read", "edit missed", both},
		{"edit is seen by the next read", "data differs between reads", both},
		{"added customer is seen by the next read", "addition missed", both},
		{"archived customer is reported", "archived as active", incremental},
		{"archived customer is reported", "change unseen", incremental},
		{"deleted customer is reported", "change unseen", incremental},
		{"merged customer names its survivor", "survivor forgotten", incremental},
		{"unchanged record hashes alike", "data differs between reads", both},
		{"bad record stops nobody else", "bad record hidden", both},
		{"bad record stops nobody else", "bad record loses its neighbour", both},
		{"bad record stops nobody else", "bad record spreads", both},
		{"failed read is not complete", "failure hidden", both},
		{"failed read is not complete", "goes on after error", both},
		{"failed read is not complete", "invented record", both},
		{"cancelled context ends the read", "context ignored", both},
		{"cancelled context ends the read", "context forgotten", both},
		{"cancelled context ends the read", "context hidden", both},
		{"cancelled context ends the read", "context noticed late", both},
		{"consumer that stops early leaks nothing", "file held", both},
		{"consumer that stops early leaks nothing", "goroutine", both},
		{"reads between changes end at a full dump", "edit missed", both},
		{"reads between changes end at a full dump", "change unseen", incremental},
		{"edits under the read lose nothing", "order of edits", incremental},
		{"edits under the read lose nothing", "record missing", incremental},
		{"changes under the reads end at a full dump", "order of edits", incremental},
		{"changes under the reads end at a full dump", "change unseen", incremental},
		{"customers that leave under the read hide nobody", "pages by position", incremental},
		{"customers that leave under the read hide nobody", "record given twice", incremental},
		{"erased customer is seen by the next full read", "erased left out", incremental},
		{"trouble is overcome or reported as what it is", "token not renewed", incremental},
		{"trouble is overcome or reported as what it is", "trouble hidden", incremental},
		{"trouble is overcome or reported as what it is", "trouble of another kind", incremental},
		{"trouble is overcome or reported as what it is", "trouble survived by half", incremental},
		{"trouble is overcome or reported as what it is", "goes on after trouble", incremental},
	}
	shown := map[string]bool{}
	for _, tt := range flaws {
		for _, kind := range []string{snapshot, incremental} {
			if tt.kind != both && tt.kind != kind {
				continue
			}
			shown[tt.check] = true
			t.Run(tt.check+"/"+tt.flaw+"/"+kind, func(t *testing.T) {
				f := &fake{flaw: tt.flaw, snapshot: kind == snapshot, release: make(chan struct{})}
				err := outcome(t, tt.check, f)
				close(f.release)
				if err == nil {
					t.Errorf("the check passed a source with the flaw %q", tt.flaw)
				}
			})
		}
	}
	for _, c := range checks {
		if !shown[c.name] {
			t.Errorf("no flaw shows that the check %q can fail", c.name)
		}
	}
}

// outcome runs one check on f. The flaw that sleeps gets a clock of its own.
func outcome(t *testing.T, name string, f *fake) (err error) {
	t.Helper()
	i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no check %q", name)
	}
	run := func(t *testing.T) {
		err = checks[i].run(t.Context(), f.company(Harness{Many: fakeMany}.size(checks[i])))
	}
	if f.flaw != "context noticed late" {
		run(t)
		return err
	}
	synctest.Test(t, run)
	return err
}

func TestChecksOfActsThatTheSystemLacksAreLeftOut(t *testing.T) {
	t.Parallel()
	snapshot := (&fake{snapshot: true}).company(1)
	var lacking []string
	for _, c := range checks {
		if c.lacks == nil {
			continue
		}
		if act := c.lacks(t.Context(), snapshot); act != "" {
			lacking = append(lacking, act)
		}
	}
	want := []string{"archive customers", "report deleted customers", "merge customers",
		"change under a read", "change under a read", "lose customers under a read", "erase customers",
		"be in trouble on demand"}
	if !slices.Equal(lacking, want) {
		t.Errorf("left out %q, want %q", lacking, want)
	}
}
