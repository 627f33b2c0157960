package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
)

// NotAsked is how many payers of a connection without a mandate the newest plan does not ask for one, and why.
type NotAsked struct {
	Connection string               `json:"connection"`
	Why        connector.WhyUnasked `json:"why"`
	File       string               `json:"file,omitempty"` // the mapping with the rule
	Line       int                  `json:"line,omitempty"` // of the rule; 0 if the mapping has none
	Condition  string               `json:"condition,omitempty"`
	Payers     int                  `json:"payers"`
	Sentence   string               `json:"sentence"`
}

// MappingFiles returns the mapping file of a connection; "" if unknown.
type MappingFiles func(connection string) string

// NotAskedBy returns the rules against asking payers, with their numbers of payers, most first. connection is "" for
// all.
func NotAskedBy(ctx context.Context, ledger *state.Ledger, connection string, files MappingFiles) ([]NotAsked, error) {
	counts, err := ledger.UnaskedCounts(ctx, connection)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, c := range counts {
		if _, known := texts[c.Mapping]; known || c.Why != connector.UnaskedRule {
			continue
		}
		if texts[c.Mapping], err = mappingText(ctx, ledger, c.Mapping); err != nil {
			return nil, err
		}
	}
	return ExplainUnasked(counts, texts, files), nil
}

// ExplainUnasked returns counts of payers that are not asked with the rules in words. texts are those of the
// mappings, by their versions.
func ExplainUnasked(counts []state.UnaskedCount, texts map[string]string, files MappingFiles) []NotAsked {
	out := make([]NotAsked, len(counts))
	for i, c := range counts {
		n := NotAsked{Connection: c.Connection, Why: c.Why, Payers: c.Payers}
		if c.Why == connector.UnaskedRule {
			n.File, n.Line = fileOf(files, c.Connection), c.Line
			n.Condition = mapping.AskingCondition([]byte(texts[c.Mapping]), c.Condition)
		}
		n.Sentence = n.sentence()
		out[i] = n
	}
	return out
}

// mappingText returns the text of a mapping version; "" if unreadable.
func mappingText(ctx context.Context, ledger *state.Ledger, version string) (string, error) {
	if ledger.Sealed() {
		return "", nil
	}
	m, err := ledger.FindMapping(ctx, version)
	if errors.Is(err, state.ErrNoMapping) {
		err = nil
	}
	return m.Text, err
}

func fileOf(files MappingFiles, connection string) string {
	if files == nil {
		return ""
	}
	if path := files(connection); path != "" {
		return filepath.Base(path)
	}
	return ""
}

// sentence says how many are not asked, and names the rule.
func (n NotAsked) sentence() string {
	are := fmt.Sprintf("%d payers are not asked", n.Payers)
	if n.Payers == 1 {
		are = "1 payer is not asked"
	}
	return are + ": " + n.Reason() + "."
}

// Reason names the cause for not asking them: a rule with its file and line, a missing e-mail address, or a
// person.
func (n NotAsked) Reason() string {
	switch n.Why {
	case connector.UnaskedNoEmail:
		return "no contact has an e-mail address"
	case connector.UnaskedPerson:
		return "a person decided so"
	}
	rule := connector.AskingRule(n.File, n.Line)
	if n.Condition != "" {
		rule += " (asked only if " + n.Condition + ")"
		if n.Condition == mapping.AsksNobody {
			rule = connector.AskingRule(n.File, n.Line) + " asks nobody"
		}
	}
	return rule
}

// askings are the decisions of acts, with their names in the audit log.
var askings = map[connector.Act]struct {
	decision connector.AskDecision
	action   string
}{
	connector.ActAsk:       {connector.Ask, "ask payer for mandate"},
	connector.ActAskNot:    {connector.DoNotAsk, "do not ask payer for mandate"},
	connector.ActAskByRule: {connector.AskByRule, "let mapping decide on mandate"},
}

// proposeAsking notes whether a payer is asked for a mandate. Nothing is sent: the next plan shows what follows.
func (a *Attention) proposeAsking(_ context.Context, p *Proposal) error {
	id, of := p.Record, askings[p.Act]
	p.perform = func(ctx context.Context, by syncer.Operator, out *ActResult) (err error) {
		if out.MandateID, err = a.mandateOf(ctx, id); err != nil {
			return err
		}
		return a.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
			out.News, err = tx.DecideAsking(id, of.decision, aboutRecord(by, of.action, id))
			return err
		})
	}
	return nil
}
