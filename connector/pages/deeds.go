package pages

import (
	"errors"
	"slices"
	"strconv"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/connector/office"
	"payersync/connector/syncer"
	"payersync/state"
)

// deeds are a person's possible acts on one payer, in the order of the buttons.
var deeds = slices.Concat(mandateDeeds(), attentionDeeds(), letterDeeds(), updateDeeds(), askingDeeds())

// mandateDeeds are the acts on the mandate.
func mandateDeeds() []deed {
	return []deed{
		{
			act: connector.ActRequest, name: "request", label: "Request a signing link", title: "Request a new mandate", sends: true,
			becomes: "The mandate was cancelled. payersync now requests a signing link for a new one. The payer must sign again, so agree on it first.",
			reason:  isCancelled, asks: isCancelled, may: mayRequest, do: forPayer(requestLink),
		},
		{
			act: connector.ActCancel, name: "cancel", label: "Cancel the mandate…", title: "Cancel the mandate", danger: true, sends: true,
			becomes: "The payer can no longer be debited. A new mandate needs a new signature. payersync never requests one by itself after a cancellation.",
			reason:  always, asks: always, may: func(s shownPayer) bool { return s.Live }, do: forPayer(cancelMandate),
		},
		{
			name: "reinstate", label: "Bring the mandate back…", title: "Bring the cancelled mandate back", sends: true,
			becomes: "The payer can be debited again, so ask the payer first. If the billing service cannot do this, nothing changes.",
			reason:  always, asks: always, may: func(s shownPayer) bool { return s.Cancelled && !s.Facts.Left }, do: forPayer(reinstateMandate),
		},
	}
}

// attentionDeeds are the acts on findings.
func attentionDeeds() []deed {
	return []deed{
		{
			act: connector.ActRetry, name: "retry", label: "Try again", reason: never, asks: never, do: retryRecord,
			may: func(s shownPayer) bool { return len(s.Attention) > 0 && !s.Facts.GivenUp && !s.Facts.Left },
		},
		{
			act: connector.ActClose, name: "close", label: "Leave as it is…", title: "Leave it as it is",
			becomes: "Nothing is sent, and the mandate stays as it is. A new finding appears when it changes.",
			reason:  always, asks: always, may: mayClose, do: closeAttention,
		},
		{
			act: connector.ActGiveUp, name: "hold", label: "Give up…", title: "Give the payer up",
			becomes: "payersync sends nothing for this payer any more. Its customer and mandate stay as they are. You can take this back.",
			reason:  always, asks: always, may: mayGiveUp, do: giveUpRecord,
		},
		{
			act: connector.ActTakeUp, name: "release", label: "Undo giving up…", title: "Undo giving up",
			becomes: "The next run treats this payer like any other, and sends the changes of its plan. Nothing is sent now.",
			reason:  always, asks: always, may: func(s shownPayer) bool { return s.Facts.GivenUp }, do: takeUpRecord,
		},
	}
}

// letterDeeds are the acts on letters to the payer.
func letterDeeds() []deed {
	return []deed{
		{
			name: "stop", label: "Stop reminders…", title: "Stop reminders to this payer",
			becomes: "payersync sends no letter to this payer until somebody takes that back. The mandate and the signing link stay as they are.",
			reason:  never, asks: always, do: stopLetters,
			may: func(s shownPayer) bool { return s.BillingID != "" && !s.Facts.Left && s.Stop == nil },
		},
		{
			name: "resume", label: "Allow reminders again…", title: "Allow reminders again",
			becomes: "Removes every stop of letters to this payer: by a person, by the payer, or because letters came back.",
			reason:  never, asks: always, may: func(s shownPayer) bool { return s.Stop != nil }, do: resumeLetters,
		},
		{
			act: connector.ActResume, name: "revive", label: "The address works…", title: "Send to the address again",
			becomes: "The next letter goes to this address when it is due. Nothing is sent now.",
			reason:  always, asks: always, may: func(s shownPayer) bool { return len(s.decisionsFor(connector.ActResume)) > 0 }, do: reviveAddress,
		},
	}
}

// updateDeeds are the acts on values written to the customer.
func updateDeeds() []deed {
	return []deed{{
		name: "undo", label: "Put back before our last update…", title: "Put it back before our last update", sends: true,
		becomes: "The next run sends it, within the limits for plans. Nothing is sent now.",
		reason:  always, asks: always, may: func(s shownPayer) bool { return s.Undo != 0 }, do: forPayer(undoUpdate),
	}}
}

func always(shownPayer) bool { return true }
func never(shownPayer) bool  { return false }

func isCancelled(s shownPayer) bool { return s.Cancelled }

func mayRequest(s shownPayer) bool {
	return s.BillingID != "" && !s.Facts.Left && (!s.Live || s.Waits)
}

