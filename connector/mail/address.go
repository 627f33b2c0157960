package mail

import (
	"errors"
	"regexp"
	"strings"

	"payersync/connector"
)

// Plain addresses: a local part without quotes, and the name of a host. Percent signs and exclamation marks
// are excluded: some servers still use them to relay mail to a third place.
var plainAddress = regexp.MustCompile("^[A-Za-z0-9#$&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9#$&'*+/=?^_`{|}~-]+)*" +
	`@[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)

// The reasons why an address is not written to. None of them repeats the address.
var (
	ErrNoAddress      = errors.New("there is no address")
	ErrManyAddresses  = errors.New("it is more than one address")
	ErrNamedAddress   = errors.New("it is a name and an address; the address alone is wanted")
	ErrForeignLetters = errors.New("it has letters that mail servers do not take in an address; a domain can be written with xn--")
	ErrNotPlain       = errors.New("it is no plain address such as accounts@example.com")
)

// CheckAddress returns why a text is not exactly one plain address, nil when it is one.
func CheckAddress(s string) error {
	const longest, longestLocal = 254, 64
	local, _, _ := strings.Cut(s, "@")
	switch {
	case strings.TrimSpace(s) == "":
		return ErrNoAddress
	case strings.Count(s, "@") > 1 || strings.ContainsAny(s, ",;"):
		return ErrManyAddresses
	case strings.ContainsAny(s, "<>"):
		return ErrNamedAddress
	case strings.ContainsFunc(s, func(r rune) bool { return r > '~' }):
		return ErrForeignLetters
	case len(s) > longest || len(local) > longestLocal || !plainAddress.MatchString(s):
		return ErrNotPlain
	}
	return nil
}

var (
	// anyAddress matches anything like an address, rather too much than too little.
	anyAddress = regexp.MustCompile(`"[^"]*"@[^\s<>()"',;]*|[^\s<>()"',;:]*@[^\s<>()"',;:]*`)
	enhanced   = regexp.MustCompile(`^[245]\.\d{1,3}\.\d{1,3}\b`)
)

// cleaned returns a server's answer in one line, without addresses and without the parts of the one we know
// of.
func cleaned(said, address string) string {
	const longest = 300
	s := anyAddress.ReplaceAllString(connector.OneLine(strings.ToValidUTF8(said, "�")), "<address>")
	local, domain, _ := strings.Cut(address, "@")
	for _, part := range []string{domain, local} {
		word := regexp.MustCompile(`(?i)(^|[^a-z0-9]|[=%]40)` + regexp.QuoteMeta(part) + `($|[^a-z0-9])`)
		for range 2 { // two neighbours share the text between them
			s = word.ReplaceAllString(s, "${1}…${2}")
		}
	}
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}
