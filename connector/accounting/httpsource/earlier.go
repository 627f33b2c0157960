package httpsource

import (
	"context"
	"net/http"
	"strconv"

	"payersync/connector"
)

// startsLate reports whether the page before the first one holds records that the first does not. Then the profile
// counts the pages from a wrong number, and every read would miss them without an error. It asks only where that page
// has a number, 0 or more. No answer proves nothing.
func (l *listing) startsLate(ctx context.Context, first []connector.Record) bool {
	quiet := *l.source // a recording is of the pages that a read asks for
	quiet.heard = nil
	s := &quiet
	if !s.profile.list.reads("page") {
		return false
	}
	vars := copyOf(l.vars)
	vars["page"], vars["offset"] = 0, 0
	now, err := s.build(ctx, s.profile.list, vars)
	if err != nil {
		return false
	}
	vars["page"] = -1
	before, err := s.build(ctx, s.profile.list, vars)
	if err != nil || !numbered(now, before) {
		return false
	}
	a, err := s.ask(ctx, opList, before, string(s.profile.file.List.Records), vars)
	if err != nil {
		return false
	}
	met := map[string]bool{}
	for _, r := range first {
		met[r.SourceID] = true
	}
	for _, raw := range a.rows {
		if r := l.reader.record(raw); !met[r.SourceID] {
			return true
		}
	}
	return false
}

// numbered reports whether two requests differ in one number, which is 0 or more in the second.
func numbered(now, before *http.Request) bool {
	one, err1 := parts(now)
	other, err2 := parts(before)
	if err1 != nil || err2 != nil {
		return false
	}
	for name, value := range other {
		if value != one[name] {
			n, err := strconv.Atoi(value)
			return err == nil && n >= 0
		}
	}
	return false
}

// late says what is wrong with a profile that begins behind the first page.
const late = "the page before the first one holds further records, so the profile counts pages from a wrong number"
