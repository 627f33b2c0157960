package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/readiness"
	"payersync/connector/syncer"
	"payersync/state"
)

type operator = syncer.Operator

// freshFor is the maximum age of a sign-in for irreversible acts.
const freshFor = 15 * time.Minute

// fresh fails unless the user has signed in a short time ago, or typed the password since. back is the page to return
// to.
func (v *visit) fresh(back string) error {
	if time.Since(time.Unix(v.pages.logins.GetInt64(v.Context(), keyBegan), 0)) < freshFor {
		return nil
	}
	is := problem{
		Status: http.StatusForbidden, Title: "Sign in again",
		Sentence: "This cannot be undone, so it needs a sign-in within the last 15 minutes. Nothing was changed.",
		Next:     "Sign out, sign in again, and do it then.",
	}
	switch v.way {
	case byLink:
		is.Next, is.Do = "Make a new link on the machine that runs payersync, open the pages with it, and do it then.",
			connector.DoOpenPages
	case byPassword:
		is.Title, is.Next, is.Path = "Type your password again", "Type your password, and do it then.", "/again"
		v.pages.logins.Put(v.Context(), keyBack, back)
		if err := v.keep(); err != nil {
			return err
		}
	}
	return is
}

// deed is an act of a person about one payer, with its button.
type deed struct {
	act   connector.Act
	name  string
	label string                // of the button; "" for the act's title
	sends bool                  // it needs the billing service
	asks  func(shownPayer) bool // a page asks before it is done
	may   func(shownPayer) bool
}

// facts returns the facts about a deed's act.
func (d deed) facts() admin.ActFacts { return admin.Acts[d.act] }

// reason reports whether a deed takes a reason.
func (d deed) reason(s shownPayer) bool {
	return d.facts().Asks(admin.InputReason) || d.act == connector.ActRequest && s.Cancelled
}

// button returns the offer of a deed at an address.
func (d deed) button(s shownPayer, at string) offer {
	o := offer{Label: d.label, At: at, Asks: d.asks(s), Danger: d.facts().Danger, Act: d.act, Mandate: s.MandateID}
	if o.Label == "" {
		if o.Label = d.facts().Title; o.Asks {
			o.Label += "…"
		}
	}
	if !o.Asks {
		o.Does = actEffect(d.act)
	}
	return o
}

// actEffect describes the effect of an act, beside a button without a question.
func actEffect(act connector.Act) string {
	shown := admin.Proposal{Decision: admin.Decision{Act: act}}.Preview()
	return shown.Becomes + " " + shown.Sends
}

// can reports whether these pages and the visitor can do a deed at all.
func (v *visit) can(d deed) bool {
	return v.User.Role.May(d.facts().Role) && (!d.sends || v.pages.cfg.Mandates != nil && v.pages.cfg.Attention != nil)
}

// showsLink names the button to show the signing link. It is not a deed.
const showsLink = "link"

// linkToShow reports whether payersync has a signing link that the page does not show yet. Such a payer needs no new
// request. The page that shows the link offers one, for a link that does not work.
func (s shownPayer) linkToShow() bool {
	return s.Waits && s.Link == "" && !s.Lost && readiness.HoldsLink(s.Facts.Mandate)
}

// nextDeed returns the deed for the mandate's next step if the payer has no findings; "" for none. With findings, the
// first way out comes first.
func nextDeed(s shownPayer) string {
	switch {
	case len(s.Attention) > 0:
		return ""
	case s.Gone:
		return "cancel"
	case s.linkToShow():
		return showsLink
	case s.BillingID != "" && !s.Live && !s.Facts.Left, s.Waits:
		return "request"
	}
	return ""
}

// offer is a button of a deed.
type offer struct {
	Label, At       string
	Asks            bool // it leads to an asking page
	Primary, Danger bool
	Does            string // the effect, beside a button without a question

	Act    connector.Act    // that it performs; "" for none
	Reason connector.Reason // of which it is a way out; "" for none

	Mandate string // shown by the page, for a button without a question
}

