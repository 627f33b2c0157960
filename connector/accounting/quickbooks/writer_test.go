package quickbooks_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/accounting/quickbooks"
	"payersync/connector/accounting/quickbooks/quickbookstest"
	"payersync/connector/transport"
)

func (b *books) writer(t testing.TB, c quickbooks.PaymentMethodConfig) *quickbooks.PaymentMethodWriter {
	t.Helper()
	w, err := quickbooks.NewWriter(quickbooks.Config{Company: quickbookstest.Realm}, c, quickbooks.Deps{
		HTTP: transport.New(transport.Options{Base: b.Server, Retries: -1, Now: b.now}), Token: b.Server, Limiter: &b.limiter,
		Now: b.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// set makes a customer say a standing; earlier is what it had before ours.
func set(t testing.TB, w *quickbooks.PaymentMethodWriter, id string, to connector.FieldStatus, earlier string) error {
	t.Helper()
	held, err := w.Read(t.Context(), []string{id})
	if err != nil {
		return err
	}
	body, err := w.Freeze(connector.Write{SourceID: id, To: to, Value: w.Value(to, earlier), Field: held[id]})
	if err != nil {
		t.Fatal(err)
	}
	return w.Send(t.Context(), "w1", body)
}

func (b *books) method(id string) string {
	for _, c := range b.Customers() {
		if c.ID == id && c.PaymentMethodRef != nil {
			return c.PaymentMethodRef.Name
		}
	}
	return ""
}

func TestCustomersGetOurPaymentMethodAndTheirOwnBack(t *testing.T) {
	t.Parallel()
	b := open(t, 4, quickbooks.Config{})
	w := b.writer(t, quickbooks.PaymentMethodConfig{PaymentMethod: "Direct Debit"})
	if p := w.Probe(t.Context()); p.OK || !strings.Contains(p.Detail, "Direct Debit") {
		t.Errorf("a method that is not there: %+v", p)
	}
	cash := b.AddPaymentMethod("Cash")
	b.AddPaymentMethod("Direct Debit")
	b.Edit("1", func(c *quickbookstest.StoredCustomer) {
		c.PaymentMethodRef = &quickbookstest.Ref{Value: cash, Name: "Cash"}
	})
	before := b.Customers()
	for _, id := range []string{"1", "2"} {
		if err := set(t, w, id, connector.FieldActive, ""); err != nil {
			t.Fatal(err)
		}
	}
	if b.method("1") != "Direct Debit" || b.method("2") != "Direct Debit" || b.method("3") != "" {
		t.Errorf("they have %q, %q and %q", b.method("1"), b.method("2"), b.method("3"))
	}
	if err := set(t, w, "1", connector.FieldNone, cash); err != nil || b.method("1") != "Cash" {
		t.Errorf("after the end it has %q, %v", b.method("1"), err)
	}
	var refused *connector.WriteRefusedError
	if err := set(t, w, "2", connector.FieldNone, ""); !errors.As(err, &refused) ||
		!strings.Contains(refused.Why, "otherwise") || b.method("2") != "Direct Debit" {
		t.Errorf("a customer who had none: %v", err)
	}
	other := b.writer(t, quickbooks.PaymentMethodConfig{PaymentMethod: "Direct Debit", Otherwise: "Cash"})
	if err := set(t, other, "2", connector.FieldNone, ""); err != nil || b.method("2") != "Cash" {
		t.Errorf("it has %q, %v", b.method("2"), err)
	}
	for i, c := range b.Customers() { // nothing of others moved
		c.PaymentMethodRef, c.SyncToken, c.Updated = before[i].PaymentMethodRef, before[i].SyncToken, before[i].Updated
		was, _ := json.Marshal(before[i])
		is, _ := json.Marshal(c)
		if string(was) != string(is) {
			t.Errorf("customer %s was %s and is %s", c.ID, was, is)
		}
	}
	b.Deactivate("3")
	b.Merge("4", "1")
	held, err := w.Read(t.Context(), []string{"3", "4"})
	if err != nil || len(held) != 1 || held["3"].Closed == "" {
		t.Errorf("read %+v, %v", held, err)
	}
}

func TestAStaleSyncTokenIsNotOurs(t *testing.T) {
	t.Parallel()
	b := open(t, 1, quickbooks.Config{})
	b.AddPaymentMethod("Direct Debit")
	w := b.writer(t, quickbooks.PaymentMethodConfig{PaymentMethod: "Direct Debit"})
	b.BeforePost(func(c *quickbookstest.StoredCustomer) { c.SyncToken = "77" })
	if err := set(t, w, "1", connector.FieldActive, ""); !errors.Is(err, connector.ErrStale) || b.Posts() != 0 {
		t.Errorf("got %v after %d updates", err, b.Posts())
	}
}

// Each write comes back by change data capture, with another SyncToken.
func TestOurWritesComeBackUnchangedButForOurs(t *testing.T) {
	t.Parallel()
	b := open(t, 1, quickbooks.Config{})
	b.AddPaymentMethod("Direct Debit")
	w := b.writer(t, quickbooks.PaymentMethodConfig{PaymentMethod: "Direct Debit"})
	hash := func() string {
		for page, err := range b.source.Customers(t.Context(), b.now().Add(-48*3600e9)) {
			if err != nil {
				t.Fatal(err)
			}
			return page.Records[0].Without(w.Written()).Hash()
		}
		return ""
	}
	before := hash()
	b.pass(1e9)
	if err := set(t, w, "1", connector.FieldActive, ""); err != nil {
		t.Fatal(err)
	}
	if after := hash(); after != before || after == "" {
		t.Errorf("the record was %s and is %s", before, after)
	}
}

func TestQuickBooksTroublesSayWhetherAnythingWasWritten(t *testing.T) {
	t.Parallel()
	for fault, want := range map[quickbookstest.AnswerFault]string{
		quickbookstest.Throttled: "nothing", quickbookstest.ThrottledXML: "nothing", quickbookstest.Withdrawn: "nothing",
		quickbookstest.OtherCompany: "nothing", quickbookstest.Expired: "nothing",
		quickbookstest.Down: "unknown", quickbookstest.WebPage: "unknown", quickbookstest.PlainText: "unknown",
		quickbookstest.Cut: "unknown", quickbookstest.NoEnvelope: "unknown",
		quickbookstest.FaultIn200: "refused",
	} {
		b := open(t, 1, quickbooks.Config{})
		b.AddPaymentMethod("Direct Debit")
		w := b.writer(t, quickbooks.PaymentMethodConfig{PaymentMethod: "Direct Debit"})
		held, err := w.Read(t.Context(), []string{"1"})
		if err != nil {
			t.Fatal(err)
		}
		body, err := w.Freeze(connector.Write{SourceID: "1", Value: w.Value(connector.FieldActive, ""), Field: held["1"]})
		if err != nil {
			t.Fatal(err)
		}
		b.Suffer(fault, 0)
		err = w.Send(t.Context(), "w1", body)
		var refused *connector.WriteRefusedError
		got := "unknown"
		switch {
		case err == nil:
			got = "written"
		case errors.Is(err, connector.ErrNotWritten):
			got = "nothing"
		case errors.As(err, &refused):
			got = "refused"
		}
		if got != want {
			t.Errorf("%s is told as %q: %v", fault, got, err)
		}
	}
}

func TestOurUpdateHasIntuitsOwnProperties(t *testing.T) {
	t.Parallel()
	properties := intuit(t).properties("Customer")
	b := open(t, 1, quickbooks.Config{})
	b.AddPaymentMethod("Direct Debit")
	w := b.writer(t, quickbooks.PaymentMethodConfig{PaymentMethod: "Direct Debit"})
	if _, err := w.Read(t.Context(), []string{"1"}); err != nil {
		t.Fatal(err)
	}
	body, err := w.Freeze(connector.Write{SourceID: "1", Value: "101", Field: connector.WrittenField{Version: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	var sent map[string]json.RawMessage
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	for name := range sent {
		if properties[name] == "" && name != "sparse" { // an attribute of every object
			t.Errorf("we send %s, and Intuit has no such property", name)
		}
	}
	if properties["PaymentMethodRef"] != "ReferenceType" {
		t.Errorf("PaymentMethodRef is %q", properties["PaymentMethodRef"])
	}
}
