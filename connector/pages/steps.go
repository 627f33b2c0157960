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
	connector.DoApproveLetters: {"/mandates/letters", "See letters"},
	connector.DoApprovePlan:    {"/plans/", "See plan"},
	connector.DoCheck:          {"/settings", "See settings"},
	connector.DoCheckMapping:   {"/mapping", "See mapping"},
	connector.DoConnect:        {"/settings", "See connections"},
	connector.DoFetchLinks:     {"/mandates/links", "Fetch signing links"},
	connector.DoFinishMatching: {"/matches", "Match customers"},
	connector.DoListDeliveries: {"/webhooks", "See webhooks"},
	connector.DoListFindings:   {"/todo/", "See payers"},
	connector.DoListPlans:      {"/plans", "See plans"},
	connector.DoListRuns:       {"/runs", "See runs"},
	connector.DoListUnclear:    {"/mandates/letters", "See letters"},
	connector.DoListWritebacks: {"/mandates/writeback/", "See write-backs"},
	connector.DoMatch:          {"/matches", "Match customers"},
	connector.DoMoveBooks:      {"/connections/move", "Move payers"},
	connector.DoPlan:           {"/runs", "Start a run"},
	connector.DoPlanLetters:    {"/mandates/letters", "See letters"},
	connector.DoPlanWriteback:  {"/mandates/writeback/", "See write-backs"},
	connector.DoPreviewMapping: {"/mapping", "See mapping"},
	connector.DoReplay:         {"/webhooks", "See webhooks"},
	connector.DoResumeLetters:  {"/mandates/letters", "See letters"},
	connector.DoSend:           {"/runs", "Start a run"},
	connector.DoServe:          {"/settings", "See settings"},
	connector.DoShapes:         {"/webhooks", "See webhooks"},
	connector.DoShowPayer:      {"/payers/", "See payer"},
	connector.DoShowPlan:       {"/plans/", "See plan"},
	connector.DoStatus:         {"/settings", "See settings"},
	connector.DoSubscribe:      {"/webhooks", "See webhooks"},
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
