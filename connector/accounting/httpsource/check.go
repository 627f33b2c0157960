package httpsource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"
	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/transport"
)

// Finding is one result of a check of a profile.
type Finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// example is one answer of a system, with the records that must come out of it.
type example struct {
	Answer  exampleAnswer
	Before  []exampleAnswer `yaml:",omitempty"` // to the requests ahead of the list: for the rows of further lists
	Further []exampleAnswer `yaml:",omitempty"` // to the requests behind it, in turn
	Want    []wanted
	Ends    string `yaml:",omitempty"` // how the read ends instead: parked, disconnected, unavailable or rejected
	After   string `yaml:",omitempty"` // for parked: how long nothing is asked
}

type exampleAnswer struct {
	Status  int               `yaml:",omitempty"`
	Headers map[string]string `yaml:",omitempty"`
	Body    any
}

type wanted struct {
	ID, State              string
	Into, Updated, Problem string         `yaml:",omitempty"`
	Data                   map[string]any `yaml:",omitempty"`
}

// Check checks the profile with its examples, a YAML file, and with a model of the system. It sends nothing.
func (p *Profile) Check(ctx context.Context, examples []byte) []Finding {
	env, err := p.environment(p.SampleConfig())
	base := ""
	if err == nil {
		base, err = p.base.words(env)
	}
	if err != nil {
		return []Finding{{"address", false, err.Error()}}
	}
	out := []Finding{{"address", true, "every request goes to " + base + " and stays there"},
		{"walk", true, "the list is read " + string(p.walk)}, {"write-back", true, p.WriteFacts()}}
	out = append(out, p.checkExamples(ctx, examples))
	if p.file.Fake == nil {
		return append(out, Finding{"model", false,
			"there is no block fake, so nothing shows that the profile fits itself; describe the system's answers there"})
	}
	return append(out, p.checkModel(ctx)...)
}

// checkModel reads a model of the system; a profile without a block fake has none.
func (p *Profile) checkModel(ctx context.Context) (out []Finding) {
	if p.file.Fake == nil {
		return nil
	}
	for _, c := range p.modelChecks() {
		f := Finding{Name: c.name, OK: true, Detail: "as it must be"}
		if err := p.tryModel(ctx, c.try); err != nil {
			f.OK, f.Detail = false, err.Error()
		}
		out = append(out, f)
	}
	return out
}

// FitsItself reads a model of the system, and returns how the profile contradicts it. It sends nothing.
func (p *Profile) FitsItself(ctx context.Context) error {
	for _, f := range p.checkModel(ctx) {
		if !f.OK {
			return fmt.Errorf("%s: %s", f.Name, f.Detail)
		}
	}
	return nil
}

// checkExamples reads each example as the system's answer to the request for a page.
func (p *Profile) checkExamples(ctx context.Context, text []byte) Finding {
	var file struct{ Examples []example }
	if err := yaml.Unmarshal(text, &file); err != nil {
		return Finding{"examples", false, "examples.yaml cannot be read: " + err.Error()}
	}
	all := file.Examples
	if len(all) == 0 {
		return Finding{"examples", false,
			"there are none; put answers of the system, with invented names, into examples.yaml beside the profile"}
	}
	for i, e := range all {
		if err := p.example(ctx, e); err != nil {
			return Finding{"examples", false, fmt.Sprintf("example %d: %s", i+1, err)}
		}
	}
	return Finding{"examples", true, connector.Plural(len(all), "answer") + " gave the records beside it"}
}

// checkTime is the time at which models and examples are read.
var checkTime = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// inTurn answers requests by an example: the rows of further lists, the page of the list, and the further answers. The
// last one is the answer to all others.
type inTurn struct {
	answers []exampleAnswer
	next    int
}

// turns returns the answers of an example, in the order in which a read asks for them.
func (e example) turns() *inTurn {
	return &inTurn{answers: slices.Concat(e.Before, []exampleAnswer{e.Answer}, e.Further)}
}

// RoundTrip returns the next answer.
func (o *inTurn) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := o.answers[min(o.next, len(o.answers)-1)]
	o.next++
	rec := &http.Response{StatusCode: cmp.Or(answer.Status, http.StatusOK),
		Header: http.Header{"Date": {checkTime.Format(http.TimeFormat)}}, Request: req}
	for name, value := range answer.Headers {
		rec.Header.Set(name, value)
	}
	body := []byte(fmt.Sprint(answer.Body))
	if _, isText := answer.Body.(string); !isText {
		var err error
		if body, err = json.Marshal(answer.Body); err != nil {
			return nil, err
		}
	}
	rec.Body, rec.ContentLength = bodyOf(body), int64(len(body))
	return rec, nil
}

// example reads one example.
func (p *Profile) example(ctx context.Context, e example) error {
	records, err := p.read(ctx, e)
	if e.Ends != "" {
		return endsAs(err, e.Ends, e.After)
	}
	if err != nil {
		return err
	}
	if len(records) != len(e.Want) {
		return fmt.Errorf("%d records came out, and %d are expected", len(records), len(e.Want))
	}
	for i, w := range e.Want {
		if err := w.differs(records[i]); err != nil {
			return fmt.Errorf("record %d: %w", i+1, err)
		}
	}
	return nil
}

