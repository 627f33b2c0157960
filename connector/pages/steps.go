package pages

import (
	"net/url"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// leads is a link in words.
type leads struct{ Path, Label string }

// stepPages are the pages on which people do a step, or see its subject. The other steps are for the operator of
// payersync, who gets a command.
var stepPages = map[connector.Do]leads{
	connector.DoApproveLetters: {"/mandates/letters", "Look at the letters"},
	connector.DoApprovePlan:    {"/plans/", "Look at the plan"},
	connector.DoCheck:          {"/settings", "Look at the settings"},
	connector.DoCheckMapping:   {"/mapping", "Look at the mapping"},
	connector.DoConnect:        {"/settings", "Look at the connections"},
	connector.DoFetchLinks:     {"/mandates/links", "Fetch the signing links"},
	connector.DoFinishMatching: {"/matches", "Match the customers"},
	connector.DoListDeliveries: {"/webhooks", "Look at the webhooks"},
	connector.DoListFindings:   {"/todo/", "Look at the payers"},
	connector.DoListPlans:      {"/plans", "Look at the plans"},
	connector.DoListRuns:       {"/runs", "Look at the runs"},
	connector.DoListUnclear:    {"/mandates/letters", "Look at the letters"},
	connector.DoListWritebacks: {"/mandates/writeback/", "Look at the write-backs"},
	connector.DoMatch:          {"/matches", "Match the customers"},
	connector.DoMoveBooks:      {"/connections/move", "Move the payers"},
	connector.DoPlan:           {"/runs", "Start a run"},
	connector.DoPlanLetters:    {"/mandates/letters", "Look at the letters"},
	connector.DoPlanWriteback:  {"/mandates/writeback/", "Look at the write-backs"},
	connector.DoPreviewMapping: {"/mapping", "Look at the mapping"},
	connector.DoReplay:         {"/webhooks", "Look at the webhooks"},
	connector.DoResumeLetters:  {"/mandates/letters", "Look at the letters"},
	connector.DoSend:           {"/runs", "Start a run"},
	connector.DoServe:          {"/settings", "Look at the settings"},
	connector.DoShapes:         {"/webhooks", "Look at the webhooks"},
	connector.DoShowPayer:      {"/payers/", "Look at the payer"},
	connector.DoShowPlan:       {"/plans/", "Look at the plan"},
	connector.DoStatus:         {"/settings", "Look at the settings"},
	connector.DoSubscribe:      {"/webhooks", "Look at the webhooks"},
	connector.DoSync:           {"/runs", "Start a run"},
}

// leadTo returns the page of a step, if these pages have it.
func (p *Pages) leadTo(s connector.Step) leads {
	to := stepPages[s.Do]
	switch {
	case s.Do == connector.DoShowPayer && s.Connection != "":
		to.Path = payerPath(state.RecordID{Connection: s.Connection, SourceID: s.Of})
	case s.Do == connector.DoPlanWriteback:
		to.Path = writesPath(s.Connection, admin.WaitingWrites)
	case s.Do == connector.DoListWritebacks:
		to.Path = writesPath(s.Connection, admin.StuckWrites)
	case strings.HasSuffix(to.Path, "/") && s.Of == "":
		return leads{}
	case strings.HasSuffix(to.Path, "/"):
		to.Path += url.PathEscape(s.Of)
	}
	if !p.serves(to.Path) {
		return leads{}
	}
	return to
}

// serves reports whether these pages have an address: limited users do not have all of them.
func (p *Pages) serves(path string) bool {
	page, _, _ := strings.Cut(strings.ReplaceAll(path, "?", "#"), "#")
	return p.served[page] || slices.ContainsFunc([]string{"/todo/", "/plans/", "/payers/", "/mandates/writeback/"},
		func(of string) bool { return strings.HasPrefix(page, of) })
}

// firstPage returns the page of the first step that has one.
func (p *Pages) firstPage(steps []connector.Step) leads {
	for _, s := range steps {
		if to := p.leadTo(s); to.Path != "" {
			return to
		}
	}
	return leads{}
}

// command returns the command of a step as the operator of payersync types it; "" if nobody says how.
func (p *Pages) command(do connector.Do, connection string) string {
	if write := p.cfg.Expected().Command; write != nil {
		return write(connector.Step{Do: do, Connection: connection})
	}
	return ""
}
