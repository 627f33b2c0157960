package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/state"
)

// auditPage is how many lines of the audit log are read at a time.
const auditPage = 1000

// auditFilter chooses lines of the audit log.
type auditFilter struct {
	state.LogFilter
	since time.Time
}

func (a *app) auditCmd() *cobra.Command {
	var f auditFilter
	var since string
	c := &cobra.Command{
		Use:   "audit",
		Short: "List the actions of people, with names and reasons",
		Long: `Lists the audit log, the newest line first: every decision of a person at the terminal
or on the pages, with time, subject and reason. The command reads the ledger and
changes nothing. payersync ledger verify checks the lines for alterations.`,
		Example: `  payersync audit
  payersync audit --who anna --since 30d
  payersync audit --act "approve plan" --output csv > approvals.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runAudit(cmd, f, since) },
	}
	c.Flags().StringVar(&f.Actor, "who", "", "only acts of this person")
	c.Flags().StringVar(&f.Action, "act", "", "only this act, as the list names it")
	c.Flags().StringVar(&since, "since", "", "only since this `DATE` or time, or so long ago: 2026-11-20, 36h, 14d")
	limitFlag(c)
	return asCSV(c)
}

func (a *app) runAudit(cmd *cobra.Command, f auditFilter, since string) (err error) {
	if f.since, err = moment("since", since, a.now()); err != nil {
		return err
	}
	f.Limit = a.limitOf(cmd)
	return a.with(cmd.Context(), a.openReport, func(s *session.Session) error {
		return a.listAudit(cmd.Context(), s, f)
	})
}

// auditLine is a line of the audit log in JSON; its keys are public.
type auditLine struct {
	Line    int64     `json:"line"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Action  string    `json:"action"`
	Subject string    `json:"subject,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

func (a *app) listAudit(ctx context.Context, s *session.Session, f auditFilter) error {
	out := auditListing().On(a.Console)
	more, err := eachAudited(ctx, s.Ledger, f, func(lines []state.LoggedEntry) error {
		return out.Write(connector.Map(lines, func(l state.LoggedEntry) auditLine {
			return auditLine{l.Seq, l.At, l.Actor, l.Action, l.Subject, l.Reason}
		}))
	})
	if err == nil {
		err = out.End()
	}
	a.printMore(more, f.Limit)
	return err
}

// eachAudited passes pages of the matching lines to do, the newest first, and reports whether there are more
// than its limit.
func eachAudited(ctx context.Context, ledger *state.Ledger, f auditFilter,
	do func([]state.LoggedEntry) error) (more bool, err error) {
	left := f.Limit
	for {
		page := f.LogFilter
		if page.Limit = auditPage; f.Limit > 0 {
			page.Limit = min(auditPage, left+1)
		}
		lines, err := ledger.Log(ctx, page)
		if err != nil {
			return false, err
		}
		last := len(lines) < page.Limit
		for i, l := range lines {
			if l.At.Before(f.since) {
				lines, last = lines[:i], true
				break
			}
		}
		if f.Limit > 0 && len(lines) > left {
			lines, last, more = lines[:left], true, true
		}
		left -= len(lines)
		if err := do(lines); err != nil || last {
			return more, err
		}
		f.Before = lines[len(lines)-1].Seq
	}
}

// auditListing returns the list of lines of the audit log.
func auditListing() *show.Listing[auditLine] {
	return &show.Listing[auditLine]{Columns: []show.Column[auditLine]{
		show.Number("line", "", func(l auditLine) int64 { return l.Line }),
		show.Moment("at", "When", func(l auditLine) time.Time { return l.At }),
		{Name: "actor", Title: "Who", Cell: func(l auditLine) string { return l.Actor }},
		{Name: "action", Title: "Act", Cell: func(l auditLine) string { return l.Action }},
		{Name: "subject", Title: "Subject", Cell: func(l auditLine) string { return l.Subject }},
		{Name: "reason", Title: "Reason", Cell: func(l auditLine) string { return l.Reason }},
	}}
}
