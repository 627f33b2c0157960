package pages

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
)

// A device cookie proves an earlier sign-in of a user with this browser (OWASP, "device cookies"). It replaces no
// password. Its holder has a separate counter and queue, so attacks by strangers do not lock the user out.
const (
	// all wrong passwords allowed with one cookie; afterwards its holder is a stranger
	deviceTries   = 10
	deviceFor     = 180 * 24 * time.Hour // a cookie's life; each sign-in makes another
	deviceUsers   = 4                    // users of one browser, each with an entry in the cookie
	deviceDivider = "~"                  // between the entries
)

// device is an entry of a device cookie, valid for a user.
type device struct {
	nonce   string // "" for no valid entry
	expires time.Time
}

// deviceCookie returns the cookie with a browser's entries.
func (p *Pages) deviceCookie(entries []string) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure wherever there is TLS
		Name: p.logins.Cookie.Name + "-device", Value: strings.Join(entries, deviceDivider), Path: "/",
		MaxAge:   int(deviceFor / time.Second),
		HttpOnly: true, Secure: p.cfg.Secure, SameSite: http.SameSiteStrictMode,
	}
}

// deviceEntries returns the entries of the device cookie of a request, whether valid or not.
func (p *Pages) deviceEntries(r *http.Request) []string {
	c, err := r.Cookie(p.deviceCookie(nil).Name)
	if err != nil || c.Value == "" {
		return nil
	}
	entries := strings.SplitN(c.Value, deviceDivider, deviceUsers+1)
	return entries[:min(len(entries), deviceUsers)]
}

// deviceOf returns the request's entry valid for a user with this password. It takes the same time for unknown names.
func (p *Pages) deviceOf(r *http.Request, name string, password connector.Secret, now time.Time) (found device) {
	for _, entry := range p.deviceEntries(r) {
		if d := p.validDevice(entry, name, password, now); d.nonce != "" {
			found = d
		}
	}
	return found
}

func (p *Pages) validDevice(entry, name string, password connector.Secret, now time.Time) device {
	parts := strings.Split(entry, ".")
	if len(parts) != 3 {
		return device{}
	}
	right := subtle.ConstantTimeCompare([]byte(parts[2]),
		[]byte(p.deviceSignature(name, password, parts[0], parts[1]))) == 1
	until, err := strconv.ParseInt(parts[0], 10, 64)
	if expires := time.Unix(until, 0); right && err == nil && !password.IsZero() && now.Before(expires) {
		return device{nonce: parts[1], expires: expires}
	}
	return device{}
}

// deviceSignature binds an entry to the user and the password hash, so a new password revokes it.
func (p *Pages) deviceSignature(name string, password connector.Secret, expires, nonce string) string {
	return p.cfg.Ledger.SignInHash("device", name, password.Expose(), expires, nonce)
}

// keepDevice replaces the user's entry in the browser's cookie after a sign-in. It keeps the entries of other users.
func (p *Pages) keepDevice(w http.ResponseWriter, r *http.Request, name string, password connector.Secret,
	now time.Time) {
	expires, nonce := strconv.FormatInt(now.Add(deviceFor).Unix(), 10), rand.Text()
	entries := []string{strings.Join([]string{expires, nonce, p.deviceSignature(name, password, expires, nonce)}, ".")}
	for _, entry := range p.deviceEntries(r) {
		if len(entry) < 100 && len(entries) < deviceUsers && p.validDevice(entry, name, password, now).nonce == "" {
			entries = append(entries, entry)
		}
	}
	http.SetCookie(w, p.deviceCookie(entries))
}
