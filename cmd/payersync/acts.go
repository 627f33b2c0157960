package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/health"
	"payersync/connector/syncer"
	"payersync/state"
)

// actCommands are the commands that perform acts. RECORD, OTHER, CUSTOMER and DELIVERY stand for the ids of the act,
// ANOTHER and PART for what the person adds.
var actCommands = map[connector.Act]string{
	connector.ActAccept:            "payers same RECORD CUSTOMER",
	connector.ActAdopt:             "payers same RECORD",
	connector.ActCancel:            "mandates cancel RECORD",
	connector.ActClose:             "attention close RECORD",
	connector.ActCloseDelivery:     "webhooks close DELIVERY",
	connector.ActCloseSubscription: "attention close webhooks",
	connector.ActForget:            "ledger forget RECORD --yes",
	connector.ActGiveUp:            "attention close --give-up RECORD",
	connector.ActIgnore:            "payers drift --ignore RECORD --part PART",
	connector.ActLink:              "payers same RECORD ANOTHER",
	connector.ActMerge:             "payers same RECORD --into OTHER",
	connector.ActReject:            "payers different RECORD CUSTOMER",
	connector.ActRekey:             "payers moved RECORD",
	connector.ActReplay:            "webhooks replay DELIVERY",
	connector.ActRequest:           "mandates request RECORD",
	connector.ActResume:            "letters bounced RECORD --undo",
	connector.ActRetry:             "attention retry RECORD",
	connector.ActSendOurs:          "payers drift --send RECORD",
	connector.ActSubscribe:         "webhooks subscribe",
	connector.ActTakeOver:          "payers moved RECORD --from OTHER",
	connector.ActTakeTheirs:        "payers drift --take RECORD",
	connector.ActTakeUp:            "attention close --give-up RECORD --undo",
	connector.ActTellApart:         "payers different RECORD --record OTHER",
	connector.ActUnforget:          "ledger forget --undo RECORD",
	connector.ActUnlink:            "payers different RECORD",

	connector.ActAllowLetters: "letters stop RECORD --undo",
	connector.ActAsk:          "payers ask RECORD",
	connector.ActAskByRule:    "payers ask RECORD --undo",
	connector.ActAskNot:       "payers ask RECORD --not",
	connector.ActKeep:         "payers different RECORD --keep",
	connector.ActReinstate:    "mandates reinstate RECORD",
	connector.ActSeparate:     "payers same RECORD --separate",
	connector.ActStopLetters:  "letters stop RECORD",
	connector.ActTakeBack:     "payers same RECORD CUSTOMER --undo",
	connector.ActTakeField:    "writeback take RECORD",
	connector.ActUndo:         "payers undo CHANGE",
}

// stepCommands are the commands of steps about conditions. OF and CONNECTION stand for the arguments of a step.
var stepCommands = map[connector.Do]string{
	connector.DoApplyAccount:     "accounts apply FOLDER",
	connector.DoApproveLetters:   "letters approve",
	connector.DoApprovePlan:      "plan approve OF",
	connector.DoCheck:            "check",
	connector.DoCheckMapping:     "mapping check CONNECTION",
	connector.DoConnect:          "connect CONNECTION",
	connector.DoConnectByPaste:   "connect --paste",
	connector.DoContinueLetters:  "letters continue --journal-lost --reason TEXT",
	connector.DoCopyLedger:       "ledger copy",
	connector.DoFetchLinks:       "mandates links --older 30d",
	connector.DoFindPayer:        "payers list --search",
	connector.DoFinishMatching:   "payers match --finish --connection CONNECTION",
	connector.DoFinishRekey:      "ledger rekey",
	connector.DoGiveAccountKey:   "accounts apply FOLDER --key-file FILE",
	connector.DoHandOver:         "mandates handover",
	connector.DoInit:             "init FOLDER",
	connector.DoListAccounts:     "accounts list",
	connector.DoListAlarms:       "alerts list",
	connector.DoListDeliveries:   "webhooks list",
	connector.DoListFindings:     "attention list --reason OF",
	connector.DoListPlans:        "plan list",
	connector.DoListUnclear:      "letters list --state unclear",
	connector.DoListWritebacks:   "writeback --connection CONNECTION",
	connector.DoMatch:            "payers match --connection CONNECTION",
	connector.DoMoveBooks:        "connections move OF CONNECTION",
	connector.DoMoveLedger:       "environment move --reason TEXT",
	connector.DoOpenPages:        "pages link",
	connector.DoPlan:             "plan CONNECTION",
	connector.DoPlanLetters:      "letters plan",
	connector.DoPlanWriteback:    "writeback plan --connection CONNECTION",
	connector.DoPreviewMapping:   "mapping preview CONNECTION",
	connector.DoProbe:            "check --probe --allow-writes CUSTOMER",
	connector.DoRekeyTo:          "ledger rekey --new-key FILE",
	connector.DoReplay:           "webhooks replay --quarantined",
	connector.DoResumeLetters:    "letters pause --undo",
	connector.DoSend:             "backfill CONNECTION",
	connector.DoSeparateBooks:    "connections move --separate OF CONNECTION --reason TEXT",
	connector.DoServe:            "serve",
	connector.DoShapes:           "webhooks list --shapes",
	connector.DoShowPayer:        "payers show OF",
	connector.DoShowPlan:         "plan show OF",
	connector.DoStatus:           "status",
	connector.DoSubscribe:        "webhooks subscribe",
	connector.DoSweep:            "sweep",
	connector.DoSync:             "sync",
	connector.DoTestWay:          "alerts test OF",
	connector.DoTrustWhatIsShown: "environment move --trust --reason TEXT",
	connector.DoUndoMoveBooks:    "connections move CONNECTION OF --undo",
	connector.DoVerify:           "ledger verify",
}

