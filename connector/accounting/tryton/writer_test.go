package tryton_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/tryton"
	"payersync/connector/accounting/tryton/trytontest"
	"payersync/connector/transport"
)

var categories = tryton.CategoryConfig{Asked: "DD asked", Active: "DD active"}

func (b *books) writer(c tryton.Config) *tryton.CategoryWriter {
	b.t.Helper()
	http := transport.New(transport.Options{Retries: -1})
	b.t.Cleanup(http.Close)
	w, err := tryton.NewWriter(c, categories, tryton.Deps{HTTP: http, Limiter: &accountingtest.Limiter{}, Now: time.Now})
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// set puts a party where a standing says.
func (b *books) set(w *tryton.CategoryWriter, party int64, to connector.FieldStatus) error {
	b.t.Helper()
	id := strconv.FormatInt(party, 10)
	held, err := w.Read(b.t.Context(), []string{id})
	if err != nil {
		return err
	}
	body, err := w.Freeze(connector.Write{SourceID: id, To: to, Value: w.Value(to, ""), Field: held[id]})
	if err != nil {
		b.t.Fatal(err)
	}
	return w.Send(b.t.Context(), "w1", body)
}

// names returns the categories that a party is in, as Tryton itself has them.
func (b *books) names(party int64) (out []string) {
	b.t.Helper()
	all := map[int64]string{}
	for _, c := range b.rows("party.category", true, "name") {
		all[c.ID] = *c.Name
	}
	for _, r := range b.rows("party.party", true, "categories") {
		if r.ID == party {
			for _, c := range r.Categories {
				out = append(out, all[c])
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestCategoriesThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	good := tryton.Config{URL: "https://books.example", Database: "acct", User: "payersync",
		Password: connector.NewSecret("secret")}
	for key, w := range map[string]tryton.CategoryConfig{
		"active":    {},
		"signed":    {Asked: "DD", Signed: "DD"},
		"cancelled": {Active: "DD", Cancelled: " gone"},
	} {
		if _, err := tryton.NewWriter(good, w, tryton.Deps{}); err == nil || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// A party goes through our categories, and stays in those of others.
func TestAPartyIsMovedBetweenOurCategoriesAlone(t *testing.T) {
	b := openBooks(t)
	made := b.Create("party.category", trytontest.Values{"name": "DD asked"}, trytontest.Values{"name": "Friends"})
	parties := b.add(2)
	party, other := parties[0], parties[1]
	b.Write("party.party", party, trytontest.Values{"categories": []any{[]any{"add", []int64{made[1]}}}})
	w := b.writer(b.config())
	if p := w.Probe(t.Context()); p.OK || !strings.Contains(p.Detail, `"DD active"`) {
		t.Errorf("a category that is not there: %+v", p)
	}
	if err := b.set(w, party, connector.FieldActive); err == nil {
		t.Error("a category was made up")
	}
	b.Create("party.category", trytontest.Values{"name": "DD active"})
	if p := w.Probe(t.Context()); !p.OK {
		t.Errorf("the probe: %+v", p)
	}
	before := time.Now().Add(-time.Second)
	for _, step := range []struct {
		to   connector.FieldStatus
		want []string
	}{
		{connector.FieldAsked, []string{"DD asked", "Friends"}},
		{connector.FieldActive, []string{"DD active", "Friends"}},
		{connector.FieldActive, []string{"DD active", "Friends"}}, // once more, as after a lost answer
		{connector.FieldCancelled, []string{"Friends"}},           // which has no category
	} {
		if err := b.set(w, party, step.to); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, b.names(party)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.to, diff)
		}
	}
	if got := b.names(other); len(got) != 0 {
		t.Errorf("another party is in %q", got)
	}
	// Each write moves the party's time of edit, so that it comes back, unchanged but for ours.
	id := strconv.FormatInt(party, 10)
	was := read(t, b.source, time.Time{})[id].Without(w.Written())
	if err := b.set(w, party, connector.FieldActive); err != nil {
		t.Fatal(err)
	}
	is, came := read(t, b.source, before)[id]
	if !came || is.Without(w.Written()).Hash() != was.Hash() ||
		is.Hash() == read(t, b.source, time.Time{})[id].Without(w.Written()).Hash() {
		t.Errorf("the echo came %v, as %s", came, is.Data)
	}
}

func TestPartiesThatCannotBeWrittenToAreTold(t *testing.T) {
	b := openBooks(t)
	b.Create("party.category", trytontest.Values{"name": "DD asked"}, trytontest.Values{"name": "DD active"})
	party := b.add(1)[0]
	w := b.writer(b.config())
	b.Write("party.party", party, trytontest.Values{"active": false})
	id := strconv.FormatInt(party, 10)
	held, err := w.Read(t.Context(), []string{id, "987654", "no number"})
	if err != nil || len(held) != 1 || held[id].Closed == "" {
		t.Errorf("read %+v, %v", held, err)
	}
}

func TestAWriteWithoutAnAnswerIsNotRepeatedBehindOurBack(t *testing.T) {
	b := openBooks(t)
	b.Create("party.category", trytontest.Values{"name": "DD asked"}, trytontest.Values{"name": "DD active"})
	party := b.add(1)[0]
	w := b.writer(b.config())
	writes := 0
	b.front.Answer(func(c trytontest.Call, rw http.ResponseWriter) bool {
		if c.Method != "model.party.party.write" {
			return false
		}
		writes++
		rw.WriteHeader(http.StatusBadGateway)
		return true
	})
	err := b.set(w, party, connector.FieldActive)
	if err == nil || errors.Is(err, connector.ErrNotWritten) || writes != 1 {
		t.Errorf("%d writes, error %v", writes, err)
	}
	b.front.Answer(func(c trytontest.Call, rw http.ResponseWriter) bool {
		if c.Method == "model.party.party.write" {
			rw.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	if err := b.set(w, party, connector.FieldActive); !errors.Is(err, connector.ErrNotWritten) {
		t.Errorf("a user without the right: %v", err)
	}
	c := b.config()
	c.Password = connector.NewSecret("a wrong password")
	if _, err := b.writer(c).Read(t.Context(), []string{"1"}); err == nil ||
		strings.Contains(err.Error(), "a wrong password") {
		t.Errorf("a wrong password: %v", err)
	}
}
