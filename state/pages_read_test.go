package state

import (
	"errors"
	"fmt"
	"testing"

	"payersync/connector"
	"payersync/state/internal/dbtest"
)

// A server that takes its own way to a page may read whole tables for each of its rows, which nobody sees
// in a small ledger: what a page reads is counted.
//
// covers F201
func TestAPageReadsNoMoreHoweverManyRecordsThereAre(t *testing.T) {
	t.Parallel()
	const (
		many, page = 6000, 10
		most       = many / 4
	)
	_, opts := aServer(t, 16)
	others := ofAccountNamed(t, opts, "others")
	others.crowded(many)
	others.counted() // before there was anything of the account that is looked at
	d := ofAccountNamed(t, opts, "late")
	run := d.crowded(many)
	middle := benchRecord(many / 2).SourceID
	plans, err := d.StoredPlans(t.Context(), acme)
	if err != nil || len(plans) != 1 {
		t.Fatalf("%d plans, %v", len(plans), err)
	}
	records := make([]connector.Record, page)
	shown := make([]Observation, page)
	newcomers := make([]NewRecord, page)
	for i := range page {
		records[i] = benchRecord(many/2 + i)
		c := remoteOf(many/4 + i)
		shown[i] = Observation{CustomerID: c.ID, Customer: &c, Ticket: 1 << 40, List: newListing(1, 1<<40)}
		id := records[i].SourceID
		newcomers[i] = NewRecord{SourceID: id, Key: connector.Key{Name: "acct", Value: id}, Customer: customer(id, id),
			Likeness: *likenessOf(i)}
	}
	key := connector.Key{Name: "acct", Value: middle}
	questions := []struct {
		name string
		ask  func() (found int, err error)
	}{
		{"the deliveries that are due", func() (int, error) {
			found, err := d.OpenDeliveries(t.Context(), 0, page)
			return len(found), err
		}},
		{"one record", func() (int, error) {
			_, err := d.StoredRecord(t.Context(), acme, middle, mapping)
			return page, err
		}},
		{"who has a key", func() (int, error) {
			_, err := d.KeyHolders(t.Context(), key)
			_, unscoped := d.UnscopedHolders(t.Context(), key, acme, middle)
			_, rival := d.KeyRival(t.Context(), key, acme, middle)
			_, underWay := d.CreatesUnderWay(t.Context(), key)
			_, linked := d.KeyLinkedTo(t.Context(), key, acme, middle)
			return page, errors.Join(err, unscoped, rival, underWay, linked)
		}},
		{"who is alike", func() (int, error) {
			_, err := d.AllAlike(t.Context(), customer(middle, "Ada"), "acct", acme, middle, page)
			_, twins := d.SimilarPayers(t.Context(), acme, middle, *likenessOf(many / 2))
			_, alike := d.Lookalikes(t.Context(), acme, middle)
			return page, errors.Join(err, twins, alike)
		}},
		{"who nobody may be", func() (int, error) {
			found, err := d.WithoutSimilar(t.Context(), acme, newcomers)
			return len(found), err
		}},
		{"the records to plan", func() (int, error) {
			found, err := d.Candidates(t.Context(), acme, "another", true, middle, page)
			return len(found), err
		}},
		{"the records as they stand", func() (int, error) {
			found, err := d.StoredRecords(t.Context(), acme, mapping, true, middle, page)
			return len(found), err
		}},
		{"the changes to look at", func() (int, error) {
			found, err := d.Changes(t.Context(), acme, LaneCustomer, true, many/2, page)
			return len(found), err
		}},
		{"the changes of a plan", func() (int, error) {
			found, err := d.PlanChanges(t.Context(), plans[0], LaneCustomer, many/2, page)
			return len(found), err
		}},
		{"whom no read has confirmed", func() (int, error) {
			found, err := d.Unverified(t.Context(), acme, page)
			return len(found), err
		}},
		{"a list for people", func() (int, error) {
			found, err := d.Records(t.Context(),
				RecordFilter{After: &RecordRow{PayerRow: PayerRow{Connection: acme, SourceID: middle}}, Limit: page})
			return len(found), err
		}},
		{"what is new in a page", func() (int, error) {
			found, err := d.PageChanges(t.Context(), acme, mapping, records, nil)
			return len(found.Unlabelled), err
		}},
		{"whose the customers of a page are", func() (int, error) {
			return page, d.Do(t.Context(), func(tx *Tx) error { return second(tx.Known(shown...)) })
		}},
		{"whether creates may leave", func() (int, error) {
			changes, err := d.Changes(t.Context(), acme, LaneCustomer, true, many/2, page)
			return len(changes), errors.Join(err, d.Do(t.Context(), func(tx *Tx) (err error) {
				for _, c := range changes {
					_, froze := tx.FreezeCreate(run, c, []byte("{}"), 0)
					err = errors.Join(err, froze)
				}
				return err
			}))
		}},
	}
	wholes := map[string]func() (found int, err error){
		"all payers": func() (int, error) {
			found, err := d.Payers(t.Context(), Filter{})
			return len(found), err
		},
		"all mandates": func() (int, error) {
			found, err := d.Mandates(t.Context(), Filter{})
			return 2 * len(found), err
		},
	}
	for _, statistics := range []string{"as they came", "of now"} {
		if statistics == "of now" {
			d.counted()
		}
		for name, ask := range wholes {
			before := d.rowsRead()
			found, err := ask()
			if err != nil || found != many {
				t.Fatalf("%s: %d, %v, want %d", name, found, err, many)
			}
			if read := d.rowsRead() - before; read > 5*many {
				t.Errorf("%s, statistics %s: %d rows are read of a ledger of %d", name, statistics, read, many)
			}
		}
		for _, q := range questions {
			before := d.rowsRead()
			found, err := q.ask()
			if err != nil || found != page {
				t.Fatalf("%s: %d, %v, want %d", q.name, found, err, page)
			}
			if read := d.rowsRead() - before; read > most {
				t.Errorf("%s, statistics %s: a page of %d reads %d rows of a ledger of %d, %d at most are right", q.name,
					statistics, page, read, many, most)
			}
		}
	}
}

