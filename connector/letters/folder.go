package letters

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/state"
)

// Nodes share one journal, in a shared folder. With separate journals, only one node's disk would know its
// letters: after a restore of the database no other node could detect it, and a lost node would take its
// journal with it.
//
// Each look for letters writes a new word beside the journal, and notes it in the database. If a node's folder lacks
// the database's word, the node does not share the folder, or the database was restored.
const (
	folderEnding = ".shared"
	folderHead   = "payersync letters folder 1 "
)

// sharedWithin is the time for which another node's word proves the journal exists.
const sharedWithin = 24 * time.Hour

// NotSharedError means a node does not share the journal of another node.
type NotSharedError struct {
	Node, Journal string    // here
	Other         string    // the author node of the journal
	At            time.Time // when it did
}

// Error says what is wrong, and what to do.
func (e *NotSharedError) Error() string {
	return fmt.Sprintf("node %s does not have the journal of letters that node %s wrote at %s, so the folder of %s is not shared between them; mount the shared folder on %[1]s too, or, if that journal is lost, go on without it here",
		e.Node, e.Other, e.At.UTC().Format(time.RFC3339), e.Journal)
}

// Steps returns the step that goes on without the journal.
func (e *NotSharedError) Steps() []connector.Step {
	return []connector.Step{{Do: connector.DoContinueLetters}}
}

// findUnshared returns the reason this node's journal, if any, is not the shared one. It returns nil if it is, or if no
// other node has recently shown another.
func (d *Desk) findUnshared(desk state.LetterDesk, h *history, j *journal, readErr error,
	now time.Time) *NotSharedError {
	var other *otherJournalError
	switch {
	case d.Settings.Node == "" || desk.FolderNode == "" || desk.FolderNode == d.Settings.Node ||
		now.Sub(desk.FolderAt) > sharedWithin:
		return nil
	case readErr == nil && (len(h.unknownIn(j)) > 0 || j.id == desk.Journal && !h.lacksIn(j, now)):
		return nil
	case readErr != nil && !errors.Is(readErr, errNoJournal) && !errors.As(readErr, &other):
		return nil
	}
	return &NotSharedError{Node: d.Settings.Node, Journal: d.Settings.Journal, Other: desk.FolderNode, At: desk.FolderAt}
}

// CheckFolder returns the node that marked the journal's folder last; "" for none. It fails with NotSharedError if
// that is another node, and this node's folder does not show its mark.
func (d *Desk) CheckFolder(ctx context.Context) (node string, err error) {
	desk, err := d.Ledger.LetterDesk(ctx)
	if err != nil || d.Settings.Node == "" || desk.FolderNode == d.Settings.Node {
		return desk.FolderNode, err
	}
	shows, err := d.showsWord(desk)
	if err == nil && !shows {
		err = &NotSharedError{Node: d.Settings.Node, Journal: d.Settings.Journal, Other: desk.FolderNode, At: desk.FolderAt}
	}
	return desk.FolderNode, err
}

// showsWord reports whether the folder shows the word of the database.
func (d *Desk) showsWord(desk state.LetterDesk) (bool, error) {
	if d.Settings.Node == "" || desk.Folder == "" {
		return true, nil
	}
	p := d.Settings.place()
	text, err := p.within.ReadFile(p.path + folderEnding)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read what the folder of the journal of letters shows: %w", err)
	}
	words, ours := strings.CutPrefix(string(text), folderHead)
	return ours && slices.Contains(strings.Fields(words), desk.Folder), nil
}

// markFolder writes a new word into the folder, and then notes it in the database. Between the two the folder has both
// words, so a crash there causes no stop.
func (d *Desk) markFolder(ctx context.Context) error {
	if d.Settings.Node == "" {
		return nil
	}
	desk, err := d.Ledger.LetterDesk(ctx)
	if err != nil {
		return err
	}
	word := rand.Text()
	if err := d.Settings.place().writeWords(desk.Folder, word); err != nil {
		return fmt.Errorf("mark the folder of the journal of letters: %w", err)
	}
	if err := d.step(Marked); err != nil {
		return err
	}
	if err := d.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.SetLetterFolder(word, d.Settings.Node) }); err != nil {
		return err
	}
	// From now on the earlier word means the database was restored.
	return d.Settings.place().writeWords(word)
}

// writeWords puts the words of the folder in the place of those before, whole or not at all.
func (p place) writeWords(words ...string) error {
	fresh := place{p.path + folderEnding + ".new", p.within}
	f, err := fresh.open(os.O_WRONLY | os.O_CREATE | os.O_TRUNC)
	if err != nil {
		return err
	}
	err = giveToFolder(f)
	if err == nil {
		_, err = f.WriteString(folderHead + strings.Join(words, " ") + "\n")
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := p.within.Rename(fresh.path, filepath.Base(p.path)+folderEnding); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(p.path))
}
