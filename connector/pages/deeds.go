package pages

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/connector/writeback"
	"payersync/state"
)

// deeds are a person's possible acts on one payer, in the order of the buttons.
var deeds = slices.Concat([]deed{
	{act: connector.ActRequest, name: "request", sends: true, asks: isCancelled, may: mayRequest},
	{act: connector.ActCancel, name: "cancel", sends: true, asks: always, may: func(s shownPayer) bool { return s.Live }},
	{act: connector.ActReinstate, name: "reinstate", label: "Bring the mandate back…", sends: true, asks: always,
		may: func(s shownPayer) bool { return s.Cancelled && !s.Facts.Left }},
	{act: connector.ActRetry, name: "retry", asks: never,
		may: func(s shownPayer) bool { return len(s.Attention) > 0 && !s.Facts.GivenUp && !s.Facts.Left }},
	{act: connector.ActClose, name: "close", label: "Leave as it is…", asks: always, may: mayClose},
	{act: connector.ActGiveUp, name: "hold", label: "Give up…", asks: always, may: mayGiveUp},
	{act: connector.ActTakeUp, name: "release", asks: always, may: func(s shownPayer) bool { return s.Facts.GivenUp }},
	{act: connector.ActStopLetters, name: "stop", label: "Stop reminders…", asks: always,
		may: func(s shownPayer) bool { return s.BillingID != "" && !s.Facts.Left && s.Stop == nil }},
	{act: connector.ActAllowLetters, name: "resume", asks: always, may: func(s shownPayer) bool { return s.Stop != nil }},
	{act: connector.ActResume, name: "revive", label: "The address works…", asks: always,
		may: func(s shownPayer) bool { return len(s.decisionsFor(connector.ActResume)) > 0 }},
	{act: connector.ActUndo, name: "undo", label: "Put back before our last update…", sends: true, asks: always,
		may: func(s shownPayer) bool { return s.Undo != 0 }},
	{act: connector.ActTakeField, name: "field", asks: always,
		may: func(s shownPayer) bool { return s.Field != nil && s.Field.Doing != writeback.Unknown }},
	{act: connector.ActAsk, name: "ask", asks: never,
		may: func(s shownPayer) bool { return s.mayBeAsked() && !s.isAsked() }},
	{act: connector.ActAskNot, name: "ask-not", asks: never,
		may: func(s shownPayer) bool { return s.mayBeAsked() && s.isAsked() }},
	{act: connector.ActAskByRule, name: "ask-rule", asks: never,
		may: func(s shownPayer) bool { return s.Asking.Decision != connector.AskByRule }},
}, decisions)

func always(shownPayer) bool { return true }
func never(shownPayer) bool  { return false }

func isCancelled(s shownPayer) bool { return s.Cancelled }

func mayRequest(s shownPayer) bool {
	return s.BillingID != "" && !s.Facts.Left && (!s.Live || s.Waits)
}

func mayClose(s shownPayer) bool {
	return slices.ContainsFunc(s.Attention,
		func(a state.AttentionRow) bool { return syncer.Closable(connector.Reason(a.Reason)) })
}

func mayGiveUp(s shownPayer) bool {
	return !s.Facts.GivenUp && !s.Facts.Left || len(s.decisionsFor(connector.ActGiveUp)) > 0
}

// notes describe the results of acts. Those of the others follow from what they send.
var notes = map[connector.Act]string{
	connector.ActRequest:      "payersync has the signing link. It was requested in your name.",
	connector.ActCancel:       "The mandate is cancelled. The payer can no longer be debited.",
	connector.ActRetry:        "The next run tries it again. Nothing was sent yet.",
	connector.ActClose:        "It stays as it is. Nothing was sent.",
	connector.ActGiveUp:       "The payer is given up. payersync sends nothing for it any more.",
	connector.ActTakeUp:       "The payer is no longer given up. The next run decides. Nothing was sent yet.",
	connector.ActStopLetters:  "payersync sends no letter to this payer any more.",
	connector.ActAllowLetters: "payersync sends letters to this payer again when they are due.",
	connector.ActResume:       "The next letter goes to this address when it is due. Nothing was sent yet.",
	connector.ActTakeField:    "Saved. The next run of the write-back writes to the field again. Nothing was written yet.",
	connector.ActUndo:         "Saved. The next run puts the customer back. Nothing was sent yet.",
	connector.ActAsk:          fmt.Sprintf(askingNotes[connector.ActAsk], "this payer"),
	connector.ActAskNot:       fmt.Sprintf(askingNotes[connector.ActAskNot], "this payer"),
	connector.ActAskByRule:    "The mapping decides about this payer again. Nothing was sent.",
}

// noteOf describes the result of an act.
func noteOf(v admin.Preview, out admin.ActResult) string {
	switch {
	case v.Act == connector.ActReinstate:
		return "The mandate is " + out.Mandate.Status.Label() + "."
	case v.Act == connector.ActRetry && !out.News:
		return "The next run already tries again. Nothing was sent."
	case notes[v.Act] != "":
		return notes[v.Act]
	case v.When == connector.SendsNothing:
		return "Saved. Nothing was sent."
	}
	return "Saved. The next run sends it. Nothing was sent yet."
}

// acts returns the acts for these pages.
func (v *visit) acts() *admin.Attention {
	acts := admin.Attention{Ledger: v.ledger()}
	if v.pages.cfg.Attention != nil {
		acts = *v.pages.cfg.Attention
	}
	acts.Mandates, acts.Deliveries, acts.Writebacks = v.pages.cfg.Mandates, v.pages.cfg.Deliveries, v.pages.cfg.Writebacks
	return &acts
}

// by returns the visitor, with a reason.
func (v *visit) by(reason string) admin.By {
	return admin.By{Operator: operator{Name: v.User.Name, Reason: reason}, Role: v.User.Role}
}

// decisionOf returns what an address or a form says about a deed. It returns errOpen if the person must still name the
// customer or the record.
func (v *visit) decisionOf(d deed, s shownPayer) (admin.Decision, error) {
	switch {
	case isDecision(d):
		return v.decisionAsked(d.act, s)
	case d.act != connector.ActUndo:
		return admin.Decision{Act: d.act, Record: s.id()}, nil
	case v.Method == "GET":
		return admin.Decision{Act: d.act, Record: s.id(), Change: s.Undo}, nil
	}
	change, err := strconv.ParseInt(v.filled("change"), 10, 64)
	if err != nil {
		err = changedMeanwhile
	}
	return admin.Decision{Act: d.act, Record: s.id(), Change: change}, err
}

// perform performs a deed as a person was shown it, and describes the result.
func (v *visit) perform(d deed, s shownPayer, reason string) (string, error) {
	of, err := v.decisionOf(d, s)
	switch {
	case errors.Is(err, errOpen):
		return "", errNothingDone("The form names no customer and no record.",
			"Go back, and name the customer or the record.")
	case err != nil:
		return "", err
	case d.act == connector.ActIgnore && len(of.Parts) == 0:
		return "", errNothingDone("No field was selected.", "Go back, and select the fields to leave to the billing service.")
	}
	p, err := v.acts().Propose(v.Context(), of)
	if err != nil {
		return "", err
	}
	shown := p.Preview()
	if isDecision(d) && v.PostForm.Get("seen") != fingerprint(of, shown) {
		return "", changedMeanwhile.at(s.Path)
	}
	out, err := p.Perform(v.Context(), v.by(reason))
	if errors.Is(err, admin.ErrNotBounced) || errors.Is(err, admin.ErrNotWrittenTo) {
		err = notAsItStands
	}
	return noteOf(shown, out), err
}
