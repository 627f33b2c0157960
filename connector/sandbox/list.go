package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// listCustomers is GET /customers.
func (s *Sandbox) listCustomers(c *call, r *http.Request) {
	q := r.URL.Query()
	window, err := s.opt.Switches.List.window(q)
	if err != nil {
		c.refuse(http.StatusBadRequest, "BAD_PAGE", "The page or its size is not a number in range.")
		return
	}
	order := s.opt.Switches.List.order(q)
	found := s.pagesShown(s.sorted(s.matching(s.listable(), q), order), window.size)
	from := min(window.offset, len(found))
	page := found[from:min(from+window.size, len(found))]
	elements := make([][]byte, len(page))
	for i, shown := range page {
		elements[i] = s.listed(shown)
	}
	customers := slices.Concat([]byte("["), bytes.Join(elements, []byte(",")), []byte("]"))
	c.reply(http.StatusOK, s.enveloped(customers, pageInfo{
		Page: window.index, Size: window.size, TotalPages: (len(found) + window.size - 1) / window.size,
		TotalElements: len(found), NumberOfElements: len(page), Sort: order,
	}))
}

// window is the part of a list that was asked for.
type window struct {
	index, offset, size int
}

var errWindow = errors.New("page or size out of range")

func (l List) window(q url.Values) (window, error) {
	index, err := number(q, l.PageParam, l.FirstPage)
	if err != nil {
		return window{}, err
	}
	size, err := number(q, l.SizeParam, l.DefaultSize)
	if err != nil {
		return window{}, err
	}
	if size == 0 || index < l.FirstPage && l.RefuseBelow {
		return window{}, errWindow
	}
	index, size = max(index, l.FirstPage), min(size, l.MaxSize)
	offset := (index - l.FirstPage) * size
	if l.IgnorePage {
		offset = 0
	}
	return window{index, offset, size}, nil
}

// number reads a query parameter of up to nine digits.
func number(q url.Values, name string, absent int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || len(text) > 9 {
		return 0, errWindow
	}
	return int(n), nil
}

type pageInfo struct {
	Page             int    `json:"page"`
	Size             int    `json:"size"`
	TotalPages       int    `json:"totalPages"`
	TotalElements    int    `json:"totalElements"`
	NumberOfElements int    `json:"numberOfElements"`
	Sort             string `json:"sort"`
}

// enveloped wraps a list as the switch Envelope says.
func (s *Sandbox) enveloped(customers []byte, info pageInfo) []byte {
	key := s.opt.Switches.List.Envelope
	if key == "array" {
		return customers
	}
	page, _ := json.Marshal(info) // numbers and a word
	out := object{field(key, customers), field("page", page)}
	if key == "customers" {
		out = append(out, field("pagination", page))
	}
	return out.json()
}

// matching returns the customers, oldest first, that pass every filter. Without a filter it returns the given
// slice.
func (s *Sandbox) matching(customers []*customer, q url.Values) []*customer {
	filters := s.filters(q)
	if len(filters) == 0 {
		return customers
	}
	var out []*customer
	for _, c := range customers {
		if !slices.ContainsFunc(filters, func(keep func(*customer) bool) bool { return !keep(c) }) {
			out = append(out, c)
		}
	}
	return out
}

// filters reads the list's filters. Filters with several values take repeated
// parameters and comma lists.
func (s *Sandbox) filters(q url.Values) []func(*customer) bool {
	var out []func(*customer) bool
	if words := strings.Fields(strings.ToLower(q.Get("searchText"))); len(words) > 0 {
		out = append(out, func(c *customer) bool { return c.resembles(words) })
	}
	if q.Get("onlyCustomersWithActivity") == "true" {
		out = append(out, func(c *customer) bool { return len(c.mandates) > 0 })
	}
	if statuses := values(q, "ddMandateStatuses"); len(statuses) > 0 {
		out = append(out, func(c *customer) bool {
			return c.latest() != nil && slices.Contains(statuses, string(c.latest().Status))
		})
	}
	if statuses := values(q, s.opt.Switches.List.FinancialParam); len(statuses) > 0 {
		out = append(out, func(c *customer) bool { return slices.Contains(statuses, c.financial) })
	}
	return out
}

func values(q url.Values, name string) []string {
	return strings.FieldsFunc(strings.Join(q[name], ","), func(r rune) bool { return r == ',' })
}

// resembles is the fuzzy search: one of the words occurs somewhere in the name
// or an e-mail address. It looks at nothing else.
func (c *customer) resembles(words []string) bool {
	text := strings.ToLower(c.name + "\n" + strings.Join(c.emails, "\n"))
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// order returns the name of the order that a list has.
func (l List) order(q url.Values) string {
	if !l.SortParam {
		return l.Sort
	}
	property, direction, _ := strings.Cut(q.Get("sort"), ",")
	down := strings.EqualFold(direction, "desc")
	switch {
	case property == "creationTime" && down:
		return "created_desc"
	case property == "creationTime":
		return "created_asc"
	case property == "lastUpdatedTime" && down:
		return "updated_desc"
	case property == "name":
		return "name"
	}
	return l.Sort
}

// sorted returns customers, which come oldest first, in another order.
func (s *Sandbox) sorted(customers []*customer, order string) []*customer {
	if order == "created_asc" {
		return customers
	}
	out := slices.Clone(customers)
	slices.Reverse(out)
	switch order {
	case "name":
		slices.SortStableFunc(out, func(a, b *customer) int { return strings.Compare(a.name, b.name) })
	case "updated_desc":
		slices.SortStableFunc(out, func(a, b *customer) int { return b.updated.Compare(a.updated) })
	}
	return out
}
