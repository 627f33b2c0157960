package billing

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// ErrCannotSign means the configuration has only public keys, so only the service can sign.
var ErrCannotSign = errors.New("sign a delivery: the configuration holds public keys alone, and only the service has what signs; let it send one")

// Sign signs a delivery of our own with the first secret, like the service, and sets its headers, to let an operator
// test the endpoint. With public keys alone it returns ErrCannotSign.
func (v *Verifier) Sign(h http.Header, id string, body []byte, now time.Time) error {
	shared := slices.IndexFunc(v.keys, func(k signingKey) bool { return !k.public })
	if shared < 0 {
		return ErrCannotSign
	}
	s := v.signature
	d := delivery{body: body, timestamp: strconv.FormatInt(now.Unix(), 10), id: id}
	if s.Scheme == schemeAdfin {
		d.timestamp = now.UTC().Format(time.RFC3339)
	}
	signature := s.Prefix + v.spell(v.sign(v.keys[shared].bytes, v.message(d)))[0]
	switch {
	case s.Scheme == schemeStandard:
		signature = "v1," + signature
	case s.TimestampItem != "":
		signature = s.TimestampItem + "=" + d.timestamp + "," + s.SignatureItem + "=" + signature
	case s.SignatureItem != "":
		signature = s.SignatureItem + "=" + signature
	}
	h.Set(s.Header, signature)
	for name, value := range map[string]string{s.TimestampHeader: d.timestamp, s.IDHeader: id} {
		if name != "" {
			h.Set(name, value)
		}
	}
	return nil
}
