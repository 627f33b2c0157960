package billing_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector/billing"
)

var surveyed = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func survey(bodies ...string) billing.Surveyed {
	s := billing.Survey{
		Paths:    billing.DefaultEventPaths(),
		Customer: func(id string) bool { return strings.HasPrefix(id, "cus_") },
		Mandate:  func(id string) bool { return strings.HasPrefix(id, "man_") },
	}
	for i, body := range bodies {
		s.Add(surveyed.Add(time.Duration(i)*time.Minute), false, []byte(body))
	}
	return s.Found()
}

// proposed returns what is proposed, in short.
func proposed(s billing.Surveyed) (out []string) {
	for _, p := range s.Proposals {
		out = append(out, fmt.Sprintf("%s %s %d/%d", p.Key, p.Path, p.Evidence, p.Deliveries))
	}
	return out
}

// covers F38
func TestDeliveriesThatDifferInValuesOnlyHaveOneShape(t *testing.T) {
	t.Parallel()
	got := survey(
		`{"who":{"ref":"cus_1"},"what":"mandate.signed","name":"Ada Secret","n":1,"list":[1],"ok":true,"none":null,"empty":{}}`,
		`{"n":222,"what":"mandate.ended","who":{"ref":"cus_22"},"name":"Grace Secret","list":[],"ok":false,"none":null,"empty":{}}`,
		`{"who":{"ref":5}}`, ``, `[1]`, `not JSON`)
	if len(got.Shapes) != 2 || got.Deliveries != 6 || got.Erased != 1 || got.Unreadable != 2 {
		t.Fatalf("found %+v", got)
	}
	want := billing.Shape{Count: 2, First: surveyed, Last: surveyed.Add(time.Minute), Members: []billing.EventMember{
		{Path: "empty", Kind: "empty object"}, {Path: "list", Kind: "list"}, {Path: "n", Kind: "number"},
		{Path: "name", Kind: "text"},
		{Path: "none", Kind: "null"}, {Path: "ok", Kind: "true or false"}, {Path: "what", Kind: "text"},
		{Path: "who.ref", Kind: "text"},
	}}
	if diff := cmp.Diff(want, got.Shapes[0]); diff != "" {
		t.Errorf("shape (-want +got):\n%s", diff)
	}
	if text, err := json.Marshal(got); err != nil || strings.Contains(string(text), "Secret") ||
		strings.Contains(string(text), "cus_") || strings.Contains(string(text), "signed") {
		t.Errorf("it shows values: %s, %v", text, err)
	}
}

func TestPathsAreProposedByEvidence(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		bodies []string
		want   []string
	}{
		{"all five", []string{
			`{"kind":"mandate.signed","uid":"e-0001","who":{"ref":"cus_1","dd":"man_1"},"at":"2026-03-02T09:00:00Z"}`,
			`{"kind":"mandate.signed","uid":"e-0002","who":{"ref":"cus_2","dd":"man_2"},"at":"2026-03-02T09:01:00Z"}`,
			`{"kind":"mandate.ended","uid":"e-0003","who":{"ref":"cus_1","dd":"man_1"},"at":"2026-03-02T09:02:00Z"}`,
		}, []string{"customer_id who.ref 3/3", "mandate_id who.dd 3/3", "type kind 3/3", "event_id uid 3/3",
			"occurred_at at 3/3"}},
		{"an id that is a customer's in another shape is no event's", []string{
			`{"id":"e-0001","who":"cus_1"}`, `{"id":"e-0002","who":"cus_2"}`, `{"id":"cus_3","x":1}`,
		}, []string{"customer_id who 2/2"}},
		{"an id that is a customer's here and a mandate's there is neither's", []string{`{"ref":"cus_1"}`, `{"ref":"man_1"}`},
			nil},
		{"ids of others on the account do not hide a path",
			[]string{`{"ref":"cus_1"}`, `{"ref":"cus_2"}`, `{"ref":"theirs"}`}, []string{"customer_id ref 2/3"}},
		{"a value that repeats and names no event is no type",
			[]string{`{"currency":"GBP","note":"hello"}`, `{"currency":"GBP","note":"hello"}`}, nil},
		{"a birthday is not when it happened", []string{`{"born":"1980-03-02T00:00:00Z"}`}, nil},
		{"of two times the one nearest to the arrival", []string{`{"made":"2026-03-01T09:00:00Z","sent":1772442000}`},
			[]string{"occurred_at sent 1/1"}},
		{"each shape has its own path", []string{`{"a":"cus_1"}`, `{"b":{"c":"cus_2"}}`},
			[]string{"customer_id a 1/1", "customer_id b.c 1/1"}},
		{"a name with a dot in it cannot be configured", []string{`{"a.b":"cus_1","header:x":"cus_2"}`}, nil},
		{"what is configured is not proposed", []string{`{"customer_id":"cus_1","eventId":"e"}`}, nil},
		{"a bare number is no time", []string{`{"n":12}`}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, proposed(survey(tt.bodies...))); diff != "" {
				t.Errorf("proposals (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsProposedIsUnderstood(t *testing.T) {
	t.Parallel()
	body := `{"kind":"mandate.signed","who":{"ref":"cus_1"}}`
	found := survey(body, body, `{"x":1}`)
	paths, changed := billing.DefaultEventPaths().With(found.Proposals)
	got, err := billing.ParseEvent(paths, nil, []byte(body))
	if err != nil || got.CustomerID != "cus_1" || got.Type != "mandate.signed" || found.Understood != 2 {
		t.Errorf("%+v, %v; %d are said to be understood", got, err, found.Understood)
	}
	if list := changed["customer_id"]; len(changed) != 2 || list[0] != "customerId" || list[len(list)-1] != "who.ref" {
		t.Errorf("to paste: %v", changed)
	}
}

// Members may be named after values, and every delivery have its own.
func TestASurveyIsBounded(t *testing.T) {
	t.Parallel()
	var bodies []string
	for i := range 10_000 {
		bodies = append(bodies, fmt.Sprintf(`{"m%d":{"ref":"cus_%d"},"type":"t%d"}`, i, i, i))
	}
	if got := survey(bodies...); len(got.Shapes)+got.MoreShapes != 10_000 || got.MoreShapes == 0 ||
		got.Understood > len(got.Shapes) {
		t.Errorf("%d shapes, %d more, %d understood", len(got.Shapes), got.MoreShapes, got.Understood)
	}
}

func FuzzSurvey(f *testing.F) {
	f.Add(`{"kind":"mandate.signed","who":{"ref":"cus_1","dd":"man_1"},"at":"2026-03-02T09:00:00Z"}`)
	f.Add(`{"":{"":""},"a.b":[{}],"c":{}}`)
	f.Fuzz(func(t *testing.T, body string) {
		found := survey(body)
		paths, _ := billing.DefaultEventPaths().With(found.Proposals)
		event, err := billing.ParseEvent(paths, nil, []byte(body))
		if found.Understood > 0 && (err != nil || event.CustomerID == "" && event.MandateID == "") {
			t.Errorf("said to be understood is %q: %+v, %v", body, event, err)
		}
	})
}
