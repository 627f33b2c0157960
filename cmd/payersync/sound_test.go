package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"payersync/cmd/payersync/internal/session"
	"payersync/state"
	"payersync/state/statetest"
)

// A ledger that lies as it was left is worked with while it is looked through: what is found then ends serve.
//
// covers F63
func TestDamageThatIsFoundWhileServeWorksEndsIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payersync.db")
	statetest.New(t, path)
	opts := state.Options{Path: path, KeyFile: path + ".key"}
	l, err := state.Open(t.Context(), opts)
	if err == nil {
		err = errors.Join(l.Ping(t.Context()), l.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	works := make(chan struct{})
	opts.Look = func(context.Context) {
		<-works
		spoil(t, path)
	}
	if l, err = state.Open(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var said bytes.Buffer
	log := logrus.New()
	log.SetOutput(&said)
	err = whenSound(t.Context(), &session.Session{Ledger: l, Log: log}, func(ctx context.Context) error {
		close(works)
		<-ctx.Done()
		return nil
	})
	var damaged *state.OpenError
	if !errors.As(err, &damaged) {
		t.Errorf("it ends with %v, want what was found", err)
	}
	if n := strings.Count(said.String(), "the ledger is not written to"); n != 1 {
		t.Errorf("it is said %d times why serve ends:\n%s", n, &said)
	}
}

// spoil makes the last page of a ledger a page of nothing.
func spoil(t *testing.T, path string) {
	t.Helper()
	const page = 4096
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	end, err := f.Seek(-page, 2)
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xA5}, page), end)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
