package httpsource

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"

	"payersync/connector"
	"payersync/connector/accounting"
)

// Sample is the first page of a company's list.
type Sample struct {
	Company accounting.Organisation
	Records []connector.Record
	Last    bool // there is no further page
}

// Try asks for the company and the first page of its list. It keeps nothing.
func (s *Source) Try(ctx context.Context) (Sample, error) {
	who, err := s.organisation(ctx)
	if err != nil {
		return Sample{}, err
	}
	l := &listing{source: s, reader: s.reader(s.local(who.ID)), vars: s.request(who.ID, time.Time{})}
	sheet, err := l.fetch(ctx, 0)
	if err == nil && l.startsLate(ctx, sheet.Records) {
		err = s.unusable(opList, late)
	}
	return Sample{Company: who, Records: sheet.Records, Last: sheet.Last || l.short}, err
}

// Record reads the first page as Try does, and returns an example of it for examples.yaml: the answers with invented
// values, and the records that come out of them. It keeps ids, states and times. Texts and amounts are replaced.
func (s *Source) Record(ctx context.Context) ([]byte, error) {
	listener, e := *s, example{}
	list := false
	var bad error
	r := redactor{profile: s.profile, base: s.base, known: s.profile.constants(), made: map[string]string{}}
	listener.heard = func(op string, a accounting.Answer) {
		if op == "read the company" || op == "log in" {
			return
		}
		answer, err := r.answer(a)
		bad = errors.Join(bad, err)
		switch {
		case op == opList:
			e.Answer, list = answer, true
		case list:
			e.Further = append(e.Further, answer)
		default:
			e.Before = append(e.Before, answer)
		}
	}
	before, err := listener.Try(ctx)
	if err := errors.Join(err, bad); err != nil {
		return nil, err
	}
	after, err := s.profile.read(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("the redacted answer cannot be read any more: %w", err)
	}
	for i, record := range after {
		if i >= len(before.Records) || record.State != before.Records[i].State ||
			(record.Problem == "") != (before.Records[i].Problem == "") {
			return nil, errors.New("the redacted answer gives records with other states; a rule of the profile reads a value that is replaced")
		}
		e.Want = append(e.Want, wanted{ID: record.SourceID, State: string(record.State), Into: record.MergedInto,
			Problem: record.Problem, Updated: timeText(record.UpdatedAt)})
	}
	text, err := yaml.Marshal(struct{ Examples []example }{[]example{e}})
	told := "# Recorded from " + s.profile.Title() + ". Names, addresses and amounts are invented.\n"
	return append([]byte(told), text...), err
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

// redactor replaces the values of answers.
type redactor struct {
	profile *Profile
	base    *url.URL
	known   map[string]bool   // texts that the profile compares with
	made    map[string]string // the invented text for each text
}

// keptHeaders are the headers of an answer that tell nothing about the company.
var keptHeaders = regexp.MustCompile(`(?i)^(content-type|retry-after|link|x-total-count|x-?rate-?limit.*|ratelimit.*)$`)

func (r redactor) answer(a accounting.Answer) (exampleAnswer, error) {
	out := exampleAnswer{Status: a.Status, Headers: map[string]string{}}
	for name := range a.Header {
		if keptHeaders.MatchString(name) && name != "Link" {
			out.Headers[name] = a.Header.Get(name)
		}
	}
	if next := linkOf(a.Header, "next"); next != "" {
		out.Headers["Link"] = "<" + r.address(next) + `>; rel="next"`
	}
	if kind := accounting.NotJSON(a.Body); kind != "" {
		return out, errors.New("the answer is " + kind + " and no JSON, so there is nothing to record")
	}
	v, err := valueOf(a.Body)
	out.Body = r.value(v, "")
	if out.Status == http.StatusOK {
		out.Status = 0 // is the default
	}
	return out, err
}

// value replaces the texts and amounts of a value. name is that of the field it is in.
func (r redactor) value(v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = r.value(v[key], key)
		}
		return v
	case []any:
		for i := range v {
			v[i] = r.value(v[i], name)
		}
		return v
	case string:
		return r.text(v, name)
	case float64:
		return 1.5
	case int:
		if amounts.MatchString(name) {
			return 1
		}
	}
	return v
}

// amounts are the names of numbers that tell something about a company.
var amounts = regexp.MustCompile(`(?i)amount|balance|credit|debit|receivable|payable|phone|mobile|fax|vat|tax|iban|account|birth`)

var (
	timeLike = regexp.MustCompile(`^(\d{4}-\d\d-\d\d([T ][0-9:.]+)?( ?UTC|Z|[+-]\d\d:?\d\d)?|/Date\(-?\d+([+-]\d{4})?\)/)$`)
	idLike   = regexp.MustCompile(`^[A-Za-z0-9_-]*\d[A-Za-z0-9_-]*$`)
	idNamed  = regexp.MustCompile(`(?i)(id|key|uuid|guid)$`)
	coded    = regexp.MustCompile(`(?i)country|currency|lang|locale`)
)

func (r redactor) text(s, name string) string {
	switch {
	case s == "", r.known[s], timeLike.MatchString(s) && !amounts.MatchString(name), len(s) <= 2 &&
		strings.Trim(s, "0123456789") == "":
		return s
	case idLike.MatchString(s) && (idNamed.MatchString(name) || r.isID(name)):
		return s
	case coded.MatchString(name) && len(s) <= 3:
		return s
	case strings.HasPrefix(s, "https://") && r.isID(name):
		if u, err := url.Parse(s); err == nil {
			return "https://books.example" + u.EscapedPath()
		}
		return "https://books.example/"
	case strings.HasPrefix(s, "https://"), strings.HasPrefix(s, "http://"):
		return r.address(s)
	}
	if known, ok := r.made[s]; ok {
		return known
	}
	n := len(r.made) + 1
	out := fmt.Sprintf("Text %d", n)
	if strings.Contains(s, "@") {
		out = fmt.Sprintf("person%d@example.com", n)
	}
	r.made[s] = out
	return out
}

// isID reports whether the rule for the id reads a field.
func (r redactor) isID(name string) bool {
	for _, read := range r.profile.id.reads {
		if read == name {
			return true
		}
	}
	return false
}

// address keeps the path of an address of the API, and no query.
func (r redactor) address(s string) string {
	u, err := url.Parse(s)
	if err != nil || !sameHost(u, r.base) {
		return "https://books.example/"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

var quoted = regexp.MustCompile(`"([^"]*)"|'([^']*)'`)

// constants are the texts that the rules of a profile compare with.
func (p *Profile) constants() map[string]bool {
	out := map[string]bool{}
	rules := []expression{p.file.List.Last, p.file.List.Next, p.file.List.Total}
	for _, s := range p.file.Record.States {
		rules = append(rules, s.When)
	}
	for _, r := range append(append([]ruleFile{}, p.file.Record.Problems...), p.file.List.Refuse...) {
		rules = append(rules, r.When)
	}
	for _, written := range rules {
		for _, m := range quoted.FindAllStringSubmatch(string(written), -1) {
			out[m[1]+m[2]] = true
		}
	}
	return out
}
