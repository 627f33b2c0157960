package httpsource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RoundTrip answers a request of the profile.
func (f *Fake) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	status, header, body, list := f.answer(req)
	after := f.After
	f.mu.Unlock()
	if list && after != nil && status == http.StatusOK {
		after()
	}
	header.Set("Date", f.Now().UTC().Format(http.TimeFormat))
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: req}, nil
}

func (f *Fake) answer(req *http.Request) (status int, header http.Header, body []byte, list bool) {
	header = http.Header{"Content-Type": {"application/json"}}
	got, err := parts(req)
	if err != nil {
		return http.StatusBadRequest, header, []byte(`{}`), false
	}
	if status, written, known := f.field(req, got); known {
		body, _ := json.Marshal(written)
		status, body = f.suffer(header, status, body)
		return status, header, body, false
	}
	if further, known := f.further(req, got); known {
		if further == nil {
			return http.StatusNotFound, header, []byte(`{}`), false
		}
		raw, _ := json.Marshal(further)
		return http.StatusOK, header, raw, false
	}
	if !slices.Contains(f.paths, got["path"]) || got["query fake_at"] == "" && !f.fits(got) {
		tenant, err := filled(f.profile.fakeTenant, f.source.set)
		raw, _ := json.Marshal(tenant)
		if err != nil || !f.same(req, got, f.profile.tenant, f.source.request("", time.Time{})) {
			return http.StatusBadRequest, header, []byte(`{"error": "the model does not know this request"}`), false
		}
		return http.StatusOK, header, raw, false
	}
	status, body, err = f.page(got, header)
	if err != nil {
		return http.StatusBadRequest, header, []byte(`{"error": "the model does not understand this request"}`), true
	}
	if f.Fault != "" && f.paged(got) {
		status, body = f.suffer(header, status, body)
	}
	return status, header, body, true
}

// fits reports whether the constant parts of a request are those of the profile.
func (f *Fake) fits(got map[string]string) bool {
	for part, value := range f.expected {
		if got[part] != value {
			return false
		}
	}
	return true
}

// paged reports whether a request asks for a page behind the first. Troubles begin there.
func (f *Fake) paged(got map[string]string) bool {
	at, _, err := f.place(got)
	return err != nil || at > 0
}

// suffer spoils an answer by the model's fault.
func (f *Fake) suffer(header http.Header, status int, body []byte) (int, []byte) {
	switch f.Fault {
	case Down:
		return http.StatusInternalServerError, []byte(`{}`)
	case Overloaded:
		return http.StatusServiceUnavailable, []byte(`{}`)
	case WebPage:
		return http.StatusOK, []byte("<!DOCTYPE html><p>Maintenance")
	case Cut:
		return status, body[:len(body)/2]
	case NoList:
		return status, []byte(`{"nothing": true}`)
	case Throttled:
		header.Set("Retry-After", "3600")
		return http.StatusTooManyRequests, []byte(`{}`)
	case Bare:
		return http.StatusTooManyRequests, []byte(`{}`)
	case Expired:
		return http.StatusUnauthorized, []byte(`{}`)
	case Forbidden:
		return http.StatusForbidden, []byte(`{}`)
	case Redirect:
		header.Set("Location", "https://elsewhere.example/")
		return http.StatusFound, []byte(`{}`)
	case Elsewhere:
		return status, bytes.ReplaceAll(body, []byte(f.source.base.Host), []byte("elsewhere.example"))
	}
	return status, body
}

// pause is how long the model takes no request after a throttle without a time: the shortest wait of the profile's
// rules.
func (f *Fake) pause() (out time.Duration) {
	for _, e := range f.profile.file.Errors {
		if wait := time.Duration(e.Wait); wait > 0 && (out == 0 || wait < out) {
			out = wait
		}
	}
	return out
}

// place reads where a request wants to go on, and since when.
func (f *Fake) place(got map[string]string) (at int, since time.Time, err error) {
	list := f.listed()
	if raw := got["query fake_at"]; raw != "" {
		at, err = strconv.Atoi(raw)
		if stamp := got["query fake_since"]; err == nil && stamp != "" {
			since, err = time.Parse(time.RFC3339Nano, stamp)
		}
		if f.profile.walk == Keyset { // at is an id
			at = f.behind(list, at, since)
		}
		return at, since, err
	}
	if words, ok := f.word(got, "since"); ok {
		if since = readTime(string(f.profile.file.List.Since), words, f.source.zone); since.IsZero() {
			return 0, since, errors.New("no time")
		}
	}
	if words, ok := f.word(got, "after"); ok {
		id, _ := strconv.Atoi(words)
		return f.behind(list, id, since), since, nil
	}
	if words, ok := f.word(got, "cursor"); ok {
		at, err = strconv.Atoi(strings.TrimPrefix(words, cursorBegin))
		if f.profile.walk == Keyset { // at is an id
			at = f.behind(list, at, since)
		}
		return at, since, err
	}
	k, ok := f.keys["page"]
	if !ok || k.step == 0 {
		return 0, since, nil
	}
	n, err := strconv.Atoi(got[k.name])
	if at = n - k.at0; at*k.step < 0 {
		return 0, since, errors.New("no page")
	}
	if k.step == learned { // an offset, and no number of a page
		return at, since, err
	}
	return at / k.step * f.size(got), since, err
}

