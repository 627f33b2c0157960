package xerotest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// query is a list request that was understood.
type query struct {
	page, size       int // page 0: no paging
	archived, buyers bool
	summary          bool
	order            func(a, b *Contact) int
	ids              []string // these alone; none for all
	since            time.Time
}

// list answers a request for contacts.
func (s *Server) list(r *http.Request) answer {
	if !strings.Contains(r.Header.Get("Accept"), "application/json") {
		return text(http.StatusOK, "text/xml", "<Response><Contacts/></Response>")
	}
	q, err := parse(r)
	if err != nil {
		return invalid(err)
	}
	var found []*Contact
	for _, c := range s.contacts {
		if q.matches(c) {
			found = append(found, c)
		}
	}
	if q.order != nil {
		slices.SortStableFunc(found, q.order)
	}
	out := map[string]any{"Id": guid(-7), "Status": "OK", "ProviderName": "payersync",
		"DateTimeUTC": msDate(s.Now(), false)}
	if q.page > 0 {
		count := len(found)
		out["pagination"] = map[string]int{"page": q.page, "pageSize": q.size, "pageCount": (count + q.size - 1) / q.size,
			"itemCount": count}
		begin := min((q.page-1)*q.size, count)
		found = found[begin:min(begin+q.size, count)]
	}
	contacts := make([]any, len(found))
	for i, c := range found {
		contacts[i] = c.wire(q, i%2 == 0)
	}
	out["Contacts"] = contacts
	return ok(out)
}

func (q query) matches(c *Contact) bool {
	switch {
	case c.ContactStatus != "ACTIVE" && !q.archived, q.buyers && !c.IsCustomer, len(q.ids) > 0 &&
		!slices.Contains(q.ids, c.ContactID):
		return false
	}
	return q.since.IsZero() || !c.Updated.Truncate(time.Second).Before(q.since)
}

// sent is a contact as sent, with unrequested members.
type sent struct {
	*Contact
	UpdatedDateUTC                      string
	HasAttachments, HasValidationErrors bool
	TaxNumbeType                        string // Xero's own misspelling
	BankAccountDetails                  string
	Balances                            map[string]map[string]float64
}

// wire is a contact as a request of the kind q gets it.
func (c *Contact) wire(q query, offset bool) any {
	whole := sent{
		Contact: c, UpdatedDateUTC: msDate(c.Updated, offset), BankAccountDetails: "12-34-56 12345678",
		Balances: map[string]map[string]float64{"AccountsReceivable": {"Outstanding": 760, "Overdue": 920}},
	}
	if q.page > 0 && !q.summary && !c.Spoilt {
		return whole
	}
	text, err := json.Marshal(whole)
	if err != nil {
		panic("xerotest: " + err.Error())
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		panic("xerotest: " + err.Error())
	}
	if c.Spoilt {
		out["EmailAddress"] = map[string]string{"address": "private"}
	}
	if q.page == 0 { // members present only with paging
		delete(out, "MergedToContactID")
		delete(out, "ContactPersons")
	}
	if q.summary {
		delete(out, "Addresses")
		delete(out, "Phones")
	}
	return out
}

// msDate is Xero's form of a time, of which it has two.
func msDate(t time.Time, offset bool) string {
	if offset {
		return fmt.Sprintf("/Date(%d+0000)/", t.UnixMilli())
	}
	return fmt.Sprintf("/Date(%d)/", t.UnixMilli())
}

// parse reads a list request, or returns its mistake.
func parse(r *http.Request) (query, error) {
	q := query{size: 100}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, err
	}
	if text := r.Header.Get("If-Modified-Since"); text != "" {
		if q.since, err = time.Parse(time.RFC3339, text); err != nil {
			return q, fmt.Errorf("If-Modified-Since %q is no date-time", text)
		}
		q.since = q.since.Truncate(time.Second)
	}
	for name, value := range values {
		if err := q.set(name, value[0]); err != nil {
			return q, err
		}
	}
	return q, nil
}

func (q *query) set(name, value string) (err error) {
	switch name {
	case "page":
		if q.page, err = strconv.Atoi(value); err == nil && q.page < 1 {
			err = fmt.Errorf("page %d is none", q.page)
		}
	case "pageSize":
		if q.size, err = strconv.Atoi(value); err == nil && (q.size < 1 || q.size > 1000) {
			err = fmt.Errorf("pageSize %d is out of range", q.size)
		}
	case "includeArchived":
		q.archived, err = strconv.ParseBool(value)
	case "IDs":
		q.ids = strings.Split(value, ",")
	case "summaryOnly":
		q.summary, err = strconv.ParseBool(value)
	case "where":
		if q.buyers = value == "IsCustomer==true"; !q.buyers {
			err = fmt.Errorf("the model does not know where=%s", value)
		}
	case "order":
		q.order, err = ordering(value)
	default:
		err = fmt.Errorf("the model does not know the parameter %s", name)
	}
	return err
}

func ordering(value string) (func(a, b *Contact) int, error) {
	switch value {
	case "ContactID ASC":
		return func(a, b *Contact) int { return cmp.Compare(a.ContactID, b.ContactID) }, nil
	case "UpdatedDateUTC ASC":
		return func(a, b *Contact) int { return a.Updated.Compare(b.Updated) }, nil
	}
	return nil, fmt.Errorf("the model does not know the order %s", value)
}

func invalid(err error) answer {
	return text(http.StatusBadRequest, "application/json",
		fmt.Sprintf(`{"ErrorNumber":16,"Type":"QueryParseException","Message":%q}`, err.Error()))
}
