package connector

import (
	"mime"
	"net/netip"
	"strings"
)

// IsLoopback reports whether a host without its port is this machine. Such requests cross no network, so they may go
// without TLS.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// IsJSON reports whether a Content-Type header declares JSON.
func IsJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || media == "text/json" ||
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}
