package pages

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

// hiddenFrom stands for a value hidden from a role.
func hiddenFrom(value string) string {
	if value == "" {
		return ""
	}
	return "not shown to the role viewer"
}

// among returns the index of the record named by the address; -1 for none.
func (v *visit) among(all []admin.Likeness) int {
	id := state.RecordID{Connection: v.PathValue("connection"), SourceID: idOf(v.PathValue("id"))}
	return slices.IndexFunc(all, func(l admin.Likeness) bool { return l.RecordID == id })
}

// decidedMeanwhile means no record waits at the address.
func decidedMeanwhile(status int) problem {
	return problem{Status: status, Title: "This payer needs no decision",
		Sentence: "Somebody decided on it, or it changed meanwhile. Nothing was changed.",
		Next:     "The list of matches shows the open ones."}
}

// decideMatch stores a person's decision on a pair.
func (v *visit) decideMatch() error {
	by, err := v.operator()
	if err != nil {
		return err
	}
	if v.filled("act") == "back" {
		return v.takeMatchBack(by)
	}
	m, now, err := v.undecided()
	if err != nil {
		return err
	}
	all := now.Rows
	at := v.among(all)
	if at < 0 {
		return decidedMeanwhile(http.StatusConflict)
	}
	l, customer := all[at], v.filled("customer")
	next := "/matches"
	if at+1 < len(all) {
		next = matchPath(all[at+1].RecordID)
	} else if at > 0 {
		next = matchPath(all[0].RecordID)
	}
	if act := v.filled("act"); act != "later" &&
		!slices.ContainsFunc(l.Candidates, func(c state.MatchCandidate) bool { return c.BillingID == customer }) {
		return problem{Status: http.StatusConflict, Title: "The customer has changed",
			Sentence: "It was linked to another payer, or no longer matches this one. Nothing was changed.",
			Next:     "Open the payer in the list of matches again."}
	}
	if act := v.filled("act"); by.Reason == "" && (act == "same" || act == "not") {
		return v.matchWith(http.StatusUnprocessableEntity, "A reason is missing: the audit log keeps why somebody decided. Nothing was decided.")
	}
	v.keepReason(by.Reason)
	note := ""
	switch v.filled("act") {
	case "same":
		h, failed := m.Again(v.Context(), l.RecordID, customer)
		if err = failed; err == nil && v.PostForm.Get("seen") != seenOf(admin.AcceptedBy(l.RecordID, h)) {
			return v.matchWith(http.StatusConflict,
				"The customer or the record changed while you were reading. Nothing was decided.")
		}
		if err == nil {
			err = m.Link(v.Context(), l.RecordID, h, by)
		}
		note = "Linked. Nothing was sent yet: the next run writes the key on the customer, within its limits."
	case "not":
		err = m.Apart(v.Context(), l.RecordID, []string{customer}, by)
		note = "Rejected. Nothing was sent yet: the next run creates a new customer, unless there is another match."
	case "later":
		later := slices.DeleteFunc(v.kept(keyLater), func(p string) bool { return p == matchPath(l.RecordID) })
		later = append(later, matchPath(l.RecordID))
		v.pages.logins.Put(v.Context(), keyLater, strings.Join(later[max(0, len(later)-mostLater):], "\n"))
		return v.done("Moved to the end of the list until you sign out. Nothing was decided.", next)
	default:
		return problem{Status: http.StatusBadRequest, Title: "Nothing was decided", Sentence: "The form has no action.",
			Next: "Open the payer, and use one of its buttons."}
	}
	if err != nil {
		return notDecided(err)
	}
	v.pages.logins.Put(v.Context(), keyLastWord, strings.Join([]string{l.Connection, l.SourceID, customer}, "\x1f"))
	v.changed()
	return v.done(note, next)
}

// notDecided says why a word was not taken.
func notDecided(err error) error {
	p := problem{Status: http.StatusConflict, Title: "Nothing was decided", Next: "Open the list of matches again.",
		err: err}
	switch {
	case errors.Is(err, syncer.ErrCarriesAnother):
		p.Sentence = "The customer now has another payer's number."
	case errors.Is(err, state.ErrDecidedMeanwhile):
		p.Sentence = "Somebody else made another decision meanwhile. Their decision stands."
	case errors.Is(err, state.ErrLinkedAlready), errors.Is(err, state.ErrCustomerTaken), errors.Is(err, state.ErrAccepted):
		p.Sentence = "Somebody else linked the payer or the customer meanwhile."
	case errors.Is(err, state.ErrUnderWay):
		p.Sentence, p.Next = "A request for this payer has no answer yet.", "Try again in a quarter of an hour."
	case errors.Is(err, state.ErrNoPairDecision):
		p.Sentence = "It was already taken back, or already sent."
	case admin.NotHad(err):
		p.Sentence = "The payer or the customer has changed meanwhile."
	case state.Unwritable(err):
		return err
	default:
		p.Status, p.Sentence, p.Next = http.StatusServiceUnavailable,
			"payersync could not read the customer in the billing service, so it did not link it.", "Try again in a minute."
	}
	return p
}

