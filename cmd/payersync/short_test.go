package main

import (
	"net/http"
	"strings"
	"testing"
)

// covers F97
func TestAListThatLacksTooManyIsAStandstill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(15))
	w.expect(exitDone, "backfill", "--yes")
	empty := func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || r.URL.Path != "/api/customers" {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		_, err := rw.Write([]byte("[]"))
		return err == nil
	}
	w.front.Store(&empty)
	w.export(people(18)...)
	for _, command := range [][]string{{"plan"}, {"sweep"}, {"sync", "--yes"}} {
		r := w.run(command...)
		if said := r.out + r.errOut; r.code != exitStandstill || !strings.Contains(said, "lacks 15 of the 15") {
			t.Errorf("payersync %s ended with %d:\n%s", strings.Join(command, " "), r.code, said)
		}
	}
	if r := w.expect(exitDone, "status"); !strings.Contains(r.out, "lacks 15 of the 15") {
		t.Errorf("status does not say why the run stopped:\n%s", r.out)
	}
	if n := len(w.box.Customers()); n != 15 {
		t.Errorf("there are %d customers, want the 15 from before", n)
	}
	w.front.Store(nil)
	w.expect(exitDone, "sync", "--yes")
	w.expectOnePerRow(people(18))
}
