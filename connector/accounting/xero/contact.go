package xero

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// contactPage is the answer to a list request.
type contactPage struct {
	Contacts   []json.RawMessage
	Pagination struct {
		Page      int `json:"page"`
		PageCount int `json:"pageCount"`
		ItemCount int `json:"itemCount"`
	} `json:"pagination"`
}

// parsePage decodes page n of a list of contacts, counted from 1. An answer without a list, even an empty
// one, another page, or an unexpectedly empty page is an error: it proves nothing.
func parsePage(body []byte, n int) (contactPage, error) {
	var page contactPage
	if err := json.Unmarshal(body, &page); err != nil {
		return page, errors.New("it is not the JSON of a contact list")
	}
	switch {
	case page.Contacts == nil:
		return page, errors.New("it holds no list of contacts")
	case (len(page.Contacts) > 0 || n > 1) && page.Pagination.Page != n:
		return page, fmt.Errorf("it does not say that it is page %d", n)
	case len(page.Contacts) > 0 && page.Pagination.PageCount < n:
		return page, errors.New("it does not say how many pages there are")
	case len(page.Contacts) == 0 && page.Pagination.ItemCount > 0 && page.Pagination.PageCount >= n:
		return page, fmt.Errorf("it is page %d of %d, and empty", n, page.Pagination.PageCount)
	}
	return page, nil
}

// last reports whether nothing comes after the page.
func (p contactPage) last() bool {
	return len(p.Contacts) == 0 || p.Pagination.Page >= p.Pagination.PageCount
}

// record turns one contact into a record. An unreadable one has a Problem, and stops no other contact.
func (s *Source) record(raw json.RawMessage) connector.Record {
	var key struct {
		ContactID, ContactStatus, MergedToContactID, UpdatedDateUTC any
		Addresses, Phones                                           json.RawMessage
	}
	if err := json.Unmarshal(raw, &key); err != nil {
		return spoilt(unnamed(raw), "The contact is not an object.")
	}
	id, _ := key.ContactID.(string)
	if id = strings.TrimSpace(id); id == "" {
		return spoilt(unnamed(raw), "The contact came without a ContactID.")
	}
	data, problem := accounting.Declared(raw, s.fields)
	if problem != "" {
		return spoilt(id, problem)
	}
	updated, _ := key.UpdatedDateUTC.(string)
	out := connector.Record{SourceID: id, UpdatedAt: parseDate(updated), Data: data, Origin: "Xero contact " + id}
	out.State, out.MergedInto = state(key.ContactStatus, key.MergedToContactID, id)
	if out.State == connector.RecordActive && (key.Addresses == nil || key.Phones == nil) {
		return spoilt(id, "Xero gave only a summary of the contact, so it cannot be told whether its address and phone numbers are empty.")
	}
	return out
}

// state returns the state of a contact, and the survivor of a merge.
func state(status, merged any, id string) (connector.RecordState, string) {
	survivor, _ := merged.(string)
	if survivor = strings.TrimSpace(survivor); survivor != "" && survivor != id && strings.Trim(survivor, "0-") != "" {
		return connector.RecordMerged, survivor
	}
	switch status {
	case "ACTIVE":
		return connector.RecordActive, ""
	case "ARCHIVED":
		return connector.RecordArchived, ""
	case "GDPRREQUEST":
		return connector.RecordDeleted, ""
	}
	return connector.RecordUnknown, ""
}

func spoilt(id, problem string) connector.Record {
	return connector.Record{SourceID: id, State: connector.RecordActive, Data: json.RawMessage("{}"),
		Origin: "Xero contact " + id, Problem: problem}
}

// unnamed returns the id of a contact without one: the same for the same bytes, and unlike any id of Xero's.
func unnamed(raw json.RawMessage) string {
	sum := sha256.Sum256(bytes.TrimSpace(raw))
	return "without id " + hex.EncodeToString(sum[:8])
}

// msDate matches both of Xero's forms of a time, with and without an offset.
var msDate = regexp.MustCompile(`^/Date\((-?\d{1,15})(?:[+-]\d{4})?\)/$`)

// parseDate reads Xero's time of last edit: milliseconds since 1970 in UTC. The offset behind them is for
// display and must not be added. Plain times without a zone are UTC as well. It returns the zero time for
// anything else: the time decides nothing.
func parseDate(text string) time.Time {
	if m := msDate.FindStringSubmatch(text); m != nil {
		ms, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			return time.Time{}
		}
		return accounting.EditTime(time.UnixMilli(ms))
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return accounting.EditTime(t)
		}
	}
	return time.Time{}
}
