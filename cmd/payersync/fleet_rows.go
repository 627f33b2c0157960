package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"payersync/state"
)

const (
	claimedAtOnce = 25               // accounts claimed by a node at a time
	claimLease    = time.Minute      // until another node may do it if this one did not
	changesAgo    = 2 * time.Minute  // how long a change of a row may take to be committed
	rereadEvery   = 10 * time.Minute // all rows: a failover may have lost changes
)

// accountIndex finds accounts by their rows.
type accountIndex struct {
	byID   map[int64]state.AccountInfo
	byHook map[string]int64   // by the hash of the token in the address of webhooks
	byHost map[string]int64   // of pages
	byStop map[string][]int64 // by the path for stopping letters
}

func newAccountIndex() accountIndex {
	return accountIndex{byID: map[int64]state.AccountInfo{}, byHook: map[string]int64{}, byHost: map[string]int64{},
		byStop: map[string][]int64{}}
}

// put adds or updates an account by its row. It removes one without a key, or one on its way out.
func (x *accountIndex) put(row state.AccountInfo) {
	x.remove(row.ID)
	if row.State == state.AccountLeaving || row.KeyID == "" {
		return
	}
	x.byID[row.ID], x.byHook[row.HookHash] = row, row.ID
	if row.PagesHost != "" {
		x.byHost[strings.ToLower(row.PagesHost)] = row.ID
	}
	if row.StopPath != "" {
		x.byStop[row.StopPath] = append(x.byStop[row.StopPath], row.ID)
	}
}

func (x *accountIndex) remove(id int64) {
	row, known := x.byID[id]
	if !known {
		return
	}
	delete(x.byID, id)
	delete(x.byHook, row.HookHash)
	if host := strings.ToLower(row.PagesHost); x.byHost[host] == id {
		delete(x.byHost, host)
	}
	if left := slices.DeleteFunc(x.byStop[row.StopPath], func(other int64) bool { return other == id }); len(left) > 0 {
		x.byStop[row.StopPath] = left
	} else {
		delete(x.byStop, row.StopPath)
	}
}

func (x *accountIndex) size() int { return len(x.byID) }

// ofStop returns the account whose stop path is the longest prefix of a path.
func (x *accountIndex) ofStop(path string) (id int64, found bool) {
	for i := strings.LastIndexByte(path, '/'); i >= 0; i = strings.LastIndexByte(path[:i], '/') {
		if ids := x.byStop[path[:i+1]]; len(ids) > 0 {
			return slices.Min(ids), true
		}
	}
	return 0, false
}

// row returns the row of an account; false if it is not served. It queries the database for an unknown
// account, which another node may have added.
func (f *fleet) row(ctx context.Context, account int64) (state.AccountInfo, bool) {
	f.mu.RLock()
	row, known := f.known.byID[account]
	f.mu.RUnlock()
	if known || f.server == nil {
		return row, known
	}
	row, err := f.server.AccountByID(ctx, account)
	if err != nil {
		return row, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known.put(row)
	row, known = f.known.byID[account]
	return row, known
}

// active reports whether anything is done for an account.
func (f *fleet) active(account int64) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.known.byID[account].State == state.AccountActive
}

// followRows follows the rows of accounts until ctx ends.
func (f *fleet) followRows(ctx context.Context) {
	tick := time.NewTicker(rowsEvery)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		wrong := ""
		if err := f.refresh(ctx); err != nil && ctx.Err() == nil {
			wrong = forLog(err).Error()
		}
		if wrong != told && wrong != "" {
			f.log.WithField("problem",
				wrong).Error("the node cannot find out whether accounts have changed; it continues with the known ones")
		}
		told = wrong
		f.trim()
	}
}

// refresh applies changes to open accounts, closes leaving ones, and opens those due. A failure to open one
// stops no other. It is tried again after a while and when it changes.
func (f *fleet) refresh(ctx context.Context) error {
	changed, err := f.changedRows(ctx)
	if err != nil {
		return err
	}
	work := new(errgroup.Group)
	work.SetLimit(openAtOnce)
	for _, row := range changed {
		work.Go(func() error { f.follow(ctx, row); return nil })
	}
	_ = work.Wait() // each account tells of itself
	due, err := f.server.ClaimAccounts(ctx, claimedAtOnce, claimLease)
	if err != nil {
		return err
	}
	for _, row := range due {
		work.Go(func() error { f.visit(ctx, row); return nil })
	}
	_ = work.Wait()
	return nil
}

