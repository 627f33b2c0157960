package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// PlanProgress is a plan with how much of it is still to be done.
type PlanProgress struct {
	state.Plan
	state.Share
}

// PlanOf returns a plan with how much of it is still to be done.
func PlanOf(ctx context.Context, ledger *state.Ledger, p state.Plan) (PlanProgress, error) {
	share, err := ledger.ShareOf(ctx, p)
	return PlanProgress{p, share}, err
}

// Settled returns how many changes of the plan do not wait to be sent by it any more: they were sent, or are planned
// otherwise by now.
func (p PlanProgress) Settled() int { return p.Creates + p.Adopts + p.Updates + p.Links - p.Pending }

// Whole reports whether a plan must be approved completely or not at all: it drops records or payers, or was made with
// an edited profile.
func (p PlanProgress) Whole() bool { return p.Standstill() || p.Profile != "" }

// Approvable reports whether a person's yes means anything for the plan.
func (p PlanProgress) Approvable() bool {
	return (p.State == state.PlanWaiting || p.State == state.PlanRejected || p.State == state.PlanDraft) &&
		(p.Pending > p.Approved || p.Whole())
}

// Rejectable reports whether a person may reject the plan. A plan with removed records or lost payers sends nothing
// anyway.
func (p PlanProgress) Rejectable() bool {
	return p.Missing == 0 && (p.Lost == 0 && (p.State == state.PlanWaiting || p.State == state.PlanDraft) ||
		p.State == state.PlanApproved)
}

// Open reports whether changes of the plan wait to be sent by it.
func (p PlanProgress) Open() bool { return p.Pending > 0 }

// Requests returns the approximate number of requests for a plan's waiting changes. A new customer is written and read
// back; an existing one is read, written and read back; a link is requested once.
func (p PlanProgress) Requests() int { return 2*p.Creates + 3*(p.Adopts+p.Updates) + p.Links }

// Takes returns about how long sending takes at a rate of requests in a second.
func (p PlanProgress) Takes(rate float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(float64(p.Requests()) / rate * float64(time.Second)).Round(time.Second)
}

// Roughly returns a length of time in words, in seconds, minutes or hours.
func Roughly(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return connector.Plural(int(d.Round(time.Second)/time.Second), "second")
	case d < 2*time.Hour:
		return connector.Plural(int(d.Round(time.Minute)/time.Minute), "minute")
	}
	return connector.Plural(int(d.Round(time.Hour)/time.Hour), "hour")
}

// EachPlanned passes the unsent changes of a plan to do, customers first; a limit of 0 means all.
func EachPlanned(ctx context.Context, ledger *state.Ledger, plan state.Plan, limit int,
	do func(state.Change) error) error {
	return PageThrough(limit, func(lane string, after int64) ([]state.Change, error) {
		return ledger.PlanChanges(ctx, plan, lane, after, ChangesRead)
	}, do)
}

// EachListed passes the plan's changes no longer waiting to be sent by it, with their outcomes, to do; a limit of 0
// means all.
func EachListed(ctx context.Context, ledger *state.Ledger, plan state.Plan, limit int,
	do func(state.ListedChange) error) error {
	var after state.PlanPlace
	return eachPage(leftOf(limit),
		func() ([]state.ListedChange, error) { return ledger.ListedChanges(ctx, plan, after, ChangesRead) },
		func(c state.ListedChange) error { after = c.Place(); return do(c) })
}

// outcomeWords are the outcomes of changes as people read them.
var outcomeWords = map[state.ChangeOutcome]string{
	state.OutcomeWaiting: "waiting to be sent", state.OutcomeSent: "sent", state.OutcomeUnchanged: "nothing to send",
	state.OutcomeNoAnswer: "no answer yet",
	state.OutcomeRefused:  "refused", state.OutcomeFailed: "failed", state.OutcomePutOff: "put off",
	state.OutcomeReplaced: "replaced",
}

// OutcomeWord returns an outcome in words.
func OutcomeWord(o state.ChangeOutcome) string { return outcomeWords[o] }

// OutcomeOf describes the outcome of a plan's change, and names the other plan listing it now, if any.
func OutcomeOf(plan state.Plan, c state.ListedChange) string {
	word := OutcomeWord(c.Outcome)
	switch {
	case c.Plan <= plan.ID:
		return word
	case c.Outcome == state.OutcomePutOff:
		return fmt.Sprintf("%s to plan %d", word, c.Plan)
	}
	return fmt.Sprintf("put off to plan %d: %s", c.Plan, word)
}

// WhyOf explains a change's outcome; "" if unknown.
func WhyOf(c state.PastChange) string {
	if c.Detail != "" || c.Reason == "" {
		return c.Detail
	}
	return c.Reason.Sentence()
}

// OutcomesOf describes the numbers of changes by outcome; "" for none.
func OutcomesOf(counts map[state.ChangeOutcome]int) string {
	var parts []string
	for _, o := range state.Outcomes {
		if n := counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, OutcomeWord(o)))
		}
	}
	return strings.Join(parts, ", ")
}

