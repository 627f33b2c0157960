package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever has tried the sandbox goes live without clearing anything away, and nothing of the
// sample reaches the billing service.
//
// covers F77
func TestFromTheSandboxToTheBillingServiceNothingIsRefusedAndNothingStays(t *testing.T) {
	t.Parallel()
	service, sandbox := newWorld(t, people(5)), newWorld(t, nil)
	w := newWorld(t, nil)
	w.dir = filepath.Join(w.dir, "acme")
	w.expect(exitDone, "init", w.dir)
	w.edit("payersync.yaml", "http://127.0.0.1:8090/api", sandbox.service.URL+"/api")
	w.edit("payersync.yaml", "client_secret: sandbox-secret", "rate_per_second: 100000\n  client_secret: "+clientSecret)
	w.expect(exitAttention, "backfill", "--yes")
	if n := len(sandbox.box.Customers()); n != 34 {
		t.Fatalf("the sandbox has %d of the sample's customers", n)
	}

	// The two lines, the variables, and an export of one's own.
	w.edit("production.yaml", "https://api.example.com/api", service.service.URL+"/api")
	w.env["BILLING_CLIENT_ID"], w.env["BILLING_CLIENT_SECRET"] = "sandbox", clientSecret
	header, _, _ := strings.Cut(w.read("customers.csv"), "\n")
	books := header + "\n"
	for _, p := range people(5) {
		books += fmt.Sprintf("%s,%s,%[2]s,%s,%s,%s,Leeds,,,,,Active,\n", p.ID, p.Name, p.Email, p.Phone, p.Street)
	}
	w.write("books.csv", books)
	live := func(code int, args ...string) result {
		t.Helper()
		p := w.process(args...)
		p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errOut
		p.configure(w.path("production.yaml"))
		if err := p.begin(); err != nil {
			t.Fatal(err)
		}
		r := p.wait()
		if r.code != code {
			t.Errorf("%v with production.yaml ended with %d:\n%s%s", args, r.code, r.out, r.errOut)
		}
		return r
	}
	live(exitDone, "check")
	live(exitDone, "plan")
	if n := len(service.box.Customers()); n != 0 {
		t.Errorf("a plan made %d customers", n)
	}
	live(exitDone, "backfill")
	for _, c := range service.box.Customers() {
		if !strings.HasPrefix(c.ExternalData["accountNumber"], "A0000") {
			t.Errorf("the billing service got %v, which is a sample", c.ExternalData)
		}
	}
	if n := len(service.box.Customers()); n != 5 {
		t.Errorf("the billing service has %d customers, want 5", n)
	}
	if r := live(exitDone, "payers", "list"); strings.Contains(r.out, "HB0") {
		t.Errorf("the sample's payers stand beside the real ones:\n%s", r.out)
	}
	for _, ledger := range []string{"sandbox.db", "payersync.db"} {
		if _, err := os.Stat(w.path(ledger)); err != nil {
			t.Error(err)
		}
	}
	w.expect(exitDone, "payers", "list") // the sandbox's set-up is as it was

	anew := newWorld(t, nil) // a sandbox that was stopped and started
	front := func(rw http.ResponseWriter, r *http.Request) bool { anew.box.ServeHTTP(rw, r); return true }
	sandbox.front.Store(&front)
	if r := w.run("sweep"); r.code != exitStandstill ||
		!strings.Contains(r.errOut,
			"The sandbox forgets everything when it stops. To begin anew with it: rm "+w.path("sandbox.db")+"*") {
		t.Errorf("with a sandbox that was started anew it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
}
