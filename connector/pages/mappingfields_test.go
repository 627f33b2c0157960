package pages_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/pages"
	"payersync/connector/syncer"
	"payersync/mapping"
)

var (
	control = regexp.MustCompile(`<input[^>]*? name="([^"]*)"(?: value="([^"]*)")?|<select[^>]*? name="([^"]*)"[^>]*>(.*?)</select>`)
	choice  = regexp.MustCompile(`<option(?: value="([^"]*)")?( selected)?>([^<]*)</option>`)
)

// sentForm returns what a browser sends of the table's form: its inputs, and of each drop-down the chosen entry, or the
// first one.
func sentForm(page string) url.Values {
	_, form, _ := strings.Cut(page, `id="edit"`)
	form, _, _ = strings.Cut(form, "</form>")
	out := url.Values{}
	for _, c := range control.FindAllStringSubmatch(form, -1) {
		if c[1] != "" {
			out.Add(html.UnescapeString(c[1]), html.UnescapeString(c[2]))
			continue
		}
		var value *string
		for _, o := range choice.FindAllStringSubmatch(c[4], -1) {
			if value == nil || o[2] != "" {
				v := o[1]
				if !strings.Contains(o[0], "value=") {
					v = o[3]
				}
				value = &v
			}
		}
		out.Add(html.UnescapeString(c[3]), html.UnescapeString(*value))
	}
	return out
}

// tries presses a button of the table's form with some of its fields changed; | stands between the values of one.
func (v *visitor) tries(page, do string, changed ...string) (status int, body string) {
	v.t.Helper()
	form := sentForm(page)
	form.Set("do", do)
	for i := 0; i+1 < len(changed); i += 2 {
		form[changed[i]] = strings.Split(changed[i+1], "|")
	}
	return v.send(http.MethodPost, mappingPath, form)
}

// presses is tries with a wanted status.
func (v *visitor) presses(page, do string, want int, changed ...string) string {
	v.t.Helper()
	status, body := v.tries(page, do, changed...)
	if status != want {
		v.t.Fatalf("%s was answered %d, want %d:\n%s", do, status, want, body)
	}
	return body
}

// withoutExamples takes the examples out of the mapping file, so that any rule may change.
func (h *house) withoutExamples() {
	h.t.Helper()
	text, _, _ := strings.Cut(h.text(), "\n# Rows with their expected results")
	h.write(h.mappingFile(), text)
}

// edited returns the text that a page of the table holds.
func edited(page string) string { return sentForm(page).Get("text") }

func TestARuleIsChosenInTheTableAndSavedInTheText(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	was := h.text()
	anna := h.enter("anna", pages.Admin)
	page := anna.get(mappingPath, http.StatusOK)
	holds(t, page, "Number (accountNumber)", "</bdi> · <bdi>HB0", "Contact, otherwise Name", "first e-mail address",
		"Would change none of", `aria-label="Column for Phone"`)

	page = anna.presses(page, "save", http.StatusUnprocessableEntity, "column customer.people[0].phone", "City", "reason",
		"cities") // an example wants the number
	holds(t, page, "A text with mistakes is not saved", `formaction="/mapping/quickstart#line-`,
		`href="#problem">1 mistake`)

	if h.text() != was {
		t.Errorf("a refused save changed the file to\n%s", h.text())
	}

	h.withoutExamples()
	was = h.text()
	page = anna.presses(anna.get(mappingPath, http.StatusOK), "check", http.StatusOK, "column customer.people[0].phone",
		"Second City")
	want := strings.Replace(was, "phone: trim(Phone)\n", "phone: trim(field(\"Second City\"))\n", 1)
	if edited(page) != want || h.text() != was {
		t.Errorf("the text is\n%s", edited(page))
	}
	holds(t, page, `href="#tried">Would change `, "Changed and not saved", `id="tried"`)
	if n := regexp.MustCompile(`>Would change (\d+) of (\d+) customers<`).FindStringSubmatch(page); n == nil ||
		n[1] == "0" {
		t.Errorf("the result of the check is not beside the button:\n%s", page)
	}
	holds(t, anna.presses(page, "save", http.StatusUnprocessableEntity), "Problem: say why you save")
	holds(t, anna.presses(page, "save", http.StatusOK, "reason", "letters"), "Saved as version", "Nothing was sent",
		"letters", "<table class=\"rows mapped\">")
	if h.text() != want || h.saves() != 1 {
		t.Errorf("the file is\n%s", h.text())
	}
}

func TestTheTextTabHasWhatWasChosenInTheTable(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	anna := h.enter("anna", pages.Admin)
	page := anna.presses(anna.get(mappingPath, http.StatusOK), "text", http.StatusOK, "column mandate.to", "Email")
	holds(t, page, "<textarea", "to: lower(firstEmail(Email))", "changed and not saved", "Difference to the file")
	_, text, _ := strings.Cut(page, "spellcheck=\"false\" autocapitalize=\"off\" autocomplete=\"off\">\n")
	text, _, _ = strings.Cut(text, "</textarea>")
	back := anna.post(mappingPath, http.StatusOK, "text", html.UnescapeString(text), "opened", opened(t, page), "do",
		"fields")
	if holds(t, back, "<table class=\"rows mapped\">"); !strings.Contains(edited(back), "to: lower(firstEmail(Email))") {
		t.Errorf("the table lost what was edited:\n%s", edited(back))
	}
}