// RunsText names runs in words; "" for none.
func RunsText(runs []int64) string {
	if len(runs) == 0 {
		return ""
	}
	ids := connector.Map(runs, func(r int64) string { return fmt.Sprint(r) })
	last := len(ids) - 1
	if last == 0 {
		return "run " + ids[0]
	}
	return "runs " + strings.Join(ids[:last], ", ") + " and " + ids[last]
}

// ChangesRead is how many changes a page of PageThrough has.
const ChangesRead = 256

// PageThrough passes on changes, page by page, customers first; a limit of 0 means all of them.
func PageThrough(limit int, page func(lane string, after int64) ([]state.Change, error),
	do func(state.Change) error) error {
	left := leftOf(limit)
	for _, lane := range []string{state.LaneCustomer, state.LaneMandate} {
		after := int64(0)
		if err := eachPage(left, func() ([]state.Change, error) { return page(lane, after) },
			func(c state.Change) error { after = c.ID; return do(c) }); err != nil {
			return err
		}
	}
	return nil
}

// leftOf returns how many elements a limit lets through; below 0 for all.
func leftOf(limit int) *int {
	if limit <= 0 {
		limit = -1
	}
	return &limit
}

// eachPage passes the elements of pages of ChangesRead to do, until left has come down to 0.
func eachPage[T any](left *int, read func() ([]T, error), do func(T) error) error {
	for {
		page, err := read()
		if err != nil {
			return err
		}
		for _, e := range page {
			if *left == 0 {
				return nil
			}
			if err := do(e); err != nil {
				return err
			}
			*left--
		}
		if len(page) < ChangesRead {
			return nil
		}
	}
}

// EachLost passes the payers lost by a plan to do; a limit of 0 means all.
func EachLost(ctx context.Context, ledger *state.Ledger, plan state.Plan, limit int,
	do func(state.LostPayer) error) error {
	after := ""
	return eachPage(leftOf(limit),
		func() ([]state.LostPayer, error) { return ledger.LostBy(ctx, plan, after, ChangesRead) },
		func(l state.LostPayer) error { after = l.SourceID; return do(l) })
}

// WhyLost says in words why a plan would lose a payer.
func WhyLost(l state.LostPayer) string {
	if l.Verdict == state.Excluded && l.Reason == "" {
		return "The mapping excludes the record, or it was removed from the accounting system."
	}
	return l.Reason.Sentence()
}

// Touched counts the existing customers changed by a plan, by field, largest numbers first.
func Touched(ctx context.Context, ledger *state.Ledger, plan state.Plan) ([]syncer.FieldCount, error) {
	return touched(ctx, ledger, plan, func(path string) string { return path })
}

// TouchedWords is Touched in the words of FieldWord: a customer counts once for each.
func TouchedWords(ctx context.Context, ledger *state.Ledger, plan state.Plan) ([]syncer.FieldCount, error) {
	return touched(ctx, ledger, plan, FieldWord)
}

func touched(ctx context.Context, ledger *state.Ledger, plan state.Plan,
	as func(path string) string) ([]syncer.FieldCount, error) {
	if plan.Adopts+plan.Updates == 0 {
		return nil, nil
	}
	counts := map[string]syncer.FieldCount{}
	// the others make customers, or change none
	for _, group := range []state.PlanGroup{state.GroupWatch, state.GroupAdopt, state.GroupUpdate} {
		for after := int64(0); ; {
			changes, err := ledger.PlanGroupChanges(ctx, plan, group, after, ChangesRead)
			if err != nil {
				return nil, err
			}
			for _, c := range changes {
				countFields(counts, c, as)
			}
			if len(changes) < ChangesRead {
				break
			}
			after = changes[len(changes)-1].ID
		}
	}
	return slices.SortedFunc(maps.Values(counts), func(a, b syncer.FieldCount) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), strings.Compare(a.Path, b.Path))
	}), nil
}

func countFields(counts map[string]syncer.FieldCount, c state.Change, as func(path string) string) {
	if c.Action == connector.ActionCreate {
		return
	}
	emptied := map[string]bool{} // by word; existing ones were met
	for _, d := range c.Diff {
		word := as(d.Path)
		emptied[word] = emptied[word] || d.To == ""
	}
	for word, blank := range emptied {
		f := counts[word]
		f.Path = word
		f.Changed++
		if blank {
			f.Emptied++
		}
		counts[word] = f
	}
}

// GroupCounts returns how many changes of a plan that were not sent yet are in each group.
func GroupCounts(ctx context.Context, ledger *state.Ledger, p PlanProgress) (map[state.PlanGroup]int, error) {
	switch {
	case p.Pending == 0:
		return nil, nil
	case p.Adopts+p.Updates+p.Alike == 0 && p.Settled() == 0: // no change is to be looked at first
		return map[state.PlanGroup]int{state.GroupCreate: p.Creates, state.GroupLink: p.Links}, nil
	}
	return ledger.PlanGroupCounts(ctx, p.Plan)
}