// read returns the records of an example.
func (p *Profile) read(ctx context.Context, e example) ([]connector.Record, error) {
	s, err := p.sample(e.turns(), func() time.Time { return checkTime })
	if err != nil {
		return nil, err
	}
	if s.login != nil {
		s.login = func(context.Context) (any, error) { return 1, nil } // an example begins behind the login
	}
	l := &listing{source: s, reader: s.reader("1"), vars: s.request("1", time.Time{})}
	sheet, err := l.fetch(ctx, 0)
	return sheet.Records, err
}

// differs returns how a record is not as expected.
func (w wanted) differs(r connector.Record) error {
	updated := ""
	if !r.UpdatedAt.IsZero() {
		updated = r.UpdatedAt.Format(time.RFC3339)
	}
	for what, pair := range map[string][2]string{"id": {w.ID, r.SourceID}, "state": {w.State, string(r.State)},
		"into": {w.Into, r.MergedInto}, "problem": {w.Problem, r.Problem}, "updated": {cmp.Or(w.Updated, updated), updated}} {
		if pair[0] != pair[1] {
			return fmt.Errorf("%s is %q, and %q is expected", what, pair[1], pair[0])
		}
	}
	var data map[string]any
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return err
	}
	for name, want := range w.Data {
		if got, _ := json.Marshal(data[name]); string(got) != string(jsonOf(want)) {
			return fmt.Errorf("the field %s is %s, and %s is expected", name, got, jsonOf(want))
		}
	}
	return nil
}

func jsonOf(v any) []byte {
	out, _ := json.Marshal(v) // it came from YAML
	return out
}

// sample returns a source with sample settings whose requests go to base.
func (p *Profile) sample(base http.RoundTripper, now func() time.Time) (*Source, error) {
	client := transport.New(transport.Options{Base: base, Retries: -1, Now: now})
	tokens := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "sample"})
	return New(p, p.SampleConfig(), Dependencies{HTTP: client, Token: tokens, Limiter: unlimited{}, Now: now})
}

// unlimited is a budget without limits.
type unlimited struct{}

// Acquire always grants a turn.
func (unlimited) Acquire(context.Context) (func(), error) { return func() {}, nil }

// Park notes nothing.
func (unlimited) Park(context.Context, time.Time) error { return nil }

// endsAs returns how an error is not of a kind.
func endsAs(err error, kind, after string) error {
	var parked *accounting.Parked
	var out *accounting.Disconnected
	ok := false
	switch kind {
	case "parked":
		ok = errors.As(err, &parked)
		if wait, bad := time.ParseDuration(after); ok && after != "" &&
			(bad != nil || !parked.Until.Equal(checkTime.Add(wait))) {
			return fmt.Errorf("nothing is asked before %s, and %s later is expected", parked.Until.Format(time.RFC3339), after)
		}
	case "disconnected":
		ok = errors.As(err, &out)
	default:
		ok = string(connector.FaultOf(err)) == kind
	}
	if !ok {
		return fmt.Errorf("the read ends with %q, and %s is expected", fmt.Sprint(err), kind)
	}
	return nil
}

// try is a model of the system under test.
type try struct {
	*Fake
	source *Source
	now    time.Time
	ids    []string
}

func (p *Profile) tryModel(ctx context.Context, check func(context.Context, *try) error) error {
	t := &try{now: checkTime}
	clock := func() time.Time { return t.now }
	var err error
	if t.Fake, err = NewFake(p, p.SampleConfig(), clock); err != nil {
		return err
	}
	t.ids = t.Add(2*t.Fake.source.size + 3)
	t.now = t.now.Add(time.Hour)
	if t.source, err = p.sample(t.Fake, clock); err != nil {
		return err
	}
	return check(ctx, t)
}

// read returns the records of a read by id.
func (t *try) read(ctx context.Context, since time.Time) (map[string]connector.Record, error) {
	out := map[string]connector.Record{}
	for page, err := range t.source.Customers(ctx, since) {
		if err != nil {
			return nil, err
		}
		for _, r := range page.Records {
			out[r.SourceID] = r
		}
	}
	return out, nil
}

// modelCheck is one thing that a profile must show with the model of its system.
type modelCheck struct {
	name string
	try  func(context.Context, *try) error
}

// modelChecks are the checks that a profile needs.
func (p *Profile) modelChecks() []modelCheck {
	if p.write == nil {
		return readChecks
	}
	return append(slices.Clone(readChecks), modelCheck{"write-back sets one field, and a read shows it", writesOneField})
}

var readChecks = []modelCheck{
	{"a full read gives every record as it is", readsAll},
	{"a read of changes gives the changed ones", readsChanges},
	{"each state is told", tellsStates},
	{"nobody is lost while customers are edited, added and removed", losesNobody},
	{"each trouble ends the read as what it is", endsInTrouble},
}

