package connector

import (
	"errors"
	"net/netip"
	"testing"
)

// covers F81
func TestOnlyPublicAddressesAreDialled(t *testing.T) {
	t.Parallel()
	public := []string{
		"1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.1", "192.167.1.1", "100.63.255.255", "100.128.0.1",
		"11.0.0.1",
		"169.253.1.1", "198.17.255.255", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4009::1", "::ffff:8.8.8.8",
	}
	internal := []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.1.2.3",
		"169.254.1.1",
		"169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1",
		"198.18.0.1", "198.19.255.255",
		"198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:0",
		"64:ff9b::7f00:1", "64:ff9b::a00:1",
		"64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::", "3fff::1", "5f00::1",
		"fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1",
	}
	for _, text := range public {
		if !(Reach{PublicOnly: true}).Allows(netip.MustParseAddr(text)) {
			t.Errorf("%s counts as internal", text)
		}
	}
	for _, text := range internal {
		if (Reach{PublicOnly: true}).Allows(netip.MustParseAddr(text)) {
			t.Errorf("%s counts as public", text)
		}
	}
	some := Reach{PublicOnly: true, Also: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}}
	for address, want := range map[string]bool{
		"": false, "localhost:80": false, "/run/postgresql/.s.PGSQL.5432": false, "10.1.0.1:443": false,
		"[fe80::1%lo]:443": false, "169.254.169.254:80": false,
		"10.0.1.1:443": true, "[::ffff:10.0.1.1]:443": true, "1.1.1.1:443": true,
	} {
		if err := some.control("tcp", address, nil); (err == nil) != want || err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("%q is dialled with %v", address, err)
		}
	}
	if !(Reach{}).Allows(netip.MustParseAddr("127.0.0.1")) || (Reach{}).Dialer(0).Control != nil {
		t.Error("without a limit something is refused")
	}
}
