package letters_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector/letters"
	"payersync/connector/outbox"
	"payersync/state"
	"payersync/state/statetest"
)

// node returns the desk of a node whose journal lies in a folder.
func (w *world) node(name, folder string) *letters.Desk {
	w.t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		w.t.Fatal(err)
	}
	d := *w.desk
	d.Settings.Node, d.Settings.Journal = name, filepath.Join(folder, "letters")
	return &d
}

// sends has a node send what is due, and returns how many letters left and what keeps others.
func (w *world) sends(d *letters.Desk) (sent int, held string) {
	w.t.Helper()
	res, err := d.Run(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range res.Holds {
		held += string(h.Code) + ": " + h.Text
	}
	return res.Sent, held
}

// approves has a person let go what a node shows.
func (w *world) approves(d *letters.Desk) {
	w.t.Helper()
	p, err := d.Plan(w.t.Context())
	if err == nil {
		_, err = d.Approve(w.t.Context(), p.Batch.Hash, byAda)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// covers F289
func TestANodeThatDoesNotShareTheFolderOfTheJournalSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.payers(3)
	dir := t.TempDir()
	first, other := w.node("n1", filepath.Join(dir, "1")), w.node("n2", filepath.Join(dir, "2"))
	w.sends(first)
	w.approves(first)
	refuses := func(d *letters.Desk, writer string) {
		t.Helper()
		sent, held := w.sends(d)
		if sent != 0 || !strings.Contains(held, "is not shared") || !strings.Contains(held, "node "+writer) ||
			!strings.Contains(held, "go on without it here") {
			t.Errorf("%s sent %d letters, and says %q", d.Settings.Node, sent, held)
		}
		var unshared *letters.NotSharedError
		if _, err := d.Continue(t.Context(), byAda); !errors.As(err, &unshared) {
			t.Errorf("%s goes on with a journal of its own: %v", d.Settings.Node, err)
		}
	}
	refuses(other, "n1")
	if sent, held := w.sends(first); sent != 3 {
		t.Fatalf("%d letters left: %s", sent, held)
	}
	refuses(other, "n1")

	// A copy of the folder has the same journal, and does not show the next word.
	if err := os.CopyFS(filepath.Join(dir, "3"), os.DirFS(filepath.Join(dir, "1"))); err != nil {
		t.Fatal(err)
	}
	w.sends(first)
	if _, held := w.sends(w.node("n3", filepath.Join(dir, "3"))); !strings.Contains(held,
		"is a copy of the one that the nodes share") {
		t.Errorf("a copy of the folder is taken for it: %q", held)
	}
	other.Settings.Journal = first.Settings.Journal
	if _, held := w.sends(other); held != "" {
		t.Errorf("a node that shares the folder is held: %s", held)
	}

	lost := w.node("n4", filepath.Join(dir, "4"))
	lost.JournalLost = true
	if _, err := lost.Continue(t.Context(), byAda); err != nil {
		t.Fatal(err)
	}
	if _, held := w.sends(lost); held != "" {
		t.Errorf("a node that a person has let go on is held: %s", held)
	}
	refuses(first, "n4")
	w.noDoubles()
}

func TestAProcessThatDiesWhileItMarksTheFolderStopsNoNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.payers(1)
	folder := t.TempDir()
	died := errors.New("the process died")
	for i := range 4 {
		d := w.node(fmt.Sprintf("n%d", i%2), folder)
		if i%2 == 1 {
			d.Step = func(at letters.Point) error {
				if at == letters.Marked {
					return died
				}
				return nil
			}
		}
		res, err := d.Run(t.Context())
		if (i%2 == 1) != errors.Is(err, died) || len(res.Holds) > 0 {
			t.Errorf("run %d: %v, %+v", i, err, res.Holds)
		}
	}
}

// covers F289
func TestNodesSendNothingTwiceAfterTheirDatabaseWasPutBack(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, func(path string) { statetest.NewOnServer(t, path) })
	w.payers(6)
	folder := t.TempDir()
	w.sends(w.node("n1", folder))
	w.approves(w.node("n1", folder))
	reopen := func(between func() error) {
		t.Helper()
		if err := errors.Join(w.ledger.Close(), between()); err != nil {
			t.Fatal(err)
		}
		w.open()
	}
	old := w.path + ".old"
	reopen(func() error { return statetest.Copy(w.path, old) })
	t.Cleanup(func() { _ = statetest.Remove(old) })
	if sent, held := w.sends(w.node("n2", folder)); sent != 6 {
		t.Fatalf("%d letters left: %s", sent, held)
	}
	reopen(func() error { return statetest.Copy(old, w.path) })
	for _, name := range []string{"n1", "n2", "n3"} {
		if sent, held := w.sends(w.node(name, folder)); sent != 0 || !strings.Contains(held, "it was put back") {
			t.Errorf("%s sent %d letters after the database was put back, and says %q", name, sent, held)
		}
	}
	if learnt, err := w.node("n3", folder).Continue(t.Context(), byAda); learnt != 6 || err != nil {
		t.Errorf("the database learnt of %d letters, %v", learnt, err)
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		if sent, held := w.sends(w.node(name, folder)); sent != 0 || held != "" {
			t.Errorf("%s sent %d letters once more: %s", name, sent, held)
		}
	}
	w.noDoubles()

	// A copy of the database that lacks no letter is told from the one before it all the same.
	reopen(func() error { return errors.Join(statetest.Remove(old), statetest.Copy(w.path, old)) })
	w.sends(w.node("n1", folder))
	reopen(func() error { return statetest.Copy(old, w.path) })
	if _, held := w.sends(w.node("n2", folder)); !strings.Contains(held, "the database was put back") {
		t.Errorf("nobody sees that the database was put back: %q", held)
	}
}

