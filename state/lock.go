package state

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"syscall"
)

// Lock is a process's hold on a connection. The system lets it go when the
// process dies, however it dies, so that a run killed a moment ago does not
// block the next one until its lease is over.
type Lock struct{ file *os.File }

// TryLock takes the lock of a connection, beside the ledger file, and returns nil
// when another run on this machine holds it. Holding it proves that a run the
// ledger still shows as open is dead.
func (l *Ledger) TryLock(connection string) (*Lock, error) {
	path := fmt.Sprintf("%s-%s.lock", l.path, url.PathEscape(connection))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock connection %s: %w", connection, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock connection %s: %w", connection, err), f.Close())
	}
	return &Lock{f}, nil
}

// Release lets the connection go.
func (k *Lock) Release() error {
	if k == nil {
		return nil
	}
	return k.file.Close()
}
