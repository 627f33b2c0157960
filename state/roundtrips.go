package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
)

// An update replaces the whole customer, so a wrong spelling loses foreign members. A round trip
// reads a customer, replaces it and reads it again. The ledger keeps what was seen of them, and
// whether a way of updating is believed follows.

// UpdateFormat is the format of customer updates: the address and the spelling. Either changed is another
// way, with a proof of its own.
type UpdateFormat struct {
	Address  string // Account.Address
	Spelling string // the settings that an update is written by, as text
}

// The origins of a round trip.
const (
	TripUpdate = "update"
	TripProbe  = "probe"
	TripPerson = "person" // a person confirmed the result
)

// TripAny is the kind that stands for every kind of member.
const TripAny = "*"

// Verification is the observation of one.
type Verification struct {
	By       string    `json:"by"`       // TripUpdate, TripProbe or TripPerson
	Subject  string    `json:"subject"`  // the change, the customer or the person
	At       time.Time `json:"at"`       // set by SaveRoundTrip
	Survived []string  `json:"survived"` // kinds of members of others that were there and stayed
	Lost     []string  `json:"lost"`     // paths that did not come out as they should; none for a clean one
	Sure     bool      `json:"sure"`     // nobody else's edit explains what was lost
}

// doubtsMost is how many round trips of an update format may lose something, with no clean one after them,
// before payersync stops using it: a colleague's edit may explain one.
const doubtsMost = 2

// Proof is the evidence from the round trips of one format.
type Proof struct {
	Way   UpdateFormat
	Trips []Verification // the oldest first
}

// Proven reports whether a round trip succeeded, and returns the newest such one. A disproved update format
// is never proven.
func (p Proof) Proven() (Verification, bool) {
	for _, t := range slices.Backward(p.Trips) {
		if len(t.Lost) == 0 {
			return t, len(p.Disproved()) == 0
		}
	}
	return Verification{}, false
}

// Covers reports whether customers with these kinds of foreign members may be updated: each kind
// has survived a round trip. One that holds nothing of others has nothing to lose, so any proof is
// enough for it.
func (p Proof) Covers(kinds []string) bool {
	if _, proven := p.Proven(); !proven {
		return false
	}
	var known []string
	for _, t := range p.Trips {
		if len(t.Lost) == 0 {
			known = append(known, t.Survived...)
		}
	}
	return slices.Contains(known, TripAny) ||
		!slices.ContainsFunc(kinds, func(k string) bool { return !slices.Contains(known, k) })
}

// Disproved returns the round trips that forbid updates in this format; none if it is permitted.
func (p Proof) Disproved() []Verification {
	clean := 1 + lastIndex(p.Trips, func(t Verification) bool { return len(t.Lost) == 0 })
	doubts := p.Trips[clean:]
	if len(doubts) >= doubtsMost || slices.ContainsFunc(doubts, func(t Verification) bool { return t.Sure }) {
		return doubts
	}
	return nil
}

func lastIndex[T any](list []T, is func(T) bool) int {
	for i := len(list) - 1; i >= 0; i-- {
		if is(list[i]) {
			return i
		}
	}
	return -1
}

// Paths returns the lost paths of some round trips, each once.
func Paths(trips []Verification) []string {
	var out []string
	for _, t := range trips {
		out = append(out, t.Lost...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// RoundTrip returns the evidence on an update format.
func (l *Ledger) RoundTrip(ctx context.Context, way UpdateFormat) (Proof, error) {
	type row struct {
		Verification
		at             sql.NullString
		survived, lost string
	}
	rows, err := list(ctx, l,
		"SELECT made_by, subject, at, survived, lost, sure FROM round_trips WHERE address = ? AND way = ? ORDER BY trip_id",
		[]any{strings.ToLower(way.Address), way.Spelling}, func(r *row) []any {
			return []any{&r.By, &r.Subject, &r.at, &r.survived, &r.lost, &r.Sure}
		})
	p := Proof{Way: way}
	for _, r := range rows {
		t := r.Verification
		if t.At, err = parseTime(r.at); err == nil {
			err = json.Unmarshal([]byte(r.survived), &t.Survived)
		}
		if err == nil {
			err = json.Unmarshal([]byte(r.lost), &t.Lost)
		}
		if err != nil {
			return p, fmt.Errorf("read the round trips: %w", err)
		}
		p.Trips = append(p.Trips, t)
	}
	return p, err
}

// LastRoundTrip returns the evidence on the last tried format; the zero Proof before the first.
func (l *Ledger) LastRoundTrip(ctx context.Context) (Proof, error) {
	ways, err := list(ctx, l, "SELECT address, way FROM round_trips ORDER BY trip_id DESC LIMIT 1", nil,
		func(w *UpdateFormat) []any { return []any{&w.Address, &w.Spelling} })
	if err != nil || len(ways) == 0 {
		return Proof{}, err
	}
	return l.RoundTrip(ctx, ways[0])
}

// SaveRoundTrip stores an observation of an update format.
func (tx *Tx) SaveRoundTrip(way UpdateFormat, t Verification) error {
	survived, err := json.Marshal(slices.Concat([]string{}, t.Survived))
	if err != nil {
		return err
	}
	lost, err := json.Marshal(slices.Concat([]string{}, t.Lost))
	if err != nil {
		return err
	}
	return tx.exec("INSERT INTO round_trips (address, way, made_by, subject, at, survived, lost, sure) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		strings.ToLower(way.Address), way.Spelling, t.By, t.Subject, stamp(tx.now), string(survived), string(lost), t.Sure)
}

// KnownToMove returns the paths, without places in lists, that have moved with every update so far.
// Such a move is neither an edit nor a loss.
func (tx *Tx) KnownToMove(paths []string) ([]string, error) {
	var known []string
	for _, path := range paths {
		var moves bool
		if err := tx.row([]any{&moves}, "SELECT EXISTS (SELECT 1 FROM foreign_moves m WHERE m.path = ? AND "+movesAlways+")",
			connector.Indexed(path)); err != nil {
			return nil, fmt.Errorf("look what moves with every update: %w", err)
		}
		if moves {
			known = append(known, path)
		}
	}
	return known, nil
}
