package sqltable_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/accounting/sqltable"
)

// covers F15
func TestServerThatSaysNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for _, driver := range []string{"postgres", "mysql"} {
		s := source(t, sqltable.Config{
			Driver: driver, Port: silent.Addr().(*net.TCPAddr).Port, Database: "books", User: "u", Table: "customers",
			ID: []string{"id"},
		})
		s.SetPatience(100 * time.Millisecond)
		if err := describedWithin(t, s, 5*time.Second); connector.FaultOf(err) != connector.FaultUnavailable ||
			!strings.Contains(err.Error(), "no answer from 127.0.0.1") {
			t.Errorf("%s: error %v", driver, err)
		}
	}
}

// covers F15
func TestLockedTableIsGivenUp(t *testing.T) {
	for name, lock := range map[string]string{"postgres": "LOCK TABLE customers IN ACCESS EXCLUSIVE MODE",
		"mysql": "LOCK TABLES customers WRITE"} {
		t.Run(name, func(t *testing.T) {
			db, c := everyDatabase()[name](t)
			execute(t, db, "CREATE TABLE customers (id INTEGER)")
			busy, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = busy.Rollback() }()
			if _, err := busy.ExecContext(t.Context(), lock); err != nil {
				t.Fatal(err)
			}
			c.Table, c.ID = "customers", []string{"id"}
			s := source(t, c)
			s.SetPatience(time.Second)
			if err := describedWithin(t, s, 5*time.Second); connector.FaultOf(err) != connector.FaultUnavailable ||
				!strings.Contains(err.Error(), "somebody else holds a lock") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// describedWithin returns how Describe ends, and ends the test when it does not.
func describedWithin(t *testing.T, s *sqltable.Source, limit time.Duration) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Describe(t.Context())
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		t.Fatalf("still waiting after %s", limit)
		return nil
	}
}
