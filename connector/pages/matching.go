package pages

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

// finishMatching marks the matching of a connection as finished.
func (v *visit) finishMatching() error {
	connection := v.filled("connection")
	if !slices.Contains(v.pages.cfg.Connections, connection) {
		return noConnection
	}
	why, err := v.reason()
	if err != nil {
		return err
	}
	news, err := admin.FinishMatching(v.Context(), v.ledger(), connection,
		syncer.Operator{Name: v.User.Name, Reason: why})
	if err != nil {
		return err
	}
	note := fmt.Sprintf("Matching of %s is finished. Nothing was sent yet: the next run creates customers for payers without a match, within the limits.", connection)
	if !news {
		note = fmt.Sprintf("Matching of %s was finished before. Nothing was changed.", connection)
	}
	return v.done(note, "/matches")
}

// separateBooks notes the decision to treat two connections as two companies.
func (v *visit) separateBooks() error {
	connection, other := v.filled("connection"), v.filled("other")
	if !slices.Contains(v.pages.cfg.Connections, connection) {
		return noConnection
	}
	why, err := v.reason()
	if err != nil {
		return err
	}
	_, err = admin.SeparateConnections(v.Context(), v.ledger(), other, connection,
		syncer.Operator{Name: v.User.Name, Reason: why})
	switch {
	case errors.Is(err, state.ErrConnectionDecided):
		return problem{Status: http.StatusConflict, Title: "It is decided already",
			Sentence: "Somebody made another decision about these two connections. Nothing was changed.",
			Next:     "The audit log says who and why.", Path: "/audit"}
	case errors.Is(err, state.ErrNoConnection), errors.Is(err, state.ErrSameConnection):
		return noConnection
	case err != nil:
		return err
	}
	return v.done(fmt.Sprintf("%s and %s are two companies. Nothing was sent yet: the next run creates the customers, within the limits.", other, connection), "/matches")
}

var noConnection = problem{Status: http.StatusNotFound, Title: "There is no such connection",
	Sentence: "Nothing was changed.", Next: "Open the matches, and use one of the buttons there.", Path: "/matches"}
