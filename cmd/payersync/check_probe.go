package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/billing"
	"payersync/state"
)

// checkFlags are how check was called.
type checkFlags struct {
	probe    bool
	customer string // a scratch customer that may be written to; "" for none
	yes      bool
}

// checkDialect compares the service with billing.dialect, by reads alone. Uncertain findings are reported
// only if they keep lists from being read, or make updates look like edits of other people.
func checkDialect(ctx context.Context, s *session.Session) []finding {
	found, err := s.Billing.ProbeList(ctx)
	var out []finding
	for _, f := range found {
		switch {
		case !f.Differs():
		case f.Certainty == billing.Proven || keepsFromReading(f.Setting):
			out = append(out, otherwise(f))
		case f.Setting == "dialect.read_only":
			d := otherwise(f)
			d.OK, d.Warning = true, true
			out = append(out, d)
		}
	}
	switch {
	case len(out) > 0:
	case err == nil:
		out = append(out, tell("dialect", "all reads agree with billing.dialect"+untried(found), nil))
	case connector.FaultOf(err) != connector.FaultUnauthorized: // already reported
		out = append(out, tell("dialect", "", explainFault(err)))
	}
	return out
}

// untried names the settings of calls that need a trial.
func untried(found []billing.Finding) string {
	var names []string
	for _, f := range found {
		if name := strings.TrimPrefix(f.Setting, "dialect."); f.Certainty == billing.Unknown &&
			slices.Contains([]string{"update", "mandate_link", "cancel"}, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; " + strings.Join(names, ", ") + " show only in use, or by payersync check --probe --allow-writes CUSTOMER"
}

// keepsFromReading reports whether a wrong setting keeps the list of customers from being read.
func keepsFromReading(setting string) bool {
	return strings.HasPrefix(setting, "dialect.list.") || setting == "dialect.api_auth"
}

func otherwise(f billing.Finding) finding {
	return finding{
		Check: "dialect", Detail: fmt.Sprintf("billing.%s is %s, and the service looks like %s: %s", f.Setting,
			orBlank(f.Configured), orBlank(f.Found), f.How),
		Next: fmt.Sprintf("set billing.%s: %s; payersync check --probe prints all of it to paste", f.Setting, yamlOf(f)),
	}
}

func orBlank(value string) string {
	if value == "" {
		return "blank"
	}
	return value
}

// yamlOf is how a value is written in the configuration.
func yamlOf(f billing.Finding) string {
	value := f.Found
	value = cmp.Or(value, f.Configured)
	if f.Setting == "dialect.read_only" || f.Setting == "webhook.events" {
		return "[" + value + "]"
	}
	if value == "" || strings.ContainsAny(value, " :#[]{},") || show.Visible(value) != value {
		return fmt.Sprintf("%q", value)
	}
	return value
}

// probe prints the result for every open point, and fails when the configuration says otherwise.
func (a *app) probe(ctx context.Context, s *session.Session, f checkFlags) error {
	a.Print("Looking at %s: at most %d requests that read.", plainAddress(s.Config.Billing.BaseURL), billing.ProbesMost)
	found, err := s.Billing.Probe(ctx)
	if err != nil {
		a.printFindings(found)
		return fmt.Errorf("the probe could not go on: %w", explainFault(err))
	}
	var trial billing.Trial
	if f.customer != "" {
		if slices.ContainsFunc(found, func(f billing.Finding) bool { return f.Differs() && f.Certainty == billing.Proven }) {
			a.printFindings(found)
			return fmt.Errorf("nothing was written to %s: first correct the settings that differ, then probe again",
				show.Visible(f.customer))
		}
		trial, err = a.tryOut(ctx, s, f)
		if err != nil && len(trial.Findings) == 0 {
			return errors.Join(err, judgeTrial(trial))
		}
		found = settled(found, trial.Findings)
	}
	a.printFindings(found)
	clock := checkClock(s)
	a.printEnd(pasteLines(found), clock)
	judged := errors.Join(judgeTrial(trial), judgeFindings(found))
	if f.customer != "" && len(trial.Findings) > 0 { // somebody said yes
		err = errors.Join(err, noteOutcome(ctx, s, f.customer, found, trial))
	}
	for _, c := range clock {
		if !c.OK {
			judged = errors.Join(judged, errors.New(c.Detail))
		}
	}
	return errors.Join(err, judged)
}

// noteOutcome stores a trial's results in the audit log, by the names of settings and members alone.
func noteOutcome(ctx context.Context, s *session.Session, customer string, found []billing.Finding,
	trial billing.Trial) error {
	var said []string
	if names := differing(found); len(names) > 0 {
		said = append(said, "the service is not as the configuration says: "+strings.Join(names, ", "))
	}
	if len(trial.Lost) > 0 {
		said = append(said, fmt.Sprintf("payersync replaced a customer by itself, and it came back with another %s",
			strings.Join(trial.Lost, ", ")))
	}
	if trial.Left != "" {
		said = append(said, "the customer was left "+trial.Left)
	}
	if len(said) == 0 {
		said = append(said, "nothing is otherwise than the configuration says")
	}
	return admin.Audit(context.WithoutCancel(ctx), s.Ledger, state.Entry{Actor: actor(), Action: "probed by writing", Subject: customer,
		Reason: strings.Join(said, "; ")})
}

func judgeTrial(trial billing.Trial) error {
	switch {
	case len(trial.Lost) > 0:
		return fmt.Errorf("payersync replaced a customer by itself, and it came back with another %s: updates would lose other people's values. Correct the customer in the service's own pages, and %s", strings.Join(trial.Lost, ", "), "compare billing.dialect with the service's documentation")
	case trial.Left != "":
		return fmt.Errorf("the scratch customer was left %s; look at it in the service's own pages", trial.Left)
	}
	return nil
}

// differing names the settings certainly different from the configuration.
func differing(found []billing.Finding) (names []string) {
	for _, f := range found {
		if f.Differs() && (f.Certainty == billing.Proven || keepsFromReading(f.Setting)) {
			names = append(names, "billing."+f.Setting)
		}
	}
	return names
}

func judgeFindings(found []billing.Finding) error {
	names := differing(found)
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("the service differs from the configuration: %s; the right setting is printed with each",
		strings.Join(names, ", "))
}

// settled replaces read results by tried ones.
func settled(found, tried []billing.Finding) []billing.Finding {
	for _, t := range tried {
		i := slices.IndexFunc(found, func(f billing.Finding) bool { return f.Setting == t.Setting })
		switch {
		case i < 0:
			found = append(found, t)
		case t.Certainty != billing.Unknown:
			found[i] = t
		}
	}
	return found
}

// tryOut writes to a scratch customer, after announcing its writes.
func (a *app) tryOut(ctx context.Context, s *session.Session, f checkFlags) (billing.Trial, error) {
	name, err := notServed(ctx, s, f.customer)
	if err != nil {
		return billing.Trial{}, err
	}
	steps := s.Billing.TrialSteps(f.customer)
	for _, step := range steps {
		a.Print("  - %s", step)
	}
	if yes, err := a.Confirms(ctx, f.yes, "Nothing was written",
		fmt.Sprintf("Do this to the customer %s, %s?", show.Visible(f.customer), show.Visible(name))); err != nil || !yes {
		return billing.Trial{}, err
	}
	audit := func(action string) error {
		return admin.Audit(ctx, s.Ledger, state.Entry{Actor: actor(), Action: action, Subject: f.customer})
	}
	if err := audit("probe by writing"); err != nil {
		return billing.Trial{}, err
	}
	trial, err := s.Billing.ProbeByWriting(ctx, f.customer)
	if trial.Tripped {
		way := state.UpdateFormat{Address: s.Config.Account().Address, Spelling: s.Billing.UpdateWay()}
		err = errors.Join(err, s.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) error {
			known, err := tx.KnownToMove(trial.Lost)
			if err != nil {
				return err
			}
			return tx.SaveRoundTrip(way, tripOfTrial(f.customer, trial, known))
		}))
	}
	return trial, err
}