// keepReason stores a reason for the next decisions, or drops the stored one.
func (v *visit) keepReason(reason string) {
	if v.filled("keep") == "" {
		reason = ""
	}
	v.pages.logins.Put(v.Context(), keyWhy, reason)
}

// lastWords returns the address of this login's last decision, "" for none.
func (v *visit) lastWords() string {
	if parts := strings.Split(v.pages.logins.GetString(v.Context(), keyLastWord), "\x1f"); len(parts) == 3 {
		return matchPath(state.RecordID{Connection: parts[0], SourceID: parts[1]})
	}
	return ""
}

// takeMatchBack takes back this login's last decision.
func (v *visit) takeMatchBack(by operator) error {
	m, err := v.matcher()
	if err != nil {
		return err
	}
	parts := strings.Split(v.pages.logins.GetString(v.Context(), keyLastWord), "\x1f")
	id := state.RecordID{Connection: v.PathValue("connection"), SourceID: idOf(v.PathValue("id"))}
	if len(parts) != 3 || id != (state.RecordID{Connection: parts[0], SourceID: parts[1]}) {
		return notDecided(state.ErrNoPairDecision)
	}
	left, err := m.TakeBack(v.Context(), []admin.Pair{{RecordID: id, BillingID: parts[2]}}, by)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return notDecided(left[0].Why)
	}
	v.pages.logins.Put(v.Context(), keyLastWord, "")
	return v.done("Taken back. Nothing was sent.", matchPath(id))
}

// likely lists all likely matches, to be ticked.
func (v *visit) likely() error {
	_, all, err := v.undecided()
	if err != nil {
		return err
	}
	rows := inGroup(all.Rows, admin.Likely)
	content := struct {
		First, Rest []matchRow // those after the first are folded away
		Count       int
		Pager       pager
	}{Count: len(rows)}
	some, next := v.cut(rows, mostTicked)
	content.Pager = v.page(next)
	if content.First, err = v.matchRows(some); err != nil {
		return err
	}
	if len(content.First) > rowsShown {
		content.First, content.Rest = content.First[:rowsShown], content.First[rowsShown:]
	}
	return v.show("likely", "Link the likely ones", content)
}

// mostTicked is how many are linked at once.
const mostTicked = 500

// linkLikely links the ticked and still likely matches, all of them or none.
func (v *visit) linkLikely() error {
	if err := v.fresh(v.URL.Path); err != nil {
		return err
	}
	reason, err := v.reason()
	if err != nil {
		return err
	}
	m, err := v.matcher()
	if err != nil {
		return err
	}
	all, err := m.Now(v.Context())
	if err != nil {
		return err
	}
	still := map[string]admin.Likeness{}
	for _, l := range all.Rows {
		if l.Group == admin.Likely {
			still[likelyID(l)] = l
		}
	}
	words := map[string][]admin.PairWord{}
	n := 0
	for _, id := range slices.Compact(slices.Sorted(slices.Values(v.Form["id"]))) {
		l, ok := still[id]
		if !ok {
			return problem{Status: http.StatusConflict, Title: "Nothing was linked",
				Sentence: "A selected match changed, or somebody decided on it.", Next: "Open the list again."}
		}
		n++
		words[l.Connection] = append(words[l.Connection],
			admin.PairWord{SourceID: l.SourceID, BillingID: l.Candidates[0].BillingID, Says: state.WordAccept})
	}
	if n == 0 {
		return errNothingDone("No payer was selected.", "Go back, select the payers, and try again.")
	}
	if typed, err := strconv.Atoi(v.filled("count")); err != nil || typed != n {
		return errNothingDone(fmt.Sprintf("The number that you typed is not the number of selected payers: %d.", n),
			"Go back, check the selection, and type the number.")
	}
	if err := m.SayAll(v.Context(), words, operator{Name: v.User.Name, Reason: reason}); err != nil {
		return notDecided(err)
	}
	v.changed()
	return v.done(fmt.Sprintf("%s linked. Nothing was sent yet: the next run writes the keys on the customers, within its limits. Until then you can take this back.", connector.Plural(n, "payer")), "/matches")
}