// Three nodes share a database and a folder. One after the other is killed, at every step of
// sending and at any moment, and the next one takes over.
//
// covers F137
func TestThreeNodesThatAreKilledSendNoLetterTwiceAndLoseNone(t *testing.T) {
	t.Parallel()
	const payers = 24
	dsn := ""
	w := newWorldOn(t, func(path string) { dsn = statetest.NewOnServer(t, path) })
	w.payers(payers)
	folder := t.TempDir()
	nodes := []string{"n1", "n2", "n3"}
	w.sends(w.node("n1", folder))
	w.approves(w.node("n1", folder))
	if err := w.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	points := []letters.Point{letters.Marked, letters.Looked, letters.Frozen, outbox.Begun, outbox.Ended, outbox.Ready,
		letters.Marked, outbox.Posted, ""}
	for i, at := range points {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(),
			killed+"="+strings.Join([]string{w.path, w.box.Address, w.clock().Format(time.RFC3339), string(at), nodes[i%3],
				filepath.Join(folder, "letters"), dsn}, "|"))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait := time.Second
		if at == "" {
			wait = 700 * time.Millisecond
		}
		timer := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed
		timer.Stop()
	}
	w.open()
	for _, name := range slices.Concat(nodes, nodes) {
		if _, held := w.sends(w.node(name, folder)); held != "" {
			t.Errorf("%s is held: %s", name, held)
		}
	}
	w.noDoubles()
	unclear := 0
	for i := range payers {
		for _, l := range w.letter(fmt.Sprintf("c%03d", i)) {
			if l.State == state.MessageUnclear {
				unclear++
			} else if l.State != state.MessageSent {
				t.Errorf("a letter is %s: %s", l.State, l.Answer)
			}
		}
	}
	came := len(w.box.Received())
	t.Logf("%d letters came of %d, and %d are unclear", came, payers, unclear)
	if came > payers || came+unclear < payers || unclear > 4 {
		t.Errorf("%d letters came of %d, and %d are unclear", came, payers, unclear)
	}
}
