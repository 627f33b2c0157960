package state

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Looks are looks at many accounts of a Server, one after the other or side by side, by ledgers that are opened with them
// and stay open for a moment: see Options.Looks. They are safe for concurrent use.
type Looks struct {
	at    time.Time
	usual atomic.Pointer[[]asking] // what one that was closed was asked
}

// NewLooks begins looks, all of which tell what is the case now.
func (s *Server) NewLooks() *Looks { return &Looks{at: s.Now()} }

func (l *Looks) now() time.Time { return l.at }

// forethought lets one ledger of these looks ask, in one way there and back, what another was asked: who looks at a
// thousand accounts asks each the same. Each answer is given once, to who asks in the same words, and is the account's
// own, of when its connection was made; who asks something else asks the database.
type forethought struct {
	looks *Looks

	mu     sync.Mutex
	asked  []asking
	coming map[string][]*answer // by what was asked; nil before a connection asks
}

// asking is a query, as this package spells it, and its values.
type asking struct {
	query string
	args  []any
}

func (q asking) words() string { return fmt.Sprintf("%s %#v", q.query, q.args) }

// mostForeseen is how many questions are asked before somebody has them: one account with very many plans asks more than
// others are asked in vain.
const mostForeseen = 100

// settle sets a connection to the account of the ledger, and asks with that what is foreseen, if no other connection
// did. What fails of it is asked again by who wants it.
func (f *forethought) settle(ctx context.Context, conn *pgx.Conn, account int64) error {
	usual, batch, set := f.begin(), &pgx.Batch{}, strconv.FormatInt(account, 10)
	batch.Queue(setAccount, set)
	for _, q := range usual {
		batch.Queue(postgresSpelling(q.query), q.args...)
	}
	sent, came := conn.SendBatch(ctx, batch), map[string][]*answer{}
	_, err := sent.Exec()
	for _, q := range usual {
		var a *answer
		if err == nil {
			a, err = readAnswer(conn, sent)
		}
		if err == nil {
			came[q.words()] = append(came[q.words()], a)
		}
	}
	if err = errors.Join(err, sent.Close()); err != nil { // which has taken the account back, too
		_, err = conn.Exec(ctx, setAccount, set)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.Copy(f.coming, came)
	return err
}

// begin returns what is foreseen, the first time.
func (f *forethought) begin() (usual []asking) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.coming != nil {
		return nil
	}
	f.coming = map[string][]*answer{}
	if known := f.looks.usual.Load(); known != nil {
		usual = *known
	}
	return usual
}

// answer returns what came of a question already; nil for nothing.
func (f *forethought) answer(q asking) *answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, q)
	waiting := f.coming[q.words()]
	if len(waiting) == 0 {
		return nil
	}
	f.coming[q.words()] = waiting[1:]
	return waiting[0]
}

// over keeps what was asked for those that are opened later.
func (f *forethought) over() {
	f.mu.Lock()
	defer f.mu.Unlock()
	usual := slices.Clone(f.asked[:min(len(f.asked), mostForeseen)])
	f.looks.usual.Store(&usual)
}

// answer is what a question gave, row by row.
type answer struct {
	columns []string
	rows    [][]driver.Value
}

func readAnswer(conn *pgx.Conn, sent pgx.BatchResults) (*answer, error) {
	found, err := sent.Query()
	if err != nil {
		return nil, err
	}
	rows := &sentRows{Rows: found, types: conn.TypeMap()}
	defer found.Close()
	a := &answer{columns: rows.Columns()}
	for {
		row := make([]driver.Value, len(a.columns))
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return a, nil
		case err != nil:
			return nil, err
		}
		a.rows = append(a.rows, row)
	}
}

func (a *answer) Columns() []string { return a.columns }

func (a *answer) Close() error { return nil }

func (a *answer) Next(dest []driver.Value) error {
	if len(a.rows) == 0 {
		return io.EOF
	}
	copy(dest, a.rows[0])
	a.rows = a.rows[1:]
	return nil
}
