package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"payersync/connector"
)

// Trial is the result of a probe with writes on a scratch customer.
type Trial struct {
	Findings []Finding
	Survived []string // kinds of members that survived a round trip, named as in Client.Others
	Lost     []string // lost paths: no update may be sent while there are any
	Tripped  bool     // a customer was read, replaced by itself and read again
	// what the customer was left with, in words; "" when it is as it was, but for mandates that are cancelled
	Left string
}

// ErrNotScratch means a customer is not a scratch customer: writes might harm a real payer.
var ErrNotScratch = errors.New("this is no customer for trying things out")

// TrialSteps lists the requests of ProbeByWriting, for a person to read first.
func (c *Client) TrialSteps(id string) []string {
	return []string{
		fmt.Sprintf("the customer %s is read, replaced by itself, and read again, in the way of dialect.update and, where that is refused, in the other", id),
		"a signing link is asked for twice, which makes a mandate that waits for a signature; the service may write to the customer's contacts",
		"what mandates came of it are cancelled, in the way of dialect.cancel and, where that is refused, in the others",
	}
}

// ProbeByWriting determines, on a customer, the settings invisible by reading. Use a customer without a real payer. A
// customer with a mandate in progress is refused with ErrNotScratch before any request. It creates and deletes no
// customers.
func (c *Client) ProbeByWriting(ctx context.Context, id string) (Trial, error) {
	t := &trial{client: c, id: id}
	before, err := c.Customer(ctx, id)
	if err != nil {
		return t.Trial, err
	}
	if m := before.Mandate; m != nil && m.Status != connector.MandateCancelled {
		return t.Trial, fmt.Errorf("%w: it has a mandate that is %s; make one without a mandate in the service's own pages",
			ErrNotScratch, m.Status)
	}
	if err := t.roundTrip(ctx, before); err != nil {
		return t.Trial, err
	}
	err = t.links(ctx)
	// created mandates are cancelled, even after an interruption
	after, stop := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer stop()
	t.find(after)
	return t.Trial, errors.Join(err, t.cancelAll(after))
}

// afterwards is the time limit for cancelling the mandates of an interrupted trial.
const afterwards = time.Minute

// find adds a mandate found on the customer but not in any answer.
func (t *trial) find(ctx context.Context) {
	switch c, err := t.client.Customer(ctx, t.id); {
	case err != nil:
		t.leaves("with mandates that wait for a signature, or without: it could not be read any more")
	case c.Mandate != nil && c.Mandate.Status != connector.MandateCancelled && !slices.Contains(t.mandates, c.Mandate.ID):
		t.mandates = append(t.mandates, c.Mandate.ID)
	}
}

type trial struct {
	Trial
	client   *Client
	id       string
	mandates []string // mandates of the trial
}

func (t *trial) note(setting, answer string, seen ...any) {
	t.Findings = append(t.Findings, t.client.finding(setting, answer, seen...))
}

// firstWay sends with each value of a setting, until send reports success or fails for another reason. It returns the
// successful value; "" for none.
func (t *trial) firstWay(name string, ways []string, send func(with *Client) (done bool, err error)) (string, error) {
	for _, way := range ways {
		with, err := t.client.variant(name, way)
		if err != nil {
			return "", err
		}
		if done, err := send(with); done || err != nil {
			return way, err
		}
	}
	return "", nil
}

// leaves adds a leftover on the customer.
func (t *trial) leaves(with ...string) {
	if t.Left != "" {
		with = append([]string{t.Left}, with...)
	}
	t.Left = strings.Join(with, "; and ")
}

// roundTrip replaces the customer by itself and compares.
func (t *trial) roundTrip(ctx context.Context, before connector.RemoteCustomer) error {
	o, err := decodeObject(before.Raw)
	if err != nil {
		return err
	}
	way, err := t.firstWay("update", t.client.ways("update"), func(with *Client) (bool, error) {
		return doneOrRefused(with.UpdateCustomer(ctx, t.id, with.updateBody(slices.Clone(o), t.id)))
	})
	if err != nil {
		t.leaves("as it was, or replaced by itself")
		return err
	}
	if t.note("update", "one", way); way == "" {
		return nil
	}
	after, err := t.client.Customer(ctx, t.id)
	if err != nil {
		t.leaves("replaced by itself; what became of it could not be read")
		return err
	}
	nobody := connector.Customer{}
	if t.Lost, err = t.client.ForeignChanges(before.Raw, after.Raw, nil, nobody, nil); err != nil {
		return err
	}
	if len(t.Lost) > 0 {
		t.leaves("without or with another " + strings.Join(t.Lost, ", "))
	}
	t.Tripped = way == t.client.dialect.Update
	t.Survived, err = t.client.Others(before.Raw, nil, nobody, nil)
	t.computed(before.Raw, after.Raw)
	return err
}

// refusedForItsWay reports whether the service refused the request, so it had no effect.
func refusedForItsWay(err error) bool {
	return slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented,
		http.StatusBadRequest, http.StatusUnprocessableEntity}, statusOf(err))
}

