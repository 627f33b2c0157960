package admin_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/letters/bounce"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

const address = "Accounts@bakery.example"

// writtenTo is a desk with payers who have an open signing link; the first of them got a letter, with this
// id.
func writtenTo(t *testing.T) (d *desk, b *admin.Bounces, id string) {
	t.Helper()
	d = newDesk(t, 0, sandbox.Switches{})
	d.waits(2)
	payers := d.find(admin.Links{})
	if got, err := d.fetch(t.Context(), payers); err != nil || got.Fetched != 2 {
		t.Fatalf("links: %+v, %v", got, err)
	}
	p := payers[0]
	record := state.RecordID{Connection: p.Connection, SourceID: p.SourceID}
	id = d.ledger.LetterHash("letter", p.MandateID, "0")
	d.do(func(tx *state.Tx) error {
		now := tx.Now()
		if err := errors.Join(tx.NoteLetterAddress(record, d.ledger.RecipientHash(address)), tx.FreezeLetter(state.Letter{
			MandateID: p.MandateID, Kind: "invitation", RecordID: record, Recipient: d.ledger.RecipientHash(address), Setup: "s",
			Language:  "en",
			MessageID: id, Body: []byte("x"), LookedAt: now, FrozenAt: now,
		})); err != nil {
			return err
		}
		if _, may, err := tx.BeginSending(id, now.Add(-time.Minute), now.Format(time.DateOnly)); err != nil || !may {
			return fmt.Errorf("it may leave: %v, %w", may, err)
		}
		return tx.EndLetter(id, state.MessageSent, false, "250")
	})
	return d, &admin.Bounces{Ledger: d.ledger}, id
}

// report returns what a mail server says of the message with this id.
func report(action, status, id string) *strings.Reader {
	return strings.NewReader("From: mailer\r\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example\r\n\r\n" +
		"Final-Recipient: rfc822; accounts@bakery.example\r\nAction: " + action + "\r\nStatus: " + status +
		"\r\n\r\n--b\r\nContent-Type: text/rfc822-headers\r\n\r\nMessage-ID: <" + id + "@harbour.example>\r\n\r\n--b--\r\n")
}

// told returns the reasons that people are told of.
func (d *desk) told() (out []string) {
	d.t.Helper()
	rows, err := d.ledger.Attention(d.t.Context(), state.Filter{})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, r := range rows {
		out = append(out, r.SourceID+" "+r.Reason)
		if r.Detail != connector.Reason(r.Reason).Sentence() {
			d.t.Errorf("of %s is said %q", r.Reason, r.Detail)
		}
	}
	return out
}

// A dead address is told of until the books have another one, and is written to no more.
//
// covers F134
func TestALetterThatCameBackStopsItsAddress(t *testing.T) {
	t.Parallel()
	d, b, id := writtenTo(t)
	by := syncer.Operator{Name: "ada"}
	for range 2 { // servers repeat themselves
		if got, err := b.Report(t.Context(), report("failed", "5.1.1", id), by); err != nil ||
			got != (admin.Bounced{Stopped: 1, Payers: 1}) {
			t.Errorf("it ended as %+v, %v", got, err)
		}
	}
	stops, err := d.ledger.LetterStops(t.Context())
	if err != nil || len(stops) != 1 || stops[0].Why != state.StopBounced ||
		stops[0].Recipient != d.ledger.RecipientHash(address) || stops[0].Note != "5.1.1" {
		t.Errorf("stopped are %+v, %v", stops, err)
	}
	if got := d.told(); len(got) != 1 || got[0] != "A00000 address_bounced" {
		t.Errorf("told is %q", got)
	}
	d.do(func(tx *state.Tx) error {
		return tx.NoteLetterAddress(state.RecordID{Connection: "acme", SourceID: "A00000"},
			d.ledger.RecipientHash("office@bakery.example"))
	})
	if got := d.told(); len(got) != 0 {
		t.Errorf("with another address told is %q", got)
	}
}