// changedRows returns the rows of open accounts with changes not applied yet.
func (f *fleet) changedRows(ctx context.Context) (changed []state.AccountInfo, err error) {
	now, since := f.now(), f.polled.Add(-changesAgo)
	if now.Sub(f.reread) >= rereadEvery {
		since = time.Time{}
	}
	rows, err := f.server.TouchedAccounts(ctx, since)
	if err != nil {
		return nil, err
	}
	if f.polled = now; since.IsZero() {
		f.reread = now
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := map[int64]bool{}
	for _, row := range rows {
		known := f.known.byID[row.ID]
		if seen[row.ID] = true; known == row {
			continue
		}
		f.known.put(row)
		if row.Settled == row.Version && f.members[row.ID] == nil { // another node could open it
			delete(f.failed, row.ID)
		}
	}
	if since.IsZero() { // all were read
		for id := range f.known.byID {
			if !seen[id] {
				f.known.remove(id)
			}
		}
	}
	for id, m := range f.members {
		row, stays := f.known.byID[id]
		row.ID = id
		if tried, failed := f.failed[id]; !stays || failed && now.Sub(tried) >= againAfter || !failed &&
			row.Version != m.info.Version {
			changed = append(changed, row)
		}
	}
	return changed, nil
}

// follow applies the present row of an account, if it is open here.
func (f *fleet) follow(ctx context.Context, row state.AccountInfo) {
	f.mu.Lock()
	m := f.members[row.ID]
	if _, stays := f.known.byID[row.ID]; m == nil || !stays {
		if m != nil {
			f.out(m)
		}
		delete(f.failed, row.ID)
		f.mu.Unlock()
		return
	}
	m.users++
	f.mu.Unlock()
	defer f.release(m, true)
	err := f.retake(ctx, m, row)
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.failed, row.ID); err != nil {
		f.failed[row.ID] = f.now()
		f.entry(row).WithError(forLog(err)).Error("the account's new row is not in force on this node yet; the node tries again")
	}
}

func (f *fleet) entry(row state.AccountInfo) *logrus.Entry {
	return f.log.WithFields(logrus.Fields{"account": row.Name, "version": row.Version})
}

// visit opens an account claimed by this node. It applies its changed schedules and addresses, and checks its
// conditions. It removes the schedules of a leaving account.
func (f *fleet) visit(ctx context.Context, row state.AccountInfo) {
	f.mu.Lock()
	f.known.put(row)
	_, stays := f.known.byID[row.ID]
	f.mu.Unlock()
	if !stays {
		err := f.queue.Every(ctx, row.ID, nil)
		if err == nil {
			err = f.server.LeaveAccount(ctx, row)
		}
		if err != nil && ctx.Err() == nil {
			f.entry(row).WithError(forLog(err)).Error("cannot remove the schedules of a leaving account; the node tries again")
		}
		return
	}
	m, err := f.use(ctx, row.ID)
	if err != nil {
		return // open told of it
	}
	defer f.release(m, false)
	f.mu.RLock()
	older := m.info.Version != row.Version
	f.mu.RUnlock()
	if older {
		err = f.retake(ctx, m, row)
	} else {
		err = f.reschedule(ctx, m)
	}
	if err != nil && ctx.Err() == nil {
		f.entry(row).WithError(forLog(err)).Error("the schedules of the account could not be put in force; it is tried again")
		return
	}
	if f.now().Sub(f.begun) >= alarmsEvery { // conditions begun while no node ran are known by then
		m.alarms.check(ctx)
	}
}

// reschedule makes the schedules and addresses of an account those of its configuration in force.
func (f *fleet) reschedule(ctx context.Context, m *member) error {
	if err := m.jobs.Reschedule(ctx); err != nil {
		return err
	}
	c := m.inForce.Load().Config
	f.mu.RLock()
	info := m.info
	f.mu.RUnlock()
	info.PagesHost, info.StopPath = c.Server.AdminHost(), ""
	if c.StopURL() != "" {
		info.StopPath = c.StopPath()
	}
	if err := f.server.SettleAccount(ctx, info); err != nil {
		return err
	}
	info.Settled = info.Version
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.known.byID[info.ID]; known.Version == info.Version {
		f.known.put(info)
	}
	return nil
}
