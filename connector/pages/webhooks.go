package pages

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/billing"
	"payersync/connector/health"
	"payersync/state"
)

// inboxStates are the possible states of a delivery, in the words of these pages.
var inboxStates = []struct {
	state connector.InboxState
	chip  chip
}{
	{connector.InboxReceived, chip{"◷", "Waiting", bank}},
	{connector.InboxReflected, chip{"✓", "Done", good}},
	{connector.InboxSuperseded, chip{"✓", "Covered by a later one", good}},
	{connector.InboxParked, chip{"◷", "Customer unknown", waits}},
	{connector.InboxQuarantined, chip{"✕", "Not understood", stopped}},
	{connector.InboxIgnored, chip{"–", "Not needed", none}},
}

func inboxChip(s string) chip {
	for _, i := range inboxStates {
		if string(i.state) == s {
			return i.chip
		}
	}
	return chip{"?", s, waits}
}

// choice is one of several links to narrow a list.
type choice struct {
	Label, Path string
	Here        bool
}

// webhooks lists the received deliveries, newest first.
func (v *visit) webhooks() error {
	ctx, in := v.Context(), v.filled("state")
	before, _ := strconv.ParseInt(v.filled("after"), 10, 64)
	rows, ids, err := v.ledger().InboxPage(ctx, in, before, rowsShown+1)
	if err != nil {
		return err
	}
	next := ""
	if len(rows) > rowsShown {
		rows, next = rows[:rowsShown], strconv.FormatInt(ids[rowsShown-1], 10)
	}
	facts, err := v.ledger().Subscription(ctx)
	if err != nil {
		return err
	}
	warnings, err := v.pages.look(ctx, health.WebhooksSilent, health.SubscriptionChanged,
		health.RotationUnfinished, health.EventsUnclear, health.EventTypeUnknown)
	if err != nil {
		return err
	}
	filters := []choice{{"All", "/webhooks", in == ""}}
	for _, s := range inboxStates {
		filters = append(filters, choice{s.chip.Word, "/webhooks?state=" + string(s.state), in == string(s.state)})
	}
	last, err := v.ledger().LastDelivery(ctx)
	if err != nil {
		return err
	}
	counts, err := v.ledger().Refusals(ctx, v.pages.now().AddDate(0, 0, -admin.RefusalsShown))
	if err != nil {
		return err
	}
	refused := connector.Map(counts, admin.RefusedFor)
	return v.show("webhooks", "Webhooks", struct {
		Rows         []state.InboxRow
		Newest       time.Time
		Filters      []choice
		Narrowed     bool
		Warnings     []health.Condition
		Subscription *state.Subscription
		ShownAt      time.Time
		Pager        pager
		Refused      []admin.Refused
		Days         int
		MayTest      bool
		Changed      bool // in the billing service, not acknowledged yet
		Shown        []state.Subscription
		MayLeave     bool
		MaySubscribe bool
	}{rows, last, filters, in != "" || before != 0, warnings, facts.Expected, facts.ShownAt, v.page(next),
		refused, admin.RefusalsShown, v.User.Role.May(Operator) && v.deliveries().Try != nil,
		facts.Problem != "" && !facts.Closed(), facts.Shown, v.User.Role.May(Operator) && v.pages.cfg.Attention != nil,
		v.User.Role.May(Admin) && v.deliveries().Subscribe != nil})
}

// sendTest sends a signed test delivery over the path of real deliveries.
func (v *visit) sendTest() error {
	if v.deliveries().Try == nil {
		return problem{Status: http.StatusConflict, Title: "No test was sent",
			Sentence: "No webhook is configured, so there is no address to send to.",
			Next:     "The operator of payersync sets billing.webhook.", Path: "/webhooks"}
	}
	tested, err := v.deliveries().SendTest(v.Context(), v.User.Name)
	switch {
	case err != nil:
		return err
	case !tested.OK:
		return problem{Status: http.StatusBadGateway, Title: "The test delivery did not arrive",
			Sentence: asSentence(tested.Detail), Next: asSentence(tested.Next), Path: "/webhooks"}
	}
	return v.done(asSentence(tested.Detail), "/webhooks")
}

// leaveSubscription notes the webhook subscription's fate as known.
func (v *visit) leaveSubscription() error {
	reason, err := v.reason()
	if err != nil {
		return err
	}
	if _, err := v.acts().Perform(v.Context(), admin.Decision{Act: connector.ActCloseSubscription},
		v.by(reason)); err != nil {
		return problem{Status: http.StatusConflict, Title: "Nothing was changed",
			Sentence: "The subscription has no finding any more, or somebody already decided this.", Next: "Open it again.",
			Path: "/webhooks", err: err}
	}
	return v.done("The subscription stays as it is. Nothing was sent. Until it is back, only the sweep finds changes.",
		"/webhooks")
}

