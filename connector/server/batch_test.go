package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// covers F287
func TestADeliveryMayCarrySeveralEvents(t *testing.T) {
	t.Parallel()
	two := `{"type":"dd-mandate","customerId":"c1","n":1},{"type":"dd-mandate","customerId":"c2","n":2}`
	for name, tt := range map[string]struct {
		body  string
		paths []string
		want  string
	}{
		"a member":           {`{"events":[` + two + `],"meta":{"webhook_id":"W"}}`, nil, "c1 received c2 received"},
		"the top level":      {`[` + two + `]`, nil, "c1 received c2 received"},
		"below data":         {`{"data":{"events":[` + two + `]}}`, nil, "c1 received c2 received"},
		"data itself":        {`{"type":"batch","data":[` + two + `]}`, nil, "c1 received c2 received"},
		"a configured place": {`{"batch":{"entries":[` + two + `]}}`, []string{"batch.entries"}, "c1 received c2 received"},
		"one in a list":      {`[{"type":"customer","customerId":"c9"}]`, nil, "c9 received"},
		"one is not known": {`{"events":[{"customerId":"c1","type":"customer"},{"about":"x"}]}`, nil,
			"c1 received  quarantined"},
		"the same event twice": {`[{"customerId":"c1","type":"customer"},{"customerId":"c1","type":"customer"}]`, nil,
			"c1 received"},
		"a list beside ids": {`{"type":"customer","customerId":"c1","events":[{"customerId":"c2"}]}`, nil, "c1 received"},
		"notifications":     {`{"notifications":[` + two + `],"count":2}`, nil, "c1 received c2 received"},
		"items of a page":   {`{"items":[` + two + `],"hasMore":false}`, nil, "c1 received c2 received"},
		"below payload":     {`{"id":"B1","payload":{"events":[` + two + `]}}`, nil, "c1 received c2 received"},
		"each in a wrapper": {`{"events":[{"event":"customer","data":{"customerId":"c1"}},{"event":"customer","data":{"customer":{"id":"c2"}}}]}`, nil, "c1 received c2 received"},
		"a place far below": {`{"eventNotifications":{"dataChangeEvent":{"entities":[` + two + `]}}}`,
			[]string{"events", "eventNotifications.dataChangeEvent.entities"}, "c1 received c2 received"},
		"an unknown place": {`{"value":[` + two + `]}`, nil, " quarantined"},
		"no objects":       {`{"events":["c1","c2"]}`, nil, " quarantined"},
		"an empty list":    {`[]`, nil, " quarantined"},
		"too many": {`[` + strings.TrimSuffix(strings.Repeat(`{"customerId":"c"},`, 501), ",") + `]`, nil,
			" quarantined"},
	} {
		e := newEndpoint(t, bodyOnly(), func(c *Config) {
			if tt.paths != nil {
				c.Events.Events = tt.paths
			}
		})
		e.expect(http.StatusOK, delivery(tt.body))
		e.expect(http.StatusOK, delivery(tt.body))
		var got []string
		for _, r := range e.inbox() {
			got = append(got, r.Customer+" "+string(r.State))
		}
		if strings.Join(got, " ") != tt.want && strings.Join(got, " ") != swapped(tt.want) {
			t.Errorf("%s: the inbox has %q, want %q", name, got, tt.want)
		}
		if last := e.lastEvent(); last.Outcome != Repeated {
			t.Errorf("%s: a repeat is %s", name, last.Outcome)
		}
	}
}

// swapped is the other order of two events, which are stored side by side.
func swapped(want string) string {
	words := strings.Split(want, " ")
	if len(words) != 4 {
		return want
	}
	return fmt.Sprint(words[2], " ", words[3], " ", words[0], " ", words[1])
}
