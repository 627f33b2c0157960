package xero

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// GroupConfig names the contact group for payers with an active mandate. The group must exist.
type GroupConfig struct {
	Group string `yaml:"group" jsonschema_description:"The contact group of payers whose mandate is active, by its name or id. It is there already."`
}

// GroupWriter puts contacts into one contact group and takes them out of it, one at a time: an
// archived contact would fail a whole batch.
type GroupWriter struct {
	source *Source
	group  string // as it is configured
	id     guid   // of the group, once it is known
}

// member is the field's value for a contact in the group.
const member = "in the group"

// NewWriter returns a writer to the organisation of a source. It sends nothing. Its errors begin with the
// wrong key of w.
func NewWriter(c Config, w GroupConfig, d Deps) (*GroupWriter, error) {
	if strings.TrimSpace(w.Group) == "" {
		return nil, errors.New("group: it is blank; name the contact group of payers whose mandate is active")
	}
	s, err := New(c, d)
	if err != nil {
		return nil, err
	}
	once := func(r *http.Request) (*http.Response, error) { return d.HTTP.Do(r, transport.Never) }
	s.writes = accounting.Caller{System: "Xero", Send: once, Token: d.Token, Limiter: d.Limiter}
	return &GroupWriter{source: s, group: strings.TrimSpace(w.Group)}, nil
}

// Setup names the group.
func (w *GroupWriter) Setup() string {
	return fmt.Sprintf("xero %s group %q", w.source.config.Tenant, w.group)
}

// Written is the part of a record that changes with it: our group only.
func (w *GroupWriter) Written() []connector.WrittenPart {
	return []connector.WrittenPart{{Field: "ContactGroups", Values: []string{w.group}}}
}

// Says is active: a contact is in the group or is not.
func (w *GroupWriter) Says() []connector.FieldStatus {
	return []connector.FieldStatus{connector.FieldActive}
}

// Value says whether a contact is in the group.
func (w *GroupWriter) Value(to connector.FieldStatus, _ string) string {
	if to == connector.FieldActive {
		return member
	}
	return ""
}

// guid is an id of Xero's. Only guidOf makes one, so none is blank: a request to remove the contact "" from a
// group would remove all of them.
type guid struct{ text string }

var isGUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

func guidOf(text string) (guid, error) {
	text = strings.ToLower(text)
	if !isGUID.MatchString(text) || strings.Trim(text, "0-") == "" {
		return guid{}, errors.New("an id is none of Xero's")
	}
	return guid{text}, nil
}

// contactsOf is the address of the contacts of a group. Nothing is ever deleted there.
func contactsOf(group guid) string { return "/api.xro/2.0/ContactGroups/" + group.text + "/Contacts" }

// contactOf is the address of one contact of a group.
func contactOf(group, contact guid) (string, error) {
	if !isGUID.MatchString(group.text) || !isGUID.MatchString(contact.text) {
		return "", errors.New("a contact without an id is taken out of no group")
	}
	return contactsOf(group) + "/" + contact.text, nil
}

// find returns the id of the group. None is ever made.
func (w *GroupWriter) find(ctx context.Context) (guid, error) {
	if w.id.text != "" {
		return w.id, nil
	}
	a, err := w.source.get(ctx,
		ask{op: "read the contact groups", path: "/api.xro/2.0/ContactGroups", tenant: w.source.config.Tenant})
	if err != nil {
		return guid{}, err
	}
	var said struct {
		ContactGroups []struct{ ContactGroupID, Name, Status string }
	}
	if err := json.Unmarshal(a.Body, &said); err != nil {
		return guid{}, a.unusable(errors.New("it has another form than documented"))
	}
	found := guid{}
	for _, g := range said.ContactGroups {
		if g.Status == "DELETED" || g.Name != w.group && !strings.EqualFold(g.ContactGroupID, w.group) {
			continue
		}
		if found.text != "" {
			return guid{}, fmt.Errorf("the contact group %q is there twice in Xero; name one by its id", w.group)
		}
		if found, err = guidOf(g.ContactGroupID); err != nil {
			return guid{}, a.unusable(err)
		}
	}
	if found.text == "" {
		return guid{}, fmt.Errorf("there is no contact group %q in Xero; make it there, under Contacts: payersync makes none",
			w.group)
	}
	w.id = found
	return found, nil
}

