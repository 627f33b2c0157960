package tryton

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// readModels are the models needed for a read.
var readModels = []string{"party.party", "party.address", "party.contact_mechanism", "party.identifier",
	"party.category"}

// Probe tests the steps of a read, in order, and ends with the first failure: the server and its clock, the
// login, the permissions, one page.
func (s *Source) Probe(ctx context.Context) []accounting.Probe {
	version, date, err := s.rpc.version(ctx)
	if err != nil {
		return []accounting.Probe{{Name: "server", Detail: err.Error()}}
	}
	out := []accounting.Probe{
		{Name: "server", OK: true, Detail: "Tryton " + strings.Map(printable, version) + note(version)},
		accounting.ProbeClock(date, s.rpc.now()),
	}
	for _, step := range []struct {
		name string
		try  func(context.Context) (string, error)
	}{{"credentials", s.tryLogin}, {"permissions", s.tryAccess}, {"one page", s.tryPage}} {
		detail, err := step.try(ctx)
		if err != nil {
			return append(out, accounting.Probe{Name: step.name, Detail: err.Error()})
		}
		out = append(out, accounting.Probe{Name: step.name, OK: true, Detail: detail})
	}
	return out
}

// note returns a note for an untested version.
func note(version string) string {
	if strings.HasPrefix(version, "6.0.") {
		return ""
	}
	return "; payersync is tested with 6.0, so compare a few customers before you rely on it"
}

func printable(r rune) rune {
	if r > ' ' && r < 0x7f {
		return r
	}
	return -1
}

func (s *Source) tryLogin(ctx context.Context) (string, error) {
	_, err := s.rpc.login(ctx, "")
	return fmt.Sprintf("the login works, database %q", s.database), err
}

func (s *Source) tryAccess(ctx context.Context) (string, error) {
	var access map[string]struct {
		Read flag `json:"read"`
	}
	if err := s.rpc.call(ctx, "model.ir.model.access.get_access", &access, readModels, struct{}{}); err != nil {
		return "", err
	}
	closed := slices.DeleteFunc(slices.Clone(readModels), func(model string) bool { return !access[model].Read.off() })
	if len(closed) > 0 {
		return "", failed("its user may not read " + strings.Join(closed, ", ") +
			"; allow it in Tryton, under Administration, Users")
	}
	return "its user may read parties and their parts", nil
}

func (s *Source) tryPage(ctx context.Context) (string, error) {
	sheet, _, err := s.page(ctx, time.Time{}, 0)
	if err != nil {
		return "", err
	}
	problems, first := 0, ""
	for _, r := range sheet.Records {
		if r.Problem != "" {
			problems++
			first = cmp.Or(first, ": "+r.Problem)
		}
	}
	detail := fmt.Sprintf("%s, %d of them with a problem%s", connector.Plural(len(sheet.Records), "party"), problems,
		first)
	if problems > 0 && problems == len(sheet.Records) {
		return "", failed(detail)
	}
	return detail, nil
}
