package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/state"
)

// names are all labels of a ledger, folded, for searches. They are decrypted once and cached; each search first fetches
// new labels by number. For a single search, labels are scanned without a cache, and only the sort keys of results are
// kept.
type names struct {
	mu    sync.Mutex
	known int64    // the highest number of a fetched label
	all   []folded // by connection and source id

	ahead snapshot[struct{}] // the loading before the first search
}

// prepare begins to load the names in the background, unless they are there.
func (n *names) prepare(ctx context.Context, ledger *state.Ledger) {
	if n.ahead.kept() != nil {
		return
	}
	// a failure is left to the search
	_, _ = n.ahead.latest(ctx, -1, func(ctx context.Context) (*struct{}, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return &struct{}{}, n.fetch(ctx, ledger)
	})
}

// folded is a label as it is searched: without case and marks.
type folded struct {
	id   state.RecordID
	name string // a part of text
	text string // number, name, e-mail address and source id, a line each
}

// find returns the records with every word in their label; a blank text finds all. They come by name, unnamed ones
// last, or by connection and id. In the second case at most most of them are returned; 0 for all.
func (n *names) find(ctx context.Context, ledger *state.Ledger, text string, byName bool,
	most int) (out []state.RecordID, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.fetch(ctx, ledger); err != nil {
		return nil, err
	}
	words := strings.Fields(match.Fold(text))
	var found []*folded
	for i := range n.all {
		if n.all[i].holds(words) {
			if found = append(found, &n.all[i]); len(found) == most && !byName {
				break
			}
		}
	}
	return idsOf(found, byName), nil
}

// lookThrough is find without a cache.
func lookThrough(ctx context.Context, ledger *state.Ledger, text string, byName bool, most int) ([]state.RecordID,
	error) {
	var found []*folded
	words := strings.Fields(match.Fold(text))
	enough := errors.New("enough was found")
	err := ledger.EachLabelInOrder(ctx, func(r state.LabelRow) error {
		f := &folded{id: r.RecordID}
		if f.set(r.Label); f.holds(words) {
			f.text, f.name = "", strings.Clone(f.name)
			if found = append(found, f); len(found) == most && !byName {
				return enough
			}
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return idsOf(found, byName), err
}

// idsOf returns the ids of the matches, direct or by name.
func idsOf(found []*folded, byName bool) []state.RecordID {
	if byName {
		slices.SortStableFunc(found, func(a, b *folded) int {
			if a.name == "" || b.name == "" {
				return cmp.Compare(b.name, a.name)
			}
			return cmp.Compare(a.name, b.name)
		})
	}
	out := make([]state.RecordID, len(found))
	for i, f := range found {
		out[i] = f.id
	}
	return out
}

func (f *folded) holds(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(f.text, w) })
}

// fetch loads the labels created since the last search.
func (n *names) fetch(ctx context.Context, ledger *state.Ledger) error {
	before := len(n.all)
	if before == 0 {
		records, err := ledger.AllRecords(ctx)
		if err != nil {
			return err
		}
		n.all = make([]folded, 0, records) // to waste no memory
	}
	connection := "" // of the last one: it is kept once, and not for each
	err := ledger.EachLabel(ctx, n.known, func(r state.LabelRow) error {
		n.known = r.Made
		at, there := slices.BinarySearchFunc(n.all[:before], r.RecordID,
			func(f folded, id state.RecordID) int { return compare(f.id, id) })
		if !there {
			if connection == r.Connection {
				r.Connection = connection
			}
			connection = r.Connection
			at, n.all = len(n.all), append(n.all, folded{id: r.RecordID})
		}
		n.all[at].set(r.Label)
		return nil
	})
	if len(n.all) > before {
		slices.SortFunc(n.all, func(a, b folded) int { return compare(a.id, b.id) })
	}
	return err
}

func compare(a, b state.RecordID) int {
	if a.Connection != b.Connection {
		return cmp.Compare(a.Connection, b.Connection)
	}
	return cmp.Compare(a.SourceID, b.SourceID)
}

func (f *folded) set(l connector.Label) {
	number, name := match.Fold(l.Number), match.Fold(l.Name)
	f.text = strings.Join([]string{number, name, match.Fold(l.Email), match.Fold(f.id.SourceID)}, "\n")
	f.name = f.text[len(number)+1:][:len(name)]
}
