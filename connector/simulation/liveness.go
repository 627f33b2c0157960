package simulation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/mapping"
	"payersync/state"
)

// Bounds of the liveness mode: a round takes two hours, four at most while the inbox waits, so everything
// converges within two days.
const (
	maxRounds = 12
	roundTime = 2 * time.Hour
)

// heal ends every fault, undoes nothing, lets time pass with the connector at work, and then requires
// convergence (L1 to L5).
func (w *world) heal() error {
	w.logf("── heal")
	w.healed, w.full, w.books.broken, w.spells = true, false, false, nil
	w.putClockRight()
	for _, p := range w.procs {
		p.fuse.Store(0)
		if p.dead.Load() {
			if err := p.restart(); err != nil {
				return err
			}
		}
	}
	p, quiet := w.procs[0], 0
	if err := errors.Join(w.standStill(w.plan.steps), w.takeAllUp(p)); err != nil {
		return err
	}
	for range maxRounds {
		if err := errors.Join(w.standStill(noStep), w.settleInbox(p)); err != nil {
			return err
		}
		writes := w.service.Writes()
		if err := w.round(p); err != nil {
			return err
		}
		w.oracle.check(p)
		if quiet++; w.service.Writes() != writes || w.service.Pending() > 0 || w.openInbox(p) || len(w.late) > 0 {
			quiet = 0
		}
		if quiet == 3 { // a sweep learns, the next lets a payer go, and a run acts on it
			return w.converged(p)
		}
	}
	w.violate("L4", "it had not come to rest after %d rounds", maxRounds)
	return nil
}

// settleInbox lets time pass until nothing in the inbox waits for a later try.
func (w *world) settleInbox(p *process) error {
	for range 8 {
		if err := w.wait(roundTime / 8); err != nil {
			return err
		}
		if err := errors.Join(w.deliver(), w.drain(p)); err != nil {
			return err
		}
		if !w.openInbox(p) {
			break
		}
	}
	return w.wait(roundTime)
}

