package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/cmd/payersync/internal/session"
	"payersync/connector/server"
)

// from is a refusal of somebody in a block.
func from(block string, outcome server.RequestOutcome) server.Event {
	return server.Event{Outcome: outcome, Client: netip.MustParsePrefix(block), Err: errors.New("why")}
}

// covers F111
func TestWhatComesAgainIsCountedUntilTheMinuteEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out output
		log, err := session.NewLog(&out, "debug", "text", nil)
		if err != nil {
			t.Fatal(err)
		}
		l := newDeliveryLog(log)
		ctx, stop := context.WithCancel(t.Context())
		go l.run(ctx)
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for line := range strings.Lines(out.take()) {
				_, rest, _ := strings.Cut(strings.TrimSpace(line), "level=")
				got = append(got, rest)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		}
		for range 1000 {
			l.report(from("198.51.100.0/24", server.SignatureFailed))
			l.report(from("203.0.113.0/24", server.SignatureFailed))
			l.report(from("203.0.113.0/24", server.WrongMethod))
		}
		l.report(server.Event{Outcome: server.Repeated})
		l.report(server.Event{Outcome: server.Accepted, Type: "customer", State: "received"})
		fmt.Fprintln(l, "http: a stranger hung up")
		expect(
			`warning msg="webhook refused" count=1 error=why from=198.51.100.0/24 outcome=signature_failed`,
			`warning msg="webhook refused" count=1 error=why from=203.0.113.0/24 outcome=signature_failed`,
			`warning msg="webhook refused" count=1 error=why from=203.0.113.0/24 outcome=wrong_method`,
			`info msg="webhook taken in" count=1 outcome=repeated`,
			`info msg="webhook taken in" outcome=accepted state=received type=customer`,
			`debug msg="a connection broke" count=1 error="http: a stranger hung up" outcome=broken_connection`,
		)
		time.Sleep(tallyEvery)
		expect(
			`warning msg="webhook refused" count=999 from=198.51.100.0/24 outcome=signature_failed`,
			`warning msg="webhook refused" count=999 from=203.0.113.0/24 outcome=signature_failed`,
			`warning msg="webhook refused" count=999 from=203.0.113.0/24 outcome=wrong_method`,
		)
		l.report(from("203.0.113.0/24", server.WrongMethod)) // has not been away for a minute
		expect()
		time.Sleep(tallyEvery)
		expect(`warning msg="webhook refused" count=1 from=203.0.113.0/24 outcome=wrong_method`)
		time.Sleep(tallyEvery)
		expect()
		l.report(from("203.0.113.0/24", server.WrongMethod)) // and now it has
		expect(`warning msg="webhook refused" count=1 error=why from=203.0.113.0/24 outcome=wrong_method`)
		time.Sleep(tallyEvery)
		expect() // the minute is over before more is taken in
		for range mostOwnLines + 3 {
			l.report(server.Event{Outcome: server.Accepted, Type: "customer", State: "received"})
		}
		l.report(server.Event{Outcome: server.Accepted, State: "quarantined"})
		lines := slices.Repeat([]string{`info msg="webhook taken in" outcome=accepted state=received type=customer`},
			mostOwnLines)
		expect(append(lines, `info msg="webhook taken in" count=1 outcome=accepted`,
			`info msg="webhook taken in" outcome=accepted state=quarantined type=`)...)
		time.Sleep(tallyEvery)
		expect(`info msg="webhook taken in" count=2 outcome=accepted`)
		stop()
		synctest.Wait()
	})
}

// covers F111
func TestALogOfManyBlocksIsBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := session.NewLog(&out, "info", "json", nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newDeliveryLog(log)
	const blocks, minutes = 20_000, 5
	for range minutes {
		for i := range blocks {
			l.report(from(fmt.Sprintf("2001:db8:%x::/64", i), server.SignatureFailed))
			l.report(from(fmt.Sprintf("2001:db8:%x::/64", i), server.TooMany))
		}
		if n := len(l.since); n > maxTallied+2 {
			t.Errorf("%d kinds are remembered, want at most %d", n, maxTallied+2)
		}
		l.flush()
	}
	told, lines := refusals(t, out.String())
	t.Logf("%d requests of %d blocks in %d minutes made %d lines, %d bytes", 2*minutes*blocks, blocks, minutes, lines,
		out.Len())
	if told != 2*minutes*blocks || lines > minutes*2*(maxTallied+2) || !strings.Contains(out.String(), otherBlocks) {
		t.Errorf("%d of %d requests are told of, in %d lines", told, 2*minutes*blocks, lines)
	}
}
