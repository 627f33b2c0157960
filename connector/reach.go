package connector

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Reach restricts the addresses for connections. The zero value allows all.
type Reach struct {
	PublicOnly bool           // public addresses only, whatever a name resolves to (fault F81)
	Also       []netip.Prefix // addresses that are allowed nevertheless
}

// ErrAddress means connections to an address are forbidden.
var ErrAddress = errors.New("it is not a public address, and accounts.networks of the node does not allow it")

// Dialer returns a dialer for allowed addresses, each within a time.
func (r Reach) Dialer(within time.Duration) *net.Dialer {
	d := &net.Dialer{Timeout: within, KeepAlive: 30 * time.Second}
	if r.PublicOnly {
		d.Control = r.control
	}
	return d
}

// control checks the resolved address right before the connection, so a later change of the name has no effect.
func (r Reach) control(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || !r.Allows(target.Addr()) {
		return fmt.Errorf("%s: %w", address, ErrAddress)
	}
	return nil
}

// Allows reports whether an address may be connected to.
func (r Reach) Allows(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return !r.PublicOnly || isPublic(ip) ||
		slices.ContainsFunc(r.Also, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// reserved are the special-purpose blocks missing from the netip predicates, and blocks with another address inside
// them.
var reserved = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	"5f00::/16", "fec0::/10",
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

func isPublic(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() &&
		!slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(ip) })
}