func readsAll(ctx context.Context, t *try) error {
	got, err := t.read(ctx, time.Time{})
	if err != nil {
		return err
	}
	return t.compare(got)
}

// compare holds records against the model's.
func (t *try) compare(got map[string]connector.Record) error {
	truth, err := t.Truth()
	if err != nil {
		return err
	}
	if len(got) != len(truth) {
		return fmt.Errorf("%d records were read, and the model has %d", len(got), len(truth))
	}
	for _, want := range truth {
		r, ok := got[want.SourceID]
		switch {
		case !ok:
			return fmt.Errorf("record %s was not read; the ids that were read are like %q", want.SourceID, first(got))
		case r.Problem != "":
			return fmt.Errorf("record %s cannot be used: %s", want.SourceID, r.Problem)
		case r.State != want.State || r.MergedInto != want.MergedInto:
			return fmt.Errorf("record %s is %s, and the model says %s", want.SourceID, r.State, want.State)
		case string(r.Data) != string(want.Data):
			return fmt.Errorf("record %s has other data than the model's", want.SourceID)
		case r.UpdatedAt.IsZero() && t.profile.updated != nil:
			return fmt.Errorf("the time of last edit of record %s cannot be read in the forms of record.times", want.SourceID)
		}
	}
	return nil
}

func first(records map[string]connector.Record) string {
	for _, id := range slices.Sorted(maps.Keys(records)) {
		return id
	}
	return "none"
}

func (t *try) rename(id string) {
	t.Change(id, func(name *string, _ *connector.RecordState, _ *string) { *name += "+" })
}

func readsChanges(ctx context.Context, t *try) error {
	if t.profile.wholeOnly {
		return nil
	}
	since := t.now.Add(-5 * time.Minute)
	t.now = t.now.Add(time.Second)
	t.rename(t.ids[3])
	got, err := t.read(ctx, since)
	if err != nil {
		return err
	}
	if _, ok := got[t.ids[3]]; !ok {
		return errors.New("an edited record is not among the changes")
	}
	if len(got) > len(t.ids)/2 && time.Duration(t.profile.file.Model.Grain) < time.Hour {
		return fmt.Errorf("%d of %d records came for one edit; the request does not say since when", len(got), len(t.ids))
	}
	return nil
}

func tellsStates(ctx context.Context, t *try) error {
	for i, state := range t.profile.States() {
		t.now = t.now.Add(time.Second)
		t.Change(t.ids[i], func(_ *string, s *connector.RecordState, into *string) {
			if *s = state; state == connector.RecordMerged {
				*into = t.ids[len(t.ids)-1]
			}
		})
	}
	return readsAll(ctx, t)
}

func losesNobody(ctx context.Context, t *try) error {
	stays := slices.Clone(t.ids[5:])
	pages := 0
	t.After = func() {
		for i := range 20 {
			t.rename(stays[(7*i+pages)%len(stays)])
		}
		if pages++; pages <= 2 {
			t.Remove(t.ids[pages])
			t.Add(1)
		}
	}
	got, err := t.read(ctx, time.Time{})
	t.After = nil
	if err != nil {
		return err
	}
	for _, id := range stays {
		if _, ok := got[id]; !ok {
			return fmt.Errorf("record %s was there all the time, and was not read", id)
		}
	}
	return nil
}

func endsInTrouble(ctx context.Context, t *try) error {
	kinds := map[Fault]string{Down: "unavailable", Overloaded: "unavailable", WebPage: "unavailable", Cut: "unavailable",
		NoList:   "unavailable",
		Redirect: "unavailable", Throttled: "parked", Bare: "parked", Expired: "disconnected", Forbidden: "disconnected"}
	if t.profile.next != nil {
		kinds[Elsewhere] = "unavailable"
	}
	for _, fault := range slices.Sorted(maps.Keys(kinds)) {
		t.Fault = fault
		_, err := t.read(ctx, time.Time{})
		t.Fault = ""
		var parked *accounting.Parked
		if fault == Bare && errors.As(err, &parked) && parked.Until.Before(t.now.Add(t.Fake.pause())) {
			return fmt.Errorf("%s: the model takes requests again after %s, and nothing is asked only until %s", fault,
				t.Fake.pause(), parked.Until.Format(time.RFC3339))
		}
		if err := endsAs(err, kinds[fault], ""); err != nil {
			return fmt.Errorf("%s: %w", fault, err)
		}
	}
	return nil
}

// LimitsText is the request budget for people.
func (p *Profile) LimitsText() string {
	var out []string
	for _, w := range p.file.Limits.Windows {
		out = append(out, fmt.Sprintf("%d in %s", w.Requests,
			strings.TrimSuffix(strings.TrimSuffix(time.Duration(w.Per).String(), "0s"), "0m")))
	}
	if p.file.Limits.Concurrent > 0 {
		out = append(out, fmt.Sprintf("%d at a time", p.file.Limits.Concurrent))
	}
	return cmp.Or(strings.Join(out, ", "), "not known")
}