// crowded fills a ledger with planned creates, half of which were answered, and returns the run.
func (d *desk) crowded(many int) (run int64) {
	d.t.Helper()
	run = d.run(acme)
	for from := 0; from < many; from += benchPage {
		var records []connector.Record
		var decisions []Decision
		for i := from; i < min(many, from+benchPage); i++ {
			r := benchRecord(i)
			records = append(records, r)
			v := included(r, &NewChange{Action: connector.ActionCreate, Wanted: customer(r.SourceID, r.SourceID)})
			v.Likeness = likenessOf(i)
			decisions = append(decisions, v)
		}
		d.do(func(tx *Tx) error { return tx.SavePage(run, acme, records) })
		d.do(func(tx *Tx) error { return tx.SaveDecisions(run, acme, mapping, decisions...) })
	}
	d.do(func(tx *Tx) error {
		_, err := tx.FinishPlan(run, acme, mapping, func(Losses) bool { return true })
		return err
	})
	changes, err := d.Changes(d.t.Context(), acme, LaneCustomer, true, 0, many/2)
	if err != nil {
		d.t.Fatal(err)
	}
	d.do(func(tx *Tx) error {
		for i, c := range changes {
			c.Wanted = customer(c.Payer.SourceID, c.Payer.SourceID)
			if err := tx.Created(run, c, remoteOf(i).ID); err != nil {
				return err
			}
			if _, err := tx.SaveRemote(remoteOf(i), int64(i+1)); err != nil {
				return err
			}
			m := connector.Mandate{ID: fmt.Sprint("m", i), CustomerID: remoteOf(i).ID, Status: connector.MandateCreated}
			if _, err := tx.SaveMandate(m, connector.CauseCreate, "run 1"); err != nil {
				return err
			}
			if err := tx.SetMandate(acme, c.Payer.SourceID, m.ID); err != nil {
				return err
			}
		}
		return nil
	})
	d.do(func(tx *Tx) error {
		for i := range many {
			if _, err := tx.Receive(delivery(fmt.Sprint("evt-", i), remoteOf(i).ID)); err != nil {
				return err
			}
		}
		return tx.exec("UPDATE inbox SET state = 'reflected' WHERE inbox_id <= ?", many-50)
	})
	return run
}

func likenessOf(n int) *Likeness {
	return &Likeness{Name: fmt.Sprint("ada ", n), Emails: []string{fmt.Sprintf("ada%d@example.com", n)}}
}

func remoteOf(n int) connector.RemoteCustomer {
	id := benchRecord(n).SourceID
	return connector.RemoteCustomer{ID: fmt.Sprint("b", n), ExternalData: map[string]string{"acct": id}}
}

// counted has the server count what is in the tables.
func (d *desk) counted() {
	d.t.Helper()
	if err := dbtest.Execute(d.opts.Path, "ANALYZE"); err != nil {
		d.t.Fatal(err)
	}
}

// rowsRead returns how many rows of tables the server has read for the ledger.
func (d *desk) rowsRead() (rows int) {
	d.t.Helper()
	d.do(func(tx *Tx) error { return tx.row([]any{new(any)}, "SELECT pg_stat_force_next_flush()::text") })
	for _, query := range []string{"SELECT length(pg_stat_force_next_flush()::text)",
		"SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables WHERE schemaname = 'main'"} {
		if err := d.queryRow(d.t.Context(), query).Scan(&rows); err != nil {
			d.t.Fatal(err)
		}
	}
	return rows
}
