package health

import (
	"strings"
	"testing"
	"time"

	"payersync/state"
)

func TestLettersThatDoNotLeaveAreTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(func(tx *state.Tx) error { return tx.NoteLetterLook(0, "", true) })
	on := Expected{Letters: true}
	d.expect("nothing waits", d.look(on))
	began := d.at
	d.do(func(tx *state.Tx) error { return tx.NoteLetterLook(12, "The ledger was put back.", true) })
	d.at = d.at.Add(time.Hour)
	d.do(func(tx *state.Tx) error {
		if err := tx.AddLetterStop(state.LetterStop{Scope: state.StopAll, Why: state.StopPause, Actor: "ada"}); err != nil {
			return err
		}
		if err := tx.AddLetterStop(state.LetterStop{Scope: state.StopAll, Why: state.StopBrake,
			Note: "10 of 50 letters came back.", Actor: "payersync"}); err != nil {
			return err
		}
		return tx.NoteLetterLook(14, "The ledger was put back.", true)
	})
	found := d.look(on)
	d.expect("held, braked and waiting", found, "letters_held hold", "letters_held stop 2", "letters_wait")
	for _, c := range found {
		if c.Sentence == "" || len(c.Steps) == 0 || c.Urgent != (c.Code == LettersHeld) {
			t.Errorf("%+v", c)
		}
	}
	if c := found[2]; c.Count != 14 || !c.Since.Equal(began) || !strings.Contains(c.Sentence, "14 letters") {
		t.Errorf("what waits is %+v", c)
	}
	if !strings.Contains(found[1].Sentence, "10 of 50") {
		t.Errorf("the brake is told as %q", found[1].Sentence)
	}
	d.expect("where nobody writes", d.look(Expected{}))
	d.do(func(tx *state.Tx) error { return tx.NoteLetterLook(0, "", true) })
	d.do(func(tx *state.Tx) error { return tx.EndLetterStop(2) })
	d.expect("after a person has said so", d.look(on))
}
