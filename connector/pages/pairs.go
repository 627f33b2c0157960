package pages

import (
	"payersync/connector"
	"payersync/connector/admin"
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
		facts, err := v.ledger().ReadinessOf(v.Context(), id)
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
			for _, d := range []admin.Decision{{Act: connector.ActTakeOver, Record: r.New, Other: r.Old},
				{Act: connector.ActReject, Record: r.New, Customer: r.BillingID}} {
				if d.Act == connector.ActReject && d.Customer == "" {
					continue
				}
				p.Offers = append(p.Offers,
					offer{Label: admin.Acts[d.Act].Title + "…", At: pathOf(d), Asks: true, Primary: d.Act == connector.ActTakeOver,
						Act: d.Act, Reason: connector.ReasonRenumbered})
			}
			told, err := v.ledger().AttentionOf(v.Context(), r.Old.Connection, r.Old.SourceID)
			if err != nil {
				return nil, err
			}
			for _, t := range told {
				if syncer.Closable(connector.Reason(t.Reason)) {
					p.Offers = append(p.Offers,
						offer{Label: "Removed for good…", At: payerPath(r.Old) + "/" + deedFor(connector.ActClose).name, Asks: true,
							Act: connector.ActClose, Reason: connector.Reason(t.Reason)})
					break
				}
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// insteadOf returns the alternatives to the end of a payer that may be there under a new number.
func (v *visit) insteadOf(s shownPayer, act connector.Act) (out []leads) {
	for _, r := range s.Matter.Renumberings {
		if r.Old == s.id() {
			d := admin.Decision{Act: connector.ActTakeOver, Record: r.New, Other: r.Old}
			out = append(out, leads{pathOf(d), admin.Acts[d.Act].Title + "…"})
		}
	}
	if act == connector.ActClose && s.Live {
		d := deedFor(connector.ActCancel)
		out = append(out, leads{s.Path + "/" + d.name, d.facts().Title + "…"})
	}
	return out
}
