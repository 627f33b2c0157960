package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

// failed is a link with a fetch error, for display.
type failed struct {
	Connection, SourceID, Path, Why string
}

// lostLinks shows the progress of the fetch, the result of the last one, and the links lost now. It offers to fetch
// them.
func (v *visit) lostLinks() error {
	lot := v.pages.cfg.Fetcher.Lot()
	content := struct {
		admin.Lot
		Working  bool
		Lost     int
		Hash     string
		Can      bool // fetch at all
		Each     bool // only one by one
		Same     bool // by the configuration, the same mandate returns
		Failures []failed
		More     int // unlisted failures
		Stopped  string
		Here     string
	}{Lot: lot, Working: lot.AtWork(), Can: v.pages.cfg.Mandates != nil, Here: v.with()}
	for _, f := range lot.Failures {
		content.Failures = append(content.Failures, failed{f.Connection, f.SourceID, payerPath(f.RecordID), f.Err.Error()})
	}
	content.More = lot.Failed - len(lot.Failures)
	if lot.Err != nil {
		content.Stopped = lot.Err.Error()
	}
	if acts := v.pages.cfg.Mandates; acts != nil && !content.Working {
		lost, err := acts.Find(v.Context(), admin.Links{})
		if err != nil {
			return err
		}
		content.Lost, content.Hash = len(lost), hashOfPayers(lost)
		content.Each, content.Same = acts.Asks(len(lost)) == admin.AskEach, acts.WhenCreated == "same"
	}
	return v.show("links", "Lost signing links", content)
}

// fetchLinks starts to fetch the links shown to the visitor as lost.
func (v *visit) fetchLinks() error {
	const title = "No signing link was requested"
	acts := v.pages.cfg.Mandates
	if acts == nil {
		return problem{Status: http.StatusConflict, Title: title,
			Sentence: "These pages were opened without the billing service.", Next: notHere}
	}
	if err := v.fresh(v.URL.Path); err != nil {
		return err
	}
	lost, err := acts.Find(v.Context(), admin.Links{})
	switch {
	case err != nil:
		return err
	case len(lost) == 0:
		return v.done("No signing link is lost, so payersync requested none.", "/mandates/links")
	case acts.Asks(len(lost)) == admin.AskEach:
		return problem{Status: http.StatusConflict, Title: title,
			Sentence: "A new request replaces the open mandate, so decide on each payer.",
			Next:     "Request the signing link on the page of each payer."}
	case hashOfPayers(lost) != v.filled("shown"):
		return problem{Status: http.StatusConflict, Title: title,
			Sentence: fmt.Sprintf("The list changed while you were reading it: now %s.", isLost(len(lost))),
			Next:     "Go back to the lost signing links, and look again."}
	}
	err = v.pages.cfg.Fetcher.Begin(acts,
		admin.Fetching{Payers: lost, Said: true, By: syncer.Operator{Name: v.User.Name}})
	switch {
	case errors.Is(err, admin.ErrAtWork):
		return problem{Status: http.StatusConflict, Title: title, Sentence: "payersync is already fetching signing links.",
			Next: "Go back to the lost signing links to see the progress."}
	case err != nil:
		return err
	}
	return v.done("Fetching "+connector.Plural(len(lost), "link")+".", "/mandates/links")
}

func isLost(n int) string {
	if n == 1 {
		return "1 signing link is lost"
	}
	return connector.Plural(n, "link") + " are lost"
}

// hashOfPayers identifies exactly these payers in a form.
func hashOfPayers(payers []state.Payer) string {
	ids := connector.Map(payers,
		func(p state.Payer) string { return p.Connection + "\x1f" + p.SourceID + "\x1f" + p.MandateID })
	sum := sha256.Sum256([]byte(strings.Join(ids, "\x1e")))
	return hex.EncodeToString(sum[:8])
}
