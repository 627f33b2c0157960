package config

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"payersync/connector"
)

// metadataNames are the host names of clouds' metadata services, which give out the credentials of their
// machine.
var metadataNames = []string{"metadata", "metadata.google.internal", "metadata.goog", "instance-data",
	"instance-data.ec2.internal"}

// metadataAddresses are addresses of these services outside of link-local ranges.
var metadataAddresses = blocks("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128",
	"fd20:ce::254/128")

// carriesIPv4 are the blocks of IPv6 with an IPv4 address in their last four bytes.
var carriesIPv4 = blocks("::/96", "64:ff9b::/96")

// isLinkLocal reports whether a host of a web address is link-local or the metadata service of a cloud, in
// any spelling accepted by a resolver: 169.254.169.254 is also 0xa9fea9fe, 2852039166 and
// ::ffff:169.254.169.254. It resolves no name.
func isLinkLocal(host string) bool {
	// as HTTP clients read digits and stops of other scripts
	host = strings.ReplaceAll(norm.NFKC.String(host), "\u3002", ".")
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if slices.Contains(metadataNames, host) {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		var known bool
		if ip, known = numericIPv4(host); !known {
			return false
		}
	}
	ip = ip.WithZone("").Unmap()
	inside := func(p netip.Prefix) bool { return p.Contains(ip) }
	if ip.Is6() {
		bytes := ip.As16()
		switch {
		case slices.ContainsFunc(carriesIPv4, inside):
			ip = netip.AddrFrom4([4]byte(bytes[12:]))
		case bytes[0] == 0x20 && bytes[1] == 0x02: // 2002::/16, 6to4
			ip = netip.AddrFrom4([4]byte(bytes[2:6]))
		}
	}
	return ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || slices.ContainsFunc(metadataAddresses, inside)
}

// numericIPv4 reads an address like the C library: one to four numbers with dots between them, each decimal,
// octal with 0 or hexadecimal with 0x in front. The last number fills the remaining bytes.
func numericIPv4(host string) (ip netip.Addr, known bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return ip, false
	}
	var whole uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (4 - i)
		}
		base := 10
		switch {
		case strings.HasPrefix(part, "0x"):
			part, base = cmp.Or(part[2:], "0"), 16
		case len(part) > 1 && part[0] == '0':
			part, base = part[1:], 8
		}
		n, err := strconv.ParseUint(part, base, bits)
		if err != nil {
			return ip, false
		}
		whole = whole<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(whole >> 24), byte(whole >> 16), byte(whole >> 8), byte(whole)}), true
}

func blocks(texts ...string) (out []netip.Prefix) {
	return connector.Map(texts, netip.MustParsePrefix)
}
