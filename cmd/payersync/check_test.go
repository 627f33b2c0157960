package main

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector/sandbox"
	"payersync/internal/longtest"
)

func TestACheckGivesAHangingServiceUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		found := inPatience(t.Context(), "billing service", func(ctx context.Context) []finding {
			<-ctx.Done()
			return []finding{tell("billing service", "", ctx.Err())}
		})
		if took := time.Since(began); took != checkPatience {
			t.Errorf("it waited %s", took)
		}
		if len(found) != 1 || found[0].OK ||
			!strings.Contains(found[0].Detail, "gave no whole answer within 20s; check billing.base_url") {
			t.Errorf("it says %+v", found)
		}
	})
}

// A check that gives up also ends its hanging request.
func TestACheckThatIsGivenUpLetsTheServiceGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	arrived, left := make(chan struct{}), make(chan struct{})
	hang := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/customers" {
			return false
		}
		close(arrived)
		<-r.Context().Done()
		close(left)
		return true
	}
	w.front.Store(&hang)
	s := w.served(new(bytes.Buffer))
	defer s.Close()
	ctx, giveUp := context.WithCancel(t.Context())
	go func() {
		<-arrived
		giveUp()
	}()
	if found := checkBilling(ctx, s); found.OK {
		t.Errorf("it says %+v", found)
	}
	await(t, "the service to be let go", left)
}

func TestCheckAdvisesNoNewSubscriptionWhereTheServiceDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	down := func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusBadGateway)
		return true
	}
	w.front.Store(&down)
	r := w.expect(exitFailed, "check")
	for _, check := range []string{"dialect", "webhook subscription"} {
		if !strings.Contains(r.out, "FAIL  "+check) {
			t.Errorf("%s does not fail:\n%s", check, r.out)
		}
	}
	if strings.Count(r.out, "see the finding about the billing service above") != 2 ||
		strings.Contains(r.out, "payersync webhooks subscribe") {
		t.Errorf("it says:\n%s", r.out)
	}
}

func TestCheckWarnsOfAKeyThatIsNoConnectorType(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1), func(o *sandbox.Options) { o.Switches.ExternalData = "array" })
	w.edit("payersync.yaml", "  webhook:\n", dialectOf("external_data: object")+"  webhook:\n")
	if r := w.expect(exitDone, "check"); !strings.Contains(r.out, "is sent as the connector type accountNumber") ||
		!strings.Contains(r.out, "billing.dialect.external_data: map") {
		t.Errorf("check says\n%s", r.out)
	}
	w.edit("mapping.yaml", "accountNumber: AccountNumber", "Xero: AccountNumber")
	if r := w.run("check"); strings.Contains(r.out, "connector type") {
		t.Errorf("of a known one check says\n%s", r.out)
	}
}

func TestAnAnswerMayTakeAsLongAsIsConfigured(t *testing.T) {
	longtest.Story(t, longtest.Waiting)
	t.Parallel()
	w := newWorld(t, people(1), func(o *sandbox.Options) { o.Latency = 1500 * time.Millisecond })
	w.edit("payersync.yaml", "billing:\n", "billing:\n  request_timeout: 1s\n")
	if r := w.expect(exitFailed, "check"); !strings.Contains(r.out+r.errOut, "did not answer in time") {
		t.Errorf("it says\n%s%s", r.out, r.errOut)
	}
	w.edit("payersync.yaml", "request_timeout: 1s", "request_timeout: 20s")
	w.expect(exitDone, "check")
}
