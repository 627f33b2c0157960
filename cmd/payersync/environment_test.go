package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"payersync/cmd/payersync/internal/config"
	"payersync/state"
)

// asClient lets the sandbox accept another client, perhaps of an account without its customers by lost.
func (w *world) asClient(id string, lost func(*http.Request) bool) {
	w.edit("payersync.yaml", "client_id: "+w.client(), "client_id: "+id)
	front := func(rw http.ResponseWriter, r *http.Request) bool {
		if lost != nil && lost(r) {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(rw, `{"error":"not found"}`)
			return true
		}
		if r.URL.Path == "/api/oauth2/token" {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return false
			}
			body = bytes.Replace(body, []byte("client_id="+url.QueryEscape(id)), []byte("client_id=sandbox"), 1)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		return false
	}
	w.front.Store(&front)
}

// client returns the client_id of the configuration.
func (w *world) client() string {
	_, rest, _ := strings.Cut(w.read("payersync.yaml"), "client_id: ")
	id, _, _ := strings.Cut(rest, "\n")
	return id
}

// An account stays the same whatever it is signed in to with.
//
// covers F77
func TestNewCredentialsOfTheSameAccountNeedNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "sync")
	w.asClient("second-app", nil)
	if r := w.run("check"); !strings.Contains(r.out, "credentials accepted") {
		t.Errorf("check with new credentials says\n%s%s", r.out, r.errOut)
	}
	if r := decode[environmentReport](t, w.expect(exitDone, "environment", "--output", "json")); r.Same ||
		!strings.Contains(r.Evidence, "is there under its id with our key") {
		t.Errorf("after a check with new credentials: %+v, want them not noted yet", r)
	}
	w.export(people(4)...)
	w.expect(exitDone, "sync")
	w.expectOnePerRow(people(4))
	if r := decode[environmentReport](t, w.expect(exitDone, "environment", "--output", "json")); !r.Same {
		t.Errorf("after a run with new credentials: %+v", r)
	}
}

// covers F77
func TestAnotherAccountGetsNothingOfTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "sync")
	w.asClient("their-app", func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/customers/") })
	w.export(people(5)...)
	for _, command := range [][]string{{"sync"}, {"backfill", "--yes"}, {"sweep"}, {"check"},
		{"mandates", "request", "A00001"}} {
		r := w.run(command...)
		if r.code != exitUsage ||
			!strings.Contains(r.errOut, "none of the 3 linked customers that were looked for is there") ||
			!strings.Contains(r.errOut, "payersync environment move --reason") {
			t.Errorf("payersync %s with another account ended with %d:\n%s", strings.Join(command, " "), r.code, r.errOut)
		}
	}
	if r := w.run("environment", "move", "--reason", "a try", "--yes"); r.code != exitFailed ||
		!strings.Contains(r.errOut, "give that account a ledger of its own") {
		t.Errorf("moving to an account without the customers ended with %d:\n%s", r.code, r.errOut)
	}
	if n := len(w.box.Customers()); n != 3 {
		t.Errorf("the other account has %d customers, want the 3 from before", n)
	}
	w.service.Close()
	w.asClient("fourth-app", nil)
	if r := w.run("sync"); r.code != exitFailed ||
		!strings.Contains(r.errOut, "cannot find out whether the new credentials belong to the ledger's account") {
		t.Errorf("with a service that is away it ended with %d:\n%s", r.code, r.errOut)
	}
}

// covers F77
func TestANewAddressIsSaidWithAReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "sync")
	moved := httptest.NewServer(w.service.Config.Handler)
	t.Cleanup(moved.Close)
	w.edit("payersync.yaml", w.service.URL, moved.URL)
	if r := w.run("sync"); r.code != exitUsage || !strings.Contains(r.errOut, "it is another address") {
		t.Errorf("at another address it ended with %d:\n%s", r.code, r.errOut)
	}
	if r := w.run("environment", "move"); r.code != exitUsage || !strings.Contains(r.errOut, "takes a reason") {
		t.Errorf("without a reason it ended with %d:\n%s", r.code, r.errOut)
	}
	if r := w.run("environment", "move", "--reason", "it has a new name"); r.code != exitUsage ||
		!strings.Contains(r.errOut, "add --yes") {
		t.Errorf("where nobody can be asked it ended with %d:\n%s", r.code, r.errOut)
	}
	w.expect(exitDone, "environment", "move", "--reason", "it has a new name", "--yes")
	w.expect(exitDone, "sync")
	if r := w.expect(exitDone, "environment"); !strings.Contains(r.out,
		"The same address and credentials are configured.") {
		t.Errorf("after the move:\n%s", r.out)
	}
	w.expectOnePerRow(people(3))
}

// After a trial a ledger may go elsewhere: nothing ties it to an account.
func TestALedgerThatKnowsNoCustomersGoesAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "plan")
	if _, err := w.box.Add(json.RawMessage(`{"name":"Somebody else","people":[],"addresses":[],"externalData":{"accountNumber":"Z1"}}`)); err != nil {
		t.Fatal(err)
	}
	moved := httptest.NewServer(w.service.Config.Handler)
	t.Cleanup(moved.Close)
	w.edit("payersync.yaml", w.service.URL, moved.URL)
	w.expect(exitDone, "sweep") // which lists customers that are there, and so ties the ledger
	w.expect(exitDone, "sync")
	w.expectOnePerRow(append(people(3), row{ID: "Z1"}))
}

// Two accounts that were loaded from the same books, by a service that counts its customers,
// have some ids and keys in common.
//
// covers F77
func TestAnAccountWithOtherKeysUnderTheSameIdsIsAnotherOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "sync")
	w.asClient("their-app", nil)
	token := w.front.Load()
	other := func(rw http.ResponseWriter, r *http.Request) bool {
		if (*token)(rw, r) || !strings.HasPrefix(r.URL.Path, "/api/customers/") {
			return false
		}
		rec := httptest.NewRecorder()
		w.box.ServeHTTP(rec, r)
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(rec.Code)
		_, _ = io.WriteString(rw, strings.ReplaceAll(rec.Body.String(), `"A00002"`, `"A00019"`))
		return true
	}
	w.front.Store(&other)
	if r := w.run("sync"); r.code != exitUsage || !strings.Contains(r.errOut, "with our key, and customer") {
		t.Errorf("it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	w.expect(exitDone, "environment", "move", "--reason", "somebody has renumbered one there", "--yes")
}

// Earlier versions stored no credentials of an account reached with a token.
func TestALedgerOfAnEarlierVersionKnowsNoToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "sync")
	s := w.served(new(bytes.Buffer))
	have, err := s.Ledger.Account(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(have.Address, "/")
	if err := s.Ledger.Do(t.Context(), func(tx *state.Tx) error {
		return tx.MoveAccount(state.Account{Address: host, Credentials: config.NoCredentials}, state.Entry{Actor: "test"})
	}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	w.box.ResetRequests()
	w.expect(exitDone, "sync")
	for _, r := range w.box.Requests() {
		if strings.HasPrefix(r.Path, "/api/customers/") {
			t.Errorf("%s %s was sent to tell the account", r.Method, r.Path)
		}
	}
	if r := decode[environmentReport](t, w.expect(exitDone, "environment", "--output", "json")); r.Ledger != have {
		t.Errorf("after a run the ledger belongs to %+v, want %+v", r.Ledger, have)
	}
}
