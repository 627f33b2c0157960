package pages

import (
	"strconv"
	"strings"
	"time"

	"payersync/connector"
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
}

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
	add := func(n int, thing, did, path string, last time.Time) {
		if n > 0 {
			words := number(n) + strings.TrimPrefix(connector.Plural(n, thing), strconv.Itoa(n)) + did
			r.Lines = append(r.Lines, happened{words, path, last})
		}
	}
	for _, m := range found.Mandates {
		if did, ok := becameWords[m.Status]; ok {
			add(m.Count, "mandate", did, "", since(m.Last))
		}
	}
	add(found.Created, "customer", " created", "", time.Time{})
	add(found.Linked, "customer", " linked", "", time.Time{})
	add(found.Updated, "customer", " updated", "", time.Time{})
	add(found.Asked, "signing link", " requested", "", time.Time{})
	add(found.Runs, "run", " finished", "/runs", time.Time{})
	return r, nil
}
