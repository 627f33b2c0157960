package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/internal/longtest"
	"payersync/state"
)

// reading is one way to understand what the interface leaves open, as switches of the sandbox.
// A configuration with the profile standard, unchanged, either works with it, or is told of
// the setting by which it would.
type reading struct {
	switches map[string]string
	warns    string // the setting that check warns of, with whose cure the job is done
	asks     string // the reason for which a person is asked, and nothing wrong is sent
	check    string // the setting that check names before anything is sent; "" when all is well
	run      string // else the setting that a command names which was told so by the service, and sends nothing more
	cure     string // what the configuration says then; with it the job is done
	whole    bool   // the whole job, through serve and webhooks; else a sync, a change and a cancellation
}

func switched(pairs ...string) map[string]string {
	out := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		out[pair[0]] = pair[1]
	}
	return out
}

func dialectOf(lines string) string { return "  dialect: {" + lines + "}\n" }

var readings = []reading{
	{switches: switched("token_auth", "basic"), check: "billing.dialect.token_auth", cure: dialectOf("token_auth: basic")},
	{switches: switched("token_auth", "any"), whole: true},
	{switches: switched("expires_in", "0"), whole: true},
	{switches: switched("expires_in", `"3600"`)},
	{switches: switched("expires_in", "omit")},
	{switches: switched("api_tokens", "client_credentials")},
	{switches: switched("api_tokens", "authorization_code"), check: "dialect.api_auth"},
	{switches: switched("api_tokens", "authorization_code", "wrong_token_status", "401"), check: "dialect.api_auth"},
	{switches: switched("list.page_param", "page", "list.size_param", "size"), check: "dialect.list.page_param",
		cure: dialectOf("list: {page_param: page, size_param: size}")},
	{switches: switched("list.first_page", "1"), whole: true},
	{switches: switched("list.first_page", "1", "list.refuse_below", "true"), whole: true},
	{switches: switched("list.max_size", "2"), whole: true},
	{switches: switched("list.envelope", "customers"), whole: true},
	{switches: switched("list.envelope", "items")},
	{switches: switched("list.envelope", "entries"), check: "dialect.list.envelope",
		cure: dialectOf("list: {envelope: entries}")},
	{switches: switched("list.sort", "updated_desc", "list.max_size", "2")},
	{switches: switched("person_fields", "long"), whole: true},
	{switches: switched("address_fields", "long"), whole: true},
	{switches: switched("external_data", "list"), whole: true},
	{switches: switched("external_data", "object"), whole: true},
	{switches: switched("external_data", "array")},
	{switches: switched("customer_times", "true"), whole: true, warns: "billing.dialect.read_only",
		cure: dialectOf("read_only: [directDebitMandate, timezone, creationTime, lastUpdatedTime]")},
	{switches: switched("times", "zoneless", "customer_times", "true"), warns: "billing.dialect.read_only",
		cure: dialectOf("read_only: [directDebitMandate, timezone, creationTime, lastUpdatedTime]")},
	{switches: switched("create_link", "none")},
	{switches: switched("create_link", "mandate"), asks: "link_lost"},
	{switches: switched("create_hides_external_data", "true"), whole: true},
	{switches: switched("hash_memory", "-1s")},
	{switches: switched("hash_outlives_delete", "true")},
	{switches: switched("validation_status", "400")},
	{switches: switched("update", "path_id"), run: "billing.dialect.update", cure: dialectOf("update: path_id")},
	{switches: switched("update", "path_id", "refused_method_status", "404"), run: "billing.dialect.update",
		cure: dialectOf("update: path_id")},
	{switches: switched("write_answer", "empty"), whole: true},
	{switches: switched("empty_mandate", "object")},
	{switches: switched("mandate_times", "coarse")},
	{switches: switched("mandate_times", "missing"), whole: true},
	{switches: switched("mandate_link", "get"), whole: true},
	{switches: switched("mandate_link", "put_list"), whole: true},
	{switches: switched("link_when_created", "renewed")},
	{switches: switched("link_when_created", "new")},
	{switches: switched("cancel", "slash"), run: "billing.dialect.cancel", cure: dialectOf("cancel: slash")},
	{switches: switched("cancel", "body"), run: "billing.dialect.cancel", cure: dialectOf("cancel: body")},
	{switches: switched("migrating", "true")},
	{switches: switched("webhook_read", "none"), whole: true},
	{switches: switched("payload", "nested"), whole: true},
	{switches: switched("payload", "thin", "type_header", "adfin-webhook-type"), whole: true},
}

