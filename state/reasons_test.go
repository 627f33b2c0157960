package state

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// reasons returns why a mandate came to where it is, as "status code".
func (d *desk) reasons(mandate string) (out []string) {
	d.t.Helper()
	found, err := d.FailureReasons(d.t.Context(), mandate)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, r := range found {
		out = append(out, r.Status+" "+r.Code)
	}
	return out
}

// covers F94
func TestAReasonStaysBesideTheStatusThatItCameWith(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	because := func(status connector.MandateStatus, code string) {
		d.clock.move(time.Minute)
		d.mandate(connector.Mandate{Status: status, FailureReason: connector.NewSecret(code)}, connector.CauseSweep)
	}
	because(connector.MandateActive, "")
	because(connector.MandateCancelled, "")
	because(connector.MandateCancelled, "AC04") // the full answer tells later
	because(connector.MandateCancelled, "AC99") // and stays with what it said first
	because(connector.MandateActive, "")        // a bank takes it up again
	because(connector.MandateCancelled, "MD01")
	if diff := cmp.Diff([]string{"CANCELLED AC04", "CANCELLED MD01"}, d.reasons("m1")); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if err := d.Integrity(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestReasonsAreKeptForThirteenMonths(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.mandate(connector.Mandate{Status: connector.MandateCancelled, FailureReason: connector.NewSecret("AC04")},
		connector.CauseSweep)
	limits := Retention{Bodies: 9999 * time.Hour, Details: 9999 * time.Hour}
	for _, step := range []struct {
		after time.Duration
		gone  int
	}{{ReasonsKept - time.Minute, 0}, {2 * time.Minute, 1}, {0, 0}} {
		d.clock.move(step.after)
		would, err := d.WouldRetain(t.Context(), limits)
		if err != nil || would.Reasons != step.gone {
			t.Errorf("%d reasons would go, %v; want %d", would.Reasons, err, step.gone)
		}
		if got, err := d.Retain(t.Context(), limits); err != nil || got.Reasons != step.gone {
			t.Errorf("%d reasons went, %v; want %d", got.Reasons, err, step.gone)
		}
	}
	if got := d.reasons("m1"); len(got) != 0 {
		t.Errorf("kept is %q", got)
	}
}

func TestReasonsOfAnEarlierVersionComeBesideTheirStatus(t *testing.T) {
	t.Parallel()
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(readFile(t,
		filepath.Join("..", "connector", "syncer", "testdata", "before", "schema12", "ledger-key.txt")))))
	if err != nil {
		t.Fatal(err)
	}
	seal, err := newSealer(key)
	if err != nil {
		t.Fatal(err)
	}
	l := upgraded(t)
	id := column(t, l, "SELECT min(mandate_id) FROM mandates")
	status := column(t, l, "SELECT to_status FROM mandate_history WHERE seq = (SELECT max(seq) FROM mandate_history WHERE mandate_id = '"+id+"')")
	l = upgraded(t, fmt.Sprintf("UPDATE mandates SET failure_reason = x'%x' WHERE mandate_id = '%s'",
		seal.box([]byte("AC04"), place("mandates", "failure_reason", id)), id))
	got, err := l.FailureReasons(t.Context(), id)
	if err != nil || len(got) != 1 || got[0].Code != "AC04" || got[0].Status != status {
		t.Errorf("kept is %+v, %v; want AC04 beside %s", got, err, status)
	}
}
