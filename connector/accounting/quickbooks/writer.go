package quickbooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// PaymentMethodConfig names the payment method for customers with an active mandate. QuickBooks then proposes it on
// their invoices. The methods must exist.
type PaymentMethodConfig struct {
	PaymentMethod string `yaml:"payment_method" jsonschema_description:"The payment method of customers whose mandate is active, by its name or id. It is there already."`

	// Otherwise is used if a customer had no method before ours: QuickBooks has no documented way to remove
	// one.
	Otherwise string `yaml:"otherwise,omitempty" jsonschema_description:"The payment method that a customer gets whose mandate ends, and who had none before. Left out, it keeps ours, and a person is told."`
}

// PaymentMethodWriter sets the preferred payment method of customers.
type PaymentMethodWriter struct {
	source *Source
	config PaymentMethodConfig
	ids    map[string]string // of the configured methods, once they are known
}

// NewWriter returns a writer to the company of a source. It sends nothing. Its errors begin with the wrong
// key of w.
func NewWriter(c Config, w PaymentMethodConfig, d Deps) (*PaymentMethodWriter, error) {
	w.PaymentMethod, w.Otherwise = strings.TrimSpace(w.PaymentMethod), strings.TrimSpace(w.Otherwise)
	switch {
	case w.PaymentMethod == "":
		return nil, errors.New("payment_method: it is blank; name the payment method of customers whose mandate is active")
	case w.Otherwise == w.PaymentMethod:
		return nil, errors.New("otherwise: it is the same as payment_method; name another, or omit it")
	}
	s, err := New(c, d)
	if err != nil {
		return nil, err
	}
	once := func(r *http.Request) (*http.Response, error) { return d.HTTP.Do(r, transport.Never) }
	s.writes = accounting.Caller{System: "QuickBooks", Send: once, Token: d.Token, Limiter: d.Limiter}
	return &PaymentMethodWriter{source: s, config: w}, nil
}

// Setup names the payment method.
func (w *PaymentMethodWriter) Setup() string {
	return fmt.Sprintf("quickbooks %s payment method %q", w.source.config.Company, w.config.PaymentMethod)
}

// Written returns the fields of a record that change with it.
func (w *PaymentMethodWriter) Written() []connector.WrittenPart {
	return []connector.WrittenPart{{Field: "PaymentMethodRef"}, {Field: "SyncToken"}}
}

// Says is active: a customer has the method or has another.
func (w *PaymentMethodWriter) Says() []connector.FieldStatus {
	return []connector.FieldStatus{connector.FieldActive}
}

// Value is the id of the payment method: ours, or the earlier one.
func (w *PaymentMethodWriter) Value(to connector.FieldStatus, earlier string) string {
	ours := w.ids[w.config.PaymentMethod]
	switch {
	case to == connector.FieldActive:
		return ours
	case earlier == "" || earlier == ours:
		return w.ids[w.config.Otherwise]
	}
	return earlier
}

// methods finds the ids of the configured payment methods. None is ever made.
func (w *PaymentMethodWriter) methods(ctx context.Context) error {
	if w.ids != nil {
		return nil
	}
	a, err := w.source.get(ctx,
		ask{op: "read the payment methods", path: "query",
			query: url.Values{"query": {"SELECT * FROM PaymentMethod MAXRESULTS 1000"}}})
	if err != nil {
		return err
	}
	var said struct {
		QueryResponse struct {
			PaymentMethod []struct {
				Id     string //nolint:revive // spelt as QuickBooks spells it
				Name   string
				Active *bool
			}
		}
	}
	if err := a.decode(&said); err != nil {
		return err
	}
	ids := map[string]string{}
	for _, wanted := range []string{w.config.PaymentMethod, w.config.Otherwise} {
		for _, m := range said.QueryResponse.PaymentMethod {
			if m.Id == "" || m.Active != nil && !*m.Active || m.Name != wanted && m.Id != wanted {
				continue
			}
			if ids[wanted] != "" {
				return fmt.Errorf("the payment method %q is there twice in QuickBooks; name one by its id", wanted)
			}
			ids[wanted] = m.Id
		}
		if wanted != "" && ids[wanted] == "" {
			return fmt.Errorf("there is no active payment method %q in QuickBooks; make it there, under All lists, Payment methods: payersync makes none", wanted)
		}
	}
	w.ids = ids
	return nil
}

// customer is a customer in the answer to a read or a write.
type customer struct {
	Id               string //nolint:revive // spelt as QuickBooks spells it
	SyncToken        string
	Active           *bool
	Sparse           bool `json:"sparse"`
	PaymentMethodRef struct {
		Value string `json:"value"`
	}
}

