package pages

import (
	"fmt"
	"net/http"
	"slices"

	"payersync/connector/office"
	"payersync/connector/syncer"
)

// finishMatching notes that matching of a connection is finished.
func (v *visit) finishMatching() error {
	connection := v.filled("connection")
	if !slices.Contains(v.pages.cfg.Connections, connection) {
		return problem{Status: http.StatusNotFound, Title: "There is no such connection", Sentence: "Nothing was changed.", Next: "Open the matches, and use one of the buttons there.", Path: "/matches"}
	}
	why, err := v.reason()
	if err != nil {
		return err
	}
	news, err := office.FinishMatching(v.Context(), v.ledger(), connection, syncer.Operator{Name: v.User.Name, Reason: why})
	if err != nil {
		return err
	}
	note := fmt.Sprintf("Matching of %s is finished. Nothing was sent yet: the next run creates the customers that nobody is, within the limits.", connection)
	if !news {
		note = fmt.Sprintf("Matching of %s was finished before. Nothing was changed.", connection)
	}
	return v.done(note, "/matches")
}