// doneOrRefused takes a refusal of the way for no error, because nothing was done.
func doneOrRefused(err error) (done bool, _ error) {
	if refusedForItsWay(err) {
		return false, nil
	}
	return err == nil, err
}

// computed names the members that changed by themselves between two reads.
func (t *trial) computed(before, after json.RawMessage) {
	was, errBefore := parseObject(before)
	is, errAfter := parseObject(after)
	if errBefore != nil || errAfter != nil {
		return
	}
	found := slices.Clone(t.client.dialect.ReadOnly)
	lost := func(key string) bool {
		return slices.ContainsFunc(t.Lost, func(path string) bool {
			return path == key || strings.HasPrefix(path, key+"[") || strings.HasPrefix(path, key+".")
		})
	}
	for _, m := range is {
		if slices.Contains([]string{"id", ownName, ownPeople, ownAddresses, "externalData"}, m.key) {
			continue // these are always written
		}
		if was.has(m.key) && canonical(was.get(m.key)) != canonical(m.value) && !slices.Contains(found, m.key) &&
			!lost(m.key) {
			found = append(found, m.key)
		}
	}
	t.note("read_only", "moved", strings.Join(found, ", "))
}

// links asks for a link twice.
func (t *trial) links(ctx context.Context) error {
	setting, methods := t.client.dialect.MandateLink, []string{"put", "get"}
	if setting == "get" {
		slices.Reverse(methods)
	}
	var first connector.Mandate
	var client *Client
	method, err := t.firstWay("mandate_link", methods, func(with *Client) (done bool, err error) {
		client = with
		first, err = with.RequestMandateLink(ctx, t.id)
		if err != nil && statusOf(err) == http.StatusOK { // a list of mandates, not a mandate
			return false, nil
		}
		return doneOrRefused(err)
	})
	if err != nil {
		return err
	}
	found := method
	if setting == "auto" && method != "" {
		found = setting
	}
	if t.note("mandate_link", "one", found, strings.ToUpper(method)); method == "" {
		return nil
	}
	t.mandates = []string{first.ID}
	second, err := client.RequestMandateLink(ctx, t.id)
	switch {
	case refusedForItsWay(err):
		t.note("link_when_created", "refused", statusOf(err))
	case err != nil:
		return err
	case second.ID == first.ID:
		t.note("link_when_created", "same", "same")
	default:
		t.mandates = append(t.mandates, second.ID)
		t.note("link_when_created", "new", "new")
	}
	return nil
}

// cancelAll cancels the mandates created by the trial, with the first working setting.
func (t *trial) cancelAll(ctx context.Context) error {
	ways, found := t.client.ways("cancel"), ""
	unseen := map[string]string{} // how a mandate was cancelled; no read shows it
	var open, unsure []string
	var problems []error
	for _, id := range slices.Backward(t.mandates) { // one without an answer leaves the others to be cancelled
		way, err := t.firstWay("cancel", ways, func(with *Client) (bool, error) { return t.cancel(ctx, with, id) })
		switch {
		case errors.Is(err, errUnseen):
			unseen[id] = way
		case err != nil:
			unsure, problems = append(unsure, id), append(problems, err)
		case way == "":
			open = append(open, id)
		default:
			found, ways = way, []string{way}
		}
	}
	for id, way := range unseen {
		if way != found { // another mandate has proven the way
			unsure = append(unsure, id)
		}
	}
	slices.Sort(unsure)
	var left []string
	if len(open) > 0 {
		left = append(left, "with mandates that wait for a signature ("+strings.Join(open,
			", ")+"); cancel them in the service's own pages")
	}
	if len(unsure) > 0 {
		left = append(left, "with mandates that wait for a signature or are cancelled ("+strings.Join(unsure, ", ")+")")
	}
	t.leaves(left...)
	switch {
	case len(t.mandates) == 0:
		t.note("cancel", "no mandate")
	case found == "" && len(unsure) > 0:
		t.note("cancel", "unsure")
	case found == "":
		t.note("cancel", "refused")
	default:
		t.note("cancel", "done", found)
	}
	return errors.Join(problems...)
}

// errUnseen means the customer shows another mandate than the cancelled one, or none.
var errUnseen = errors.New("the customer does not show the mandate, so that nothing tells whether it is cancelled")

// cancel cancels a mandate with one setting and reads the result, because a service may answer 2xx without
// understanding the request. Only the mandate's own status counts: if the customer shows another mandate, the error is
// errUnseen.
func (t *trial) cancel(ctx context.Context, with *Client, id string) (bool, error) {
	if done, err := doneOrRefused(with.CancelMandate(ctx, id, "probe of payersync")); !done {
		return false, err
	}
	customer, err := t.client.Customer(ctx, t.id)
	if err != nil {
		return false, err
	}
	switch m := customer.Mandate; {
	case m == nil || m.ID != id:
		return false, errUnseen
	default:
		return m.Status == connector.MandateCancelled, nil
	}
}