// TestEveryReadingOfTheInterfaceWorksOrIsNamed plays the readings of which an operator knows
// nothing: check speaks first, and nothing was sent by then.
func TestEveryReadingOfTheInterfaceWorksOrIsNamed(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	counts := map[string]int{}
	t.Run("readings", func(t *testing.T) {
		for _, r := range readings[:longtest.Number(3, len(readings))] {
			t.Run(r.name(), func(t *testing.T) {
				t.Parallel()
				outcome := r.play(t)
				mu.Lock()
				defer mu.Unlock()
				counts[outcome]++
				if r.whole {
					counts["whole jobs"]++
				}
			})
		}
	})
	t.Logf("%d readings: %v", len(readings), counts)
	played := 0
	for outcome, n := range counts {
		if outcome != "whole jobs" {
			played += n
		}
	}
	if len(readings) < 35 || played == len(readings) && counts["whole jobs"] < 12 {
		t.Errorf("there are %d readings and %d whole jobs, want at least 35 and 12", len(readings), counts["whole jobs"])
	}
}

func (r reading) name() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.switches)) {
		parts = append(parts, name+"="+r.switches[name])
	}
	return strings.Join(parts, ",")
}

// play does the job in one reading and returns how it went: the setting that was named, or
// "passed".
func (r reading) play(t *testing.T) string {
	w := newWorld(t, people(4), func(o *sandbox.Options) {
		for _, name := range slices.Sorted(maps.Keys(r.switches)) {
			if err := o.Switches.Set(name, r.switches[name]); err != nil {
				t.Fatal(err)
			}
		}
	})
	w.edit("payersync.yaml", "profile: sandbox", "profile: standard")
	w.edit("payersync.yaml", "guards: {max_creates: 20}", "guards: {max_creates: 20, first_matching: false}")
	w.others(3)
	checked := w.run("check")
	if n := w.box.Writes(); n != 0 {
		t.Fatalf("check sent %d writes", n)
	}
	if r.check != "" {
		if checked.code == exitDone || !strings.Contains(checked.out+checked.errOut, r.check) {
			t.Fatalf("check ended with %d and does not name %s:\n%s%s", checked.code, r.check, checked.out, checked.errOut)
		}
		if r.cure != "" {
			w.edit("payersync.yaml", "  webhook:\n", r.cure+"  webhook:\n")
			w.expect(exitDone, "check")
			w.job(r.whole, "")
		}
		return "named by check"
	}
	if checked.code != exitDone {
		t.Fatalf("check ended with %d:\n%s%s", checked.code, checked.out, checked.errOut)
	}
	if r.warns != "" {
		if !strings.Contains(checked.out, r.warns) {
			t.Fatalf("check does not warn of %s:\n%s", r.warns, checked.out)
		}
		w.edit("payersync.yaml", "  webhook:\n", r.cure+"  webhook:\n")
		w.job(r.whole, "")
		return "warned of by check"
	}
	if r.asks != "" {
		w.expect(exitAttention, "backfill", "--yes")
		w.expectOurs()
		for line := range strings.Lines(w.run("attention", "list", "--output", "json").out) {
			if !strings.Contains(line, `"reason":"`+r.asks+`"`) {
				t.Errorf("a person is asked about %s", line)
			}
		}
		return "a person is asked"
	}
	w.job(r.whole, r.run)
	if r.run == "" {
		return "passed"
	}
	w.edit("payersync.yaml", "  webhook:\n", r.cure+"  webhook:\n")
	w.rest(false, "")
	return "named by a command"
}

// others adds foreign customers to the service, one of them with a signed mandate.
func (w *world) others(n int) {
	for i := range n {
		raw := fmt.Sprintf(`{"name":"Older %d","people":[{"name":"Older %[1]d","email":"older%[1]d@example.org","phone":"01632 960200"}],`+
			`"addresses":[{"line1":"%[1]d Quay","city":"Whitby","postCode":"YO21 3CK"}],"externalData":{"legacyNo":"L%[1]d"}}`,
			i+1)
		if i > 0 {
			_, err := w.box.Add(json.RawMessage(raw))
			w.must(err)
			continue
		}
		_, err := w.box.Begin(json.RawMessage(raw), connector.MandatePending)
		w.must(err)
	}
}

