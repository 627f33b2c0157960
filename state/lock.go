package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"syscall"
	"time"

	"payersync/connector"
	"payersync/state/files"
)

// Lock is a process's hold on a connection, or on the serving of a ledger. The system releases a
// file's lock when the process dies in any way. So a killed run does not block the next one until
// its lease ends.
type Lock struct {
	file    *os.File     // that is locked; nil of a ledger on a server
	session func() error // lets the server's lock go; nil where there is none
}

// Proves reports whether a run shown as open in the ledger is dead, proved by the held lock of its
// connection. For a ledger on several machines, no lock proves that; only the lease decides. A nil
// lock is not held and proves nothing.
func (k *Lock) Proves() bool { return k != nil && k.file != nil }

// TryLock takes the lock of a connection, and returns nil when another run on this machine holds
// it. See [Lock.Proves] for the meaning of holding it.
func (l *Ledger) TryLock(connection string) (*Lock, error) {
	k, err := l.below.tryLock(context.Background(), connectionLock+url.PathEscape(connection)+lockEnding)
	return k, connector.Wrap(err, "lock connection %s", connection)
}

// TryServe takes the lock of the one process that runs a ledger file's schedules and endpoint
// (fault F62). It returns nil when another process on this machine holds it. A ledger on a server
// is served by several at a time.
func (l *Ledger) TryServe() (*Lock, error) {
	for tries := 1; ; tries++ {
		k, err := l.below.tryLock(context.Background(), serveLock)
		if err != nil {
			return nil, fmt.Errorf("lock the ledger for serving: %w", err)
		}
		if k != nil || tries == serveTries {
			return k, nil
		}
		time.Sleep(lockTries) // IsServed may hold it for a moment
	}
}

// serveTries is how often TryServe tries.
const serveTries = 3

// IsServed reports whether a process runs the ledger's schedules. For a file, that is a serving process on
// this machine. For a server, it is a recently seen node, not stopping, with access to the account.
func (l *Ledger) IsServed(ctx context.Context) (bool, error) {
	if !l.below.isFile() {
		return l.hasNode(ctx)
	}
	f, err := os.OpenFile(l.path+serveLock, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether the ledger is served: %w", err)
	}
	defer func() { _ = f.Close() }()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look whether the ledger is served: %w", err)
	}
	return false, (&Lock{file: f}).unlock()
}

// hasNode reports whether a node serves the account, by the rows that nodes write of themselves.
func (l *Ledger) hasNode(ctx context.Context) (is bool, err error) {
	err = l.queryRow(ctx, "SELECT to_regclass('river.nodes') IS NOT NULL").Scan(&is)
	if err == nil && is {
		err = l.queryRow(ctx, "SELECT EXISTS (SELECT 1 FROM river.nodes WHERE NOT stopping AND extract(epoch FROM now() - seen_at) < ? + 0 AND NOT current_setting('payersync.account')::bigint = ANY (unopened))",
			int64(connector.NodeLostAfter/time.Second)).Scan(&is)
	}
	if err != nil {
		return false, fmt.Errorf("look whether a node serves the account: %w", err)
	}
	return is, nil
}

// lockTries is how often a lock is tried for that others give back soon.
const lockTries = 20 * time.Millisecond

// LockRequests waits for the lock of the one request for a signing link under way. So an earlier
// read still holds when the request is sent. It returns nil when ctx ends before that.
func (l *Ledger) LockRequests(ctx context.Context) (*Lock, error) {
	for {
		k, err := l.below.tryLock(ctx, requestsEnding)
		if err != nil {
			return nil, fmt.Errorf("lock the ledger for a request: %w", err)
		}
		if k != nil {
			return k, nil
		}
		select {
		case <-time.After(lockTries):
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// How the names of lock files end.
const (
	lockEnding     = ".lock"
	connectionLock = "-" // begins the name's ending of a connection's, which its own name follows
	serveLock      = ".serve" + lockEnding
	requestsEnding = ".requests" + lockEnding
	rotationLock   = ".rotation" + lockEnding
)

// tryLock locks the file beside the ledger with this ending, and returns nil if another process
// holds it. A new one belongs with its neighbour.
func tryLock(folder *files.Folder, name, ending, neighbour string) (*Lock, error) {
	f, err := folder.OpenOrCreateFor(name+ending, neighbour)
	if errors.Is(err, files.ErrPlanted) {
		return nil, fmt.Errorf("%w; find out how it came there, and move it away", err)
	}
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Lock{file: f}, nil
}

// Release releases the lock. Closing the file would not release it. A starting child process shares
// the open file until it runs its own program, and would keep the lock.
func (k *Lock) Release() error {
	switch {
	case k == nil:
		return nil
	case k.session != nil:
		return k.session()
	case k.file == nil:
		return nil
	}
	return errors.Join(k.unlock(), k.file.Close())
}

func (k *Lock) unlock() error { return syscall.Flock(int(k.file.Fd()), syscall.LOCK_UN) }
