package billing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"payersync/connector"
)

var (
	errNoID          = errors.New("the customer has no id")
	errNoMandate     = errors.New("the mandate has no id")
	errOtherCustomer = errors.New("it is another customer")
	errLink          = errors.New("the signing link is not a web address")
)

// readCustomer reads a customer in any spelling. raw must have passed checkJSON. The lookup values and the mandate are
// stored in the form of connector.Indexed.
func (d Dialect) readCustomer(raw json.RawMessage) (connector.RemoteCustomer, error) {
	o, err := parseObject(raw)
	if err != nil {
		return connector.RemoteCustomer{}, err
	}
	out := connector.RemoteCustomer{ID: connector.Indexed(o.text("id")), Name: o.text("name")}
	if out.ID == "" {
		return connector.RemoteCustomer{}, errNoID
	}
	for person := range elements(o.get("people")) {
		out.Emails = appendText(out.Emails, person.text("email"))
		out.Phones = appendText(out.Phones, person.text("phone", "phoneNo"))
		if d.PersonPrimary != "" || d.PersonComms != "" || person.has("id") {
			out.People = append(out.People, d.readPerson(person))
		}
	}
	for address := range elements(o.get("addresses")) {
		out.Addresses = append(out.Addresses, connector.Address{
			Line1: address.text("line1", "addressLine1"), City: address.text("city"),
			PostCode: address.text("postCode", "postalCode"), Country: address.text("country"),
		})
	}
	out.Financial = d.financialOf(o)
	out.ExternalData = pairsOf(o.get("externalData"))
	if mandate, err := parseObject(o.get("directDebitMandate")); err == nil {
		out.Mandate = readSummary(mandate, out.ID)
		o.set("directDebitMandate", withoutBankFields(mandate))
		raw = o.bytes()
	}
	out.Raw = bytes.Clone(raw)
	return out, nil
}

// elements yields the objects among a list's elements; anything else than a list
// has none.
func elements(list json.RawMessage) iter.Seq[object] {
	return func(yield func(object) bool) {
		parts, err := eachElement(list)
		if err != nil {
			return
		}
		for part := range parts {
			if o, err := parseObject(part); err == nil && !yield(o) {
				return
			}
		}
	}
}

func appendText(list []string, text string) []string {
	if text == "" {
		return list
	}
	return append(list, text)
}

// readSummary returns a customer's mandate; nil for an empty object, because services write a missing mandate this way.
func readSummary(o object, customerID string) *connector.Mandate {
	m := connector.Mandate{
		ID:          connector.Indexed(o.text("id")),
		CustomerID:  customerID,
		Status:      connector.MandateStatus(connector.Indexed(o.text("status"))),
		ServiceTime: connector.Indexed(o.text("lastUpdatedTime", "lastUpdateTime")),
		URL:         o.text("url"),

		FailureReason: connector.NewSecret(o.text("failureReason")),
	}
	if m.ID == "" && m.Status == "" {
		return nil
	}
	if !isWebAddress(m.URL) {
		m.URL = ""
	}
	return &m
}

// withoutBankFields removes fields never to be stored with the customer: account numbers, non-displayable reasons, and
// the link, because it is a secret.
func withoutBankFields(o object) json.RawMessage {
	for _, key := range []string{"bankAccountNumber", "failureReason", "url"} {
		o.remove(key)
	}
	return o.bytes()
}

// readMandate reads the answer to a link request. It refuses an answer about another customer.
func readMandate(raw json.RawMessage, customerID string) (connector.Mandate, error) {
	o, err := parseObject(raw)
	if err != nil {
		return connector.Mandate{}, err
	}
	m := readSummary(o, customerID)
	if m == nil || m.ID == "" {
		return connector.Mandate{}, errNoMandate
	}
	if link := o.text("url"); link != "" && m.URL == "" {
		return connector.Mandate{}, errLink
	}
	if customer, err := parseObject(o.get("customer")); err == nil {
		if id := connector.Indexed(customer.text("id")); id != "" && id != customerID {
			return connector.Mandate{}, errors.New("the mandate belongs to another customer")
		}
	}
	return *m, nil
}

// isWebAddress reports whether a person can safely be sent there.
func isWebAddress(link string) bool {
	u, err := url.Parse(link)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// ParseTime reads a timestamp in any known form of the service: RFC 3339, the same with "UTC" or nothing in place of
// the zone (read as UTC), and Unix seconds or milliseconds. The result is in UTC.
func ParseTime(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	if at, ok := parseUnix(text); ok {
		return at, nil
	}
	plain := strings.TrimSpace(strings.TrimSuffix(text, "UTC"))
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
		if at, err := time.Parse(layout, plain); err == nil && inRange(at) {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("timestamp of %d characters is in no known form", len(text))
}

const (
	maxUnixDigits      = 15
	firstUnixMilli     = 100_000_000_000 // as seconds, this is the year 5138
	maxTimestampedYear = 9999
)

func parseUnix(text string) (time.Time, bool) {
	if text == "" || len(text) > maxUnixDigits || strings.Trim(text, "0123456789") != "" {
		return time.Time{}, false
	}
	var n int64
	for _, digit := range text {
		n = 10*n + int64(digit-'0')
	}
	at := time.Unix(n, 0)
	if n >= firstUnixMilli {
		at = time.UnixMilli(n)
	}
	return at.UTC(), inRange(at)
}

func inRange(at time.Time) bool {
	year := at.UTC().Year()
	return year > 0 && year <= maxTimestampedYear
}