func TestEachKindOfRuleIsWrittenFromTheForm(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.withoutExamples()
	anna := h.enter("anna", pages.Admin)
	page := anna.presses(anna.get(mappingPath, http.StatusOK), "open customer.people[0].phone", http.StatusOK)
	holds(t, page, `<legend>Phone</legend>`, `<option value="column" selected>`, "<option selected>Phone</option>",
		"phone number with country code")
	for want, form := range map[string][]string{
		"phone: coalesce(trim(Phone), trim(Contact))\n": {"kind", "first", "part", "Phone|Contact||"},
		"phone: phone(coalesce(trim(Phone), Contact))\n": {"kind", "first", "part", "Phone|Contact",
			"form", "phone(…)"},
		"phone: 'join([trim(Phone), trim(field(\"Second City\"))], \": \")'\n": {"kind", "joined", "part",
			"Phone|Second City", "sign", ": "},
		"phone: 'not isBlank(trim(Status)) ? trim(Phone) : \"\"'\n": {"kind", "if", "if", "Status"},
		"phone: 'trim(Status) == \"active\" ? trim(Phone) : \"\"'\n": {"kind", "if", "if", "Status", "equals",
			"active"},
		"phone: '\"none # given\"'\n":               {"kind", "fixed", "fixed", "none # given"},
		"phone: trim(City)\n":                       {"kind", "first", "part", "|City|"},
		"phone: trim(Phone)\n":                      {"kind", "column", "part", "Phone|City"},
		"# The billing service accepts one address": {"kind", ""},
	} {
		body := anna.presses(page, "check", http.StatusOK, form...)
		if text := edited(body); !strings.Contains(text, want) || form[1] == "" && strings.Contains(text, "phone: trim") {
			t.Errorf("%q made\n%s", form, text)
		}
	}
	for what, form := range map[string][]string{
		"a sign that is no text": {"kind", "joined", "part", "Phone|Name), foo(City|City", "sign", "\n"},
		"no column":              {"kind", "column", "part", "|"},
		"no condition":           {"kind", "if", "if", ""},
		"an unknown kind":        {"kind", "hand"},
	} {
		if status, body := anna.tries(page, "check", form...); status != http.StatusUnprocessableEntity ||
			edited(body) != h.text() || !strings.Contains(body, "Problem: the rule for Phone is incomplete") {
			t.Errorf("%s was answered %d and made\n%s", what, status, edited(body))
		}
	}
}

func TestATableThatIsOpenedAndSavedChangesNoByte(t *testing.T) {
	t.Parallel()
	for name, spelled := range map[string]func(string) string{
		"as shipped":                func(s string) string { return s },
		"with line ends of Windows": func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"with both line ends":       func(s string) string { return strings.Replace(s, "\n", "\r\n", 9) },
		"in another spelling": func(s string) string {
			return strings.Replace(s, "coalesce(trim(Contact),", "coalesce( trim( Contact ),", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.run(true)
			h.write(h.mappingFile(), spelled(h.text()))
			was := h.text()
			anna := h.enter("anna", pages.Admin)
			page := anna.get(mappingPath, http.StatusOK)
			fields, err := mapping.CustomerFields([]byte(was))
			if err != nil || len(fields) < 10 {
				t.Fatalf("%d fields: %v", len(fields), err)
			}
			for _, f := range fields {
				form := anna.presses(page, "open "+f.Path, http.StatusOK)
				if f.Rule.Kind == mapping.NoRule {
					continue // it has a proposal
				}
				holds(t, anna.presses(form, "save", http.StatusOK, "reason", "nothing"), "has this text already")
			}
			if h.text() != was || h.saves() != 0 {
				t.Errorf("the file is\n%q", h.text())
			}
		})
	}
}

func TestAnExpressionStaysAsItIsWritten(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	anna := h.enter("anna", pages.Admin)
	page := anna.get(mappingPath, http.StatusOK)
	holds(t, page, "<code><bdi>lower(trim(Status)) == &#34;active&#34;</bdi></code>", "<code><bdi>filter([",
		`formaction="/mapping/quickstart#line-`)
	for _, path := range []string{"customer.addresses", "include", "scope", "mandate.request"} {
		if strings.Contains(page, "column "+path+`"`) {
			t.Errorf("%s can be chosen", path)
		}
		if status, body := anna.tries(page, "check", "column "+path, "Name", "edits", path, "kind", "column", "part",
			"Name"); status != http.StatusOK || edited(body) != h.text() {
			t.Errorf("%s was answered %d, and became\n%s", path, status, edited(body))
		}
	}
}

