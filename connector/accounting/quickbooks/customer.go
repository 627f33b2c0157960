package quickbooks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// head holds the parts that decide about a row before its fields.
type head struct {
	Status   string `json:"status"` // "Deleted" on a tombstone
	Sparse   bool   `json:"sparse"`
	Active   *bool
	Job      bool
	Project  bool `json:"IsProject"`
	MetaData struct{ LastUpdatedTime any }
}

// tombstone reports whether the row marks its customer as deleted.
func (h head) tombstone() bool { return strings.EqualFold(h.Status, "Deleted") }

// record turns one row into a record. An unreadable one has a Problem, and stops no other customer. The head
// says whether to read it by its id.
func (s *Source) record(raw json.RawMessage) (connector.Record, head) {
	var h head
	id := idOf(raw)
	if id == "" {
		return spoilt(unnamed(raw), "The customer came without an Id."), h
	}
	data, problem := accounting.Declared(raw, s.fields)
	if problem != "" {
		return spoilt(id, problem), h
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return spoilt(id, "The customer's status cannot be read."), head{}
	}
	updated, _ := h.MetaData.LastUpdatedTime.(string)
	return connector.Record{SourceID: id, State: s.state(h), UpdatedAt: parseTime(updated), Data: data,
		Origin: origin(id)}, h
}

// state returns the state of a customer.
func (s *Source) state(h head) connector.RecordState {
	leftOut := h.Project && !s.config.Projects || h.Job && !h.Project && !s.config.Jobs
	switch {
	case h.Active == nil:
		return connector.RecordUnknown
	case !*h.Active, leftOut:
		return connector.RecordArchived
	}
	return connector.RecordActive
}

// idOf returns a row's id, "" when it has none. Digits in form of a number are an id too, and keep every
// digit.
func idOf(raw json.RawMessage) string {
	var row struct{ Id json.RawMessage } //nolint:revive // spelt as QuickBooks spells it
	if json.Unmarshal(raw, &row) != nil || len(row.Id) == 0 {
		return ""
	}
	var id string
	if row.Id[0] == '"' && json.Unmarshal(row.Id, &id) == nil {
		return strings.TrimSpace(id)
	}
	if strings.Trim(string(row.Id), "0123456789") == "" {
		return string(row.Id)
	}
	return ""
}

// parseTime reads a time with its offset, the company's and not UTC. It returns the zero time for anything
// else: the time decides nothing.
func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return accounting.EditTime(t)
}

// deletedRecord returns the record of a deleted customer.
func deletedRecord(id string) connector.Record {
	data, _ := json.Marshal(map[string]string{"Id": id}) // texts can always be written
	return connector.Record{SourceID: id, State: connector.RecordDeleted, Data: data, Origin: origin(id)}
}

func origin(id string) string { return "QuickBooks customer " + id }

func spoilt(id, problem string) connector.Record {
	return connector.Record{SourceID: id, State: connector.RecordActive, Data: json.RawMessage("{}"), Origin: origin(id),
		Problem: problem}
}

// unnamed returns the id of a row without one: the same for the same bytes, and unlike any id of QuickBooks.
func unnamed(raw json.RawMessage) string {
	sum := sha256.Sum256(bytes.TrimSpace(raw))
	return "without id " + hex.EncodeToString(sum[:8])
}