// ForViewers returns field changes as visible to viewers: names, the domains of e-mail addresses, and for other fields
// only the fact of a change.
func ForViewers(changes []connector.FieldChange, key string) []connector.FieldChange {
	out := make([]connector.FieldChange, len(changes))
	for i, d := range changes {
		shown := func(string) string { return NotShown }
		switch word := FieldWord(d.Path); {
		case IsBankField(d.Path):
		case word == "name", word == "contact", word == "who gets letters", d.Path == "externalData."+key:
			shown = func(s string) string { return s }
		case word == "e-mail":
			shown = MaskedEmail
		}
		out[i] = connector.FieldChange{Path: d.Path}
		if d.From != "" {
			out[i].From = shown(d.From)
		}
		if d.To != "" {
			out[i].To = shown(d.To)
		}
	}
	return out
}

// MaskedEmail returns an e-mail address with only the first letter before the @.
func MaskedEmail(s string) string {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return NotShown
	}
	first := []rune(s[:at])
	return string(first[:min(1, len(first))]) + "…" + s[at:]
}

// Alike returns our payers similar to the record of a create; none for other changes.
func Alike(ctx context.Context, ledger *state.Ledger, c state.Change) ([]state.Lookalike, error) {
	if c.Action != connector.ActionCreate {
		return nil, nil
	}
	return ledger.Lookalikes(ctx, c.Payer.Connection, c.Payer.SourceID)
}

// AlikeWords says in words what the record of a change has in common with another payer.
func AlikeWords(c state.Change, k state.Lookalike) string {
	var common []string
	if k.Name {
		common = append(common, "name")
	}
	if k.Email {
		common = append(common, "e-mail address")
	}
	said := fmt.Sprintf("same %s as record %s", strings.Join(common, " and "), k.SourceID)
	if k.Connection != c.Payer.Connection {
		said += " of " + k.Connection
	}
	if k.BillingID != "" {
		said += ", customer " + k.BillingID
	}
	if k.Left {
		said += ", which was removed from the accounting system"
	}
	return said
}

// ErrTogether means part of a plan was chosen that must be approved as a whole, see PlanProgress.Whole.
var ErrTogether = errors.New("it can only be approved as a whole")

// exactly calls do on a plan with the content shown to the person. If the content has changed, it fails with
// state.ErrPlanChanged and does nothing.
func exactly(ctx context.Context, ledger *state.Ledger, p PlanProgress, do func(*state.Tx) error) error {
	return ledger.DoAlone(ctx, func(tx *state.Tx) error {
		if err := tx.StillReads(p.ID, p.Reads); err != nil {
			return err
		}
		return do(tx)
	})
}

// Approver is the person approving a plan.
type Approver struct {
	Name     string
	FourEyes bool // the author of the mapping version may not approve
}

// ErrSameEyes means a person tried to approve a plan made with their own mapping version.
var ErrSameEyes = errors.New("who saved the mapping version of a plan does not approve it")

// May fails with ErrSameEyes if the approver saved the plan's mapping version. This includes saving on a page, also for
// another connection with the same version. For a version changed in the file, the starter of its first run counts. It
// ignores case.
func (a Approver) May(ctx context.Context, ledger *state.Ledger, p state.Plan) error {
	if !a.FourEyes {
		return nil
	}
	version, err := ledger.FindMapping(ctx, p.Mapping)
	switch {
	case errors.Is(err, state.ErrNoMapping): // then nobody has saved it
		return nil
	case err != nil:
		return err
	}
	savers, err := ledger.MappingSavers(ctx, version.Hash)
	if err == nil && slices.ContainsFunc(append(savers, version.Author),
		func(name string) bool { return strings.EqualFold(name, a.Name) }) {
		err = ErrSameEyes
	}
	return err
}

// Approve lets the changes of a plan go exactly as it was looked at, or fails with
// state.ErrPlanChanged or ErrSameEyes. Nothing is sent by it: the next run does.
func Approve(ctx context.Context, ledger *state.Ledger, p PlanProgress, by Approver) error {
	if err := by.May(ctx, ledger, p.Plan); err != nil {
		return err
	}
	return exactly(ctx, ledger, p, func(tx *state.Tx) error { return tx.Approve(p.ID, by.Name) })
}

// ApproveSome is Approve for some changes, by their ids; which describes them. The others wait for separate approval.
func ApproveSome(ctx context.Context, ledger *state.Ledger, p PlanProgress, ids []int64, by Approver, which string) error {
	if p.Whole() {
		return ErrTogether
	}
	if err := by.May(ctx, ledger, p.Plan); err != nil {
		return err
	}
	return exactly(ctx, ledger, p, func(tx *state.Tx) error { return tx.ApproveSome(p.ID, ids, by.Name, which) })
}

// Reject says no to a plan as it was looked at: nothing of it is sent while it says the same.
func Reject(ctx context.Context, ledger *state.Ledger, p PlanProgress, by, why string) error {
	return exactly(ctx, ledger, p, func(tx *state.Tx) error { return tx.Reject(p.ID, by, why) })
}