// tripOfTrial returns a trial's findings about updates, without the fields known to change with each. A loss
// is certain: nobody edits a customer made for trials.
func tripOfTrial(customer string, trial billing.Trial, known []string) state.Verification {
	lost := slices.DeleteFunc(slices.Clone(trial.Lost), func(path string) bool { return slices.Contains(known, path) })
	return state.Verification{By: state.TripProbe, Subject: customer, Survived: trial.Survived, Lost: lost,
		Sure: len(lost) > 0}
}

// notServed refuses a customer linked to a payer, and returns the name of any other.
func notServed(ctx context.Context, s *session.Session, id string) (name string, err error) {
	customer, err := s.Billing.Customer(ctx, id)
	switch {
	case connector.FaultOf(err) == connector.FaultNotFound:
		return "", usage.Errorf("--allow-writes %s: the billing service has no such customer; make one for trying things out in the service's own pages, and give its id", show.Visible(id))
	case err != nil:
		return "", fmt.Errorf("--allow-writes %s: %w", show.Visible(id), explainFault(err))
	}
	ours, err := ourKeys(ctx, s)
	if err != nil {
		return "", err
	}
	for name := range customer.ExternalData {
		if slices.Contains(ours, name) {
			return "", usage.Errorf("--allow-writes %s: this customer has %s, which marks payersync's own; make a test customer without it", show.Visible(id), show.Visible(name))
		}
	}
	return customer.Name, s.Ledger.EachPayer(ctx, state.Filter{}, func(p state.PayerRow) error {
		if p.BillingID != nil && *p.BillingID == id || p.KeyValue != "" && customer.ExternalData[p.KeyName] == p.KeyValue {
			return usage.Errorf("--allow-writes %s: this is the customer of a payer, record %s of %s; make a customer for trying things out in the service's own pages, and give its id",
				show.Visible(id), show.Visible(p.SourceID), p.Connection)
		}
		return nil
	})
}