// Read returns the customers' payment methods, with the number of their last edit.
func (w *PaymentMethodWriter) Read(ctx context.Context, sourceIDs []string) (map[string]connector.WrittenField, error) {
	if err := w.methods(ctx); err != nil {
		return nil, err
	}
	out := map[string]connector.WrittenField{}
	for _, id := range sourceIDs {
		a, err := w.source.get(ctx, ask{op: "read one customer", path: "customer/" + url.PathEscape(id)})
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var said struct{ Customer customer }
		if err := a.decode(&said); err != nil {
			return nil, err
		}
		c := said.Customer
		if c.Id != id || c.SyncToken == "" {
			return nil, a.unusable("it is not the customer that was asked for")
		}
		field := connector.WrittenField{Value: c.PaymentMethodRef.Value, Version: c.SyncToken}
		switch {
		case c.Sparse:
			field.Closed = "QuickBooks gave only a part of it"
		case c.Active == nil || !*c.Active:
			field.Closed = "the customer is not active in QuickBooks"
		}
		out[id] = field
	}
	return out, nil
}

// change is the body of a sparse update: QuickBooks does not change unnamed members.
type change struct {
	Sparse           bool      `json:"sparse"`
	Id               string    `json:"Id"` //nolint:revive // spelt as QuickBooks spells it
	SyncToken        string    `json:"SyncToken"`
	PaymentMethodRef reference `json:"PaymentMethodRef"`
}

type reference struct {
	Value string `json:"value"`
}

// Freeze returns the body.
func (w *PaymentMethodWriter) Freeze(wr connector.Write) ([]byte, error) {
	if wr.SourceID == "" || wr.Field.Version == "" {
		return nil, errors.New("a customer without id and SyncToken is not written to")
	}
	return json.Marshal(change{true, wr.SourceID, wr.Field.Version, reference{wr.Value}})
}

// Send posts the body. QuickBooks answers the same requestid with the same answer, and refuses any SyncToken
// but the newest.
func (w *PaymentMethodWriter) Send(ctx context.Context, id string, frozen []byte) error {
	var c change
	if err := json.Unmarshal(frozen, &c); err != nil {
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	}
	if c.PaymentMethodRef.Value == "" {
		return &connector.WriteRefusedError{Why: "The customer had no payment method before, and QuickBooks has no documented way to take one away: choose another one there, or name one in writeback.quickbooks.otherwise."}
	}
	const op = "write the payment method"
	u := w.source.base.JoinPath("customer")
	u.RawQuery = url.Values{"minorversion": {minorVersion}, "requestid": {id}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(frozen))
	if err != nil {
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	got, err := w.source.writes.Do(ctx, op, req)
	if err == nil {
		err = w.judge(ctx, op, got)
	}
	var parked *accounting.Parked
	var gone *accounting.Disconnected
	if errors.As(err, &parked) || errors.As(err, &gone) {
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	}
	if err != nil {
		return err
	}
	var said struct{ Customer customer }
	a := answer{got, ask{op: op}}
	if came := accounting.NotJSON(got.Body); came != "" {
		return a.unusable(came + " came instead of JSON")
	}
	if err := a.decode(&said); err != nil {
		return err
	}
	if said.Customer.Id != c.Id || said.Customer.PaymentMethodRef.Value != c.PaymentMethodRef.Value {
		return a.unusable("it does not show the payment method that was written")
	}
	return nil
}

// judge returns the error of an answer to a write.
func (w *PaymentMethodWriter) judge(ctx context.Context, op string, got accounting.Answer) error {
	err := w.source.judge(ctx, ask{op: op}, got)
	f := faultOf(got.Body)
	switch {
	case err == nil:
		return nil
	case f.code() == "5010":
		return connector.ErrStale
	case errors.Is(err, errGone):
		return &connector.WriteRefusedError{Why: "The customer is not in QuickBooks any more.", Err: err}
	case connector.FaultOf(err) == connector.FaultRejected && f.code() != "":
		return &connector.WriteRefusedError{Why: fmt.Sprintf("QuickBooks refuses the payment method%s.", f.text()), Err: err}
	}
	return err
}

// Probe tests the steps of a write without writing: the payment methods.
func (w *PaymentMethodWriter) Probe(ctx context.Context) accounting.Probe {
	if err := w.methods(ctx); err != nil {
		return accounting.Probe{Name: "write-back", Detail: err.Error()}
	}
	return accounting.Probe{Name: "write-back", OK: true,
		Detail: fmt.Sprintf("the payment method %q is there", w.config.PaymentMethod)}
}