// covers F134
func TestAReportIsBelievedOfALetterOfOursAlone(t *testing.T) {
	t.Parallel()
	d, b, id := writtenTo(t)
	for _, c := range []struct {
		action, status, id string
		want               admin.Bounced
	}{
		{"failed", "5.1.1", strings.Repeat("0", len(id)), admin.Bounced{Dropped: 1}},
		{"failed", "5.1.1", id + "0", admin.Bounced{Dropped: 1}},
		{"relayed", "2.0.0", id, admin.Bounced{Dropped: 1}}, {"failed", "5.2.2", id, admin.Bounced{Noted: 1}},
		{"delayed", "4.4.1", id, admin.Bounced{Noted: 1}},
	} {
		if got, err := b.Report(t.Context(), report(c.action, c.status, c.id), syncer.Operator{Name: "ada"}); err != nil ||
			got != c.want {
			t.Errorf("%s %s of %s ended as %+v, %v; want %+v", c.action, c.status, c.id, got, err, c.want)
		}
	}
	if _, err := b.Report(t.Context(), strings.NewReader("From: ada\r\n\r\n5.1.1\r\n"), syncer.Operator{}); !errors.Is(err,
		bounce.ErrNoReport) {
		t.Errorf("what is no report ended with %v", err)
	}
	if stops, err := d.ledger.LetterStops(t.Context()); err != nil || len(stops) != 0 || len(d.told()) != 0 {
		t.Errorf("stopped are %+v, %v; told is %q", stops, err, d.told())
	}
}

func TestAPersonsWordOnAnAddressIsTakenAndTakenBack(t *testing.T) {
	t.Parallel()
	d, b, _ := writtenTo(t)
	ctx, record := t.Context(), state.RecordID{Connection: "acme", SourceID: "A00000"}
	by := syncer.Operator{Name: "ada", Reason: "by telephone"}
	revive := func(id state.RecordID) error {
		_, err := (&admin.Attention{Ledger: d.ledger}).Perform(ctx, admin.Decision{Act: connector.ActResume, Record: id},
			admin.By{Operator: by, Role: admin.Operator})
		return err
	}
	for _, again := range []func() error{
		func() error { return revive(record) },
		func() error { return b.ReviveAddress(ctx, " ACCOUNTS@bakery.example", by) },
	} {
		if got, err := b.Address(ctx, "accounts@Bakery.example", by); err != nil ||
			got != (admin.Bounced{Stopped: 1, Payers: 1}) || len(d.told()) != 1 {
			t.Errorf("it ended as %+v, %v; told is %q", got, err, d.told())
		}
		if err := again(); err != nil || len(d.told()) != 0 {
			t.Errorf("taken back it ended with %v; told is %q", err, d.told())
		}
		if err := again(); !errors.Is(err, admin.ErrNotBounced) {
			t.Errorf("a second time it ended with %v", err)
		}
	}
	if err := revive(state.RecordID{Connection: "acme", SourceID: "A00001"}); !errors.Is(err, admin.ErrNotWrittenTo) {
		t.Errorf("of one who is not written to it ended with %v", err)
	}
	if got, err := b.Address(ctx, "nobody@example.net", by); err != nil || got != (admin.Bounced{Stopped: 1}) {
		t.Errorf("nobody's address ended as %+v, %v", got, err)
	}
}

// One who has signed need not be reached.
func TestADeadAddressIsToldOfWhileThereIsSomethingToSign(t *testing.T) {
	t.Parallel()
	d, b, id := writtenTo(t)
	if _, err := b.Report(t.Context(), report("failed", "5.1.1", id), syncer.Operator{Name: "ada"}); err != nil ||
		len(d.told()) != 1 {
		t.Fatalf("told is %q, %v", d.told(), err)
	}
	p, err := d.ledger.Payer(t.Context(), "acme", "A00000")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.box.Sign(p.MandateID); err != nil {
		t.Fatal(err)
	}
	if _, err := d.acts.Syncer.Reconciler.Check(t.Context(), p.BillingID, connector.CauseWebhook, "test"); err != nil ||
		len(d.told()) != 0 {
		t.Errorf("after the signature told is %q, %v", d.told(), err)
	}
}