// ourKeys returns the keys of the configured connections, and the keys of their scopes.
func ourKeys(ctx context.Context, s *session.Session) ([]string, error) {
	var keys []string
	for _, c := range s.Config.Connections {
		conn, err := s.Source(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("cannot find out which keys belong to payersync: %w", err)
		}
		m, err := session.LoadMapping(c.Mapping, conn.Info, s.Config.Billing.Dialect.Dialect)
		if err != nil {
			return nil, fmt.Errorf("cannot find out which keys belong to payersync: %w", err)
		}
		keys = append(keys, m.KeyName(), connector.ScopeName(m.KeyName()))
	}
	return keys, nil
}

func (a *app) printFindings(found []billing.Finding) {
	if a.JSON() {
		_ = show.Lines(a.Out, found) // as for every list: a closed reader is no error
		return
	}
	for _, f := range found {
		mark, detail := "same", f.How
		switch {
		case f.Differs() && f.Certainty == billing.Likely && !keepsFromReading(f.Setting):
			mark, detail = a.Toned(show.Alert, "hint"),
				fmt.Sprintf("is %s, and looks like %s: %s", orBlank(f.Configured), orBlank(f.Found), f.How)
		case f.Differs():
			mark, detail = a.Toned(show.Bad, "DIFF"),
				fmt.Sprintf("is %s, and should be %s: %s", orBlank(f.Configured), orBlank(f.Found), f.How)
		case f.Certainty == billing.Unknown:
			mark, detail = "?   ", f.How
		}
		a.Hanging(fmt.Sprintf("%s  %-26s ", mark, strings.TrimPrefix(f.Setting, "dialect.")), show.Visible(detail))
	}
}

// probeEnd is the last line of a probe's JSON; its keys are public.
type probeEnd struct {
	Paste []string `json:"paste"`           // lines of the block below billing
	Clock *finding `json:"clock,omitempty"` // this computer's clock against the service's, if known
}

// printEnd prints the clock and the block to paste.
func (a *app) printEnd(paste []string, clock []finding) {
	if a.JSON() {
		end := probeEnd{Paste: paste}
		if len(clock) > 0 {
			end.Clock = &clock[0]
		}
		_ = show.JSON(a.Out, end) // as of the findings
		return
	}
	for _, c := range clock {
		mark := "same"
		if !c.OK {
			mark = a.Toned(show.Bad, "DIFF")
		}
		a.Hanging(fmt.Sprintf("%s  %-26s ", mark, c.Check), c.Detail)
	}
	fmt.Fprintln(a.Out, "\nTo paste below billing:")
	for _, line := range paste {
		fmt.Fprintln(a.Out, line)
	}
}

// pasteLines returns the block to paste, line by line, indented for its place below billing.
func pasteLines(found []billing.Finding) []string {
	lines, listed := []string{"  dialect:"}, false
	for _, f := range found {
		key, nested := strings.CutPrefix(strings.TrimPrefix(f.Setting, "dialect."), "list.")
		if !nested {
			continue
		}
		if !listed {
			lines, listed = append(lines, "    list:"), true
		}
		value, comment := yamlOf(f), notProven[f.Certainty]
		if f.Found == "another name" {
			value, comment = yamlOf(billing.Finding{Setting: f.Setting, Configured: f.Configured}),
				"  # wrong, and the right name is not known"
		}
		lines = append(lines, fmt.Sprintf("      %s: %s%s", key, value, comment))
	}
	for _, f := range found {
		if key, ofDialect := strings.CutPrefix(f.Setting, "dialect."); ofDialect && !strings.HasPrefix(key, "list.") {
			lines = append(lines, fmt.Sprintf("    %s: %s%s", key, yamlOf(f), notProven[f.Certainty]))
		}
	}
	for _, f := range found {
		if key, ofWebhook := strings.CutPrefix(f.Setting, "webhook."); ofWebhook && f.Differs() {
			lines = append(lines, "  webhook:  # of what is there, this alone",
				fmt.Sprintf("    %s: %s%s", key, yamlOf(f), notProven[f.Certainty]))
		}
	}
	return lines
}

// notProven marks uncertain settings in the block to paste.
var notProven = map[billing.Certainty]string{billing.Likely: "  # likely",
	billing.Unknown: "  # not known: as configured"}
