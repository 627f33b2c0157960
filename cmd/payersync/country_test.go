package main

import (
	"strings"
	"testing"
)

// A value without a place in the service is reported first, and never shown as sent.
func TestACountryThatIsNotSentIsNotShownAsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.edit("mapping.yaml", `city: "Leeds"`, `city: "Leeds", country: "GB"`)
	const said = "the short spelling of addresses has none"
	if r := w.expect(exitDone, "check"); !strings.Contains(r.out,
		"the country of 3 customers is not sent, because "+said) {
		t.Errorf("check says\n%s", r.out)
	}
	if r := w.expect(exitDone, "plan"); strings.Contains(r.out, `"GB"`) || !strings.Contains(r.out, `"Leeds"`) ||
		!strings.Contains(r.out, "The country of new customers is not sent: "+said) {
		t.Errorf("plan says\n%s", r.out)
	}
	w.export(people(4)...)
	if r := w.expect(exitDone, "sync"); !strings.Contains(r.out, said) {
		t.Errorf("sync says\n%s", r.out)
	}
	if r := w.expect(exitDone, "mapping", "check"); !strings.Contains(r.out,
		"the country of 4 customers is not sent, because "+said) {
		t.Errorf("mapping check says\n%s", r.out)
	}
	for _, c := range w.box.Customers() {
		if strings.Contains(string(c.Raw), "GB") {
			t.Errorf("a customer got a country: %s", c.Raw)
		}
	}
	if r := w.expect(exitDone, "payers", "show", "A00001", "--show-values"); !strings.Contains(r.out,
		"addresses[0].country: GB  (not sent: "+said+")") {
		t.Errorf("payers show says\n%s", r.out)
	}
	if r := w.expect(exitDone, "sync"); strings.Contains(r.out, said) {
		t.Errorf("a sync that creates nobody says\n%s", r.out)
	}

	w.edit("payersync.yaml", "  redirect_url:", "  dialect: {address_fields: long}\n  redirect_url:")
	w.export(people(5)...)
	for _, command := range []string{"check", "plan", "sync"} {
		if r := w.expect(exitDone, command); strings.Contains(r.out, said) {
			t.Errorf("%s with the long spelling says\n%s", command, r.out)
		}
	}
}

// The service may silently drop a sent field.
func TestAPayerIsShownWithWhatTheServiceWasLastReadToHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.edit("mapping.yaml", `city: "Leeds"`, `city: "Leeds", country: "GB"`)
	w.edit("payersync.yaml", "  redirect_url:", "  dialect: {address_fields: long}\n  redirect_url:")
	w.expect(exitDone, "sync")
	w.expect(exitDone, "sweep")
	shown := func() string { return w.expect(exitDone, "payers", "show", "A00001", "--show-values").out }
	_, holds, found := strings.Cut(shown(), "Values of payersync in the customer, last read ")
	if !found || !strings.Contains(holds, "  addresses[0].country: GB\n") || strings.Contains(holds, "we sent") {
		t.Errorf("of a customer that holds what was sent it shows\n%s", holds)
	}
	for _, c := range w.box.Customers() {
		raw := strings.Replace(string(c.Raw), `"country":"GB"`, `"country":""`, 1)
		if raw == string(c.Raw) {
			t.Fatalf("the customer is %s", raw)
		}
		if err := w.box.Edit(c.ID, []byte(raw)); err != nil {
			t.Fatal(err)
		}
	}
	w.expect(exitDone, "sweep")
	if _, holds, _ = strings.Cut(shown(), "Values of payersync in the customer, last read "); !strings.Contains(holds,
		"  addresses[0].country: blank  (we sent GB)\n") {
		t.Errorf("of a customer without a country it shows\n%s", holds)
	}
	if r := w.expect(exitDone, "payers", "show", "A00001", "--show-values", "--output", "json"); !strings.Contains(r.out,
		`"differs":[{"path":"addresses[0].country","from":"GB","to":""}]`) {
		t.Errorf("as JSON it shows\n%s", r.out)
	}
}