// round is the worker's work of an hour.
func (w *world) round(p *process) error {
	for _, do := range []func() error{
		w.deliver,
		func() error { return w.drain(p) },
		func() error { return w.syncAll(p) },
		func() error { return w.trustAgain(p) },
		func() error { return w.sweep(p) },
		func() error { return w.drain(p) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// trustAgain confirms updates for the operator after two of them seemed to lose data. A colleague
// took all keys off a customer, or edited it, between an update and the read after it. A service
// that loses data looks the same, so runs stop and name the command.
func (w *world) trustAgain(p *process) error {
	ctx := context.Background()
	way := state.UpdateFormat{Address: p.syncer.Account.Address, Spelling: p.billing.UpdateWay()}
	known, err := p.ledger.RoundTrip(ctx, way)
	if err != nil || len(known.Disproved()) == 0 || !w.editedByColleagues() {
		return err
	}
	w.reach("operator trusts updates again")
	w.logf("%s operator trusts updates again", p.name)
	return p.ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.SaveRoundTrip(way,
			state.Verification{By: state.TripPerson, Subject: "Olive", Survived: []string{state.TripAny}})
	})
}

// editedByColleagues reports whether somebody took a key off a customer, or edited one of an unweakened product.
func (w *world) editedByColleagues() bool {
	return w.oracle.keysTaken() || w.plan.variant.name == "" && w.oracle.touched
}

// syncAll makes a run of each connection, one after the other.
func (w *world) syncAll(p *process) error {
	for _, b := range w.allBooks() {
		if err := w.syncOf(b, p, connector.RunSync); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) openInbox(p *process) bool {
	for _, as := range w.oracle.inboxKeys(p) {
		if as == string(connector.InboxReceived) || as == string(connector.InboxParked) {
			return true
		}
	}
	return false
}

// converged checks the liveness invariants, and that one more run sends nothing.
func (w *world) converged(p *process) error {
	writes := w.service.Writes()
	if err := w.syncAll(p); err != nil {
		return err
	}
	if n := w.service.Writes() - writes; n > 0 {
		w.violate("S6", "a run over unchanged data sent %d writes", n)
	}
	for _, b := range w.allBooks() {
		for i, r := range b.records {
			w.oracle.judgeRecord(p, b, r)
			if w.plan.told {
				w.oracle.judgeTold(p, b, r, uint64(i) == w.plan.seed%uint64(len(b.records)))
			}
		}
	}
	w.oracle.judgeStatuses(p)
	for key, as := range w.oracle.inboxKeys(p) {
		if as == string(connector.InboxReceived) || as == string(connector.InboxParked) {
			w.violate("L3", "the webhook %s is still %s", key, as)
		}
	}
	for _, pending := range []bool{false, true} {
		for _, b := range w.allBooks() {
			w.judgeOpen(p, b, pending)
		}
	}
	if len(w.bad) > 0 {
		w.describe(p)
	}
	w.checkIntegrity(p)
	return nil
}

// judgeOpen checks L4: no change is open for ever.
func (w *world) judgeOpen(p *process, b *books, pending bool) {
	for _, lane := range []string{state.LaneCustomer, state.LaneMandate} {
		changes, err := p.ledger.Changes(context.Background(), b.connection, lane, pending, 0, 100)
		if err != nil {
			w.violate("harness", "read the changes: %v", err)
		}
		for _, c := range changes {
			shown, _ := p.ledger.AttentionOf(context.Background(), b.connection, c.Payer.SourceID)
			if i := b.find(c.Payer.SourceID); i < 0 || len(shown) > 0 {
				continue // the row is removed, or has a finding
			}
			w.violate("L4", "the %s of record %s is %s for ever", c.Action, c.Payer.SourceID, c.State)
		}
	}
}

// excuses are the reasons for which a payer may wait for a person after others' edits of its key.
var excuses = map[string][]connector.Reason{
	"deleted":   {connector.ReasonCustomerMissing},
	"key gone":  {connector.ReasonKeyRemoved, connector.ReasonOtherKey, connector.ReasonOutcomeUnknown},
	"key other": {connector.ReasonOtherKey, connector.ReasonKeyRemoved, connector.ReasonAnswerMismatch},
	// Somebody typed the key of a create without an answer on a customer of their own: it is
	// told, and what they wrote stays.
	"doubled": {connector.ReasonKeyDoubled, connector.ReasonOtherKey, connector.ReasonForeignChange},
	// It may come between a newer update and its confirming read: then a finding says the service does not
	// show the sent values.
	"late update": {connector.ReasonForeignChange},
	"renamed":     {connector.ReasonForeignChange},
	"moved":       {connector.ReasonAnswerMismatch}, // it came back with the very bytes of its first create
	"parted": {connector.ReasonUnlinked, connector.ReasonKeyDisputed, connector.ReasonKeyRemoved,
		connector.ReasonAnswerMismatch},
	"rekeyed": {connector.ReasonKeyChanged, connector.ReasonKeyShared, connector.ReasonOtherKey,
		connector.ReasonKeyDoubled},
}

// judgeRecord checks L1 on one record: one customer with the mapped values, or a reason explained by the
// events.
func (o *oracle) judgeRecord(p *process, b *books, record connector.Record) {
	want, ok := o.w.rendered(record)
	if !ok {
		return
	}
	ctx := context.Background()
	shown, err := p.ledger.AttentionOf(ctx, b.connection, record.SourceID)
	if err != nil {
		o.w.violate("harness", "read what needs attention: %v", err)
		return
	}
	if o.excused(want.Key.Value, shown) || o.parted[b.connection+" "+record.SourceID] &&
		slices.Contains(reasonsOf(shown), string(connector.ReasonUnlinked)) ||
		slices.Contains(reasonsOf(shown), string(connector.ReasonKeyDisputed)) && o.looksForeign(want) ||
		slices.Contains(reasonsOf(shown), string(connector.ReasonLikeness)) && o.looksTaken(want.Customer) ||
		slices.Contains(reasonsOf(shown), string(connector.ReasonEnteredTwice)) &&
			(o.looksTwice(b, record) || o.leftBehind(p, true)) ||
		slices.Contains(reasonsOf(shown), string(connector.ReasonRenumbered)) && o.leftBehind(p, false) {
		return
	}
	payer, err := p.ledger.Payer(ctx, b.connection, record.SourceID)
	if err != nil {
		o.w.violate("L1", "record %s has no payer (%v); attention %v", record.SourceID, err, reasonsOf(shown))
		return
	}
	var carriers []sandbox.Customer
	for _, c := range o.w.service.Customers() {
		if c.ExternalData[keyName] == want.Key.Value {
			carriers = append(carriers, c)
		}
	}
	switch {
	case len(carriers) != 1:
		o.w.violate("L1", "record %s has %d customers, its link is %s; attention %v", record.SourceID, len(carriers),
			payer.LinkState, reasonsOf(shown))
		return
	case payer.LinkState != connector.LinkLinked || payer.BillingID != carriers[0].ID:
		o.w.violate("L1", "record %s is %s to %q, its customer is %s; attention %v", record.SourceID, payer.LinkState,
			payer.BillingID, carriers[0].ID, reasonsOf(shown))
		return
	}
	if !o.taints[want.Key.Value]["undone"] {
		o.judgeContent(record.SourceID, want.Customer, carriers[0])
	}
	if want.RequestMandate && len(carriers[0].Mandates) == 0 && !slices.ContainsFunc(shown, aboutLink) {
		o.w.violate("L1", "record %s was never asked for a mandate; attention %v", record.SourceID, reasonsOf(shown))
	}
}

// aboutLink reports whether a finding says no signing link is available.
func aboutLink(r state.AttentionRow) bool {
	return r.Reason == string(connector.ReasonLinkRefused)
}

// excused reports whether a payer waits for a person because of others' edits of its key.
func (o *oracle) excused(key string, shown []state.AttentionRow) bool {
	if o.w.plan.poison == key && slices.Contains(reasonsOf(shown), string(connector.ReasonRejected)) {
		return true
	}
	for what := range o.taints[key] {
		for _, reason := range excuses[what] {
			if slices.Contains(reasonsOf(shown), string(reason)) {
				return true
			}
		}
	}
	return false
}

// looksTaken reports whether a customer without our key has the same name, with or without a legal form, or
// the same address, so a person must decide whether it is the same payer.
func (o *oracle) looksTaken(want connector.Customer) bool {
	return slices.ContainsFunc(o.w.service.Customers(), func(c sandbox.Customer) bool {
		if _, has := c.ExternalData[keyName]; has {
			return false
		}
		return withoutForm(c.Name) == withoutForm(want.Name) ||
			slices.ContainsFunc(want.People, func(p connector.Person) bool {
				return p.Email != "" && strings.Contains(string(c.Raw), `"`+p.Email+`"`)
			})
	})
}

// withoutForm returns a name without the legal form added by the simulation's mappings.
func withoutForm(name string) string { return strings.TrimSuffix(name, " Ltd") }

// looksTwice reports whether the mapping makes a payer with the same name and address of another record of
// the same connection.
func (o *oracle) looksTwice(b *books, record connector.Record) bool {
	of := b.fields(record.SourceID)
	return slices.ContainsFunc(b.records, func(other connector.Record) bool {
		_, is := o.w.rendered(other)
		f := b.fields(other.SourceID)
		return is && other.SourceID != record.SourceID && strings.EqualFold(f.Name, of.Name) &&
			strings.EqualFold(f.Email, of.Email)
	})
}

// leftBehind reports whether the ledger has a linked payer, or any, whose record is no longer a payer or
// cannot be sent. The ledger knows it by its former values. A source of changes does not report removed
// records.
func (o *oracle) leftBehind(p *process, unlinked bool) bool {
	payers, err := p.ledger.Payers(context.Background(), state.Filter{})
	if err != nil {
		o.w.violate("harness", "read the payers: %v", err)
	}
	return slices.ContainsFunc(payers, func(r state.PayerRow) bool {
		if r.BillingID == nil && !unlinked {
			return false
		}
		for _, b := range o.w.allBooks() {
			if i := b.find(r.SourceID); b.connection == r.Connection && i >= 0 {
				_, is := o.w.rendered(b.records[i])
				return !is
			}
		}
		return true
	})
}

// looksForeign reports whether the one customer with the record's key has neither its name nor one of its
// e-mail addresses, so a person must decide.
func (o *oracle) looksForeign(want mapping.Result) bool {
	var carriers []sandbox.Customer
	for _, c := range o.w.service.Customers() {
		if c.ExternalData[keyName] == want.Key.Value {
			carriers = append(carriers, c)
		}
	}
	return len(carriers) == 1 && !strings.EqualFold(carriers[0].Name, want.Customer.Name) &&
		!slices.ContainsFunc(want.Customer.People, func(p connector.Person) bool {
			return p.Email != "" && strings.Contains(string(carriers[0].Raw), `"`+p.Email+`"`)
		})
}

func reasonsOf(rows []state.AttentionRow) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.Reason
	}
	return out
}