// stepCommand returns the command of a step; "" for a step of the pages alone.
func stepCommand(s connector.Step) string {
	if s.Act != "" {
		return strings.ReplaceAll("payersync "+actCommands[s.Act], "RECORD", cmp.Or(s.Of, "RECORD"))
	}
	line := "payersync " + stepCommands[s.Do]
	if stepCommands[s.Do] == "" {
		return ""
	}
	if s.Of == "" {
		line = strings.TrimSuffix(line, " --reason OF")
	}
	if s.Connection == "" {
		line = strings.TrimSuffix(line, " CONNECTION")
	}
	return strings.NewReplacer("OF", s.Of, "CONNECTION", s.Connection).Replace(line)
}

// stepsLine returns the commands of steps, in one line.
func stepsLine(steps []connector.Step) string {
	commands := slices.DeleteFunc(connector.Map(steps, stepCommand), func(c string) bool { return c == "" })
	return strings.Join(commands, " · ")
}

// withSteps returns a text with the commands of its steps behind it.
func withSteps(text string, steps []connector.Step) string {
	if stepsLine(steps) == "" {
		return text
	}
	return strings.TrimRight(text, ".:") + ": " + stepsLine(steps)
}

// limitsText returns the reasons why a plan waits, with the commands that end stops.
func limitsText(p *state.Plan) string { return withSteps(p.Limits, state.StepsOfStops(p.Stops)) }

// errorText returns the text of an error, with the commands of the next steps.
func errorText(err error) string { return withSteps(err.Error(), connector.StepsOf(err)) }

// conditionText returns a condition with the next step and its commands, in one line.
func conditionText(c health.Condition) string {
	return strings.TrimSpace(c.Text() + " " + stepsLine(c.Steps))
}

// asking says when a command asks before an act.
type asking int

// When a command asks.
const (
	asksInWalk     asking = iota // only todo asks: the command line is the person's yes
	asksAtTerminal               // elsewhere the command line is the person's yes
	asksAlways                   // without a terminal, --yes answers
)

// by returns the person at the terminal, with a reason.
func by(reason string) admin.By {
	return admin.By{Operator: syncer.Operator{Name: actor(), Reason: reason}, Role: admin.Admin}
}

// agrees shows the preview of an act and asks, if the command asks. It reports whether the person agrees.
func (a *app) agrees(ctx context.Context, p admin.Proposal, when asking, yes bool) (bool, error) {
	if a.walks {
		when = asksAlways
	}
	if when == asksInWalk {
		return true, nil
	}
	v := p.Preview()
	a.sayPreview(v)
	for _, of := range p.Successors {
		a.Print("To move the customer and its mandate there instead: payersync payers moved %s --from %s --reason TEXT",
			show.Visible(of.SourceID), show.Visible(p.Record.SourceID))
	}
	if when == asksAtTerminal && a.Unasked() != "" {
		return true, nil
	}
	about := show.Visible(cmp.Or(p.Record.SourceID, p.Delivery, admin.Subscription))
	sure, err := a.Confirms(ctx, yes, fmt.Sprintf("cannot do this for %s without a yes, so nothing was changed", about),
		v.Title+"?")
	if err == nil && !sure {
		a.Print("Nothing was changed.")
	}
	return sure, err
}

