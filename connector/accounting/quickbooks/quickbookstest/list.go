package quickbookstest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// pacific is the offset in which the company's times are written.
var pacific = time.FixedZone("", -8*60*60)

// statement is the form of a query that the model understands. The real language
// has more; all that it lacks (OR, a choice of columns) is missing here too.
var statement = regexp.MustCompile(`^SELECT (\*|COUNT\(\*\)) FROM Customer` +
	`(?: WHERE (?:(Active IN \(true,false\))(?: AND )?)?(?:MetaData\.LastUpdatedTime >= '([^']+)')?)?` +
	`(?: ORDERBY (Id|MetaData\.LastUpdatedTime))?(?: STARTPOSITION (\d+))?(?: MAXRESULTS (\d+))?$`)

// query answers a query.
func (s *Server) query(text string) answer {
	m := statement.FindStringSubmatch(text)
	if m == nil {
		return fault("4000", "ValidationFault", http.StatusBadRequest) // error parsing query
	}
	var since time.Time
	if m[3] != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, m[3]); err != nil {
			return fault("4001", "ValidationFault", http.StatusBadRequest) // invalid query value
		}
	}
	start, most := number(m[5], 1), number(m[6], 100)
	if start < 1 || most < 1 || most > 1000 {
		return fault("4001", "ValidationFault", http.StatusBadRequest)
	}
	found := s.matching(m[2] != "", since)
	if m[4] == "MetaData.LastUpdatedTime" {
		slices.SortStableFunc(found, func(a, b *StoredCustomer) int { return a.Updated.Compare(b.Updated) })
	}
	if m[1] != "*" {
		return ok(map[string]any{"QueryResponse": map[string]any{"totalCount": len(found)}})
	}
	begin := min(start-1, len(found))
	found = found[begin:min(begin+most, len(found))]
	response := map[string]any{}
	if len(found) > 0 { // the list's key is missing when there is nothing
		response = map[string]any{"Customer": rows(found), "startPosition": start, "maxResults": len(found)}
	}
	return ok(map[string]any{"QueryResponse": response})
}

func number(text string, otherwise int) int {
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// matching returns the customers of a query, ordered by id.
func (s *Server) matching(inactive bool, since time.Time) []*StoredCustomer {
	var out []*StoredCustomer
	for _, c := range s.customers {
		if (c.Active || inactive) && !c.Updated.Truncate(time.Second).Before(since.Truncate(time.Second)) {
			out = append(out, c)
		}
	}
	return out
}

func rows(customers []*StoredCustomer) []map[string]any {
	out := make([]map[string]any, len(customers))
	for i, c := range customers {
		out[i] = c.wire(false)
	}
	return out
}

// wire is a customer as sent, with unrequested members.
func (c *StoredCustomer) wire(alone bool) map[string]any {
	text, err := json.Marshal(c)
	if err != nil {
		panic("quickbookstest: " + err.Error())
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		panic("quickbookstest: " + err.Error())
	}
	times := map[string]string{"CreateTime": stamp(c.Created), "LastUpdatedTime": stamp(c.Updated)}
	if c.Sparse && !alone {
		return map[string]any{"domain": "QBO", "sparse": true, "Id": c.ID, "MetaData": times, "DisplayName": c.DisplayName,
			"Active": c.Active}
	}
	if c.Spoilt {
		out["PrimaryEmailAddr"] = c.PrimaryEmailAddr.Address
	}
	out["MetaData"], out["domain"], out["sparse"] = times, "QBO", false
	out["BalanceWithJobs"], out["Taxable"], out["DefaultTaxCodeRef"] = 0, false, map[string]string{"value": "2"}
	return out
}

func stamp(t time.Time) string { return t.In(pacific).Truncate(time.Second).Format(time.RFC3339) }

// CreateTime returns a customer's MetaData.CreateTime as it is sent.
func (c StoredCustomer) CreateTime() string { return stamp(c.Created) }

// one answers a read by id.
func (s *Server) one(id string) answer {
	c, found := s.byID[id]
	if !found {
		return fault("610", "ValidationFault", http.StatusBadRequest) // object not found
	}
	return ok(map[string]any{"Customer": c.wire(true)})
}

// capture answers change data capture: at most 1000 objects and no pages.
func (s *Server) capture(q url.Values) answer {
	since, err := time.Parse(time.RFC3339, q.Get("changedSince"))
	if err != nil || q.Get("entities") != "Customer" || s.Now().Sub(since) > 30*24*time.Hour {
		return fault("4001", "ValidationFault", http.StatusBadRequest)
	}
	changed := rows(s.matching(true, since))
	for id, at := range s.merged {
		if !at.Before(since) {
			changed = append(changed, tombstone(id, at))
		}
	}
	for _, id := range s.falsely {
		changed = slices.DeleteFunc(changed, func(row map[string]any) bool { return row["Id"] == id })
		changed = append(changed, tombstone(id, s.Now()))
	}
	slices.SortFunc(changed, func(a,
		b map[string]any) int {
		return cmp.Compare(fmt.Sprint(a["Id"]), fmt.Sprint(b["Id"]))
	})
	changed = changed[:min(len(changed), 1000)]
	response := map[string]any{}
	if len(changed) > 0 {
		response = map[string]any{"Customer": changed, "startPosition": 1, "maxResults": len(changed),
			"totalCount": len(changed)}
	}
	return ok(map[string]any{"CDCResponse": []any{map[string]any{"QueryResponse": []any{response}}}})
}

func tombstone(id string, at time.Time) map[string]any {
	return map[string]any{"domain": "QBO", "status": "Deleted", "Id": id,
		"MetaData": map[string]string{"LastUpdatedTime": stamp(at)}}
}