// job does the whole work of the product: customers, links, a change, a signature, a cancellation, and
// nothing twice. named is the setting named by a failing command, "" for none.
func (w *world) job(whole bool, named string) {
	w.t.Helper()
	w.expect(exitDone, "backfill", "--yes")
	w.expectOurs()
	if whole {
		w.told()
	}
	w.rest(whole, named)
}

// rest is the job from the first change on.
func (w *world) rest(_ bool, named string) {
	w.t.Helper()
	rows := people(4)
	rows[1].Phone = "01632 960177"
	w.export(rows...)
	if !w.namesOr(named, "update", exitDone, "sync") {
		return
	}
	if n := w.box.Writes(); w.expect(exitDone, "sync").code == exitDone && w.box.Writes() != n {
		w.t.Errorf("a sync without news sent %d writes", w.box.Writes()-n)
	}
	w.expectOurs()
	if !w.namesOr(named, "cancel", exitDone, "mandates", "cancel", "A00004", "--reason", "the payer moved away") {
		return
	}
	w.expect(exitDone, "sweep")
	if got := w.statusOf("A00004"); got != "CANCELLED" {
		w.t.Errorf("the mandate that was cancelled is %s in the ledger", got)
	}
	for line := range strings.Lines(w.run("attention", "list", "--output", "json").out) {
		if !strings.Contains(line, `"reason":"mandate_cancelled"`) { // which it was
			w.t.Errorf("a person is asked about %s", line)
		}
	}
}

// namesOr runs a command that succeeds, or that names the setting needed by this step and sends nothing else.
func (w *world) namesOr(named, step string, code int, args ...string) (done bool) {
	w.t.Helper()
	if !strings.HasSuffix(named, "."+step) {
		w.expect(code, args...)
		return true
	}
	r := w.run(args...)
	if r.code == exitDone || !strings.Contains(r.out+r.errOut, named) {
		w.t.Fatalf("%s ended with %d and does not name %s:\n%s%s", strings.Join(args, " "), r.code, named, r.out, r.errOut)
	}
	return false
}

// told has a payer sign and the bank approve, and serve learn of it by webhooks.
func (w *world) told() {
	w.t.Helper()
	w.expect(exitDone, "webhooks", "subscribe")
	defer w.serving()()
	m := w.mandateOfName("Payer 1")
	w.must(w.box.Sign(m.ID))
	w.must(w.box.Approve(m.ID))
	deadline := time.Now().Add(patience)
	for w.statusOf("A00001") != string(connector.MandateActive) {
		if time.Now().After(deadline) {
			w.t.Fatalf("no webhook came: the mandate is %s in the ledger", w.statusOf("A00001"))
		}
		if _, err := w.box.Deliver(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// expectOurs fails unless each row has one customer, and those of others are as they were.
func (w *world) expectOurs() {
	w.t.Helper()
	count := map[string]int{}
	for _, c := range w.box.Customers() {
		count[c.Name]++
	}
	want := map[string]int{"Older 1": 1, "Older 2": 1, "Older 3": 1, "Payer 1": 1, "Payer 2": 1, "Payer 3": 1,
		"Payer 4": 1}
	if !maps.Equal(count, want) {
		w.t.Fatalf("the service has %v", count)
	}
}

func (w *world) mandateOfName(name string) sandbox.Mandate {
	w.t.Helper()
	for _, c := range w.box.Customers() {
		if c.Name == name && len(c.Mandates) > 0 {
			return c.Mandates[len(c.Mandates)-1]
		}
	}
	w.t.Fatalf("%s has no mandate", name)
	return sandbox.Mandate{}
}

// statusOf is mandateStatus without another process.
func (w *world) statusOf(sourceID string) string {
	w.t.Helper()
	for _, p := range decodeLines[state.PayerRow](w.t, w.expect(exitDone, "payers", "list", "--output", "json")) {
		if p.SourceID == sourceID {
			return show.Value(p.MandateStatus)
		}
	}
	w.t.Fatalf("the ledger has no payer %s", sourceID)
	return ""
}

// commandIn runs payersync within this process, which starts in no time, until it ends by itself or
// with ctx.
func (w *world) commandIn(ctx context.Context, args ...string) result {
	var out, errOut output
	p := program{Console: &show.Console{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
		getenv: func(name string) (string, bool) {
			if value, ok := w.env[name]; ok {
				return value, ok
			}
			if name == "PAYERSYNC_CONFIG" {
				return w.path("payersync.yaml"), true
			}
			return os.LookupEnv(name)
		}}
	code := run(ctx, p, slices.Clone(args))
	return result{code, out.String(), errOut.String()}
}
