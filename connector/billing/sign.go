package billing

import (
	"net/http"
	"strconv"
	"time"
)

// Sign signs a delivery of our own with the first secret, as the service would,
// and sets its headers: for an operator's test of the endpoint.
func (v *Verifier) Sign(h http.Header, id string, body []byte, now time.Time) {
	d := delivery{body: body, timestamp: strconv.FormatInt(now.Unix(), 10), id: id}
	signature := v.signature.Prefix + v.spell(v.sign(v.keys[0], d))[0]
	if v.signature.Scheme == schemeStandard {
		signature = "v1," + signature
	}
	h.Set(v.signature.Header, signature)
	for name, value := range map[string]string{v.signature.TimestampHeader: d.timestamp, v.signature.IDHeader: id} {
		if name != "" {
			h.Set(name, value)
		}
	}
}
