package connector

import "slices"

// Do names an action of a person. The command line shows it as a command, and the pages show it as a link.
type Do string

// The actions. A comment names the subject of those that have one.
const (
	DoApplyAccount     Do = "apply_account" // a folder of the operator's
	DoApproveLetters   Do = "approve_letters"
	DoApprovePlan      Do = "approve_plan" // Of: the plan
	DoCheck            Do = "check"
	DoCheckMapping     Do = "check_mapping"
	DoConnect          Do = "connect"          // gives a consent again
	DoConnectByPaste   Do = "connect_paste"    // without an address on this machine
	DoContinueLetters  Do = "continue_letters" // after their journal was lost
	DoCopyLedger       Do = "copy_ledger"
	DoFetchLinks       Do = "fetch_links"
	DoFindPayer        Do = "find_payer"
	DoFinishMatching   Do = "finish_matching"
	DoFinishRekey      Do = "finish_rekey"
	DoGiveAccountKey   Do = "give_account_key"
	DoHandOver         Do = "hand_over"
	DoInit             Do = "init"
	DoListAccounts     Do = "list_accounts"
	DoListAlarms       Do = "list_alarms"
	DoListDeliveries   Do = "list_deliveries"
	DoListFindings     Do = "list_findings" // Of: the reason, or "" for all
	DoListPlans        Do = "list_plans"
	DoListRuns         Do = "list_runs"    // the pages alone have this
	DoListUnclear      Do = "list_unclear" // letters
	DoListWritebacks   Do = "list_writebacks"
	DoMatch            Do = "match"
	DoMoveBooks        Do = "move_books"  // Of: the other connection
	DoMoveLedger       Do = "move_ledger" // to the address or credentials of the configuration
	DoOpenPages        Do = "open_pages"  // by a new link
	DoPlan             Do = "plan"
	DoPlanLetters      Do = "plan_letters"
	DoPlanWriteback    Do = "plan_writeback"
	DoPreviewMapping   Do = "preview_mapping"
	DoProbe            Do = "probe"    // writes to a customer, and reads it
	DoRekeyTo          Do = "rekey_to" // a key of the operator's
	DoReplay           Do = "replay"
	DoResumeLetters    Do = "resume_letters"
	DoSend             Do = "send"           // the first payers
	DoSeparateBooks    Do = "separate_books" // Of: the other connection
	DoServe            Do = "serve"
	DoShapes           Do = "shapes"     // of deliveries
	DoShowPayer        Do = "show_payer" // Of: the record
	DoShowPlan         Do = "show_plan"  // Of: the plan
	DoStatus           Do = "status"
	DoSubscribe        Do = "subscribe"
	DoSweep            Do = "sweep"
	DoSync             Do = "sync"
	DoTestWay          Do = "test_way" // Of: the way
	DoTrustWhatIsShown Do = "trust"
	DoUndoMoveBooks    Do = "undo_move_books" // Of: the other connection
	DoVerify           Do = "verify"          // the ledger, or a backup
)

// Step is an action of a person about a condition, a record or an error, with its subject and connection.
type Step struct {
	Act        Act // on the record Of, instead of Do
	Do         Do
	Of         string
	Connection string
}

// advised is an error with the next steps of a person. Its text names no command: StepsOf returns the steps, and the
// caller shows them.
type advised struct {
	error
	steps []Step
}

func (a *advised) Unwrap() error { return a.error }

// Steps returns the next steps of a person.
func (a *advised) Steps() []Step { return a.steps }

// Advise adds the next steps of a person to an error. The last words of the error introduce them.
func Advise(err error, steps ...Step) error { return &advised{err, steps} }

// StepsOf returns the next steps of a person from all errors in a tree, each step once.
func StepsOf(err error) (steps []Step) {
	add := func(more []Step) {
		for _, s := range more {
			if !slices.Contains(steps, s) {
				steps = append(steps, s)
			}
		}
	}
	if of, ok := err.(interface{ Steps() []Step }); ok { // the branches below reach the wrapped errors
		add(of.Steps())
	}
	switch e := err.(type) { //nolint:errorlint // this walks the tree
	case interface{ Unwrap() error }:
		add(StepsOf(e.Unwrap()))
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			add(StepsOf(one))
		}
	}
	return steps
}
