package pages

import (
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/state"
)

// recently is what happened in the last 24 hours.
type recently struct {
	Since time.Time // the mandates are counted from here on; zero for the whole 24 hours
	Lines []happened
}

// happened is a line of it.
type happened struct {
	Words string
	Path  string    // "" for none
	Last  time.Time // zero for unknown
	Who   []payerName
	More  int // further payers; 0 where none is named
}

// namedRecently is how many payers a line names.
const namedRecently = 5

// becameWords tell what happened to a mandate that came to a status.
var becameWords = map[connector.MandateStatus]string{
	connector.MandateActive: " became active", connector.MandatePending: " signed", connector.MandateCancelled: " cancelled",
}

// recently returns what happened in the last 24 hours.
func (v *visit) recently() (r recently, err error) {
	from := v.pages.now().Add(-24 * time.Hour)
	found, err := v.ledger().Recent(v.Context(), from)
	if err != nil {
		return r, err
	}
	if at := since(found.Since); at.Sub(from) > time.Second {
		r.Since = at
	}
	labels, err := v.ledger().LabelsOf(v.Context(), firstRecent(found))
	add := func(n int, thing, did, path string, last time.Time, of []state.RecordID) {
		if n == 0 {
			return
		}
		words := number(n) + strings.TrimPrefix(connector.Plural(n, thing), strconv.Itoa(n)) + did
		line := happened{Words: words, Path: path, Last: last}
		for _, id := range of[:min(len(of), namedRecently)] {
			line.Who = append(line.Who, payerName{id.Connection, id.SourceID, labels[id].Name})
			line.More = max(n, len(of)) - len(line.Who)
		}
		r.Lines = append(r.Lines, line)
	}
	for _, m := range found.Mandates {
		if did, ok := becameWords[m.Status]; ok {
			add(m.Count, "mandate", did, "", since(m.Last), m.Of)
		}
	}
	add(found.Created, "customer", " created", "", time.Time{}, found.Of[connector.ActionCreate])
	add(found.Linked, "customer", " linked", "", time.Time{}, found.Of[connector.ActionAdopt])
	add(found.Updated, "customer", " updated", "", time.Time{}, found.Of[connector.ActionUpdate])
	add(found.Asked, "signing link", " requested", "", time.Time{}, found.Of[connector.ActionLink])
	add(found.Runs, "run", " finished", "/runs", time.Time{}, nil)
	return r, err
}

// firstRecent returns the payers that the lines name.
func firstRecent(found state.Recent) (ids []state.RecordID) {
	for _, of := range found.Of {
		ids = append(ids, of[:min(len(of), namedRecently)]...)
	}
	for _, m := range found.Mandates {
		ids = append(ids, m.Of[:min(len(m.Of), namedRecently)]...)
	}
	return ids
}