// offers returns the buttons below a payer's findings, in the order of place. It omits the buttons of the ways out.
func (v *visit) offers(s shownPayer) (out []offer) {
	next := nextDeed(s)
	if s.linkToShow() && v.pages.cfg.Mandates != nil {
		out = append(out, offer{Label: "Show the signing link", At: s.Path + "/link", Primary: next == showsLink,
			Mandate: s.MandateID})
	}
	for _, d := range deeds {
		if isDecision(d) || d.act == connector.ActRequest && s.linkToShow() || !d.may(s) || !v.can(d) || v.pages.cfg.Attention == nil || s.offersAlready(d.act) {
			continue
		}
		o := d.button(s, s.Path+"/"+d.name)
		o.Primary = d.name == next
		switch {
		case d.name != "request":
		case s.Link != "":
			o.Label, o.Primary = "Fetch the signing link again", false
		case s.Waits:
			o.Label = "Fetch the signing link"
		}
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(a, b offer) int { return cmp.Compare(a.place(), b.place()) })
	return out
}

// place orders the buttons below a payer's findings: the next step first, and those that cannot be undone last.
func (o offer) place() int {
	switch {
	case o.Primary:
		return 0
	case o.Danger:
		return 2
	}
	return 1
}

// offersAlready reports whether a way out or an undo offers an act.
func (s shownPayer) offersAlready(act connector.Act) bool {
	is := func(o offer) bool { return o.Act == act }
	return act != "" && (slices.ContainsFunc(s.UndoOffers, is) || slices.ContainsFunc(s.Tellings, func(t telling) bool {
		return slices.ContainsFunc(t.Offers, is) ||
			slices.ContainsFunc(t.Pairs, func(p pair) bool { return slices.ContainsFunc(p.Offers, is) })
	}))
}

var (
	changedMeanwhile = problem{
		Status: http.StatusConflict, Title: "It changed while you were reading",
		Sentence: "The payer changed since the page was made. Nothing was changed.",
		Next:     "Go back to the payer, and decide again.",
	}
	notAsItStands = problem{
		Status: http.StatusConflict, Title: "Not possible for this payer now", Sentence: "Nothing was changed.",
		Next: "Go back to the payer, and look at its state.",
	}
)

// deedAsked returns the deed named by an address, with its payer.
func (v *visit) deedAsked() (d deed, s shownPayer, err error) {
	at := slices.IndexFunc(deeds, func(d deed) bool { return d.name == v.PathValue("act") })
	if at < 0 {
		return d, s, notFound
	}
	d = deeds[at]
	if s, err = v.shownPayer(); err != nil {
		return d, s, err
	}
	if !v.can(d) || v.pages.cfg.Attention == nil {
		return d, s, cannotSend
	}
	return d, s, nil
}

// askDeed asks before an act, and describes its effect.
func (v *visit) askDeed() error {
	d, s, err := v.deedAsked()
	if err != nil {
		return err
	}
	if !d.may(s) {
		return notAsItStands.at(s.Path)
	}
	if d.facts().Danger { // before a reason is typed
		if err := v.fresh(v.URL.Path); err != nil {
			return err
		}
	}
	content := asked{shownPayer: s, Act: d.name, Danger: d.facts().Danger, Needs: d.reason(s),
		Preview: admin.Preview{Title: d.facts().Title, Becomes: d.facts().Becomes}}
	of, err := v.decisionOf(d, s)
	if errors.Is(err, errOpen) {
		v.askOpen(&content, d.act)
		return v.show("ask", content.Title, content)
	}
	if err != nil {
		return err
	}
	p, err := v.acts().Propose(v.Context(), of)
	if err != nil {
		return notDone(err, s.Path)
	}
	content.Preview, content.Change = p.Preview(), of.Change
	if err := v.addDecision(&content, of, p); err != nil {
		return err
	}
	return v.show("ask", content.Title, content)
}

// doDeed carries out a deed, with a reason if required.
func (v *visit) doDeed() error {
	d, s, err := v.deedAsked()
	if err != nil {
		return err
	}
	if d.facts().Danger {
		if err := v.fresh(v.URL.Path); err != nil {
			return err
		}
	}
	says := v.why
	if d.reason(s) {
		says = v.reason
	}
	reason, err := says()
	if err != nil {
		return err
	}
	switch {
	case v.PostForm.Has("mandate") && v.PostForm.Get("mandate") != s.MandateID:
		return changedMeanwhile.at(s.Path)
	case !d.may(s):
		return notAsItStands.at(s.Path)
	}
	note, err := v.perform(d, s, reason)
	v.changed()
	if err != nil {
		return notDone(err, s.Path)
	}
	return v.done(note, s.Path)
}