// What is understood of texts is noted, and of every other line is told where it stands and why.
//
// covers F134
func TestTextsOfReportsOrAddressesAreTakenInByLine(t *testing.T) {
	t.Parallel()
	d, b, id := writtenTo(t)
	full, dead := report("failed", "5.2.2", id), report("failed", "5.1.1", id)
	text := func(name string, r io.Reader) admin.BouncedText {
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return admin.BouncedText{Name: name, Text: string(raw)}
	}
	by := syncer.Operator{Name: "ada", Reason: "by hand"}
	for name, c := range map[string]struct {
		texts []admin.BouncedText
		want  []admin.BouncedLine
	}{
		"nothing": {[]admin.BouncedText{{}, {Text: "\r\n \n"}}, nil},
		"a full mailbox": {[]admin.BouncedText{text("", full)},
			[]admin.BouncedLine{{Bounced: admin.Bounced{Noted: 1}}}},
		"not of ours": {[]admin.BouncedText{text("r.eml", report("failed", "5.1.1", id+"0"))},
			[]admin.BouncedLine{{Bounced: admin.Bounced{Dropped: 1}, Name: "r.eml"}}},
		"of no message": {[]admin.BouncedText{{Name: "r.eml",
			Text: strings.Replace(text("", report("failed", "5.1.1", id)).Text, "Message-ID", "X-Other", 1)}},
			[]admin.BouncedLine{{Name: "r.eml", Wrong: bounce.ErrNoMessage.Error()}}},
		"a name by an address": {[]admin.BouncedText{{Name: "l.txt", Text: "Ada <ada@example.net>"}},
			[]admin.BouncedLine{{Name: "l.txt", N: 1, Text: "Ada <ada@example.net>",
				Wrong: "it is no e-mail address, and no delivery report"}}},
		"lines": {[]admin.BouncedText{{Text: "nobody@example.net\r\n\r\n <b>x</b>\r\nNOBODY@example.net\r\n"},
			text("dead.eml", dead), {Name: "l.txt", Text: "\naccounts@BAKERY.example"}}, []admin.BouncedLine{
			{Bounced: admin.Bounced{Stopped: 1}, N: 1, Text: "nobody@example.net"},
			{N: 3, Text: "<b>x</b>", Wrong: "it is no e-mail address, and no delivery report"},
			{Bounced: admin.Bounced{Stopped: 1, Payers: 1}, Name: "dead.eml"},
			{Bounced: admin.Bounced{Stopped: 1, Payers: 1}, Name: "l.txt", N: 2, Text: "accounts@BAKERY.example"},
		}},
	} {
		got, err := b.Texts(t.Context(), c.texts, by)
		for i := range got {
			if got[i].N == 0 && got[i].Wrong != "" {
				got[i].Text = "" // a report as it was written
			}
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: it ended as %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	stops, err := d.ledger.LetterStops(t.Context())
	if err != nil || len(stops) != 2 || len(d.told()) != 1 {
		t.Errorf("stopped are %+v, %v; told is %q", stops, err, d.told())
	}
	if _, err := b.Texts(t.Context(),
		[]admin.BouncedText{{Text: "late@example.net"}, {Text: strings.Repeat("\n", admin.MostLines)}}, by); !errors.Is(err,
		admin.ErrTooManyLines) {
		t.Errorf("too many lines ended with %v", err)
	}
	if now, err := d.ledger.LetterStops(t.Context()); err != nil || len(now) != len(stops) {
		t.Errorf("of too many lines some were noted: %+v, %v", now, err)
	}
}