func TestAFieldWithoutARuleHasAProposal(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.withoutExamples()
	h.write(h.mappingFile(), strings.Replace(h.text(), "      phone: trim(Phone)\n", "", 1))
	anna := h.enter("anna", pages.Admin)
	page := anna.presses(anna.get(mappingPath, http.StatusOK), "open customer.people[0].phone", http.StatusOK)
	holds(t, page, "Proposed: ", `<option value="column" selected>`, "<option selected>Phone</option>")
	page = anna.presses(page, "check", http.StatusOK)
	if text := edited(page); !regexp.MustCompile(`\n      phone: .*Phone.*\n  # The billing`).MatchString(text) {
		t.Errorf("the proposal made\n%s", text)
	}
}

func TestTheTableShowsValuesToThoseWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.books(sampleBooks(t, "4 Harbour Street", "5 Harbour Street")) // so that this payer changed last
	h.run(true)
	h.write(h.mappingFile(), h.text()+"externalData: {bankAccount: trim(Postcode), <b>: trim(City)}\n")
	for role, sees := range map[pages.Role]bool{pages.Viewer: false, pages.Operator: true, pages.Admin: true} {
		page := h.enter("vera the "+string(role), role).get(mappingPath, http.StatusOK)
		_, table, _ := strings.Cut(page, "<tbody>")
		table, _, _ = strings.Cut(table, "</table>")
		for _, value := range []string{"Maureen Tideswell", "accounts@crumbandcrust.example", "01632 960101"} {
			if strings.Contains(table, value) != sees {
				t.Errorf("the %s is shown %s: %t", role, value, !sees)
			}
		}
		holds(t, table, "More (bankAccount)", "<bdi>[not shown]</bdi>", "More (&lt;b&gt;)")
		if strings.Contains(table, "<select") != (role == pages.Admin) {
			t.Errorf("the %s has the wrong controls:\n%s", role, table)
		}
	}
}

func TestTheKeyIsChangedInTheTextAloneAndTheResultWarns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.withoutExamples()
	was := h.text()
	anna := h.enter("anna", pages.Admin)
	page := anna.get(mappingPath, http.StatusOK)
	lacks(t, page, `name="column key.accountNumber"`, `value="open key.accountNumber"`)
	_, page = anna.tries(page, "check", "column key.accountNumber", "Name")
	if got := edited(page); got != was {
		t.Errorf("a form changed the key:\n%s", got)
	}
	changed := strings.Replace(was, "trim(AccountNumber)", "trim(Name)", 1)
	if changed == was {
		t.Fatalf("the mapping has another key:\n%s", was)
	}
	holds(t, anna.presses(anna.get(mappingPath+"/text", http.StatusOK), "check", http.StatusOK, "text", changed),
		"with a new number</a>")
}

func TestTheTableShowsTheNewestRecordsFirst(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.books(append(sampleBooks(t),
		"HB950,Newest Bakery Ltd,Ann,ann@newest.example,,1 Quay,Whitby,YO21 3CK,,,,Active,\n"...))
	h.run(true)
	page := h.enter("anna", pages.Admin).get(mappingPath, http.StatusOK)
	if newest, first := strings.Index(page, "HB950"), strings.Index(page, "HB001"); newest < 0 || first >= 0 &&
		first < newest {
		t.Errorf("the newest record stands at %d, and the first one at %d", newest, first)
	}
}

func TestTheTableOfATextThatIsNoMappingSaysSo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.write(h.mappingFile(), "version: [1\n")
	holds(t, h.enter("anna", pages.Admin).get(mappingPath, http.StatusOK),
		"The fields are shown when the text has no mistakes", "1 mistake")

	h = newHouse(t)
	h.run(true)
	h.write(h.mappingFile(), strings.Replace(h.text(), "phone: trim(Phone)", "phone: trim(Fon)", 1))
	holds(t, h.enter("anna", pages.Admin).get(mappingPath, http.StatusOK),
		`<tr id="field-customer-people-0-phone" class="here">`, "<strong><bdi>unknown field &#34;Fon&#34;",
		"Contact, otherwise Name")
}

func TestATableOfManyColumnsIsASmallPage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(true)
	h.mappings.Source = func(context.Context, string) (syncer.Connection, error) {
		conn := h.conn
		conn.Mapping = nil
		for i := range 60 {
			conn.Info.Fields = append(conn.Info.Fields[:len(conn.Info.Fields):len(conn.Info.Fields)],
				connector.Field{Name: "A column with a long name " + strings.Repeat("I", i%9), Type: connector.TypeText})
		}
		return conn, nil
	}
	anna := h.enter("anna", pages.Admin)
	page := anna.get(mappingPath, http.StatusOK)
	if strings.Contains(page, `name="column `) {
		t.Error("each row has all columns")
	}
	form := anna.presses(page, "open customer.people[0].name", http.StatusOK)
	holds(t, form, "A column with a long name III")
	for _, p := range []string{page, form} {
		if len(p) > nextPage {
			t.Errorf("the page has %d bytes, and no page has more than %d", len(p), nextPage)
		}
	}
}