// notDone says why something about the payer at a path was not done.
func notDone(err error, path string) error {
	var told problem
	if errors.As(err, &told) || state.Unwritable(err) {
		return err
	}
	is := problem{Status: http.StatusConflict, Title: "The action failed", Path: path, err: err}
	say := func(sentence, next string) { is.Sentence, is.Next, is.err = sentence, next, nil }
	const look = "Open the payer again."
	if sentence, next := decisionProblem(err); sentence != "" {
		say(sentence, next)
		return is
	}
	switch {
	case errors.Is(err, admin.ErrRole):
		is.Status = http.StatusForbidden
		say("Your role does not include this. Nothing was changed.", "Ask an administrator of these pages.")
	case errors.Is(err, syncer.ErrReasonNeeded):
		say("The payer's mandate was cancelled, so a new request needs a reason. Nothing was sent.",
			"Go back, and write why the payer signs again.")
	case errors.Is(err, syncer.ErrHasMandate):
		say("The payer has already signed. payersync requested no signing link.", look)
	case errors.Is(err, syncer.ErrOtherMandate):
		say("Somebody else made the same request, or the billing service has another mandate. Nothing was sent.", look)
	case errors.Is(err, syncer.ErrAsking):
		say("Somebody else is requesting a signing link. Nothing was sent.", "Try again in a minute.")
	case errors.Is(err, admin.ErrNoMandate):
		say("The payer has no mandate. Nothing was sent.", look)
	case errors.Is(err, admin.ErrNothingToTake), errors.Is(err, admin.ErrNoWriteback):
		say("payersync may write to the field already. Nothing was changed.", look)
	case errors.Is(err, state.ErrNoPayer):
		say("The payer has no customer yet. Nothing was changed.", "Wait for the next run.")
	case errors.Is(err, admin.ErrGivenUp), errors.Is(err, syncer.ErrLeftOut), errors.Is(err, syncer.ErrNothingToClose),
		errors.Is(err, syncer.ErrNotCancelled), errors.Is(err, syncer.ErrNotLinked):
		say("This is not possible for the payer now. Nothing was changed.", look)
	case errors.Is(err, syncer.ErrNothingToUndo), errors.Is(err, syncer.ErrNotKept), errors.Is(err, syncer.ErrNeverSent),
		errors.Is(err, syncer.ErrNothingBefore), errors.Is(err, syncer.ErrNotItsCustomer):
		say(capital(fmt.Sprintf("%v. Nothing was changed.", err)), look)
	case connector.FaultOf(err) == connector.FaultUnknown:
		is.Status, is.Sentence, is.Next = http.StatusBadGateway,
			"The billing service did not answer, so the outcome is unknown.",
			"payersync checks this by itself. Look at the payer in an hour."
	case connector.FaultOf(err) == connector.FaultUnavailable:
		is.Status, is.Sentence, is.Next = http.StatusBadGateway,
			"The billing service cannot be reached just now. Nothing was changed.", "Try again in some minutes."
	default:
		is.Sentence, is.Next = "The billing service refused it, or it is not possible for the payer now. See the log of payersync.", look+" If it stays, ask the operator of payersync."
	}
	return is
}

// showRaw shows a source record unchanged. The audit log has the visitor first.
func (v *visit) showRaw() error {
	row, err := v.theRecord()
	if err != nil {
		return err
	}
	raw, err := admin.RawRecord(v.Context(), v.ledger(), row.ID(), v.User.Name)
	if err != nil {
		return err
	}
	return v.show("raw", "The record as it was read",
		struct{ ID, Connection, Raw, Back string }{row.SourceID, row.Connection, raw, payerPath(row.ID())})
}

// noExplainer is for pages without mapping files.
func noExplainer(context.Context, string) (admin.Explainer, error) {
	return admin.Explainer{}, nil
}