// Read returns the contacts of these in the group. It reads the whole group, and the contacts themselves, to
// learn whether each may be in a group.
func (w *GroupWriter) Read(ctx context.Context, sourceIDs []string) (map[string]connector.WrittenField, error) {
	group, err := w.find(ctx)
	if err != nil {
		return nil, err
	}
	a, err := w.source.get(ctx,
		ask{op: "read the contact group", path: "/api.xro/2.0/ContactGroups/" + group.text, tenant: w.source.config.Tenant})
	if err != nil {
		return nil, err
	}
	var said struct {
		ContactGroups []struct{ Contacts []struct{ ContactID string } }
	}
	if err := json.Unmarshal(a.Body, &said); err != nil || len(said.ContactGroups) != 1 {
		return nil, a.unusable(errors.New("it holds no contact group"))
	}
	in := map[string]bool{}
	for _, c := range said.ContactGroups[0].Contacts {
		in[strings.ToLower(c.ContactID)] = true
	}
	query := url.Values{"IDs": {strings.Join(sourceIDs, ",")}, "includeArchived": {"true"}, "page": {"1"},
		"pageSize": {strconv.Itoa(max(len(sourceIDs), 1))}, "summaryOnly": {"true"}}
	a, err = w.source.get(ctx,
		ask{op: "read contacts", path: "/api.xro/2.0/Contacts", query: query, tenant: w.source.config.Tenant})
	if err != nil {
		return nil, err
	}
	var contacts struct {
		Contacts []struct{ ContactID, ContactStatus string }
	}
	if err := json.Unmarshal(a.Body, &contacts); err != nil {
		return nil, a.unusable(errors.New("it has another form than documented"))
	}
	out := map[string]connector.WrittenField{}
	for _, c := range contacts.Contacts {
		if !slices.Contains(sourceIDs, c.ContactID) {
			continue
		}
		field := connector.WrittenField{}
		if in[strings.ToLower(c.ContactID)] {
			field.Value = member
		}
		if c.ContactStatus != "ACTIVE" {
			field.Closed = "the contact is not active in Xero"
		}
		out[c.ContactID] = field
	}
	return out, nil
}

// membership is a frozen write.
type membership struct {
	Group   string `json:"group"`
	Contact string `json:"contact"`
	In      bool   `json:"in"`
}

// Freeze returns the contact to put into the group, or to remove from it.
func (w *GroupWriter) Freeze(wr connector.Write) ([]byte, error) {
	contact, err := guidOf(wr.SourceID)
	if err != nil {
		return nil, err
	}
	if w.id.text == "" {
		return nil, errors.New("the contact group was not looked up")
	}
	return json.Marshal(membership{w.id.text, contact.text, wr.Value == member})
}

// Send puts the contact into the group, or takes it out.
func (w *GroupWriter) Send(ctx context.Context, id string, frozen []byte) error {
	req, err := w.request(ctx, id, frozen)
	if err != nil {
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	}
	const op = "write the contact group"
	got, err := w.source.writes.Do(ctx, op, req)
	var parked *accounting.Parked
	var gone *accounting.Disconnected
	switch {
	case errors.As(err, &parked), errors.As(err, &gone):
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	case err != nil:
		return err
	case got.Status == http.StatusOK, got.Status == http.StatusNoContent:
		return nil
	case got.Status == http.StatusUnauthorized, got.Status == http.StatusForbidden:
		return fmt.Errorf("%w: %w; %s", connector.ErrNotWritten, refused(got), w.consent())
	}
	err = w.source.judge(ctx, ask{op: op}, got)
	if errors.As(err, &parked) {
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	}
	if got.Status >= 400 && got.Status < 500 {
		return &connector.WriteRefusedError{Why: fmt.Sprintf("Xero does not take the contact into its group, or out of it (status %d); it may be archived.", got.Status), Err: err}
	}
	return err
}

// request makes the request of a frozen write.
func (w *GroupWriter) request(ctx context.Context, id string, frozen []byte) (*http.Request, error) {
	var m membership
	if err := json.Unmarshal(frozen, &m); err != nil {
		return nil, err
	}
	group, err := guidOf(m.Group)
	if err != nil {
		return nil, err
	}
	contact, err := guidOf(m.Contact)
	if err != nil {
		return nil, err
	}
	method, body := http.MethodPut, []byte(`{"Contacts":[{"ContactID":"`+contact.text+`"}]}`)
	path := contactsOf(group)
	if !m.In {
		method, body = http.MethodDelete, nil
		if path, err = contactOf(group, contact); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, w.source.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if m.In {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", id)
	}
	req.Header.Set("Xero-Tenant-Id", w.source.config.Tenant)
	if w.source.config.CustomConnection {
		req.Header.Set("Xero-Tenant-Id", "")
	}
	return req, nil
}

// consent says how the right to write is had.
func (w *GroupWriter) consent() string {
	if w.source.config.CustomConnection {
		return "writing needs the scope accounting.contacts: add it to the Custom Connection at developer.xero.com, and have it authorised again"
	}
	return "writing needs the scope accounting.contacts: give the consent again, with this scope"
}

// Probe tests the steps of a write without writing: the group.
func (w *GroupWriter) Probe(ctx context.Context) accounting.Probe {
	if _, err := w.find(ctx); err != nil {
		return accounting.Probe{Name: "write-back", Detail: err.Error()}
	}
	return accounting.Probe{Name: "write-back", OK: true,
		Detail: fmt.Sprintf("the contact group %q is there; whether payersync may write shows with the first write", w.group)}
}
