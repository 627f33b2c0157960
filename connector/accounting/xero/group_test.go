package xero_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"

	"payersync/connector"
	"payersync/connector/accounting/xero"
	"payersync/connector/accounting/xero/xerotest"
	"payersync/connector/transport"
)

func (b *books) writer(t testing.TB, c xero.Config, base http.RoundTripper) *xero.GroupWriter {
	t.Helper()
	if c.Tenant == "" {
		c.Tenant = b.Tenants[0].ID
	}
	w, err := xero.NewWriter(c, xero.GroupConfig{Group: "Direct debit"}, xero.Deps{
		HTTP: transport.New(transport.Options{Base: base, Retries: -1, Now: b.now}), Token: b.Server, Limiter: &b.limiter,
		Now: b.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// set makes a contact say a standing.
func set(t testing.TB, w *xero.GroupWriter, contact string, to connector.FieldStatus) error {
	t.Helper()
	held, err := w.Read(t.Context(), []string{contact})
	if err != nil {
		return err
	}
	body, err := w.Freeze(connector.Write{SourceID: contact, To: to, Value: w.Value(to, ""), Field: held[contact]})
	if err != nil {
		t.Fatal(err)
	}
	return w.Send(t.Context(), "w1", body)
}

func TestContactsGoIntoOurGroupAndOutOfIt(t *testing.T) {
	t.Parallel()
	b := open(t, 5, xero.Config{})
	w := b.writer(t, xero.Config{}, b.Server)
	ids := []string{}
	for _, c := range b.Contacts() {
		ids = append(ids, c.ContactID)
	}
	if p := w.Probe(t.Context()); p.OK || !strings.Contains(p.Detail, "Direct debit") {
		t.Errorf("a group that is not there: %+v", p)
	}
	other, group := b.AddGroup("Friends"), b.AddGroup("Direct debit")
	b.Edit(ids[0], func(c *xerotest.Contact) {
		c.ContactGroups = []xerotest.Group{{ContactGroupID: other, Name: "Friends"}}
	})
	for range 2 { // once more, as after a lost answer
		for _, id := range ids[:3] {
			if err := set(t, w, id, connector.FieldActive); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := set(t, w, ids[1], connector.FieldNone); err != nil {
		t.Fatal(err)
	}
	if got := b.Members(group); !slices.Equal(got, []string{ids[0], ids[2]}) {
		t.Errorf("in the group are %q", got)
	}
	if got := b.Members(other); !slices.Equal(got, []string{ids[0]}) {
		t.Errorf("in the group of others are %q", got)
	}
	b.Archive(ids[3])
	held, err := w.Read(t.Context(), append(ids, "0b6f1c2e-6d0f-4b53-9f6b-1d2f7e8a9c10"))
	if err != nil || len(held) != 5 || held[ids[3]].Closed == "" || held[ids[2]].Value == "" || held[ids[4]].Value != "" {
		t.Errorf("read %+v, %v", held, err)
	}
	var refused *connector.WriteRefusedError
	if err := set(t, w, ids[3], connector.FieldActive); !errors.As(err, &refused) {
		t.Errorf("an archived contact: %v", err)
	}
	if b.Emptied() || len(b.Contacts()) != 5 {
		t.Error("everybody was taken out of the group")
	}
	for _, r := range b.Requests() {
		if r.Method != http.MethodGet && r.Method != http.MethodPut &&
			!(r.Method == http.MethodDelete && len(strings.Split(r.URL.Path, "/")) == 7) {
			t.Errorf("%s %s left", r.Method, r.URL.Path)
		}
	}
	// It comes back with the next read, unchanged but for ours; the group of others is seen.
	data := func(groups string) string {
		return (connector.Record{Data: []byte(`{"ContactGroups":[` + groups + `],"Name":"x"}`)}).Without(w.Written()).Hash()
	}
	const friends, ours = `{"ContactGroupID":"1","Name":"Friends"}`, `{"ContactGroupID":"2","Name":"Direct debit"}`
	if data(friends+","+ours) != data(friends) || data(ours) != data("") || data(friends) == data("") {
		t.Error("our group counts as a change, or that of others does not")
	}
}

func TestXerosTroublesSayWhetherAnythingWasWritten(t *testing.T) {
	t.Parallel()
	for fault, written := range map[xerotest.AnswerFault]bool{
		xerotest.NoScope: false, xerotest.Withdrawn: false, xerotest.MinuteLimit: false, xerotest.DayLimit: false,
		xerotest.Expired: false,
		xerotest.Down:    true, xerotest.Overloaded: true, // nobody knows
	} {
		b := open(t, 1, xero.Config{})
		b.AddGroup("Direct debit")
		w := b.writer(t, xero.Config{}, b.Server)
		id := b.Contacts()[0].ContactID
		held, err := w.Read(t.Context(), []string{id})
		if err != nil {
			t.Fatal(err)
		}
		body, err := w.Freeze(connector.Write{SourceID: id, Value: w.Value(connector.FieldActive, ""), Field: held[id]})
		if err != nil {
			t.Fatal(err)
		}
		b.Suffer(fault, 0, 3600)
		err = w.Send(t.Context(), "w1", body)
		if err == nil || errors.Is(err, connector.ErrNotWritten) == written {
			t.Errorf("%s: %v", fault, err)
		}
		if fault == xerotest.NoScope && !strings.Contains(err.Error(), "accounting.contacts: give the consent again") {
			t.Errorf("a missing scope is told as %v", err)
		}
	}
}

func TestGroupRequestsFitXerosSpecification(t *testing.T) {
	t.Parallel()
	spec := specification(t)
	b := open(t, 3, xero.Config{})
	group := b.AddGroup("Direct debit")
	wire := &checkedGroups{checked: checked{t: t, spec: spec, server: b.Server}}
	w := b.writer(t, xero.Config{}, wire)
	id := b.Contacts()[0].ContactID
	for _, to := range []connector.FieldStatus{connector.FieldActive, connector.FieldNone} {
		if err := set(t, w, id, to); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d requests validated", wire.through)
	if wire.through < 7 || len(b.Members(group)) != 0 {
		t.Errorf("only %d requests went through the check", wire.through)
	}
	for _, c := range []xero.Config{{Writes: true}, {Writes: true, CustomConnection: true}} {
		if !slices.Contains(c.Scopes(), "accounting.contacts") || slices.Contains(c.Scopes(), "accounting.contacts.read") {
			t.Errorf("the scopes are %q", c.Scopes())
		}
	}
}

// checkedGroups is checked for paths that hold ids.
type checkedGroups struct{ checked }

func (c *checkedGroups) RoundTrip(r *http.Request) (*http.Response, error) {
	path, in := strings.CutPrefix(r.URL.Path, "/api.xro/2.0")
	if !in {
		return c.server.RoundTrip(r)
	}
	parts, ids := strings.Split(path, "/"), map[string]string{}
	for i, name := range map[int]string{2: "{ContactGroupID}", 4: "{ContactID}"} {
		if i < len(parts) && parts[1] == "ContactGroups" {
			ids[strings.Trim(name, "{}")] = parts[i]
			parts[i] = name
		}
	}
	c.through++
	asked := c.request(r, strings.Join(parts, "/"))
	asked.PathParams, asked.Options.SkipSettingDefaults = ids, true // Xero's own defaults do not fit its schema
	if err := openapi3filter.ValidateRequest(r.Context(), asked); err != nil {
		c.t.Errorf("our request %s %s does not fit the specification: %v", r.Method, path, err)
	}
	return c.server.RoundTrip(r)
}
