package billing_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payersync/connector"
	"payersync/connector/billing"
)

// scene is a customer as the service holds it, what we wrote before and what we
// want now. Foreign people have addresses of their own; names are drawn from one
// small pool, so that ours and theirs share them.
type scene struct {
	raw     string
	theirs  []string // their people, byte for byte
	last    *connector.Customer
	want    connector.Customer
	own     []string
	dialect billing.Dialect
}

var (
	poolNames  = []string{"Ann Lee", "Bob", "Ann Mary Lee", ""}
	poolValues = []string{
		`12345678901234567890`, `1.0`, `-0`, `1e5`, `null`, `true`, `""`, `"a \u0041 & <b> \"q\" \\"`, `[]`, `{}`,
		`[1,{"x":[null]}]`,
		`{ "b" : 1.50, "a":{"b":"\u20ac€"} }`, `"{[,:\""`,
	}
	poolKeys = []string{"taxNumber", "notes", "Names", "peoples", "x y", "ü", `k\u0065y`}
)

func drawScene(t *rapid.T) scene {
	s := scene{dialect: billing.Standard()}
	s.dialect.PersonFields = rapid.SampledFrom([]string{"short", "long"}).Draw(t, "person_fields")
	s.dialect.AddressFields = rapid.SampledFrom([]string{"short", "long"}).Draw(t, "address_fields")
	s.dialect.ExternalData = rapid.SampledFrom([]string{"map", "list", "object"}).Draw(t, "external_data")
	s.dialect.Update = rapid.SampledFrom([]string{"body_id", "path_id"}).Draw(t, "update")
	s.own = rapid.SampledFrom([][]string{everything, {"name"}, {"people"}, {"addresses", "people"}, {}}).Draw(t, "own")
	last := drawCustomer(t, "old")
	s.want = drawNext(t, last)
	written := rapid.Bool().Draw(t, "written")
	if written {
		s.last = &last
	}
	members := []string{member("id", `"c1"`), member("name", quoted(last.Name))}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(poolKeys), 0, 4, rapid.ID[string]).Draw(t, "keys") {
		members = append(members, `"`+key+`"`+space(t)+`:`+space(t)+rapid.SampledFrom(poolValues).Draw(t, "value"))
	}
	members = append(members, member("people", s.drawPeople(t, last, written)),
		member("addresses", drawAddresses(t, last, written)),
		member("externalData", drawPairs(t, last, written)))
	s.raw = "{" + strings.Join(rapid.Permutation(members).Draw(t, "order"), space(t)+",") + "}"
	return s
}

func drawCustomer(t *rapid.T, tag string) connector.Customer {
	c := connector.Customer{Name: "Name " + tag, ExternalData: map[string]string{"k": "1"}}
	for i := range rapid.IntRange(0, 3).Draw(t, "people") {
		c.People = append(c.People, connector.Person{
			Name:  rapid.SampledFrom(poolNames).Draw(t, "name"),
			Email: fmt.Sprintf("%s%d@ours.example", tag, i),
			Phone: rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "phone"),
		})
	}
	if rapid.Bool().Draw(t, "address") {
		c.Addresses = []connector.Address{{Line1: "Line " + tag,
			City: rapid.SampledFrom([]string{"", "Leeds"}).Draw(t, "city"), PostCode: "LS" + tag}}
	}
	return c
}

// drawNext changes what we wrote before into what we want now.
func drawNext(t *rapid.T, last connector.Customer) connector.Customer {
	next := drawCustomer(t, "new")
	for _, p := range last.People {
		switch rapid.SampledFrom([]string{"keep", "phone", "address", "drop"}).Draw(t, "fate") {
		case "drop":
			continue
		case "phone":
			p.Phone = rapid.SampledFrom([]string{"", "3"}).Draw(t, "phone")
		case "address":
			p.Email = "moved-" + p.Email
		}
		next.People = append(next.People, p)
	}
	return next
}

