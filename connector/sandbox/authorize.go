package sandbox

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
)

// AuthorizePath is where a person gives a platform consent, below the sandbox's address.
const AuthorizePath = "/auth/login"

// consent is one whose code was not exchanged yet.
type consent struct {
	redirect  string // where the code was sent; "" for one that no page gave
	challenge string // what its verifier must hash to; "" for none
}

// isFor reports whether a request for tokens belongs to the consent.
func (g consent) isFor(form url.Values) bool {
	if g.redirect != "" && form.Get("redirect_uri") != g.redirect {
		return false
	}
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	return g.challenge == "" || base64.RawURLEncoding.EncodeToString(sum[:]) == g.challenge
}

// consentRequest reads what a platform asks a person for, and says in words what is
// wrong with it; "" for nothing. It takes any redirect address: nobody registers one here.
func (s *Sandbox) consentRequest(asked url.Values) (g consent, wrong string) {
	g = consent{asked.Get("redirect_uri"), asked.Get("code_challenge")}
	switch {
	case asked.Get("client_id") != s.opt.ClientID:
		return g, "The client_id is not known here."
	case asked.Get("response_type") != "code":
		return g, "The response_type must be code."
	case !absoluteURL(g.redirect):
		return g, "The redirect_uri is no address."
	case g.challenge != "" && asked.Get("code_challenge_method") != "S256":
		return g, "The code_challenge_method must be S256."
	}
	return g, ""
}

// consentPage asks the service's user for consent.
func (s *Sandbox) consentPage(w http.ResponseWriter, r *http.Request) {
	if _, wrong := s.consentRequest(r.URL.Query()); wrong != "" {
		http.Error(w, wrong, http.StatusBadRequest)
		return
	}
	render(w, "consent.html", struct{ App string }{s.opt.ClientID})
}

// consentForm sends the person back to the platform, with a code or without.
func (s *Sandbox) consentForm(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	asked := r.URL.Query()
	g, wrong := s.consentRequest(asked)
	if wrong != "" {
		http.Error(w, wrong, http.StatusBadRequest)
		return
	}
	back, _ := url.Parse(g.redirect) // consentRequest has read it
	answer := back.Query()
	answer.Set("state", asked.Get("state"))
	if r.PostFormValue("answer") == "no" {
		answer.Set("error", "access_denied")
	} else {
		unlock := s.lock()
		answer.Set("code", s.newCode(g))
		unlock()
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusSeeOther)
}
