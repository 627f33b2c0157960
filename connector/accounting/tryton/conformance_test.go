package tryton_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/tryton/trytontest"
)

const many = 50 // more than three pages

// covers F13, F20, F44, F45, F46, F54
func TestSourceConforms(t *testing.T) {
	accountingtest.Run(t, accountingtest.Harness{Many: many, Open: func(t testing.TB, n int) accountingtest.Company {
		b := openBooks(t)
		b.add(n)
		return b.company()
	}})
}

// company describes the database to the conformance suite. A deleted party leaves
// no trace in Tryton, and its clock cannot be set.
func (b *books) company() accountingtest.Company {
	return accountingtest.Company{
		Source: b.source, Truth: b.truth,
		Add:     func() string { return strconv.FormatInt(b.add(1)[0], 10) },
		Edit:    b.edit,
		Archive: func(id string) { b.Write("party.party", number(b.t, id), trytontest.Values{"active": false}) },
		Merge:   func(loser, survivor string) { b.Replace(number(b.t, loser), number(b.t, survivor)) },
		Erase:   func(id string) { b.Erase(number(b.t, id)) },
		Leave:   func(id string) { b.Delete("party.party", number(b.t, id)) },
		Spoil: func(id string) {
			b.spoilt[number(b.t, id)] = true
			b.Write("party.party", number(b.t, id), trytontest.Values{"name": "North\x00wind"})
		},
		Break: func() func() {
			reads := 0
			b.front.Answer(func(c trytontest.Call, w http.ResponseWriter) bool {
				if isRead(c) {
					reads++
				}
				if reads < 2 {
					return false
				}
				http.Error(w, "out of order", http.StatusBadGateway)
				return true
			})
			return func() { b.front.Answer(nil) }
		},
		Serve: func(after func()) {
			if after == nil {
				b.front.After(nil)
				return
			}
			b.front.After(func(c trytontest.Call) {
				if isRead(c) {
					after()
				}
			})
		},
		Troubles: b.troubles(),
	}
}

func isRead(c trytontest.Call) bool { return c.Method == "model.party.party.search_read" }

func number(t testing.TB, id string) int64 {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// edit changes the name, or a part of the party that does not touch the party.
func (b *books) edit(id string) {
	b.edits++
	party := number(b.t, id)
	if b.edits%2 == 0 {
		b.Write("party.party", party, trytontest.Values{"name": fmt.Sprint("Edited ", b.edits)})
		return
	}
	var rows []struct{ ID int64 }
	b.Call(&rows, "model.party.contact_mechanism.search_read", []any{[]any{"party", "=", party}}, 0, 1, nil,
		[]string{"type"}, trytontest.Values{})
	if len(rows) == 0 { // merged or erased meanwhile
		b.Write("party.party", party, trytontest.Values{"name": fmt.Sprint("Edited ", b.edits)})
		return
	}
	b.Write("party.contact_mechanism", rows[0].ID, trytontest.Values{"name": fmt.Sprint("Desk ", b.edits)})
}

func (b *books) troubles() []accountingtest.Trouble {
	// onSecondPage lets the second page of a read, and it alone, meet something.
	onSecondPage := func(name string, ends accountingtest.Ending,
		meet func(trytontest.Call, http.ResponseWriter) bool) accountingtest.Trouble {
		return accountingtest.Trouble{Name: name, Ends: ends, Begin: func() func() {
			reads := 0
			b.front.Answer(func(c trytontest.Call, w http.ResponseWriter) bool {
				if !isRead(c) {
					return false
				}
				reads++
				return reads == 2 && meet(c, w)
			})
			return func() { b.front.Answer(nil) }
		}}
	}
	says := func(status int, kind, body string) func(trytontest.Call, http.ResponseWriter) bool {
		return func(_ trytontest.Call, w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	return []accountingtest.Trouble{
		onSecondPage("session lost", accountingtest.Complete, func(c trytontest.Call, _ http.ResponseWriter) bool {
			b.EndSession(c.Auth)
			return false
		}),
		onSecondPage("server error", accountingtest.Unavailable, says(503, "text/plain", "busy")),
		onSecondPage("web page with status 200", accountingtest.Unavailable,
			says(200, "text/html", "<html>Maintenance</html>")),
		onSecondPage("error with status 200", accountingtest.Refused,
			says(200, "application/json", `{"id":1,"error":["UserError",["You may not.","",null]]}`)),
		onSecondPage("answer without result", accountingtest.Unavailable, says(200, "application/json", `{"id":1}`)),
		onSecondPage("result of another form", accountingtest.Unavailable,
			says(200, "application/json", `{"id":1,"result":{"id":1}}`)),
		onSecondPage("page that came before", accountingtest.Unavailable,
			says(200, "application/json", `{"id":1,"result":[{"id":1}]}`)),
		onSecondPage("too many requests", accountingtest.Parked, says(429, "text/html", "slow down")),
		onSecondPage("permission withdrawn", accountingtest.Disconnected, says(403, "text/html", "no")),
	}
}

// covers F46
func TestAWalkInTheOrderOfEditsLosesCustomersAndOursDoesNot(t *testing.T) {
	b := openBooks(t)
	b.add(many)
	c := b.company()
	lost, err := accountingtest.Lost(t.Context(), c)
	if err != nil || lost != 0 {
		t.Errorf("our walk lost %d of %d, error %v", lost, many, err)
	}
	c.Source = naive{c.Source.(describer), b}
	naively, err := accountingtest.Lost(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if naively == 0 {
		t.Error("the naive walk lost nobody: the check has lost its teeth")
	}
	t.Logf("lost of %d while 20 are edited behind every page: ours %d, naive %d", many, lost, naively)
}

type describer interface {
	Describe(context.Context) (connector.SourceInfo, error)
}

// naive walks by offset in the order of edits, as many connectors do.
type naive struct {
	describer
	b *books
}

func (n naive) Customers(ctx context.Context, _ time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		for offset := 0; ; offset += pageSize {
			var rows []struct{ ID int64 }
			n.b.Call(&rows, "model.party.party.search_read", []any{}, offset, pageSize,
				[][]string{{"write_date", "ASC"}, {"id", "ASC"}}, []string{"name"}, trytontest.Values{"active_test": false})
			var page connector.Page
			for _, r := range rows {
				page.Records = append(page.Records,
					connector.Record{SourceID: strconv.FormatInt(r.ID, 10), State: connector.RecordActive,
						Data: json.RawMessage("{}")})
			}
			if !yield(page, errors.Join(ctx.Err())) || len(rows) < pageSize {
				return
			}
			n.b.served()
		}
	}
}

// served tells the front's listener about a page served directly by the server.
func (b *books) served() { b.front.Served(trytontest.Call{Method: "model.party.party.search_read"}) }
