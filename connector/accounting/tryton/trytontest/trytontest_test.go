package trytontest_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector/accounting/tryton/trytontest"
)

var server trytontest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

type party struct {
	ID         int64
	Name       *string
	Active     any
	ReplacedBy *int64 `json:"replaced_by"`
}

func parties(db *trytontest.Database) []party {
	var out []party
	db.Rows(&out, "party.party", true, "name", "active", "replaced_by")
	return out
}

func TestDatabasesAreOfTheirOwnAndDoWhatTrytonDoes(t *testing.T) {
	db, other := server.Database(t), server.Database(t)
	ids := db.Create("party.party", trytontest.Values{"name": "Ann"}, trytontest.Values{"name": "Bob"},
		trytontest.Values{"name": "Cy"}, trytontest.Values{"name": "Di"})
	db.Write("party.party", ids[0], trytontest.Values{"name": "Anna"})
	db.Replace(ids[1], ids[0])
	db.Erase(ids[2])
	db.Delete("party.party", ids[3])

	anna, bob, no, yes := "Anna", "Bob", any(0.0), any(1.0)
	want := []party{{ids[0], &anna, yes, nil}, {ids[1], &bob, no, &ids[0]}, {ids[2], nil, no, nil}}
	got := map[int64]party{}
	for _, p := range parties(db) {
		got[p.ID] = p
	}
	wanted := map[int64]party{}
	for _, p := range want {
		wanted[p.ID] = p
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("parties (-want +got):\n%s", diff)
	}
	if n := len(parties(other)); n != 0 {
		t.Errorf("another database has %d of our parties", n)
	}
}

func TestFrontPassesOnWhatItIsNotToldToKeep(t *testing.T) {
	db := server.Database(t)
	front := db.NewFront(t)
	ask := func() string {
		body := bytes.NewReader([]byte(`{"id":1,"method":"common.server.version","params":[]}`))
		resp, err := http.Post(front.URL+"/", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Status + " " + string(text)
	}
	after := 0
	front.After(func(c trytontest.Call) { after++ })
	if got := ask(); !strings.HasPrefix(got, `200 OK {"id":1,"result":"`) {
		t.Errorf("answer %s", got)
	}
	front.Answer(func(c trytontest.Call, w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusTeapot)
		return c.Method == "common.server.version"
	})
	if got := ask(); !strings.HasPrefix(got, "418 ") {
		t.Errorf("answer %s", got)
	}
	if n := len(front.Calls()); n != 2 || after != 1 {
		t.Errorf("%d calls were noted, %d were answered by the server", n, after)
	}
}