func (s *scene) drawPeople(t *rapid.T, last connector.Customer, written bool) string {
	var list []string
	if written {
		for _, p := range last.People {
			list = append(list, drawElement(t, p.Name, p.Email, p.Phone))
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "theirs") {
		theirs := drawElement(t, rapid.SampledFrom(poolNames).Draw(t, "name"), fmt.Sprintf("t%d@theirs.example", i), "9")
		s.theirs = append(s.theirs, theirs)
		list = append(list, theirs)
	}
	if len(list) == 0 {
		return rapid.SampledFrom([]string{"null", "[]"}).Draw(t, "nobody")
	}
	list = rapid.Permutation(list).Draw(t, "order")
	s.theirs = slices.DeleteFunc(slices.Clone(list), func(e string) bool { return !slices.Contains(s.theirs, e) })
	return "[" + strings.Join(list, ", ") + "]"
}

func drawElement(t *rapid.T, name, email, phone string) string {
	members := []string{member("email", quoted(email)), `"extra` + email[:2] + `":` +
		rapid.SampledFrom(poolValues).Draw(t, "extra")}
	if rapid.Bool().Draw(t, "long") {
		first, last := name, ""
		if cut := strings.LastIndexByte(name, ' '); cut > 0 {
			first, last = name[:cut], name[cut+1:]
		}
		members = append(members, member("firstName", quoted(first)), member("lastName", quoted(last)),
			member("phoneNo", quoted(phone)))
	} else {
		members = append(members, member("name", quoted(name)), member("phone", quoted(phone)))
	}
	return "{" + strings.Join(rapid.Permutation(members).Draw(t, "order"), space(t)+","+space(t)) + "}"
}

func drawAddresses(t *rapid.T, last connector.Customer, written bool) string {
	if !written || len(last.Addresses) == 0 {
		return rapid.SampledFrom([]string{"null", "[]", `[{"id":"a1","addressLine1":"Their St","region":{"x":1.0}}]`}).Draw(t,
			"address")
	}
	return fmt.Sprintf(`[{"id":"a1","line1":%q,"postCode":%q,"region":{"x":1.0}}]`, last.Addresses[0].Line1,
		last.Addresses[0].PostCode)
}

func drawPairs(t *rapid.T, last connector.Customer, written bool) string {
	if !written {
		return rapid.SampledFrom([]string{"null", "{}", "[]", `{"theirs":"x"}`,
			`[{"key":"theirs","value":"x","n":1.0}]`}).Draw(t, "pairs")
	}
	return rapid.SampledFrom([]string{
		`{"theirs":"x","k":"1","n":{"y":1.0}}`, `[{"key":"theirs","value":"x"},{"key":"k","value":"1","n":1.0}]`,
		`[{"connectorType":"QuickBooks","id":"x","name":"T"},{"connectorType":"k","id":"1"}]`,
		`{"connectorType":"k","id":"1","name":"Acme"}`,
	}).Draw(t, "pairs")
}

func member(key, value string) string { return quoted(key) + ":" + value }

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

func space(t *rapid.T) string { return rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space") }

// flat returns an object's members in order, values byte for byte.
func flat(t *rapid.T, raw []byte) (keys []string, values map[string]string) {
	values = map[string]string{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		keys = append(keys, key.(string))
		values[key.(string)] = string(value)
	}
	return keys, values
}

// covers F55, S5, G7
func TestMergeLosesNothingForeign(t *testing.T) {
	t.Parallel()
	client := map[string]*billing.Client{}
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScene(rt)
		name := fmt.Sprint(s.dialect)
		if client[name] == nil {
			client[name] = offline(t, func(d *billing.Dialect) { *d = s.dialect })
		}
		s.check(rt, client[name])
	})
}

func (s scene) check(t *rapid.T, client *billing.Client) {
	fetched := connector.RemoteCustomer{ID: "c1", Raw: json.RawMessage(s.raw)}
	body, changed, err := client.MergeCustomer(fetched, s.last, s.want, s.own)
	if err != nil {
		t.Fatalf("merge: %v", err)
	}
	if !changed {
		return
	}
	s.checkMembers(t, body)
	_, after := flat(t, body)
	for _, theirs := range s.theirs {
		if !strings.Contains(after["people"], theirs) {
			t.Errorf("their contact is lost or changed: %s\nin %s", theirs, after["people"])
		}
	}
	for _, mark := range []string{"theirs", "Acme", "QuickBooks", `"n":`, "region", `"a1"`, `{"x":1.0}`} {
		if n, left := strings.Count(s.raw, mark), strings.Count(string(body), mark); left < n && !s.dropsAddress(mark) {
			t.Errorf("%s was there %d times and is there %d times\nbefore %s\nafter  %s", mark, n, left, s.raw, body)
		}
	}
	if again, changed, err := client.MergeCustomer(connector.RemoteCustomer{ID: "c1", Raw: body}, s.last, s.want,
		s.own); changed || err != nil {
		t.Errorf("merged again it differs: %v\nonce  %s\ntwice %s", err, body, again)
	}
	if again, changed, err := client.MergeCustomer(connector.RemoteCustomer{ID: "c1", Raw: body}, &s.want, s.want,
		s.own); changed || err != nil {
		t.Errorf("merged after it was applied it differs: %v\nonce  %s\ntwice %s", err, body, again)
	}
	restored := body
	if s.dialect.Update == "path_id" {
		restored = append([]byte(`{"id":"c1",`), body[1:]...)
	}
	if paths, err := client.ForeignChanges(fetched.Raw, restored, s.last, s.want, s.own); err != nil || len(paths) > 0 {
		t.Errorf("our own update is called foreign: %q, %v\nbefore %s\nafter  %s", paths, err, s.raw, restored)
	}
}

// dropsAddress reports whether the mark went with an address of ours that is no
// longer wanted.
func (s scene) dropsAddress(mark string) bool {
	ours := s.last != nil && len(s.last.Addresses) > 0 && len(s.want.Addresses) == 0 && slices.Contains(s.own, "addresses")
	return ours && slices.Contains([]string{"region", `"a1"`, `{"x":1.0}`}, mark)
}

// checkMembers compares every top-level member that is not ours, and the order
// of all.
func (s scene) checkMembers(t *rapid.T, body json.RawMessage) {
	keys, before := flat(t, []byte(s.raw))
	keysAfter, after := flat(t, body)
	if s.dialect.Update == "path_id" {
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == "id" })
	}
	if !slices.Equal(keys, keysAfter) {
		t.Errorf("members %q became %q", keys, keysAfter)
	}
	for _, key := range keys {
		if key == "externalData" || slices.Contains(s.own, key) {
			continue
		}
		if before[key] != after[key] {
			t.Errorf("member %s changed from %s to %s", key, before[key], after[key])
		}
	}
}
