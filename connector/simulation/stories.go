package simulation

import (
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
)

// story is a short sequence without chance, for placing crashes: the process may die at every commit and
// every call.
type story struct {
	name  string
	small bool // pairs of crashes are placed as well
	tell  func(*world)
}

// plan is the plan of a story: no chance but the ids.
func (s story) plan() plan {
	p := calm()
	if s.name == twoProcesses {
		p.processes = 2
	}
	return p
}

const twoProcesses = "two processes"

// do runs a step that fails only by the placed crash.
func (w *world) do(err error) {
	if err != nil {
		w.violate("harness", "%v", err)
	}
}

func (w *world) runs(kind connector.RunKind) {
	w.do(w.sync(w.procs[0], kind))
	w.oracle.check(w.procs[0])
}

func (w *world) syncs()  { w.runs(connector.RunSync) }
func (w *world) drains() { w.do(w.drain(w.procs[0])); w.oracle.check(w.procs[0]) }
func (w *world) sweeps() { w.do(w.sweep(w.procs[0])); w.oracle.check(w.procs[0]) }
func (w *world) hooks()  { w.do(w.deliver()); w.oracle.check(w.procs[0]) }

func (w *world) payers(n int) {
	for range n {
		w.do(w.addRecord())
	}
}

// edits changes the record of the first payer.
func (w *world) edits(edit func(*fields)) {
	f := w.books.fields("R1")
	edit(&f)
	w.putRecord("R1", f)
}

// mandate moves the latest mandate of the first customer with one.
func (w *world) mandate(do func(*sandbox.Sandbox, string) error) {
	for _, c := range w.service.Customers() {
		if n := len(c.Mandates); n > 0 {
			w.do(do(w.service, c.Mandates[n-1].ID))
			return
		}
	}
}

// once lets one fault strike the next request of an operation.
func (w *world) once(op string, f fault) { w.strikes = append(w.strikes, strike{op: op, fault: f}) }

// strike is a certain fault.
type strike struct {
	op    string
	fault fault
	id    string // that the request must name; "" for any
}

func (w *world) firstCustomer(edit func(sandbox.Customer)) {
	if all := w.service.Customers(); len(all) > 0 {
		edit(all[0])
	}
}

var (
	signs    = func(w *world) { w.mandate((*sandbox.Sandbox).Sign) }
	approves = func(w *world) { w.mandate((*sandbox.Sandbox).Approve) }
	revokes  = func(w *world) { w.mandate((*sandbox.Sandbox).PayerCancel) }
)

// stories are the stories for placing crashes.
var stories = []story{
	{"create", true, func(w *world) { w.payers(1); w.syncs() }},
	{"nothing to do", true, func(w *world) { w.syncs() }},
	{"two payers", false, func(w *world) { w.payers(2); w.syncs() }},
	{"twins", false, func(w *world) { w.payers(1); w.do(w.addTwin()); w.syncs(); w.do(w.operatorApart()); w.syncs() }},
	{"update", true, func(w *world) {
		w.payers(1)
		w.syncs()
		w.edits(func(f *fields) { f.Email = "new@payer.test" })
		w.syncs()
	}},
	{"update among what others wrote", false, func(w *world) {
		w.payers(1)
		w.syncs()
		w.do(w.foreignFields())
		w.edits(func(f *fields) { f.Name = "Payer R1 new" })
		w.syncs()
	}},
	{"adopt", true, func(w *world) { w.payers(1); w.do(w.foreignDouble()); w.syncs() }},
	{"create without an answer", false,
		func(w *world) { w.payers(1); w.once("create", faultLostResponse); w.syncs(); w.syncs() }},
	{"create that is lost", false,
		func(w *world) { w.payers(1); w.once("create", faultLostRequest); w.syncs(); w.syncs() }},
	{"create that is late", false,
		func(w *world) { w.payers(1); w.once("create", faultLate); w.syncs(); w.do(w.wait(maxLate)); w.syncs() }},
	{"create answered by a proxy", false,
		func(w *world) { w.payers(1); w.once("create", faultAfter); w.syncs(); w.syncs() }},
	{"create cut short", false, func(w *world) { w.payers(1); w.once("create", faultTruncated); w.syncs() }},
	{"create throttled", false, func(w *world) { w.payers(2); w.once("create", faultThrottled); w.syncs(); w.syncs() }},
	{"create, then an edit", false, func(w *world) {
		w.payers(1)
		w.once("create", faultLostResponse)
		w.once("create", faultLostResponse)
		w.syncs()
		w.edits(func(f *fields) { f.Name = "Payer R1 edited" })
		w.syncs()
	}},
	{"create, replayed after the window", false, func(w *world) {
		w.payers(1)
		w.once("create", faultLostResponse)
		w.once("create", faultLostResponse)
		w.syncs()
		w.do(w.wait(time.Hour))
		w.syncs()
	}},
	{"refused", false, func(w *world) { w.plan.poison = "R1"; w.payers(2); w.syncs() }},
	{"update without an answer", false, func(w *world) {
		w.payers(1)
		w.syncs()
		w.once("update", faultLostResponse)
		w.edits(func(f *fields) { f.Name = "Payer R1 new" })
		w.syncs()
		w.syncs()
	}},
	{"link without an answer", true, func(w *world) { w.payers(1); w.once("link", faultLostResponse); w.syncs() }},
	{"link that is lost", false, func(w *world) { w.payers(1); w.once("link", faultLostRequest); w.syncs(); w.syncs() }},
	{"mandate to active by webhooks", false, func(w *world) {
		w.payers(1)
		w.syncs()
		signs(w)
		w.hooks()
		w.drains()
		approves(w)
		w.hooks()
		w.drains()
	}},
	{"webhooks doubled", false, func(w *world) {
		w.payers(1)
		w.syncs()
		w.do(w.onHook(sandbox.Queue.Duplicate))
		w.hooks()
		w.drains()
	}},
	{"webhook before its customer is known", false, func(w *world) {
		w.payers(1)
		w.once("create", faultLostResponse)
		w.once("create", faultLostResponse)
		w.syncs()
		w.hooks()
		w.drains()
		w.syncs()
		w.drains()
	}},
	{"sweep repairs a status", false, func(w *world) {
		w.payers(1)
		w.syncs()
		signs(w)
		for range 2 {
			w.do(w.onHook(sandbox.Queue.Drop))
		}
		w.sweeps()
	}},
	{"payer cancels", false, func(w *world) {
		w.payers(1)
		w.syncs()
		signs(w)
		revokes(w)
		w.hooks()
		w.drains()
		w.syncs()
	}},
	{"operator cancels", false, func(w *world) { w.payers(1); w.syncs(); w.do(w.operatorCancel()) }},
	{"operator asks for a link", false, func(w *world) {
		w.payers(1)
		w.syncs()
		revokes(w)
		w.hooks()
		w.drains()
		w.do(w.operatorLink())
	}},
	{"mapping edited", false, func(w *world) { w.payers(2); w.syncs(); w.mapping = 1; w.syncs() }},
	{"customer deleted", false, func(w *world) {
		w.payers(2)
		w.syncs()
		w.firstCustomer(func(c sandbox.Customer) { w.oracle.taintCustomer(c.ID, "deleted"); w.do(w.service.Delete(c.ID)) })
		w.sweeps()
	}},
	{"key doubled", false, func(w *world) { w.payers(1); w.syncs(); w.do(w.foreignDouble()); w.sweeps(); w.syncs() }},
	{"plan waits for approval", false, func(w *world) {
		w.plan.guards = syncer.Guards{MaxCreates: 1}
		w.payers(2)
		w.silent = true
		w.syncs()
		w.do(w.operatorApprove())
		w.silent = false
		w.syncs()
	}},
	{"backup and restore", false, func(w *world) {
		w.payers(1)
		w.do(w.takeBackup())
		w.syncs()
		w.do(w.restoreBackup())
		w.syncs()
		w.do(w.wait(time.Hour))
		w.syncs()
	}},
	{"record archived", false, func(w *world) {
		w.payers(2)
		w.syncs()
		w.books.put("R1", w.books.fields("R1"), connector.RecordArchived, time.Now())
		w.syncs()
	}},
	{"token expires", false, func(w *world) { w.payers(1); w.syncs(); w.do(w.revoke()); w.payers(1); w.syncs() }},
	{twoProcesses, false, func(w *world) {
		w.payers(1)
		w.do(w.sync(w.procs[0], connector.RunSync))
		w.payers(1)
		w.do(w.sync(w.procs[1], connector.RunSync))
		w.syncs()
	}},
}

// calm is a plan without faults.
func calm() plan {
	p := draw(1)
	p.processes, p.crashes, p.cuts, p.poison, p.weather, p.retries, p.snapshot = 1, 0, 0, "", weather{}, -1, true
	p.tokenLife, p.switches, p.adopt = 24*time.Hour, sandbox.Standard(), syncer.AdoptPropose
	p.guards = syncer.Guards{MaxChanges: syncer.Limit{Count: 50}, MaxCreates: 50, MaxBlanks: 50,
		MaxIdentity: syncer.Limit{Count: 50}}
	return p
}