// judgeContent checks that a customer holds the mapped values.
func (o *oracle) judgeContent(source string, want connector.Customer, c sandbox.Customer) {
	raw := decode(c.Raw)
	if renamed := o.taints[c.ExternalData[keyName]]["renamed"]; c.Name != want.Name && !renamed {
		o.w.violate("L1", "the customer of record %s is called %q, not %q", source, c.Name, want.Name)
	}
	for _, person := range want.People {
		if person.Email != "" && !strings.Contains(text(raw["people"]), `"`+person.Email+`"`) {
			o.w.violate("L1", "the customer of record %s lacks the address %q: %s", source, person.Email, text(raw["people"]))
		}
	}
	for _, address := range want.Addresses {
		if !strings.Contains(text(raw["addresses"]), `"`+address.PostCode+`"`) {
			o.w.violate("L1", "the customer of record %s lacks the post code %q", source, address.PostCode)
		}
	}
	for name, value := range want.ExternalData {
		if c.ExternalData[name] != value {
			o.w.violate("L1", "the customer of record %s lacks the pair %s", source, name)
		}
	}
}

// judgeStatuses checks L2: mandate and status of every payer with a customer are
// the service's.
func (o *oracle) judgeStatuses(p *process) {
	rows, err := p.ledger.Payers(context.Background(), state.Filter{})
	if err != nil {
		o.w.violate("harness", "read the payers: %v", err)
	}
	for _, row := range rows {
		if row.BillingID == nil {
			continue
		}
		c, lives := o.w.service.Customer(*row.BillingID)
		if !lives {
			if row.LinkState != string(connector.LinkMissing) && !o.taints[row.KeyValue]["doubled"] {
				o.w.violate("L2", "record %s is %s, and its customer is gone", row.SourceID, row.LinkState)
			}
			continue
		}
		if len(c.Mandates) == 0 {
			continue
		}
		last := c.Mandates[len(c.Mandates)-1]
		if row.MandateID == nil || *row.MandateID != last.ID || row.MandateStatus == nil ||
			*row.MandateStatus != string(last.Status) {
			o.w.violate("L2", "record %s: the ledger's mandate is %s %s, the service's %s %s", row.SourceID,
				deref(row.MandateID), deref(row.MandateStatus), last.ID, last.Status)
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

// describe logs the whole state, for people who examine a seed.
func (w *world) describe(p *process) {
	for _, b := range w.allBooks() {
		for _, r := range b.records {
			w.logf("record %s%s %s %s", r.SourceID, b.label(), r.State, r.Data)
		}
	}
	for _, c := range w.service.Customers() {
		w.logf("customer %s mandates %v", c.Raw, c.Mandates)
	}
	rows, err := p.ledger.Payers(context.Background(), state.Filter{})
	w.logf("payers (%v)", err)
	for _, row := range rows {
		shown, _ := p.ledger.AttentionOf(context.Background(), row.Connection, row.SourceID)
		w.logf("payer %s key %s is %s to %s, mandate %s %s; attention %v", row.SourceID, row.KeyValue, row.LinkState,
			deref(row.BillingID),
			deref(row.MandateID), deref(row.MandateStatus), reasonsOf(shown))
	}
	for key, what := range w.oracle.taints {
		w.logf("key %s: %v", key, what)
	}
}
