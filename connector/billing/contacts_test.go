package billing_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"payersync/connector"
)

// known is a contact whose id in the service a read has shown.
func known(id, name, email, phone string) connector.Person {
	return connector.Person{ID: id, Name: name, Email: email, Phone: phone}
}

// covers F250
func TestAContactOfOursThatSomebodyEditedStaysOneContact(t *testing.T) {
	t.Parallel()
	ann, bob := person("Ann Lee", "ann@x.example", "1"), person("Bob Ray", "bob@x.example", "2")
	const (
		typo   = `{"name":"Ann Lee","email":"corrected@x.example","phone":"1"}`
		ours   = `{"name":"Ann Lee","email":"ann@x.example","phone":"1"}`
		zoe    = `{"name":"Zoe Fox","email":"zoe@x.example","phone":"9"}`
		theAnn = `{"name":"Ann Lee","email":"other@x.example","phone":"9"}`
	)
	tests := []struct {
		name    string
		fetched []string
		last    []connector.Person
		want    []connector.Person
		after   []string // nil where nothing changes
	}{
		{"the address was edited", []string{typo}, []connector.Person{ann}, []connector.Person{ann}, []string{ours}},
		{"the address was edited, and the books change the phone",
			[]string{typo}, []connector.Person{ann}, []connector.Person{person("Ann Lee", "ann@x.example", "5")},
			[]string{`{"name":"Ann Lee","email":"ann@x.example","phone":"5"}`}},
		{"the address was edited, and the books change the name",
			[]string{typo}, []connector.Person{ann}, []connector.Person{person("Ann Ray", "ann@x.example", "1")},
			[]string{`{"name":"Ann Ray","email":"ann@x.example","phone":"1"}`}},
		{"the address was edited, and the books change it as well",
			[]string{typo}, []connector.Person{ann}, []connector.Person{person("Ann Lee", "lee@x.example", "1")},
			[]string{`{"name":"Ann Lee","email":"lee@x.example","phone":"1"}`}},
		{"an address was added that the books lack",
			[]string{typo}, []connector.Person{person("Ann Lee", "", "1")}, []connector.Person{person("Ann Lee", "", "1")}, nil},
		{"an address was added that the books lack, and the books change the phone",
			[]string{`{"name":"Ann Lee","email":"corrected@x.example","phone":"1","vip":true}`},
			[]connector.Person{person("Ann Lee", "", "1")}, []connector.Person{person("Ann Lee", "", "5")},
			[]string{`{"name":"Ann Lee","email":"corrected@x.example","phone":"5","vip":true}`}},
		{"an address was added that the books lacked, and the books have one now",
			[]string{typo}, []connector.Person{person("Ann Lee", "", "1")}, []connector.Person{ann}, []string{ours}},
		{"name and address were edited, and the phone tells",
			[]string{`{"name":"A. Lee","email":"corrected@x.example","phone":"1"}`}, []connector.Person{ann},
			[]connector.Person{ann}, []string{ours}},
		{"phone and address were edited, and the name tells",
			[]string{`{"name":"Ann Lee","email":"corrected@x.example","phone":"7"}`}, []connector.Person{ann},
			[]connector.Person{ann}, []string{ours}},
		{"the address was edited and the contact moved", []string{zoe, typo}, []connector.Person{ann},
			[]connector.Person{ann}, []string{zoe, ours}},
		{"a moved contact without a phone is known by its name",
			[]string{zoe, `{"name":"Ann Lee","email":"corrected@x.example"}`},
			[]connector.Person{person("Ann Lee", "ann@x.example", "")},
			[]connector.Person{person("Ann Lee", "ann@x.example", "")},
			[]string{zoe, `{"name":"Ann Lee","email":"ann@x.example"}`}},
		{"everything was edited and moved, and the service's id tells",
			[]string{zoe, `{"id":"p7","name":"A. L.","email":"corrected@x.example","phone":"7"}`},
			[]connector.Person{known("p7", "Ann Lee", "ann@x.example", "1")}, []connector.Person{ann},
			[]string{zoe, `{"id":"p7","name":"Ann Lee","email":"ann@x.example","phone":"1"}`}},
		{"a contact of another id in the old place is not ours",
			[]string{`{"id":"p8","name":"Zoe Fox","email":"zoe@x.example"}`,
				`{"id":"p7","name":"Ann Lee","email":"corrected@x.example","phone":"1"}`},
			[]connector.Person{known("p7", "Ann Lee", "ann@x.example", "1")}, []connector.Person{ann},
			[]string{`{"id":"p8","name":"Zoe Fox","email":"zoe@x.example"}`,
				`{"id":"p7","name":"Ann Lee","email":"ann@x.example","phone":"1"}`}},
		{"a colleague's contact of the same name beside it stays",
			[]string{theAnn, typo}, []connector.Person{ann}, []connector.Person{ann}, []string{theAnn, ours}},
		{"a colleague's contact of the same name and phone behind it stays",
			[]string{typo, `{"name":"Ann Lee","email":"other@x.example","phone":"1"}`}, []connector.Person{ann},
			[]connector.Person{ann},
			[]string{ours, `{"name":"Ann Lee","email":"other@x.example","phone":"1"}`}},
		{"ours as it was, and a colleague's of the same name",
			[]string{theAnn, ours}, []connector.Person{ann}, []connector.Person{ann}, nil},
		{"a colleague took ours away, and nobody else is taken for it",
			[]string{zoe}, []connector.Person{ann}, []connector.Person{ann}, []string{zoe, ours}},
		{"two of ours, both edited",
			[]string{typo, `{"name":"Bob Ray","email":"b@x.example","phone":"2"}`}, []connector.Person{ann, bob},
			[]connector.Person{ann, bob},
			[]string{ours, `{"name":"Bob Ray","email":"bob@x.example","phone":"2"}`}},
		{"two of ours, both edited and in each other's place",
			[]string{`{"name":"Bob Ray","email":"b@x.example","phone":"2"}`, typo}, []connector.Person{ann, bob},
			[]connector.Person{ann, bob},
			[]string{`{"name":"Bob Ray","email":"bob@x.example","phone":"2"}`, ours}},
		{"two of ours, the first taken away",
			[]string{`{"name":"Bob Ray","email":"b@x.example","phone":"2"}`}, []connector.Person{ann, bob},
			[]connector.Person{bob},
			[]string{`{"name":"Bob Ray","email":"bob@x.example","phone":"2"}`}},
		{"the books put a contact before ours and change its address",
			[]string{`{"name":"Ann Lee","email":"ann@x.example","phone":"1","vip":true}`}, []connector.Person{ann},
			[]connector.Person{bob, person("Ann Lee", "lee@x.example", "1")},
			[]string{`{"name":"Ann Lee","email":"lee@x.example","phone":"1","vip":true}`,
				`{"name":"Bob Ray","email":"bob@x.example","phone":"2"}`}},
		{"ours is wanted no more, and was edited", []string{typo}, []connector.Person{ann}, nil, nil},
		{"ours becomes another person", []string{typo}, []connector.Person{ann}, []connector.Person{bob},
			[]string{`{"name":"Bob Ray","email":"bob@x.example","phone":"2"}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := offline(t, nil)
			fetched := connector.RemoteCustomer{ID: "c1",
				Raw: json.RawMessage(`{"id":"c1","name":"A","people":[` + strings.Join(tt.fetched, ",") + `]}`)}
			last, want := connector.Customer{Name: "A", People: tt.last}, connector.Customer{Name: "A", People: tt.want}
			body, changed, err := client.MergeCustomer(fetched, &last, want, everything)
			if err != nil {
				t.Fatal(err)
			}
			if tt.after == nil {
				if changed {
					t.Errorf("it changed to %s", body)
				}
				return
			}
			if diff := cmp.Diff(`{"id":"c1","name":"A","people":[`+strings.Join(tt.after, ",")+`]}`, string(body)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if paths, err := client.ForeignChanges(fetched.Raw, body, &last, want, everything); err != nil || len(paths) > 0 {
				t.Errorf("our own update is called foreign: %q, %v", paths, err)
			}
		})
	}
}

// covers F250
func TestThePlanAndDriftFindTheSameContact(t *testing.T) {
	t.Parallel()
	client := offline(t, nil)
	ann := person("Ann Lee", "ann@x.example", "1")
	for name, people := range map[string]string{
		"in place": `{"name":"Ann Lee","email":"corrected@x.example","phone":"1"}`,
		"moved":    `{"name":"Zoe","email":"zoe@x.example"},{"name":"Ann Lee","email":"corrected@x.example","phone":"1"}`,
		"renamed":  `{"name":"A. L.","email":"corrected@x.example","phone":"1"}`,
	} {
		fetched := connector.RemoteCustomer{ID: "c1",
			Raw: json.RawMessage(`{"id":"c1","name":"A","people":[` + people + `]}`)}
		ours := connector.Customer{Name: "A", People: []connector.Person{ann}}
		drift, err := client.Drift(fetched, &ours, ours, everything)
		if err != nil {
			t.Fatal(err)
		}
		diff, err := client.MergeDiff(fetched, &ours, ours, everything)
		if err != nil {
			t.Fatal(err)
		}
		values := func(list []connector.FieldChange) (out []string) {
			for _, d := range list {
				_, field, _ := strings.Cut(d.Path, ".")
				out = append(out, fmt.Sprintf("%s: %s -> %s", field, d.From, d.To))
			}
			slices.Sort(out)
			return out
		}
		if cmp.Diff(values(drift), values(diff)) != "" || len(drift) == 0 {
			t.Errorf("%s: drift shows %q, the plan %q", name, values(drift), values(diff))
		}
	}
}

// edits is a customer whose contacts of ours somebody has edited, with contacts of
// colleagues between them.
type edits struct {
	list   []string // as the service has it
	theirs []string
	last   []connector.Person
	want   []connector.Person
}

func drawEdits(t *rapid.T) edits {
	var e edits
	element := func(mark string, p connector.Person) string {
		return fmt.Sprintf(`{"mark":%q,"name":%q,"email":%q,"phone":%q}`, mark, p.Name, p.Email, p.Phone)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "ours") {
		p := person([]string{"Ann Lee", "Bob Ray", "Cy Orr"}[i], fmt.Sprintf("o%d@ours.example", i),
			rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "phone"))
		e.last = append(e.last, p)
		w := p
		switch rapid.SampledFrom([]string{"keep", "phone", "drop", "address"}).Draw(t, "books") {
		case "phone":
			w.Phone = "5"
		case "address":
			w.Email = "new" + w.Email
		case "drop":
			w = connector.Person{}
		}
		if w != (connector.Person{}) {
			e.want = append(e.want, w)
		}
		switch rapid.SampledFrom([]string{"keep", "address", "address", "phone", "remove"}).Draw(t, "service") {
		case "address":
			p.Email = fmt.Sprintf("edited%d@ours.example", i)
		case "phone":
			p.Phone = "7"
		case "remove":
			continue
		}
		e.list = append(e.list, element(fmt.Sprintf("ours%d", i), p))
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "theirs") {
		theirs := element(fmt.Sprintf("theirs%d", i),
			person([]string{"Di Poe", "Eve Ash"}[i], fmt.Sprintf("t%d@theirs.example", i), "9"))
		e.theirs = append(e.theirs, theirs)
		e.list = append(e.list, theirs)
	}
	e.list = rapid.Permutation(e.list).Draw(t, "order")
	return e
}

// covers F250, S5
func TestMergingAddsNoSecondContactForOneOfOursAndTakesNoneOfAColleague(t *testing.T) {
	t.Parallel()
	client := offline(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		e := drawEdits(t)
		fetched := connector.RemoteCustomer{ID: "c1",
			Raw: json.RawMessage(`{"id":"c1","name":"A","people":[` + strings.Join(e.list, ",") + `]}`)}
		last, want := connector.Customer{Name: "A", People: e.last}, connector.Customer{Name: "A", People: e.want}
		body, changed, err := client.MergeCustomer(fetched, &last, want, everything)
		if err != nil {
			t.Fatal(err)
		}
		if !changed {
			body = fetched.Raw
		}
		var got struct{ People []struct{ Mark, Name string } }
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		named := map[string]int{}
		for _, p := range got.People {
			named[p.Name]++
		}
		for name, n := range named {
			if n > 1 {
				t.Errorf("%d contacts stand for %s\nbefore %s\nafter  %s", n, name, fetched.Raw, body)
			}
		}
		for _, theirs := range e.theirs {
			if !strings.Contains(string(body), theirs) {
				t.Errorf("a colleague's contact is lost or changed: %s\nin %s", theirs, body)
			}
		}
		if again, changed, err := client.MergeCustomer(connector.RemoteCustomer{ID: "c1", Raw: body}, &want, want,
			everything); err != nil || changed {
			t.Errorf("merged after it was applied it differs: %v\nonce  %s\ntwice %s", err, body, again)
		}
	})
}
