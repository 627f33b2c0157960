package billing_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/connector/billing"
)

// TestWhatIsTakenBackIsAsItWas takes every update back that a merge can make: the customer
// is what it was before, member for member, and what was added meanwhile stays.
func TestWhatIsTakenBackIsAsItWas(t *testing.T) {
	t.Parallel()
	clients := map[string]*billing.Client{}
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScene(rt)
		name := fmt.Sprint(s.dialect)
		if clients[name] == nil {
			clients[name] = offline(t, func(d *billing.Dialect) { *d = s.dialect })
		}
		client := clients[name]
		before := connector.RemoteCustomer{ID: "c1", Raw: json.RawMessage(s.raw)}
		sent, changed, err := client.MergeCustomer(before, s.last, s.want, s.own)
		if err != nil || !changed {
			return
		}
		want, now := decoded(rt, s.raw), decoded(rt, string(sent))
		for _, customer := range []map[string]any{want, now} {
			customer["since"], customer["id"] = json.Number("1.0"), "c1"
		}
		shown, err := json.Marshal(now)
		if err != nil {
			rt.Fatal(err)
		}
		released, err := client.ReleaseCustomer(connector.RemoteCustomer{ID: "c1", Raw: shown},
			[]connector.Written{{Before: before.Raw, Sent: sent}}, s.want.ExternalData)
		if err != nil {
			rt.Fatal(err)
		}
		if len(released.Kept) > 0 {
			rt.Errorf("kept %q\nbefore %s\nsent   %s", released.Kept, s.raw, sent)
		}
		got := decoded(rt, string(released.Body))
		got["id"] = "c1"
		if as, is := plain(rt, want), plain(rt, got); as != is {
			rt.Errorf("it is\n     %s\nwas  %s\nsent %s", is, as, sent)
		}
	})
}

func decoded(t *rapid.T, raw string) map[string]any {
	d := json.NewDecoder(bytes.NewReader([]byte(raw)))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return out
}