func mayClose(s shownPayer) bool {
	return slices.ContainsFunc(s.Attention, func(a state.AttentionRow) bool { return syncer.Closable(connector.Reason(a.Reason)) })
}

func mayGiveUp(s shownPayer) bool {
	return !s.Facts.GivenUp && !s.Facts.Left || len(s.decisionsFor(connector.ActGiveUp)) > 0
}

func requestLink(v *visit, p state.Payer, by operator) (string, error) {
	_, err := v.pages.cfg.Mandates.Request(v.Context(), p, by)
	return "payersync has the signing link. It was requested in your name.", err
}

func cancelMandate(v *visit, p state.Payer, by operator) (string, error) {
	return "The mandate is cancelled. The payer can no longer be debited.", v.pages.cfg.Mandates.Cancel(v.Context(), p, by)
}

func reinstateMandate(v *visit, p state.Payer, by operator) (string, error) {
	status, err := v.pages.cfg.Mandates.Reinstate(v.Context(), p, by)
	return "The mandate is " + status.Label() + ".", err
}

func retryRecord(v *visit, s shownPayer, by operator) (string, error) {
	news, err := v.pages.cfg.Attention.Retry(v.Context(), []string{s.Connection}, s.SourceID, by)
	if !news {
		return "The next run already tries again. Nothing was sent.", err
	}
	return "The next run tries it again. Nothing was sent yet.", err
}

func closeAttention(v *visit, s shownPayer, by operator) (string, error) {
	return "It stays as it is. Nothing was sent.", v.pages.cfg.Attention.Close(v.Context(), s.id(), by).Err
}

func giveUpRecord(v *visit, s shownPayer, by operator) (string, error) {
	return "The payer is given up. payersync sends nothing for it any more.", wordOn(s, func(ids []state.RecordID, told func(office.Word) error) error {
		return v.pages.cfg.Attention.GiveUp(v.Context(), ids, by, told)
	})
}

func takeUpRecord(v *visit, s shownPayer, by operator) (string, error) {
	return "The payer is no longer given up. The next run decides. Nothing was sent yet.", wordOn(s, func(ids []state.RecordID, told func(office.Word) error) error {
		return v.pages.cfg.Attention.TakeUp(v.Context(), ids, by, told)
	})
}

func stopLetters(v *visit, s shownPayer, by operator) (string, error) {
	return "payersync sends no letter to this payer any more.", letterDesk(v).Stop(v.Context(), s.id(), "", letters.Day{}, entryOf(by, "stop letters", s.id()))
}

func resumeLetters(v *visit, s shownPayer, by operator) (string, error) {
	_, err := letterDesk(v).Unstop(v.Context(), s.id(), "", entryOf(by, "let letters go again", s.id()))
	return "payersync sends letters to this payer again when they are due.", err
}

func reviveAddress(v *visit, s shownPayer, by operator) (string, error) {
	err := (&office.Bounces{Ledger: v.ledger()}).ReviveRecord(v.Context(), s.id(), by)
	if errors.Is(err, office.ErrNotBounced) || errors.Is(err, office.ErrNotWrittenTo) {
		return "", notAsItStands
	}
	return "The next letter goes to this address when it is due. Nothing was sent yet.", err
}

func undoUpdate(v *visit, p state.Payer, by operator) (string, error) {
	change, err := strconv.ParseInt(v.filled("change"), 10, 64)
	if err != nil {
		return "", changedMeanwhile
	}
	u, err := v.pages.cfg.Attention.UndoOf(v.Context(), p, change)
	if err != nil {
		return "", err
	}
	return "Saved. The next run puts the customer back. Nothing was sent yet.", v.pages.cfg.Attention.Syncer.SayUndo(v.Context(), u, by)
}

// forPayer returns a function that acts on the present payer of a record.
func forPayer(do func(*visit, state.Payer, operator) (string, error)) func(*visit, shownPayer, operator) (string, error) {
	return func(v *visit, s shownPayer, by operator) (string, error) {
		p, err := v.ledger().Payer(v.Context(), s.Connection, s.SourceID)
		if err != nil {
			return "", err
		}
		return do(v, p, by)
	}
}

// wordOn says a word on one payer, and returns why it was not noted.
func wordOn(s shownPayer, say func([]state.RecordID, func(office.Word) error) error) error {
	return say([]state.RecordID{s.id()}, func(w office.Word) error { return w.Err })
}

// letterDesk stops letters to one payer, independent of their sender.
func letterDesk(v *visit) *letters.Desk { return &letters.Desk{Ledger: v.ledger()} }

func entryOf(by operator, action string, id state.RecordID) state.Entry {
	return state.Entry{Actor: by.Name, Action: action, Subject: id.Connection + "/" + id.SourceID, Reason: by.Reason}
}