// behind is the place of the first listed customer with a greater id.
func (f *Fake) behind(list []*customer, id int, since time.Time) int {
	n := 0
	for _, c := range f.since(list, since) {
		if c.number <= id {
			n++
		}
	}
	return n
}

// word returns the text of a variable in a request.
func (f *Fake) word(got map[string]string, name string) (string, bool) {
	k, known := f.keys[name]
	if !known {
		return "", false
	}
	words, there := got[k.name]
	words, ok1 := strings.CutPrefix(words, k.before)
	words, ok2 := strings.CutSuffix(words, k.behind)
	return words, there && ok1 && ok2 && words != ""
}

func (f *Fake) size(got map[string]string) int {
	if k, ok := f.keys["size"]; ok {
		if n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(got[k.name], k.before), k.behind)); err == nil &&
			n > 0 {
			return n
		}
	}
	return f.source.size
}

// listed returns the customers in the order of the list.
func (f *Fake) listed() []*customer {
	out := slices.Clone(f.customers)
	if m := f.profile.file.Model; m.Order == m.Changed && m.Order != "none" {
		slices.SortStableFunc(out, func(a, b *customer) int { return a.updated.Compare(b.updated) })
	}
	return out
}

// since returns the customers changed at or after a time, at the system's grain.
func (f *Fake) since(list []*customer, since time.Time) []*customer {
	grain := max(time.Duration(f.profile.file.Model.Grain), time.Second)
	return slices.DeleteFunc(slices.Clone(list), func(c *customer) bool {
		at := c.updated.Truncate(grain)
		return at.Before(since) || f.profile.file.List.Exclusive && !since.IsZero() && at.Equal(since)
	})
}

// page writes a page of the list.
func (f *Fake) page(got map[string]string, header http.Header) (int, []byte, error) {
	at, since, err := f.place(got)
	if err != nil {
		return 0, nil, err
	}
	found, size := f.since(f.listed(), since), f.size(got)
	from := min(at, len(found))
	rows := found[from:min(from+size, len(found))]
	env := copyOf(f.source.set)
	list := make([]any, len(rows))
	for i, c := range rows {
		if list[i], err = f.listedAs(c); err != nil {
			return 0, nil, err
		}
	}
	env["rows"], env["total"], env["found"], env["size"], env["page"], env["pages"] = list, len(found), len(rows), size,
		at/size, (len(found)+size-1)/size
	env["next"], env["cursor"] = nil, nil
	if from+len(rows) < len(found) {
		env["next"] = f.link(got, rows[len(rows)-1], from+len(rows), since)
		env["cursor"] = f.cursor(rows[len(rows)-1], from+len(rows))
	}
	headers, err := filled(f.profile.fakeHeaders, env)
	if err != nil {
		return 0, nil, err
	}
	for name, v := range headers.(map[string]any) {
		if v != nil {
			header.Set(name, fmt.Sprint(v))
		}
	}
	v, err := filled(f.profile.fakeAnswer, env)
	if err != nil {
		return 0, nil, err
	}
	body, err := json.Marshal(v)
	return http.StatusOK, body, err
}

// cursorBegin begins the model's cursors, so that nothing mistakes them for numbers of pages.
const cursorBegin = "from-"

// cursor is the cursor of the next page.
func (f *Fake) cursor(last *customer, at int) string {
	if f.profile.walk == Keyset {
		return cursorBegin + strconv.Itoa(last.number)
	}
	return cursorBegin + strconv.Itoa(at)
}

// link is the address of the next page.
func (f *Fake) link(got map[string]string, last *customer, at int, since time.Time) string {
	if f.profile.walk == Keyset {
		at = last.number
	}
	q := url.Values{"fake_at": {strconv.Itoa(at)}}
	if !since.IsZero() {
		q.Set("fake_since", since.Format(time.RFC3339Nano))
	}
	return f.source.base.Scheme + "://" + f.source.base.Host + got["path"] + "?" + q.Encode()
}

func bodyOf(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }
