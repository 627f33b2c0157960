package main

import (
	"bytes"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/state"
)

// editedWorld is a world whose connection books reads seven customers by the profile in books.yaml, and has sent them.
type editedWorld struct {
	*world
	*profiledBooks
	log *bytes.Buffer
}

func newEditedWorld(t *testing.T) editedWorld {
	t.Helper()
	w, v, b := newProfiledWorld(t, "freeagent",
		strings.Replace(freeagentBlock, "kind: freeagent", "kind: http, profile: books.yaml", 1), 7)
	w.write("books.yaml", readShipped(t, "configs/sources/freeagent/profile.yaml"))
	if done := w.connect(v); done.code != exitDone {
		t.Fatal(done.out, done.errOut)
	}
	e := editedWorld{w, b, &bytes.Buffer{}}
	e.expect(exitDone, "sync", "books")
	if len(w.box.Customers()) != 7 {
		t.Fatalf("there are %d customers", len(w.box.Customers()))
	}
	return e
}

// scheduled makes a scheduled run of a new process, and returns how many requests the accounting system had.
func (e editedWorld) scheduled() int {
	e.t.Helper()
	before := len(e.Requests())
	s := e.served(e.log)
	for _, c := range s.Config.Connections {
		if c.Name == "books" {
			if err := syncNow(e.t.Context(), s, c, "schedule"); err != nil {
				e.t.Fatal(err)
			}
		}
	}
	return len(e.Requests()) - before
}

// stopped reports whether the status shows the stop.
func (e editedWorld) stopped() bool {
	e.t.Helper()
	return strings.Contains(e.run("status", "--output", "json").out, `"profile_edited"`)
}

// An edit of the profile that changes how the list is asked for, and no record.
const (
	wide   = "size: 100"
	narrow = "size: 50"
)

func TestAnEditedProfileStopsTheScheduleUntilAPlanIsApproved(t *testing.T) {
	t.Parallel()
	e := newEditedWorld(t)
	e.edit("books.yaml", wide, narrow)
	e.Change("1003", func(name *string, _ *connector.RecordState, _ *string) { *name = "Renamed Ltd" })
	for range 2 { // also after a restart
		if asked := e.scheduled(); asked > 1 { // opening the source asks for the company
			t.Errorf("a scheduled run sent %d requests", asked)
		}
		if !e.stopped() || !strings.Contains(e.log.String(), "was edited") {
			t.Errorf("the status or the log does not show the stop:\n%s", e.log.String())
		}
	}
	planned := e.run("plan", "books")
	if planned.code != exitApproval || !strings.Contains(planned.out, "1 to update") ||
		!strings.Contains(planned.out, state.WhyEdited) || !strings.Contains(planned.out, "plan approve 2") {
		t.Errorf("plan ended with %d:\n%s%s", planned.code, planned.out, planned.errOut)
	}
	if e.scheduled(); !e.stopped() {
		t.Error("a plan that nobody approved lets the schedule go on")
	}
	if status := e.run("status").out; !strings.Contains(status, "payersync plan approve 2") {
		t.Errorf("the status says:\n%s", status)
	}
	e.expect(exitDone, "plan", "approve", "2")
	if e.stopped() {
		t.Error("the status still shows the stop")
	}
	e.scheduled()
	if names := customerNames(e.world); !names["Renamed Ltd"] {
		t.Errorf("the schedule did not go on: %v\n%s", names, e.log.String())
	}
}

func TestAnEditThatIsUndoneNeedsNobody(t *testing.T) {
	t.Parallel()
	e := newEditedWorld(t)
	before, _, _ := strings.Cut(e.read("books.yaml"), "\nfake:") // a model would find the mistake
	e.write("books.yaml", before+"\n")
	e.edit("books.yaml", "problems:", `problems:
    - {when: status == "Active", say: It is active.}`)
	e.scheduled()
	if planned := e.run("plan", "books"); planned.code != exitStandstill {
		t.Errorf("a plan that loses all payers ended with %d:\n%s%s", planned.code, planned.out, planned.errOut)
	}
	e.write("books.yaml", before+"\n")
	e.Change("1003", func(name *string, _ *connector.RecordState, _ *string) { *name = "Renamed Ltd" })
	e.scheduled()
	if names := customerNames(e.world); e.stopped() || len(names) != 7 || !names["Renamed Ltd"] {
		t.Errorf("after the edit was undone, the customers are %v\n%s", names, e.log.String())
	}
	if held := e.run("attention", "list"); held.code != exitDone {
		t.Errorf("the undone edit left findings:\n%s", held.out)
	}
}

func TestWordsForPeopleAreNoEditOfAProfile(t *testing.T) {
	t.Parallel()
	e := newEditedWorld(t)
	e.edit("books.yaml", "title: FreeAgent", "title: Our books")
	e.Change("1003", func(name *string, _ *connector.RecordState, _ *string) { *name = "Renamed Ltd" })
	e.scheduled()
	if names := customerNames(e.world); e.stopped() || !names["Renamed Ltd"] {
		t.Errorf("another title stopped the schedule: %v\n%s", names, e.log.String())
	}
}

func TestAnEditedProfileThatContradictsItselfIsNotRead(t *testing.T) {
	t.Parallel()
	e := newEditedWorld(t)
	e.edit("books.yaml", `{when: status == "Active", is: active}`, `{when: status != "Gone", is: active}`)
	planned := e.run("plan", "books")
	if planned.code != exitFailed || !strings.Contains(planned.errOut, "the edited profile") {
		t.Errorf("plan ended with %d:\n%s%s", planned.code, planned.out, planned.errOut)
	}
}

func TestAPersonsRunWithAnApprovalAcceptsAnEditedProfile(t *testing.T) {
	t.Parallel()
	e := newEditedWorld(t)
	e.edit("books.yaml", wide, narrow)
	if waits := e.run("sync", "books"); waits.code != exitApproval {
		t.Errorf("a run that asks nobody ended with %d:\n%s%s", waits.code, waits.out, waits.errOut)
	}
	e.expect(exitDone, "sync", "books", "--yes")
	if e.stopped() {
		t.Error("the status still shows the stop")
	}
}

// customerNames returns the names of the service's customers.
func customerNames(w *world) map[string]bool {
	out := map[string]bool{}
	for _, c := range w.box.Customers() {
		out[c.Name] = true
	}
	return out
}
