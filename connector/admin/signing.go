package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"payersync/state"
)

// LeastGroup is how many mandates a group needs to be shown: fewer say nothing, or too much of one payer.
const LeastGroup = 10

// signedBy are the days after the first sending with reported shares.
var signedBy = [5]int{1, 3, 7, 14, 30}

// Signing is how many days mandates took from their link to the signature, by when each was
// observed.
type Signing struct {
	By       string  `json:"by"`    // all, letters, language or connection
	Group    string  `json:"group"` // "" for all
	Mandates int     `json:"mandates"`
	Signed   int     `json:"signed"`
	Median   float64 `json:"median_days"`  // of signed ones
	P90      float64 `json:"p90_days"`     // by then nine of ten of those were signed
	Shares   []Share `json:"after_letter"` // days after the first letter; none if too few

	Days [len(SignedIn) + 1]int `json:"-"` // of signed ones, by SignedIn
}

// SignedIn are the bounds of how many whole days a signature took: up to each of them, and
// beyond the last.
var SignedIn = [6]int{0, 1, 3, 7, 14, 30}

// Share is the share of mandates signed by a day after their link was sent. It counts only links sent at least so many
// days ago.
type Share struct {
	Day    int `json:"day"`
	Sent   int `json:"sent"`
	Signed int `json:"signed"`
}

// Percent returns the signed share in percent.
func (s Share) Percent() int { return s.Signed * 100 / max(1, s.Sent) }

// signings gathers a group.
type signings struct {
	mandates int
	days     []float64 // of signed ones
	shares   [len(signedBy)]Share
}

func (g *signings) add(s state.Signing, now time.Time) {
	g.mandates++
	if !s.Signed.IsZero() {
		g.days = append(g.days, s.Signed.Sub(s.Created).Hours()/24)
	}
	if s.Times == 0 {
		return // nobody sent it, or only when it was signed
	}
	for i, day := range signedBy {
		within := time.Duration(day) * 24 * time.Hour
		if now.Sub(s.Sent) < within {
			continue // it may still come
		}
		g.shares[i].Sent++
		if !s.Signed.IsZero() && s.Signed.Sub(s.Sent) <= within {
			g.shares[i].Signed++
		}
	}
}

// daysToSign returns the sufficiently large groups, all mandates first.
func daysToSign(ctx context.Context, ledger *state.Ledger, connection string, now time.Time) ([]Signing, error) {
	type name struct{ by, group string }
	groups := map[name]*signings{}
	err := ledger.EachSigning(ctx, connection, func(s state.Signing) error {
		for _, n := range []name{{"all", ""}, {"letters", fmt.Sprint(s.Times)}, {"language", s.Language},
			{"connection", s.Connection}} {
			if n.group == "" && n.by != "all" {
				continue
			}
			if groups[n] == nil {
				groups[n] = &signings{}
			}
			groups[n].add(s, now)
		}
		return nil
	})
	out := []Signing{}
	for n, g := range groups {
		if len(g.days) >= LeastGroup {
			out = append(out, g.signing(n.by, n.group))
		}
	}
	order := []string{"all", "letters", "language", "connection"}
	slices.SortFunc(out, func(a, b Signing) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.By), slices.Index(order, b.By)),
			cmp.Compare(len(a.Group), len(b.Group)), cmp.Compare(a.Group, b.Group))
	})
	return out, err
}

func (g *signings) signing(by, group string) Signing {
	slices.Sort(g.days)
	s := Signing{By: by, Group: group, Mandates: g.mandates, Signed: len(g.days), Median: rank(g.days, 50),
		P90: rank(g.days, 90), Shares: []Share{}}
	for _, days := range g.days {
		at := 0
		for at < len(SignedIn) && int(days) > SignedIn[at] {
			at++
		}
		s.Days[at]++
	}
	for i, share := range g.shares {
		if share.Sent >= LeastGroup {
			share.Day = signedBy[i]
			s.Shares = append(s.Shares, share)
		}
	}
	return s
}

// rank returns a percentile of sorted numbers, rounded to a tenth.
func rank(sorted []float64, percent int) float64 {
	at := max(0, (len(sorted)*percent+99)/100-1)
	return float64(int(sorted[at]*10+0.5)) / 10
}
