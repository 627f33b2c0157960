package simulation

import (
	"fmt"
	"strings"
	"time"

	"payersync/connector"
)

// Source edits.

func (w *world) anyRecord() (id string, f fields, ok bool) {
	if len(w.books.records) == 0 {
		return "", f, false
	}
	id = w.books.records[w.minds.IntN(len(w.books.records))].SourceID
	return id, w.books.fields(id), true
}

func (w *world) putRecord(id string, f fields) {
	w.books.put(id, f, connector.RecordActive, time.Now())
}

func (w *world) addRecord() error {
	if len(w.books.records) >= 9 {
		return nil
	}
	w.added++
	id := fmt.Sprintf("R%d", w.added)
	w.books.putPayer(id, id)
	return nil
}

func (w *world) editRecord() error {
	id, f, ok := w.anyRecord()
	if !ok {
		return nil
	}
	w.added++
	switch w.minds.IntN(4) {
	case 0:
		f.Name = fmt.Sprintf("Payer %s v%d", id, w.added)
	case 1:
		f.Email = fmt.Sprintf("%s.v%d@payer.test", strings.ToLower(id), w.added)
	case 2:
		f.Postcode = fmt.Sprintf("LS%d 4AP", w.added)
	default:
		f.Name, f.Group = fmt.Sprintf("Payer %s v%d", id, w.added), "payer"
	}
	w.putRecord(id, f)
	return nil
}

// addTwin adds a payer with another's name and e-mail address (faults F07, F47).
func (w *world) addTwin() error {
	_, f, ok := w.anyRecord()
	if !ok || len(w.books.records) >= 9 {
		return nil
	}
	w.added++
	f.No = fmt.Sprintf("R%d", w.added)
	w.putRecord(f.No, f)
	w.reach("twins")
	return nil
}

func (w *world) archiveRecord() error {
	if id, f, ok := w.anyRecord(); ok {
		as := pick(w.minds, connector.RecordArchived, connector.RecordDeleted, connector.RecordActive)
		if as != connector.RecordActive {
			w.oracle.left[f.No] = time.Now()
		}
		w.books.put(id, f, as, time.Now())
	}
	return nil
}

func (w *world) removeRecord() error {
	if id, _, ok := w.anyRecord(); ok {
		w.books.remove(id)
	}
	return nil
}

func (w *world) excludeRecord() error {
	if id, f, ok := w.anyRecord(); ok {
		if f.Group = pick(w.minds, "supplier", "payer"); f.Group == "supplier" {
			w.oracle.left[f.No] = time.Now()
		}
		w.putRecord(id, f)
	}
	return nil
}

func (w *world) malformRecord() error {
	if id, f, ok := w.anyRecord(); ok {
		f.Email = pick(w.minds, "not an address", "", strings.ToLower(id)+"@payer.test")
		w.putRecord(id, f)
	}
	return nil
}

// rekeyRecord gives a record another record's key, or a new one of its own.
func (w *world) rekeyRecord() error {
	id, f, ok := w.anyRecord()
	_, other, _ := w.anyRecord()
	if !ok {
		return nil
	}
	w.added++
	w.oracle.taint(f.No, "rekeyed")
	f.No = pick(w.minds, other.No, fmt.Sprintf("K%d", w.added))
	w.oracle.taint(f.No, "rekeyed")
	w.putRecord(id, f)
	return nil
}

func (w *world) breakBooks() error {
	w.books.broken = !w.books.broken
	return nil
}

func (w *world) editMapping() error {
	w.mapping = w.minds.IntN(len(mappings))
	return nil
}
