package state

import (
	"fmt"

	"payersync/connector"
)

// Reflection is what follows from an observation of a customer, by what is known: all that the ledger stores of it.
type Reflection struct {
	Otherwise bool // a list shows it otherwise than it is known; only that it was shown is stored

	Moved     connector.Key    // the payer's new key; zero for none
	Confirmed bool             // the customer carries the key, and the link is confirmed
	Young     bool             // the new customer may come to show the key
	Conflict  connector.Reason // why the customer may not be the payer's; "" for nothing

	Held      *SubjectValues // what it shows of our values; nil for nothing
	Financial string         // its financial status; "" for none

	Mandate  *connector.Mandate // the one to store; nil for none
	Changed  bool               // it has another status, or is another one
	Explains bool               // the write decides again on the mandate
	Unsigned bool               // it waits for a signature, and the ledger has never had its link

	News bool // a list shows a customer of ours otherwise than the last read, so no older read may override it
}

// Reflect stores what follows from an observation.
func (tx *Tx) Reflect(k *Known, r Reflection) error {
	if r.Otherwise {
		k.List.Add(k.CustomerID)
		return nil
	}
	err := tx.reflectIndex(k, r)
	if err == nil && k.Ours && !k.Stale {
		err = tx.reflectLink(k, r)
		if err == nil {
			err = tx.reflectHeld(k, r)
		}
		if err == nil {
			err = tx.reflectMandate(k, r)
		}
	}
	if err != nil {
		return fmt.Errorf("store what customer %s shows: %w", k.CustomerID, err)
	}
	return nil
}

// reflectIndex stores what concerns the index. Of a stale observation only the signing link is kept, because the answer
// may be the only copy.
func (tx *Tx) reflectIndex(k *Known, r Reflection) error {
	err := tx.saveShown(k)
	switch {
	case err != nil:
		return err
	case k.Stale && r.Mandate != nil:
		kept, err := tx.SaveLink(*r.Mandate)
		if kept {
			tx.Touch(k.Payer)
		}
		return err
	case !k.Ours && !k.Stale && k.Customer != nil:
		return tx.lookNextAt(k.entry.keys)
	}
	return nil
}

// reflectLink stores how the payer relates to the customer.
func (tx *Tx) reflectLink(k *Known, r Reflection) error {
	if r.Moved.Value != "" {
		if err := tx.Move(k.Payer, r.Moved); err != nil {
			return err
		}
	}
	switch {
	case r.Young:
		tx.Explain(k.Payer, TopicLink, connector.ReasonOutcomeUnknown,
			"The new customer exists but does not show this record's key yet. It is looked at again.")
	case r.Conflict != "":
		return tx.Hold(k.Payer, connector.LinkConflict, r.Conflict)
	case r.Confirmed:
		return tx.SetConfirmed(k.Payer)
	}
	return nil
}

// reflectHeld stores what the customer shows of our values, and its financial status.
func (tx *Tx) reflectHeld(k *Known, r Reflection) error {
	if r.Held != nil && k.Applied != nil {
		if err := tx.saveHeld(k, *r.Held); err != nil {
			return err
		}
	}
	if r.Held != nil && k.UnderWay {
		if err := tx.LookedAt(k.Payer, k.Ticket, r.Held.Applied); err != nil {
			return err
		}
	}
	return tx.saveFinancial(k, r)
}

// saveFinancial stores the financial status, or that it was shown again.
func (tx *Tx) saveFinancial(k *Known, r Reflection) error {
	switch {
	case r.Financial == "":
		return nil
	case r.Financial != k.Financial:
		return tx.SaveFinancial(k.CustomerID, r.Financial)
	case k.List != nil:
		k.List.statuses.Add(k.CustomerID)
		return nil
	}
	return tx.exec("UPDATE financial_statuses SET seen_at = ? WHERE billing_id = ?", stamp(tx.now), k.CustomerID)
}

// reflectMandate stores the mandate, and makes the write decide again on it. The next plan looks at a removed record if
// its mandate changed, to report a live mandate or one that waits for its signature.
func (tx *Tx) reflectMandate(k *Known, r Reflection) error {
	p, m := k.Payer, r.Mandate
	if r.News {
		if err := tx.exec(touched, k.Ticket, k.CustomerID, k.Ticket); err != nil {
			return err
		}
	}
	if m == nil {
		return nil
	}
	if m.ID == "" {
		tx.ShowMandate(p, m.Status)
	} else if err := tx.saveMandate(k, *m); err != nil {
		return err
	}
	if r.Changed {
		if err := tx.changeMandate(p, *m); err != nil {
			return err
		}
	}
	if r.Unsigned {
		if err := tx.LookNext(p); err != nil {
			return err
		}
	}
	if r.Explains {
		tx.Touch(p)
	}
	return nil
}

// changeMandate makes a mandate the payer's current one, with its new status: it gives up letters about another one.
func (tx *Tx) changeMandate(p Payer, m connector.Mandate) error {
	if p.MandateID != m.ID {
		if err := tx.SetMandate(p.Connection, p.SourceID, m.ID); err != nil {
			return err
		}
	}
	if err := tx.VoidLetters(p.Connection, p.SourceID); err != nil { // before anything else is known of it
		return err
	}
	return tx.exec("UPDATE source_records AS r SET rests = 1 WHERE r.connection = ? AND r.source_id = ? AND r.rests = 0 AND "+hasLeft, p.Connection, p.SourceID)
}