func plain(t *rapid.T, v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestReleaseCustomer(t *testing.T) {
	t.Parallel()
	const before = `{"id":"c1","name":"Old Ltd","people":[{"id":7,"name":"Zoe","email":"zoe@x.example"}],"notes":"VIP","externalData":{"theirs":"x"}}`
	const sent = `{"id":"c1","name":"Neu AG","people":[{"id":7,"name":"Zoe","email":"zoe@x.example"},{"name":"Ann","email":"ann@x.example"}],"notes":"VIP","externalData":{"theirs":"x","k":"1"}}`
	const again = `{"id":"c1","name":"Neu SE","people":[{"id":7,"name":"Zoe","email":"zoe@x.example"},{"id":9,"name":"Ann","email":"ann@x.example","phone":"1"}],"notes":"VIP","externalData":{"theirs":"x","k":"1"}}`
	first := connector.Written{Before: json.RawMessage(before), Sent: json.RawMessage(sent)}
	for _, c := range []struct {
		name, fetched string
		writes        []connector.Written
		body          string // "" when there is nothing to send
		kept          []string
	}{
		{name: "as it was sent", fetched: sent, writes: []connector.Written{first}, body: before},
		{name: "as it was before", fetched: before, writes: []connector.Written{first}},
		{name: "the service has given our contact an id, and writes the name in its own way",
			fetched: `{"id":"c1","name":"NEU AG","people":[{"id":7,"name":"Zoe","email":"zoe@x.example"},{"id":9,"name":"Ann","email":"ann@x.example"}],"notes":"VIP","externalData":{"theirs":"x","k":"1"}}`,
			writes:  []connector.Written{first}, body: before},
		{name: "two updates, the newer one first", fetched: again,
			writes: []connector.Written{{Before: json.RawMessage(`{"id":"c1","name":"Neu AG","people":[{"id":7,"name":"Zoe","email":"zoe@x.example"},{"id":9,"name":"Ann","email":"ann@x.example"}],"externalData":{"theirs":"x","k":"1"}}`), Sent: json.RawMessage(again)}, first},
			body:   before},
		{name: "somebody has renamed it since: that stays, and is named",
			fetched: `{"id":"c1","name":"Theirs Ltd","people":[{"id":7,"name":"Zoe Q","email":"zoe@x.example"},{"name":"Ann","email":"ann@x.example"},{"name":"Bob"}],"notes":"new","externalData":{"theirs":"y","k":"1"}}`,
			writes:  []connector.Written{first}, kept: []string{"name"},
			body: `{"id":"c1","name":"Theirs Ltd","people":[{"id":7,"name":"Zoe Q","email":"zoe@x.example"},{"name":"Bob"}],"notes":"new","externalData":{"theirs":"y"}}`},
		{name: "what somebody has added to a contact of ours stays, and is named",
			fetched: `{"id":"c1","name":"Neu AG","people":[{"id":7,"name":"Zoe","email":"zoe@x.example"},{"id":9,"name":"Ann","email":"ann@x.example","title":"Dr"}],"notes":"VIP","externalData":{"theirs":"x","k":"1"}}`,
			writes:  []connector.Written{first}, kept: []string{"people[1]"},
			body: `{"id":"c1","name":"Old Ltd","people":[{"id":7,"name":"Zoe","email":"zoe@x.example"},{"id":9,"title":"Dr"}],"notes":"VIP","externalData":{"theirs":"x"}}`},
		{name: "a contact of ours was taken out, and somebody has changed the other since",
			fetched: `{"id":"c1","name":"A","people":[{"name":"Bob","email":"bob@x.example","title":"Dr"}]}`,
			writes: []connector.Written{{Before: json.RawMessage(`{"id":"c1","name":"A","people":[{"name":"Ann","email":"ann@x.example"},{"name":"Rob","email":"bob@x.example"}]}`),
				Sent: json.RawMessage(`{"id":"c1","name":"A","people":[{"name":"Bob","email":"bob@x.example"}]}`)}},
			body: `{"id":"c1","name":"A","people":[{"name":"Ann","email":"ann@x.example"},{"name":"Rob","email":"bob@x.example","title":"Dr"}]}`},
		{name: "the list has other contacts in the places of ours",
			fetched: `{"id":"c1","name":"Neu AG","people":[{"name":"Bob"}],"notes":"VIP","externalData":{"theirs":"x"}}`,
			writes:  []connector.Written{first}, kept: []string{"people"},
			body: `{"id":"c1","name":"Old Ltd","people":[{"name":"Bob"}],"notes":"VIP","externalData":{"theirs":"x"}}`},
		{name: "the key alone", fetched: sent,
			body: `{"id":"c1","name":"Neu AG","people":[{"id":7,"name":"Zoe","email":"zoe@x.example"},{"name":"Ann","email":"ann@x.example"}],"notes":"VIP","externalData":{"theirs":"x"}}`},
		{name: "a key with another value is somebody's", fetched: `{"id":"c1","name":"A","externalData":{"k":"2"}}`},
		{name: "a key that was there before stays",
			fetched: `{"id":"c1","name":"Neu AG","externalData":{"k":"1"}}`,
			writes: []connector.Written{{Before: json.RawMessage(`{"id":"c1","name":"Old Ltd","externalData":{"k":"1"}}`),
				Sent: json.RawMessage(`{"id":"c1","name":"Neu AG","externalData":{"k":"1"}}`)}},
			body: `{"id":"c1","name":"Old Ltd","externalData":{"k":"1"}}`},
		{name: "the key in a list of pairs, and one contact of ours removed",
			fetched: `{"id":"c1","name":"A","people":[],"externalData":[{"key":"theirs","value":"x"},{"key":"k","value":"1"}]}`,
			writes: []connector.Written{{Before: json.RawMessage(`{"id":"c1","name":"A","people":[{"name":"Ann"}],"externalData":[{"key":"theirs","value":"x"}]}`),
				Sent: json.RawMessage(`{"id":"c1","name":"A","people":[],"externalData":[{"key":"theirs","value":"x"},{"key":"k","value":"1"}]}`)}},
			body: `{"id":"c1","name":"A","people":[{"name":"Ann"}],"externalData":[{"key":"theirs","value":"x"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := offline(t, nil).ReleaseCustomer(connector.RemoteCustomer{ID: "c1", Raw: json.RawMessage(c.fetched)},
				c.writes, map[string]string{"k": "1"})
			if err != nil || string(got.Body) != c.body || !slices.Equal(got.Kept, c.kept) ||
				(got.Body == nil) != (len(got.Diff) == 0) {
				t.Errorf("the body is\n     %s\nwant %s\nkept %q, diff %v, %v", got.Body, c.body, got.Kept, got.Diff, err)
			}
		})
	}
}