// act performs an act, after the person agrees. It reports false for a no.
func (a *app) act(ctx context.Context, s *session.Session, d admin.Decision, when asking, reason string,
	yes bool) (out admin.ActResult, sure bool, err error) {
	p, err := a.attentionOf(s).Propose(ctx, d)
	if err != nil {
		return out, false, err
	}
	if sure, err = a.agrees(ctx, p, when, yes); err == nil && sure {
		out, err = p.Perform(ctx, by(reason))
	}
	return out, sure, err
}

// sayPreview prints the effect of an act.
func (a *app) sayPreview(v admin.Preview) {
	for _, line := range slices.Concat([]string{v.Becomes}, v.Warnings, v.Notes) {
		a.Print("%s", show.Visible(line))
	}
	switch {
	case len(v.Changes) == 0:
	case v.Compares:
		a.Print("The values of the customer, and of the record:")
	default:
		a.Print("The customer's present and new values:")
	}
	for _, f := range v.Changes {
		a.Print("  %s: %q → %q", f.Path, show.Visible(f.From), show.Visible(f.To))
	}
	a.Print("%s", show.Visible(v.Sends))
	a.Print("%s", show.Visible(v.Undo))
}

// wordsOf returns the words of the command of a way out. A word in capitals stands for an id that the person must add,
// and why for the reason.
func wordsOf(w admin.WayOut) []string {
	ids := map[string]string{"RECORD": w.Decision.Record.SourceID, "OTHER": w.Decision.Other.SourceID,
		"CUSTOMER": w.Decision.Customer, "DELIVERY": w.Decision.Delivery}
	words := strings.Fields("payersync " + actCommands[w.Decision.Act])
	for i, word := range words {
		if id := ids[word]; id != "" {
			words[i] = id
		}
	}
	if w.Why {
		words = append(words, "--reason", "why")
	}
	return words
}

// commandLine returns the words of a command as a shell takes them.
func commandLine(words []string) string {
	line := connector.Map(words, shellWord)
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "--"):
			line[i] = word
		case word == "why" && words[i-1] == "--reason":
			line[i] = "'why'"
		}
	}
	return strings.Join(line, " ")
}

// plainWord matches a word that a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=][A-Za-z0-9_./:@%+=-]*$`)

// shellWord returns a text as one word of a shell.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// shownMatter is a matter with the commands of its ways out.
type shownMatter struct {
	admin.Matter
	Told []shownTelling `json:"told"`
}

// shownTelling is a finding with the commands of its ways out.
type shownTelling struct {
	admin.Telling
	Ways []shownWay `json:"ways"`
}

// shownWay is a way out with its command.
type shownWay struct {
	Command string `json:"command"`
	admin.WayOut

	words []string // of the command
}

// withCommands adds the commands to the ways out of a matter. With apart, they also name the connection, because
// another connection has a record with the same id.
func withCommands(root *cobra.Command, m admin.Matter, apart bool) shownMatter {
	out := shownMatter{Matter: m, Told: []shownTelling{}}
	for _, t := range m.Told {
		told := shownTelling{Telling: t, Ways: []shownWay{}}
		for _, w := range t.Ways {
			words := wordsOf(w)
			if apart {
				words = inConnection(root, words, m.Connection)
			}
			told.Ways = append(told.Ways, shownWay{commandLine(words), w, words})
		}
		out.Told = append(out.Told, told)
	}
	return out
}

// inConnection adds the connection to a command that has the flag.
func inConnection(root *cobra.Command, words []string, connection string) []string {
	c, _, err := root.Find(words[1:])
	if err != nil || c.Flags().Lookup("connection") == nil && c.InheritedFlags().Lookup("connection") == nil {
		return words
	}
	return append(words, "--connection", connection)
}

// printWays prints the ways out of a finding.
func (a *app) printWays(ways []shownWay) {
	for _, w := range ways {
		fmt.Fprintf(a.Out, "\n  %s\n      %s %s\n", show.Visible(w.Command), w.Does, w.Sends.Sentence())
	}
}
