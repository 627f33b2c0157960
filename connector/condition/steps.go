package condition

// Do names an action of a person about a condition. The command line shows it as a command.
type Do string

// The actions. A comment names the subject of those that have one.
const (
	DoApproveLetters   Do = "approve_letters"
	DoApprovePlan      Do = "approve_plan" // Of: the plan
	DoCheck            Do = "check"
	DoCheckMapping     Do = "check_mapping"
	DoConnect          Do = "connect" // gives a consent again
	DoFinishMatching   Do = "finish_matching"
	DoListDeliveries   Do = "list_deliveries"
	DoListFindings     Do = "list_findings" // Of: the reason, or "" for all
	DoListUnclear      Do = "list_unclear"  // letters
	DoListWritebacks   Do = "list_writebacks"
	DoMatch            Do = "match"
	DoMoveBooks        Do = "move_books" // Of: the other connection
	DoPlanLetters      Do = "plan_letters"
	DoPlanWriteback    Do = "plan_writeback"
	DoProbe            Do = "probe" // writes to a customer, and reads it
	DoReplay           Do = "replay"
	DoResumeLetters    Do = "resume_letters"
	DoSeparateBooks    Do = "separate_books" // Of: the other connection
	DoServe            Do = "serve"
	DoShapes           Do = "shapes"     // of deliveries
	DoShowPayer        Do = "show_payer" // Of: the record
	DoShowPlan         Do = "show_plan"  // Of: the plan
	DoStatus           Do = "status"
	DoSubscribe        Do = "subscribe"
	DoSweep            Do = "sweep"
	DoTestWay          Do = "test_way" // Of: the way
	DoTrustWhatIsShown Do = "trust"
)

// Step is an action of a person about a condition, with its subject and connection.
type Step struct {
	Do         Do
	Of         string
	Connection string
}
