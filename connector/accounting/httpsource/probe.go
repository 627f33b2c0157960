package httpsource

import (
	"context"
	"errors"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// Probe tests the steps of a run: credentials, company, permission, clock, one page, and the profile's own requests.
// It ends at the first failure.
func (s *Source) Probe(ctx context.Context) []accounting.Probe {
	out := []accounting.Probe{s.caller.Probe(ctx)}
	if auth := s.profile.Auth(); out[0].OK && (auth == AuthHeader || auth == AuthLogin) {
		out[0].Detail = "the configuration gives a key"
	}
	if !out[0].OK {
		return out
	}
	who, err := s.organisation(ctx)
	if err != nil {
		return append(out, failed("tenant", err))
	}
	out = append(out, accounting.Probe{Name: "tenant", OK: true, Detail: who.Name + " = " + who.ID})
	l := &listing{source: s, reader: s.reader(s.local(who.ID)), vars: s.request(who.ID, time.Time{})}
	sheet, err := l.fetch(ctx, 0)
	if err != nil {
		return append(out, failed("permissions", err))
	}
	out = append(out, accounting.Probe{Name: "permissions", OK: true, Detail: s.profile.file.Record.Noun +
		"s may be read"},
		accounting.ProbeClock(l.date, s.now()))
	if l.startsLate(ctx, sheet.Records) {
		return append(out, accounting.Probe{Name: "one page", Detail: late})
	}
	for _, r := range sheet.Records {
		if r.Problem != "" {
			return append(out, accounting.Probe{Name: "one page", Detail: r.Problem})
		}
	}
	out = append(out, accounting.Probe{Name: "one page", OK: true,
		Detail: connector.Plural(len(sheet.Records), s.profile.file.Record.Noun) + " on the first page"})
	return append(out, s.ownProbes(ctx, l.vars)...)
}

// ownProbes sends the profile's further requests.
func (s *Source) ownProbes(ctx context.Context, vars map[string]any) (out []accounting.Probe) {
	for i, written := range s.profile.file.Probes {
		req, err := s.build(ctx, s.profile.probes[i], vars)
		if err != nil {
			out = append(out, failed(written.Name, err))
			continue
		}
		a, err := s.ask(ctx, "try "+written.Name, req, "$", vars)
		var throttled *accounting.Parked
		if errors.As(err, &throttled) || a.env == nil {
			out = append(out, failed(written.Name, err))
			continue
		}
		body, bad := valueOf(a.Body)
		if bad == nil {
			a.env["body"] = body
		}
		a.env["text"] = ""
		switch wrong, judged := s.profile.probeWhen[i].is(a.env); {
		case judged == nil && wrong:
			out = append(out, accounting.Probe{Name: written.Name, Detail: written.Say})
		case err != nil:
			out = append(out, failed(written.Name, err))
		case judged != nil:
			out = append(out, failed(written.Name, judged))
		default:
			out = append(out, accounting.Probe{Name: written.Name, OK: true, Detail: "as it must be"})
		}
	}
	return out
}

func failed(name string, err error) accounting.Probe {
	return accounting.Probe{Name: name, Detail: err.Error()}
}