// subscribeAgain asks the billing service to send webhooks again.
func (v *visit) subscribeAgain() error {
	done, err := v.acts().Perform(v.Context(), admin.Decision{Act: connector.ActSubscribe}, v.by(""))
	if errors.Is(err, admin.ErrNoWebhook) {
		return problem{Status: http.StatusConflict, Title: "Nothing was changed",
			Sentence: "No webhook is configured, so there is no address to subscribe.",
			Next:     "The operator of payersync sets billing.webhook.", Path: "/webhooks"}
	}
	if err != nil {
		return problem{Status: http.StatusBadGateway, Title: "The action failed",
			Sentence: "The billing service refused the subscription, or its answer got lost. See the log of payersync.",
			Next:     "Try again in some minutes. If it stays, ask the operator of payersync.", Path: "/webhooks", err: err}
	}
	return v.done(done.Says, "/webhooks")
}

// asSentence returns a test's result as a sentence; an address keeps its spelling.
func asSentence(text string) string {
	if text == "" {
		return ""
	}
	if first, _, _ := strings.Cut(text, " "); !strings.Contains(first, "://") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text + "."
}

// deliveryPath returns the address of a delivery's page.
func deliveryPath(key string) string { return "/webhooks/" + url.PathEscape(key) }

// noDelivery is the answer for an unknown delivery.
var noDelivery = problem{
	Status: http.StatusNotFound, Title: "There is no such delivery",
	Sentence: "No delivery has this key. It may have been deleted by age.",
	Next:     "Look for it in the list of deliveries.",
}

// shownDelivery is one delivery, as its page shows it.
type shownDelivery struct {
	state.StoredDelivery
	Members []billing.EventMember
	Erased  bool
	Body    string // only on request
	Waits   bool   // for a person
	MayRead bool   // the user may have it parsed again
	MaySee  bool   // and see the content
}

func (v *visit) delivery() error { return v.showDelivery("") }

func (v *visit) showDelivery(body string) error {
	d, raw, err := v.deliveries().Named(v.Context(), v.PathValue("key"))
	if errors.Is(err, admin.ErrNoDelivery) {
		return noDelivery
	}
	if err != nil {
		return err
	}
	s := shownDelivery{StoredDelivery: d, Erased: len(raw) == 0, Body: body, MayRead: v.User.Role.May(Operator),
		MaySee: v.User.Role.May(Admin)}
	s.Members, _ = billing.EventMembers(raw) // what is no object has none, and its detail says so
	s.Waits = d.State == string(connector.InboxQuarantined) || d.State == string(connector.InboxParked)
	return v.show("delivery", "One delivery", s)
}

// deliveryBody shows a delivery unchanged. The audit log has the visitor first.
func (v *visit) deliveryBody() error {
	d, raw, err := v.deliveries().Named(v.Context(), v.PathValue("key"))
	if errors.Is(err, admin.ErrNoDelivery) {
		return noDelivery
	}
	if err == nil {
		err = v.deliveries().NoteShown(v.Context(), d.DeliveryKey, v.User.Name)
	}
	if err != nil {
		return err
	}
	return v.showDelivery(string(raw))
}

// replay has a delivery read again.
func (v *visit) replay() error {
	key := v.PathValue("key")
	_, err := v.acts().Perform(v.Context(), admin.Decision{Act: connector.ActReplay, Delivery: key}, v.by(""))
	var unclear admin.NotUnderstoodError
	switch {
	case errors.Is(err, admin.ErrNoDelivery):
		return noDelivery
	case errors.Is(err, admin.ErrAboutNobody):
		return problem{Status: http.StatusConflict, Title: "There is nothing to read",
			Sentence: "The delivery names neither a customer nor a mandate. Nothing was changed.",
			Next:     "Close it if nobody needs it."}
	case errors.As(err, &unclear):
		return problem{
			Status: http.StatusConflict, Title: "payersync still cannot read it", Sentence: unclear.Detail +
				" Nothing was changed.",
			Next: "Close it: the sweep finds the change. Or the operator of payersync sets billing.webhook.event_paths; the shapes of the deliveries propose values.", Do: connector.DoShapes,
		}
	case err != nil:
		return err
	}
	v.pages.cfg.Nudge()
	return v.done("payersync reads the delivery and its customer again within some seconds.", deliveryPath(key))
}

// closeDelivery gives a delivery up.
func (v *visit) closeDelivery() error {
	reason, err := v.reason()
	if err != nil {
		return err
	}
	out, err := v.acts().Perform(v.Context(),
		admin.Decision{Act: connector.ActCloseDelivery, Delivery: v.PathValue("key")}, v.by(reason))
	var not admin.NotWaitingError
	switch {
	case errors.Is(err, admin.ErrNoDelivery):
		return noDelivery
	case errors.As(err, &not):
		return problem{Status: http.StatusConflict, Title: "It needs no decision",
			Sentence: "Somebody has handled the delivery. Nothing was changed.", Next: "Open it again."}
	case err != nil:
		return err
	case !out.News:
		return v.done("The delivery was closed before.", deliveryPath(out.Key))
	}
	return v.done("The delivery is closed. The sweep finds the change.", deliveryPath(out.Key))
}

func (v *visit) deliveries() *admin.Deliveries { return v.pages.cfg.Deliveries }

// unread is the state of a kept delivery if no webhook is configured.
func unread(string, string, []byte) []state.Delivery {
	return []state.Delivery{{State: connector.InboxQuarantined,
		Detail: "No webhook is configured, so payersync cannot read it."}}
}
