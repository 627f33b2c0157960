package sandbox

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"payersync/connector"
)

func TestAListMayLackCustomersAndReadsStillFindThem(t *testing.T) {
	t.Parallel()
	w := crowded(t, 20, Switches{})
	whole := w.names("?Size=100")
	w.SetView(View{Missing: 0.5})
	short := w.names("?Size=100")
	if n := len(strings.Fields(short)); n == 0 || n == 20 {
		t.Fatalf("a list that lacks half shows %d of 20 customers", n)
	}
	if again := w.names("?Size=100"); again != short {
		t.Errorf("two readings of one view differ: %s, then %s", short, again)
	}
	w.create(`{"name":"C20"}`)
	if longer := w.names("?Size=100"); longer != short && longer != short+" C20" {
		t.Errorf("a customer more changes who is left out: %s, then %s", short, longer)
	}
	w.SetView(View{Missing: 0.5})
	if other := w.names("?Size=100"); other == short {
		t.Error("another view leaves out the same customers")
	}
	w.SetView(View{Missing: 1})
	if got := w.names("?Size=100") + w.names("?searchText=C1"); got != "" {
		t.Errorf("an empty list and its search show %s", got)
	}
	for _, c := range w.Customers() {
		w.want(200, "GET", "/api/customers/"+c.ID, "")
	}
	w.SetView(View{})
	if got := w.names("?Size=100"); got != whole+" C20" {
		t.Errorf("the truth is shown as %s", got)
	}
}

func TestAListMayLackWholePages(t *testing.T) {
	t.Parallel()
	w := crowded(t, 12, Switches{})
	w.SetView(View{LostPages: 0.5})
	var shown []string
	for _, page := range []string{"0", "1", "2", "3"} {
		shown = append(shown, strings.Fields(w.names("?Size=3&Page="+page))...)
	}
	if n := len(shown); n == 0 || n == 12 || n%3 != 0 {
		t.Fatalf("pages of three are lost, and the list shows %v", shown)
	}
	for i, name := range shown {
		if first := shown[i-i%3]; name[:1] != "C" || first == name && i%3 != 0 {
			t.Errorf("the list shows %v", shown)
		}
	}
	if all := at(t, w.want(200, "GET", "/api/customers?Size=100", "").body); all != "[]" &&
		len(strings.Fields(w.names("?Size=100"))) != 12 {
		t.Error("one page that holds all is neither there nor lost")
	}
}

func TestAListMayShowNoKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	id := w.create(`{"name":"A","externalData":{"k":"1"}}`)
	w.SetView(View{NoKeys: true})
	for _, path := range []string{"/api/customers", "/api/customers?searchText=A"} {
		if got := w.want(200, "GET", path, "").body; strings.Contains(got, "externalData") || !strings.Contains(got, id) {
			t.Errorf("%s shows %s", path, got)
		}
	}
	if got := w.want(200, "GET", "/api/customers/"+id, "").body; !strings.Contains(got, `"externalData":{"k":"1"}`) {
		t.Errorf("a read shows %s", got)
	}
}

func TestReadersMayLagBehindWriters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	old := w.create(`{"name":"old"}`)
	gone := w.create(`{"name":"gone"}`)
	w.SetView(View{ListLag: time.Hour, ReadLag: time.Minute})
	if got := w.names(""); got != "old gone" {
		t.Errorf("what was there before the lag shows as %q", got)
	}
	young := w.create(`{"name":"young"}`)
	must(t, w.Edit(old, json.RawMessage(`{"name":"new"}`)))
	must(t, w.Delete(gone))
	mandate := w.openLink(young)
	expect := func(list string, youngStatus, goneStatus int, oldName string) {
		t.Helper()
		if got := w.names(""); got != list {
			t.Errorf("lists show %q, want %q", got, list)
		}
		w.want(youngStatus, "GET", "/api/customers/"+young, "")
		w.want(goneStatus, "GET", "/api/customers/"+gone, "")
		if got := text(t, w.want(200, "GET", "/api/customers/"+old, "").body, "name"); got != oldName {
			t.Errorf("a read shows the name %q, want %q", got, oldName)
		}
	}
	expect("old gone", 404, 200, "old")
	w.wait(time.Minute)
	expect("old gone", 200, 404, "new")
	must(t, w.Sign(mandate))
	if got := w.want(200, "GET", "/api/customers/"+young, "").body; !strings.Contains(got,
		string(connector.MandateCreated)) {
		t.Errorf("a mandate that moved just now shows as %s", got)
	}
	w.SetView(View{ListLag: 2 * time.Hour}) // what has reached readers stays, and what has not reaches them now
	expect("new young", 200, 404, "new")
	if got := w.want(200, "GET", "/api/customers/"+young, "").body; !strings.Contains(got,
		string(connector.MandatePending)) {
		t.Errorf("without a lag the mandate shows as %s", got)
	}
	must(t, w.Delete(young))
	expectLater := []string{"new young", "new"}
	for _, want := range expectLater {
		if got := w.names(""); got != want {
			t.Errorf("lists show %q, want %q", got, want)
		}
		w.wait(2 * time.Hour)
	}
}

func TestAViewIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	got, err := ParseView("missing=0.25, lostPages=1,noKeys,listLag=90m,readLag=2s")
	if want := (View{0.25, 1, true, 90 * time.Minute, 2 * time.Second}); err != nil || got != want {
		t.Errorf("the view is %+v, %v, want %+v", got, err, want)
	}
	for _, wrong := range []string{"", "missing", "missing=2", "missing=NaN", "lostPages=all", "readLag=-1s",
		"listLag=an hour"} {
		if got, err := ParseView(wrong); err == nil {
			t.Errorf("%q is taken as %+v", wrong, got)
		}
	}
}
