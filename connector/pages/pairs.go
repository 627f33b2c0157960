package pages

import (
	"payersync/connector"
	"payersync/connector/office"
	"payersync/connector/syncer"
	"payersync/state"
)

// pairHalf is one of two records side by side.
type pairHalf struct {
	payerRow
	Books string
}

// pairHalves returns two records side by side.
func (v *visit) pairHalves(ids ...state.RecordID) (out []pairHalf, err error) {
	for _, id := range ids {
		rows, err := v.ledger().Records(v.Context(), state.RecordFilter{Among: []state.RecordID{id}, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			return nil, nil // somebody limited to connections sees one of them alone
		}
		half := pairHalf{v.payerRow(rows[0]), "In the accounting system"}
		facts, err := v.ledger().StandingOf(v.Context(), id)
		if err != nil {
			return nil, err
		}
		if facts != nil && facts.Left {
			half.Books = "Removed from the accounting system"
		}
		out = append(out, half)
	}
	return out, nil
}

// pair is a removed payer, beside the record possibly replacing it.
type pair struct {
	Halves []pairHalf
	Offers []offer
}

// pairsOf returns a payer's pairs, with the buttons to settle both halves.
func (v *visit) pairsOf(renumberings []state.Renumbering) (out []pair, err error) {
	for _, r := range renumberings {
		p := pair{}
		if p.Halves, err = v.pairHalves(r.Old, r.New); err != nil {
			return nil, err
		}
		if v.User.Role.May(Operator) && v.pages.cfg.Attention != nil && v.can(*deedFor(connector.ActTakeOver)) {
			for _, d := range []office.Decision{{Act: connector.ActTakeOver, Record: r.New, Other: r.Old}, {Act: connector.ActReject, Record: r.New, Customer: r.BillingID}} {
				if d.Act == connector.ActReject && d.Customer == "" {
					continue
				}
				p.Offers = append(p.Offers, offer{Label: deedFor(d.Act).label, At: pathOf(d), Asks: true, Primary: d.Act == connector.ActTakeOver, Act: d.Act, Reason: connector.ReasonRenumbered})
			}
			told, err := v.ledger().AttentionOf(v.Context(), r.Old.Connection, r.Old.SourceID)
			if err != nil {
				return nil, err
			}
			for _, t := range told {
				if syncer.Closable(connector.Reason(t.Reason)) {
					p.Offers = append(p.Offers, offer{Label: "Removed for good…", At: payerPath(r.Old) + "/" + deedFor(connector.ActClose).name, Asks: true, Act: connector.ActClose, Reason: connector.Reason(t.Reason)})
					break
				}
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// warnOfSuccessor warns before a payer's mandate is cancelled, or kept, if the payer may be there under a new
// number.
func (v *visit) warnOfSuccessor(a *asked, act connector.Act) error {
	if act != connector.ActCancel && act != connector.ActClose {
		return nil
	}
	for _, r := range a.Matter.Renumberings {
		if r.Old != a.id() {
			continue
		}
		halves, err := v.pairHalves(r.Old, r.New)
		if err != nil || len(halves) < 2 {
			return err
		}
		who := halves[1].Number + " " + halves[1].Name
		if act == connector.ActCancel {
			a.Warnings = append(a.Warnings, "The record "+who+" may be this payer under a new number. After the cancellation the payer has to sign a new mandate.")
		} else {
			a.Notes = append(a.Notes, "The record "+who+" is on hold: it gets no customer until you decide that the two are different payers.")
		}
		a.Instead = append(a.Instead, leads{pathOf(office.Decision{Act: connector.ActTakeOver, Record: r.New, Other: r.Old}), deedFor(connector.ActTakeOver).label})
	}
	if act == connector.ActClose && a.Live {
		a.Instead = append(a.Instead, leads{a.Path + "/" + deedFor(connector.ActCancel).name, deedFor(connector.ActCancel).label})
	}
	return nil
}
