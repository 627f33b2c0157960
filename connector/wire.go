package connector

import (
	"mime"
	"net/netip"
	"strings"
)

// IsLoopback reports whether a host, as an address names it without its port, is this
// machine: what goes there crosses no network, so it may go without TLS.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// IsJSON reports whether the value of a Content-Type header says that a body is JSON.
func IsJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || media == "text/json" ||
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}
