package syncer

import (
	"context"

	"payersync/connector"
	"payersync/state"
)

// PreviewOptions set the details of a preview.
type PreviewOptions struct {
	Limit    int            // customers told field by field, and the most ids and groups named; 0 for all
	SourceID string         // tells of this record alone field by field; "" for the first that change
	First    int            // looks at so many records alone, the first by their ids; 0 for all
	Progress func(done int) // told how many were decided on; nil for nobody
}

// Preview is the next plan with the connection's mapping if the accounting system had not changed since it
// was last read. Creates to InFlight sort every record once. Values are personal: what is shown of them is
// the caller's decision.
type Preview struct {
	Connection string `json:"connection"`
	Mapping    string `json:"mapping_version"`
	Records    int    `json:"records"`
	Linked     int    `json:"linked"` // linked payers now: the base of the guards

	Creates   int `json:"creates"`
	Adopts    int `json:"adopts"`
	Updates   int `json:"updates"`
	Unchanged int `json:"unchanged"`
	Excluded  int `json:"excluded"`
	Held      int `json:"held"`
	InFlight  int `json:"in_flight"` // sent without a definite answer: their bytes come first
	Links     int `json:"links"`     // signing links to request

	NotAsked []state.UnaskedCount `json:"-"` // payers without a mandate that the mapping does not ask for one, by reason

	Weight state.Weight `json:"-"`
	Limits string       `json:"limits"` // the guards that would stop it, in words; "" for none

	Stops []state.CreateStop `json:"create_stops,omitempty"` // why its creates would wait, as the last plan noted it

	Fields     []FieldCount      `json:"fields"`      // of existing customers, most changed first
	Blanked    []BlankedField    `json:"blanked"`     // the first emptied fields
	Groups     []ChangeGroup     `json:"groups"`      // equal changes of existing customers, largest first
	Included   Named             `json:"included"`    // newly included records
	Dropped    Named             `json:"dropped"`     // newly excluded payers
	Mended     Named             `json:"mended"`      // records no longer on hold
	Failures   []Failure         `json:"failures"`    // reasons of records on hold, most first
	KeyChanges Named             `json:"key_changes"` // payers with a changed key
	Customers  []CustomerPreview `json:"customers"`
}

// FieldCount is the number of existing customers with a change of a field.
type FieldCount struct {
	Path    string `json:"path"`
	Changed int    `json:"changed"`
	Emptied int    `json:"emptied"` // of those
}

// BlankedField is a field about to be emptied.
type BlankedField struct {
	SourceID string `json:"source_id"`
	Path     string `json:"path"`
	From     string `json:"from"`
}

// ChangeGroup is a set of existing customers with the same kind of change to the same fields.
type ChangeGroup struct {
	Changes   []FieldManner           `json:"changes"`
	Count     int                     `json:"count"`
	SourceIDs []string                `json:"source_ids"` // the first of them
	Example   []connector.FieldChange `json:"example"`    // the changes of the first one
}

// FieldManner is a field and how it would change.
type FieldManner struct {
	Path   string `json:"path"`
	Manner Manner `json:"manner"`
}

// Manner says how a value would change.
type Manner string

// The manners.
const (
	MannerFilled  Manner = "filled in"
	MannerEmptied Manner = "emptied"
	MannerCase    Manner = "only upper and lower case"
	MannerSpaces  Manner = "only spaces"
	MannerChanged Manner = "changed"
)

// Named counts records and names the first of them.
type Named struct {
	Count     int      `json:"count"`
	Linked    int      `json:"linked"` // of those, the ones with a customer
	SourceIDs []string `json:"source_ids"`
}

// Failure is a reason for records on hold, with their number.
type Failure struct {
	Reason    connector.Reason `json:"reason"`
	Count     int              `json:"count"`
	New       int              `json:"new"`        // of those, the newly held ones
	SourceIDs []string         `json:"source_ids"` // the first of them; only new ones if there are any
	Detail    string           `json:"detail"`     // in words, for the very first
}

// CustomerPreview is the planned change for one record.
type CustomerPreview struct {
	SourceID  string           `json:"source_id"`
	Key       connector.Key    `json:"key"`
	Verdict   state.Verdict    `json:"verdict"`
	Action    connector.Action `json:"action,omitempty"`
	BillingID string           `json:"billing_id,omitempty"`
	Link      bool             `json:"link"` // a signing link would be asked for
	Reason    connector.Reason `json:"reason,omitempty"`
	Detail    string           `json:"detail,omitempty"`
	// the problem of its customer, if Reason is about the record
	Also      connector.Reason        `json:"also,omitempty"`
	OfMandate connector.Reason        `json:"of_mandate,omitempty"` // the finding about its mandate
	Diff      []connector.FieldChange `json:"diff,omitempty"`
}

// Preview decides on every stored record by the very rules of a plan and adds up
// what came out. It reads the ledger only: it asks neither the accounting system
// nor the billing service, and stores nothing. Whether a new payer has a customer
// already is judged by the service's list as it was last read.
func (s *Syncer) Preview(ctx context.Context, conn Connection, o PreviewOptions) (Preview, error) {
	f := &forecast{run: &run{Syncer: s, conn: conn, claims: newClaims()}, limit: o.Limit, first: o.First,
		groups: map[string]*changeGroup{}, outcomes: map[outcome]*outcome{}}
	if o.Progress != nil {
		f.opts.Progress = func(p Progress) { o.Progress(p.Done) }
	}
	known, err := s.Ledger.TwoWay(ctx, conn.Name)
	if err != nil {
		return Preview{}, err
	}
	f.linkOnly = conn.linksOnly(known)
	if err := f.noteTrusted(ctx); err != nil {
		return Preview{}, err
	}
	if err := f.foresee(ctx); err != nil {
		return Preview{}, err
	}
	if err := f.meetRivals(ctx); err != nil {
		return Preview{}, err
	}
	p, err := f.add(ctx)
	if err != nil {
		return p, err
	}
	return p, f.addExamples(ctx, &p, o.SourceID)
}
